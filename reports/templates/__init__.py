"""The templates of pages: what they are given is escaped by itself."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(words: str) -> str:
    """Return words as they stand in HTML and in XML alike: what XML 1.0 forbids, as control characters, is U+FFFD."""
    return escape(NO_XML.sub("\ufffd", words))


@cache
def environment() -> Environment:
    """Return the environment of the templates; a name that a template is not given is an error."""
    loader = PackageLoader("evenfold.reports", "templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def rendered(template: str, **values: Any) -> str:
    """Return a template filled with values."""
    return environment().get_template(template).render(**values)


@cache
def style() -> str:
    """Return the style sheet that pages and picture files share."""
    return rendered("style.css")


@cache
def scoped_style() -> str:
    """Return the style sheet for inside ``@scope (.evenfold)``, where it touches nothing else of a document."""
    return re.sub(r":root|(body)?\.evenfold", ":scope", style())


def macro(name: str, value: Any) -> str:
    """Return one part of a page, such as a table or a figure."""
    return str(getattr(environment().get_template("parts.html.j2").module, name)(value))

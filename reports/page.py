"""One page of one design: the verdict, four tiles, findings, pictures that state results, details folded at the end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import cache
from html import escape
from typing import Any, Protocol

from evenfold.splitters.naming import installed
from jinja2 import Environment, PackageLoader, StrictUndefined

NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(words: str) -> str:
    """Return words as they stand in HTML and in XML alike: what XML 1.0 forbids, as control characters, is U+FFFD."""
    return escape(NO_XML.sub("\ufffd", words))


@cache
def environment() -> Environment:
    """Return the environment of the templates, which escape what they are given; a name that is lacking is an error."""
    loader = PackageLoader("evenfold.reports", "templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def rendered(template: str, **values: Any) -> str:
    """Return a template filled with values."""
    return environment().get_template(template).render(**values)


@cache
def style() -> str:
    """Return the style sheet that pages and picture files share."""
    return rendered("style.css")


def macro(name: str, value: Any) -> str:
    """Return one part of a page, such as a table or a figure."""
    return str(getattr(environment().get_template("parts.html.j2").module, name)(value))


class Verdict(Enum):
    """The verdict of a page: its word, its mark (colour is never alone), and its style."""

    GOOD = ("Good", "✓", "good")
    LOOK = ("Look at this", "!", "look")
    STOP = ("Do not use", "✗", "stop")
    UNCHECKED = ("Not audited", "?", "open")
    NONE = ("", "", "open")

    def __init__(self, word: str, mark: str, css: str) -> None:
        self.word, self.mark, self.css = word, mark, css


OF_SEVERITY = {"failed": Verdict.STOP, "error": Verdict.STOP, "warning": Verdict.LOOK, "note": Verdict.NONE}


class Block(Protocol):
    """Something that stands on a page: a picture, a table, a paragraph."""

    def __html__(self) -> str:
        """Return its HTML."""


@dataclass(frozen=True)
class Number:
    """A number that people read rounded and programs read whole, in ``<data value>``."""

    value: float | int | None
    text: str

    def __str__(self) -> str:
        return self.text

    def __html__(self) -> str:
        return macro("number", self) if self.value is not None else "-"


def number(value: float | int | None, text: str | None = None) -> Number:
    """Return a number as a cell; by default with commas and four decimals, or four digits of what is below 0.001."""
    if value is None or value != value:
        return Number(None, "-")
    shape = "," if isinstance(value, int) else ".4g" if 0 < abs(value) < 1e-3 else ",.4f"
    return Number(value, text or f"{value:{shape}}")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    words: str
    css: str = ""

    def __html__(self) -> str:
        return f'<p class="{self.css}">{escaped(self.words)}</p>'


@dataclass(frozen=True)
class Table:
    """A table: cells are text or numbers, and the first of a row names it. ``css="facts"``: names and values.

    ``shares``: of the first cells of each row, in per cent of the row, by which they are shaded.
    """

    label: str
    rows: Sequence[Sequence[Any]]
    head: Sequence[str] = ()
    note: str = ""
    css: str = ""
    shares: Sequence[Sequence[int]] = ()

    def __html__(self) -> str:
        return macro("shaded" if self.shares else "table", self)


def facts(label: str, rows: Sequence[tuple[str, Any]]) -> Table:
    """Return names and values side by side."""
    cells = [(name, value if hasattr(value, "__html__") else str(value)) for name, value in rows]
    return Table(label, cells, css="facts")


@dataclass(frozen=True)
class Tile:
    """A figure that is read first, what it is, and what to hold it against."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class Remark:
    """A finding in a sentence: a failed gate, an error, a warning or a note, and the check that made it."""

    severity: str
    message: str
    check: str = ""

    @property
    def verdict(self) -> Verdict:
        """The best verdict of a page that holds it."""
        return OF_SEVERITY[self.severity]


def remarks(severity: str, sentences: Iterable[str]) -> list[Remark]:
    """Return a finding for each sentence that says something."""
    return [Remark(severity, words) for words in sentences if words]


@dataclass(frozen=True)
class Section:
    """A part of a page; its title states what its pictures show. Inside another part it opens when it is asked for."""

    id: str
    title: str
    blocks: Sequence[Block]

    def __html__(self) -> str:
        return macro("folded", self)


def worded(id: str, title: str, sentences: Sequence[str]) -> list[Section]:
    """Return a section of a paragraph for each sentence; nothing where there is none."""
    return [Section(id, title, [*map(Paragraph, sentences)])] if sentences else []


@dataclass(frozen=True)
class Origin:
    """The origin of a page: the data's name, and the run that records it."""

    data: str = ""
    run_id: str = ""

    def words(self, *about: str | None) -> list[str]:
        """Return the words of a footer, after those ``about`` the page that there are; today's date among them."""
        run = f"MLflow run {self.run_id[:8]}" if self.run_id else ""
        today = f"evenfold {installed('evenfold')}", f"{date.today():%d %b %Y}"
        return [*filter(None, [*about, self.data, *today, run])]


@dataclass(frozen=True)
class Page:
    """A page's content, in its order; ``html`` draws all of it, ``band`` its top and first picture for notebooks."""

    title: str
    verdict: Verdict
    lead: str
    tiles: Sequence[Tile] = ()
    findings: Sequence[Remark] = ()
    sections: Sequence[Section] = ()
    details: Sequence[Section] = ()
    footer: Sequence[str] = ()

    def html(self) -> str:
        """Return one self-contained page: it opens from disk, needs no network and runs no script."""
        return rendered("page.html.j2", page=self)

    def band(self) -> str:
        """Return the top of the page and its first picture, to stand in another document."""
        # For inside ``@scope (.evenfold)``, where it touches nothing else of a document.
        return rendered("band.html.j2", page=self, scoped_style=re.sub(r":root|(body)?\.evenfold", ":scope", style()))

"""The documentation site: Sphinx, MyST Markdown, and the pages that the code writes itself at each build."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "tests")]

project = "evenfold"
author = "the evenfold developers"
release = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "**/_build"]
suppress_warnings = ["myst.header"]

autodoc_typehints = "signature"
python_maximum_signature_line_length = 88  # longer ones: a parameter a line
autodoc_member_order = "alphabetical"
# scikit-learn adds its metadata routing to every strategy; its own site documents it.
autodoc_default_options = {"exclude-members": "set_split_request, get_metadata_routing"}
# Prefect and MLflow document their own members on their own sites.
autodoc_inherit_docstrings = False
nitpicky = False

html_theme = "pydata_sphinx_theme"
html_title = "evenfold"
html_static_path = ["_static"]
html_extra_path = ["schemas"]  # JSON Schemas, beside the pages: <site>/evenfold-manifest-1.schema.json
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"gallery": []}  # it stands alone
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}
# Nothing is asked of another host: search works offline, fonts are the reader's own.
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True


def write_pages(app: Any) -> None:
    """Write the pages that come from the code, where Sphinx finds them; an unchanged one keeps its time."""
    from generated_pages import generated_pages

    for name, text in generated_pages().items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def keep_flags_whole(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let no line of code break inside a flag, between -- and its name; what is copied stays as it is."""

    def whole(block: re.Match[str]) -> str:
        return re.sub(r"(?<![\w-])--[a-z][a-z0-9-]*", r'<span class="flag">\g<0></span>', block[0])

    if "body" in context:
        context["body"] = re.sub(r"<pre>.*?</pre>", whole, context["body"], flags=re.DOTALL)


def show_types_alone(app: Any, documented: Any, bound: bool) -> None:
    """Let signatures show types, without what Prefect's form and the flags are made of."""
    if isinstance(documented, type) or not callable(documented):
        return
    with contextlib.suppress(TypeError, ValueError, AttributeError):  # of what has no signature, or a fixed one
        signature, names = inspect.signature(documented), vars(sys.modules[documented.__module__])
        parameters = [each.replace(annotation=_plain(each.annotation, names)) for each in signature.parameters.values()]
        documented.__signature__ = signature.replace(parameters=parameters)
        documented.__annotations__ = {
            each.name: each.annotation for each in parameters if each.annotation != each.empty
        }


def _plain(annotation: Any, names: dict[str, Any]) -> Any:
    with contextlib.suppress(NameError):  # which only type checkers import
        return get_type_hints(type("_", (), {"__annotations__": {"it": annotation}}), names)["it"]
    return getattr(annotation, "__origin__", annotation)


def setup(app: Any) -> None:
    """Let the generated pages be written before Sphinx looks for sources."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-before-process-signature", show_types_alone)
    app.connect("html-page-context", keep_flags_whole)

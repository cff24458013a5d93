"""One HTML page that needs nothing else: no network, no script; light, dark and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ._style import STYLE

# Okabe and Ito (2008), Color Universal Design: seven colours that people with any colour vision tell apart.
LIGHT = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800")
DARK = ("#56B4E9", "#E69F00", "#1FBF93", "#E09BC4", "#3D8FD1", "#F07A2B", "#F0E442")
N_SHADES = 9


def page(title: str, lead: str, sections: Sequence[tuple[str, str, str]]) -> str:
    """Return the page: a title, a sentence (HTML), and sections (id, heading, HTML)."""
    body = "".join(f'<section id="{name}"><h2>{escape(head)}</h2>{inside}</section>' for name, head, inside in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{_colours()}</style></head>"
        f"<body><h1>{escape(title)}</h1><p>{lead}</p>{body}</body></html>\n"
    )


def _colours() -> str:
    def rules(colours: Sequence[str]) -> str:
        named = [f".f{i}{{fill:{c}}}.s{i}{{stroke:{c};fill:none;stroke-width:1.6}}" for i, c in enumerate(colours)]
        return "".join(named)

    # Between train and test in equal steps: the share of a bin's rows that is tested.
    steps = [f"color-mix(in srgb,var(--test) {100 * i // (N_SHADES - 1)}%,var(--train))" for i in range(N_SHADES)]
    shades = "".join(f".m{i}{{fill:{step}}}" for i, step in enumerate(steps))
    values = [f"color-mix(in srgb,{LIGHT[0]} {100 * i // (N_SHADES - 1)}%,#F0E442)" for i in range(N_SHADES)]
    shades += "".join(f".v{i}{{fill:{value}}}" for i, value in enumerate(values))
    return f"{rules(LIGHT)}@media screen and (prefers-color-scheme:dark){{{rules(DARK)}}}{shades}"


def number(value: float | int | None, said: str | None = None) -> str:
    """Return a number that people read rounded and programs read whole."""
    if value is None:
        return "-"
    shown = said or (f"{value:,}" if isinstance(value, int) else f"{value:,.4f}")
    return f'<data value="{value!r}">{escape(shown)}</data>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """Return a table; the head is text, the cells are HTML."""
    top = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="{css}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def facts(rows: Iterable[tuple[str, Any]]) -> str:
    """Return names and values side by side; values that are not marked as HTML are escaped."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f'<div class="wide"><table class="facts"><tbody>{body}</tbody></table></div>'

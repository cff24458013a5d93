"""One HTML page that needs nothing else: no network, no script; light, dark and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--paper:#fff;--line:#d8dee4;--box:#f6f8fa;
  --train:#dbe7f1;--test:#D55E00;--unused:#b9bfc6}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9ba6b2;--paper:#12161b;--line:#363d45;
  --box:#1a2027;--train:#22364a;--test:#F07A2B;--unused:#5b646e}
}
@media print{:root{--ink:#000;--soft:#333;--paper:#fff;--line:#bbb;--box:#fff;--train:#dbe7f1;--test:#D55E00;
  --unused:#b9bfc6}
figure,table{break-inside:avoid}
}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:46rem;
  margin:0 auto;padding:1.2rem}
h1{font-size:1.5rem;margin:.2rem 0}
h2{font-size:1.15rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:.95rem;margin:0 0 .2rem}
p{margin:.4rem 0}
.soft,figcaption,.legend{color:var(--soft);font-size:.86rem}
code{font-size:.86rem;overflow-wrap:anywhere}
figure{margin:1.2rem 0}
figure>svg{width:100%;height:auto;display:block}
.legend{display:flex;flex-wrap:wrap;gap:.1rem .9rem;margin:0}
.legend span{white-space:nowrap}
.swatch{width:18px;height:12px;margin-right:.35rem;vertical-align:-1px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
th,td{padding:.16rem .7rem .16rem 0;text-align:right;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}
th:first-child,td:first-child{text-align:left}
table.facts td{text-align:left;overflow-wrap:anywhere}
table.facts th{text-align:left;vertical-align:top;white-space:nowrap}
ul.findings{list-style:none;padding:0}
ul.findings li{background:var(--box);border-left:4px solid var(--soft);padding:.4rem .7rem;margin:.4rem 0}
ul.findings li.error{border-color:#D55E00}
ul.findings li.warning{border-color:#E69F00}
svg text{fill:var(--soft);font-size:12px}
svg text.label{fill:var(--ink)}
svg text.strong{fill:var(--ink);font-weight:600}
.grid{stroke:var(--line);fill:none}
.axis{stroke:var(--soft);fill:none}
.whole{stroke:var(--ink);fill:none;stroke-width:2}
.limit{stroke:var(--ink);fill:none;stroke-dasharray:4 3}
.band{fill:var(--soft);opacity:.18}
.unused{fill:var(--unused)}
.train{fill:var(--train)}
.test{fill:var(--test)}
.rest{fill:var(--soft);opacity:.45}
.dashed{stroke-dasharray:6 3}
"""


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

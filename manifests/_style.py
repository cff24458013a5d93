"""The style sheet of the reports."""

from __future__ import annotations

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

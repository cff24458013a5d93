"""An audit for a comment: Markdown."""

from __future__ import annotations

from .findings import Audit


def markdown(audit: Audit) -> str:
    """Return an audit as Markdown: a table of findings, then what passed and what was not asked."""
    lines = [
        f"## Audit of {audit.name} {audit.version}",
        "",
        f"{audit.summary.partition(': ')[2].capitalize()}. {audit.n_rows:,} rows, split `{audit.split_id[:16]}`.",
        "",
    ]
    if audit.findings:
        lines += ["| | check | finding |", "|---|---|---|"]
        for f in audit.findings:
            weight = "**failed**" if f.gate == "failed" else f.severity
            lines.append(f"| {weight} | {f.code} {f.check} | {_cell(f.message)} |")
    else:
        lines.append("Nothing was found.")
    lines.append("")
    lines += [f"- ignored {f.code} {f.check}: {_cell(f.message)} Reason: {_cell(f.reason)}" for f in audit.ignored]
    lines += [f"- not asked: {name}, because {reason}" for name, reason in audit.not_asked.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

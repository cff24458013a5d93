"""An audit for other programs and people: SARIF for code scanning, Markdown for a comment, JSON for anything."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

from .findings import Audit, Finding
from .rules import RULES

Format = Literal["json", "md", "sarif"]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def formatted(audit: Audit, data: str, kind: Format) -> str:
    """Return an audit of ``data`` (its path) as JSON, Markdown, or SARIF 2.1.0."""
    if kind == "sarif":
        return json.dumps(sarif(audit, data), indent=1)
    return audit.model_dump_json(indent=1) if kind == "json" else markdown(audit)


def sarif(audit: Audit, data: str) -> dict[str, Any]:
    """Return an audit as a SARIF 2.1.0 log, as code scanning reads it.

    One rule for each check, one result for each finding, placed at the data. A finding that is ignored is a suppressed
    result with its reason. Fingerprints rest on the check and the split, so the same finding is one alert over runs.
    """
    results = [_result(finding, audit, data) for finding in [*audit.findings, *audit.ignored]]
    rules = [
        {
            "id": rule.code,
            "name": rule.check,
            "shortDescription": {"text": rule.figure},
            "fullDescription": {"text": rule.why},
            "help": {"text": rule.mend},
        }
        for rule in RULES
    ]
    driver = {"name": "evenfold", "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Finding, audit: Audit, data: str) -> dict[str, Any]:
    uri = quote(data.replace("\\", "/"), safe="/:")
    place = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [place],
        "partialFingerprints": {"evenfold/v1": f"{finding.code}/{audit.split_id}"},
    }
    if finding.reason:
        result["suppressions"] = [{"kind": "external", "justification": finding.reason}]
    return result


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

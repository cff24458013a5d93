"""A retraining in words and tables, the same in Prefect, in MLflow and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenfold.estimates import Estimate

from ._report import estimate_table
from ._retrain_request import Retraining


def retrain_report(outcome: Retraining, estimates: Sequence[Estimate]) -> str:
    """Return the report as Markdown."""
    decision, split = outcome.decision, outcome.split
    parts = [
        f"# Retraining on {split['name']} {split['version']}",
        f"**{_headline(outcome)}** {decision['why'].capitalize()}.",
        decision["words"],
        _difference(decision),
        f"## The split\n\n{_growth(outcome.growth)} `split_id {split['split_id']}`",
        f"## The audit\n\n{_audit(outcome.audit)}",
        f"## The candidate\n\n{estimate_table(estimates)}",
        f"## The stored champion\n\n{_stored(outcome)}",
        f"## The rule\n\n{decision['rule']}",
    ]
    return "\n\n".join(part for part in parts if part)


def _headline(outcome: Retraining) -> str:
    if outcome.registered is None:
        return "Nothing was registered."
    name, version = outcome.registered["name"], outcome.registered["version"]
    return f"{name} version {version} is the new champion." if outcome.registered["champion"] else f"{name} {version}."


def _difference(decision: dict[str, Any]) -> str:
    if decision["difference"] is None:
        return ""
    told = f"Candidate minus champion, {decision['metric']}: {decision['difference']:.4g}"
    if decision["low"] is None:
        return f"{told}."
    return f"{told}, corrected 95% interval [{decision['low']:.4g}, {decision['high']:.4g}], p = {decision['p']:.3g}."


def _growth(growth: dict[str, Any]) -> str:
    numbers = ", ".join(f"{growth[name]:,} {name}" for name in ("added", "deleted", "quarantined") if name in growth)
    return " ".join([f"Rows: {numbers}.", *growth.get("notes", [])])


def _audit(audit: dict[str, Any]) -> str:
    lines = [f"- {_weight(each)}: {each['message']}" for each in audit["findings"]]
    return "\n".join(lines) or f"{len(audit['passed'])} checks passed, nothing was found."


def _weight(finding: dict[str, Any]) -> str:
    return "gate failed" if finding["gate"] == "failed" else str(finding["severity"])


def _stored(outcome: Retraining) -> str:
    stored = outcome.stored_champion
    if "why" in stored:
        return f"Not scored: {stored['why']}."
    return (
        f"{outcome.decision['metric']} = {stored['score']:.4g} on the {stored['rows']:,} rows "
        "that are newer than its training rows; it decides nothing."
    )

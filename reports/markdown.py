"""What a run came to, as Markdown for Prefect's pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evenfold.estimates import Estimate
from evenfold.manifests import BalanceReport

MOST_FOLDS = 50


def split_report(split: dict[str, Any], report: BalanceReport, estimates: Sequence[Estimate] = ()) -> str:
    """Return the split's identity, how even it is, and the estimates that rest on it."""
    head = f"# {split['name']} {split['version']}: {split['strategy']}, {split['n_rows']:,} rows\n"
    names = f"`split_id {split['split_id']}`\n\n`plan_id {split['plan_id']}`\n\n{split['uri']}"
    worst = table(["balance", "value"], ([figure.title, figure.text(value)] for figure, value, _ in report.shown()))
    folds = table(["split", "test rows"], ([fold.split, f"{fold.rows:,}"] for fold in report.folds[:MOST_FOLDS]))
    return "\n\n".join([head, *([estimate_table(estimates)] if estimates else []), names, worst, folds])


def estimate_table(estimates: Iterable[Estimate]) -> str:
    """Return every estimate under its own name."""
    rows = (
        [each.metric, each.method, *map(_number, (each.value, *_ends(each), _without(each), each.sd, each.apparent))]
        for each in estimates
    )
    return table(["metric", "method", "value", "from", "to", "baseline", "sd", "apparent"], rows)


def _ends(estimate: Estimate) -> tuple[float | None, float | None]:
    return (estimate.interval.low, estimate.interval.high) if estimate.interval else (None, None)


def _without(estimate: Estimate) -> float | None:
    return estimate.baseline.value if estimate.baseline else None


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"

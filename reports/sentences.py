"""What a split came to, in sentences, as terminals and logs have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenfold.manifests.figures import BalanceReport
from evenfold.manifests.membership import LOCKED
from evenfold.manifests.store.header import WAITING
from evenfold.manifests.tables.canonical import verb
from evenfold.reports.page import counted, listed
from evenfold.reports.splits.data import target_gap
from evenfold.splitters.base import ONE_OF


def split_sentences(
    split: Mapping[str, Any], header: Mapping[str, Any], report: BalanceReport, cached: bool
) -> list[str]:
    """Return three sentences: what the split is, how even it is beside random folds, and its identity."""
    gap = target_gap(report) if report.folds and report.n_rows else None
    random = f" (95 % of random ones: {gap.bound})" if gap is not None else ""
    even = [(figure, figure.said(value)) for figure, value, _ in report.shown() if figure.sentence]
    return [
        f"{split['name']} {split['version']}: {_amount(split, header)} ({split['strategy']})",
        "; ".join(words + (random if figure.of_target else "") for figure, words in even),
        f"id {split['split_id'][:12]}, {'decided before' if cached else 'decided now'}",
    ]


def _amount(split: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    """Return how many rows in use are in how many folds, draws or parts, and what stays together."""
    counts, parts, columns = header["counts"], header["parts"], header["spec"].get("columns", {})
    # A split of more folds than are counted has no counts: its rows are all that there ever were.
    rows = counted(sum(rows for code, rows in counts.items() if int(code) >= LOCKED) or split["n_rows"], "row")
    if parts:
        shares = (f"{part['name']} {counts.get(str(part['code']), 0):,}" for part in parts)
        return f"{rows}: {', '.join(shares)}"
    group = columns.get("group") or columns.get("entities") or []
    whole = f" by {listed([group] if isinstance(group, str) else group)}" if group else ""
    locked = f", {counted(counts['-2'], 'row')} locked away" if counts.get("-2") else ""
    crossed = counts.get("-3") if header["spec"].get("group_mode") == "cross" else 0
    out = f", {counted(crossed, 'row')} left out" if crossed else ""
    waiting = sum(file["rows"] for file in header["files"] if file["path"] == WAITING)
    later = f", {counted(waiting, 'more row')} {verb(waiting, 'waits', 'wait')} for a target" if waiting else ""
    return f"{rows} in {counted(split['n_splits'], ONE_OF[split['kind']])}{whole}{locked}{out}{later}"

"""What a split and an evaluation came to, in sentences, as the log of a flow run has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenfold.estimates.results import Estimate
from evenfold.manifests.figures import BalanceReport
from evenfold.reports.page import counted
from evenfold.splitters.base import ONE_OF

from .evaluations.words import headline


def split_sentences(split: Mapping[str, Any], report: BalanceReport, cached: bool, locked: int = 0) -> list[str]:
    """Return what a split is, and how even: ``locked`` rows are kept away, ``cached`` ones were decided before."""
    locked_words = f" and {locked:,} rows locked away" if locked else ""
    amount = f"{report.n_rows:,} rows, {counted(split['n_splits'], ONE_OF[split['kind']])}{locked_words}"
    origin = "decided before" if cached else "decided now"
    even = "; ".join(figure.said(value) for figure, value, _ in report.shown() if figure.sentence)
    return [
        f"{split['name']} {split['version']}: {split['strategy']}, {amount}, {origin}",
        f"split_id {split['split_id'][:16]}   {even}",
    ]


def model_sentence(estimator: str, n_features: int, n_fits: int, n_cached: int) -> str:
    """Return which model was fitted how often."""
    features = f"{n_features} feature{'s' if n_features != 1 else ''}"
    reused = f", {n_cached} of them from the cache" if n_cached else ""
    return f"{estimator}, {features}, {n_fits:,} fits{reused}"


def score_sentences(estimates: Sequence[Estimate]) -> list[str]:
    """Return every score with its interval, as people read them."""
    return [" ".join(filter(None, [*headline(estimate), f"({estimate.method})"])) for estimate in estimates]

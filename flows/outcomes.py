"""What a flow came to."""

from __future__ import annotations

from typing import Any

from evenfold.estimates import Estimate, FoldScore, ModelSpec
from evenfold.manifests import BalanceReport
from evenfold.tasks.outcomes import Growth, Outcome, Retraining as Retraining, SplitRef


class GateError(RuntimeError):
    """A gate of the audit failed: nothing was trained, compared or promoted."""


class SplitOutcome(Outcome):
    """What a split came to."""

    split: SplitRef
    cached: bool
    balance: BalanceReport
    run_id: str


class ExtendOutcome(Growth):
    """What an extension came to."""

    balance: BalanceReport
    run_id: str


class Evaluation(Outcome):
    """What an evaluation came to: the split it rests on, every score, the estimates, and where they are recorded."""

    split: SplitRef
    cached: bool
    balance: BalanceReport
    split_run_id: str
    run_id: str
    model: ModelSpec
    task: str
    features: list[str]
    left_out: dict[str, str]
    scores: list[FoldScore]
    apparent: FoldScore | None
    estimates: list[Estimate]
    n_cached: int
    n_fits: int
    seconds: float
    look: int | None = None


class Tuning(Outcome):
    """What a tuning came to: every configuration's score, the choice, and what the winner is worth."""

    split: SplitRef
    metric: str
    configurations: list[dict[str, Any]]
    scores: list[float]
    spreads: list[float | None]
    best: int
    chosen: int
    naive: float
    value: float
    low: float
    high: float
    notes: list[str]
    model: ModelSpec
    n_fits: int
    n_cached: int
    run_id: str
    look: Evaluation | None = None

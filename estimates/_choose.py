"""The choice among configurations that were tried on the same folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._responses import replay
from .metrics import score
from .problem import Problem
from .row_losses import losses_of, row_loss
from .selection import BestOfMany, bias_corrected_best, bias_corrected_best_score
from .selection import one_standard_error as simplest_near_best


@dataclass(frozen=True)
class Choice:
    """Which configuration is chosen, and what it is worth. Higher is better.

    ``best``: the one with the best mean over folds. ``chosen``: the same, or by the one-standard-error rule the first
    (simplest) that is as good. ``naive``: the best one's pooled score, too good because it was chosen for it.
    ``value``, ``low``, ``high``: what to expect instead, with its 95 % interval.
    """

    best: int
    chosen: int
    naive: float
    value: float
    low: float
    high: float
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self) | {"notes": list(self.notes)}


def choose(
    metric: str,
    problem: Problem,
    predictions: Sequence[pd.DataFrame],
    scores: Sequence[Sequence[float]],
    *,
    one_standard_error: bool = False,
    seed: int = 0,
) -> Choice:
    """Return the choice among configurations by ``metric``.

    ``predictions``: out-of-fold predictions of each, on the same rows. ``scores``: test scores of each (configurations
    x splits). With ``one_standard_error`` the configurations count as ordered from simple to complex.
    """
    table = np.asarray(scores, dtype=np.float64)
    best = int(np.argmax(table.mean(axis=1)))
    chosen = simplest_near_best(table, range(len(table))) if one_standard_error and table.shape[1] > 1 else best
    worth = _worth(metric, problem, predictions, seed)
    low, high = sorted((worth.interval.low, worth.interval.high))
    return Choice(best, chosen, worth.naive, worth.value, low, high, worth.notes)


def _worth(metric: str, problem: Problem, predictions: Sequence[pd.DataFrame], seed: int) -> BestOfMany:
    loss = row_loss(metric)
    frames = [frame[frame["repeat"] == frame["repeat"].min()].sort_values("row") for frame in predictions]
    rows = frames[0]["row"].to_numpy()
    groups = None if problem.groups is None else problem.groups[rows]
    if loss is not None:
        columns = [losses_of(metric, replay(f, problem.classes), f["y"].to_numpy(), problem.classes) for f in frames]
        found = bias_corrected_best(np.column_stack(columns), groups, seed=seed)
        return _as_scores(found, loss.score)

    def scored(at: NDArray[np.int64], configuration: int) -> float:
        part = frames[configuration].iloc[at]
        return score(metric, replay(part, problem.classes), part["y"].to_numpy(), None)

    return bias_corrected_best_score(scored, rows.size, len(frames), groups, seed=seed)


def _as_scores(found: BestOfMany, of: Any) -> BestOfMany:
    from dataclasses import replace

    interval = replace(found.interval, low=of(found.interval.high), high=of(found.interval.low))
    return replace(found, naive=of(found.naive), value=of(found.value), bias=-found.bias, interval=interval)

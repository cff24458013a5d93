"""Choosing among configurations: what the winner is worth without its luck, and the simplest that is as good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.registry import losses_of, metric_of
from evenfold.estimates.metrics.responses import replay
from evenfold.estimates.metrics.scoring import score
from evenfold.estimates.models.problem import Problem
from evenfold.splitters import Stream
from numpy.typing import ArrayLike, NDArray

from .results import Interval, ModelError

# The purpose of the stream, so that these resamples share no numbers with any split.
SELECTION = 2018


@dataclass(frozen=True)
class BestOfMany:
    """The best of several configurations and what it is worth.

    ``best``: its position. ``naive``: its own mean loss (or score), too good because it was chosen for it.
    ``value``: the bias-corrected one. ``bias``: value - naive. ``interval``: percentiles of the resamples.
    ``chosen``: how often each configuration won a resample; a close race is spread over several.
    """

    best: int
    naive: float
    value: float
    bias: float
    interval: Interval
    chosen: tuple[float, ...]
    notes: tuple[str, ...] = ()


def bias_corrected_best(
    oof_losses: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    n_resamples: int = 1_000,
    level: float = 0.95,
    seed: int = 0,
) -> BestOfMany:
    """Return the loss to expect of the winner among configurations, from out-of-fold losses (rows x configurations).

    Each resample draws rows (whole groups where given) with replacement, lets the configuration with the smallest
    mean loss on them win, and scores the winner on the rows not drawn; the mean over resamples is the estimate. No
    model is fitted again. Lower is better. O(resamples x rows x configurations), memory flat in the resamples.
    Source: Tsamardinos, Greasidou and Borboudakis (2018), Bootstrapping the out-of-sample predictions for efficient
    and accurate cross-validation.
    """
    losses = np.asarray(oof_losses, dtype=np.float64)
    if losses.ndim != 2 or losses.shape[0] < 2 or not np.all(np.isfinite(losses)):
        raise ModelError(f"oof_losses has the shape {losses.shape}; pass finite losses of rows x configurations.")
    sums, sizes = _per_unit(losses, groups)

    def means(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        # Added over the outer axis, which is in order: the same bytes on every machine.
        total = np.add.reduce(weights[:, None] * sums, axis=0)
        return np.asarray(total / np.add.reduce(weights * sizes))

    return _resampled(means, len(sizes), n_resamples, level, seed)


def bias_corrected_best_score(
    score: Callable[[NDArray[np.int64], int], float],
    n_rows: int,
    n_configurations: int,
    groups: ArrayLike | None = None,
    *,
    n_resamples: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> BestOfMany:
    """Return the same for a metric that is no mean over rows, such as AUC: higher is better.

    ``score``: the metric of a configuration's out-of-fold predictions at some row positions, which may repeat.
    It is asked 2 x resamples x configurations times.
    """
    codes = np.arange(n_rows) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)

    def means(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.repeat(np.arange(n_rows), weights.astype(np.int64)[codes])
        return np.array([-score(rows, j) for j in range(n_configurations)])

    made = _resampled(means, int(codes.max()) + 1, n_resamples, level, seed)
    low, high = -made.interval.high, -made.interval.low
    interval = Interval(low, high, level, made.interval.method, made.interval.notes)
    return BestOfMany(made.best, -made.naive, -made.value, -made.bias, interval, made.chosen, made.notes)


def simplest_near_best(scores: ArrayLike, complexity: Sequence[float]) -> int:
    """Return the simplest configuration whose mean score is within one standard error of the best one's.

    ``scores``: configurations x splits, higher is better. ``complexity``: lower is simpler; among equals the better
    mean wins, then the first. The standard error is the best one's sd/sqrt(splits).
    Source: Breiman et al. (1984), Classification and Regression Trees, section 3.4.3.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or table.shape[0] != len(complexity):
        raise ModelError(
            f"scores has the shape {table.shape} for {len(complexity)} complexities; "
            "pass configurations x splits, 2 splits or more."
        )
    means = table.mean(axis=1)
    best = int(np.argmax(means))
    enough = means[best] - float(np.std(table[best], ddof=1)) / sqrt(table.shape[1])
    near = np.flatnonzero(means >= enough)
    return int(min(near.tolist(), key=lambda i: (complexity[i], -means[i], i)))


def _per_unit(losses: NDArray[np.float64], groups: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if groups is None:
        return losses, np.ones(losses.shape[0])
    codes = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    each = [np.bincount(codes, weights=losses[:, j]) for j in range(losses.shape[1])]
    return np.stack(each, axis=1).astype(np.float64), np.bincount(codes).astype(np.float64)


def _resampled(
    means: Callable[[NDArray[np.float64]], NDArray[np.float64]], units: int, n_resamples: int, level: float, seed: int
) -> BestOfMany:
    if units < 5:
        raise ModelError(f"a resample needs rows or groups left out, and there are {units}; 5 is the least.")
    plain = means(np.ones(units))
    best = int(np.argmin(plain))
    won = np.zeros(plain.size, dtype=np.int64)
    worth = []
    for i in range(n_resamples):
        counts = np.bincount(Stream(seed, SELECTION, i).below(units, units), minlength=units)
        inside, outside = means(counts.astype(np.float64)), means((counts == 0).astype(np.float64))
        if np.all(np.isnan(inside)):
            continue
        winner = int(np.nanargmin(inside))
        if not np.isnan(outside[winner]):
            won[winner] += 1
            worth.append(float(outside[winner]))
    if not worth:
        raise ModelError(f"the metric is undefined in all {n_resamples} resamples; use another metric.")
    low, high = (float(each) for each in np.quantile(worth, [0.5 - level / 2, 0.5 + level / 2]))
    skipped = n_resamples - len(worth)
    undefined = f"The metric is undefined in {skipped:,} of {n_resamples:,} resamples, which are left out."
    value, naive = float(np.mean(worth)), float(plain[best])
    interval = Interval(low, high, level, "bootstrap of the choice (BBC-CV)")
    chosen = tuple((won / len(worth)).tolist())
    return BestOfMany(best, naive, value, value - naive, interval, chosen, (undefined,) if skipped else ())


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
    loss = metric_of(metric).loss
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

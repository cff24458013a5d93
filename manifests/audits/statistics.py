"""Statistics of the checks: ranks, correlations, areas, the effect of levels, and what chance brings forth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
LEAST_LEVELS = 10  # rows beyond the levels, without which nothing is said of these


def ranks_of(values: Array) -> Array:
    """Return the rank of each value, equal values at the middle of theirs; NaN where one is missing."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, nan_policy="omit")) - 0.5


def correlation(a: Array, b: Array) -> float:
    """Return how closely two columns follow one straight line, -1 to 1; 0 where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def auc(scores: Array, positive: NDArray[np.bool_]) -> float:
    """Return the share of pairs of a positive and another row that ``scores`` order rightly, ties counting half."""
    n = int(np.count_nonzero(positive))
    return float(ranks_of(scores)[positive].mean() - n / 2.0) / (scores.size - n) if 0 < n < scores.size else 0.5


def count_pairs(values: NDArray[Any]) -> float:
    """Return how many pairs of rows have one hash, or one code."""
    sizes = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((sizes * (sizes - 1.0) / 2.0).sum())


def without_gaps(codes: Codes) -> Codes:
    """Return codes of 0 and more, numbered in the same order so that all occur."""
    return np.asarray((np.cumsum(np.bincount(codes) > 0) - 1)[codes])


def level_means(values: Array, codes: Codes) -> Array:
    """Return the means of columns (rows by columns) in each level, of codes from 0 on that all occur."""
    sums = [np.bincount(codes, weights=column) for column in values.T]
    return np.stack(sums, axis=1) / np.bincount(codes)[:, None]


def left_of(outcomes: Array, X: Array, smallest: float | None = None) -> Array:
    """Return what least squares on the columns of ``X`` leave of outcomes."""
    return np.asarray(outcomes - X @ np.linalg.lstsq(X, outcomes, rcond=smallest)[0])


def f_chance(before: Any, after: Any, added: int, free: int) -> Any:
    """Return by what chance ``added`` terms of noise lower a sum of squares so far; ``free`` rows are left."""
    from scipy.stats import f

    return f.sf((before - after) / added / np.maximum(after / free, 1e-300), added, free)


@dataclass(frozen=True)
class Effect:
    """The effect of a column's levels on their target: the probability of chance and the share of variance.

    ``share`` is that between levels if each is a draw of many; ``within`` that of these rows, which few cannot have.
    """

    chance: float = 1.0
    share: float = 0.0
    within: float = 0.0


def level_effect(outcomes: Array, codes: Codes) -> Effect:
    """Return how far levels differ beyond chance, by the F of a one-way analysis of variance.

    It is that of the outcome that shows most; its probability is multiplied by the number of outcomes.
    """
    present = codes >= 0
    outcomes, levels = outcomes[present], without_gaps(codes[present])
    n, k = levels.size, int(levels.max(initial=-1)) + 1
    if k < 2 or n - k < LEAST_LEVELS:
        return Effect()
    sizes, means = np.bincount(levels), level_means(outcomes, levels)
    spread = outcomes.var(axis=0)
    within = np.maximum(np.square(outcomes - means[levels]).sum(axis=0), 1e-9 * spread * (n - k))
    between = (sizes[:, None] * np.square(means - outcomes.mean(axis=0))).sum(axis=0)
    chance = f_chance(within + between, within, k - 1, n - k) * outcomes.shape[1]
    # E[F] = 1 + n0 ICC / (1 - ICC) with n0 the usual rows of a level, solved for the intraclass correlation.
    beyond = np.maximum(between / (k - 1) / np.maximum(within / (n - k), 1e-300) - 1.0, 0.0)
    share = beyond / (beyond + (n - np.square(sizes).sum() / n) / (k - 1))
    best = int(np.argmax(np.where((spread > 0) & (chance < 1.0), share, 0.0)))
    if not (spread[best] > 0 and chance[best] < 1.0 and share[best] > 0):
        return Effect()
    explained = max(1.0 - within[best] / (n - k) / spread[best], 0.0)
    return Effect(float(chance[best]), float(share[best]), float(explained))

"""What predictions score on average when the targets are paired with them at random.

Source: Efron and Tibshirani (1997), Improvements on cross-validation: the .632+ bootstrap method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .record import Answered, Floats, RowLoss


def half(rows: Answered) -> float:
    """Return .5: what any ranking scores without information."""
    return 0.5


def of_loss(loss: RowLoss) -> Callable[[Answered], float]:
    """Return the rate of a mean of losses of classes: over all n x n pairs."""
    return partial(_over_classes, loss, False)


def of_recalls(loss: RowLoss) -> Callable[[Answered], float]:
    """Return the same where every class that there is counts as much."""
    return partial(_over_classes, loss, True)


def _over_classes(loss: RowLoss, alike: bool, rows: Answered) -> float:
    k = len(rows.classes)
    shares = np.bincount(rows.truth, weights=rows.mass, minlength=k) / rows.mass.sum()
    if alike:
        shares = (shares > 0) / np.sum(shares > 0)
    # A row of class c meets every prediction equally often, so n x n pairs are one mean per class.
    kind = np.asarray(rows.classes).dtype
    means = [rows.mean(loss.of(replace(rows, y=np.full(rows.n, label, dtype=kind)))) for label in rows.classes]
    return loss.score(float(sum(share * mean for share, mean in zip(shares, means, strict=True))))


def of_squares(rows: Answered) -> float:
    """Return the rate of the mean squared error, over all n x n pairs."""
    (mean_y, var_y), (mean_said, var_said) = _moments(rows, rows.y), _moments(rows, rows.predicted)
    return -(var_y + var_said + (mean_y - mean_said) ** 2)


def of_r2(rows: Answered) -> float:
    """Return the rate of R2."""
    return 1.0 + of_squares(rows) / _moments(rows, rows.y)[1]


def _moments(rows: Answered, values: NDArray[np.float64]) -> tuple[float, float]:
    mean = rows.mean(values)
    return mean, rows.mean(np.square(values - mean))


def of_distances(rows: Answered) -> float:
    """Return the rate of the mean absolute error: the mean of |y_i - p_j| over all pairs, in O(n log n)."""
    y, predicted = rows.y, np.asarray(rows.predicted, dtype=np.float64)
    order = np.argsort(predicted, kind="stable")
    # |y - p| is y - p of the predictions below y, and p - y of the others: running sums hold both parts.
    below = np.searchsorted(predicted[order], y)
    mass = np.concatenate(([0.0], np.cumsum(rows.mass[order])))
    moment = np.concatenate(([0.0], np.cumsum(rows.mass[order] * predicted[order])))
    sums: Floats = y * mass[below] - moment[below] + (moment[-1] - moment[below]) - y * (mass[-1] - mass[below])
    return -float(rows.mean(sums) / mass[-1])

"""The standard error of a bootstrap's estimate, from the same draws: no model is fitted again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.record import Codes, Floats, Metric
from evenfold.estimates.models.problem import IntArray
from evenfold.estimates.results import Interval

from .evidence import Declined, Made
from .rows import within_range

Drawn = tuple[int, tuple[IntArray, IntArray]]  # a draw's number, its rows to train on, which repeat, and those left out


@dataclass(frozen=True)
class Multiplicities:
    """How often each unit (a row, or a group) is drawn, draw by draw, and the share of the mass that is left out.

    Made once for all metrics: O(draws x rows) time, O(draws x units) memory.
    """

    times: Floats
    out: Floats
    numbers: IntArray

    @classmethod
    def of(cls, draws: Iterable[Drawn], rows: IntArray, units: Codes | None, mass: Floats) -> Multiplicities:
        """Return those of some draws; ``units`` and ``mass``: of each of ``rows``, the rows that may be drawn."""
        n = int(rows.max()) + 1
        first = np.arange(rows.size) if units is None else np.unique(units, return_index=True)[1]
        of_row = np.zeros(n)
        of_row[rows] = mass / mass.sum()
        times, out, numbers = [], [], []
        for number, (train, test) in draws:
            times.append(np.bincount(train, minlength=n)[rows[first]])
            out.append(of_row[test].sum())
            numbers.append(number)
        return cls(np.array(times, dtype=np.float64), np.array(out), np.array(numbers))


def spread_of_draws(
    per_row: Floats, mass: Floats, units: Codes | None, drawn: Multiplicities, means: Floats
) -> tuple[float, float]:
    """Return the standard error of the leave-one-out bootstrap's error, and its degrees of freedom.

    ``per_row``: the mean loss of each row over the draws without it; ``means``: the mean loss of each draw of
    ``drawn``, NaN where it has none. The delta method after the bootstrap: unit i moves the error by
    D_i = (2 + 1/(n-1)) (E_i - Err1)/n + (1 - 1/n)^-n mean over draws of (N_i - mean N_i) q, with q the sum of the
    losses left out, over n. The squares of D_i are summed, less what chance adds to them where draws are few.
    Source: Efron and Tibshirani (1997), section 5; the bias correction is that of Wager, Hastie and Efron (2014),
    Confidence intervals for random forests, section 4.1, without which the standard error shrinks as draws are added.
    The degrees of freedom are those of ``standard_error`` with tails.
    """
    codes = np.arange(per_row.size) if units is None else units
    n = int(codes.max()) + 1
    if n < 3:
        raise ModelError(f"a standard error needs 3 rows or groups, and there are {n}; use a finer grouping.")
    share = mass / mass.sum()
    own = np.bincount(codes, weights=share * (per_row - float(share @ per_row)))
    there = np.isfinite(means)
    q, times = means[there] * drawn.out[there], drawn.times[there]
    if q.size < 2:
        raise ModelError(f"a standard error needs 2 draws with a score, and there are {q.size}; draw more.")
    scale = (1 - 1 / n) ** -n
    moved = scale * np.mean((times - times.mean(axis=0)) * q[:, None], axis=0)
    chance = scale**2 * float(np.sum(times.var(axis=0))) * float(q.var(ddof=1)) / q.size
    raw = float(np.sum(np.square((2 + 1 / (n - 1)) * own + moved)))
    # The variance of the mean of these losses over n units; a difference of two noisy sums may fall below it.
    least = n / (n - 1) * float(np.sum(np.square(own)))
    squares = np.square(own)
    kurtosis = n * float(np.sum(np.square(squares))) / max(float(np.sum(squares)) ** 2, 1e-300)
    df = min(n - 1.0, 2 * n / (kurtosis - 1)) if kurtosis > 1 else n - 1.0
    return sqrt(max(raw - chance, least)), df


TRAINING = 2.0
OF_A_MEAN = (
    "the bootstrap's standard error is that of a mean over rows, and {} is none; "
    "choose folds, whose intervals are for any metric."
)


def interval_of_draws(
    metric: Metric, value: float, err1: float, spread: tuple[float, float], level: float, *, grouped: bool = False
) -> Made:
    """Return the interval of an estimate of a bootstrap, from the ``spread`` of the leave-one-out error ``err1``.

    The standard error of .632 and .632+ is taken for the same share of the error as that of err1 (Efron and Tibshirani
    1997). It is that of the recipe's error; for the very model the variance counts ``TRAINING`` times: how often
    such intervals held it is in docs/coverage.md. ``grouped``: whether whole groups are drawn.
    """
    assert metric.loss is not None
    # score() is its own inverse, so of a score it makes the error.
    error = metric.loss.score(value)
    if not err1 > 0 or not metric.low < value < metric.high:
        return Declined("no draw made an error, so nothing says how far another sample would be off.")
    if spread[0] <= 1e-12 * err1:
        unit = "group" if grouped else "row"
        return Declined(f"every {unit} has the same loss, so draws say nothing of how far another sample would be off.")
    se = spread[0] * sqrt(TRAINING) * error / err1
    low, high = within_range(metric, value, se, spread[1], level)
    of = "a model trained on these rows, on new rows like them"
    return Interval(low, high, level, "delta method after the bootstrap", of=of)

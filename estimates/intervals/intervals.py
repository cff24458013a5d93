"""Intervals: where the value of a metric lies, from losses of rows, from resampled predictions, or from splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from evenfold.estimates.metrics.registry import Floats
from evenfold.estimates.results import EvaluationError, Interval, ModelError
from numpy.typing import ArrayLike, NDArray
from scipy import stats

# A normal error's squares put about a third of their variance into the largest 1 % of rows.
HEAVY_SHARE = 0.5
MOST_UNITS_FOR_BCA = 1_000

MODELS_AS_GIVEN = (
    "The interval takes the trained models as given, so it is a little short: it covered the truth in .82 to .88 of "
    "the cases where it said .90. Nested cross-validation is the careful option."
)
STRATIFIED = (
    "The folds are stratified on the target: they are alike by design, so their spread understates the uncertainty, "
    "and an interval made of it covers the truth in about .67 of the cases where it says .90. "
    "Use the interval from the rows' losses."
)


def pooled_interval(
    losses: ArrayLike,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> Interval:
    """Return the interval for the mean of out-of-fold losses, one per row (repeats averaged first).

    Without groups the rows are independent (Wald). With groups a group's rows err together, and the standard error
    is the cluster-robust one. Half-width: the t quantile with (units - 1) degrees of freedom times se, where
    se^2 = units/(units-1) x sum over units of (sum of w(L - mean))^2 / (sum of w)^2, a unit being a group or a row.
    Whether folds are stratified does not matter to it. A note is added where a few rows dominate. O(n).
    """
    loss = np.asarray(losses, dtype=np.float64)
    weight = np.ones(loss.size) if weights is None else np.asarray(weights, dtype=np.float64)
    mean = float(np.average(loss, weights=weight))
    return interval_of(mean, (loss - mean) * weight * (loss.size / weight.sum()), groups, level=level)


def interval_of(value: float, influence: Floats, groups: ArrayLike | None = None, *, level: float = 0.95) -> Interval:
    """Return the interval round ``value`` from each row's influence on it (their sum is 0, their mean square n var).

    The general form of ``pooled_interval``: for a mean the influence of a row is its loss minus the mean.
    """
    sums = influence if groups is None else np.bincount(_codes(groups), weights=influence).astype(np.float64)
    units = sums.size
    if units < 2:
        raise ModelError(f"an interval needs 2 independent rows or groups, and there is {units}; use a finer grouping.")
    se = sqrt(units / (units - 1) * float(np.sum(np.square(sums)))) / influence.size
    half = float(stats.t.ppf(0.5 + level / 2, units - 1)) * se
    what = "rows" if groups is None else "groups"
    method = "pooled rows" if groups is None else "pooled rows, cluster-robust"
    notes = (MODELS_AS_GIVEN, *heavy_tail(sums, what))
    if groups is not None and units < 30:
        notes = (*notes, f"There are {units} groups; with fewer than about 30 the interval tends to be too short.")
    return Interval(value - half, value + half, level, method, notes)


def heavy_tail(deviations: Floats, what: str = "rows") -> tuple[str, ...]:
    """Return a sentence where the largest 1 % of rows (or groups) hold at least half of the variance, else nothing."""
    squares = np.sort(np.square(deviations))[::-1]
    few, total = ceil(0.01 * squares.size), float(squares.sum())
    share = float(squares[:few].sum()) / total if total > 0 else 0.0
    if share < HEAVY_SHARE or few >= squares.size:
        return ()
    holds = "holds" if few == 1 else "hold"
    return (
        f"Heavy tail: {few:,} of {squares.size:,} {what} {holds} {share:.0%} of the variance of the losses. Intervals "
        "then cover the truth less often than they say (.76 to .80 where they said .90, in a study of flight delays).",
    )


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], float],
    n: int,
    groups: ArrayLike | None = None,
    *,
    method: str | None = None,
    level: float = 0.95,
    n_resamples: int = 999,
    seed: int = 0,
) -> Interval:
    """Return the bootstrap interval of any metric of out-of-fold predictions; whole groups are drawn where given.

    ``statistic``: the metric of the predictions at some positions, which may repeat; it is asked ``n_resamples``
    times, and once per row or group more for BCa. ``method``: ``BCa``, ``percentile``, or None for BCa up to 1,000
    rows or groups and percentile above, where BCa would ask too often. Models are not fitted again, so what is
    covered is the error of these models. Source: Efron (1987), Better bootstrap confidence intervals.
    """
    units = _units(n, groups)
    chosen = method or ("BCa" if len(units) <= MOST_UNITS_FOR_BCA else "percentile")
    if chosen not in ("BCa", "percentile"):
        raise ModelError(f"method={method!r}; choose 'BCa' or 'percentile'.")
    if len(units) < 2:
        raise ModelError(f"an interval needs 2 rows or groups, and there is {len(units)}; use a finer grouping.")

    def of(drawn: NDArray[np.int64]) -> float:
        return statistic(np.concatenate([units[i] for i in drawn]) if groups is not None else drawn)

    made = stats.bootstrap(
        (np.arange(len(units)),),
        of,
        vectorized=False,
        n_resamples=n_resamples,
        confidence_level=level,
        method=chosen,
        rng=np.random.Generator(np.random.Philox(seed)),
    )
    what = "rows" if groups is None else "groups"
    undefined = int(np.isnan(made.bootstrap_distribution).sum())
    if undefined:
        return _of_defined(made.bootstrap_distribution, undefined, level, what)
    low, high = float(made.confidence_interval.low), float(made.confidence_interval.high)
    if np.isnan(low) or np.isnan(high):
        raise EvaluationError(f"the {chosen} interval is undefined: every resample has the same score; use more rows.")
    return Interval(low, high, level, f"{chosen} bootstrap of {what}", (MODELS_AS_GIVEN,))


def _of_defined(scores: Floats, undefined: int, level: float, what: str) -> Interval:
    said = f"the metric is undefined in {undefined:,} of {scores.size:,} resamples"
    if undefined > scores.size / 2:
        raise EvaluationError(
            f"the bootstrap interval is undefined: {said}; "
            "use more rows, another metric, or the interval from the rows' losses."
        )
    low, high = (float(each) for each in np.nanquantile(scores, [0.5 - level / 2, 0.5 + level / 2]))
    note = f"{said[0].upper()}{said[1:]}, which are left out; so these are percentiles."
    return Interval(low, high, level, f"percentile bootstrap of {what}", (MODELS_AS_GIVEN, note))


def _codes(groups: ArrayLike) -> NDArray[np.int64]:
    return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1).astype(np.int64)


def _units(n: int, groups: ArrayLike | None) -> Sequence[NDArray[np.int64]] | NDArray[np.int64]:
    if groups is None:
        return np.arange(n)
    codes = _codes(groups)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


@dataclass(frozen=True)
class CorrectedT:
    """The mean of some differences, its corrected standard error, t with ``df`` degrees of freedom, p and interval."""

    mean: float
    se: float
    t: float
    df: int
    p: float
    interval: Interval

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of it."""
        return self.interval.notes


def corrected_resampled_t(
    differences: ArrayLike,
    n_train: ArrayLike,
    n_test: ArrayLike,
    *,
    level: float = 0.95,
    stratified: bool = False,
) -> CorrectedT:
    """Return the test that the mean of J scores, or of J differences of scores, is 0.

    se^2 = s^2 (1/J + n_test/n_train), s^2 the sample variance: splits share training rows, so 1/J alone is far too
    small. ``n_train`` and ``n_test``: rows of each side, one number or one per split. ``stratified``: whether the
    splitter stratifies on the target, which is warned about.
    Source: Nadeau and Bengio (2003), Inference for the generalization error. No unbiased estimate of the variance of
    k-fold cross-validation exists (Bengio and Grandvalet 2004); this one is the most useful of the biased ones.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size < 2:
        raise ModelError(f"a t test needs 2 differences, and there is {values.size}; use more splits.")
    ratio = float(np.mean(np.asarray(n_test, dtype=np.float64) / np.asarray(n_train, dtype=np.float64)))
    mean, df = float(np.mean(values)), values.size - 1
    se = sqrt(float(np.var(values, ddof=1)) * (1 / values.size + ratio))
    t = mean / se if se > 0 else (0.0 if mean == 0 else float(np.copysign(np.inf, mean)))
    half = float(stats.t.ppf(0.5 + level / 2, df)) * se
    notes = (STRATIFIED,) if stratified else ()
    interval = Interval(mean - half, mean + half, level, "corrected resampled t", notes)
    return CorrectedT(mean, se, t, df, float(2 * stats.t.sf(abs(t), df)), interval)

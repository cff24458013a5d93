"""Bootstrap intervals: predictions are drawn again, models are not fitted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from evenfold.estimates.errors import EvaluationError, ModelError
from evenfold.estimates.metrics.record import Floats
from evenfold.estimates.results import Interval
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .evidence import Declined, Evidence, IntervalMethod, Made

MOST_UNITS_FOR_BCA = 1_000


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

    bootstrap = stats.bootstrap(
        (np.arange(len(units)),),
        of,
        vectorized=False,
        n_resamples=n_resamples,
        confidence_level=level,
        method=chosen,
        rng=np.random.Generator(np.random.Philox(seed)),
    )
    what = "rows" if groups is None else "groups"
    undefined = int(np.isnan(bootstrap.bootstrap_distribution).sum())
    if undefined:
        return _of_defined(bootstrap.bootstrap_distribution, undefined, level, what)
    low, high = float(bootstrap.confidence_interval.low), float(bootstrap.confidence_interval.high)
    if np.isnan(low) or np.isnan(high):
        raise EvaluationError(f"the {chosen} interval is undefined: every resample has the same score; use more rows.")
    return Interval(low, high, level, f"{chosen} bootstrap of {what}")


def _of_defined(scores: Floats, undefined: int, level: float, what: str) -> Interval:
    lacking = f"the metric is undefined in {undefined:,} of {scores.size:,} resamples"
    if undefined > scores.size / 2:
        raise EvaluationError(
            f"the bootstrap interval is undefined: {lacking}; "
            "use more rows, another metric, or the interval from the rows' losses."
        )
    low, high = (float(end) for end in np.nanquantile(scores, [0.5 - level / 2, 0.5 + level / 2]))
    note = f"{lacking[0].upper()}{lacking[1:]}, which are left out; so these are percentiles."
    return Interval(low, high, level, f"percentile bootstrap of {what}", (note,))


def _units(n: int, groups: ArrayLike | None) -> Sequence[NDArray[np.int64]] | NDArray[np.int64]:
    if groups is None:
        return np.arange(n)
    codes = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def resampled_interval(
    evidence: Evidence, level: float = 0.95, *, method: str | None = None, n_resamples: int = 999
) -> Interval:
    """Return the bootstrap interval of the pooled score of any metric; whole groups are drawn where there are some.

    With repeats a resample holds the same rows of every repeat, and their scores are averaged. A row that is drawn
    comes with all its tests.
    """
    return bootstrap_interval(
        evidence.score_drawn,
        evidence.rows.size,
        evidence.units,
        method=method,
        level=level,
        n_resamples=n_resamples,
        seed=evidence.seed,
    )


def by_resampling(evidence: Evidence, level: float) -> Made:
    """Return the percentile interval of the pooled score."""
    if any(np.unique(lines).size != evidence.rows.size for lines in evidence.lines):
        return Declined("the repeats do not test the same rows, so that they cannot be drawn together.")
    try:
        interval = resampled_interval(evidence, level, method="percentile")
    except (EvaluationError, ModelError) as error:
        return Declined(str(error))
    return (
        Declined("every resample has the same score; choose interval: auto.")
        if interval.low == interval.high
        else interval
    )


METHODS = (
    IntervalMethod(
        name="bootstrap",
        needs=frozenset({"predictions"}),
        of="these fitted models on new rows like these",
        make=by_resampling,
    ),
)

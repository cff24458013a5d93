"""Bootstrap intervals: predictions are drawn again, models are not fitted again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from evenfold.estimates.results import Interval
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .evidence import Declined, Evidence, Made


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], float],
    n: int,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    n_resamples: int = 999,
    seed: int = 0,
) -> Made:
    """Return the percentile interval of any metric of out-of-fold predictions; whole groups are drawn where given.

    ``statistic``: the metric of the predictions at some positions, which may repeat; NaN where it is undefined, and
    resamples of which it is are left out. Models are not fitted again, so what is covered is the error of these models.
    """
    codes = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    units = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    if len(units) < 2:
        return Declined(f"an interval needs 2 rows or groups, and there is {len(units)}; use a finer grouping.")
    drawn = stats.bootstrap(
        (np.arange(len(units)),),
        lambda chosen: statistic(chosen if groups is None else np.concatenate([units[i] for i in chosen])),
        vectorized=False,
        n_resamples=n_resamples,
        confidence_level=level,
        method="percentile",
        rng=np.random.Generator(np.random.Philox(seed)),
    )
    scores = drawn.bootstrap_distribution
    notes: tuple[str, ...] = ()
    low, high = float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)
    if undefined := int(np.isnan(scores).sum()):
        lacking = f"the metric is undefined in {undefined:,} of {scores.size:,} resamples"
        if undefined > scores.size / 2:
            return Declined(
                f"the bootstrap interval is undefined: {lacking}; "
                "use more rows, another metric, or the interval from the rows' losses."
            )
        low, high = np.nanquantile(scores, [0.5 - level / 2, 0.5 + level / 2]).tolist()
        notes = (f"{lacking[0].upper()}{lacking[1:]}, which are left out.",)
    if low == high:
        return Declined("every resample has the same score; choose interval: auto.")
    return Interval(low, high, level, f"percentile bootstrap of {'rows' if groups is None else 'groups'}", notes)


def by_resampling(evidence: Evidence, level: float) -> Made:
    """Return the bootstrap interval of the pooled score of any metric.

    With repeats a resample holds the same rows of every repeat, and their scores are averaged. A row that is drawn
    comes with all its tests.
    """
    if any(np.unique(lines).size != evidence.rows.size for lines in evidence.lines):
        return Declined("the repeats do not test the same rows, so that they cannot be drawn together.")
    return bootstrap_interval(evidence.score_drawn, evidence.rows.size, evidence.units, level=level, seed=evidence.seed)

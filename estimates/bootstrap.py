"""The bootstrap's estimates of error: apparent, leave-one-out, out-of-bag, .632 and .632+, with all ingredients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._errors import ModelError

IN, OUT = 0.368, 0.632


@dataclass(frozen=True)
class BootstrapEstimate:
    """The .632+ estimate and everything it is made of, all in the units of what was passed in.

    ``err``: the apparent error, of the model fitted on all rows, on those rows. ``err1``: the leave-one-out bootstrap:
    each row's mean loss over the resamples without it, averaged over rows. ``oob``: the mean over resamples of their
    out-of-bag means. ``gamma``: the no-information rate, the error if features said nothing of the target.
    ``relative_overfitting``: R', from 0 (none) to 1 (as bad as no information). ``weight``: of err1 in ``e632plus``,
    from .632 to 1. ``e632`` = .368 err + .632 err1. ``e632plus`` = (1 - weight) err + weight err1'.
    ``notes``: what a reader must know of these numbers.
    """

    err: float
    err1: float
    oob: float
    gamma: float
    relative_overfitting: float
    weight: float
    e632: float
    e632plus: float
    n_resamples: int = 0
    rows_never_out: int = 0
    notes: tuple[str, ...] = ()


def bootstrap_estimate(
    apparent_losses: ArrayLike,
    resamples: Iterable[tuple[ArrayLike, ArrayLike]],
    no_information: float,
) -> BootstrapEstimate:
    """Return the bootstrap's estimates from losses of rows, lower is better.

    ``apparent_losses``: a loss per row, of one model fitted on all rows. ``resamples``: for each resample the rows it
    left out and the losses of its model on them; read once, so any number fits in memory. ``no_information``: gamma.

    Rows that no resample leaves out are dropped from ``err1``, and resamples that leave out no row from both means;
    notes say how many. O(n) memory; O(n) a resample. Source: Efron and Tibshirani (1997), Improvements on
    cross-validation: the .632+ bootstrap method. There R' may leave [0, 1] in the formula as printed; its stated
    purpose is to measure a share, so it is clipped, and err1' = min(err1, gamma) goes with it.
    Raises ModelError where lengths differ, positions are out of range, or no row is ever out of bag.
    """
    apparent = np.asarray(apparent_losses, dtype=np.float64)
    if not apparent.size or not np.all(np.isfinite(apparent)):
        raise ModelError(f"apparent_losses holds {apparent.size:,} values; pass one finite loss per row, 2 or more.")
    totals = RowTotals.empty(apparent.size)
    means: list[float] = []
    empty = 0
    for rows, losses in resamples:
        out, lost = np.asarray(rows, dtype=np.int64), np.asarray(losses, dtype=np.float64)
        totals.add(out, lost)
        if out.size:
            means.append(float(lost.mean()))
        else:
            empty += 1
    return from_totals(apparent, totals, means, no_information, empty)


def from_totals(
    apparent: NDArray[np.float64],
    totals: RowTotals,
    means: Iterable[float],
    no_information: float,
    empty: int = 0,
    weights: NDArray[np.float64] | None = None,
) -> BootstrapEstimate:
    """Return the same from sums and counts per row and the resamples' out-of-bag means; rows may have weights."""
    out_of_bag = list(means)
    if not out_of_bag:
        raise ModelError(f"no row is out of bag in any of {empty} resamples; draw more resamples.")
    seen = totals.counts > 0
    per_row = totals.sums[seen] / totals.counts[seen]
    err1 = float(np.average(per_row, weights=None if weights is None else weights[seen]))
    never = int(np.sum(~seen))
    notes = []
    if never:
        notes.append(f"{never:,} of {seen.size:,} rows were never out of bag and are not in err1; draw more resamples.")
    if empty:
        notes.append(f"{empty:,} of {empty + len(out_of_bag):,} resamples left no row out and were skipped.")
    return _combined(
        err=float(np.average(apparent, weights=weights)),
        err1=err1,
        oob=float(np.mean(out_of_bag)),
        gamma=float(no_information),
        n_resamples=len(out_of_bag) + empty,
        rows_never_out=never,
        notes=notes,
    )


def bootstrap_score_estimate(
    apparent: float,
    oob_scores: ArrayLike,
    no_information: float,
    greater_is_better: bool,
) -> BootstrapEstimate:
    """Return the bootstrap's estimates of a metric that is no mean of row losses, such as AUC or R2.

    ``apparent``: the score of the model fitted on all rows, on those rows. ``oob_scores``: a score per resample; NaN
    where it is undefined (one class out of bag). Such a metric has no leave-one-out form per row, so the mean over
    resamples stands for ``err1``, and the notes say so. All fields are in the metric's own units and direction.
    Raises ModelError where no resample has a score.
    """
    scores = np.asarray(oob_scores, dtype=np.float64)
    defined = scores[~np.isnan(scores)]
    if not defined.size:
        raise ModelError(f"the metric is undefined in all {scores.size} resamples; choose another metric.")
    notes = ["The metric is no mean over rows: the out-of-bag mean over resamples stands for err1."]
    if defined.size < scores.size:
        undefined = scores.size - defined.size
        notes.append(f"The metric is undefined in {undefined:,} of {scores.size:,} resamples, which are left out.")
    # As losses: 1 - s for scores whose best is 1, else -s. R' is the same for any such map.
    sign, offset = (-1.0, 1.0 if apparent > 0 else 0.0) if greater_is_better else (1.0, 0.0)
    loss = offset + sign * float(np.mean(defined))
    made = _combined(
        err=offset + sign * float(apparent),
        err1=loss,
        oob=loss,
        gamma=offset + sign * float(no_information),
        n_resamples=scores.size,
        rows_never_out=0,
        notes=notes,
    )
    return in_units(made, -sign * offset, sign)


def in_units(estimate: BootstrapEstimate, offset: float, sign: float) -> BootstrapEstimate:
    """Return the estimate with every error e as ``offset + sign * e``: of losses as of scores."""
    errors = ("err", "err1", "oob", "gamma", "e632", "e632plus")
    mapped = {name: offset + sign * getattr(estimate, name) for name in errors}
    return BootstrapEstimate(**{**vars(estimate), **mapped})


@dataclass
class RowTotals:
    """Sums of losses and counts per row, which many resamples add to."""

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> RowTotals:
        """Return totals of nothing for ``n`` rows."""
        return cls(np.zeros(n), np.zeros(n, dtype=np.int64))

    def add(self, rows: NDArray[np.int64], losses: NDArray[np.float64]) -> None:
        """Add the losses of ``rows``; a row may occur more than once."""
        n = self.sums.size
        if rows.shape != losses.shape:
            raise ModelError(f"a resample has {rows.size:,} rows and {losses.size:,} losses; pass one loss per row.")
        if rows.size and (rows.min() < 0 or rows.max() >= n):
            raise ModelError(f"a resample names row {_outside(rows, n)}, and there are {n:,} rows, from 0.")
        if not np.all(np.isfinite(losses)):
            raise ModelError("a resample has losses that are not finite; choose a metric that is defined on every row.")
        self.sums += np.bincount(rows, weights=losses, minlength=n)
        self.counts += np.bincount(rows, minlength=n)

    def merge(self, other: RowTotals) -> RowTotals:
        """Return the totals of both."""
        return RowTotals(self.sums + other.sums, self.counts + other.counts)


def _outside(rows: NDArray[np.int64], n: int) -> int:
    return int(rows[(rows < 0) | (rows >= n)][0])


def _combined(*, err: float, err1: float, gamma: float, notes: list[str], **more: Any) -> BootstrapEstimate:
    capped = min(err1, gamma) if gamma > err else err1
    overfits = min(err1, gamma) > err
    rate = min(max((capped - err) / (gamma - err), 0.0), 1.0) if overfits else 0.0
    if isnan(gamma):  # nothing says what no information scores: there is no .632+
        rate = gamma
    weight = OUT / (1 - IN * rate)
    if err < 0.5 * err1:
        notes = [
            *notes,
            f"The apparent error ({err:.3g}) is less than half of err1 ({err1:.3g}): the model nearly knows its "
            "training rows by heart, and .632 is then too optimistic; read .632+.",
        ]
    return BootstrapEstimate(
        err=err,
        err1=err1,
        gamma=gamma,
        relative_overfitting=rate,
        weight=weight,
        e632=IN * err + OUT * err1,
        e632plus=(1 - weight) * err + weight * capped,
        notes=tuple(notes),
        **more,
    )

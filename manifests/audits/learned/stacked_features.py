"""Signs that a feature was made with the targets of these rows: fits, means without the own row, filled gaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .models import predict_from_one
from .sample import LEAST_ROWS, Array, Column, Sample

CHANCE = 1e-6
LEAST_COLUMNS, MOST_COLUMNS, MOST_PRODUCTS = 3, 400, 1e9
EXACTLY = 1e-8  # of a sum's variance, what may be left of it
LEAST_EXPLAINED = 0.02  # of the target, by a fit of it
MOST_ROWS, MOST_A_GROUP = 20_000, 30
LEAST_TIED, MORE_THAN_CHANCE = 0.3, 5.0
LEAST_A_FILL, MOST_FILLS = 10, 10
LEAST_FILLED, LEAST_FINE = 0.03, 0.4  # shares of the rows
FILLED_BY = {False: 0.95, True: 0.80}  # AUC, or R² of ranks, among the filled rows
ELSEWHERE = 0.2  # and so much less among the others


class Fits:
    """The numbers of all rows beside the target, as sums of products: what fits of the target would be.

    Columns with a gap, and those without two values that floats tell apart, are left out. O(rows x columns^2) once,
    and columns^3 each.
    """

    def __init__(self, columns: Sequence[Column], outcome: Array) -> None:
        # NaN is not above 0. The mean of equal numbers may be off in its last bit; squares of tiny ones are nothing.
        whole = [column for column in columns if np.ptp(column.values) > 0 and column.values.std() > 0]
        whole = whole[: min(MOST_COLUMNS, int(np.sqrt(MOST_PRODUCTS / outcome.size)))]
        self.names, self.n = [column.name for column in whole], outcome.size
        X = np.column_stack([column.values for column in whole]) if whole else np.zeros((outcome.size, 0))
        self.spread = X.std(axis=0)
        Z = (X - X.mean(axis=0)) / self.spread
        y = outcome - outcome.mean()
        self.products, self.with_target, self.total = Z.T @ Z, Z.T @ y, float(y @ y)

    @cached_property
    def derived(self) -> set[int]:
        """The columns that are weighted sums of those to their left, three at least."""
        fitted: set[int] = set()
        lower = np.zeros_like(self.products)  # Cholesky's, column by column, without those that are found
        for j in range(len(self.names)):
            left = lower[j, :j]
            own = float(self.products[j, j] - left @ left)
            if own < EXACTLY * self.n:
                fitted |= {j} if np.count_nonzero(left) >= LEAST_COLUMNS else set()
                continue
            lower[j, j] = np.sqrt(own)
            lower[j + 1 :, j] = (self.products[j + 1 :, j] - lower[j + 1 :, :j] @ left) / lower[j, j]
        return fitted

    @cached_property
    def explained(self) -> tuple[float, int]:
        """What least squares on all columns explains of the target in these rows, and of how many columns."""
        return _shadow(self.products, self.with_target, self.n)

    def sign(self, name: str) -> str | None:
        """Say whether a column is a fit of the target on the other columns, these rows included.

        What a fit by least squares or by maximum likelihood leaves of its own rows' targets is at right angles to
        every column it was made of; what an honest prediction leaves is so only by chance. And the first component of
        partial least squares weighs each column by its product with the target.
        """
        if name not in self.names or len(self.names) <= LEAST_COLUMNS or self.total <= 0:
            return None
        j = self.names.index(name)
        if j in self.derived and self._is_component(j):
            return "the weights of its sum of other columns are their products with the target, all rows included"
        # Columns have spread 1: slope^2 n is the part of the target's squares that this one alone explains.
        slope = float(self.with_target[j]) / self.n
        if slope * slope * self.n >= LEAST_EXPLAINED * self.total and self._fits_too_well(j, slope):
            return "it fits these very rows: what it leaves of the target is at right angles to the other columns"
        return None

    def _fits_too_well(self, j: int, slope: float) -> bool:
        from scipy.stats import chi2

        # By least squares: all columns together tell these rows' targets no better than this one does.
        left = self.total - slope * slope * self.n
        if left <= 1e-6 * self.total:  # equal where the target is constant
            return False
        explained, rank = self.explained
        beyond = max(explained - slope * slope * self.n, 0.0) * self.n / left
        if rank > LEAST_COLUMNS and chi2.cdf(beyond, rank - 1) < CHANCE:
            return True
        # By maximum likelihood: at its own scale, it leaves nothing that goes with another column.
        weight = float(np.copysign(self.spread[j], slope))
        left = self.total - 2.0 * weight * float(self.with_target[j]) + weight * weight * self.n
        if not 0.5 < slope / weight < 2.0 or left < 1e-6 * self.total:
            return False
        others = [i for i in range(len(self.names)) if i != j]
        rest = self.with_target[others] - weight * self.products[others, j]
        beyond, rank = _shadow(self.products[np.ix_(others, others)], rest, self.n)
        return rank >= LEAST_COLUMNS and bool(chi2.cdf(beyond * self.n / left, rank) < CHANCE)

    def _is_component(self, j: int) -> bool:
        base = [i for i in range(len(self.names)) if i not in self.derived]
        own, products = self.products[base, j], self.products[np.ix_(base, base)]
        for scale in (np.ones(len(base)), np.square(self.spread[base])):
            weights = self.with_target[base] * scale
            size = float(weights @ products @ weights) * self.n
            if size > 0 and 1.0 - float(own @ weights) ** 2 / size < EXACTLY:
                return True
        return False


def _shadow(products: Array, with_other: Array, n: int) -> tuple[float, int]:
    """Return how much of another column lies in the space of columns of these products, and its dimension."""
    values, vectors = np.linalg.eigh(products)
    used = values > 1e-9 * n
    return float((np.square(vectors[:, used].T @ with_other) / values[used]).sum()), int(np.count_nonzero(used))


def is_mean_without_own(values: Array, outcome: Array) -> bool:
    """Return whether a feature is the mean target of the other rows of groups that are no column.

    In a group of m rows (m - 1) times the feature, and the own target, come to the same sum. Such sums are sought for
    groups of two to thirty rows; they may be five times as many as with the targets of other rows, and hold .3 of all.
    O(rows log rows) for each size, at most 20,000 rows.
    """
    known = ~np.isnan(values)
    x, y = values[known], outcome[known]
    if not LEAST_ROWS <= x.size <= MOST_ROWS or np.unique(x).size < x.size / 3 or np.unique(y).size < LEAST_ROWS / 5:
        return False
    other = np.roll(y, x.size // 2)
    sizes = range(2, MOST_A_GROUP + 1)
    tied = sum(_tied(x * (size - 1) + y, x, size) for size in sizes)
    return tied >= LEAST_TIED * x.size and tied > MORE_THAN_CHANCE * sum(
        _tied(x * (size - 1) + other, x, size) for size in sizes
    )


def _tied(sums: Array, values: Array, size: int) -> int:
    """Return how many rows lie in runs of ``size`` equal sums of values that are not all the same."""
    order = np.argsort(sums, kind="stable")
    ranked, held = sums[order], values[order]
    last = np.append(np.diff(ranked) > 1e-9 * max(float(np.abs(ranked).max()), 1.0), True)
    ends = np.flatnonzero(last)
    starts = np.append(0, ends[:-1] + 1)
    runs = ends - starts + 1 == size
    least, most = (np.array([]), np.array([]))
    if runs.any():
        least = np.minimum.reduceat(held, starts)[runs]
        most = np.maximum.reduceat(held, starts)[runs]
    return size * int(np.count_nonzero(most - least > 1e-9 * max(float(np.ptp(values)), 1e-300)))


def fills(column: Column, sample: Sample) -> str | None:
    """Say whether a fine number repeats a few values, as filled gaps do, that tell their rows' targets and only theirs.

    A mean of each class or of each bracket of the target that was put where a value was missing.
    """
    target = sample.target
    codes = column.codes
    counts = np.bincount(codes[codes >= 0], minlength=1)
    repeated = np.flatnonzero(counts >= LEAST_A_FILL)
    fine = float(counts[counts <= 2].sum()) / codes.size
    least = 3 if target.numeric else 2
    if not least <= repeated.size <= MOST_FILLS or fine < LEAST_FINE:
        return None
    filled = np.isin(codes, repeated) & target.present
    if np.mean(codes[1:][filled[1:]] == codes[:-1][filled[1:]]) > 0.5:
        return None  # a level that lasts, row after row, is no gap that was filled
    others = ~filled & (codes >= 0) & target.present
    if min(np.count_nonzero(filled) / LEAST_FILLED, np.count_nonzero(others) / LEAST_FILLED) < codes.size:
        return None
    inside, outside = (_told(column, sample, rows) for rows in (filled, others))
    if inside is None or inside < FILLED_BY[target.numeric] or inside - (outside or 0.0) < ELSEWHERE:
        return None
    return (
        f"{repeated.size} values that {int(np.count_nonzero(filled)):,} rows share, as filled gaps do, tell their "
        f"targets: {target.measure} {inside:.3f}"
    )


def _told(column: Column, sample: Sample, rows: NDArray[np.bool_]) -> float | None:
    target, blocks = sample.target.take(rows), sample.blocks[rows]
    if target.outcomes.shape[0] < LEAST_ROWS / 2 or np.unique(blocks).size < 2:
        return None
    return float(target.score(predict_from_one(column.take(rows), target.outcomes, blocks)))

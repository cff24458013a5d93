"""Columns and the target as numbers, and the statistics of them: ranks, correlations, areas, the effect of levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.store.state import is_numeric_target
from evenfold.manifests.tables.canonical import encoded, to_numpy
from evenfold.splitters.numbers import by_appearance
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
LEAST_LEVELS = 10  # rows beyond the levels, without which nothing is said of these
LARGEST = 1e30  # trees hold numbers of half the size, and beyond this one is as large as another


@dataclass(frozen=True, eq=False)
class Column:
    """A column as numbers: its values, times as microseconds or days, or the code of its level; NaN where missing."""

    name: str
    kind: Literal["number", "time", "category"]
    values: Array
    levels: tuple[str, ...] = ()
    fractional: bool = False
    whole: Codes | None = None  # numbers to their last digit, where floats cannot hold them

    @cached_property
    def codes(self) -> Codes:
        """The place of each value among the distinct ones, ascending; -1 where it is missing."""
        codes = np.full(self.values.size, -1, dtype=np.int64)
        present = ~np.isnan(self.values)
        values = self.values if self.whole is None else self.whole
        codes[present] = np.unique(values[present], return_inverse=True)[1]
        return codes

    @cached_property
    def n_levels(self) -> int:
        """The number of distinct values."""
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def texts(self) -> list[str]:
        """The text of each distinct value of a category, in the order of ``codes``."""
        return [self.levels[int(code)] for code in np.unique(self.values[self.codes >= 0])]

    @cached_property
    def places(self) -> Array:
        """The rank of each value as a share of all, 0 to 1, equal ones at the middle of theirs; NaN where missing."""
        sizes = np.bincount(self.codes[self.codes >= 0])
        return self.by_level((np.cumsum(sizes) - sizes / 2.0) / max(sizes.sum(), 1))

    @cached_property
    def normal(self) -> Array:
        """The ranks as quantiles of the normal distribution; 0 where values are missing."""
        from scipy.special import ndtri

        return np.asarray(np.nan_to_num(ndtri(self.places)))

    @cached_property
    def decimals(self) -> Codes:
        """The decimals of each value, those beyond six as nine; all are nine where most have over four."""
        digits = np.full(self.values.size, 9)
        for places in range(6, -1, -1):
            away = np.abs(self.values - np.round(self.values, places))
            digits[~(away > 1e-13 + 1e-14 * np.abs(self.values))] = places  # a gap has none
            if places == 4 and np.median(digits) > 4:
                return np.full(self.values.size, 9)
        return digits

    def by_level(self, values: Any, gap: float = np.nan) -> Array:
        """Return each row's value, of values for the levels that are present, ascending."""
        return np.asarray(np.append(np.asarray(values, dtype=np.float64), gap)[self.codes])

    def take(self, rows: NDArray[Any]) -> Column:
        """Return the column of some rows."""
        return replace(self, values=self.values[rows], whole=None if self.whole is None else self.whole[rows])


@dataclass(frozen=True, eq=False)
class Target:
    """The target as one column of numbers a class (of two classes one), or as the rank of a number, 0 to 1.

    Rows without a target, and those of classes beyond the ten largest, are not ``present``.
    """

    name: str
    outcomes: Array
    present: NDArray[np.bool_]
    numeric: bool
    values: Array

    @property
    def measure(self) -> str:
        """The name of ``score``."""
        return "R² of ranks" if self.numeric else "AUC"

    def take(self, rows: NDArray[Any]) -> Target:
        """Return the target of some rows."""
        return replace(self, outcomes=self.outcomes[rows], present=self.present[rows], values=self.values[rows])

    def score(self, predicted: Array) -> float:
        """Return how well predictions of every row fit: mean AUC over the classes, or R² of the ranks."""
        if self.numeric:
            spread = np.square(self.outcomes - self.outcomes.mean()).sum()
            return 1.0 - float(np.square(self.outcomes - predicted).sum() / spread) if spread else 0.0
        columns = zip(self.outcomes.T, predicted.T, strict=True)
        return float(np.mean([auc(guess, truth > 0) for truth, guess in columns]))


def column_of(name: str, column: pa.ChunkedArray) -> Column:
    """Return a canonical column as numbers."""
    if pa.types.is_large_string(column.type):
        codes, levels = encoded(column)
        return Column(name, "category", np.where(codes < 0, np.nan, codes), tuple(levels.to_pylist()))
    if pa.types.is_temporal(column.type):
        return Column(name, "time", _floats(column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())))
    values = _floats(column)
    beyond = pa.types.is_integer(column.type) and np.abs(values).max(initial=0, where=~np.isnan(values)) >= 2**53
    whole = to_numpy(column.fill_null(0)) if beyond else None
    return Column(name, "number", values, fractional=pa.types.is_floating(column.type), whole=whole)


def target_of(name: str, column: pa.ChunkedArray) -> Target:
    """Return a canonical target column as ranks, or as one column of ones and zeros for each of its classes."""
    if is_numeric_target(column):
        values = _floats(column)
        present = ~np.isnan(values)
        return Target(name, ranks_of(values)[:, None] / max(int(present.sum()), 1), present, True, values)
    codes = encoded(column)[0]
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    largest = np.argsort(-sizes, kind="stable")[:10]
    # Of two classes the rarer one alone: the other column would say the same.
    classes = largest[1:] if largest.size == 2 else largest
    outcomes = (codes[:, None] == classes).astype(np.float64)
    return Target(name, outcomes, np.isin(codes, largest), False, codes.astype(np.float64))


def _floats(column: pa.ChunkedArray) -> Array:
    values = to_numpy(pc.cast(column, pa.float64(), safe=False))
    return np.clip(np.where(np.isfinite(values), values, np.nan), -LARGEST, LARGEST)


def alone(codes: Codes) -> Codes:
    """Return codes in which rows of none (-1) each have one of their own, beyond the others."""
    return np.where(codes < 0, codes.max(initial=0) + 1 + np.arange(codes.size), codes)


def several(codes: Codes) -> Codes:
    """Return the codes that more than one row has, -1 for the other rows."""
    sizes = np.bincount(codes + 1)[codes + 1]
    return np.where((sizes > 1) & (codes >= 0), codes, -1)


def ranks_of(values: Array) -> Array:
    """Return the rank of each value, equal values at the middle of theirs; NaN where one is missing."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, nan_policy="omit")) - 0.5


def correlation(a: Array, b: Array) -> float:
    """Return how closely two columns follow one straight line, -1 to 1; 0 where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def are_one(a: Column, b: Column, most: float) -> bool:
    """Return whether two columns put the rows in one order, by a rank correlation above ``most``."""
    if "category" in (a.kind, b.kind):
        return False
    present = (a.codes >= 0) & (b.codes >= 0)
    return bool(present.any()) and abs(correlation(a.places[present], b.places[present])) > most


def auc(scores: Array, positive: NDArray[np.bool_]) -> float:
    """Return the share of pairs of a positive and another row that ``scores`` order rightly, ties counting half."""
    n = int(np.count_nonzero(positive))
    return float(ranks_of(scores)[positive].mean() - n / 2.0) / (scores.size - n) if 0 < n < scores.size else 0.5


def count_pairs(values: NDArray[Any]) -> float:
    """Return how many pairs of rows have one hash, or one code."""
    sizes = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((sizes * (sizes - 1.0) / 2.0).sum())


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


class Effect(NamedTuple):
    """The effect of a column's levels on the outcome that shows most: its probability and its share of the variance."""

    chance: float = 1.0  # times the number of outcomes
    share: float = 0.0  # between levels, if each is a draw of many
    within: float = 0.0  # of these rows, which few cannot have


def level_effect(outcomes: Array, codes: Codes) -> Effect:
    """Return how far levels differ beyond chance, by the F of a one-way analysis of variance."""
    present = codes >= 0
    outcomes, levels = outcomes[present], by_appearance(codes[present])
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

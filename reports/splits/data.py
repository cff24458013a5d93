"""The numbers that the pictures of a split show, worked out in one pass over its splits; the gap of its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt
from typing import Any

import numpy as np
from evenfold.manifests.figures import BalanceReport, RowsBalance, points
from evenfold.manifests.joined import Joined, compared_with_all
from evenfold.manifests.manifest import ACTIVE, Manifest
from evenfold.manifests.membership import LOCKED, Draws, Labels
from evenfold.manifests.store.state import is_numeric_target
from evenfold.manifests.tables.canonical import to_numpy
from evenfold.splitters.errors import amount
from evenfold.splitters.numbers import stable_order
from numpy.typing import NDArray
from scipy.special import ndtri

MOST_SPLITS, MOST_BINS, MOST_LINES, MOST_POINTS = 20, 160, 12, 120
MOST_COUNT = 6  # a row drawn five times or more in one resample counts as "5+"

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class SplitColumn:
    """A column in key order: ``codes`` with ``names`` for classes and groups, ``values`` for numbers and times.

    Rows in no split have code -1 and no number; their time means nothing.
    """

    name: str
    numeric: bool
    values: NDArray[Any]
    codes: Positions
    names: tuple[str, ...]


@dataclass
class SplitData:
    """A manifest's splits seen in one pass, and the columns that explain them.

    ``rows``: the ranks of the rows that are in a split or locked, which figures are of. ``order``: the rows of the map
    from left to right; ``tested`` and ``unused``: per split shown, the share of each bin's rows. ``tests``: the test
    rows of the first splits. ``in_time``: whether all seen test what comes after their training rows.
    """

    manifest: Manifest
    balance: BalanceReport
    target: SplitColumn | None
    group: SplitColumn | None
    time: SplitColumn | None
    rows: Positions
    order: Positions
    order_name: str
    tested: list[Floats] = field(default_factory=list)
    unused: list[Floats] = field(default_factory=list)
    inclusion: Floats = field(default_factory=lambda: np.zeros(MOST_COUNT))
    picks: Positions | None = None
    tests: list[Positions] = field(default_factory=list)
    in_time: bool = True

    @cached_property
    def edges(self) -> Positions:
        """The first row of each bin, and the end of the last bin."""
        bins = min(self.order.size, MOST_BINS)
        return np.arange(bins + 1) * self.order.size // max(bins, 1)

    @property
    def names(self) -> list[str]:
        """A short name for each split."""
        names = map(self.manifest.membership.split_name, range(self.manifest.n_splits))
        return [f"{repeat}.{fold}" if self.manifest.membership.n_repeats > 1 else str(fold) for repeat, fold in names]

    @property
    def places(self) -> list[str]:
        """The name of every fold and part that is measured, in the order of ``BalanceReport.measured``."""
        names, splits = self.names, [fold.split for fold in self.balance.folds]
        folds = [self.manifest.membership.code_name(i) if self.parts else f"{self.unit} {names[i]}" for i in splits]
        return [*folds, *(part.name for part in self.balance.parts)]

    @property
    def unit(self) -> str:
        """The word for a split: part, draw, fold or split."""
        return "part" if self.parts else self.manifest.membership.unit

    @property
    def is_measured(self) -> bool:
        """Return whether every split is measured."""
        return self.balance.n_measured == self.balance.n_splits

    @property
    def each(self) -> str:
        """The sets that a figure is of: every fold, or the first 200 draws, as no more are measured."""
        return f"every {self.unit}" if self.is_measured else f"the first {self.balance.n_measured:,} {self.unit}s"

    @cached_property
    def parts(self) -> dict[str, Positions]:
        """The rows of each named part, in the specification's order; none where the split is of folds."""
        codes = self.manifest.in_use.column()
        return {name: np.flatnonzero(codes == code) for name, code in self.manifest.membership.parts.items()}


def split_data(manifest: Manifest, balance: BalanceReport, data: Any = None) -> SplitData:
    """Return what the pictures show, of at most 200 splits; the data are read once. O(rows x splits), 1 MB at most."""
    columns = manifest.spec.columns
    beside = None if data is None else Joined.of(manifest, data)
    rows = np.flatnonzero(manifest.in_use.column() >= LOCKED)
    target, group, time = (_column(beside, rows, name) for name in (columns.target, columns.group, columns.time))
    order, name = _order(manifest, group, time)
    seen = SplitData(manifest, balance, target, group, time, rows, order, name)
    if group is not None and isinstance(manifest.membership, Draws):
        seen.picks = np.zeros(len(group.names), dtype=np.int64)
    for i in range(balance.n_measured):
        _add_split(seen, i)
    seen.inclusion /= max(balance.n_measured, 1)
    return seen


def _column(beside: Joined | None, rows: Positions, name: str | None) -> SplitColumn | None:
    if beside is None or name is None:
        return None
    column, columns, place = beside.column(name), beside.columns, beside.lookup.exact_rows()
    values = to_numpy(column)
    if name == columns.time:
        return SplitColumn(name, True, values[np.maximum(place, 0)], np.empty(0, dtype=np.int64), ())
    if name == columns.target and is_numeric_target(column):
        numbers = np.full(place.size, np.nan)
        numbers[rows] = values[place[rows]]
        return SplitColumn(name, True, numbers, np.empty(0, dtype=np.int64), ())
    codes = np.full(place.size, -1, dtype=np.int64)
    texts = values[place[rows]].astype(str)
    if name == columns.group and column.null_count:  # each of these rows is a group of its own
        nameless = column.is_null().to_numpy()[place[rows]]
        texts = np.where(nameless, np.char.add("row ", place[rows].astype(str)), texts)
    levels, codes[rows] = np.unique(texts, return_inverse=True)
    return SplitColumn(name, False, values, codes, tuple(levels.tolist()))


def _order(manifest: Manifest, group: SplitColumn | None, time: SplitColumn | None) -> tuple[Positions, str]:
    """Return the rows of the map, none that left the data among them, and what orders them."""
    active = np.flatnonzero(manifest.status == ACTIVE)
    if time is not None:
        return active[np.argsort(time.values[active], kind="stable")], f"rows by {time.name}"
    codes = manifest.in_use.column()[active]
    if group is not None:
        return active[np.lexsort((group.codes[active], codes))], f"rows by fold and {group.name}"
    by_fold = active[np.argsort(codes, kind="stable")]
    # Without an order that means something so many rows stand for all.
    chosen = np.unique(np.linspace(0, active.size - 1, 60).astype(np.int64))
    of = amount(active.size, "row")
    name = f"{chosen.size} of {of}" if chosen.size < active.size else of
    return by_fold[chosen], f"{name}, by fold" if isinstance(manifest.membership, Labels) else name


def _add_split(seen: SplitData, i: int) -> None:
    manifest = seen.manifest
    train, test = manifest.in_use.pair(i)
    if seen.time is not None and train.size and test.size:
        seen.in_time &= bool(seen.time.values[train].max() < seen.time.values[test].min())
    if isinstance(manifest.in_use, Draws):
        eligible = np.bincount(train, minlength=manifest.n)[manifest.in_use.eligible]
        seen.inclusion += np.bincount(np.minimum(eligible, MOST_COUNT - 1), minlength=MOST_COUNT) / eligible.size
    if seen.picks is not None and seen.group is not None:
        seen.picks += np.bincount(seen.group.codes[test], minlength=seen.picks.size) > 0
    if i >= MOST_SPLITS:
        return
    role = np.zeros(manifest.n, dtype=np.int8)
    role[train], role[test] = 1, 2
    ordered, edges = role[seen.order], seen.edges
    sizes = np.diff(edges)
    seen.tested.append(np.add.reduceat(ordered == 2, edges[:-1]) / sizes)
    seen.unused.append(np.add.reduceat(ordered == 0, edges[:-1]) / sizes)
    if i < MOST_LINES:
        seen.tests.append(test)


def cumulative(seen: SplitData) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return numbers between the target's .5 and 99.5 % quantiles, the share of rows up to each, and that by fold."""
    if seen.target is None or not seen.target.numeric:
        return np.empty(0), np.empty(0), {}
    y = seen.target.values
    ranked = y[seen.rows]
    ranked = ranked[stable_order(ranked)]
    low, high = ranked.size // 200, ranked.size - 1 - ranked.size // 200
    values = np.unique(ranked[np.unique(np.linspace(low, high, MOST_POINTS).astype(np.int64))])
    whole = np.searchsorted(ranked, values, side="right") / ranked.size
    parts = seen.parts or dict(zip(seen.names, seen.tests, strict=False))
    of_parts = {name: y[rows] for name, rows in parts.items()}
    folds = {name: np.searchsorted(np.sort(y), values, side="right") / max(y.size, 1) for name, y in of_parts.items()}
    return values, whole, folds


def group_sizes(seen: SplitData) -> dict[int, list[int]] | None:
    """Return the sizes of the groups in each fold or part, largest first; None where groups have no fold."""
    manifest = seen.manifest
    if seen.group is None and manifest.generation > 0:
        return None
    if not isinstance(manifest.membership, Labels) or manifest.group_table is None or manifest.spec.columns.entities:
        return None
    if seen.group is not None:
        first = np.full(len(seen.group.names), manifest.n, dtype=np.int64)
        codes = seen.group.codes[seen.rows]
        np.minimum.at(first, codes, seen.rows)
        folds, rows = manifest.membership.column()[first], np.bincount(codes)
    else:
        folds = manifest.group_table.column("fold").to_numpy()
        rows = manifest.group_table.column("rows").fill_null(0).to_numpy()
    part_codes = manifest.membership.parts.values()
    held = [fold for fold in np.unique(folds).tolist() if (fold in part_codes if part_codes else fold >= 0)]
    return {fold: sorted(rows[folds == fold].tolist(), reverse=True) for fold in held} or None


def evenness(seen: SplitData) -> list[tuple[float, float | None]]:
    """Return the largest deviation of a fold's size after each generation, and the target's gap where it is known."""
    manifest = seen.manifest
    assert manifest.born is not None
    figures: list[tuple[float, float | None]] = []
    for generation in range(manifest.generation + 1):
        then = np.flatnonzero(manifest.born <= generation)
        codes = manifest.at_generation(generation).in_use.column()
        tested, folds = then[codes >= 0], codes[codes >= 0]
        if not tested.size:  # every such row was deleted
            figures.append((0.0, None))
            continue
        sizes = np.bincount(folds)
        gap = _gap_of(seen.target, folds, tested) if np.isin(tested, seen.rows).all() else None
        figures.append((float(np.abs(sizes / sizes.mean() - 1).max()), gap))
    return figures


def _gap_of(target: SplitColumn | None, folds: NDArray[Any], tested: Positions) -> float | None:
    if target is None:
        return None
    if target.numeric:
        sets = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
        return max(fold["ks"] or 0.0 for fold in compared_with_all(target.values[tested], sets))
    counts = np.zeros((int(folds.max()) + 1, len(target.names)))
    np.add.at(counts, (folds, target.codes[tested]), 1)
    counts = counts[counts.any(axis=1)]
    shares = counts / counts.sum(axis=1, keepdims=True)
    return float(np.abs(shares - counts.sum(axis=0) / counts.sum()).max())


MISSED = 0.05  # the share of random sets that may lie outside


def random_share(share: float, rows: float, of: int, sets: int = 1) -> float:
    """Return how far from a class share ``sets`` random sets of ``rows`` of ``of`` rows all stay in 95 % of cases."""
    # By a normal law, drawn without replacement; several sets by Bonferroni's bound.
    spread = sqrt(share * (1 - share) / max(rows, 1.0) * max(1 - rows / of, 0.0))
    return min(float(ndtri(1 - MISSED / (2 * sets))) * spread, max(share, 1 - share))


def random_distance(rows: float, of: int, sets: int = 1) -> float:
    """Return the KS distance that ``sets`` random sets of ``rows`` of ``of`` rows all keep in 95 % of cases."""
    # By the two-sided bound 2 exp(-2 rows d^2) of Kolmogorov's law, drawn without replacement.
    return min(sqrt(log(2 * sets / MISSED) / 2 * max(1.0 - rows / of, 0.0) / max(rows, 1.0)), 1.0)


@dataclass(frozen=True)
class TargetGap:
    """The distance of the target of folds and parts from that of all rows (0 to 1), beside random ones of their sizes.

    ``worst`` is of the set that is furthest off for its size, ``random`` the bound for 95 % of random sets of that
    size; ``largest`` and ``largest_random`` are those of the set with the largest gap, which may be small.
    """

    worst: float
    random: float
    largest: float
    largest_random: float

    @property
    def within(self) -> bool:
        """Return whether each set is no further off than random sets of its size."""
        return self.worst <= self.random

    @property
    def bound(self) -> str:
        """The bound of random sets as large as the one of the largest gap, then of the worst, in words."""
        worst = f", and {points(self.random)} for the set that is {points(self.worst)} off"
        return points(self.largest_random) + ("" if self.worst == self.largest else worst)


def target_gap(balance: BalanceReport, of: Sequence[RowsBalance] | None = None) -> TargetGap | None:
    """Return the gap of the target of sets, by default every fold and part, from that of all rows; None without."""
    places, n = [place for place in (balance.measured if of is None else of) if place.rows], balance.n_rows
    gaps = [(place.ks, random_distance(place.rows, n, len(places))) for place in places if place.ks is not None]
    if not gaps and balance.shares is not None:
        shares = balance.shares
        sets = len(places) * max(len(shares) - 1, 1)  # of two classes one says it all
        off = [[abs(a - b) for a, b in zip(place.shares or shares, shares, strict=True)] for place in places]
        limits = [max(random_share(share, place.rows, n, sets) for share in shares) for place in places]
        gaps = [(max(each), limit) for each, limit in zip(off, limits, strict=True)]
    if not gaps:
        return None
    worst, random = max(gaps, key=lambda gap: (gap[0] / max(gap[1], 1e-12), gap[0]))
    return TargetGap(worst, random, *max(gaps))

"""The cost of a packing, its distance from even; bins of a numeric column; sums of subsets, those that nearly meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from evenfold.splitters.errors import SplitError
from evenfold.splitters.numbers import IntArray, Stream, combined, stable_order
from evenfold.splitters.rows import Rows
from numpy.typing import NDArray

QUANTILE_BINS = 10
FEWEST_ROWS = 20  # of a bin beside numbers that have their own: so many that a part of a twentieth has one
Span = tuple[int, int]


def edges_of(ascending: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the numbers at which all bins but the first begin, of numbers in ascending order.

    Equal numbers share a bin; there are at most ``bins`` bins, each of at least 20 rows, or n / ``bins`` where that is
    less. A number with as many rows as a bin has on average gets one of its own, unless what lies beside it would then
    need larger bins than this one; and so on with what is left. The stretches between such numbers share the other bins
    by their rows, and each is cut evenly, where the number begins that is nearest. O(bins) searches of O(bins) numbers.
    """
    n = ascending.size
    bins, alone = min(bins, n), list[Span]()
    fewest = min(FEWEST_ROWS, n // bins)
    while True:
        stretches, left = _between(alone, n), bins - len(alone)
        rest = sum(stop - first for first, stop in stretches)
        # Numbers with as many rows as an average bin of the rest stand at one of these ranks each.
        starts = [rank for stretch in stretches for rank in _steps(*stretch, rest, left)]
        heavy = {span for span in _spans(ascending, starts) if span[1] - span[0] >= max(rest / left, fewest)}
        n_alone = len(alone)
        for first, stop in sorted(heavy, key=lambda span: (span[0] - span[1], span)):
            more = sorted([*alone, (first, stop)])
            between, others = _between(more, n), bins - len(more)
            shares = zip(between, _shares(between, others, fewest), strict=True)
            if len(between) <= others and all((b - a) / share <= stop - first for (a, b), share in shares):
                alone = more
        if len(alone) == n_alone:
            break
    # Of each stretch where its bins begin, but for the first: an end of the number that stands there, the nearer one.
    cuts = {0, n}.union(*alone)
    for (first, stop), share in zip(stretches, _shares(stretches, left, fewest), strict=True):
        ranks = _steps(first, stop, stop - first, share)[1:]
        for rank, span in zip(ranks, _spans(ascending, ranks), strict=True):
            if inside := [(abs(end - rank), end) for end in span if first < end < stop]:
                cuts.add(min(inside)[1])
    return ascending[sorted(cuts - {0, n})]


def bins_of_numbers(y: NDArray[np.float64], ranked: IntArray, bins: int = QUANTILE_BINS) -> tuple[IntArray, int]:
    """Return the bin of each number by ``edges_of``, and how many; ``ranked`` puts y in order. O(n log bins)."""
    edges = edges_of(y[ranked], bins)
    return np.searchsorted(edges, y, side="right"), edges.size + 1


def _spans(ascending: NDArray[np.float64], ranks: list[int]) -> list[Span]:
    """Return for each of some ranks the first rank with the same number, and the first beyond these."""
    first, stop = (np.searchsorted(ascending, ascending[ranks], side).tolist() for side in ("left", "right"))
    return list(zip(first, stop, strict=True))


def _between(spans: Sequence[Span], n: int) -> list[Span]:
    """Return what lies between ascending spans, before the first and after the last, where that is not empty."""
    first, stop = zip(*[*spans, (n, n)], strict=True)
    return [(a, b) for a, b in zip((0, *stop), first, strict=False) if a < b]


def _steps(first: int, stop: int, rows: int, bins: int) -> list[int]:
    """Return the ranks at which bins begin from ``first`` to below ``stop``, where ``rows`` make so many bins."""
    # first + ceil(step rows / bins) is below stop exactly while step rows <= (stop - first - 1) bins.
    return [first - (-step * rows // bins) for step in range((stop - first - 1) * bins // rows + 1)]


def _shares(stretches: Sequence[Span], bins: int, fewest: int) -> list[int]:
    """Return the bins of each stretch: one, and more, one by one, where they are largest and keep ``fewest`` rows."""
    sizes, shares = [stop - first for first, stop in stretches], [1] * len(stretches)
    for _ in range(bins - len(stretches)):
        able = [i for i, size in enumerate(sizes) if size >= fewest * (shares[i] + 1)]
        if able:
            shares[max(able, key=lambda i: sizes[i] / shares[i])] += 1
    return shares


FloatArray = NDArray[np.float64]
SizeWeight = float | Literal["relative", "exact"]

# A column that a bin lacks, though enough entries have it for every bin, weighs more than any unevenness.
MISSING = 1.0
# What a row too many or too few costs where sizes must be exact.
EXACT = 1e3


class Aim:
    """The perfect packing: every bin has its share of the rows, and every column's share of them.

    cost = sum_f pull_f (n_f - wanted_f)^2 + sum_f sum_c weight_c (n_fc / n_f - n_c / n)^2, plus ``MISSING`` for each
    bin without a row of a column that at least as many entries as bins have.
    With ``size_weight`` w, pull_f is w / n^2; with "relative" it is 1 / wanted_f^2, so that a bin that is 10 % too
    big costs 0.01 whatever the number of bins; with "exact" a row too many outweighs everything.

    ``table`` (entries, columns) and ``shares`` (bins) make it; an entry's size is its row's sum unless given.
    ``vectors`` (1 + columns, entries): an entry's size, and per column its excess: the rows it has beyond its share,
    times the root of the weight. A bin's class term is the sum of its squared excesses over its squared size.
    """

    def __init__(
        self, table: IntArray, shares: FloatArray, *, sizes: IntArray | None = None, weights: FloatArray | None = None,
        size_weight: SizeWeight = "relative",
    ) -> None:  # fmt: skip
        self.table, self.shares, self.n_bins = table, shares, int(shares.size)
        self.sizes: IntArray = table.sum(axis=1) if sizes is None else sizes
        n, size = float(self.sizes.sum()), self.sizes.astype(np.float64)
        self.wanted: FloatArray = n * shares
        self.rates: FloatArray = table.sum(axis=0).astype(np.float64) / n
        self.roots: FloatArray = np.ones(self.rates.size) if weights is None else np.sqrt(weights)
        # Linear in the entries: a bin's excess is the sum of its entries', and an exchange only adds and subtracts.
        excess = (np.ascontiguousarray(table.T) - self.rates[:, None] * size) * self.roots[:, None]
        self.vectors: FloatArray = np.vstack([size[None], excess])
        self.needed: NDArray[np.bool_] = np.count_nonzero(table, axis=0) >= shares.size
        self.exact = size_weight == "exact"  # whether sizes must be
        pull: FloatArray | float = EXACT if self.exact else 1.0 / (self.wanted * self.wanted)
        pull = pull if isinstance(size_weight, str) else size_weight / (n * n)
        self.pull: FloatArray = np.broadcast_to(pull, shares.shape)

    def loads(self, bins: IntArray) -> IntArray:
        """Return each bin's rows and rows of each column (1 + columns, bins), exactly, of bins 0 to n_bins - 1."""
        columns = [self.sizes, *self.table.T]
        # Sums of integers below 2**53 are exact in float64, in any order.
        # Bin n_bins is where place() puts what has no bin yet; it is cut off.
        sums = [np.bincount(bins, weights=column, minlength=self.n_bins)[: self.n_bins] for column in columns]
        return np.stack(sums).astype(np.int64)

    def excesses(self, loads: IntArray) -> FloatArray:
        """Return what ``vectors`` sum to in each bin (1 + columns, bins), from exact loads."""
        excess = (loads[1:] - self.rates[:, None] * loads[0]) * self.roots[:, None]
        return np.vstack([loads[:1].astype(np.float64), excess])

    def terms(self, loads: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return the size term, the class term and the number of missing columns of each bin."""
        rows = np.maximum(loads[0], 1).astype(np.float64)
        excess = self.excesses(loads)[1:]
        off = loads[0] - self.wanted
        lacking = np.count_nonzero((loads[1:] == 0) & self.needed[:, None], axis=0)
        # Over the first axis: whole columns are added one after another, in the same order on every machine.
        return self.pull * (off * off), np.add.reduce(excess * excess, axis=0) / (rows * rows), lacking

    def costs_of(
        self, sums: FloatArray, empty: float, bins: Any = slice(None), scarce: Sequence[int] = ()
    ) -> FloatArray:
        """Return the cost of ``bins`` with these sums of ``vectors`` (1 + columns, ...).

        ``empty`` is the class term of a bin without rows; only columns that are ``scarce`` cost where they are missing.
        """
        rows = sums[0]
        squares = np.zeros(rows.shape)
        for excess in sums[1:]:  # column after column, so that every machine adds in this order
            squares += excess * excess
        some, off = np.maximum(rows, 0.5), rows - self.wanted[bins]
        costs: FloatArray = np.where(rows < 0.5, empty, squares / (some * some)) + self.pull[bins] * (off * off)
        for column in scarce:  # back from an excess to rows: excess = (rows - rate x size) x root
            costs += MISSING * (sums[1 + column] / self.roots[column] + self.rates[column] * rows < 0.5)
        return costs

    def costs(self, loads: IntArray) -> FloatArray:
        """Return the cost of each bin."""
        size, classes, lacking = self.terms(loads)
        return size + classes + MISSING * lacking


def cost_of_chance(aim: Aim) -> float:
    """Return the expected cost of rows that fall into the bins one by one, at random (of exact sizes, if asked)."""
    # Binomial variances: n share (1 - share) of a bin's rows, and rate (1 - rate) / wanted of its share of a class.
    spread = aim.pull * aim.wanted * (1.0 - aim.shares) * (not aim.exact)
    classes = aim.roots * aim.roots * aim.rates * (1.0 - aim.rates)
    return math.fsum(spread.tolist()) + math.fsum(classes.tolist()) * math.fsum((1.0 / aim.wanted).tolist())


@dataclass(frozen=True, kw_only=True)
class GroupRows(Rows):
    """Rows of which only the table of groups and classes is known, as ``table_to_pack`` returns it; ``n`` counts rows.

    ``groups`` has one entry a group, 0, 1, 2, ...; a ``by_group_table`` strategy labels groups as their rows.
    """

    sizes: IntArray
    table: IntArray
    weights: NDArray[np.float64]

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return self.sizes.size


MOST_CELLS = 2_000_000_000  # of groups by classes


def table_to_pack(rows: Rows) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the rows of each entry, its rows of each class (entries, classes) and the classes' weights.

    An entry is a group, or a row where there are no groups. Numbers by the bins of ``bins_of_numbers``, several columns
    ``side_by_side``. O(n x columns), with numbers O(n log n).
    """
    if isinstance(rows, GroupRows):
        return rows.sizes, rows.table, rows.weights
    entry, n_entries = (np.arange(rows.n), rows.n) if rows.groups is None else (rows.groups, rows.n_groups)
    columns, tables = [(codes, len(levels)) for codes, levels in rows.classed], []
    if rows.y_holds == "numbers":
        columns = [bins_of_numbers(rows.y, rows.ranked)]
    for codes, n_classes in columns:
        require_table(n_entries, n_classes)
        cells = np.bincount(entry * n_classes + codes, minlength=n_entries * n_classes)
        tables.append(cells.reshape(n_entries, n_classes))
    return np.bincount(entry, minlength=n_entries), *side_by_side(tables, n_entries)


def aim_of(rows: Rows, shares: FloatArray, size_weight: SizeWeight = "relative") -> Aim:
    """Return the perfect packing of rows, as ``table_to_pack`` sees them, into bins of given shares."""
    sizes, table, weights = table_to_pack(rows)
    return Aim(table, shares, sizes=sizes, weights=weights, size_weight=size_weight)


def require_table(n_groups: int, n_classes: int) -> None:
    """Raise SplitError where a table of groups by classes has more cells than any machine should be asked for."""
    cells = n_groups * n_classes
    if cells > MOST_CELLS:
        raise SplitError(
            f"{n_groups:,} groups by {n_classes:,} classes are a table of {cells * 8 / 1e9:,.0f} GB, and "
            f"{MOST_CELLS * 8 / 1e9:,.0f} GB are the most; share out a column of fewer classes, or none."
        )


def side_by_side(tables: Sequence[IntArray], n_entries: int) -> tuple[IntArray, FloatArray]:
    """Return the tables of several columns as one, and the weight of each class.

    Beside others a column of two classes is counted by its rarer one, twice as heavy: the cost is the same.
    """
    if len(tables) == 1:
        return tables[0], np.ones(tables[0].shape[1])
    columns, weights = [np.zeros((n_entries, 0), dtype=np.int64)], [np.zeros(0)]
    for table in tables:
        of_two = table.shape[1] == 2
        columns.append(table[:, [int(np.argmin(table.sum(axis=0)))]] if of_two else table)
        weights.append(np.full(columns[-1].shape[1], 2.0 if of_two else 1.0))
    return np.column_stack(columns), np.concatenate(weights)


def subset_sums(vectors: FloatArray) -> FloatArray:
    """Return the sum of every subset of the columns of ``vectors`` (rows, m), as (rows, 2**m).

    Bit i of a column's number says whether vector i is in the sum. O(rows x 2**m), by doubling.
    """
    rows, m = vectors.shape
    sums = np.zeros((rows, 1 << m))
    for i in range(m):
        # All sums of the vectors before, once more with vector i.
        np.add(sums[:, : 1 << i], vectors[:, i : i + 1], out=sums[:, 1 << i : 2 << i])
    return sums


def close_pairs(
    left: FloatArray, right: FloatArray, width: float, stream: Stream, budget: int
) -> tuple[IntArray, IntArray, float]:
    """Return positions (i, j) of columns of ``left`` and ``right`` in one cell of a random grid, and its width.

    Columns much closer than ``width`` nearly always meet, distant ones never. The width is adapted until about
    ``budget`` pairs meet, never more than twice as many. O((columns of both) log) a width.
    """
    points, offset = np.hstack([left, right]), stream.uniform(left.shape[0])[:, None]
    low, high = 0.0, float("inf")
    for _ in range(16):
        # A code that two cells share costs time and does no harm: every exchange that meets gets its exact cost.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # points that coincide narrow it down to 0
            cells = np.floor(points / width + offset)
        # Machines differ in which whole number a float beyond all of them becomes, so it is named: the least.
        cells = np.where(np.abs(cells) < 2.0**63, cells, -(2.0**63)).astype(np.int64)
        codes, others = np.split(combined(cells).view(np.int64), [left.shape[1]])
        order = stable_order(others)
        ranked = others[order]
        first = np.searchsorted(ranked, codes, "left")
        counts = np.searchsorted(ranked, codes, "right") - first
        meetings = int(counts.sum())
        # Doubled or halved until the wanted number of meetings is bracketed, then bisected.
        if meetings > 2 * budget:
            high = width
        elif meetings < budget // 4:
            low = width
        else:
            break
        width = 2.0 * width if high == float("inf") else width / 2.0 if low == 0.0 else (low + high) / 2.0
    counts = np.minimum(counts, max(2 * budget // codes.size, 1))  # points that coincide are told apart by no width
    # Column i meets the counts[i] columns that stand from first[i] on in the order of cells.
    i = np.repeat(np.arange(codes.size), counts)
    return i, order[np.arange(i.size) + np.repeat(first + counts - np.cumsum(counts), counts)], width

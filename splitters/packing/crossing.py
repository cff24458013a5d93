"""The search of bins for levels of several entities, that as few rows as can be have levels of two bins."""

from __future__ import annotations

import heapq

import numpy as np
from evenfold.splitters.numbers import IntArray, Stream, by_appearance, stable_order
from numpy.typing import NDArray

from .cost import MISSING, FloatArray

# What leaving out all rows would cost; a fold that is 10 % too large or too small costs 0.01.
PRICE = 2.0
STARTS = 3
ROUNDS = 20
MOST_VISITS = 30_000  # of levels, in all rounds of one search: a count and no time, so that machines agree
CAPS = (1.0, 0.5, 0.25, 0.1)  # of the smallest share: how large levels may become that are moved as one


class Crossing:
    """Rows (or equal rows, counted) and the levels that they have, to be kept in bins of given ``shares``.

    ``levels`` (rows, columns) are numbered through all columns; ``counts`` (1 + classes, rows) are the rows and those
    of each class; ``roots`` are the roots of the classes' weights. A row is kept where all its levels are in one bin.

    cost = ``PRICE`` x the share of rows that are not kept + sum_f (n_f / (share_f kept) - 1)^2
    + sum_f sum_c weight_c (n_fc / n_f - n_c / n)^2, and ``MISSING`` for each empty bin.
    """

    def __init__(self, levels: IntArray, counts: IntArray, shares: FloatArray, roots: FloatArray) -> None:
        self.levels, self.counts, self.shares, self.roots = levels, counts, shares, roots
        self.n_levels, self.n = int(levels.max()) + 1, int(counts[0].sum())
        # The share of each class, but for rows, in its place: 1, of all rows.
        self.rates = np.asarray(counts.sum(axis=1).astype(np.float64) / self.n)
        # One number for each level and row: once levels are joined, a row can have the same one in two columns.
        n, m = levels.shape
        pairs = np.unique(levels.reshape(-1) * n + np.repeat(np.arange(n), m))
        # The rows of each level side by side, each once, where those of a level begin, and how many rows there are.
        self._rows: IntArray = pairs % n
        self._begins = np.searchsorted(pairs, np.arange(self.n_levels + 1) * n)
        self.sizes = np.diff(np.concatenate([[0], np.cumsum(counts[0][self._rows])])[self._begins])
        self._alone = (levels == levels[:, :1]).all(axis=1)  # which rows have one level alone

    def rows_of(self, level: int) -> IntArray:
        """Return the rows of a level."""
        return self._rows[self._begins[level] : self._begins[level + 1]]

    def bin_of_rows(self, bins: IntArray) -> IntArray:
        """Return the bin of each row, -1 where its levels are in several."""
        of_row = bins[self.levels]
        return np.where((of_row == of_row[:, :1]).all(axis=1), of_row[:, 0], -1)

    def loads(self, bins: IntArray) -> IntArray:
        """Return what each bin keeps (1 + classes, bins)."""
        where = self.bin_of_rows(bins)
        placed = np.flatnonzero(where >= 0)
        sums = [np.bincount(where[placed], count[placed], self.shares.size) for count in self.counts]
        return np.stack(sums).astype(np.int64)

    def movable(self, bins: IntArray) -> NDArray[np.bool_]:
        """Return which levels another bin could keep rows of: those with a row that is not kept, or with all alone."""
        torn, shared = np.zeros(self.n_levels, dtype=np.bool_), np.zeros(self.n_levels, dtype=np.bool_)
        torn[self.levels[self.bin_of_rows(bins) < 0]] = True
        shared[self.levels[~self._alone]] = True
        return torn | ~shared

    def gains(self, level: int, bins: IntArray) -> IntArray:
        """Return what each bin would keep of a level's rows if the level were in it (1 + classes, bins)."""
        rows = self.rows_of(level)
        of_row = self.levels[rows]
        others = bins[of_row]
        own = of_row == level
        # The level's own cells are out of reach of both, so low == high says that the row's other levels share a bin.
        low = np.where(own, self.shares.size, others).min(axis=1)
        high = np.where(own, -1, others).max(axis=1)
        inside, agreed = high < 0, (low == high) & (low >= 0)
        brought = self.counts[:, rows]
        gained = np.zeros((brought.shape[0], self.shares.size), dtype=np.int64)
        # kept.T[...] += would count a bin once where it stands in `low` several times.
        np.add.at(gained.T, low[agreed], brought[:, agreed].T)
        return np.asarray(gained + brought[:, inside].sum(axis=1)[:, None])

    def cost_of(self, bins: IntArray) -> float:
        """Return the cost of levels in ``bins``."""
        return float(self.cost(self.loads(bins)[:, :, None])[0])

    def cost(self, loads: IntArray) -> FloatArray:
        """Return the cost of loads (1 + classes, bins, alternatives)."""
        rows = loads[0].astype(np.float64)
        held = np.add.reduce(rows, axis=0)
        off = rows / (self.shares[:, None] * np.maximum(held, 1.0)) - 1.0
        lost = (loads[1:] / np.maximum(rows, 1.0) - self.rates[1:, None, None]) * self.roots[:, None, None]
        uneven = off * off + np.add.reduce(lost * lost, axis=0) + MISSING * (loads[0] == 0)
        return np.asarray(np.add.reduce(uneven, axis=0) + PRICE * (1.0 - held / self.n))


def bins_of_levels(crossing: Crossing, stream: Stream) -> IntArray:
    """Return the bin of each level: the cheapest of several searches; no exact way of this balanced cut is fast.

    Levels that share most of their rows are joined; what is joined is put into bins, neighbours together, and moved one
    by one while that lowers the cost; then so are the levels. O(visits x rows of a level).
    """
    chosen = []
    for cap in CAPS:
        joined = _joined(crossing, cap * float(crossing.shares.min()) * crossing.n)
        coarse = Crossing(joined[crossing.levels], crossing.counts, crossing.shares, crossing.roots)
        starts = [_improved(coarse, _grown(coarse, start, stream), stream) for start in range(STARTS)]
        chosen.append(_improved(crossing, min(starts, key=coarse.cost_of)[joined], stream))
    return min(chosen, key=crossing.cost_of)


def _joined(crossing: Crossing, most: float) -> IntArray:
    """Return the number of what each level is joined to: those that share the most rows first, up to ``most`` rows."""
    m = crossing.levels.shape[1]
    pairs = [crossing.levels[:, [a, b]] for a in range(m) for b in range(a + 1, m)]
    # Rows that two levels share, for each pair of levels that meet.
    both = np.sort(np.concatenate(pairs), axis=1)
    keys, number = np.unique(both[:, 0] * crossing.n_levels + both[:, 1], return_inverse=True)
    shared = np.bincount(number.reshape(-1), np.tile(crossing.counts[0], len(pairs)))
    one, other = keys // crossing.n_levels, keys % crossing.n_levels
    part = shared / np.minimum(crossing.sizes[one], crossing.sizes[other])
    # By the part of the rarer level's rows that are shared; among equal parts the pair with more rows first.
    order = stable_order(-shared)
    order = order[stable_order(-part[order])]
    # Each row has m levels and counts as 1/m of a row in each, so what is held adds up to the rows.
    root, held = list(range(crossing.n_levels)), (crossing.sizes / m).tolist()

    def found(level: int) -> int:
        while root[level] != level:
            root[level] = level = root[root[level]]
        return level

    for a, b in zip(one[order].tolist(), other[order].tolist(), strict=True):
        into, away = found(a), found(b)
        if into != away and held[into] + held[away] <= most:
            root[away] = into
            held[into] += held[away]
    return by_appearance(np.array([found(level) for level in range(crossing.n_levels)]))


def _grown(crossing: Crossing, start: int, stream: Stream) -> IntArray:
    """Return bins that are filled one after another, each with what shares most rows with what it holds."""
    bins = np.full(crossing.n_levels, -1)
    own = crossing.sizes / crossing.levels.shape[1]
    order = stable_order(-crossing.sizes) if start == 0 else stream.permutation(crossing.n_levels)
    waiting = dict.fromkeys(order.tolist())
    sizes = crossing.sizes.tolist()
    *targets, last = stable_order(-crossing.shares).tolist()
    for target in targets:
        held, wanted = 0.0, float(crossing.shares[target]) * crossing.n
        tied, nearest = dict[int, int](), list[tuple[float, int]]()
        while waiting:
            # Keys in the heap are never updated: a level's newest is the smallest, and its older ones are dropped here.
            while nearest and nearest[0][1] not in waiting:
                heapq.heappop(nearest)
            level = heapq.heappop(nearest)[1] if nearest else next(iter(waiting))
            # Stopping before or after this level, whichever is nearer to the share; but never with an empty bin.
            if held and held + own[level] / 2 > wanted:
                break
            bins[level], held = target, held + float(own[level])
            waiting.pop(level)
            rows = crossing.rows_of(level)
            for levels, shared in zip(crossing.levels[rows].tolist(), crossing.counts[0][rows].tolist(), strict=True):
                for near in filter(waiting.__contains__, levels):
                    tied[near] = tied.get(near, 0) + shared
                    heapq.heappush(nearest, (-tied[near] / sizes[near], near))
    bins[bins < 0] = last
    return bins


def _improved(crossing: Crossing, bins: IntArray, stream: Stream) -> IntArray:
    """Return bins that no move of one level betters, or those after the most visits."""
    bins, loads, visits = bins.copy(), crossing.loads(bins), 0
    for _ in range(ROUNDS):
        moved = 0
        order = stream.permutation(crossing.n_levels)
        for level in order[crossing.movable(bins)[order]].tolist():
            gains, here = crossing.gains(level, bins), int(bins[level])
            if visits >= MOST_VISITS:
                return bins
            visits += 1
            # Alternative j of tried (1 + classes, bins, alternatives) has the level in bin j; `here` is one of them.
            without = loads.copy()
            without[:, here] -= gains[:, here]
            k = crossing.shares.size
            tried = np.repeat(without[:, :, None], k, axis=2)
            tried[:, np.arange(k), np.arange(k)] += gains
            costs = crossing.cost(tried)
            best = int(np.argmin(costs))
            if costs[best] < costs[here] - 1e-12:
                bins[level], loads, moved = best, np.ascontiguousarray(tried[:, :, best]), moved + 1
        if not moved:
            break
    return bins

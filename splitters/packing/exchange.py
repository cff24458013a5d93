"""Exchanges that make a packing cheaper: the best of millions between two bins, and of a population of packings."""

from __future__ import annotations

import math

import numpy as np
from evenfold.splitters.kernels import IntArray, Stream, combined
from evenfold.splitters.numbers import stable_order
from numpy.typing import NDArray

from .cost import Aim, FloatArray


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


ALL_AT_ONCE = 14  # with at most so many entries in two bins, every exchange is tried
HALF = 10  # otherwise the subsets of two lists of so many entries are joined: 2**20 exchanges,
ROOM = 1 << 14  # or fewer, so that a list's sums are so many numbers where there are many columns
CHOICE = 12  # the lists are drawn from so many entries more than they hold: those whose move does the least harm
MEETINGS = 81_920  # the joined exchanges that get their exact cost have about so many numbers in all


class TwoBins:
    """Bins ``a`` and ``b`` with the entries that may move between them.

    ``changes`` (1 + columns, entries): what moving an entry to the other bin takes from ``a`` and gives to ``b``.
    """

    def __init__(self, aim: Aim, a: int, b: int, loads: IntArray, entries: IntArray, in_a: IntArray) -> None:
        self.aim = aim
        self.entries = entries
        self.changes = aim.vectors[:, entries] * np.where(in_a, 1.0, -1.0)
        self._bins, self._loads = [a, b], loads[:, [a, b]]
        self._pull, self._wanted = aim.pull[[a, b]], aim.wanted[[a, b]]
        self._excesses = aim.excesses(self._loads)

    def of_all(self, limit: float, stream: Stream | None = None) -> tuple[float, IntArray]:
        """Return the cost of the best of all exchanges, and the entries that change their bin; none above ``limit``.

        With a ``stream`` of any that keeps the limit, each equally likely; moving nothing is one of them.
        """
        numbers, costs = self.within(limit, subset_sums(self.changes), self.entries)
        if numbers.size == 0:
            return math.inf, self.entries[:0]
        i = int(np.argmin(costs) if stream is None else stream.below(numbers.size, 1)[0])
        return float(costs[i]), self.entries[np.flatnonzero((numbers[i] >> np.arange(self.entries.size)) & 1)]

    def best_of_joined(self, limit: float, stream: Stream, width: float) -> tuple[float, IntArray, float]:
        """Return the cost of the best exchange that joins two lists of entries, its entries, and the grid's width.

        None above ``limit``. Subsets of both whose sums meet near the ideal change get their exact cost.
        """
        scale, ideal = self._scaled()
        # |c - ideal|^2 - |ideal|^2 for an entry's change c: what moving it alone would add to the cost.
        scaled = self.changes * scale[:, None]
        harm = np.add.reduce(scaled * (scaled - 2.0 * ideal[:, None]), axis=0)
        size = 2 * min(HALF, (ROOM // ideal.size).bit_length() - 1)
        least = stable_order(harm)[: size + CHOICE]
        chosen = least[stream.permutation(least.size)[:size]]
        # Meet in the middle: instead of 2**20 exchanges, 2 x 2**10 sums, of which those are joined that nearly add up
        # to the ideal change: left + right = ideal, so left lies near ideal - right.
        half = chosen.size // 2
        left, right = subset_sums(self.changes[:, chosen[:half]]), subset_sums(self.changes[:, chosen[half:]])
        aims = (ideal[:, None] - right * scale[:, None], left * scale[:, None])
        if not width:
            nothing = np.zeros((self.changes.shape[0], 1))
            width = math.sqrt(float(self.within(math.inf, nothing, self.entries[:0])[1][0])) or 1e-6
        first, second, width = close_pairs(aims[1], aims[0], width, stream, MEETINGS // ideal.size)
        # Sizes alone rule out more than half, whose columns need not be looked up; by the steps of `costs_of`, so that
        # no rounding lifts a term above the cost that it is a part of.
        size = left[0, first] + right[0, second]
        off_a, off_b = self._loads[0, 0] - size - self._wanted[0], self._loads[0, 1] + size - self._wanted[1]
        near = np.flatnonzero(self._pull[0] * (off_a * off_a) + self._pull[1] * (off_b * off_b) <= limit)
        first, second = first[near], second[near]
        numbers, costs = self.within(limit, left.take(first, axis=1) + right.take(second, axis=1), self.entries[chosen])
        if numbers.size == 0:
            return math.inf, chosen[:0], width
        best = int(np.argmin(costs))
        # The bits of both numbers, one after the other, say which of the chosen entries move.
        number = first[numbers[best]] | second[numbers[best]] << half
        moved = np.flatnonzero((number >> np.arange(chosen.size)) & 1)
        return float(costs[best]), self.entries[chosen[moved]], width

    def within(self, limit: float, change: FloatArray, moving: IntArray) -> tuple[IntArray, FloatArray]:
        """Return which changes (1 + columns, candidates) cost at most ``limit``, ascending, and both bins' cost then.

        That is infinite where one of them is empty. ``moving`` are the entries that the changes are made of.
        """
        most = self.aim.table[moving].sum(axis=0)
        of_a = self._side(0, -1.0, change, most)
        # No bin costs less than 0, and a rounded sum is never below what is added: few are left for the other bin.
        few = np.flatnonzero(of_a <= limit)
        if few.size == 0:
            return few, of_a[:0]
        costs = of_a[few] + self._side(1, 1.0, change.take(few, axis=1), most)
        near = np.flatnonzero(costs <= limit)
        return few[near], costs[near]

    def _side(self, side: int, sign: float, change: FloatArray, most: IntArray) -> FloatArray:
        # Only where the moving entries hold all that the bin has of a column can an exchange take the last of it.
        scarce = np.flatnonzero(self.aim.needed & (self._loads[1:, side] <= most)).tolist()
        sums = self._excesses[:, side, None] + sign * change
        return self.aim.costs_of(sums, math.inf, self._bins[side], scarce)

    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        """Return units in which the cost of a change is about its squared distance to the ideal one, and that."""
        # Both bins' costs as one parabola: with sizes held, a's class term is |x_a - d|^2 / n_a^2 and b's |x_b + d|^2 /
        # n_b^2 for a change d; their sum is least at the mean weighted by 1 / n^2, and as steep as the sum of weights.
        rows = self._loads[0].astype(np.float64)
        weight = 1.0 / (rows * rows)
        ideal = (self._excesses[:, 0] * weight[0] - self._excesses[:, 1] * weight[1]) / (weight[0] + weight[1])
        scale = np.full(ideal.size, math.sqrt(weight[0] + weight[1]))
        pull = float(self._pull[0] + self._pull[1])
        off = (rows - self._wanted) * self._pull
        ideal[0] = np.rint((off[0] - off[1]) / pull) if pull > 0.0 else 0.0
        scale[0] = math.sqrt(pull)
        return scale, ideal * scale


PATIENCE = 6  # rounds in a row without a gain after which a search ends
GAIN = 1e-9  # a relative gain below this is rounding


class Packing:
    """The bin of each entry, the bins' loads and costs, and their sum. Only ``movable`` entries ever move."""

    def __init__(self, aim: Aim, bins: IntArray, stream: Stream, movable: IntArray | None = None) -> None:
        self.aim = aim
        self.bins = bins
        self.loads = aim.loads(bins)
        self.costs = aim.costs(self.loads)
        self.cost = math.fsum(self.costs.tolist())
        self._movable = np.arange(bins.size) if movable is None else movable
        self._stream = stream
        self._width = 0.0
        # Pairs of bins that no exchange betters, as long as neither of them changes.
        self._settled: set[tuple[int, int]] = set()

    def improve(self, rounds: int, patience: int = PATIENCE, enough: float = 0.0) -> None:
        """Exchange between random neighbours until ``patience`` rounds bring nothing, or the cost is ``enough``."""
        idle = 0
        for _ in range(rounds):
            gained = False
            for a, b in self._ring():
                gained |= self.exchange(a, b)
                if self.cost <= enough:
                    return
            idle = 0 if gained else idle + 1
            if idle == patience:
                return

    def exchange(self, a: int, b: int) -> bool:
        """Make the best exchange found between bins ``a`` and ``b``; return whether it lowers the cost."""
        pair = (min(a, b), max(a, b))
        if pair in self._settled:
            return False
        two = self._two(a, b)
        limit = float(self.costs[a] + self.costs[b]) * (1.0 - GAIN)
        if every := two.entries.size <= ALL_AT_ONCE:
            cost, moved = two.of_all(limit)
        else:
            cost, moved, self._width = two.best_of_joined(limit, self._stream, self._width)
        if not cost < limit:
            self._settled |= {pair} if every else set()
            return False
        self._move(moved, a, b)
        return True

    def wander(self, rounds: int, limit: float) -> None:
        """Exchange at random, never above the cost ``limit``: in the long run every packing below it is as likely."""
        for _ in range(rounds):
            for a, b in self._ring():
                rest = self.cost - float(self.costs[a] + self.costs[b])
                two = self._two(a, b, at_most=ALL_AT_ONCE)
                self._move(two.of_all(limit - rest, self._stream)[1], a, b)

    def _two(self, a: int, b: int, at_most: int | None = None) -> TwoBins:
        bins = self.bins[self._movable]
        entries = self._movable[(bins == a) | (bins == b)]
        if at_most is not None:
            entries = entries[self._stream.permutation(entries.size)[:at_most]]
        return TwoBins(self.aim, a, b, self.loads, entries, self.bins[entries] == a)

    def _ring(self) -> list[tuple[int, int]]:
        # Two bins are neighbours on both sides of the ring, and one pair.
        ring = self._stream.permutation(self.costs.size).tolist()
        return list(zip(ring, ring[1:] + ring[:1], strict=True))[: None if len(ring) > 2 else 1]

    def _move(self, entries: IntArray, a: int, b: int) -> None:
        self._settled = {pair for pair in self._settled if a not in pair and b not in pair}
        leave = self.bins[entries] == a
        self.bins[entries] = np.where(leave, b, a)
        rows = np.column_stack([self.aim.sizes[entries], self.aim.table[entries]])
        change = (rows * np.where(leave, 1, -1)[:, None]).sum(axis=0)
        # Loads stay whole numbers and costs are made from them anew: rounding never adds up over thousands of moves.
        self.loads[:, a] -= change
        self.loads[:, b] += change
        self.costs = self.aim.costs(self.loads)
        self.cost = math.fsum(self.costs.tolist())


REPLICAS = 64
MOVING = 400  # the largest entries: the small ones are what exchanges between two bins are for
STEPS = 4_000
STRETCH = 256  # steps of which the random numbers are made at once; after each, sums are made anew
HOT, COLD = 0.02, 1e-4  # of the first cost: by how much a step may raise it at first, and at the end
MOST_SUMS = 50_000  # columns by bins of each packing; above, a step would take more than a hundredth of a second
FEW_HAVE_IT = 40  # a column that fewer entries a bin have can be lacking in one


def fits(aim: Aim) -> bool:
    """Return whether a population is worth its steps: not where bins have very many columns."""
    return bool(aim.vectors.shape[0] * aim.n_bins <= MOST_SUMS)


class Population:
    """``REPLICAS`` packings that start alike.

    All numbers are made from Philox bits by integer arithmetic, and costs by elementwise arithmetic, column after
    column, so every machine takes the same path. A step costs O(columns x replicas), about a fifth of a millisecond.
    """

    def __init__(self, aim: Aim, start: IntArray, stream: Stream) -> None:
        self.aim, self.start, self.stream = aim, start, stream
        self.moving = stable_order(-aim.sizes)[:MOVING]
        self.vectors = np.ascontiguousarray(aim.vectors[:, self.moving])
        # bins (replicas, moving); sums (1 + columns, replicas, bins); costs (replicas, bins); totals (replicas,).
        self.bins = np.tile(start[self.moving], (REPLICAS, 1))
        self.sums = np.repeat(aim.excesses(aim.loads(start))[:, None, :], REPLICAS, axis=1)
        held = np.count_nonzero(aim.table, axis=0) < FEW_HAVE_IT * aim.n_bins
        self.scarce = np.flatnonzero(aim.needed & held).tolist()
        self.every = np.arange(REPLICAS)
        self._renew()
        self.best, self.best_bins = self.totals.copy(), self.bins.copy()

    def _renew(self) -> None:
        """Make costs anew from the sums, for what is added up step by step drifts by rounding."""
        places = np.broadcast_to(np.arange(self.aim.n_bins), self.sums.shape[1:])
        self.costs = self.aim.costs_of(self.sums, math.inf, places, self.scarce)
        # Copied to (bins, replicas), so that bins are added one after another; along the last axis NumPy adds in pairs.
        self.totals = np.add.reduce(np.ascontiguousarray(self.costs.T), axis=0)

    def search(self) -> IntArray:
        """Return the best packing that was met."""
        scale = float(self.totals[0])
        for first in range(0, STEPS, STRETCH):
            steps = min(STRETCH, STEPS - first)
            # Two entries and a bin for each step and replica, and which are moves, a quarter: others are swaps.
            shape, n = (steps, REPLICAS), steps * REPLICAS
            entries, others = (self.stream.below(self.moving.size, n).reshape(shape) for _ in range(2))
            bins = self.stream.below(self.aim.n_bins, n).reshape(shape)
            moves = (self.stream.raw(n).reshape(shape) & np.uint64(3)) == 0
            for step in range(steps):
                # Threshold accepting (Dueck and Scheuer, 1990): any rise below the limit is taken, without a draw.
                left = 1.0 - (first + step) / STEPS
                limit = scale * (HOT * left * left * left + COLD * left)
                self._step(entries[step], others[step], bins[step], moves[step], limit)
            self._renew()
            if first // STRETCH % 4 == 3:
                order, some = stable_order(self.totals), REPLICAS // 4
                worst, best = order[-some:], order[:some]
                # Not best and best_bins: they keep what each place has met, also when its packing is given up.
                for of_replicas in (self.bins, self.costs, self.totals):
                    of_replicas[worst] = of_replicas[best]
                self.sums[:, worst] = self.sums[:, best]
        bins = self.start.copy()
        bins[self.moving] = self.best_bins[int(np.argmin(self.best))]
        return bins

    def _step(self, entry: IntArray, other: IntArray, bins: IntArray, moves: NDArray[np.bool_], limit: float) -> None:
        here = self.bins[self.every, entry]
        there = np.where(moves, bins, self.bins[self.every, other])
        # What `here` gains and `there` loses: in a swap the other entry comes back, in a move nothing does.
        change = np.where(moves, 0.0, self.vectors[:, other]) - self.vectors[:, entry]
        # Both bins at once (2, replicas): what a step takes are calls, not numbers.
        both = np.stack([here, there])
        after = self.sums[:, self.every, both] + np.stack([change, -change], axis=1)
        before = self.costs[self.every, both]
        costs = self.aim.costs_of(after, math.inf, both, self.scarce)
        rise = costs[0] + costs[1] - before[0] - before[1]
        taken = np.flatnonzero((rise < limit) & (here != there))
        if not taken.size:
            return
        changed = both[:, taken]
        self.sums[:, taken, changed] = after[:, :, taken]
        self.costs[taken, changed] = costs[:, taken]
        self.totals[taken] += rise[taken]
        self.bins[taken, entry[taken]] = changed[1]
        swapped = taken[~moves[taken]]
        self.bins[swapped, other[swapped]] = here[swapped]
        better = taken[self.totals[taken] < self.best[taken]]
        self.best[better], self.best_bins[better] = self.totals[better], self.bins[better]

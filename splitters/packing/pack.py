"""The pack kernel: entries of a table go whole into bins, and are exchanged between two bins while it gets cheaper."""

from __future__ import annotations

import math
from copy import copy
from operator import attrgetter
from typing import Literal

import numpy as np
from evenfold.splitters.numbers import IntArray, Stream, combined, stable_order

from .cost import Aim, FloatArray, close_pairs, cost_of_chance, subset_sums
from .exact import BUDGET, MOST_ENTRIES, NODE, best_packing
from .searches import Population, is_affordable


def kinds(table: IntArray) -> IntArray:
    """Return a number for each row of ``table`` that identical rows share. O(n log n)."""
    order = stable_order(combined(table.T))
    # Different rows of one code stand side by side, so neighbours are compared value by value.
    ranked = table[order]
    starts = (ranked[1:] != ranked[:-1]).any(axis=1)
    kind = np.zeros(order.size, dtype=np.int64)
    kind[order[1:]] = np.cumsum(starts)
    return kind


def deal_identical(kind: IntArray, shares: FloatArray, stream: Stream) -> IntArray:
    """Return a bin for as many entries of each kind as go to every bin in its share, and -1 for the others.

    Of m entries of a kind, bin f gets floor(m * shares[f]), which ones at random. O(n log n).
    """
    shuffled = stream.permutation(kind.size)
    order = shuffled[stable_order(kind[shuffled])]
    counts = np.bincount(kind)
    # Kind after kind: bin 0's entries, bin 1's, ..., then those that whole shares leave over.
    quota = np.floor(counts[:, None] * shares).astype(np.int64)
    quota = np.column_stack([quota, counts - quota.sum(axis=1)])
    bins = np.empty(kind.size, dtype=np.int64)
    bins[order] = np.repeat(np.tile(np.append(np.arange(shares.size), -1), counts.size), quota.reshape(-1))
    return bins


def place(aim: Aim, bins: IntArray, stream: Stream) -> None:
    """Give every entry whose bin is -1 the bin that wants it most, in place.

    Large entries go first, those of about the same size in random order. What a bin wants is the sum over the columns
    of what it still misses times what the entry brings, relative to the column's total. No bin stays empty while there
    are as many entries. O(bins x columns) an entry.
    """
    columns = np.column_stack([aim.sizes, aim.table])
    left = np.flatnonzero(bins < 0)
    left = left[stream.permutation(left.size)]
    left = left[stable_order(-np.frexp(aim.sizes[left].astype(np.float64))[1])]
    # A bin's wish for an entry is the sum over columns of (missing / total) x (brings / total).
    totals = np.maximum(columns.sum(axis=0), 1).astype(np.float64)
    pull = (columns[left] / (totals * totals))[:, :, None]
    brings = columns[left].astype(np.float64)
    missing = totals[:, None] * aim.shares - aim.loads(np.where(bins < 0, aim.shares.size, bins))
    empty = set(range(aim.shares.size)) - set(bins[bins >= 0].tolist())
    wish, gain = np.empty_like(missing), np.empty(aim.shares.size)
    exact, taken, turns = aim.exact, np.zeros(aim.shares.size), left.size
    chosen = np.empty(left.size, dtype=np.int64)
    # A hundred thousand groups are as many turns: nothing is looked up in them that is the same in each.
    # columns_of is a view: what a bin gets is taken from `missing`.
    multiply, add_up, columns_of = np.multiply, np.add.reduce, missing.T
    for turn, (wants, rows) in enumerate(zip(pull, brings, strict=True)):
        add_up(multiply(missing, wants, wish), axis=0, out=gain)
        if exact:  # sizes come out exact when every bin gets one entry before any gets its next
            gain += taken
        # As many bins are empty as entries are left: each must get one of them.
        if empty and len(empty) >= turns - turn:
            gain[[f for f in range(gain.size) if f not in empty]] = -np.inf
        best = int(gain.argmax())
        chosen[turn] = best
        if empty:
            empty.discard(best)
        columns_of[best] -= rows
        if exact:
            taken[best] = -np.inf
            if (turn + 1) % taken.size == 0:
                taken[:] = 0.0
    bins[left] = chosen


ALL_AT_ONCE = 14  # with at most so many entries in two bins, every exchange is tried
HALF = 10  # otherwise the subsets of two lists of so many entries are joined: 2**20 exchanges,
ROOM = 1 << 14  # or fewer, so that a list's sums are so many numbers where there are many columns
CHOICE = 12  # the lists are drawn from so many entries more than they hold: those whose move does the least harm
MEETINGS = 81_920  # the joined exchanges that get their exact cost have about so many numbers in all


class TwoBins:
    """Bins ``a`` and ``b`` of a packing with the entries that may move between them, at random ``at_most`` so many.

    ``changes`` (1 + columns, entries): what moving an entry to the other bin takes from ``a`` and gives to ``b``.
    """

    def __init__(self, packing: Packing, a: int, b: int, at_most: int | None = None) -> None:
        self.aim = aim = packing.aim
        bins = packing.bins[packing.movable]
        entries = packing.movable[(bins == a) | (bins == b)]
        if at_most is not None:
            entries = entries[packing.stream.permutation(entries.size)[:at_most]]
        self.entries = entries
        self.changes = aim.vectors[:, entries] * np.where(packing.bins[entries] == a, 1.0, -1.0)
        self._bins, self._loads = [a, b], packing.loads[:, [a, b]]
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
        most, number, costs = self.aim.table[moving].sum(axis=0), np.arange(change.shape[1]), np.zeros(change.shape[1])
        for side, sign in enumerate((-1.0, 1.0)):
            # Only where the moving entries hold all that the bin has of a column can an exchange take the last of it.
            scarce = np.flatnonzero(self.aim.needed & (self._loads[1:, side] <= most)).tolist()
            sums = self._excesses[:, side, None] + sign * change
            costs += self.aim.costs_of(sums, math.inf, self._bins[side], scarce)
            # No bin costs less than 0, and a rounded sum is never below what is added: few are left for the other bin.
            near = np.flatnonzero(costs <= limit)
            number, costs, change = number[near], costs[near], change.take(near, axis=1)
        return number, costs

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
        self.aim, self.bins, self.stream = aim, bins, stream
        self.loads = aim.loads(bins)
        self.costs = aim.costs(self.loads)
        self.cost = math.fsum(self.costs.tolist())
        self.movable = np.arange(bins.size) if movable is None else movable
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
        two = TwoBins(self, a, b)
        limit = float(self.costs[a] + self.costs[b]) * (1.0 - GAIN)
        if every := two.entries.size <= ALL_AT_ONCE:
            cost, moved = two.of_all(limit)
        else:
            cost, moved, self._width = two.best_of_joined(limit, self.stream, self._width)
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
                two = TwoBins(self, a, b, at_most=ALL_AT_ONCE)
                self._move(two.of_all(limit - rest, self.stream)[1], a, b)

    def _ring(self) -> list[tuple[int, int]]:
        # Two bins are neighbours on both sides of the ring, and one pair.
        ring = self.stream.permutation(self.costs.size).tolist()
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


Effort = int | Literal["max"]
DEFAULT_EFFORT = 16
HIGH_EFFORT = 64  # from here on large entries are moved by a population of packings as well
MOST_EFFORT = 400
NODES = 3_000  # of branch and bound by default: a tenth of a second, about
FEW, FEW_A_BIN = 20, 6  # with no more entries an optimiser ends at the same packing whatever the seed
MOVABLE = 256  # entries a bin, the smallest, that exchanges choose from where there are very many
ALIKE = 4  # and of entries that are alike, at most so many a bin
GOOD_ENOUGH = 1.0 / 3.0  # of what rows that fall into the bins one by one would cost
CLOSE = 1.0 / 48.0  # the same for folds and parts of whole groups: about what the published search reaches
LEAST_CLOSE = 15  # with fewer entries hardly any packing is so close, so that seeds would not differ
SLACK = 2.0  # of CLOSE: how much more than the best found packings may cost where that is not close


def pack_to(
    aim: Aim, stream: Stream, effort: Effort = DEFAULT_EFFORT, *, close: bool = False, exact: bool = False
) -> IntArray:
    """Return a bin for each entry of ``aim``, an int64 array; none stays empty while there are as many entries.

    Identical entries are dealt out at once, the others placed one by one, large before small; then ``effort`` rounds
    of exchanges between pairs of bins lower the cost, each the best of about a million. From an effort of 64 on a
    population of packings moves the largest entries as well. With few entries the seed chooses among all packings that
    cost at most ``GOOD_ENOUGH`` of what chance would (``close``: ``CLOSE`` of it with 15 entries or more, or near the
    best that half of ``effort`` starts found); with ``effort="max"`` it is the best one, proved where branch and bound
    comes to an end, and with ``exact`` so is that of up to 20 entries, within ``NODES`` of the search.

    Arithmetic is elementwise, column after column, so every machine takes the same path. O(entries x bins x columns),
    then about a millisecond a pair of bins and round.
    """
    few = aim.sizes.size <= max(FEW if effort != "max" else MOST_ENTRIES, FEW_A_BIN * aim.n_bins)
    if few and effort == "max":
        return best_of_few(aim, stream, 50, BUDGET)
    if exact and effort != "max" and effort >= DEFAULT_EFFORT and aim.sizes.size <= FEW:
        return best_of_few(aim, stream, effort, NODES * NODE)
    if few and effort != "max":
        return one_of_few(aim, stream, effort, close=close and aim.sizes.size >= LEAST_CLOSE)
    kind = kinds(np.column_stack([aim.sizes, aim.table]))
    dealt, movable = deal_identical(kind, aim.shares, stream), _movable(aim, kind)
    packings = [_placed(aim, dealt.copy(), stream, movable) for _ in range(3 if effort == "max" else 1)]
    for packing in packings:
        packing.improve(*((MOST_EFFORT, 30) if effort == "max" else (effort,)))
    best = min(packings, key=attrgetter("cost"))
    if (effort == "max" or effort >= HIGH_EFFORT) and is_affordable(best.aim):
        packing = Packing(best.aim, Population(best.aim, best.bins, stream).search(), stream, movable)
        packing.improve(MOST_EFFORT)
        best = packing if packing.cost < best.cost else best
    return best.bins


def one_of_few(aim: Aim, stream: Stream, effort: int, *, close: bool) -> IntArray:
    """Return one of the many packings of few entries that are good enough."""
    enough = (CLOSE if close else GOOD_ENOUGH) * cost_of_chance(aim)
    best = best_of_starts(aim, stream, max(effort // 2, 1) if close else effort, enough)
    slack = SLACK * enough if close and best.cost > enough else 0.0
    # A best packing above the limit sets the limit itself: it is varied, and never for a worse one.
    best.wander(effort // 2, max(enough, best.cost + slack))
    return best.bins


def best_of_few(aim: Aim, stream: Stream, starts: int, budget: int) -> IntArray:
    """Return the best of some starts, or a better one where a search of all packings finds it within ``budget``."""
    best = best_of_starts(aim, stream, starts)
    proven, _ = best_packing(aim, best.cost, budget)
    return best.bins if proven is None else proven


def best_of_starts(aim: Aim, stream: Stream, starts: int, enough: float = 0.0) -> Packing:
    """Return the best of ``starts`` packings that no exchange between two bins betters, or the first good enough."""
    best = _placed(aim, np.full(aim.sizes.size, -1), stream)
    for start in range(starts):
        # The first is the one placed above, improved in place: an effort of 0 returns it as it was placed.
        packing = best if start == 0 else _placed(aim, np.full(aim.sizes.size, -1), stream)
        packing.improve(MOST_EFFORT, enough=enough)
        if packing.cost < best.cost:
            best = packing
        if best.cost <= enough:
            break
    return best


def _placed(aim: Aim, bins: IntArray, stream: Stream, movable: IntArray | None = None) -> Packing:
    place(aim, bins, stream)
    if aim.exact:  # exact sizes are those of the start: which bins are larger by a row is decided there
        aim = copy(aim)
        aim.wanted = np.bincount(bins, aim.sizes, aim.n_bins).astype(np.float64)
    return Packing(aim, bins, stream, movable)


def _movable(aim: Aim, kind: IntArray) -> IntArray:
    """Return the smallest entries, not too many of a kind, largest last."""
    by_kind = stable_order(kind)
    counts = np.bincount(kind)
    turn = np.empty(kind.size, dtype=np.int64)
    # Each entry's rank within its kind.
    turn[by_kind] = np.arange(kind.size) - np.repeat(np.cumsum(counts) - counts, counts)
    few = np.flatnonzero(turn < ALIKE * aim.n_bins)
    return few[stable_order(aim.sizes[few])[: MOVABLE * aim.n_bins]]


def pack_into(held: IntArray, table: IntArray, shares: FloatArray, stream: Stream) -> IntArray:
    """Return a bin for each entry of ``table``, where bin f holds ``held[f]`` of each column already.

    The entries go in largest first, each to the bin that lacks most of what it brings, then they are exchanged among
    themselves; what the bins hold stays. Costs and arithmetic are those of ``pack_to``.
    """
    n_bins = held.shape[0]
    # What a bin holds is one more entry, in its bin from the start and never among the movable ones.
    aim = Aim(np.vstack([held, table]), shares)
    bins = np.concatenate([np.arange(n_bins), np.full(table.shape[0], -1)])
    place(aim, bins, stream)
    packing = Packing(aim, bins, stream, np.arange(n_bins, bins.size))
    packing.improve(DEFAULT_EFFORT)
    return packing.bins[n_bins:]

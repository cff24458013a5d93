"""The pack kernel: entries of a table go whole into bins, by a start and by exchange, of few or of many candidates."""

from __future__ import annotations

from typing import Literal

import numpy as np
from evenfold.splitters.kernels import IntArray, Stream, combined
from evenfold.splitters.numbers import stable_order
from evenfold.splitters.packing.cost import MISSING, Aim, FloatArray, cost_of_chance
from evenfold.splitters.packing.exact import BUDGET, MOST_ENTRIES, NODE, best_packing
from evenfold.splitters.packing.exchange import Packing
from numpy.typing import NDArray


def kinds(table: IntArray) -> IntArray:
    """Return a number for each row of ``table`` that identical rows share. O(n log n)."""
    order = stable_order(combined(table.T))
    # Different rows of one code stand side by side, so neighbours are compared value by value.
    ranked = table[order]
    starts = np.ones(order.size, dtype=np.bool_)
    starts[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    kind = np.empty(order.size, dtype=np.int64)
    kind[order] = np.cumsum(starts) - 1
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

    Large entries go first (by powers of 2, those of about the same size in random order). What a bin wants is the
    sum over the columns of what it still misses times what the entry brings, relative to the column's total.
    No bin stays empty while there are as many entries. One vectorised step an entry of O(bins x columns).
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
        self.costs = self._costs(self.sums, places)
        # Copied to (bins, replicas), so that bins are added one after another; along the last axis NumPy adds in pairs.
        self.totals = np.add.reduce(np.ascontiguousarray(self.costs.T), axis=0)

    def _costs(self, sums: FloatArray, bins: IntArray) -> FloatArray:
        """Return the cost of bins with these sums of vectors (1 + columns, ...)."""
        costs = self.aim.costs_of(sums, np.inf, bins)
        # Back from excesses to rows: excess = (rows - rate x size) x root.
        for column in self.scarce:
            costs += MISSING * (sums[1 + column] / self.aim.roots[column] + self.aim.rates[column] * sums[0] < 0.5)
        return costs

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
        costs, before = self._costs(after, both), self.costs[self.every, both]
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


Effort = int | Literal["max"]

DEFAULT_EFFORT = 16
HIGH_EFFORT = 64  # from here on large entries are moved by a population of packings as well
MOST_EFFORT = 400
MOST_PATIENCE = 30
MOST_STARTS = 3
MOST_STARTS_OF_FEW = 50
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

    Identical entries are dealt out at once, the others placed one by one, large before small; then ``effort``
    rounds of exchanges between pairs of bins lower the cost, each the best of about a million. Exchanges move small
    entries; from an effort of 64 on a population of packings moves the largest as well, and never to a higher cost.
    With few entries the seed chooses among all packings that cost at most ``GOOD_ENOUGH`` of what rows that fall into
    the bins one by one would cost (``close``: at most ``CLOSE`` of it with 15 entries or more, or near the best that
    half of ``effort`` starts found); with ``effort="max"`` it is the best one, proved where branch and bound comes to
    an end. With ``exact`` and the default effort so is that of up to 20 entries, within ``NODES`` of the search.

    Arithmetic is elementwise, column after column, so every machine takes the same path.
    O(entries x bins x columns), then about a millisecond a pair of bins and round.
    """
    if exact and effort != "max" and effort >= DEFAULT_EFFORT and aim.sizes.size <= FEW:
        return best_of_few(aim, stream, effort, NODES * NODE)
    if aim.sizes.size <= max(FEW if effort != "max" else MOST_ENTRIES, FEW_A_BIN * aim.n_bins):
        return pack_few(aim, stream, effort, close=close and aim.sizes.size >= LEAST_CLOSE)
    kind = kinds(np.column_stack([aim.sizes, aim.table]))
    dealt, movable = deal_identical(kind, aim.shares, stream), _movable(aim, kind)
    packings = [_placed(aim, dealt.copy(), stream, movable) for _ in range(MOST_STARTS if effort == "max" else 1)]
    for packing in packings:
        packing.improve(*((MOST_EFFORT, MOST_PATIENCE) if effort == "max" else (effort,)))
    best = min(packings, key=lambda packing: packing.cost)
    if (effort == "max" or effort >= HIGH_EFFORT) and fits(best.aim):
        packing = Packing(best.aim, Population(best.aim, best.bins, stream).search(), stream, movable)
        packing.improve(MOST_EFFORT)
        best = packing if packing.cost < best.cost else best
    return best.bins


def pack_few(aim: Aim, stream: Stream, effort: Effort, *, close: bool = False) -> IntArray:
    """Return a bin for each of few entries: one of the many packings that are good enough, or the best."""
    if effort == "max":
        return best_of_few(aim, stream, MOST_STARTS_OF_FEW, BUDGET)
    enough = (CLOSE if close else GOOD_ENOUGH) * cost_of_chance(aim)
    best = best_of_starts(aim, stream, max(effort // 2, 1) if close else effort, enough)
    slack = SLACK * enough if close and best.cost > enough else 0.0
    # A best packing above the limit sets the limit itself: it is varied, and never for a worse one.
    best.wander(effort // 2, max(enough, best.cost + slack))
    return best.bins


def best_of_few(aim: Aim, stream: Stream, starts: int, budget: int) -> IntArray:
    """Return the best of some starts, or a better one where a search of all packings finds it within ``budget``."""
    best = best_of_starts(aim, stream, starts)
    proven = best_packing(aim, best.cost, budget).bins
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
    # Exact sizes are those of the start: which bins are larger by a row is decided there.
    exact = np.bincount(bins, aim.sizes, aim.n_bins).astype(np.float64)
    return Packing(aim.of_sizes(exact) if aim.exact else aim, bins, stream, movable)


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

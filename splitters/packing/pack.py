"""The pack kernel: entries of a table go whole into bins; and the report of how near to the best a packing is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
from evenfold.splitters.kernels import IntArray, Stream, combined
from evenfold.splitters.numbers import stable_order

from .cost import Aim, FloatArray, PackReport, cost_of_chance
from .exact import BUDGET, MOST_ENTRIES, NODE, PROVED, best_packing, covering_bound, kinds_of_bins
from .exchange import Packing, Population, fits


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
    if (effort == "max" or effort >= HIGH_EFFORT) and fits(best.aim):
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


# Fold sizes that a bound looks at, around the wanted one: all of them, and those that are mostly enough.
SIZES, FIRST_SIZES = 1 << 16, 1 << 8


def report_on(aim: Aim, bins: IntArray, stream: Stream) -> PackReport:
    """Return the report on a packing; what ``stream`` gives changes at most how much is proved."""
    size, classes, missing = (math.fsum(term.tolist()) for term in aim.terms(aim.loads(bins)))
    cost = math.fsum((size, classes, missing))
    bound = min(lower_bound(aim, cost, stream), cost)
    optimal = bound >= cost * PROVED
    bound = cost if optimal else bound
    return PackReport(cost, size, classes, int(missing), lower_bound=bound, gap=cost - bound, optimal=optimal)


def lower_bound(aim: Aim, incumbent: float, stream: Stream) -> float:
    """Return a cost that no packing without an empty bin is below, given the cost of one.

    Whole rows cannot have exact shares, and the bin of a large entry holds all of it; of few entries by branch and
    bound, and where that does not end, by a linear program.
    """
    if aim.sizes.size == aim.n_bins and np.ptp(aim.wanted) == 0.0:  # there is one packing only
        return incumbent
    largest = np.argsort(-aim.sizes, kind="stable")[:3].tolist()
    # Of a large entry: the least cost of a packing in which some bin holds it, were all the others divisible.
    holding = (min(_held_by(aim, entry, alike[0]) for alike in kinds_of_bins(aim)) for entry in largest)
    simple = max(_rounding_bound(aim), *holding)
    if aim.sizes.size > MOST_ENTRIES or simple >= incumbent:
        return simple
    good = min(incumbent, best_of_starts(aim, stream, DEFAULT_EFFORT).cost)
    _, searched = best_packing(aim, good)
    return max(simple, searched if searched >= good * PROVED else covering_bound(aim, good))


def _rounding_bound(aim: Aim) -> float:
    """Return the sum over the bins of the least cost that any whole number of rows of each class allows."""

    def excess(rows: FloatArray) -> FloatArray:
        off = np.zeros(rows.size)
        for rate, root in zip(aim.rates.tolist(), aim.roots.tolist(), strict=True):
            apart = (rows * rate - np.rint(rows * rate)) * root
            off += apart * apart
        return off / (rows * rows)

    costs: list[float] = []
    for alike in kinds_of_bins(aim):  # equal shares have equal pulls
        wanted = float(aim.wanted[alike[0]])
        costs += [_least(excess, wanted, 1, wanted, float(aim.pull[alike[0]]))] * len(alike)
    return math.fsum(costs)


def _held_by(aim: Aim, entry: int, f: int) -> float:
    """Each bin has at least the rows of each class that the entry brings; the other bins are off by as many rows."""
    wanted, size, pulls = float(aim.wanted[f]), int(aim.sizes[entry]), np.delete(aim.pull, f)

    def excess(rows: FloatArray) -> FloatArray:
        off = np.zeros(rows.size)
        for brings, rate, root in zip(aim.table[entry].tolist(), aim.rates.tolist(), aim.roots.tolist(), strict=True):
            over = np.maximum(brings / rows - rate, 0.0) * root
            off += over * over
        return off

    # Being off by d rows together costs the other bins least when each is off in inverse proportion to its pull.
    rest = 1.0 / math.fsum((1.0 / pulls).tolist()) if pulls.min() > 0.0 else 0.0
    return _least(excess, max(wanted, float(size)), size, wanted, float(aim.pull[f]) + rest)


def _least(
    class_costs: Callable[[FloatArray], FloatArray], middle: float, smallest: int, wanted: float, pull: float
) -> float:
    """Return the least cost of the sizes around ``middle``, or of any beyond, where only the size is sure to cost."""
    # A few sizes are looked at first: what the size alone costs beyond them is mostly more than the best of them.
    for width in (FIRST_SIZES, SIZES):
        low = max(smallest, int(middle) - width // 2)
        rows = np.arange(low, low + width, dtype=np.float64)
        off = rows - wanted
        least = float(np.min(class_costs(rows) + pull * off * off))
        # Sizes below the first are at least as far off as those beyond the last, so one figure bounds both sides.
        beyond = pull * float(off[-1]) * float(off[-1])
        if least <= beyond:
            break
    return min(least, beyond)


EMPTY = 1e3  # the class term of a bin without rows: worse than any other, so that empty bins are filled first


@dataclass(frozen=True)
class Published:
    """Parameters of the published search: where it starts, and when it stops."""

    start: Literal["greedy", "random", "zero"] = "greedy"
    min_cost: float = 1e-5
    max_retries: int = 100

    def pack(self, aim: Aim, stream: Stream) -> IntArray:
        """Return a bin for each entry.

        The best single move to a packing not yet visited is made, even uphill, until ``min_cost``, ``max_retries``
        moves in a row without a new best, or no neighbour is left. O(entries x bins x columns) a move.

        Source: Figueira (2022), Stratified k-fold cross-validation on grouped datasets. Mended: it ends when all
        neighbours were visited; it packs into as many bins as asked, not 5; visited packings are compared whole; and
        an empty bin has a cost instead of a division by zero, and is never in the result.
        """
        bins = self._first(aim, stream)
        best, least, retries = bins, math.inf, 0
        visited = {bins.tobytes()}
        while True:
            loads = aim.loads(bins)
            cost = math.fsum(aim.costs_of(aim.excesses(loads), EMPTY).tolist())
            # The walk may pass through packings with an empty bin; they are never the best and do not count as retries.
            if (loads[0] > 0).all():
                retries = 0 if cost < least else retries + 1
                best, least = (bins, cost) if cost < least else (best, least)
            if least <= self.min_cost or retries > self.max_retries:
                return best
            following = next((step for step in _best_first(aim, bins) if step.tobytes() not in visited), None)
            if following is None:
                return best
            visited.add(following.tobytes())
            bins = following

    def _first(self, aim: Aim, stream: Stream) -> IntArray:
        n = aim.sizes.size
        if self.start == "zero":
            return np.zeros(n, dtype=np.int64)
        if self.start == "random":
            return stream.below(aim.n_bins, n)
        bins = np.empty(n, dtype=np.int64)
        lacking = aim.wanted.copy()
        for entry in stream.permutation(n).tolist():
            bins[entry] = int(np.argmax(lacking))
            lacking[bins[entry]] -= aim.sizes[entry]
        return bins


def _best_first(aim: Aim, bins: IntArray) -> Iterator[IntArray]:
    """Yield the packings one move away, cheapest first: by how much each move of an entry to a bin changes the cost."""
    sums = aim.excesses(aim.loads(bins))
    now = aim.costs_of(sums, EMPTY)
    gained = aim.costs_of(sums[:, None, :] + aim.vectors[:, :, None], EMPTY) - now
    lost = aim.costs_of(sums[:, bins] - aim.vectors, EMPTY, bins) - now[bins]
    costs: FloatArray = gained + lost[:, None]
    costs[np.arange(bins.size), bins] = math.inf
    for move in np.argsort(costs, axis=None, kind="stable").tolist():
        entry, f = divmod(move, aim.n_bins)
        if costs[entry, f] == math.inf:
            return
        after = bins.copy()
        after[entry] = f
        yield after

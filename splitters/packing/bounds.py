"""Costs that no packing can be below, those that the sources publish, and the report that sets a packing's beside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from evenfold.splitters.kernels import IntArray, Stream
from evenfold.splitters.packing.cost import Aim, FloatArray, PackReport
from evenfold.splitters.packing.exact import CLOSE, MOST_ENTRIES, best_packing, covering_bound, kinds_of_bins
from evenfold.splitters.packing.pack import DEFAULT_EFFORT, best_of_starts

# Fold sizes that a bound looks at, around the wanted one: all of them, and those that are mostly enough.
SIZES, FIRST_SIZES = 1 << 16, 1 << 8


def report_on(aim: Aim, bins: IntArray, stream: Stream) -> PackReport:
    """Return the report on a packing; what ``stream`` gives changes at most how much is proved."""
    size, classes, missing = (math.fsum(term.tolist()) for term in aim.terms(aim.loads(bins)))
    cost = math.fsum((size, classes, missing))
    bound = min(lower_bound(aim, cost, stream), cost)
    optimal = bound >= cost * CLOSE
    return PackReport(
        cost=cost,
        size_term=size,
        class_term=classes,
        missing=int(missing),
        lower_bound=cost if optimal else bound,
        gap=0.0 if optimal else cost - bound,
        optimal=optimal,
    )


def lower_bound(aim: Aim, incumbent: float, stream: Stream) -> float:
    """Return a cost that no packing without an empty bin is below, given the cost of one.

    Few entries: branch and bound, and where that does not end, a linear program. There is one packing only of as many
    entries as bins of equal shares. Otherwise the better of two: whole rows cannot have exact shares, and the bin of a
    large entry holds all of it.
    """
    if aim.sizes.size == aim.n_bins and np.ptp(aim.wanted) == 0.0:
        return incumbent
    largest = np.argsort(-aim.sizes, kind="stable")[:3].tolist()
    # Of a large entry: the least cost of a packing in which some bin holds it, were all the others divisible.
    holding = (min(_held_by(aim, entry, alike[0]) for alike in kinds_of_bins(aim)) for entry in largest)
    simple = max(_rounding_bound(aim), *holding)
    if aim.sizes.size > MOST_ENTRIES or simple >= incumbent:
        return simple
    good = min(incumbent, best_of_starts(aim, stream, DEFAULT_EFFORT).cost)
    searched = best_packing(aim, good).bound
    return max(simple, searched if searched >= good * CLOSE else covering_bound(aim, good))


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
    """Return the least cost of the sizes around ``middle``, or of any size beyond, where only the size is sure to cost.

    A few sizes are looked at first: what the size alone costs beyond them is mostly more than the best of them.
    """
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

        All single moves get their cost; the best one to a packing not yet visited is made, even uphill, and the best
        packing is remembered. It ends at ``min_cost``, after ``max_retries`` moves in a row without a new best, or
        when every neighbour was visited. O(entries x bins x columns) a move, as only two bins change.

        Source: Figueira (2022), Stratified k-fold cross-validation on grouped datasets. Mended: it ends when all
        neighbours were visited; it packs into as many bins as asked, not 5; visited packings are compared whole, so
        bins 1, 10 and 11, 0 are told apart; and an empty bin has a cost instead of a division by zero, and is never
        in the result.
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
    entries = aim.vectors[:, :, None]
    gained = aim.costs_of(sums[:, None, :] + entries, EMPTY) - now
    own = np.arange(aim.n_bins) == bins[:, None]
    without = aim.costs_of(sums[:, None, :] - np.where(own, entries, 0.0), EMPTY)
    # In each row one number is not 0, so the order of adding is of no matter.
    lost = np.add.reduce(np.where(own, without - now, 0.0).T, axis=0)
    costs: FloatArray = gained + lost[:, None]
    costs[own] = math.inf
    for move in np.argsort(costs, axis=None, kind="stable").tolist():
        entry, f = divmod(move, aim.n_bins)
        if costs[entry, f] == math.inf:
            return
        after = bins.copy()
        after[entry] = f
        yield after

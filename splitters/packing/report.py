"""The report of how near to the best a packing is, and the bound below which none costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from evenfold.splitters.numbers import IntArray, Stream

from .cost import Aim, FloatArray
from .exact import MOST_ENTRIES, PROVED, best_packing, covering_bound, kinds_of_bins
from .pack import DEFAULT_EFFORT, best_of_starts


@dataclass(frozen=True)
class PackReport:
    """The balance of a packing, and the best that any could reach.

    ``cost`` = ``size_term`` + ``class_term`` + ``missing``: the sizes' part as ``size_weight`` weighs it, the classes'
    part, and how many times a fold lacks a class that enough groups have for every fold.
    ``lower_bound``: no assignment costs less. ``gap`` = cost - lower_bound. ``optimal`` only where that is proved, to
    a millionth of the cost. Of a grown split the bound is that of all groups dealt out anew.
    """

    cost: float
    size_term: float
    class_term: float
    missing: int
    lower_bound: float
    gap: float
    optimal: bool


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

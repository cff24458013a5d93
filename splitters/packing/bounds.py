"""Costs that no packing can be below, and the report that sets a packing's cost beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from evenfold.splitters.kernels.random import IntArray, Stream

from .cost import Aim, FloatArray
from .exact import CLOSE, MOST_ENTRIES, best_packing, covering_bound
from .pack import DEFAULT_EFFORT, best_of_starts

# Fold sizes that a bound looks at, around the wanted one: all of them, and those that are mostly enough.
SIZES, FIRST_SIZES = 1 << 16, 1 << 8


@dataclass(frozen=True)
class PackReport:
    """How even a packing is, and how even any could be.

    ``cost`` = ``size_term`` + ``class_term`` + ``missing``: the sizes' part as ``size_weight`` weighs it, the classes'
    part, and how many times a fold lacks a class that enough groups have for every fold.
    ``lower_bound``: no assignment costs less. ``gap`` = cost - lower_bound. ``optimal`` only where that is proved, to
    a millionth of the cost.
    """

    cost: float
    size_term: float
    class_term: float
    missing: int
    lower_bound: float
    gap: float
    optimal: bool


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
    holding = (min(_held_by(aim, entry, f) for _, f in _of_each_share(aim)) for entry in largest)
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

    shares = aim.wanted.tolist()
    costs = {wanted: _least(excess, wanted, 1, wanted, float(aim.pull[f])) for wanted, f in _of_each_share(aim)}
    return math.fsum(costs[wanted] for wanted in shares)


def _of_each_share(aim: Aim) -> list[tuple[float, int]]:
    """Return each share that a bin is wanted to have, and one bin of it: equal shares have equal pulls."""
    wanted, first = np.unique(aim.wanted, return_index=True)
    return list(zip(wanted.tolist(), first.tolist(), strict=True))


def _held_by(aim: Aim, entry: int, f: int) -> float:
    """Of each class the bin has at least the rows that the entry brings; the other bins are off by as many rows."""
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

"""Costs that no packing can be below, and the report that sets a packing's cost beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from evenfold.splitters.kernels.random import IntArray, Stream

from .cost import Aim, FloatArray
from .exact import CLOSE, MOST_ENTRIES, best_packing, covering_bound
from .pack import DEFAULT_EFFORT, best_of_starts

# Fold sizes that a bound looks at, around the wanted one.
SIZES = 1 << 16


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


def lower_bound(aim: Aim, known: float, stream: Stream) -> float:
    """Return a cost that no packing without an empty bin is below, given the cost of one.

    Few entries: branch and bound, and where that does not end, a linear program. As many entries as bins of equal
    shares: there is one packing only. Otherwise the better of two: whole rows cannot have exact shares, and the bin
    of a large entry holds all of it.
    """
    if aim.sizes.size == aim.n_bins and np.ptp(aim.wanted) == 0.0:
        return known
    largest = np.argsort(-aim.sizes, kind="stable")[:3].tolist()
    simple = max(_rounding_bound(aim), *(_holding_bound(aim, entry) for entry in largest))
    if aim.sizes.size > MOST_ENTRIES or simple >= known:
        return simple
    good = min(known, best_of_starts(aim, stream, DEFAULT_EFFORT).cost)
    searched = best_packing(aim, good).bound
    return max(simple, searched if searched >= good * CLOSE else covering_bound(aim, good))


def _rounding_bound(aim: Aim) -> float:
    """Return the sum over the bins of the least cost that any whole number of rows of each class allows."""
    costs = {}
    for f, wanted in enumerate(aim.wanted.tolist()):
        # Equal shares have equal pulls, so one bin of each share is enough.
        if wanted not in costs:
            rows = _sizes_around(wanted, 1)
            excess = np.zeros(rows.size)
            for rate, root in zip(aim.rates.tolist(), aim.roots.tolist(), strict=True):
                off = (rows * rate - np.rint(rows * rate)) * root
                excess += off * off
            costs[wanted] = _least(rows, wanted, excess / (rows * rows), float(aim.pull[f]))
    return math.fsum(costs[wanted] for wanted in aim.wanted.tolist())


def _holding_bound(aim: Aim, entry: int) -> float:
    """Return the least cost of a packing in which some bin holds ``entry``, were all the others divisible."""
    return min(_held_by(aim, entry, f) for f in range(aim.n_bins))


def _held_by(aim: Aim, entry: int, f: int) -> float:
    """Of each class the bin has at least the rows that the entry brings; the other bins are off by as many rows."""
    wanted, pulls = float(aim.wanted[f]), np.delete(aim.pull, f)
    rows = _sizes_around(max(wanted, float(aim.sizes[entry])), int(aim.sizes[entry]))
    excess = np.zeros(rows.size)
    for brings, rate, root in zip(aim.table[entry].tolist(), aim.rates.tolist(), aim.roots.tolist(), strict=True):
        over = np.maximum(brings / rows - rate, 0.0) * root
        excess += over * over
    # Being off by d rows together costs the other bins least when each is off in inverse proportion to its pull.
    rest = 1.0 / math.fsum((1.0 / pulls).tolist()) if pulls.min() > 0.0 else 0.0
    return _least(rows, wanted, excess, float(aim.pull[f]) + rest)


def _sizes_around(middle: float, least: int) -> FloatArray:
    low = max(least, int(middle) - SIZES // 2)
    return np.arange(low, low + SIZES, dtype=np.float64)


def _least(rows: FloatArray, wanted: float, class_costs: FloatArray, pull: float) -> float:
    """Return the least cost of these sizes, or of any size beyond them, where only the size is sure to cost."""
    off = rows - wanted
    # Sizes below the first are at least as far off as those beyond the last, so one figure bounds both sides.
    beyond = float(rows[-1]) - wanted
    return min(float(np.min(class_costs + pull * off * off)), pull * beyond * beyond)

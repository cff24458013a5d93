"""Where numbers are cut into bins of about as many rows, so that equal numbers are in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from evenfold.splitters.kernels.random import IntArray
from numpy.typing import NDArray

QUANTILE_BINS = 10
FEWEST_ROWS = 20  # of a bin beside numbers that have their own: so many that a part of a twentieth has one
Span = tuple[int, int]
Spans = Callable[[Sequence[int]], Sequence[Span]]


def begins(n: int, bins: int, spans: Spans) -> list[int]:
    """Return the ranks, ascending, at which all bins but the first begin, of ``n`` numbers in ascending order.

    ``spans`` returns for each of some ranks the first rank with the same number, and the first beyond these.

    Equal numbers share a bin; there are at most ``bins`` bins, and none is empty. A number with as many rows as a bin
    has on average gets one of its own, unless what lies beside it would then need larger bins than this one; and so on
    with what is left. The stretches between such numbers share the other bins by their rows, and each is cut evenly,
    where the number begins that is nearest: numbers that are all different are cut at ceil(b n / bins). No more bins
    are made than have 20 rows, or n / ``bins`` where that is less. O(bins) calls of ``spans``, each with O(bins) ranks.
    """
    bins, alone = min(bins, n), list[Span]()
    fewest = min(FEWEST_ROWS, n // bins)
    while True:
        stretches, left = _between(alone, n), bins - len(alone)
        rest = sum(stop - first for first, stop in stretches)
        # Numbers with as many rows as an average bin of the rest stand at one of these ranks each.
        starts = [rank for stretch in stretches for rank in _steps(*stretch, rest, left)]
        heavy = {span for span in spans(starts) if span[1] - span[0] >= max(rest / left, fewest)}
        n_alone = len(alone)
        for first, stop in sorted(heavy, key=lambda span: (span[0] - span[1], span)):
            more = sorted([*alone, (first, stop)])
            if _largest(_between(more, n), bins - len(more), fewest) <= stop - first:
                alone = more
        if len(alone) == n_alone:
            return sorted(_cut(stretches, _shares(stretches, left, fewest), spans).union(*alone) - {0, n})


def bins_of_numbers(y: NDArray[np.float64], ranked: IntArray, bins: int = QUANTILE_BINS) -> tuple[IntArray, int]:
    """Return the bin of each number, as ``begins`` cuts them, and how many there are; ``ranked`` puts y in order.

    O(n log bins).
    """
    edges = edges_of(y[ranked], bins)
    return np.searchsorted(edges, y, side="right"), edges.size + 1


def edges_of(ascending: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the numbers at which all bins but the first begin, as ``begins`` cuts them."""

    def spans(ranks: Sequence[int]) -> list[Span]:
        values = ascending[list(ranks)]
        first, stop = (np.searchsorted(ascending, values, side).tolist() for side in ("left", "right"))
        return list(zip(first, stop, strict=True))

    return ascending[begins(ascending.size, bins, spans)]


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


def _largest(stretches: Sequence[Span], bins: int, fewest: int) -> float:
    """Return the rows of the largest bin where all stretches are cut evenly; infinite where bins are too few."""
    if len(stretches) > bins:
        return math.inf
    shares = zip(stretches, _shares(stretches, bins, fewest), strict=True)
    return max(((stop - first) / share for (first, stop), share in shares), default=0.0)


def _cut(stretches: Sequence[Span], shares: Sequence[int], spans: Spans) -> set[int]:
    """Return where the bins of each stretch begin, but for its first, of so many bins each."""
    wanted = [
        (rank, (first, stop))
        for (first, stop), share in zip(stretches, shares, strict=True)
        for rank in _steps(first, stop, stop - first, share)[1:]
    ]
    ends = zip(wanted, spans([rank for rank, _ in wanted]), strict=True)
    inside = [(rank, [at for at in span if first < at < stop]) for (rank, (first, stop)), span in ends]
    return {min(places, key=lambda at: abs(at - rank)) for rank, places in inside if places}

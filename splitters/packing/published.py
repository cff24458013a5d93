"""The published search for a packing, for comparison with our own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from evenfold.splitters.numbers import IntArray, Stream

from .cost import Aim, FloatArray

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

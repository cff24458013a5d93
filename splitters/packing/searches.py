"""Searches beside the exchanges: a population of packings whose largest entries move, and the published search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from evenfold.splitters.numbers import IntArray, Stream, stable_order
from numpy.typing import NDArray

from .cost import Aim, FloatArray

REPLICAS = 64
MOVING = 400  # the largest entries: the small ones are what exchanges between two bins are for
STEPS = 4_000
STRETCH = 256  # steps of which the random numbers are made at once; after each, sums are made anew
HOT, COLD = 0.02, 1e-4  # of the first cost: by how much a step may raise it at first, and at the end
MOST_SUMS = 50_000  # columns by bins of each packing; above, a step would take more than a hundredth of a second
SCARCE_BELOW = 40  # entries per bin; a column held by fewer may be missing from a bin


def is_affordable(aim: Aim) -> bool:
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
        held = np.count_nonzero(aim.table, axis=0) < SCARCE_BELOW * aim.n_bins
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

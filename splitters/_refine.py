"""A packing that gets better, exchange by exchange."""

from __future__ import annotations

import math

import numpy as np

from ._cost import Aim
from ._pair import ALL_AT_ONCE, Pair
from ._random import IntArray, Stream

PATIENCE = 6  # rounds in a row without a gain after which a search ends
GAIN = 1e-9  # a relative gain below this is rounding


class Packing:
    """The bin of each entry, and the bins' loads and costs. Only ``movable`` entries ever change their bin."""

    def __init__(self, aim: Aim, bins: IntArray, stream: Stream, movable: IntArray | None = None) -> None:
        self.aim = aim
        self.bins = bins
        self.loads = aim.loads(bins)
        self.costs = aim.costs(self.loads)
        self._movable = np.arange(bins.size) if movable is None else movable
        self._stream = stream
        self._width = 0.0

    @property
    def cost(self) -> float:
        """The cost of the whole packing."""
        return math.fsum(self.costs.tolist())

    def improve(self, rounds: int, patience: int = PATIENCE, enough: float = 0.0) -> None:
        """Exchange between pairs of bins until ``patience`` rounds bring nothing, or the cost is ``enough``.

        A round brings each bin together with two others, at random.
        """
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
        pair = self._pair(a, b)
        if pair.entries.size <= ALL_AT_ONCE:
            cost, moved = pair.best_of_all()
        else:
            cost, moved, self._width = pair.best_of_joined(self._stream, self._width)
        if not cost < (self.costs[a] + self.costs[b]) * (1.0 - GAIN):
            return False
        self._move(moved, a, b)
        return True

    def wander(self, rounds: int, limit: float) -> None:
        """Exchange at random between pairs of bins, never above the cost ``limit``.

        Each step draws evenly from the exchanges of up to ``ALL_AT_ONCE`` entries of a pair that keep the limit, so in
        the long run every packing below it that can be reached so is equally likely.
        """
        for _ in range(rounds):
            for a, b in self._ring():
                rest = self.cost - float(self.costs[a] + self.costs[b])
                pair = self._pair(a, b, at_most=ALL_AT_ONCE)
                self._move(pair.any_within(limit - rest, self._stream), a, b)

    def _pair(self, a: int, b: int, at_most: int | None = None) -> Pair:
        bins = self.bins[self._movable]
        entries = self._movable[(bins == a) | (bins == b)]
        if at_most is not None:
            entries = entries[self._stream.permutation(entries.size)[:at_most]]
        return Pair(self.aim, a, b, self.loads, entries, self.bins[entries] == a)

    def _ring(self) -> list[tuple[int, int]]:
        ring = self._stream.permutation(self.costs.size).tolist()
        return list(zip(ring, ring[1:] + ring[:1], strict=True))[: None if len(ring) > 2 else 1]

    def _move(self, entries: IntArray, a: int, b: int) -> None:
        leave = self.bins[entries] == a
        self.bins[entries] = np.where(leave, b, a)
        rows = np.column_stack([self.aim.sizes[entries], self.aim.table[entries]])
        change = (rows * np.where(leave, 1, -1)[:, None]).sum(axis=0)
        self.loads[:, a] -= change
        self.loads[:, b] += change
        self.costs = self.aim.costs(self.loads)

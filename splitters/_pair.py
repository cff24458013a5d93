"""Two bins: what each exchange between them would cost, and the best exchange found among millions at once."""

from __future__ import annotations

import math

import numpy as np

from ._cost import MISSING, Aim, FloatArray
from ._join import close_pairs, subset_sums
from ._order import stable_order
from ._random import IntArray, Stream

ALL_AT_ONCE = 14  # with at most so many entries in two bins, every exchange is tried
HALF = 10  # otherwise the subsets of two lists of so many entries are joined: 2**20 exchanges,
ROOM = 1 << 14  # or fewer, so that a list's sums are so many numbers where there are many columns
CHOICE = 12  # the lists are drawn from so many entries more than they hold: those whose move does the least harm
MEETINGS = 81_920  # the joined exchanges that get their exact cost have about so many numbers in all


class Pair:
    """Bins ``a`` and ``b`` with the entries that may move between them.

    ``changes`` (1 + columns, entries): what moving an entry to the other bin takes from ``a`` and gives to ``b``.
    """

    def __init__(self, aim: Aim, a: int, b: int, loads: IntArray, entries: IntArray, in_a: IntArray) -> None:
        self.aim = aim
        self.entries = entries
        self.changes = aim.vectors[:, entries] * np.where(in_a, 1.0, -1.0)
        self._loads = loads[:, [a, b]]
        self._excesses = aim.excesses(self._loads)
        self._pull = aim.pull[[a, b]]
        self._wanted = aim.wanted[[a, b]]

    def best_of_all(self) -> tuple[float, IntArray]:
        """Return the cost of the best of all exchanges, and the entries that change their bin."""
        costs = self.costs(subset_sums(self.changes), self.entries)
        best = int(np.argmin(costs))
        return float(costs[best]), self.entries[_bits(best, self.entries.size)]

    def any_within(self, limit: float, stream: Stream) -> IntArray:
        """Return the entries of one of all exchanges that cost at most ``limit``, each equally likely."""
        within = np.flatnonzero(self.costs(subset_sums(self.changes), self.entries) <= limit)
        if within.size == 0:
            return self.entries[:0]
        return self.entries[_bits(int(within[stream.below(within.size, 1)[0]]), self.entries.size)]

    def best_of_joined(self, stream: Stream, width: float) -> tuple[float, IntArray, float]:
        """Return the cost of the best exchange that joins two lists of entries, its entries, and the grid's width.

        An exchange is a subset of each list; those whose sums meet near the ideal change get their exact cost.
        """
        scale, ideal = self._scaled()
        chosen = self._choose(scale, ideal, stream)
        half = chosen.size // 2
        left, right = subset_sums(self.changes[:, chosen[:half]]), subset_sums(self.changes[:, chosen[half:]])
        aims = (ideal[:, None] - right * scale[:, None], left * scale[:, None])
        first, second, width = close_pairs(
            aims[1], aims[0], width or self._first_width(), stream, MEETINGS // ideal.size
        )
        if first.size == 0:
            return math.inf, chosen[:0], width
        costs = self.costs(left[:, first] + right[:, second], self.entries[chosen])
        best = int(np.argmin(costs))
        moved = np.concatenate([_bits(int(first[best]), half), half + _bits(int(second[best]), chosen.size - half)])
        return float(costs[best]), self.entries[chosen[moved]], width

    def costs(self, change: FloatArray, moving: IntArray) -> FloatArray:
        """Return the cost of both bins after each change (1 + columns, candidates); infinite where one is empty.

        ``moving`` are the entries that the changes are made of.
        """
        most = self.aim.table[moving].sum(axis=0)
        return self._side(0, -1.0, change, most) + self._side(1, 1.0, change, most)

    def _side(self, side: int, sign: float, change: FloatArray, most: IntArray) -> FloatArray:
        rows = self._loads[0, side] + sign * change[0]
        squares = np.zeros(rows.size)
        for excess, moved in zip(self._excesses[1:, side].tolist(), change[1:], strict=True):
            left = moved + sign * excess
            left *= left
            squares += left
        off = rows - self._wanted[side]
        some = np.maximum(rows, 0.5)
        total: FloatArray = squares / (some * some) + self._pull[side] * (off * off)
        total[rows < 0.5] = np.inf
        for column in np.flatnonzero(self.aim.needed & (self._loads[1:, side] <= most)).tolist():
            moved = change[1 + column] / self.aim.roots[column] + self.aim.rates[column] * change[0]
            total[self._loads[1 + column, side] + sign * moved < 0.5] += MISSING
        return total

    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        """Return units in which the cost of a change is about its squared distance to the ideal one, and that."""
        rows = self._loads[0].astype(np.float64)
        weight = 1.0 / (rows * rows)
        ideal = (self._excesses[:, 0] * weight[0] - self._excesses[:, 1] * weight[1]) / (weight[0] + weight[1])
        scale = np.full(ideal.size, math.sqrt(weight[0] + weight[1]))
        pull = float(self._pull[0] + self._pull[1])
        off = (rows - self._wanted) * self._pull
        ideal[0] = np.rint((off[0] - off[1]) / pull) if pull > 0.0 else 0.0
        scale[0] = math.sqrt(pull)
        return scale, ideal * scale

    def _choose(self, scale: FloatArray, ideal: FloatArray, stream: Stream) -> IntArray:
        scaled = self.changes * scale[:, None]
        harm = np.add.reduce(scaled * (scaled - 2.0 * ideal[:, None]), axis=0)
        size = 2 * min(HALF, (ROOM // ideal.size).bit_length() - 1)
        least = stable_order(harm)[: size + CHOICE]
        return least[stream.permutation(least.size)[:size]]

    def _first_width(self) -> float:
        now = self.costs(np.zeros((self.changes.shape[0], 1)), self.entries[:0])
        return math.sqrt(float(now[0])) or 1e-6


def _bits(number: int, size: int) -> IntArray:
    return np.flatnonzero((number >> np.arange(size)) & 1)

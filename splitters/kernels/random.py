"""The one source of randomness: raw Philox bits and integer arithmetic, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

# Numbers made at a time; a part of what the numbers are, so it never changes.
STRETCH = 1 << 14

# The first element of a stream's path says what the stream is for, so that no two purposes share numbers.
LABELS, DRAWS, HOLDOUT, PACKING, REPEATS, MADE_UP, EXTENDING, AUDITING, LOOKING, CROSSING, IMPORTANCE = range(11)
CALIBRATION = 11


class Stream:
    """Random decisions that depend on ``seed`` and ``path`` alone.

    NumPy guarantees the bits of a bit generator for ever, but not what ``Generator`` makes of them (NEP 19).
    So only ``Philox`` raw bits are used here, and everything made from them is integer arithmetic or sorting.

    Two streams with different paths are independent; the same seed and path give the same numbers on every CPU.
    """

    def __init__(self, seed: int, *path: int) -> None:
        self.path = path
        self._bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=path))

    def raw(self, size: int) -> NDArray[np.uint64]:
        """Return ``size`` uniform 64-bit integers."""
        return self._bits.random_raw(size)

    def permutation(self, n: int) -> IntArray:
        """Return the positions 0..n-1 in random order, in O(n log n).

        Equal to a stable argsort of random keys: each key carries its position in the low bits, so sorting values
        (vectorised on every CPU) is enough and ties cannot fall differently elsewhere.
        """
        return self.shuffled_rows(1, n).reshape(n)

    def sides(self, n: int, first: int, second: int) -> tuple[IntArray, IntArray]:
        """Return the ``first`` and the next ``second`` positions of ``permutation``, each ascending, in O(n)."""
        keys = self._keys(1, n).reshape(n)
        keys.partition([end for end in {first, first + second} if end < n])
        keys &= _position_mask(n)
        places, side = keys.view(np.int64), np.zeros(n, dtype=np.int8)
        side[places[:first]], side[places[first : first + second]] = 1, 2
        return np.flatnonzero(side == 1), np.flatnonzero(side == 2)

    def shuffled_by(self, codes: IntArray, n_codes: int) -> IntArray:
        """Return the positions of ``codes`` (0..n_codes-1) in their order, those of a code in random order.

        One sort of integers that hold the code, random bits and the position. As in ``permutation``, random bits are
        equal for about n**3 / 2**65 pairs of rows of the same code, which then keep their order.
        """
        code_bits, mask = max(n_codes - 1, 1).bit_length(), _position_mask(codes.size)
        keys = self.raw(codes.size)
        keys >>= np.uint64(code_bits)
        keys &= ~mask
        keys |= codes.astype(np.uint64) << np.uint64(64 - code_bits)
        keys |= np.arange(codes.size, dtype=np.uint64)
        keys.sort()
        keys &= mask
        return keys.view(np.int64)

    def shuffled_rows(self, rows: int, n: int) -> IntArray:
        """Return ``rows`` independent permutations of 0..n-1, one a row."""
        keys = self._keys(rows, n)
        keys.sort(axis=1)
        keys &= _position_mask(n)
        return keys.view(np.int64)

    def _keys(self, rows: int, n: int) -> NDArray[np.uint64]:
        """Return ``rows`` times 0..n-1 in the low bits of random integers: in their order, random permutations."""
        keys = self.raw(rows * n).reshape(rows, n)
        keys &= ~_position_mask(n)
        keys |= np.arange(n, dtype=np.uint64)
        return keys

    def below(self, bound: int, size: int, out: IntArray | None = None) -> IntArray:
        """Return ``size`` integers of 0..bound-1, all exactly equally likely (bound at most 2**32).

        Multiply-shift of 32 random bits; the few products whose low half would make some values likelier are drawn
        again. Works a stretch at a time, in the processor's cache. Many calls may share the room of one ``out``.
        Source: Lemire (2019), Fast random integer generation in an interval.
        """
        numbers = np.empty(size, dtype=np.int64) if out is None else out
        # A view: products are turned into the returned numbers in place.
        products, uneven = numbers.view(np.uint64), np.uint32(2**32 % bound)
        for first in range(0, size, STRETCH):
            part = products[first : first + STRETCH]
            np.multiply(self._halves(part.size), np.uint64(bound), out=part)
            again = np.flatnonzero(part.astype(np.uint32) < uneven)
            while again.size:
                part[again] = self._halves(again.size) * np.uint64(bound)
                again = again[part[again].astype(np.uint32) < uneven]
            part >>= np.uint64(32)
        return numbers

    def _halves(self, size: int) -> NDArray[np.uint32]:
        """Return ``size`` uniform 32-bit integers: each 64-bit word's low half, then its high half."""
        return self.raw((size + 1) // 2).astype("<u8", copy=False).view("<u4")[:size]

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Return ``size`` numbers of [0, 1), multiples of 2**-53."""
        return (self.raw(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _position_mask(n: int) -> np.uint64:
    """Return the low bits that the positions 0..n-1 take."""
    return np.uint64((1 << max(n - 1, 1).bit_length()) - 1)

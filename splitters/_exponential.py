"""The exponential function as whole numbers, the same on every machine: NumPy's differs with the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._random import IntArray

# Natural logarithm of 2 in two parts, of which small multiples of the first are exact.
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_TERMS = 14


def exp_weights(x: NDArray[np.float64]) -> IntArray:
    """Return floor(2^32 e^x) for ``x`` of 0 and below, to within 1; 0 from about -22 down.

    x is a multiple of ln 2 and a rest, of whose series 14 terms are more than a double holds: elementwise
    multiplications and additions only. O(n).
    """
    least = np.maximum(x, -60.0)
    halvings = np.floor(least * -1.4426950408889634 + 0.5)
    rest = (least + halvings * _LN2_HIGH) + halvings * _LN2_LOW
    series = np.ones_like(rest)
    for term in range(_TERMS, 0, -1):
        series = series * rest / term + 1.0
    return np.floor(np.ldexp(series, 32 - halvings.astype(np.int32))).astype(np.int64)


def weighted_choice(weights: IntArray, word: int) -> int:
    """Return a position with probability weights / their sum, by a uniform 64-bit ``word``; integers throughout."""
    reached = np.cumsum(weights)
    return int(np.searchsorted(reached, word * int(reached[-1]) >> 64, side="right"))

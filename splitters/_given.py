"""Pairs that somebody else made, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._base import Pair
from ._errors import SplitError
from ._random import IntArray


def valid_pair(train: Any, test: Any, n: int, whose: str) -> Pair:
    """Return (train, test) as int64 positions of 0..n-1; masks become positions.

    Raises SplitError that says what is wrong with ``whose``: shared rows, or positions that are none.
    """
    pair = _positions(train, n, whose), _positions(test, n, whose)
    shared = np.intersect1d(*pair)
    if shared.size:
        raise SplitError(f"{whose} put {shared.size:,} rows in both train and test; it cannot be used.")
    return pair


def _positions(given: Any, n: int, whose: str) -> IntArray:
    positions = np.asarray(given)
    if positions.dtype.kind == "b":
        if positions.size != n:
            raise SplitError(f"{whose} has a mask of {positions.size:,} values for {n:,} rows; pass one value per row.")
        positions = np.flatnonzero(positions)
    if positions.size and (positions.dtype.kind not in "iu" or positions.min() < 0 or positions.max() >= n):
        raise SplitError(f"{whose} has positions outside 0..{n - 1}; it cannot be used.")
    return positions.astype(np.int64)

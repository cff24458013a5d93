"""The one place where rows are put in order: as fast as an unstable sort, as reproducible as a stable one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._random import IntArray


def stable_order(values: NDArray[Any]) -> IntArray:
    """Return the positions of ``values`` in ascending order, equal values by position.

    NumPy's fast sorts use the CPU's vector units and leave equal values in an order that differs between CPUs.
    Here the runs of equal values are put right afterwards, which costs a fraction of a stable sort. O(n log n).
    """
    if values.dtype.kind == "b" or values.dtype.itemsize <= 2:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)  # a radix sort: O(n)
    order = np.argsort(values).astype(np.int64, copy=False)
    ranked = values[order]
    tied = np.zeros(values.size, dtype=np.bool_)
    np.equal(ranked[1:], ranked[:-1], out=tied[1:])
    if tied.any():
        _repair(order, tied)
    return order


def _repair(order: IntArray, tied: NDArray[np.bool_]) -> None:
    # Sorting (run, position) pairs packed into one integer orders each run by position and moves nothing else.
    in_run = tied.copy()
    in_run[:-1] |= tied[1:]
    slots = np.flatnonzero(in_run)
    run = np.cumsum(~tied[slots]).astype(np.uint64)
    bits = np.uint64(max(int(order.size - 1).bit_length(), 1))
    packed = (run << bits) | order[slots].astype(np.uint64)
    packed.sort()
    order[slots] = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)

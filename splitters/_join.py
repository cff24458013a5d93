"""All sums of the subsets of two lists of vectors, and the pairs of sums that meet at a target."""

from __future__ import annotations

import numpy as np

from ._cost import FloatArray
from ._order import stable_order
from ._random import IntArray, Stream

_ODD = np.uint64(0x9E3779B97F4A7C15)


def subset_sums(vectors: FloatArray) -> FloatArray:
    """Return the sum of every subset of the columns of ``vectors`` (rows, m), as (rows, 2**m).

    Bit i of a column's number says whether vector i is in the sum. O(rows x 2**m), by doubling.
    """
    rows, m = vectors.shape
    sums = np.zeros((rows, 1 << m))
    for i in range(m):
        np.add(sums[:, : 1 << i], vectors[:, i : i + 1], out=sums[:, 1 << i : 2 << i])
    return sums


def close_pairs(
    left: FloatArray, right: FloatArray, width: float, stream: Stream, budget: int
) -> tuple[IntArray, IntArray, float]:
    """Return positions (i, j) of columns of ``left`` and ``right`` in one cell of a random grid, and its width.

    Columns much closer than ``width`` nearly always meet, distant ones never. The width is adapted until about
    ``budget`` pairs meet, and is returned as a good first guess for similar points; more than twice ``budget`` are
    never returned. O((columns of both) log) a width.
    """
    offset = stream.uniform(left.shape[0])[:, None]
    low, high = 0.0, float("inf")
    for _ in range(16):
        codes, others = _cells(left, width, offset), _cells(right, width, offset)
        order = stable_order(others)
        ranked = others[order]
        first = np.searchsorted(ranked, codes, "left")
        counts = np.searchsorted(ranked, codes, "right") - first
        found = int(counts.sum())
        if found > 2 * budget:
            high = width
        elif found < budget // 4:
            low = width
        else:
            break
        width = 2.0 * width if high == float("inf") else width / 2.0 if low == 0.0 else (low + high) / 2.0
    counts = np.minimum(counts, max(2 * budget // codes.size, 1))  # points that coincide are told apart by no width
    i = np.repeat(np.arange(codes.size), counts)
    return i, order[np.arange(i.size) + np.repeat(first + counts - np.cumsum(counts), counts)], width


def _cells(points: FloatArray, width: float, offset: FloatArray) -> IntArray:
    # A cell of many dimensions becomes one 64-bit code; a code that two cells share costs time and does no harm.
    cells = np.floor(points / width + offset).astype(np.int64).view(np.uint64)
    mixed = np.multiply.accumulate(np.full(points.shape[0], _ODD))
    codes: IntArray = np.add.reduce(cells * mixed[:, None], axis=0).view(np.int64)
    return codes

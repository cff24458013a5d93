"""The pack kernel: entries of a table go whole into bins, so that every column is shared out evenly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._random import IntArray, Stream


def pack(table: IntArray, shares: NDArray[np.float64], stream: Stream) -> IntArray:
    """Return a bin for each entry (row) of ``table``.

    ``table`` holds what each entry brings of each column (int64, entries by columns); bin f wants ``shares[f]`` of
    every column's total. Entries go in by size, largest first (equal sizes in random order), each to the bin that
    lowers the squared distance to the wanted totals most, every column measured relative to its own total.
    No bin stays empty while there are at least as many entries as bins.

    Arithmetic is elementwise, column after column, so every machine takes the same path.
    O(entries x bins x columns), one vectorised step an entry.
    """
    columns = np.column_stack([table.sum(axis=1), table])
    totals = columns.sum(axis=0).astype(np.float64)
    pull = columns / np.maximum(totals, 1.0) ** 2
    missing = totals[:, None] * shares[None, :]
    shuffled = stream.permutation(table.shape[0])
    order = shuffled[np.argsort(-columns[shuffled, 0], kind="stable")]
    bins = np.empty(table.shape[0], dtype=np.int64)
    empty = set(range(shares.size))
    for turn, entry in enumerate(order.tolist()):
        gain = np.add.reduce(missing * pull[entry][:, None], axis=0)
        if len(empty) >= table.shape[0] - turn:
            gain[[f for f in range(shares.size) if f not in empty]] = -np.inf
        best = int(np.argmax(gain))
        bins[entry] = best
        empty.discard(best)
        missing[:, best] -= columns[entry]
    return bins


def group_table(groups: IntArray, n_groups: int, y: IntArray | None, n_classes: int) -> IntArray:
    """Return the rows of each class in each group (int64, groups by classes); one column where y is None. O(n)."""
    if y is None:
        return np.bincount(groups, minlength=n_groups)[:, None]
    return np.bincount(groups * n_classes + y, minlength=n_groups * n_classes).reshape(n_groups, n_classes)

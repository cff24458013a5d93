"""The table that is packed: what each entry (a group, or a row) brings of every class of every column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._cost import FloatArray
from ._order import stable_order
from ._random import IntArray
from ._rows import Rows

QUANTILE_BINS = 10


def table_to_pack(rows: Rows) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the rows of each entry, its rows of each class (entries, classes) and the classes' weights.

    An entry is a group, or a row where there are no groups. One column of classes as it is; numbers by quantile; the
    classes of several columns side by side, where a column of two classes is counted by its rarer one, twice as
    heavy: the cost is the same. O(n x columns).
    """
    entry = np.arange(rows.n) if rows.groups is None else rows.groups
    n_entries = rows.n if rows.groups is None else rows.n_groups
    sizes = np.bincount(entry, minlength=n_entries)
    if rows.y is None:
        return sizes, np.zeros((n_entries, 0), dtype=np.int64), np.zeros(0)
    if rows.y.ndim == 2:
        tables = [_column(entry, n_entries, codes, len(rows.levels[j])) for j, codes in enumerate(rows.y.T)]
        weights = np.concatenate([np.full(table.shape[1], weight) for table, weight in tables])
        return sizes, np.column_stack([table for table, _ in tables]), weights
    table = group_table(entry, n_entries, *classes_to_balance(rows.y, len(rows.levels)))
    return sizes, table, np.ones(table.shape[1])


def classes_to_balance(y: NDArray[Any], n_classes: int) -> tuple[IntArray, int]:
    """Return the classes that a table counts, and how many there are: classes as they are, numbers by quantile."""
    if y.dtype.kind != "f":
        return y, n_classes
    bins = min(QUANTILE_BINS, y.size)
    ranks = np.empty(y.size, dtype=np.int64)
    ranks[stable_order(y)] = np.arange(y.size)
    return ranks * bins // y.size, bins


def group_table(groups: IntArray, n_groups: int, y: IntArray, n_classes: int) -> IntArray:
    """Return the rows of each class in each group (int64, groups by classes). O(n)."""
    return np.bincount(groups * n_classes + y, minlength=n_groups * n_classes).reshape(n_groups, n_classes)


def _column(entry: IntArray, n_entries: int, codes: IntArray, n_classes: int) -> tuple[IntArray, float]:
    table = group_table(entry, n_entries, codes, n_classes)
    if n_classes != 2:
        return table, 1.0
    return table[:, [int(np.argmin(table.sum(axis=0)))]], 2.0

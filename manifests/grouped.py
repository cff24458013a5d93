"""Whole groups, decided on the table of groups and classes alone: a few bytes a row beside it, however many there are.

It is the one decision that is not made on rows, because it scales past those that a strategy can hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.splitters import LabelSplitter, Needs
from evenfold.splitters.packing.cost import QUANTILE_BINS, edges_of, require_table, side_by_side
from evenfold.splitters.rows import GroupRows
from numpy.typing import NDArray

from .membership import Labels
from .spec import Columns
from .state import (
    STRETCH,
    State,
    bins_of,
    cell_counts,
    combined,
    group_table_of,
    is_numeric_target,
    plain,
    shares_of,
    uncounted,
)
from .tables.canonical import numbered, to_numpy

IntArray = NDArray[Any]


@dataclass(frozen=True, eq=False)
class GroupTable:
    """The rows of each class in each group, and which group a row is of; both numbered by first appearance.

    ``groups`` has an int32 a row. The classes of numbers are the bins between ``edges``; each of several columns has
    a code. ``levels`` are the classes of each column.
    """

    values: pa.Array
    groups: IntArray
    strata: tuple[IntArray, ...] = ()
    levels: tuple[pa.Array, ...] = ()
    edges: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, table: pa.Table, columns: Columns, needs: Needs) -> GroupTable:
        """Return the groups and classes of a canonical table in key order. O(n), with numbers O(n log n)."""
        groups, values = numbered(table.column(str(columns.group)))
        base = cls(values, groups)
        names = columns.shared_out if needs.y != "ignored" else []
        if len(names) == 1 and is_numeric_target(table.column(names[0])):
            return base.cut(to_numpy(table.column(names[0])).astype(np.float64, copy=False))
        encoded = [numbered(table.column(name)) for name in names]
        return replace(base, strata=tuple(codes for codes, _ in encoded), levels=tuple(levels for _, levels in encoded))

    def cut(self, y: NDArray[np.float64]) -> GroupTable:
        """Return the groups with the bins of a number as classes."""
        edges = edges_of(np.sort(y), QUANTILE_BINS)
        bins = np.empty(y.size, dtype=np.int8)
        for start in range(0, y.size, STRETCH):
            here = slice(start, start + STRETCH)
            bins[here] = np.searchsorted(edges, y[here], side="right")
        return replace(self, strata=(bins,), edges=edges)

    def tables(self) -> list[IntArray]:
        """Return the rows of each class in each group (groups, classes), of each column; rows alone without columns."""
        if not self.strata:
            return [cell_counts(self.groups, np.zeros(self.groups.size, dtype=np.int8), len(self.values), 1)]
        widths = [len(levels) for levels in self.levels] if self.edges is None else [self.edges.size + 1]
        for width in widths:
            require_table(len(self.values), width)
        each = zip(self.strata, widths, strict=True)
        return [cell_counts(self.groups, codes, len(self.values), width) for codes, width in each]

    def rows(self, tables: list[IntArray]) -> GroupRows:
        """Return what a strategy looks at: the table of one column, those of several side by side, or sizes alone."""
        sizes = tables[0].sum(axis=1)
        table, weights = np.zeros((sizes.size, 0), dtype=np.int64), np.zeros(0)
        if len(self.strata) == 1:
            table, weights = tables[0], np.ones(tables[0].shape[1])
        elif self.strata:
            table, weights = side_by_side(tables)
        numbers, names = np.arange(sizes.size), tuple(range(sizes.size))
        rows = GroupRows(
            n=int(sizes.sum()), groups=numbers, group_levels=names, sizes=sizes, table=table, weights=weights
        )
        return replace(rows, levels=tuple(self.levels[0].to_pylist())) if len(self.levels) == 1 else rows

    def kept(self, mask: NDArray[np.bool_], y: NDArray[np.float64] | None) -> GroupTable:
        """Return the groups that are kept, numbered anew, their classes and quantiles by their own rows alone."""
        rows = mask[self.groups]
        numbers = np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32)
        rest = GroupTable(self.values.filter(pa.array(mask)), numbers[self.groups[rows]])
        if y is not None:
            return rest.cut(y[rows])
        strata, levels = [], []
        for codes, values in zip(self.strata, self.levels, strict=True):
            again, first = pd.factorize(codes[rows])
            strata.append(again.astype(np.int32))
            levels.append(values.take(pa.array(first)))
        return replace(rest, strata=tuple(strata), levels=tuple(levels))

    def state(self, splitter: LabelSplitter, labels: Labels, of_groups: IntArray, locked: float) -> State | None:
        """Return the first state, as ``first_state`` does of rows; ``of_groups`` are the codes of the groups."""
        shares = shares_of(splitter, labels.n_bins, locked)
        tables, classes = self.tables()[:1], None
        if len(self.strata) > 1:
            codes, first = combined(zip(self.strata, map(len, self.levels), strict=True))
            columns = zip(self.strata, self.levels, strict=True)
            values = [to_numpy(levels.take(pa.array(column[first]))).tolist() for column, levels in columns]
            classes = [[plain(value) for value in row] for row in zip(*values, strict=True)]
            tables = [cell_counts(self.groups, codes, len(self.values), len(classes))]
        elif self.levels:
            classes = [plain(value) for value in to_numpy(self.levels[0]).tolist()]
        edges = None if self.edges is None else [float(edge) for edge in dict.fromkeys(self.edges.tolist())]
        state, countable = uncounted(shares, labels.n_repeats, edges, classes)
        if state is None or not countable:
            return state
        counts = []
        for column in of_groups.T:
            counted, bins = np.zeros((len(shares), tables[0].shape[1]), dtype=np.int64), bins_of(column, shares)
            np.add.at(counted, bins[bins >= 0], tables[0][bins >= 0])
            counts.append(counted.tolist())
        return replace(state, counts=counts)

    def group_table(self, of_groups: IntArray, tables: list[IntArray]) -> pa.Table:
        """Return each group with its fold (of each repeat) and its rows, of each class where there are few classes."""
        alone = len(self.levels) == 1
        levels = to_numpy(self.levels[0]).tolist() if alone else []
        cells = tables[0] if alone else None
        return group_table_of({"group": self.values}, of_groups, tables[0].sum(axis=1), levels=levels, cells=cells)

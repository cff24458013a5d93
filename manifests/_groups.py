"""The table of groups: which fold each is in, and what it brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.splitters import Rows
from numpy.typing import NDArray

MOST_COUNTED_CLASSES = 100


def groups_of(column: pa.Table) -> tuple[NDArray[np.int64], pa.Table]:
    """Return a code per row by first appearance, and the groups that the codes stand for."""
    combined = column.column(0).combine_chunks()
    encoded = (combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)).dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return codes, pa.table({column.column_names[0]: encoded.dictionary})


def first_group_table(rows: Rows, column: pa.ChunkedArray, codes: NDArray[Any]) -> pa.Table:
    """Return each group with its fold (of each repeat) and its rows, of each class where there are few classes."""
    assert rows.groups is not None
    first = np.full(rows.n_groups, rows.n, dtype=np.int64)
    np.minimum.at(first, rows.groups, np.arange(rows.n))
    folds = codes.reshape(rows.n, -1)[first]
    columns: dict[str, Any] = {"group": column.take(first)}
    for repeat, fold in enumerate(folds.T, start=1):
        columns["fold" if repeat == 1 else f"fold_r{repeat}"] = fold
    columns["rows"] = np.bincount(rows.groups, minlength=rows.n_groups)
    columns["generation"] = np.zeros(rows.n_groups, dtype=np.int16)
    classes = rows.y is not None and rows.y.dtype.kind == "i" and rows.y.ndim == 1
    if classes and len(rows.levels) <= MOST_COUNTED_CLASSES:
        assert rows.y is not None
        cells = np.bincount(rows.groups * len(rows.levels) + rows.y, minlength=rows.n_groups * len(rows.levels))
        for level, counts in zip(rows.levels, cells.reshape(rows.n_groups, -1).T, strict=True):
            columns[f"rows_{level}"] = counts
    return pa.table(columns)


def group_rows(groups: pa.Table, folds: NDArray[Any], like: pa.Table, generation: int) -> pa.Table:
    """Return new groups as rows of a table like ``like``: group and folds filled, counts left empty."""
    born = pa.array(np.full(groups.num_rows, generation))
    columns: dict[str, Any] = {"group": groups.column(0), "generation": born}
    for repeat, fold in enumerate(folds.T, start=1):
        columns["fold" if repeat == 1 else f"fold_r{repeat}"] = pa.array(fold)
    return pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(groups.num_rows, field.type)
            for field in like.schema
        }
    )

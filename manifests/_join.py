"""A manifest meets the data it was made of, or data that differ: by key, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from ._columns import counted, key_order
from ._keys import key_table
from ._match import positions_in
from ._read import read_table

if TYPE_CHECKING:
    from ._manifest import Manifest

DELETED = 1


def join_positions(manifest: Manifest, frame: Any) -> NDArray[np.int64]:
    """Return where in ``frame`` each row of ``manifest`` stands; see ``Manifest.positions``."""
    if manifest.keys is None:
        return _by_position(manifest, frame)
    theirs = keys_of(manifest, frame)
    order = key_order(theirs, theirs.column_names)
    ordered = theirs if order is None else theirs.take(order)
    if ordered.equals(manifest.keys):
        return np.arange(manifest.n) if order is None else order
    found = positions_in(theirs, manifest.keys)
    absent = (found < 0) & (manifest.status != DELETED)
    unknown = positions_in(manifest.keys, theirs) < 0
    if absent.any() or unknown.any():
        raise SplitError(difference(theirs.filter(unknown), manifest.keys.filter(absent)))
    return found


def keys_of(manifest: Manifest, frame: Any) -> pa.Table:
    """Return the key columns of ``frame`` in the manifest's types; SplitError where one is absent."""
    return key_table(read_table(frame, types=manifest.spec.types), manifest.spec, manifest.types)


def _by_position(manifest: Manifest, frame: Any) -> NDArray[np.int64]:
    rows = read_table(frame).num_rows
    if rows != manifest.n:
        raise SplitError(
            f"the manifest holds {manifest.n:,} rows by position (it has no key column) and the data have {rows:,}; "
            "pass the same rows in the same order, or split with a key."
        )
    return np.arange(manifest.n)


def difference(unknown: pa.Table, absent: pa.Table) -> str:
    """Return in a sentence which rows only the data have, and which only the manifest."""
    told = [
        f"{counted(rows.num_rows, one, many)} (first key {_first_key(rows)})"
        for rows, one, many in (
            (unknown, "row has no fold", "rows have no fold"),
            (absent, "row of the manifest is not in the data", "rows of the manifest are not in the data"),
        )
        if rows.num_rows
    ]
    return " and ".join(told) + "; use the data that were split, or extend the manifest."


def _first_key(rows: pa.Table) -> str:
    first = rows.sort_by([(name, "ascending") for name in rows.column_names]).slice(0, 1)
    return ", ".join(str(value) for value in first.to_pylist()[0].values())

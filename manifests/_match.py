"""The one place where keys are looked up in keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def positions_in(known: pa.Table, wanted: pa.Table) -> NDArray[np.int64]:
    """Return where each row of ``wanted`` stands in ``known`` (same key columns, unique in ``known``); -1 if nowhere.

    One hash table; several columns become one by numbering their values first. O(known + wanted).
    """
    ours, theirs = _one_column(known, wanted)
    found = pc.index_in(theirs, value_set=ours)
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _one_column(known: pa.Table, wanted: pa.Table) -> tuple[pa.Array, pa.Array]:
    if known.num_columns == 1:
        return _whole(known.column(0)), _whole(wanted.column(0))
    codes: NDArray[Any] = np.zeros(known.num_rows + wanted.num_rows, dtype=np.int64)
    for ours, theirs in zip(known.columns, wanted.columns, strict=True):
        both = pa.concat_arrays([_whole(ours), _whole(theirs)]).dictionary_encode()
        codes = codes * len(both.dictionary) + both.indices.to_numpy(zero_copy_only=False)
        # Numbering anew keeps the product of many columns from overflowing.
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    return pa.array(codes[: known.num_rows]), pa.array(codes[known.num_rows :])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)

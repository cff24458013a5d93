"""The features of the data, read block by block: a hash of every row, and a sample of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.splitters import SplitError, Stream
from numpy.typing import NDArray

from ._blocks import blocks_of, schema_of
from ._columns import canonical_table, require_columns
from ._joined import Joined

MOST_SAMPLED = 200_000
_ODD, _MISSING = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, eq=False)
class Features:
    """One 64-bit hash of each row's features, and the features of at most 200,000 rows drawn at random.

    Two rows with other features have the same hash with a probability of n^2 / 2^65 for any pair of n rows: 0.03 for
    a thousand million rows.
    """

    hashes: NDArray[np.uint64]
    rows: NDArray[np.int64]
    sample: pa.Table

    @property
    def looked_at(self) -> str:
        """A remark for sentences where not all rows are in the sample."""
        few = self.rows.size < self.hashes.size
        return f" (in {self.rows.size:,} of {self.hashes.size:,} rows, drawn at random)" if few else ""


def feature_names(joined: Joined, given: Sequence[str] | None, exclude: Collection[str]) -> list[str]:
    """Return the feature columns: as given, or every number, truth value and category that plays no other part.

    That is what a model of this project learns from unless told otherwise. Raises SplitError for a name that is no
    column.
    """
    schema = schema_of(joined.source)
    require_columns([*(given or []), *exclude], schema.names)
    if given is not None:
        return [name for name in given if name not in exclude]
    taken = {*joined.columns.roles(), *joined.manifest.spec.columns.roles(), *exclude}
    return [field.name for field in schema if field.name not in taken and _is_feature(field.type)]


def _is_feature(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_dictionary)
    return any(test(kind) for test in tests)


def read_features(joined: Joined, names: list[str]) -> Features:
    """Return the hashes and the sample of features, in one pass with the memory of a block beside them."""
    if not names:
        raise SplitError("no column of the data is a feature; name some.")
    rows = np.sort(Stream(0).permutation(joined.n)[:MOST_SAMPLED])
    decimals = {field.name: "float" for field in schema_of(joined.source) if pa.types.is_decimal(field.type)}
    hashes, kept, start = np.empty(joined.n, dtype=np.uint64), [], 0
    for block in blocks_of(joined.source, names):
        table = canonical_table(block, names, decimals | joined.manifest.types)
        stop = start + table.num_rows
        hashes[start:stop] = row_hashes(table)
        inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]
        kept.append(table.take(inside - start))
        start = stop
    return Features(hashes, rows, pa.concat_tables(kept).combine_chunks())


def row_hashes(table: pa.Table) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row of a canonical table; missing values are equal to one another."""
    total = np.zeros(table.num_rows, dtype=np.uint64)
    for column in table.columns:
        total *= _ODD
        total ^= _hashes(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))
        total ^= total >> np.uint64(32)
    return total


def _hashes(array: pa.Array) -> NDArray[np.uint64]:
    missing = pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False)
    hashes = np.array(_value_hashes(array))
    hashes[missing] = _MISSING
    return hashes


def _value_hashes(array: pa.Array) -> Any:
    if pa.types.is_large_string(array.type):
        encoded = array.fill_null("").dictionary_encode()
        values = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False), dtype=object)
        return pd.util.hash_array(values, categorize=False)[encoded.indices.to_numpy()]
    if pa.types.is_boolean(array.type):
        return pd.util.hash_array(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_floating(array.type):
        return pd.util.hash_array(array.fill_null(0.0).to_numpy(zero_copy_only=False))
    whole = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array.view(pa.int64())
    return pd.util.hash_array(whole.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))

"""Digests: what names the data, the plan and the decision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import STRETCH, TYPE_NAMES, column_types, whole
from evenfold.splitters.numbers import canonical_json as canonical_json, digest_json as digest_json
from numpy.typing import NDArray

from .fields import Algorithm


def digest_column(column: pa.ChunkedArray | pa.Array) -> bytes:
    """Return the SHA-256 of a canonical column's bytes: little-endian numbers, text as lengths and UTF-8 bytes."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    digest = hashlib.sha256(f"{TYPE_NAMES[array.type]}|{len(array)}|".encode())
    for part in canonical_bytes(array):
        digest.update(np.ascontiguousarray(part).data)
    return digest.digest()


def canonical_bytes(array: pa.Array) -> Iterable[NDArray[Any]]:
    """Yield the bytes that a canonical column is digested as; of text that misses nothing, the lengths come first."""
    if array.null_count:
        # Where values are missing comes before the values, for 0 and "" stand in their places.
        yield np.packbits(array.is_null().to_numpy(zero_copy_only=False))
        array = array.fill_null("" if pa.types.is_large_string(array.type) else pa.scalar(0).cast(array.type))
    if pa.types.is_large_string(array.type):
        offsets = np.frombuffer(array.buffers()[1], dtype="<i8")[array.offset : array.offset + len(array) + 1]
        for start in range(0, len(array), STRETCH):  # a hundred million lengths need no copy as large as they are
            yield np.diff(offsets[start : start + STRETCH + 1]).astype("<i8")
        if array.buffers()[2] is not None:
            yield np.frombuffer(array.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    elif pa.types.is_boolean(array.type):
        yield array.to_numpy(zero_copy_only=False).astype(np.uint8)
    elif pa.types.is_floating(array.type):
        yield np.ascontiguousarray(array.to_numpy(), dtype="<f8")
    else:
        yield np.ascontiguousarray(array.cast(pa.int32()) if pa.types.is_date32(array.type) else array.view(pa.int64()))


class Digests(TypedDict):
    """The number of rows of a table, and the type and digest of each column."""

    rows: int
    columns: dict[str, list[str]]


def digests_of(table: pa.Table) -> Digests:
    """Return how many rows a canonical table has, and the type and digest of each column: what names its content."""
    types = column_types(table)
    columns = {name: [types[name], digest_column(table.column(name)).hex()] for name in sorted(table.column_names)}
    return {"rows": table.num_rows, "columns": columns}


def fingerprint(table: pa.Table) -> str:
    """Return what names the content of a canonical table in key order.

    Independent of container, width of types, column order and row order (the table comes in key order).
    One changed value, one row more or less, or another type changes it.
    """
    return digest_json(digests_of(table))


def content_of(digests: Digests, waiting: pa.Table | None) -> str:
    """Return the fingerprint of a table, and where rows wait beside it, of the two together."""
    content = digest_json(digests)
    return content if waiting is None else digest_json([content, digest_keys(waiting, waiting.num_rows)])


def plan_id(decision: dict[str, Any], data: str, algorithm: Algorithm, parent_split_id: str | None = None) -> str:
    """Return the key of the split cache: what was asked, of which data, by which algorithm, grown from what."""
    return digest_json(
        {"decision": decision, "fingerprint": data, "algorithm": algorithm, "parent_split_id": parent_split_id}
    )


def digest_keys(keys: pa.Table | None, n: int) -> str:
    """Return the SHA-256 of the keys in key order; without keys the position is the key and the count is enough."""
    if keys is None:
        return digest_json({"positions": n})
    return digest_json([digest_column(keys.column(name)).hex() for name in keys.column_names])


def digest_codes(codes: NDArray[Any]) -> str:
    """Return the SHA-256 of integer codes as little-endian int32, one row after the other."""
    digest = hashlib.sha256()
    for start in range(0, len(codes), STRETCH):
        digest.update(np.ascontiguousarray(codes[start : start + STRETCH], dtype="<i4").tobytes())
    return digest.hexdigest()


def digest_resample(train: NDArray[Any], test: NDArray[Any], n: int) -> str:
    """Return the SHA-256 of one resample of ``n`` rows, by its counts as little-endian int16."""
    return hashlib.sha256(resample_counts(train, test, n).astype("<i2").tobytes()).hexdigest()


def resample_counts(train: NDArray[Any], test: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return how often each of ``n`` rows trains, -1 where it tests, 0 where it does neither."""
    counts = np.bincount(train, minlength=n)
    counts[test] = -1
    return counts


def split_id(kind: str, keys: str, codes: str, members: list[str] | None = None) -> str:
    """Return the identity of a decision: which row is where, and nothing else."""
    return digest_json({"kind": kind, "keys": keys, "codes": codes, "members": members})


def digest_table(table: pa.Table) -> str:
    """Return the SHA-256 of a table's values, column after column, whatever file held them."""
    digests = []
    for name, column in zip(table.column_names, map(whole, table.columns), strict=True):
        if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
            digests.append([name, hashlib.sha256(b"".join(column.to_pylist())).hexdigest()])
        else:
            plain = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
            digests.append([name, digest_column(plain).hex()])
    return digest_json(digests)

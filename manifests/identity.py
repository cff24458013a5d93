"""Digests: what names the data, the plan and the decision."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import STRETCH, Digests, digest_column, digests_of as digests_of, whole
from evenfold.splitters.numbers import canonical_json as canonical_json, digest_json as digest_json
from numpy.typing import NDArray


def fingerprint(table: pa.Table) -> str:
    """Return what names the content of a canonical table in key order.

    Independent of container, width of types, column order and row order (the table comes in key order).
    One changed value, one row more or less, or another type changes it.
    """
    return digest_json(digests_of(table))


def content_of(digests: Digests, waiting: pa.Table) -> str:
    """Return the fingerprint of a table and of the keys of the rows that wait beside it."""
    return digest_json([digest_json(digests), digest_keys(waiting, waiting.num_rows)])


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

"""A manifest's rows as Arrow tables, one set per generation, and back again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.manifest import Manifest, StatusChange

from .header import WAITING as WAITING


def tables_of(manifest: Manifest, generation: int) -> dict[str, pa.Table]:
    """Return what joined or changed with ``generation``, by file name.

    Resamples, pairs and rows that wait are those of the newest generation.
    """
    number = f"{generation:04d}"
    tables = {f"assignments-{number}.parquet": _assignments(manifest, generation)}
    if manifest.group_table is not None:
        born = manifest.group_table.column("generation").to_numpy() == generation
        tables[f"groups-{number}.parquet"] = manifest.group_table.filter(pa.array(born))
    changes = [change for change in manifest.changes if change.generation == generation]
    if changes:
        status = pa.array(np.concatenate([change.status for change in changes]))
        keys = pa.concat_tables([change.keys for change in changes])
        tables[f"status-{number}.parquet"] = keys.append_column("status", status)
    if generation < manifest.generation:
        return tables
    waiting = {} if manifest.waiting is None else {WAITING: manifest.waiting}
    return tables | manifest.in_use.files() | waiting


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table for any reader: zstd, integers as differences, text as what differs, codes by dictionary."""
    delta = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if pa.types.is_int64(f.type)}
    text = {f.name: "DELTA_BYTE_ARRAY" for f in table.schema if pa.types.is_large_string(f.type)}
    codes = [f.name for f in table.schema if f.name not in delta and f.name not in text]
    encoding = {**delta, **text} or None
    pq.write_table(
        table, path, row_group_size=1_000_000, compression="zstd", use_dictionary=codes, column_encoding=encoding
    )


def _assignments(manifest: Manifest, generation: int) -> pa.Table:
    born, keys = manifest.born, manifest.keys
    rows = slice(None) if born is None else np.flatnonzero(born == generation)
    if keys is not None and born is not None:
        keys = keys.take(rows)
    columns: dict[str, pa.Array] = {name: keys.column(name) for name in keys.column_names} if keys is not None else {}
    return pa.table(columns | manifest.membership.columns(rows))


def status_in(table: pa.Table, generation: int) -> StatusChange:
    """Return the changes of one generation."""
    keys = table.drop_columns(["status"])
    return StatusChange(generation, keys, np.asarray(table.column("status").to_numpy(), dtype=np.int8))

"""A manifest's rows as Arrow tables, one set per generation, and back again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.manifest import Manifest, Resample, StatusChange
from evenfold.splitters import Pair
from numpy.typing import NDArray


def tables_of(manifest: Manifest, generation: int) -> dict[str, pa.Table]:
    """Return what joined or changed with ``generation``, by file name; resamples and pairs are those of all rows."""
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
    if generation == manifest.generation and manifest.kind == "draws":
        tables["resamples.parquet"] = _resamples(manifest)
    if generation == manifest.generation and manifest.kind == "pairs":
        tables["splits.parquet"] = _splits(manifest)
    return tables


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table for any reader: zstd, row groups of a million, integers as differences, codes by dictionary."""
    delta = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if pa.types.is_int64(f.type)}
    text = {f.name: "DELTA_BYTE_ARRAY" for f in table.schema if pa.types.is_large_string(f.type)}
    codes = [f.name for f in table.schema if f.name not in delta and f.name not in text]
    encoding = {**delta, **text} or None
    pq.write_table(
        table, path, compression="zstd", use_dictionary=codes, column_encoding=encoding, row_group_size=1_000_000
    )


def _assignments(manifest: Manifest, generation: int) -> pa.Table:
    whole = manifest.born is None
    rows = slice(None) if whole else np.flatnonzero(manifest.born == generation)
    keys = manifest.keys
    if keys is not None and not whole:
        keys = keys.take(rows)
    columns: dict[str, Any] = {name: keys.column(name) for name in keys.column_names} if keys is not None else {}
    for number, codes in enumerate(_columns_of(manifest.codes[rows]), start=1):
        columns["fold" if number == 1 else f"fold_r{number}"] = pa.array(np.ascontiguousarray(codes))
    if manifest.kind == "draws" and manifest.strata is not None:
        strata = manifest.strata[rows]
        for number, column in enumerate(_columns_of(strata)):
            columns["stratum" if strata.ndim == 1 else f"stratum_{number}"] = pa.array(np.ascontiguousarray(column))
    if manifest.kind == "draws" and manifest.groups is not None:
        columns["group_code"] = pa.array(manifest.groups[rows])
    return pa.table(columns)


def _columns_of(values: NDArray[Any]) -> list[NDArray[Any]]:
    return [values] if values.ndim == 1 else list(values.T)


def _resamples(manifest: Manifest) -> pa.Table:
    drawn = manifest.resamples
    return pa.table(
        {
            "resample": pa.array(range(len(drawn)), pa.int32()),
            "seed": pa.array([manifest.spec.seed] * len(drawn), pa.int64()),
            "n_train": pa.array([r.n_train for r in drawn], pa.int32()),
            "n_test": pa.array([r.n_test for r in drawn], pa.int32()),
            "digest": pa.array([bytes.fromhex(r.digest) for r in drawn], pa.binary(32)),
            "generation": pa.array([r.generation for r in drawn], pa.int16()),
        }
    )


def _splits(manifest: Manifest) -> pa.Table:
    sides = [(i, role, side) for i, pair in enumerate(manifest.stored_pairs) for role, side in enumerate(pair)]
    sizes = [side.size for _, _, side in sides]
    return pa.table(
        {
            "split": pa.array(np.repeat([i for i, _, _ in sides], sizes), pa.int32()),
            "role": pa.array(np.repeat([role for _, role, _ in sides], sizes), pa.int8()),
            "position": pa.array(np.concatenate([side for _, _, side in sides]), pa.int64()),
        }
    )


def codes_in(table: pa.Table) -> NDArray[Any]:
    """Return the fold columns of an assignments table: n, or n by repeats."""
    columns = [table.column(name).to_numpy() for name in table.column_names if is_fold_column(name)]
    return np.array(columns[0]) if len(columns) == 1 else np.column_stack(columns)


def is_fold_column(name: str) -> bool:
    """Return whether a column of assignments holds folds."""
    return name == "fold" or name.startswith("fold_r")


def strata_in(table: pa.Table) -> NDArray[Any] | None:
    """Return the strata that draws are made anew from."""
    columns = [table.column(name).to_numpy() for name in table.column_names if name.startswith("stratum")]
    if not columns:
        return None
    return np.asarray(columns[0]) if "stratum" in table.column_names else np.column_stack(columns)


def groups_in(table: pa.Table) -> NDArray[np.int64] | None:
    """Return the group codes that draws are made anew from."""
    return np.asarray(table.column("group_code").to_numpy()) if "group_code" in table.column_names else None


def status_in(table: pa.Table, generation: int) -> StatusChange:
    """Return the changes of one generation."""
    keys = table.drop_columns(["status"])
    return StatusChange(generation, keys, np.asarray(table.column("status").to_numpy(), dtype=np.int8))


def resamples_in(table: pa.Table | None) -> tuple[Resample, ...]:
    """Return the recorded draws, none where there is no such table."""
    if table is None:
        return ()
    rows = zip(*(table.column(n).to_pylist() for n in ("n_train", "n_test", "digest", "generation")), strict=True)
    return tuple(Resample(train, test, digest.hex(), generation) for train, test, digest, generation in rows)


def pairs_in(table: pa.Table | None, n_splits: int) -> tuple[Pair, ...]:
    """Return the stored pairs, none where there is no such table."""
    if table is None:
        return ()
    split, role, position = (table.column(name).to_numpy() for name in ("split", "role", "position"))
    bounds = np.searchsorted(split.astype(np.int64) * 2 + role, np.arange(2 * n_splits + 1))
    sides = [position[a:b] for a, b in pairwise(bounds)]
    return tuple((sides[2 * i], sides[2 * i + 1]) for i in range(n_splits))

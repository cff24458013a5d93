"""The manifest on disk: a folder of plain Parquet and JSON that appears whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.splitters import SplitError

from ._load import SCHEMA, read_header, sha256
from ._manifest import Manifest

MOST_COUNTED_FOLDS = 1_000


def write_manifest(manifest: Manifest, root: str | Path) -> Path:
    """Write ``manifest`` as ``<root>/<name>/<version>/`` and return that folder.

    The folder is written aside and renamed, so a reader never sees half of it, and nothing is left where writing fails.
    A folder with the same decision is left as it is; one that holds another decision, or anything else, is a
    SplitError.
    """
    final = Path(root) / manifest.name / manifest.version
    made = [folder for folder in (final.parent, *final.parent.parents) if not folder.exists()]
    aside = final.parent / f".writing-{uuid4().hex}"
    aside.mkdir(parents=True)
    try:
        _write_files(manifest, aside)
        _put_in_place(aside, final, manifest)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # others may have written there meanwhile
            for folder in made:
                folder.rmdir()
        raise
    return final


def _put_in_place(aside: Path, final: Path, manifest: Manifest) -> None:
    try:
        os.rename(aside, final)
    except OSError:
        if not final.exists():
            raise
        found = read_header(final)
        if found["split_id"] != manifest.split_id:
            raise SplitError(
                f"{final} already holds another decision ({found['split_id'][:12]}, not "
                f"{manifest.split_id[:12]}); choose another name or version."
            ) from None
        shutil.rmtree(aside)


def _write_files(manifest: Manifest, folder: Path) -> None:
    said = describe(manifest)
    metadata = {b"evenfold": json.dumps(said, ensure_ascii=False).encode()}
    tables = {
        "assignments-0000.parquet": _assignments(manifest),
        "groups-0000.parquet": manifest.group_table,
        "resamples.parquet": _resamples(manifest),
        "splits.parquet": _splits(manifest),
    }
    files = []
    for name, table in tables.items():
        if table is not None:
            _write_parquet(table.replace_schema_metadata(metadata), folder / name)
            files.append(_entry(folder / name, table.num_rows))
    header = json.dumps(said | {"files": files}, indent=1, ensure_ascii=False)
    with (folder / "manifest.json").open("w", encoding="utf-8") as stream:
        stream.write(header)
        stream.flush()
        os.fsync(stream.fileno())


def _write_parquet(table: pa.Table, path: Path) -> None:
    # Sorted integers take a third of a byte as differences; a dictionary would only be in the way.
    delta = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if pa.types.is_int64(f.type)}
    text = {f.name: "DELTA_BYTE_ARRAY" for f in table.schema if pa.types.is_large_string(f.type)}
    codes = [f.name for f in table.schema if f.name not in delta and f.name not in text]
    pq.write_table(
        table, path, compression="zstd", use_dictionary=codes, column_encoding={**delta, **text} or None,
        row_group_size=1_000_000,
    )  # fmt: skip


def describe(manifest: Manifest) -> dict[str, Any]:
    """Return the header of a manifest: everything but its rows and files, as JSON."""
    return {
        "schema": SCHEMA,
        "name": manifest.name,
        "version": manifest.version,
        "kind": manifest.kind,
        "spec": manifest.spec.model_dump(exclude_defaults=True)
        | {"name": manifest.name, "columns": _columns(manifest)},
        "types": manifest.types,
        "fingerprint": manifest.fingerprint,
        "plan_id": manifest.plan_id,
        "split_id": manifest.split_id,
        "parent_split_id": manifest.parent_split_id,
        "algorithm": manifest.algorithm | {"portable": manifest.splitter.portable},
        "n_rows": manifest.n,
        "n_splits": manifest.n_splits,
        "counts": counts(manifest),
        "generations": [{"n": 0, "rows": manifest.n}],
        "versions": {name: installed(name) for name in ("evenfold", "numpy", "scikit-learn", "pyarrow")},
    }


def _columns(manifest: Manifest) -> dict[str, Any]:
    return manifest.spec.columns.model_dump(exclude_defaults=True)


def counts(manifest: Manifest) -> dict[str, int]:
    """Return the rows of each code (of the first repeat); left empty above 1,000 folds."""
    codes = manifest.codes[:, 0] if manifest.codes.ndim == 2 else manifest.codes
    values, rows = np.unique(codes, return_counts=True)
    if values.size > MOST_COUNTED_FOLDS:
        return {}
    return {str(value): int(count) for value, count in zip(values, rows, strict=True)}


def _assignments(manifest: Manifest) -> pa.Table:
    keys = manifest.keys
    columns: dict[str, Any] = {name: keys.column(name) for name in keys.column_names} if keys is not None else {}
    repeats = [manifest.codes] if manifest.codes.ndim == 1 else list(manifest.codes.T)
    for number, codes in enumerate(repeats, start=1):
        columns["fold" if number == 1 else f"fold_r{number}"] = pa.array(codes)
    if manifest.strata is not None and manifest.kind == "draws":
        columns["stratum"] = pa.array(manifest.strata)
    if manifest.groups is not None and manifest.kind == "draws":
        columns["group_code"] = pa.array(manifest.groups)
    return pa.table(columns)


def _resamples(manifest: Manifest) -> pa.Table | None:
    if manifest.kind != "draws":
        return None
    return pa.table(
        {
            "resample": pa.array(range(manifest.n_splits), pa.int32()),
            "seed": pa.array([manifest.spec.seed] * manifest.n_splits, pa.int64()),
            "n_train": pa.array([r.n_train for r in manifest.resamples], pa.int32()),
            "n_test": pa.array([r.n_test for r in manifest.resamples], pa.int32()),
            "digest": pa.array([bytes.fromhex(r.digest) for r in manifest.resamples], pa.binary(32)),
            "generation": pa.array([0] * manifest.n_splits, pa.int16()),
        }
    )


def _splits(manifest: Manifest) -> pa.Table | None:
    if manifest.kind != "pairs":
        return None
    sides = [(i, role, side) for i, pair in enumerate(manifest.stored_pairs) for role, side in enumerate(pair)]
    return pa.table(
        {
            "split": pa.array(np.repeat([i for i, _, _ in sides], [s.size for _, _, s in sides]), pa.int32()),
            "role": pa.array(np.repeat([r for _, r, _ in sides], [s.size for _, _, s in sides]), pa.int8()),
            "position": pa.array(np.concatenate([s for _, _, s in sides]), pa.int64()),
        }
    )


def _entry(path: Path, rows: int) -> dict[str, Any]:
    return {"path": path.name, "sha256": sha256(path), "bytes": path.stat().st_size, "rows": rows}

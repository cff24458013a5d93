"""The manifest on disk: a folder of plain Parquet and JSON that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from importlib.metadata import version as installed
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from ._manifest import Manifest, Resample
from ._spec import read_spec

SCHEMA = "evenfold-manifest/1"
MOST_COUNTED_FOLDS = 1_000


def write_manifest(manifest: Manifest, root: str | Path) -> Path:
    """Write ``manifest`` as ``<root>/<name>/<version>/`` and return that folder.

    The folder is written aside and renamed, so a reader never sees half of it. A folder with the same decision is
    left as it is; a version that holds another decision is a SplitError.
    """
    final = Path(root) / manifest.name / manifest.version
    final.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".writing-", dir=final.parent))
    try:
        _write_files(manifest, aside)
        os.rename(aside, final)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        if not (final / "manifest.json").exists():
            raise
        if _header(final)["split_id"] != manifest.split_id:
            raise SplitError(
                f"{final} already holds another decision ({_header(final)['split_id'][:12]}, not "
                f"{manifest.split_id[:12]}); choose another name or version."
            ) from None
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return final


def read_manifest(folder: str | Path) -> Manifest:
    """Return the manifest in ``folder``; every file is compared with its SHA-256 first.

    Raises SplitError for a folder that holds none, a newer schema, or a damaged or missing file (by name).
    """
    path = Path(folder)
    header = _header(path)
    for entry in header["files"]:
        _compare(path / entry["path"], entry["sha256"])
    table = pq.read_table(path / "assignments-0000.parquet")
    key = header["spec"]["columns"].get("key", [])
    manifest = Manifest(
        kind=header["kind"],
        spec=read_spec(header["spec"]),
        types=header["types"],
        fingerprint=header["fingerprint"],
        plan_id=header["plan_id"],
        algorithm=header["algorithm"],
        codes=_codes(table),
        keys=table.select(key).replace_schema_metadata(None) if key else None,
        n_splits=header["n_splits"],
        strata=_column(table, "stratum"),
        groups=_column(table, "group_code"),
        resamples=_read_resamples(path / "resamples.parquet"),
        stored_pairs=_read_pairs(path / "splits.parquet", header["n_splits"]),
        group_table=pq.read_table(path / "groups-0000.parquet") if (path / "groups-0000.parquet").exists() else None,
        version=header["version"],
        parent_split_id=header["parent_split_id"],
        uri=str(path),
    )
    if manifest.split_id != header["split_id"]:
        raise SplitError(
            f"{path} says it is {header['split_id'][:12]} and its rows are {manifest.split_id[:12]}; "
            "restore it from its MLflow run."
        )
    return manifest


def _header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SplitError(f"{path} holds no manifest.json; pass the folder of a manifest.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SplitError(f"{path / 'manifest.json'} is damaged ({error}); restore it from its MLflow run.") from None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        found = header.get("schema") if isinstance(header, dict) else None
        raise SplitError(f"{path} has schema {found!r}; this version of evenfold reads {SCHEMA!r}.")
    return header


def _write_files(manifest: Manifest, folder: Path) -> None:
    metadata = {b"evenfold": json.dumps({"plan_id": manifest.plan_id, "split_id": manifest.split_id}).encode()}
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
    header = json.dumps(describe(manifest) | {"files": files}, indent=1, ensure_ascii=False)
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


def _codes(table: pa.Table) -> NDArray[Any]:
    columns = [table.column(n).to_numpy() for n in table.column_names if n == "fold" or n.startswith("fold_r")]
    return np.array(columns[0]) if len(columns) == 1 else np.column_stack(columns)


def _column(table: pa.Table, name: str) -> NDArray[Any] | None:
    return np.asarray(table.column(name).to_numpy()) if name in table.column_names else None


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


def _read_resamples(path: Path) -> tuple[Resample, ...]:
    if not path.exists():
        return ()
    columns = pq.read_table(path, columns=["n_train", "n_test", "digest"]).to_pydict()
    rows = zip(columns["n_train"], columns["n_test"], columns["digest"], strict=True)
    return tuple(Resample(train, test, digest.hex()) for train, test, digest in rows)


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


def _read_pairs(path: Path, n_splits: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
    if not path.exists():
        return ()
    columns = {name: column.to_numpy() for name, column in zip(*_named_columns(path), strict=True)}
    side = columns["split"].astype(np.int64) * 2 + columns["role"]
    bounds = np.searchsorted(side, np.arange(2 * n_splits + 1))
    parts = [columns["position"][a:b] for a, b in pairwise(bounds)]
    return tuple((parts[2 * i], parts[2 * i + 1]) for i in range(n_splits))


def _named_columns(path: Path) -> tuple[list[str], list[pa.ChunkedArray]]:
    table = pq.read_table(path)
    return table.column_names, table.columns


def _entry(path: Path, rows: int) -> dict[str, Any]:
    return {"path": path.name, "sha256": _sha256(path), "bytes": path.stat().st_size, "rows": rows}


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _compare(path: Path, wanted: str) -> None:
    if not path.exists():
        raise SplitError(f"{path} is missing; restore it from its MLflow run.")
    if _sha256(path) != wanted:
        raise SplitError(f"{path} is damaged: its SHA-256 is not the recorded {wanted[:12]}; restore it.")

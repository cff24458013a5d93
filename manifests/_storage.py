"""The manifest on disk: a folder of plain Parquet and JSON that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.splitters import SplitError

from ._identity import digest_table
from ._keys import key_names
from ._manifest import Manifest
from ._spec import read_spec
from ._tables import codes_in, groups_in, pairs_in, resamples_in, status_in, strata_in, tables_of, write_parquet

SCHEMA = "evenfold-manifest/1"
MOST_COUNTED_FOLDS = 1_000
BLOCK_ROWS = 1_000_000


def write_manifest(manifest: Manifest, root: str | Path) -> Path:
    """Write ``manifest`` as ``<root>/<name>/<version>/`` and return that folder.

    The folder is written aside and renamed, so a reader never sees half of it. Files of older generations are those
    of the version before, unchanged. A folder with the same decision is left as it is; a version that holds another
    decision, as after two extensions at once, and a disk that is full are SplitErrors that leave nothing behind.
    """
    final = Path(root) / manifest.name / manifest.version
    aside = _aside(final.parent)
    try:
        _write_files(manifest, aside, final.parent)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise SplitError(f"{final} cannot be written ({error.strerror or error}); nothing was changed.") from None
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    try:
        os.rename(aside, final)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        _require_same(manifest, final, error)
    return final


def _aside(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".writing-", dir=folder))
    except OSError as error:
        raise SplitError(f"{folder} cannot be written ({error.strerror or error}); nothing was changed.") from None


def _require_same(manifest: Manifest, final: Path, error: OSError) -> None:
    if not (final / "manifest.json").exists():
        raise SplitError(f"{final} cannot be written ({error.strerror or error}); nothing was changed.")
    held = read_header(final)["split_id"]
    if held != manifest.split_id:
        raise SplitError(
            f"{final} already holds another decision ({held[:12]}, not {manifest.split_id[:12]}); "
            "extend that one, or choose another name."
        )


def read_manifest(folder: str | Path) -> Manifest:
    """Return the manifest in ``folder``; every file is compared with its SHA-256 first.

    Raises SplitError for a folder that holds none, a newer schema, or a damaged or missing file (by name).
    """
    path = Path(folder)
    header = read_header(path)
    try:
        for entry in header["files"]:
            require_intact(path / entry["path"], entry["sha256"])
        manifest = _from_files(path, header)
        recorded = header["split_id"]
    except (KeyError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException) as error:
        if isinstance(error, SplitError):
            raise
        raise SplitError(f"{path} is no complete manifest ({type(error).__name__}: {error}); restore it.") from None
    if manifest.split_id != recorded:
        raise SplitError(
            f"{path} says it is {recorded[:12]} and its rows are {manifest.split_id[:12]}; "
            "restore it from its MLflow run."
        )
    return manifest


def _from_files(path: Path, header: dict[str, Any]) -> Manifest:
    spec = read_spec(header["spec"])
    generation = len(header["generations"]) - 1
    tables = [pq.read_table(path / f"assignments-{g:04d}.parquet") for g in range(generation + 1)]
    key = key_names(spec)
    table, born = _together(tables, key)
    groups = [pq.read_table(file) for file in sorted(path.glob("groups-*.parquet"))]
    changes = [(int(file.stem[-4:]), pq.read_table(file)) for file in sorted(path.glob("status-*.parquet"))]
    return Manifest(
        kind=header["kind"],
        spec=spec,
        types=header["types"],
        fingerprint=header["fingerprint"],
        plan_id=header["plan_id"],
        algorithm={name: header["algorithm"][name] for name in ("name", "version")},
        codes=codes_in(table),
        keys=table.select(key).replace_schema_metadata(None) if key else None,
        n_splits=header["n_splits"],
        strata=strata_in(table),
        groups=groups_in(table),
        resamples=resamples_in(path / "resamples.parquet"),
        stored_pairs=pairs_in(path / "splits.parquet", header["n_splits"]),
        group_table=pa.concat_tables(groups).combine_chunks().replace_schema_metadata(None) if groups else None,
        state=header["state"],
        born=born,
        changes=tuple(status_in(changed.replace_schema_metadata(None), g) for g, changed in changes),
        version=header["version"],
        parent_split_id=header["parent_split_id"],
        uri=str(path),
    )


def _together(tables: list[pa.Table], key: list[str]) -> tuple[pa.Table, Any]:
    if len(tables) == 1:
        return tables[0], None
    born = np.repeat(np.arange(len(tables), dtype=np.int16), [table.num_rows for table in tables])
    table = pa.concat_tables([each.replace_schema_metadata(None) for each in tables]).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in key])
    return table.take(order).combine_chunks(), born[order.to_numpy()]


def read_header(path: Path) -> dict[str, Any]:
    """Return manifest.json; raises SplitError where there is none, it is damaged, or its schema is not ours."""
    try:
        header = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise SplitError(f"{path} holds no manifest.json; pass the folder of a manifest.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SplitError(f"{path / 'manifest.json'} is damaged ({error}); restore it from its MLflow run.") from None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        found = header.get("schema") if isinstance(header, dict) else None
        raise SplitError(f"{path} has schema {found!r}; this version of evenfold reads {SCHEMA!r}.")
    return header


def _write_files(manifest: Manifest, folder: Path, versions: Path) -> None:
    before = _version_before(manifest, versions)
    files = [] if before is None else _linked(before, folder)
    first = 0 if before is None else manifest.generation
    metadata = {b"evenfold": json.dumps({"plan_id": manifest.plan_id, "split_id": manifest.split_id}).encode()}
    for generation in range(first, manifest.generation + 1):
        for name, table in tables_of(manifest, generation).items():
            write_parquet(table.replace_schema_metadata(metadata), folder / name)
            files.append(_entry(folder / name, table))
    with (folder / "manifest.json").open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(describe(manifest) | {"files": files}, indent=1, ensure_ascii=False))
        stream.flush()
        os.fsync(stream.fileno())


def _version_before(manifest: Manifest, versions: Path) -> Path | None:
    major, _, minor = manifest.version.partition(".")
    path = versions / f"{major}.{int(minor) - 1}"
    held = (path / "manifest.json").exists() and read_header(path)["split_id"] == manifest.parent_split_id
    return path if held else None


def _linked(before: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the older generations' files, which are shared with the version before."""
    entries = [entry for entry in read_header(before)["files"] if entry["path"][-12:-8].isdigit()]
    for entry in entries:
        try:
            os.link(before / entry["path"], folder / entry["path"])
        except OSError:
            shutil.copyfile(before / entry["path"], folder / entry["path"])
    return entries


def describe(manifest: Manifest) -> dict[str, Any]:
    """Return the header of a manifest: everything but its rows and files, as JSON."""
    generations = manifest.born if manifest.born is not None else np.zeros(manifest.n, dtype=np.int16)
    rows = np.bincount(generations, minlength=manifest.generation + 1).tolist()
    shares = {int(code): share for code, share in (manifest.state or {}).get("shares", [])}
    parts = [{"name": name, "code": code, "share": shares.get(code)} for name, code in manifest.part_codes().items()]
    return {
        "schema": SCHEMA,
        "name": manifest.name,
        "version": manifest.version,
        "kind": manifest.kind,
        "spec": manifest.spec.model_dump(mode="json", exclude_defaults=True),
        "types": manifest.types,
        "fingerprint": manifest.fingerprint,
        "plan_id": manifest.plan_id,
        "split_id": manifest.split_id,
        "parent_split_id": manifest.parent_split_id,
        "algorithm": manifest.algorithm | {"portable": manifest.splitter.portable},
        "n_rows": manifest.n,
        "n_splits": manifest.n_splits,
        "counts": counts(manifest),
        "parts": parts,
        "state": manifest.state,
        "generations": [{"n": number, "rows": count} for number, count in enumerate(rows)],
        "versions": {name: installed(name) for name in ("evenfold", "numpy", "scikit-learn", "pyarrow")},
    }


def counts(manifest: Manifest) -> dict[str, int]:
    """Return the rows of each code in use (of the first repeat); left empty above 1,000 folds."""
    codes = manifest.codes_in_use.reshape(manifest.n, -1)[:, 0]
    values, rows = np.unique(codes, return_counts=True)
    if values.size > MOST_COUNTED_FOLDS:
        return {}
    return {str(value): int(count) for value, count in zip(values, rows, strict=True)}


def _entry(path: Path, table: pa.Table) -> dict[str, Any]:
    blocks = [digest_table(table.slice(start, BLOCK_ROWS)) for start in range(0, table.num_rows, BLOCK_ROWS)]
    return {
        "path": path.name,
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
        "rows": table.num_rows,
        "blocks": [block[:16] for block in blocks],
    }


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_intact(path: Path, wanted: str) -> None:
    """Raise SplitError where a file is absent or is not what was recorded."""
    if not path.exists():
        raise SplitError(f"{path} is missing; restore it from its MLflow run.")
    if sha256_of(path) != wanted:
        raise SplitError(f"{path} is damaged: its SHA-256 is not the recorded {wanted[:12]}; restore it.")

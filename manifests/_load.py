"""A manifest from disk: every file proved, then put together."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.splitters import SplitError

from ._keys import key_names
from ._manifest import Manifest
from ._spec import read_spec
from ._tables import codes_in, groups_in, pairs_in, resamples_in, status_in, strata_in

SCHEMA = "evenfold-manifest/1"
FIRST = "assignments-0000.parquet"
REMEDY = "restore it from its MLflow run."


def read_manifest(folder: str | Path) -> Manifest:
    """Return the manifest in ``folder``; every file is compared with its SHA-256 first, and the header with its copy.

    Raises SplitError for a folder that holds none, another schema, or a damaged or missing file (by name).
    """
    path = Path(folder)
    header = read_header(path)
    files = _files(header, path)
    for entry in files:
        _require_intact(path / entry["path"], entry["sha256"])
    _compare_headers(header, path / max(e["path"] for e in files if e["path"].startswith("assignments")), path)
    manifest = _from_files(path, header)
    if manifest.split_id != header["split_id"]:
        raise SplitError(
            f"{path} says it is {header['split_id'][:12]} and its rows are {manifest.split_id[:12]}; {REMEDY}"
        )
    return manifest


def read_header(folder: Path) -> dict[str, Any]:
    """Return what ``manifest.json`` in ``folder`` says, unproved; SplitError where it says nothing that we read."""
    path = folder / "manifest.json"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise SplitError(f"{folder} holds no manifest.json; pass the folder of a manifest.") from None
    except (ValueError, RecursionError, OSError) as error:
        raise SplitError(f"{path} is damaged ({str(error)[:100]}); {REMEDY}") from None
    found = header.get("schema") if isinstance(header, dict) else None
    if not isinstance(header, dict) or found != SCHEMA:
        raise SplitError(f"{folder} has schema {repr(found)[:40]}; this version of evenfold reads {SCHEMA!r}.")
    return header


def _files(header: dict[str, Any], folder: Path) -> list[dict[str, str]]:
    files = header.get("files")
    if not isinstance(files, list) or not all(_is_entry(entry) for entry in files):
        raise SplitError(f"{folder / 'manifest.json'} is damaged (its list of files); {REMEDY}")
    unlisted = {FIRST, *(file.name for file in folder.glob("*.parquet"))} - {entry["path"] for entry in files}
    if unlisted:
        raise SplitError(f"{folder / 'manifest.json'} does not list {', '.join(sorted(unlisted))}; {REMEDY}")
    return files


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
        return False
    return isinstance(entry.get("path"), str) and bool(re.fullmatch(r"[a-z]+(-\d{4})?\.parquet", entry["path"]))


def _require_intact(path: Path, wanted: str) -> None:
    try:
        found = sha256_of(path)
    except FileNotFoundError:
        raise SplitError(f"{path} is missing; {REMEDY}") from None
    except OSError as error:
        raise SplitError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
    if found != wanted:
        raise SplitError(f"{path} is damaged: its SHA-256 is not the {wanted[:12]} of manifest.json; {REMEDY}")


def _compare_headers(header: dict[str, Any], newest: Path, folder: Path) -> None:
    """Raise SplitError where the header says something else than its copy, which the newest rows' SHA-256 proves."""
    copy = _told(json.loads((pq.read_schema(newest).metadata or {}).get(b"evenfold", b"{}")))
    said = _told({name: value for name, value in header.items() if name != "files"})
    odd = sorted(name for name, _ in copy ^ said)
    if odd:
        fields = ", ".join(dict.fromkeys(odd))[:200]
        raise SplitError(
            f"{folder / 'manifest.json'} does not fit the copy in {newest.name} (fields: {fields}); {REMEDY}"
        )


def _told(fields: dict[str, Any]) -> set[tuple[str, str]]:
    return {(name, json.dumps(value, sort_keys=True)) for name, value in fields.items()}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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

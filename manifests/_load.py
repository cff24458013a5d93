"""A manifest from disk: every file proved, then put together."""

from __future__ import annotations

import hashlib
import json
import re
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
ROWS = "assignments-0000.parquet"
REMEDY = "restore it from its MLflow run."


def read_manifest(folder: str | Path) -> Manifest:
    """Return the manifest in ``folder``; every file is compared with its SHA-256 first, and the header with its copy.

    Raises SplitError for a folder that holds none, another schema, or a damaged or missing file (by name).
    """
    path = Path(folder)
    header = read_header(path)
    tables = {entry["path"]: _read_file(path / entry["path"], entry["sha256"]) for entry in _files(header, path)}
    _compare_headers(header, tables[ROWS], path)
    rows, key = tables[ROWS], header["spec"]["columns"].get("key", [])
    manifest = Manifest(
        kind=header["kind"],
        spec=read_spec(header["spec"]),
        types=header["types"],
        fingerprint=header["fingerprint"],
        plan_id=header["plan_id"],
        algorithm=header["algorithm"],
        codes=_codes(rows),
        keys=rows.select(key).replace_schema_metadata(None) if key else None,
        n_splits=header["n_splits"],
        strata=_column(rows, "stratum"),
        groups=_column(rows, "group_code"),
        resamples=_resamples(tables.get("resamples.parquet")),
        stored_pairs=_pairs(tables.get("splits.parquet"), header["n_splits"]),
        group_table=tables.get("groups-0000.parquet"),
        version=header["version"],
        parent_split_id=header["parent_split_id"],
        uri=str(path),
    )
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
    unlisted = {ROWS, *(file.name for file in folder.glob("*.parquet"))} - {entry["path"] for entry in files}
    if unlisted:
        raise SplitError(f"{folder / 'manifest.json'} does not list {', '.join(sorted(unlisted))}; {REMEDY}")
    return files


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
        return False
    return isinstance(entry.get("path"), str) and bool(re.fullmatch(r"[a-z]+(-\d{4})?\.parquet", entry["path"]))


def _read_file(path: Path, wanted: str) -> pa.Table:
    try:
        found = sha256(path)
    except FileNotFoundError:
        raise SplitError(f"{path} is missing; {REMEDY}") from None
    except OSError as error:
        raise SplitError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
    if found != wanted:
        raise SplitError(f"{path} is damaged: its SHA-256 is not the {wanted[:12]} of manifest.json; {REMEDY}")
    return pq.read_table(path)


def _compare_headers(header: dict[str, Any], rows: pa.Table, folder: Path) -> None:
    """Raise SplitError where the header says something else than its copy, which the rows' SHA-256 proves."""
    copy = _told(json.loads((rows.schema.metadata or {}).get(b"evenfold", b"{}")))
    said = _told({name: value for name, value in header.items() if name != "files"})
    odd = sorted(name for name, _ in copy ^ said)
    if odd:
        raise SplitError(
            f"{folder / 'manifest.json'} does not fit the copy in {ROWS} (fields: {', '.join(odd)[:200]}); {REMEDY}"
        )


def _told(fields: dict[str, Any]) -> set[tuple[str, str]]:
    return {(name, json.dumps(value, sort_keys=True)) for name, value in fields.items()}


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _codes(table: pa.Table) -> NDArray[Any]:
    columns = [table.column(n).to_numpy() for n in table.column_names if n == "fold" or n.startswith("fold_r")]
    return np.array(columns[0]) if len(columns) == 1 else np.column_stack(columns)


def _column(table: pa.Table, name: str) -> NDArray[Any] | None:
    return np.asarray(table.column(name).to_numpy()) if name in table.column_names else None


def _resamples(table: pa.Table | None) -> tuple[Resample, ...]:
    if table is None:
        return ()
    columns = (table.column(name).to_pylist() for name in ("n_train", "n_test", "digest"))
    return tuple(Resample(train, test, digest.hex()) for train, test, digest in zip(*columns, strict=True))


def _pairs(table: pa.Table | None, n_splits: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
    if table is None:
        return ()
    split, role, position = (table.column(name).to_numpy() for name in ("split", "role", "position"))
    bounds = np.searchsorted(split.astype(np.int64) * 2 + role, np.arange(2 * n_splits + 1))
    parts = [position[a:b] for a, b in pairwise(bounds)]
    return tuple((parts[2 * i], parts[2 * i + 1]) for i in range(n_splits))

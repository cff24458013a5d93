"""A manifest from disk: every file proved, then put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import KINDS
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.state import State
from evenfold.manifests.tables.canonical import is_pseudonym
from evenfold.manifests.tables.keys import key_names
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import cause_of, reason_of
from numpy.typing import NDArray

from .header import REMEDY, Header, folder_of, prove_files, read_header
from .tables import WAITING, status_in


def read_manifest(folder: Any) -> Manifest:
    """Return the manifest in ``folder``, or of whatever names a split.

    Every file is compared with its SHA-256 first, and the header with its copy.

    Raises SplitError for a folder that holds none, another schema, or a damaged or missing file (by name).
    """
    path = folder_of(folder)
    header = prove_stored(path)
    try:
        tables = {entry["path"]: pq.read_table(path / entry["path"]) for entry in header["files"]}
        manifest = _from_tables(path, header, tables)
    except SplitError:
        raise
    except Exception as error:  # files of somebody else's, whose digests fit a header of theirs
        raise _forged(path, error) from cause_of(error)
    if manifest.split_id != header["split_id"]:
        raise SplitError(
            f"{path} says it is {header['split_id'][:12]} and its rows are {manifest.split_id[:12]}; {REMEDY}"
        )
    return manifest


def prove_stored(folder: Path) -> Header:
    """Return the header of the manifest in ``folder``: every file has its SHA-256, and the header fits its copy.

    Raises SplitError as ``read_manifest`` does. No row is read, so a manifest of any size is proved in no memory.
    """
    header = read_header(folder)
    prove_files(header, folder)
    # Files of older generations hold the headers of their own versions.
    newest = max(entry["path"] for entry in header["files"] if entry["path"].startswith("assignments-"))
    _compare_headers(header, folder / newest)
    return header


def _forged(path: Path, error: Exception) -> SplitError:
    """Return what is said of files that are what their header says, and together no manifest."""
    return SplitError(f"{path} holds no manifest ({type(error).__name__}: {reason_of(error)[:200]}); {REMEDY}")


def _from_tables(path: Path, header: Header, tables: dict[str, pa.Table]) -> Manifest:
    whole = described(header, path)
    key = key_names(whole["spec"])
    rows, born = _together(_of_kind(tables, "assignments"), key)
    groups = _of_kind(tables, "groups")
    changes = [(int(name[-12:-8]), table) for name, table in sorted(tables.items()) if name.startswith("status-")]
    keys = rows.select(key).replace_schema_metadata(None) if key else None
    read, splitter = KINDS[header["kind"]].read, whole["spec"].splitter()
    return Manifest(
        **whole,
        state=State.of(cast(Any, header["state"])),
        membership=read(rows, tables, splitter=splitter, keys=keys, n_splits=header["n_splits"]),
        keys=keys,
        group_table=pa.concat_tables(groups).combine_chunks() if groups else None,
        born=born,
        changes=tuple(status_in(changed, generation) for generation, changed in changes),
        waiting=tables[WAITING].replace_schema_metadata(None) if WAITING in tables else None,
    )


def described(header: Header, path: Path) -> dict[str, Any]:
    """Return what the header alone says of the manifest in ``path``, by the fields of ``Manifest``."""
    names = ("types", "fingerprint", "plan_id", "version", "parent_split_id")
    algorithm = {name: value for name, value in header["algorithm"].items() if name != "portable"}
    spec = _as_it_was(read_spec(header["spec"], stored=True), header["types"])
    return {name: header[name] for name in names} | {"spec": spec, "algorithm": algorithm, "uri": str(path)}  # type: ignore[literal-required]


def _as_it_was(spec: SplitSpec, types: dict[str, str]) -> SplitSpec:
    """Return the specification with what was encoded: earlier versions encoded keys alone and did not say so."""
    if spec.key_encoding is None:
        return spec
    encoded = [name for name in spec.pseudonyms() if is_pseudonym(types.get(name, ""))]
    if encoded == [name for name in spec.pseudonyms() if name in types]:
        return spec
    encoding = spec.key_encoding.model_copy(update={"encode": ("key",)})
    return spec.model_copy(update={"key_encoding": encoding})


def _of_kind(tables: dict[str, pa.Table], kind: str) -> list[pa.Table]:
    return [tables[name].replace_schema_metadata(None) for name in sorted(tables) if name.startswith(f"{kind}-")]


def _together(tables: list[pa.Table], key: list[str]) -> tuple[pa.Table, NDArray[np.int16] | None]:
    """Return the rows of all generations in key order, and the generation of each; None where there is but one."""
    if len(tables) == 1:
        return tables[0], None
    born = np.repeat(np.arange(len(tables), dtype=np.int16), [table.num_rows for table in tables])
    table = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in key])
    return table.take(order).combine_chunks(), born[order.to_numpy()]


def _compare_headers(header: Header, file: Path) -> None:
    """Raise SplitError where the header says something else than its copy, which the rows' SHA-256 proves."""
    try:
        copy = _told(json.loads((pq.read_metadata(file).metadata or {}).get(b"evenfold", b"{}")))
        claimed = _told({name: value for name, value in header.items() if name != "files"})
    except Exception as error:
        raise _forged(file.parent, error) from cause_of(error)
    odd = sorted(name for name, _ in copy ^ claimed)
    if odd:
        raise SplitError(
            f"{file.parent / 'manifest.json'} does not fit the copy in {file.name} "
            f"(fields: {', '.join(odd)[:200]}); {REMEDY}"
        )


def _told(fields: dict[str, Any]) -> set[tuple[str, str]]:
    return {(name, json.dumps(value, sort_keys=True)) for name, value in fields.items()}

"""A manifest in its folder: what its header says at once, its rows, read and checked when they are asked for."""

from __future__ import annotations

import json
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import KINDS
from evenfold.manifests.spec import read_spec
from evenfold.manifests.store.header import REMEDY, WAITING as WAITING, Header, folder_of, prove_files, read_header
from evenfold.manifests.store.state import State
from evenfold.manifests.tables.read import require_rows
from evenfold.splitters import SplitError
from evenfold.splitters.errors import cause_of, reason_of
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evenfold.manifests.plan import Plan


def tables_of(manifest: Manifest, generation: int) -> dict[str, pa.Table]:
    """Return what joined or changed with ``generation``, by file name; of draws, pairs and waiting rows the newest."""
    number, keys, born = f"{generation:04d}", manifest.keys, manifest.born
    rows = slice(None) if born is None else np.flatnonzero(born == generation)
    if keys is not None and born is not None:
        keys = keys.take(rows)
    columns: dict[str, pa.Array] = {name: keys.column(name) for name in keys.column_names} if keys is not None else {}
    tables = {f"assignments-{number}.parquet": pa.table(columns | manifest.membership.columns(rows))}
    if manifest.group_table is not None:
        born = manifest.group_table.column("generation").to_numpy() == generation
        tables[f"groups-{number}.parquet"] = manifest.group_table.filter(pa.array(born))
    if generation in manifest.changes:
        tables[f"status-{number}.parquet"] = manifest.changes[generation]
    if generation < manifest.generation:
        return tables
    waiting = {} if manifest.waiting is None else {WAITING: manifest.waiting}
    return tables | manifest.in_use.files() | waiting


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
        split_id = manifest.split_id
    except SplitError:
        raise
    except Exception as error:  # files of somebody else's, whose digests fit a header of theirs
        raise _forged(path, error) from cause_of(error)
    if split_id != header["split_id"]:
        raise SplitError(f"{path} says it is {header['split_id'][:12]} and its rows are {split_id[:12]}; {REMEDY}")
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
    key = whole["spec"].key_names
    rows, *later = _of_kind(tables, "assignments")
    born: NDArray[np.int16] | None = None
    if later:  # the rows of all generations, in key order
        born = np.repeat(np.arange(1 + len(later), dtype=np.int16), [table.num_rows for table in (rows, *later)])
        rows = pa.concat_tables([rows, *later]).combine_chunks()
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in key])
        rows, born = rows.take(order).combine_chunks(), born[order.to_numpy()]
    groups = _of_kind(tables, "groups")
    keys = rows.select(key).replace_schema_metadata(None) if key else None
    read, splitter = KINDS[header["kind"]].read, whole["spec"].splitter()
    return Manifest(
        **whole,
        state=State.of(header["state"]),
        membership=read(rows, tables, splitter=splitter, keys=keys, n_splits=header["n_splits"]),
        keys=keys,
        group_table=pa.concat_tables(groups).combine_chunks() if groups else None,
        born=born,
        changes={
            int(name[-12:-8]): table.replace_schema_metadata(None)
            for name, table in tables.items()
            if name.startswith("status-")
        },
        waiting=tables[WAITING].replace_schema_metadata(None) if WAITING in tables else None,
    )


def described(header: Header, path: Path) -> dict[str, Any]:
    """Return what the header alone says of the manifest in ``path``, by the fields of ``Manifest``."""
    names = ("types", "fingerprint", "plan_id", "version", "parent_split_id")
    algorithm = {name: value for name, value in header["algorithm"].items() if name != "portable"}
    spec = read_spec(header["spec"])
    return {name: header[name] for name in names} | {"spec": spec, "algorithm": algorithm, "uri": str(path)}  # type: ignore[literal-required]


def _of_kind(tables: dict[str, pa.Table], kind: str) -> list[pa.Table]:
    return [tables[name].replace_schema_metadata(None) for name in sorted(tables) if name.startswith(f"{kind}-")]


def _compare_headers(header: Header, file: Path) -> None:
    """Raise SplitError where the header says something else than its copy, which the rows' SHA-256 proves."""
    try:
        copy = {"files": header["files"]} | json.loads((pq.read_metadata(file).metadata or {}).get(b"evenfold", b"{}"))
        odd = sorted(name for name in {*copy, *header} if copy.get(name) != header.get(name))
    except Exception as error:
        raise _forged(file.parent, error) from cause_of(error)
    if odd:
        raise SplitError(
            f"{file.parent / 'manifest.json'} does not fit the copy in {file.name} "
            f"(fields: {', '.join(odd)[:200]}); {REMEDY}"
        )


# What a row of a manifest takes beside a table, at its peak, as it was seen at 10 million rows (docs/scale.md).
BYTES_A_ROW = 70  # its key, codes and places, joined, and no column; with the positions of a split
LOOKED_AT = 185  # measured or audited: with two columns of roles, and the ranks of a number
HASHED = 160  # more where keys are no whole numbers: a text of a dozen letters, and its place in a hash table


def _of_rows(name: str) -> cached_property[Any]:
    of_rows = cached_property(attrgetter(f"rows.{name}"))
    of_rows.__doc__ = f"As ``Manifest.{name}``; the rows are read, once, when it is asked for."
    return of_rows


class StoredManifest(Manifest):
    """A manifest in its folder: the header in memory; its rows are read, and proved, when one of them is asked for."""

    folder: Path
    header: Header

    def __init__(self, folder: Any) -> None:
        folder = folder_of(folder)
        header = read_header(folder)
        of = {"folder": folder, "header": header, "n": header["n_rows"]}
        of |= {"split_id": header["split_id"], "n_splits": header["n_splits"], "kind": header["kind"]}
        self.__dict__.update(of | described(header, folder))

    if not TYPE_CHECKING:
        membership, keys, group_table, state, born, changes, waiting = map(
            _of_rows, ("membership", "keys", "group_table", "state", "born", "changes", "waiting")
        )

    @property
    def summary(self) -> str:
        """Name, version, rows, splits and identity, in one line; no row is read for it."""
        return f"StoredManifest {self.name} {self.version}: {self.n:,} rows, {self.kind}, id {self.split_id[:12]}"

    @cached_property
    def rows(self) -> Manifest:
        """The manifest in memory, proved."""
        return read_manifest(self.folder)

    @property
    def files(self) -> list[Path]:
        """Return the parts of the manifest: its header, and the files that it lists."""
        return [self.folder / "manifest.json", *(self.folder / entry["path"] for entry in self.header["files"])]

    def prove(self) -> StoredManifest:
        """Return the manifest where every file has the bytes that were written; else SplitError. No row is read."""
        prove_stored(self.folder)
        return self


def asked_again(manifest: Manifest, gates: GateLimits, ignore: Any) -> Manifest:
    """Return the manifest under these gates and reasons to ignore a check, in place of its own: they move no row."""
    return manifest.altered(spec=manifest.spec.model_copy(update={"gates": gates, "ignore": dict(ignore)}))


def require_memory(decided: Manifest | Plan, memory: str | int | None = None, bytes_a_row: int = BYTES_A_ROW) -> None:
    """Raise NoRoomError where the rows of a manifest, joined, take more than ``memory`` (all that is free).

    Also of one that is only planned, so that nothing is written which nobody could look at.
    """
    keys = [decided.types.get(name) for name in decided.spec.key_names]
    hashed = 0 if keys in ([], ["int"]) else HASHED
    instead = ", or only decide, which takes less: evenfold.decide with to=FOLDER" if bytes_a_row == LOOKED_AT else ""
    require_rows(decided.n, bytes_a_row + hashed, decided.spec.name, memory, instead=instead)


def manifest_of(split: Any) -> Manifest:
    """Return the manifest that is asked for: itself, or of whatever names a split, with its rows still on disk."""
    return split if isinstance(split, Manifest) else StoredManifest(split)


def in_memory(split: Any, memory: str | int | None = None, bytes_a_row: int = BYTES_A_ROW) -> Manifest:
    """Return the manifest that is asked for with its rows, proved.

    Raises SplitError for a damaged file, and for too many rows. ``bytes_a_row``: what is then done with them takes so
    much, which ``memory`` must allow, and be free besides.
    """
    manifest = manifest_of(split)
    if memory is not None:
        require_memory(manifest, memory, bytes_a_row)
    require_memory(manifest, None, bytes_a_row)
    return manifest.rows if isinstance(manifest, StoredManifest) else manifest

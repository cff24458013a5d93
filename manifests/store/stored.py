"""A manifest in its folder: plain Parquet and JSON, written whole or not at all; its rows are read when asked for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import KINDS
from evenfold.manifests.spec import read_spec
from evenfold.manifests.tables.canonical import digest_column, whole
from evenfold.manifests.tables.read import not_written, require_rows
from evenfold.splitters import SplitError
from evenfold.splitters.errors import cause_of, reason_of
from evenfold.splitters.naming import installed
from evenfold.splitters.numbers import digest_json
from numpy.typing import NDArray

from .header import REMEDY, SCHEMA, WAITING, Header, folder_of, other_identity, prove_files, read_header, sha256
from .state import State

if TYPE_CHECKING:
    from evenfold.manifests.plan import Plan

BLOCK_ROWS = 1_000_000
STAGED = ".writing"  # what a version is called until it is whole, see ``owned``


def write_manifest(manifest: Manifest, root: str | Path, staged: Path | None = None) -> Path:
    """Write ``manifest`` as ``<root>/<name>/<version>/``, and return that folder; no reader sees half of it.

    In ``staged``, a folder beside it, it stays until ``settle`` renames it. Files of older generations are those of the
    version before. SplitError, and nothing is left, where the folder holds another decision, and for a full disk.
    """
    return written(manifest, root, staged).folder


def written(manifest: Manifest, root: str | Path, staged: Path | None = None) -> StoredManifest:
    """Write ``manifest`` as ``write_manifest`` does, and return it as it lies there; its header is not read again."""
    header, first = describe(manifest), 0
    final, newest = Path(root) / header["name"] / header["version"], manifest.generation
    before = final.with_name(f"{header['version'].partition('.')[0]}.{newest - 1}")
    if manifest.parent_split_id is not None:
        with suppress(SplitError):  # where the version before is gone or damaged, this one is whole
            older = read_header(before)
            prove_files(older, before)  # what is linked is read by everybody after
            if older["split_id"] == manifest.parent_split_id:  # it shares the files of older generations
                first = newest
                # In assignments-0003.parquet the four digits are the generation; files without are written anew.
                header["files"] = [each for each in older["files"] if each["path"][-12:-8].isdigit()]
    with aside((staged or final).parent, STAGED, final) as folder:  # where a reader never takes it for a version
        for path in [entry["path"] for entry in header["files"]]:
            try:
                os.link(before / path, folder / path)
            except OSError:
                shutil.copyfile(before / path, folder / path)
        tables = [each for n in range(first, newest + 1) for each in tables_of(manifest, n).items()]
        write_described(folder, header, tables)
        if staged is not None:
            return StoredManifest(folder.rename(staged), header)
        return StoredManifest(final, header if settle(folder, final) else None)


@contextmanager
def aside(home: Path, kind: str, of: Path) -> Iterator[Path]:
    """Give a folder of this process alone below ``home``, and clear it, and those of killed processes.

    A ``home`` that was made for it is removed where it stays empty. An error of the disk is a SplitError about ``of``.
    """
    created = [place for place in (home, *home.parents) if not place.exists()]
    folder = home / owned(kind)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise not_written(home, error) from None
    for stale in home.glob(f"{kind}-{os.uname().nodename}-*"):
        # From the right, for a machine's name may hold hyphens: "gpu-2" is another machine than "gpu".
        whose, process, _ = stale.name.rsplit("-", 2)
        if whose != f"{kind}-{os.uname().nodename}":
            continue
        try:
            with suppress(PermissionError):  # it is alive, and another person's
                os.kill(int(process), 0)
        except ProcessLookupError:
            shutil.rmtree(stale, ignore_errors=True)
    try:
        yield folder
    except OSError as error:
        raise not_written(of, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # others may have written there meanwhile
            for place in created:
                place.rmdir()


def settle(aside: Path, final: Path) -> bool:
    """Rename a whole folder to ``final``; return False where the same decision is there already.

    SplitError where another one is.
    """
    try:
        # No folder can be renamed to one that is not empty: the first to finish wins, and the second compares itself.
        os.rename(aside, final)
    except OSError as error:
        try:
            if not final.exists():
                raise not_written(final, error) from None
            held, new = read_header(final), read_header(aside)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if of := other_identity(held, new):
            was, now = (str(header.get(of))[:12] for header in (held, new))
            what = "another decision" if of == "split_id" else "the same folds, decided of other rows, targets or rules"
            raise SplitError(
                f"{final} already holds {what} ({of} {was}, not {now}); go on with it, or choose another name."
            ) from None
        return False
    return True


def owned(kind: str) -> str:
    """Return a name for a folder of this process alone."""
    return f"{kind}-{os.uname().nodename}-{os.getpid()}-{uuid4().hex[:8]}"


def tables_of(manifest: Manifest, generation: int) -> dict[str, pa.Table]:
    """Return what joined or changed with ``generation``, by file name; of draws, pairs and waiting rows the newest."""
    number, keys, born = f"{generation:04d}", manifest.keys, manifest.born
    rows = slice(None) if born is None else np.flatnonzero(born == generation)
    if keys is not None and born is not None:
        keys = keys.take(rows)
    columns = {} if keys is None else dict(zip(keys.column_names, keys.columns, strict=True))
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


def write_described(folder: Path, header: Header, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """Write tables by their names, a copy of the header in each, and ``manifest.json``, which lists them too."""
    files = header["files"]
    described = {name: value for name, value in header.items() if name != "files"}
    copy = {b"evenfold": json.dumps(described, ensure_ascii=False).encode()}
    for name, table in tables:
        path, fields = folder / name, table.schema
        # For any reader: integers as differences, text as what differs, codes by dictionary.
        encoding = {field.name: "DELTA_BINARY_PACKED" for field in fields if pa.types.is_int64(field.type)}
        encoding |= {field.name: "DELTA_BYTE_ARRAY" for field in fields if pa.types.is_large_string(field.type)}
        pq.write_table(
            table.replace_schema_metadata(copy), path, row_group_size=BLOCK_ROWS, compression="zstd",
            use_dictionary=[field.name for field in fields if field.name not in encoding],
            column_encoding=encoding or None,
        )  # fmt: skip
        blocks = [digest_table(table.slice(start, BLOCK_ROWS))[:16] for start in range(0, table.num_rows, BLOCK_ROWS)]
        size, n = path.stat().st_size, table.num_rows
        files.append({"path": name, "sha256": sha256(path), "bytes": size, "rows": n, "blocks": blocks})
    # A field a line, for a line per number would make five times as much.
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in header.items()]
    with (folder / "manifest.json").open("w", encoding="utf-8") as stream:
        stream.write("{\n " + ",\n ".join(lines) + "\n}\n")
        stream.flush()
        os.fsync(stream.fileno())


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


def describe(manifest: Manifest) -> Header:
    """Return the header of a manifest, as JSON: everything but its rows, and no file yet."""
    born, state, members = manifest.born, manifest.state, manifest.membership
    rows = [members.n] if born is None else np.bincount(born, minlength=manifest.generation + 1).tolist()
    shares = (state and state.shares) or {}
    return Header(
        schema=SCHEMA, name=manifest.spec.name, version=manifest.version, kind=members.kind,
        spec=manifest.spec.model_dump(mode="json", exclude_defaults=True), types=manifest.types,
        fingerprint=manifest.fingerprint, plan_id=manifest.plan_id, split_id=manifest.split_id,
        parent_split_id=manifest.parent_split_id,
        algorithm={**manifest.algorithm, "portable": manifest.splitter.portable},
        n_rows=members.n, n_splits=members.n_splits, counts=counts(manifest),
        parts=[{"name": name, "code": code, "share": shares.get(code)} for name, code in members.parts.items()],
        state=None if state is None else state.to_json(),
        generations=[{"n": number, "rows": count} for number, count in enumerate(rows)],
        versions={name: installed(name) for name in ("evenfold", "numpy", "scikit-learn", "pyarrow")}, files=[],
    )  # fmt: skip


def counts(manifest: Manifest) -> dict[str, int]:
    """Return the rows of each code in use (of the first repeat), in order; left empty above 1,000 folds."""
    codes, rows = np.unique(manifest.in_use.codes[:, 0], return_counts=True)
    return dict(zip(map(str, codes.tolist()), rows.tolist(), strict=True)) if codes.size <= 1_000 else {}


def read_manifest(folder: Any) -> Manifest:
    """Return the manifest in ``folder``, or of whatever names a split; SplitError for none, and for damaged files."""
    return StoredManifest(folder).rows


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

    def __init__(self, folder: Any, header: Header | None = None) -> None:
        """Take a folder, or whatever names a split; ``header`` is what was just written there, else it is read."""
        if header is None:
            folder = folder_of(folder)
            header = read_header(folder)
        names = ("types", "fingerprint", "plan_id", "version", "parent_split_id", "split_id", "n_splits", "kind")
        of = {name: value for name, value in header.items() if name in names}
        algorithm = {name: value for name, value in header["algorithm"].items() if name != "portable"}
        of |= {"spec": read_spec(header["spec"]), "algorithm": algorithm, "n": header["n_rows"]}
        self.__dict__.update(of | {"folder": folder, "header": header, "uri": str(folder)})

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
        self.prove()
        try:
            manifest = self._read()
            split_id = manifest.split_id
        except SplitError:
            raise
        except Exception as error:  # files of somebody else's, whose digests fit a header of theirs
            raise self._forged(error) from cause_of(error)
        if split_id != self.split_id:
            says = f"{self.folder} says it is {self.split_id[:12]} and its rows are {split_id[:12]}"
            raise SplitError(f"{says}; {REMEDY}")
        return manifest

    def _read(self) -> Manifest:
        files, key = [entry["path"] for entry in self.header["files"]], self.spec.key_names
        tables = {name: pq.read_table(self.folder / name).replace_schema_metadata(None) for name in sorted(files)}
        assignments, groups, status = (
            {int(name[-12:-8]): table for name, table in tables.items() if name.startswith(f"{kind}-")}
            for kind in ("assignments", "groups", "status")
        )
        rows, *later = assignments.values()
        born: NDArray[np.int16] | None = None
        if later:  # the rows of all generations, in key order
            born = np.repeat(np.arange(1 + len(later), dtype=np.int16), [table.num_rows for table in (rows, *later)])
            rows = pa.concat_tables([rows, *later]).combine_chunks()
            order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in key])
            rows, born = rows.take(order).combine_chunks(), born[order.to_numpy()]
        keys = rows.select(key) if key else None
        read = KINDS[self.kind].read
        return Manifest(
            spec=self.spec, types=self.types, fingerprint=self.fingerprint, plan_id=self.plan_id,
            algorithm=self.algorithm, state=State.of(self.header["state"]), keys=keys, born=born, changes=status,
            membership=read(rows, tables, splitter=self.splitter, keys=keys, n_splits=self.n_splits),
            group_table=pa.concat_tables(groups.values()).combine_chunks() if groups else None,
            version=self.version, parent_split_id=self.parent_split_id, uri=self.uri, waiting=tables.get(WAITING),
        )  # fmt: skip

    def prove(self) -> StoredManifest:
        """Return the manifest, no row read; SplitError where a file has other bytes, or the header another copy."""
        header, place = self.header, self.folder / "manifest.json"
        prove_files(header, self.folder)
        # Files of older generations hold the headers of their own versions.
        newest = max(entry["path"] for entry in header["files"] if entry["path"].startswith("assignments-"))
        try:
            held = (pq.read_metadata(self.folder / newest).metadata or {}).get(b"evenfold", b"{}")
            copy = {"files": header["files"]} | json.loads(held)
            odd = sorted(name for name in {*copy, *header} if copy.get(name) != header.get(name))
        except Exception as error:
            raise self._forged(error) from cause_of(error)
        if odd:
            fields = ", ".join(odd)[:200]
            raise SplitError(f"{place} does not fit the copy in {newest} (fields: {fields}); {REMEDY}")
        return self

    def _forged(self, error: Exception) -> SplitError:
        """Return what is said of files that are what their header says, and together no manifest."""
        what = f"{type(error).__name__}: {reason_of(error)[:200]}"
        return SplitError(f"{self.folder} holds no manifest ({what}); {REMEDY}")

    @property
    def files(self) -> list[Path]:
        """Return the parts of the manifest: its header, and the files that it lists."""
        return [self.folder / "manifest.json", *(self.folder / entry["path"] for entry in self.header["files"])]


def asked_again(manifest: Manifest, gates: GateLimits, ignore: Any) -> Manifest:
    """Return the manifest under these gates and reasons to ignore a check, in place of its own: they move no row."""
    return manifest.altered(spec=manifest.spec.model_copy(update={"gates": gates, "ignore": dict(ignore)}))


def require_memory(decided: Manifest | Plan, memory: str | int | None = None, bytes_a_row: int = BYTES_A_ROW) -> None:
    """Raise NoRoomError where the rows of a manifest, decided or planned, joined take more than ``memory``."""
    keys = [decided.types.get(name) for name in decided.spec.key_names]
    hashed = 0 if keys in ([], ["int"]) else HASHED
    instead = ", or only decide, which takes less: evenfold.decide with to=FOLDER" if bytes_a_row == LOOKED_AT else ""
    require_rows(decided.n, bytes_a_row + hashed, decided.spec.name, memory, instead=instead)


def is_intact(folder: Path) -> bool:
    """Return whether a manifest is as it was written."""
    try:
        StoredManifest(folder).prove()
    except SplitError:
        return False
    return True


def manifest_of(split: Any) -> Manifest:
    """Return the manifest that is asked for: itself, or of whatever names a split, with its rows still on disk."""
    return split if isinstance(split, Manifest) else StoredManifest(split)


def in_memory(split: Any, memory: str | int | None = None, bytes_a_row: int = BYTES_A_ROW) -> Manifest:
    """Return the manifest that is asked for with its rows, proved; SplitError for a damaged file, and for want of room.

    ``bytes_a_row``: what is done with them takes so much, which ``memory`` must allow, and be free besides.
    """
    manifest = manifest_of(split)
    for limit in dict.fromkeys((memory, None)):
        require_memory(manifest, limit, bytes_a_row)
    return manifest.rows if isinstance(manifest, StoredManifest) else manifest

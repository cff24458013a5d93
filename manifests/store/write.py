"""The manifest on disk: a folder of plain Parquet and JSON that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.tables.canonical import digest_column, whole
from evenfold.manifests.tables.read import not_written
from evenfold.splitters import SplitError
from evenfold.splitters.naming import installed
from evenfold.splitters.numbers import digest_json

from .header import SCHEMA, WAITING, Header, other_identity, prove_files, read_header, sha256

MOST_COUNTED_FOLDS = 1_000
BLOCK_ROWS = 1_000_000
STAGED = ".writing"  # what a version is called until it is whole, see ``owned``


def write_manifest(manifest: Manifest, root: str | Path, staged: Path | None = None) -> Path:
    """Write ``manifest`` as ``<root>/<name>/<version>/`` and return that folder; to ``staged``: see ``appear``.

    No reader sees half of it. Files of older generations are those of the version before. A folder with the same
    decision is left as it is; one with another decision, or the same folds by another plan, and a full disk are
    SplitErrors that leave nothing behind.
    """
    final = Path(root) / manifest.name / manifest.version
    return appear(final, lambda folder: _write_files(manifest, folder, final.parent), staged)


def appear(final: Path, fill: Callable[[Path], None], staged: Path | None = None) -> Path:
    """Let ``fill`` write files to a folder aside, and rename it to ``final``; return where they lie.

    In ``staged``, a folder beside ``final``, they stay until ``settle`` renames it. SplitError as of
    ``write_manifest``.
    """
    # Beside the versions, where a reader never takes it for one.
    with aside((staged or final).parent, STAGED, final) as folder:
        fill(folder)
        place = settle(folder, final) if staged is None else folder.rename(staged)
    return place


@contextmanager
def aside(home: Path, kind: str, of: Path) -> Iterator[Path]:
    """Give a folder of this process alone below ``home``, and clear it, and those of killed processes.

    What ``home`` was made for goes where nothing comes of it. An error of the disk is a SplitError about ``of``.
    """
    created = [place for place in (home, *home.parents) if not place.exists()]
    folder = home / owned(kind)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise not_written(home, error) from None
    clear_abandoned(home, kind)
    try:
        yield folder
    except OSError as error:
        raise not_written(of, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # others may have written there meanwhile
            for place in created:
                place.rmdir()


def settle(aside: Path, final: Path) -> Path:
    """Rename a folder that is whole to ``final``, and return that; SplitError where it holds another decision."""
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
    return final


def owned(kind: str) -> str:
    """Return a name for a folder of this process alone."""
    return f"{kind}-{os.uname().nodename}-{os.getpid()}-{uuid4().hex[:8]}"


def clear_abandoned(home: Path, kind: str) -> None:
    """Remove the folders of a kind whose processes, of this machine, are gone."""
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


def _write_files(manifest: Manifest, folder: Path, versions: Path) -> None:
    header, first = describe(manifest), 0
    before = versions / f"{manifest.version.partition('.')[0]}.{manifest.generation - 1}"
    with suppress(SplitError):  # without a version before, or one that is damaged, this one is whole
        older = read_header(before)
        prove_files(older, before)  # what is linked is read by everybody after
        if older["split_id"] == manifest.parent_split_id:  # it shares the files of older generations
            first = manifest.generation
            # In assignments-0003.parquet the four digits are the generation; files without are written anew.
            header["files"] = [each for each in older["files"] if each["path"][-12:-8].isdigit()]
    for path in [entry["path"] for entry in header["files"]]:
        try:
            os.link(before / path, folder / path)
        except OSError:
            shutil.copyfile(before / path, folder / path)
    tables = (each for n in range(first, manifest.generation + 1) for each in tables_of(manifest, n).items())
    write_described(folder, header, tables)


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
            table.replace_schema_metadata(copy),
            path,
            row_group_size=BLOCK_ROWS,
            compression="zstd",
            use_dictionary=[field.name for field in fields if field.name not in encoding],
            column_encoding=encoding or None,
        )
        blocks = [digest_table(table.slice(start, BLOCK_ROWS))[:16] for start in range(0, table.num_rows, BLOCK_ROWS)]
        size, n = path.stat().st_size, table.num_rows
        files.append({"path": name, "sha256": sha256(path), "bytes": size, "rows": n, "blocks": blocks})
    # A field a line, for a line per number would make five times as much.
    lines = (f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in header.items())
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
    born, state, parts = manifest.born, manifest.state, manifest.membership.parts
    rows = [manifest.n] if born is None else np.bincount(born, minlength=manifest.generation + 1).tolist()
    shares = (state and state.shares) or {}
    of_rows = {
        "schema": SCHEMA,
        "spec": manifest.spec.model_dump(mode="json", exclude_defaults=True),
        "algorithm": manifest.algorithm | {"portable": manifest.splitter.portable},
        "n_rows": manifest.n,
        "counts": counts(manifest),
        "parts": [{"name": name, "code": code, "share": shares.get(code)} for name, code in parts.items()],
        "state": None if state is None else state.to_json(),
        "generations": [{"n": number, "rows": count} for number, count in enumerate(rows)],
        "versions": {name: installed(name) for name in ("evenfold", "numpy", "scikit-learn", "pyarrow")},
        "files": [],
    }
    fields = Header.__annotations__  # in the order of the file
    return cast(Header, {name: of_rows[name] if name in of_rows else getattr(manifest, name) for name in fields})


def counts(manifest: Manifest) -> dict[str, int]:
    """Return the rows of each code in use (of the first repeat), in order; left empty above 1,000 folds."""
    codes, rows = (each.tolist() for each in np.unique(manifest.in_use.column(), return_counts=True))
    return dict(zip(map(str, codes), rows, strict=True)) if len(codes) <= MOST_COUNTED_FOLDS else {}

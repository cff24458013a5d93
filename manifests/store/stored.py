"""A manifest in its folder: what its header says at once, its rows when they are asked for, and the proof of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.fields import GateLimits, Strict
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import KINDS, MOST_MEASURED, Draws
from evenfold.manifests.spec import read_spec
from evenfold.manifests.tables.canonical import amount
from evenfold.manifests.tables.read import require_rows
from evenfold.splitters import SplitError
from evenfold.splitters.errors import cause_of, reason_of
from numpy.typing import NDArray

from .header import (
    REMEDY,
    VERSION,
    WAITING,
    Header,
    ListedFile,
    NoManifestError,
    folder_of,
    prove_file,
    prove_files,
    read_header,
    unlisted,
)
from .state import State
from .write import BLOCK_ROWS, describe, digest_table

if TYPE_CHECKING:
    from evenfold.manifests.plan import Plan


def read_manifest(folder: Any) -> Manifest:
    """Return the manifest in ``folder``, or of whatever names a split.

    Raises SplitError where there is none, for another schema, and for a damaged or missing file (by name).
    """
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

    def __init__(self, folder: Any) -> None:
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
        """Return the manifest where every file has the bytes that were written, and the header fits its copy.

        Else SplitError. No row is read, so it takes no memory.
        """
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


class Damage(Strict):
    """One thing that is not as it was written; ``block`` counts blocks of 1,000,000 rows from 0."""

    file: str
    message: str
    block: int | None = None
    first_row: int | None = None
    last_row: int | None = None


class Verification(Strict):
    """The result of verifying a folder: ``proved`` says in sentences what was made anew and agrees.

    ``intact``: nothing is damaged. ``not_proved``: what could not be made anew, and why.
    """

    folder: str
    intact: bool
    split_id: str | None = None
    proved: list[str] = []
    not_proved: list[str] = []
    damages: list[Damage] = []


def verify(folder: Any) -> Verification:
    """Return whether a manifest, in ``folder`` or of whatever names a split, is what was written, and where not.

    Every file and every block of 1,000,000 rows are compared with their digests, the header with its copy. Where they
    agree, split_id, plan_id, the counts, the parent's split_id and up to 200 draws are made anew from the rows, in
    memory. Of a damaged file the first block that differs or cannot be read is named with its rows. Raises SplitError
    where there is no manifest, or one of a newer schema. Reads every file up to five times.
    """
    path = folder_of(folder)
    results: dict[str, list[Any]] = {"proved": [], "not_proved": [], "damages": []}
    split_id = None
    try:
        header = read_header(path)
        results["damages"] += _damaged_files(path, header)
        if not results["damages"]:
            held = read_manifest(path)
            split_id = held.split_id
            for field, result in _proofs(held, header):
                results[field].append(result)
    except NoManifestError:
        raise
    except SplitError as error:
        results["damages"].append(Damage(file="manifest.json", message=str(error)))
    return Verification(folder=str(path), intact=not results["damages"], split_id=split_id, **results)


def _damaged_files(folder: Path, header: Header) -> Iterator[Damage]:
    """Yield the damage of each listed file, by its first damaged block, and the files that nobody listed."""
    for entry in header["files"]:
        file, name = folder / entry["path"], entry["path"]
        block = _first_damaged_block(file, entry) if file.is_file() else None
        try:
            prove_file(file, entry)
        except SplitError as error:
            yield block or Damage(file=name, message=str(error))
        else:
            if block or file.stat().st_size != entry["bytes"]:
                yield _differs(f"manifest.json does not say of {name} what its undamaged bytes hold")
    for name in unlisted(header, folder):
        yield Damage(file=name, message=f"{name} is not listed in manifest.json; remove it.")


def _first_damaged_block(file: Path, entry: ListedFile) -> Damage | None:
    def damage(first: int, stop: int, what: str, block: int | None = None) -> Damage:
        place = f"rows {first:,} to {stop - 1:,}"
        sentence = f"{file.name} {what}; {place} cannot be relied on"
        if block is not None:
            before = f", and the {amount(block, 'block')} before it as written" if block else ""
            sentence = f"{file.name}: block {block} ({place}) {what}{before}"
        message = f"{sentence}; {REMEDY}"
        return Damage(file=file.name, message=message, block=block, first_row=first, last_row=stop - 1)

    rows, blocks, size = entry["rows"], entry["blocks"], file.stat().st_size
    try:
        parquet = pq.ParquetFile(file)
    except Exception as error:  # a damaged file may raise anything
        held = f"{size:,} of {entry['bytes']:,}" if size != entry["bytes"] else f"its {size:,}"
        why = shorten(str(error), 120, placeholder="...")
        return damage(0, rows, f"has {held} bytes and cannot be opened ({why})")
    n, n_blocks = parquet.metadata.num_rows, parquet.metadata.num_row_groups
    if n != rows or (rows and n_blocks != len(blocks)):
        what = f"has {amount(n, 'row')} in {amount(n_blocks, 'block')}, not {rows:,} in {len(blocks):,}"
        return damage(0, rows, what)
    for block, wanted in enumerate(blocks):
        try:
            digest = digest_table(parquet.read_row_group(block))
            what = "" if digest[: len(wanted)] == wanted else "differs from what was written"
        except Exception as error:  # a damaged file may raise anything
            what = f"cannot be read ({shorten(str(error), 120, placeholder='...')})"
        if what:
            return damage(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows), what, block)
    return None


def _differs(message: str, file: str = "manifest.json") -> Damage:
    """Return the damage of a record that differs from what the rows give."""
    return Damage(file=file, message=f"{message}; {REMEDY}")


def _proofs(held: Manifest, header: Header) -> Iterator[tuple[str, str | Damage]]:
    """Yield what was made anew from the rows, by the field of a verification that it belongs to."""
    files, blocks = header["files"], sum(len(entry["blocks"]) for entry in header["files"])
    counted = f"{amount(len(files), 'file')} and {amount(blocks, 'block')}"
    yield "proved", f"{counted} have the digests recorded of them"
    yield "proved", f"the rows make split_id {held.split_id[:16]}"

    plan_id = held.spec.plan_id(held.types, held.fingerprint, held.algorithm, held.parent_split_id)
    result = f"specification, types and fingerprint make plan_id {plan_id[:16]}"
    same = plan_id == held.plan_id
    yield ("proved", result) if same else ("damages", _differs(f"{result}, not {held.plan_id[:16]}"))

    expected, place = json.loads(json.dumps(describe(held))), Path(str(held.uri)).absolute().name
    wrong = [name for name in expected if name not in ("versions", "files") and header.get(name) != expected[name]]
    if VERSION.fullmatch(place) and place != held.version and "version" not in wrong:
        wrong.append("version")
    if wrong:
        yield "damages", _differs(f"manifest.json differs in {', '.join(wrong)} from what its rows give")
    else:
        yield "proved", "names, counts and generations are those of the rows"

    drawn = isinstance(held.membership, Draws)
    if held.generation and held.parent_split_id is not None:
        if drawn and held.n_splits > MOST_MEASURED:
            yield "not_proved", f"the parent's split_id was not made anew: that takes {held.n_splits:,} draws."
        elif (before := held.at_generation(held.generation - 1).split_id) == held.parent_split_id:
            yield "proved", f"0 rows moved: the older rows make their parent's split_id {before[:16]}"
        else:
            yield "damages", _differs(f"the older rows make split_id {before[:16]}, not their parent's")
    if drawn:
        chosen = np.unique(np.linspace(0, held.n_splits - 1, min(held.n_splits, MOST_MEASURED)).astype(int)).tolist()
        try:
            for i in chosen:
                held.in_use.pair(i)
            yield "proved", f"{len(chosen):,} of {held.n_splits:,} draws come out as recorded"
        except SplitError as error:
            yield "damages", _differs(str(error), "resamples.parquet")

"""The proof that a manifest on disk is what was written: file by file, block by block, and by its identities."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from evenfold.manifests.fields import Strict
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import MOST_MEASURED, Draws
from evenfold.manifests.store.stored import read_manifest
from evenfold.manifests.tables.canonical import amount
from evenfold.splitters import SplitError

from .header import REMEDY, Header, ListedFile, NoManifestError, folder_of, read_header, sha256
from .write import BLOCK_ROWS, describe, digest_table

PARTS_OF_A_MANIFEST = ("assignments-*", "groups-*", "status-*", "resamples", "splits", "waiting")


class Damage(Strict):
    """One thing that is not as it was written; ``block`` counts blocks of 1,000,000 rows from 0."""

    file: str
    message: str
    block: int | None = None
    first_row: int | None = None
    last_row: int | None = None


Proven = str | Damage | None  # what was made anew, what differs, or nothing to prove


def damaged_files(folder: Path, entries: list[ListedFile]) -> Iterator[Damage]:
    """Yield the damage of each listed file, and the files that a reader would take for parts of the manifest."""
    for entry in entries:
        file, name, rows = folder / entry["path"], entry["path"], amount(int(entry["rows"]), "row")
        if not file.exists():
            yield _differs(f"{name} is missing, and its {rows} with it", name)
            continue
        same_bytes = sha256(file) == entry["sha256"]
        block = _first_damaged_block(file, entry)
        if same_bytes and (block or file.stat().st_size != entry["bytes"]):
            yield _differs(f"manifest.json does not say of {name} what its undamaged bytes hold")
        elif block:
            yield block
        elif not same_bytes:
            yield _differs(f"{name} has other bytes than were written, and all its rows", name)
    listed = {entry["path"] for entry in entries}
    for name in sorted(file.name for part in PARTS_OF_A_MANIFEST for file in folder.glob(f"{part}.parquet")):
        if name not in listed:
            yield Damage(file=name, message=f"{name} is not listed in manifest.json; remove it.")


def _first_damaged_block(file: Path, entry: ListedFile) -> Damage | None:
    rows, blocks = int(entry["rows"]), entry["blocks"]
    try:
        parquet = pq.ParquetFile(file)
    except Exception as error:  # a damaged file may raise anything
        size, wanted_size = file.stat().st_size, int(entry["bytes"])
        held_bytes = f"{size:,} of {wanted_size:,}" if size != wanted_size else f"its {size:,}"
        return _of_rows(file, 0, rows, f"has {held_bytes} bytes and cannot be opened ({_short(error)})")
    held = parquet.metadata.num_rows
    if held != rows or (rows and parquet.metadata.num_row_groups != len(blocks)):
        groups = amount(parquet.metadata.num_row_groups, "block")
        return _of_rows(file, 0, rows, f"has {amount(held, 'row')} in {groups}, not {rows:,} in {len(blocks):,}")
    for block, wanted in enumerate(blocks):
        try:
            digest = digest_table(parquet.read_row_group(block))
            damage = None if digest[: len(wanted)] == wanted else "differs from what was written"
        except Exception as error:  # a damaged file may raise anything
            damage = f"cannot be read ({_short(error)})"
        if damage:
            first, last = block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows)
            return _of_rows(file, first, last, damage, block)
    return None


def _of_rows(file: Path, first: int, stop: int, what: str, block: int | None = None) -> Damage:
    place = f"rows {first:,} to {stop - 1:,}"
    if block is not None:
        before = f", and the {amount(block, 'block')} before it as written" if block else ""
        sentence = f"{file.name}: block {block} ({place}) {what}{before}"
    else:
        sentence = f"{file.name} {what}; {place} cannot be relied on"
    return Damage(file=file.name, message=f"{sentence}; {REMEDY}", block=block, first_row=first, last_row=stop - 1)


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 120 else text[:117] + "..."


class Verification(Strict):
    """The result of verifying a folder.

    ``intact``: nothing is damaged. ``proved`` says in sentences what was made anew and agrees; ``not_proved`` what
    could not be, and why.
    """

    folder: str
    intact: bool
    split_id: str | None = None
    proved: list[str] = []
    not_proved: list[str] = []
    damages: list[Damage] = []


def verify(folder: Any) -> Verification:
    """Return whether a manifest, in ``folder`` or of whatever names a split, is what was written, and where not.

    Every file's bytes and every block of 1,000,000 rows are compared with their digests, and the header with its copy
    in the rows' file. Where they agree, split_id, plan_id, the counts, the parent's split_id and up to 200 draws are
    made anew from the rows, in memory. A damaged file is read as far as it can be: the first block that differs or
    cannot be read is named with its rows.
    Raises SplitError where there is no manifest, or one of a newer schema. Reads every file up to five times.
    """
    path = folder_of(folder)
    try:
        header = read_header(path)
        damages = list(damaged_files(path, header["files"]))
        if not damages:
            return _proved(path, header)
    except NoManifestError:
        raise
    except SplitError as error:
        damages = [Damage(file="manifest.json", message=str(error))]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"manifest.json is not the header of a manifest ({type(error).__name__}: {_short(error)})"
        damages = [_differs(why)]
    return Verification(folder=str(path), intact=False, damages=damages)


def _proved(path: Path, header: Header) -> Verification:
    held = read_manifest(path)
    blocks = sum(len(entry["blocks"]) for entry in header["files"])
    files = f"{amount(len(header['files']), 'file')} and {amount(blocks, 'block')} have the digests recorded of them"
    proved, not_proved, damages = [files, f"the rows make split_id {held.split_id[:16]}"], [], []
    for proof in PROOFS:
        try:
            proven = proof(held, header)
        except SplitError as error:
            not_proved.append(str(error))
            continue
        if isinstance(proven, Damage):
            damages.append(proven)
        elif proven:
            proved.append(proven)
    return Verification(
        folder=str(path),
        intact=not damages,
        split_id=held.split_id,
        proved=proved,
        not_proved=not_proved,
        damages=damages,
    )


def _differs(message: str, file: str = "manifest.json") -> Damage:
    """Return the damage of a record that differs from what the rows give."""
    return Damage(file=file, message=f"{message}; {REMEDY}")


def _plan_is_theirs(manifest: Manifest, header: Header) -> Proven:
    spec, parent = manifest.spec, manifest.parent_split_id
    expected = spec.plan_id(manifest.types, manifest.fingerprint, manifest.algorithm, parent)
    if expected != manifest.plan_id:
        return _differs(
            f"specification, types and fingerprint make plan_id {expected[:16]}, not {manifest.plan_id[:16]}"
        )
    return f"specification, types and fingerprint make plan_id {expected[:16]}"


def _header_follows(manifest: Manifest, header: Header) -> Proven:
    expected = json.loads(json.dumps(describe(manifest)))
    wrong = [name for name in expected if name != "versions" and header.get(name) != expected[name]]
    place = Path(str(manifest.uri)).absolute().name
    if re.fullmatch(r"\d+\.\d+", place) and place != manifest.version:
        wrong.append("version")
    if wrong:
        return _differs(f"manifest.json differs in {', '.join(dict.fromkeys(wrong))} from what its rows give")
    return "names, counts and generations are those of the rows"


def _nothing_moved(manifest: Manifest, header: Header) -> Proven:
    if not manifest.generation or manifest.parent_split_id is None:
        return None
    if isinstance(manifest.membership, Draws) and manifest.n_splits > MOST_MEASURED:
        raise SplitError(f"the parent's split_id was not made anew: that takes {manifest.n_splits:,} draws.")
    before = manifest.at_generation(manifest.generation - 1).split_id
    if before != manifest.parent_split_id:
        return _differs(f"the older rows make split_id {before[:16]}, not their parent's")
    return f"0 rows moved: the older rows make their parent's split_id {before[:16]}"


def _draws_come_out(manifest: Manifest, header: Header) -> Proven:
    if not isinstance(manifest.membership, Draws):
        return None
    chosen = np.unique(np.linspace(0, manifest.n_splits - 1, min(manifest.n_splits, MOST_MEASURED)).astype(int))
    for i in chosen.tolist():
        try:
            manifest.in_use.pair(i)
        except SplitError as error:
            return _differs(str(error), "resamples.parquet")
    return f"{len(chosen):,} of {manifest.n_splits:,} draws come out as recorded"


PROOFS = (_plan_is_theirs, _header_follows, _nothing_moved, _draws_come_out)

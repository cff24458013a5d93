"""The proof that a manifest on disk is what was written: file by file, block by block, and by its identities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from evenfold.manifests.fields import Strict
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import MOST_MEASURED, Draws
from evenfold.manifests.store.stored import read_manifest
from evenfold.manifests.tables.canonical import amount
from evenfold.splitters import SplitError

from .header import (
    REMEDY,
    VERSION,
    Header,
    ListedFile,
    NoManifestError,
    folder_of,
    prove_file,
    read_header,
    unlisted,
)
from .write import BLOCK_ROWS, describe, digest_table


class Damage(Strict):
    """One thing that is not as it was written; ``block`` counts blocks of 1,000,000 rows from 0."""

    file: str
    message: str
    block: int | None = None
    first_row: int | None = None
    last_row: int | None = None


def damaged_files(folder: Path, header: Header) -> Iterator[Damage]:
    """Yield the damage of each listed file, by its first damaged block, and the files that nobody listed."""
    for entry in header["files"]:
        file, name = folder / entry["path"], entry["path"]
        try:
            prove_file(file, entry)
        except SplitError as error:
            block = _first_damaged_block(file, entry) if file.is_file() else None
            yield block or Damage(file=name, message=str(error))
        else:
            if _first_damaged_block(file, entry) or file.stat().st_size != entry["bytes"]:
                yield _differs(f"manifest.json does not say of {name} what its undamaged bytes hold")
    for name in unlisted(header, folder):
        yield Damage(file=name, message=f"{name} is not listed in manifest.json; remove it.")


def _first_damaged_block(file: Path, entry: ListedFile) -> Damage | None:
    rows, blocks = int(entry["rows"]), entry["blocks"]
    try:
        parquet = pq.ParquetFile(file)
    except Exception as error:  # a damaged file may raise anything
        size, wanted_size = file.stat().st_size, int(entry["bytes"])
        held_bytes = f"{size:,} of {wanted_size:,}" if size != wanted_size else f"its {size:,}"
        return _of_rows(
            file,
            0,
            rows,
            f"has {held_bytes} bytes and cannot be opened ({shorten(str(error), 120, placeholder='...')})",
        )
    held = parquet.metadata.num_rows
    if held != rows or (rows and parquet.metadata.num_row_groups != len(blocks)):
        groups = amount(parquet.metadata.num_row_groups, "block")
        return _of_rows(file, 0, rows, f"has {amount(held, 'row')} in {groups}, not {rows:,} in {len(blocks):,}")
    for block, wanted in enumerate(blocks):
        try:
            digest = digest_table(parquet.read_row_group(block))
            damage = None if digest[: len(wanted)] == wanted else "differs from what was written"
        except Exception as error:  # a damaged file may raise anything
            damage = f"cannot be read ({shorten(str(error), 120, placeholder='...')})"
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
        damages = list(damaged_files(path, header))
        if not damages:
            return _proved(path, header)
    except NoManifestError:
        raise
    except SplitError as error:
        damages = [Damage(file="manifest.json", message=str(error))]
    return Verification(folder=str(path), intact=False, damages=damages)


def _proved(path: Path, header: Header) -> Verification:
    held = read_manifest(path)
    blocks = sum(len(entry["blocks"]) for entry in header["files"])
    files = f"{amount(len(header['files']), 'file')} and {amount(blocks, 'block')} have the digests recorded of them"
    by_field: dict[str, list[Any]] = {"damages": [], "not_proved": []}
    by_field["proved"] = [files, f"the rows make split_id {held.split_id[:16]}"]
    for field, sentence in _proofs(held, header):
        by_field[field].append(sentence)
    return Verification(folder=str(path), intact=not by_field["damages"], split_id=held.split_id, **by_field)


def _differs(message: str, file: str = "manifest.json") -> Damage:
    """Return the damage of a record that differs from what the rows give."""
    return Damage(file=file, message=f"{message}; {REMEDY}")


def _proofs(held: Manifest, header: Header) -> Iterator[tuple[str, str | Damage]]:
    """Yield what else was made anew from the rows, by the field of a verification that it belongs to."""
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
    if held.generation and held.parent_split_id is not None and drawn and held.n_splits > MOST_MEASURED:
        yield "not_proved", f"the parent's split_id was not made anew: that takes {held.n_splits:,} draws."
    elif held.generation and held.parent_split_id is not None:
        before = held.at_generation(held.generation - 1).split_id
        moved = before != held.parent_split_id
        damage = f"the older rows make split_id {before[:16]}, not their parent's"
        intact = f"0 rows moved: the older rows make their parent's split_id {before[:16]}"
        yield ("damages", _differs(damage)) if moved else ("proved", intact)

    if drawn:
        chosen = np.unique(np.linspace(0, held.n_splits - 1, min(held.n_splits, MOST_MEASURED)).astype(int)).tolist()
        try:
            for i in chosen:
                held.in_use.pair(i)
            yield "proved", f"{len(chosen):,} of {held.n_splits:,} draws come out as recorded"
        except SplitError as error:
            yield "damages", _differs(str(error), "resamples.parquet")

"""The proof of a manifest's folder: what is not as it was written, and what its rows make anew."""

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
from evenfold.manifests.tables.canonical import amount
from evenfold.splitters import SplitError

from .header import REMEDY, VERSION, Header, ListedFile, NoManifestError, folder_of, prove_file, read_header, unlisted
from .stored import BLOCK_ROWS, describe, digest_table, read_manifest


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

    @property
    def summary(self) -> str:
        """Say in a line each what is damaged, what was proved and what was not."""
        lines = [f"{self.folder}: {'intact' if self.intact else 'damaged'}"]
        lines += [f"  damaged  {damage.message}" for damage in self.damages]
        lines += [f"  proved   {each}" for each in self.proved]
        return "\n".join(lines + [f"  not proved: {each}" for each in self.not_proved])


def verify(folder: Any) -> Verification:
    """Return whether a manifest, in ``folder`` or of whatever names a split, is what was written, and where not.

    Every file and block are compared with their digests, the header with its copy; where they agree, split_id, plan_id,
    the counts, the parent's split_id and up to 200 draws are made anew from the rows, in memory. SplitError where there
    is no manifest, or one of a newer schema. Reads every file up to five times.
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
    for name, message in unlisted(header, folder).items():
        yield Damage(file=name, message=message)


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

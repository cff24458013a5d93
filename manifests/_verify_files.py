"""The files of a manifest against their digests: which is damaged, and from which row on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from ._identity import digest_table
from ._load import sha256
from ._storage import BLOCK_ROWS
from ._words import amount

RESTORE = "restore it from its MLflow run."
PARTS_OF_A_MANIFEST = ("assignments-*", "groups-*", "status-*", "resamples", "splits")


class Damage(BaseModel):
    """One thing that is not as it was written; ``block`` counts blocks of 1,000,000 rows from 0."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    message: str
    block: int | None = None
    first_row: int | None = None
    last_row: int | None = None


def damaged_files(folder: Path, entries: list[dict[str, Any]]) -> Iterator[Damage]:
    """Yield the damage of each listed file, and the files that a reader would take for parts of the manifest."""
    for entry in entries:
        found = _damage(folder / entry["path"], entry)
        if found:
            yield found
    listed = {entry["path"] for entry in entries}
    for name in sorted(file.name for part in PARTS_OF_A_MANIFEST for file in folder.glob(f"{part}.parquet")):
        if name not in listed:
            yield Damage(file=name, message=f"{name} is not listed in manifest.json; remove it.")


def _damage(file: Path, entry: dict[str, Any]) -> Damage | None:
    name, rows = entry["path"], int(entry["rows"])
    if not file.exists():
        return Damage(file=name, message=f"{name} is missing, and its {amount(rows, 'row')} with it; {RESTORE}")
    same_bytes = sha256(file) == entry["sha256"]
    found = _first_damaged_block(file, entry)
    if same_bytes and (found or file.stat().st_size != entry["bytes"]):
        said = f"manifest.json does not say of {name} what its undamaged bytes hold; {RESTORE}"
        return Damage(file="manifest.json", message=said)
    if found or same_bytes:
        return found
    return Damage(file=name, message=f"{name} has other bytes than were written, and all its rows; {RESTORE}")


def _first_damaged_block(file: Path, entry: dict[str, Any]) -> Damage | None:
    rows, blocks = int(entry["rows"]), entry["blocks"]
    try:
        parquet = pq.ParquetFile(file)
    except Exception as error:  # a damaged file may raise anything
        return _of_rows(file, 0, rows, _unreadable(file, entry, error))
    held = parquet.metadata.num_rows
    if held != rows or (rows and parquet.metadata.num_row_groups != len(blocks)):
        groups = amount(parquet.metadata.num_row_groups, "block")
        return _of_rows(file, 0, rows, f"has {amount(held, 'row')} in {groups}, not {rows:,} in {len(blocks):,}")
    for block, wanted in enumerate(blocks):
        found = _block_damage(parquet, block, wanted)
        if found:
            first, last = block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows)
            return _of_rows(file, first, last, found, block)
    return None


def _block_damage(parquet: pq.ParquetFile, block: int, wanted: str) -> str | None:
    try:
        found = digest_table(parquet.read_row_group(block))
    except Exception as error:  # a damaged file may raise anything
        return f"cannot be read ({_short(error)})"
    return None if found[: len(wanted)] == wanted else "differs from what was written"


def _of_rows(file: Path, first: int, stop: int, what: str, block: int | None = None) -> Damage:
    place = f"rows {first:,} to {stop - 1:,}"
    if block is not None:
        before = f", and the {amount(block, 'block')} before it as written" if block else ""
        said = f"{file.name}: block {block} ({place}) {what}{before}"
    else:
        said = f"{file.name} {what}; {place} cannot be relied on"
    return Damage(file=file.name, message=f"{said}; {RESTORE}", block=block, first_row=first, last_row=stop - 1)


def _unreadable(file: Path, entry: dict[str, Any], error: Exception) -> str:
    size, wanted = file.stat().st_size, int(entry["bytes"])
    if size != wanted:
        return f"has {size:,} of {wanted:,} bytes and cannot be opened ({_short(error)})"
    return f"has its {wanted:,} bytes and cannot be opened ({_short(error)})"


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 120 else text[:117] + "..."

"""The rows of a manifest on disk in key order, whatever generation they joined with: a batch at a time."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.identity import canonical_bytes, digest_json, digest_start, split_id
from evenfold.manifests.membership import EXCLUDED, Kind, fold_columns
from evenfold.manifests.tables.canonical import TYPE_NAMES, whole
from evenfold.manifests.tables.keys import positions_in, repeated
from numpy.typing import NDArray

from .header import Header

BATCH_ROWS = 1 << 17
# Columns that rows have while they are read: none of them can be a key's name.
STATUS, BORN, TURN = "status", "fold_born", "fold_turn"


def rows_in_order(folder: Path, files: list[str], key: list[str]) -> Iterator[pa.Table]:
    """Yield keys and assigned codes in key order, with ``fold_born``, the generation, and ``status``, 0 where in use.

    ``files`` are names of a manifest's files, of as many generations as are wanted. They are merged as they are read;
    the keys that changed their status are held in memory.
    """
    readers = [
        _read(folder / name, number)
        for number, name in enumerate(sorted(name for name in files if name.startswith("assignments-")))
    ]
    changed = _changes([folder / name for name in sorted(files) if name.startswith("status-")], key)
    for part in readers[0] if len(readers) == 1 else _merged(readers, key):
        status = np.zeros(part.num_rows, dtype=np.int8)
        if changed is not None and part.num_rows:
            # Both are in key order: the changes up to this batch's last key are its own.
            ends = bisect_right(range(changed.num_rows), _key_at(part, -1, key), key=lambda i: _key_at(changed, i, key))
            mine, changed = changed.slice(0, ends), changed.slice(ends)
            status[positions_in(part.select(key), mine.select(key))] = mine.column(STATUS).to_numpy()
        yield part.append_column(STATUS, pa.array(status))


def files_of(header: Header) -> list[str]:
    """Return the names of a manifest's files."""
    return [entry["path"] for entry in header["files"]]


def files_until(newest: int, names: list[str]) -> list[str]:
    """Return the names of files of generations up to ``newest``, and of what has none."""
    return [name for name in names if not name[-12:-8].isdigit() or int(name[-12:-8]) <= newest]


def codes_in_use(part: pa.Table) -> NDArray[np.int64]:
    """Return the codes (rows by repeats) of rows in order: -3 where they are deleted or quarantined."""
    codes = assigned_codes(part)
    codes[part.column(STATUS).to_numpy() != 0] = EXCLUDED
    return codes


def assigned_codes(part: pa.Table) -> NDArray[np.int64]:
    """Return the codes (rows by repeats) of rows in order, as they were assigned."""
    columns = [part.column(name).to_numpy() for name in fold_columns(part.column_names)]
    return np.column_stack(columns).astype(np.int64)


@dataclass
class Digested:
    """What rows of labels come to when they are read: their identity, and counts of what is in use."""

    split_id: str = ""
    n: int = 0
    most: int = -1
    repeats: int = 1
    counts: dict[int, int] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)


def digested(folder: Path, files: list[str], key: list[str], kind: Kind = "labels") -> Digested:
    """Return what the rows of a manifest of labels come to, in little memory: the split_id among it.

    Two readings where a key is text, whose lengths come before its bytes.
    """
    n = sum(pq.read_metadata(folder / name).num_rows for name in files if name.startswith("assignments-"))
    digested, codes, status = Digested(n=n), hashlib.sha256(), hashlib.sha256()
    hashes: dict[str, Any] = {}
    for part in rows_in_order(folder, files, key):
        _add_keys(hashes, part, key, 0, n)
        assigned = assigned_codes(part)
        digested.most, digested.repeats = max(digested.most, int(assigned.max(initial=-1))), assigned.shape[1]
        codes.update(np.ascontiguousarray(assigned, dtype="<i4").data)
        status.update(np.ascontiguousarray(part.column(STATUS).to_numpy(), dtype="<i4").data)
        count_in(digested.statuses, part.column(STATUS).to_numpy())
        count_in(digested.counts, codes_in_use(part)[:, 0])
        count_in(digested.generations, part.column(BORN).to_numpy())
    if any(
        pa.types.is_large_string(pq.read_schema(folder / name).field(column).type)
        for name in files[:1]
        for column in key
    ):
        for part in rows_in_order(folder, files, key):
            _add_keys(hashes, part, key, 1, n)
    idle = any(status for status in digested.statuses)
    keys = digest_json([hashes[name].hexdigest() for name in key] if key else {"positions": n})
    digested.split_id = split_id(kind, keys, codes.hexdigest(), [status.hexdigest()] if idle else None)
    return digested


def _add_keys(hashes: dict[str, Any], part: pa.Table, key: list[str], turn: int, n: int) -> None:
    for name in key:
        column = whole(part.column(name))
        if name not in hashes:
            hashes[name] = hashlib.sha256(digest_start(TYPE_NAMES[column.type], n))
        for content in list(canonical_bytes(column))[turn : turn + 1]:
            hashes[name].update(np.ascontiguousarray(content).data)


def count_in(counts: dict[int, int], values: NDArray[Any]) -> None:
    """Add how often each value occurs to ``counts``."""
    for value, rows in zip(*np.unique(values, return_counts=True), strict=True):
        counts[int(value)] = counts.get(int(value), 0) + int(rows)


def _read(path: Path, generation: int) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
            yield table.append_column(BORN, pa.array(np.full(table.num_rows, generation, dtype=np.int16)))


def _key_at(table: pa.Table, row: int, key: list[str]) -> tuple[Any, ...]:
    return tuple(table.column(name)[row].as_py() for name in key)


def _merged(readers: list[Iterator[pa.Table]], key: list[str]) -> Iterator[pa.Table]:
    """Yield the rows of sorted tables in one order; of each a batch or two is held."""
    ascending = [(name, "ascending") for name in key]
    held: pa.Table | None = None
    waiting = dict(enumerate(readers))
    while waiting:
        present = set() if held is None else set(pc.unique(held.column(BORN)).to_pylist())
        for generation in [number for number in waiting if number not in present]:
            more = next(waiting[generation], None)
            if more is None:
                del waiting[generation]
                continue
            held = more if held is None else pa.concat_tables([held, more])
        if held is None or not held.num_rows:
            continue
        held = held.take(pc.sort_indices(held, sort_keys=ascending)).combine_chunks()
        born = held.column(BORN).to_numpy()
        # Of a generation that goes on, nothing is known beyond its last row that is held.
        lasts = [int(np.flatnonzero(born == number)[-1]) for number in waiting if (born == number).any()]
        ready = min(lasts, default=held.num_rows - 1) + 1
        yield held.slice(0, ready)
        held = held.slice(ready)
    if held is not None and held.num_rows:
        yield held


def _changes(files: list[Path], key: list[str]) -> pa.Table | None:
    """Return the newest status of each key that ever changed it, in key order."""
    if not files:
        return None
    tables = [
        pq.read_table(file).replace_schema_metadata(None).append_column(TURN, pa.array([turn] * rows, pa.int32()))
        for turn, file in enumerate(files)
        for rows in [pq.read_metadata(file).num_rows]
    ]
    table = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in [*key, TURN]])
    table = table.take(order).combine_chunks()
    # Of equal keys the last has the latest turn.
    newest = np.append(~repeated(table.select(key)), True)
    return table.filter(pa.array(newest)).drop_columns([TURN]).combine_chunks()

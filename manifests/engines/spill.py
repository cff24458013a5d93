"""A table of any size in key order: its columns sorted by an engine, and mapped from files that have no name."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from evenfold.manifests.tables.addresses import Source
from evenfold.manifests.tables.canonical import ARROW_TYPES, InKeyOrder, canonical_table, whole
from evenfold.manifests.tables.read import data_files, is_parquet
from evenfold.splitters import SplitError

SHARD_ROWS = 1_000_000
# What engines compare alike everywhere: times and dates as the integers that they are.
STORED: dict[pa.DataType, pa.DataType] = {ARROW_TYPES["timestamp"]: pa.int64(), ARROW_TYPES["date"]: pa.int32()}


@dataclass(frozen=True)
class Canonical:
    """Makes columns of any part of a table canonical, in the types that engines compare alike.

    Text is compared by its UTF-8 bytes, so what stands here in Unicode's NFC form is in the same order in every engine.
    """

    names: tuple[str, ...]
    declared: tuple[tuple[str, str], ...]

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return the part's columns, as they are sorted."""
        table = canonical_table(part, self.names, dict(self.declared))
        columns = [whole(column) for column in table.columns]
        return pa.table([column.view(STORED.get(column.type, column.type)) for column in columns], self.names)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the canonical types of the columns of parts of ``schema``."""
        nothing = pa.table({field.name: pa.array([], field.type) for field in schema})
        return canonical_table(nothing, self.names, dict(self.declared)).schema


def mapped(parts: Iterator[pa.Table], schema: pa.Schema, room: Path) -> InKeyOrder:
    """Return the rows of ``parts``, which come in key order, as columns of one chunk each, on the disk of ``room``.

    The files have no name from the first byte on, so that a process that is killed leaves none of them.
    """
    columns = [_Column(field.type, room) for field in schema]
    for part in parts:
        for column, values in zip(columns, part.columns, strict=True):
            column.add(whole(values))
    return InKeyOrder(pa.table([column.array() for column in columns], schema=schema))


class _Column:
    """A canonical column that is written as its parts come, and read as one array that takes no memory."""

    def __init__(self, kind: pa.DataType, room: Path) -> None:
        self.kind, self.rows, self.bytes = kind, 0, 0
        self.is_text = pa.types.is_large_string(kind)
        self.values, self.ends = (tempfile.TemporaryFile(dir=room) for _ in range(2))  # noqa: SIM115 - mapped later
        self.missing: list[tuple[int, pa.Array]] = []

    def add(self, array: pa.Array) -> None:
        """Add the rows that follow."""
        if array.null_count:
            self.missing.append((self.rows, array.is_null().to_numpy(zero_copy_only=False)))
        self.rows += len(array)
        if not self.is_text:
            stored = array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array
            filled = stored.fill_null(0) if stored.null_count else stored
            self.values.write(np.ascontiguousarray(filled.to_numpy()).data)
            return
        text = array.cast(self.kind)
        ends = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset : text.offset + len(text) + 1]
        self.ends.write((ends[:-1] - ends[0] + self.bytes).data)
        if text.buffers()[2] is not None:
            self.values.write(memoryview(text.buffers()[2])[ends[0] : ends[-1]])
        self.bytes += int(ends[-1] - ends[0])

    def array(self) -> pa.Array:
        """Return the rows; their files go with it."""
        if self.is_text:
            self.ends.write(np.array([self.bytes], dtype=np.int64).data)
        boolean = pa.types.is_boolean(self.kind)
        data = [_buffer(self.ends), _buffer(self.values)] if self.is_text else [_buffer(self.values)]
        array = pa.Array.from_buffers(pa.int8() if boolean else self.kind, self.rows, [self._present(), *data])
        return array.cast(self.kind) if boolean else array

    def _present(self) -> pa.Buffer | None:
        if not self.missing:
            return None
        present = np.ones(self.rows, dtype=np.bool_)
        for start, missing in self.missing:
            present[start : start + missing.size] = ~missing
        return pa.py_buffer(np.packbits(present, bitorder="little"))


def _buffer(file: IO[bytes]) -> pa.Buffer:
    with file:
        file.flush()
        return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b"")


def read_stored(shard: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return columns of a shard that a cluster wrote; all of them by default."""
    if shard.suffix == ".parquet":  # as Spark writes it
        return pq.read_table(shard, columns=columns, memory_map=False, use_threads=False)
    with pa.OSFile(str(shard)) as file:
        table = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(use_threads=False)).read_all()
        return table if columns is None else table.select(columns)


def write_shard(table: pa.Table, path: Path) -> None:
    """Write a shard for ourselves, as it lies in memory: of Parquet, writing and reading cost several times as much."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as shard:
        shard.write_table(table)


def read_in_turn(shards: Sequence[Path], types: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
    """Yield shards in the types of their columns as they are sorted; each is gone when it is read."""
    for shard in shards:
        table = read_stored(shard, list(types))
        yield pa.table({name: whole(table.column(name)).cast(STORED.get(kind, kind)) for name, kind in types.items()})
        shard.unlink()


def require_key(key: list[str]) -> None:
    """Raise SplitError where no key is named."""
    if not key:
        raise SplitError("without a key a row is its position, and rows on a cluster have none; name a key column.")


def row_groups(source: Source, engine: str) -> list[tuple[str, int]]:
    """Return the row groups of the Parquet files of a source, (file, number) each: what workers read as a part."""
    if isinstance(source.native, str) and is_parquet(source.native):
        files = [str(file) for file in data_files(source.native)]
        return [(file, group) for file in files for group in range(pq.read_metadata(file).num_row_groups)]
    raise SplitError(f"{engine} reads Parquet files, and its own data frames; pass one of them.")


def read_part(part: Any, columns: list[str]) -> pa.Table:
    """Return columns of a part: a row group of a file, or a frame that an engine hands over."""
    if isinstance(part, tuple):
        file, group = part
        with pq.ParquetFile(file) as parquet:
            return parquet.read_row_group(group, columns=columns)
    return pa.Table.from_pandas(part[columns], preserve_index=False)

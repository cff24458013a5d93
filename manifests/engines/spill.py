"""A table of any size in key order: its columns sorted by an engine, and mapped from files that have no name.

Engines are never asked to print, cast or compare a value that is not canonical yet: they print doubles, normalise text
and order it differently.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

import joblib
import numpy as np
import pyarrow as pa
from evenfold.manifests.store.write import aside
from evenfold.manifests.tables.canonical import ARROW_TYPES, canonical_table, whole
from evenfold.manifests.tables.source import Source, no_rows, quoted
from evenfold.splitters import SplitError
from evenfold.splitters.errors import reason_of

SPILLED = ".spilling"  # what a folder is called for what is on disk for a while
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
        present = None
        if self.missing:
            mask = np.ones(self.rows, dtype=np.bool_)
            for start, missing in self.missing:
                mask[start : start + missing.size] = ~missing
            present = pa.py_buffer(np.packbits(mask, bitorder="little"))
        boolean = pa.types.is_boolean(self.kind)
        data = [_buffer(self.ends), _buffer(self.values)] if self.is_text else [_buffer(self.values)]
        array = pa.Array.from_buffers(pa.int8() if boolean else self.kind, self.rows, [present, *data])
        return array.cast(self.kind) if boolean else array


def _buffer(file: IO[bytes]) -> pa.Buffer:
    with file:
        file.flush()
        return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b"")


def spilled(
    source: Source, names: Sequence[str], types: Mapping[str, str], key: list[str], engine: str, memory: int, to: Path
) -> pa.Table:
    """Return columns of a table in key order: made canonical by ``engine``, sorted, and mapped from the disk of ``to``.

    At most ``memory`` bytes are held while they are sorted. The files have no name from the first byte on, so that a
    process that is killed leaves none of them. SplitError for a table without rows, and for one on a cluster without a
    key.
    """
    canonical = Canonical(tuple(names), tuple((name, kind) for name, kind in types.items() if name in names))
    with aside(to, SPILLED, to) as room:
        schema = canonical.schema(source.schema)
        columns = [_Column(field.type, room) for field in schema]
        for part in _in_order(_parts(source, canonical, key, engine, room), key, room, memory):
            for column, values in zip(columns, part.columns, strict=True):
                column.add(whole(values))
        table = pa.table([column.array() for column in columns], schema=schema)
    if not table.num_rows:
        raise no_rows("the table")
    return table


def _parts(source: Source, canonical: Canonical, key: list[str], engine: str, folder: Path) -> Iterator[pa.Table]:
    """Yield the canonical rows of a table, made here or by the workers of a cluster."""
    if engine == "duckdb":
        return (canonical(part) for part in source.batches(list(canonical.names)))
    if engine not in ("dask", "spark"):
        raise SplitError(f"there is no engine {engine!r}; choose auto, memory, duckdb, dask or spark.")
    if not key:
        raise SplitError("without a key a row is its position, and rows on a cluster have none; name a key column.")
    from .clusters import parts_by_dask, parts_by_spark

    return parts_by_dask(source, canonical) if engine == "dask" else parts_by_spark(source, canonical, folder)


def _in_order(parts: Iterator[pa.Table], key: list[str], folder: Path, memory: int) -> Iterator[pa.Table]:
    """Yield canonical rows sorted by ``key``, where one is named, out of core: their columns, by number.

    At most ``memory`` bytes are held, the rest lies in ``folder``.
    Raises what a part raises, and SplitError for a part whose columns have other types than those of the first.
    """
    import duckdb

    first = next(parts, None) if key else None
    if first is None:
        yield from parts
        return
    # By number, for DuckDB takes names that differ in case alone for one.
    numbered = pa.schema([field.with_name(str(i)) for i, field in enumerate(first.schema)])
    failed = list[Exception]()
    stream = pa.RecordBatchReader.from_batches(numbered, _batches(first, parts, numbered, failed))
    settings: dict[str, str | bool | int | float | list[str]] = {
        # What DuckDB holds besides its buffers, and our own batches, need as much again.
        "memory_limit": f"{max(memory // 2, 64 << 20) >> 20}MiB",
        "temp_directory": str(folder / "spilled"),
        "threads": joblib.cpu_count(),
        "arrow_large_buffer_size": True,
    }
    with closing(duckdb.connect(config=settings)) as database:
        database.execute("set enable_progress_bar = false")  # it would be among what a command prints
        database.register("canonical", stream)
        # A relation's reader keeps the order; a cursor's did not, twice, in DuckDB 2.0.0. The plan looks at it.
        order = ", ".join(quoted(str(first.column_names.index(name))) for name in key)
        try:
            reader = database.sql(f"select * from canonical order by {order}").to_arrow_reader(1 << 17)
            yield from (pa.Table.from_batches([batch]) for batch in reader)
        except duckdb.Error as error:
            if failed:
                raise failed[0] from None
            # DuckDB that spilled until the disk was full calls that a want of memory as well.
            if not isinstance(error, (duckdb.OutOfMemoryException, duckdb.IOException)):
                raise
            raise SplitError(
                f"{memory >> 20:,} MB of memory and the disk of {folder} are too little to sort the rows "
                f"({reason_of(error)[:200]}), and nothing was written; allow more, or free some of the disk."
            ) from None


def _batches(
    first: pa.Table, others: Iterator[pa.Table], numbered: pa.Schema, failed: list[Exception]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of tables in the columns of ``numbered``; what goes wrong is kept as it was."""
    try:
        for table in chain([first], others):
            for expected, field in zip(first.schema, table.schema, strict=True):
                if expected.type != field.type:
                    raise SplitError(
                        f"column {field.name!r} is {expected.type} in the first rows and {field.type} in later ones; "
                        "declare its type, or give all rows the same."
                    )
            yield from pa.table(table.columns, schema=numbered).to_batches()
    except Exception as error:
        failed.append(error)
        raise

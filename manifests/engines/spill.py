"""A table of any size in key order: its columns sorted by an engine, and mapped from files that have no name.

Engines are never asked to print, cast or compare a value that is not canonical yet: they print doubles, normalise text
and order it differently.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from evenfold.manifests.store.write import aside
from evenfold.manifests.tables.addresses import Source, quoted
from evenfold.manifests.tables.canonical import ARROW_TYPES, canonical_table, listed, whole
from evenfold.manifests.tables.read import data_files, is_parquet, no_rows
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import reason_of

SHARD_ROWS = 1_000_000
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


# Sorts a table by its key, where one is named, and yields it a part at a time; what it spills lies below a folder.
Engine = Callable[[Source, Canonical, list[str], Path], Iterator[pa.Table]]


def spilled(
    source: Source, names: Sequence[str], types: Mapping[str, str], key: list[str], engine: Engine, to: str | Path
) -> pa.Table:
    """Return columns of a table in key order, sorted by ``engine`` and mapped from the disk of the folder ``to``.

    The files have no name from the first byte on, so that a process that is killed leaves none of them. SplitError for
    a table without rows.
    """
    canonical = Canonical(tuple(names), tuple((name, kind) for name, kind in types.items() if name in names))
    with aside(Path(to), SPILLED, Path(to)) as room:
        schema = canonical.schema(source.schema)
        columns = [_Column(field.type, room) for field in schema]
        for part in engine(source, canonical, key, room):
            for column, values in zip(columns, part.columns, strict=True):
                column.add(whole(values))
        table = pa.table([column.array() for column in columns], schema=schema)
    if not table.num_rows:
        raise no_rows("the table")
    return table


def in_order(source: Source, canonical: Canonical, key: list[str], folder: Path, memory: int) -> Iterator[pa.Table]:
    """Yield the canonical rows of a table sorted by ``key``, where one is named, out of core.

    At most ``memory`` bytes are held, the rest lies in ``folder``. Of parts without rows the columns are yielded, once.
    Raises what a part raises, and SplitError for a part whose columns have other types than those of the first.
    """
    import duckdb

    parts = (canonical(part) for part in source.batches(list(canonical.names)))
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
            reader, rows = database.sql(f"select * from canonical order by {order}").to_arrow_reader(1 << 17), 0
            for batch in reader:
                columns = [column.cast(kind) for column, kind in zip(batch, first.schema.types, strict=True)]
                yield pa.table(columns, first.column_names)
                rows += batch.num_rows
            if not rows:
                yield first.slice(0, 0)
        except duckdb.Error as error:
            raise (failed[0] if failed else _unsorted(error, folder, memory)) from None


def _unsorted(error: Exception, folder: Path, memory: int) -> Exception:
    """Return what is said where DuckDB cannot sort rows: the error itself, where we do not know it."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException) and "offload" in str(error):
        # It spilled until the disk was full, and calls that a want of memory as well.
        return SplitError(
            f"the rows cannot be sorted in {folder}: its disk has no room left for what {memory >> 20:,} MB of "
            "memory do not hold; free some, or allow more memory. Nothing was written."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return SplitError(
            f"{memory >> 20:,} MB of memory are too little to sort the rows ({reason_of(error)[:200]}); allow more."
        )
    if isinstance(error, duckdb.IOException):
        return SplitError(f"the rows cannot be sorted in {folder} ({reason_of(error)[:200]}); nothing was written.")
    return error


def _batches(
    first: pa.Table, others: Iterator[pa.Table], numbered: pa.Schema, failed: list[Exception]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of tables in the columns of ``numbered``; what goes wrong is kept as it was."""
    try:
        for table in chain([first], others):
            require_alike(first.schema, table.schema)
            yield from pa.table(table.columns, schema=numbered).to_batches()
    except Exception as error:
        failed.append(error)
        raise


def require_alike(first: pa.Schema, schema: pa.Schema) -> None:
    """Raise SplitError where a later part of a table has other columns, or of other types, than the first."""
    if schema.names != first.names:
        odd = listed(sorted({*schema.names} ^ {*first.names}) or schema.names)
        raise SplitError(f"the first rows and later ones differ in columns ({odd}); give all the same.")
    for expected, field in zip(first, schema, strict=True):
        if expected.type != field.type:
            raise SplitError(
                f"column {field.name!r} is {expected.type} in the first rows and {field.type} in later ones; declare "
                "its type, or give all rows the same."
            )


def engine_named(name: str, source: Source, memory: int) -> Engine:
    """Return the engine called ``name``, or the one that a Dask or Spark DataFrame lies in where it is "auto"."""
    home = type(source.native).__module__.partition(".")[0]
    name = {"dask": "dask", "pyspark": "spark"}.get(home, "duckdb") if name == "auto" else name
    if name in ("dask", "spark"):
        from .clusters import ordered_by_dask, ordered_by_spark

        return ordered_by_dask if name == "dask" else ordered_by_spark
    if name == "duckdb":
        return partial(in_order, memory=memory)
    raise SplitError(f"there is no engine {name!r}; choose auto, memory, duckdb, dask or spark.")

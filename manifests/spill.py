"""A table of any size in key order: its columns sorted by an engine, and mapped from files that have no name.

Engines are never asked to print, cast or compare a value that is not canonical yet: they print doubles, normalise text
and order it differently. The workers of Dask and Spark run our Arrow functions on parts of a table, where these lie.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.tables.canonical import ARROW_TYPES, MAPPED, canonical_table, column_types, numbered, whole
from evenfold.manifests.tables.frames import quoted
from evenfold.manifests.tables.read import bytes_of_memory, require_rows
from evenfold.manifests.tables.source import ParquetFiles, Source
from evenfold.splitters import HashSplit, SplitError
from evenfold.splitters.errors import reason_of

from .store.stored import aside

if TYPE_CHECKING:
    from .plan import Plan

# What engines compare alike everywhere: times and dates as the integers that they are.
STORED: dict[pa.DataType, pa.DataType] = {ARROW_TYPES["timestamp"]: pa.int64(), ARROW_TYPES["date"]: pa.int32()}
AT_ONCE = 16  # parts that Dask's workers make and this process holds
SPARK_TYPES = {
    pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double", pa.bool_(): "boolean", pa.large_string(): "string",
}  # fmt: skip
Make = Callable[[pa.Table], pa.Table]


def sortable(part: pa.Table, names: Sequence[str], types: Mapping[str, str]) -> pa.Table:
    """Return columns of a part of a table, canonical, in types that engines compare alike: text by UTF-8 bytes."""
    columns = map(whole, canonical_table(part, names, types).columns)
    return pa.table([column.view(STORED.get(column.type, column.type)) for column in columns], list(names))


class _Column:
    """A canonical column that is written as its parts come, and read as one array that takes no memory."""

    def __init__(self, kind: pa.DataType, room: Path) -> None:
        self.kind, self.bytes, self.present = kind, 0, list[pa.Array]()
        self.is_text = pa.types.is_large_string(kind)
        n_files = 2 if self.is_text else 1  # of texts first where each ends
        self.files = [tempfile.TemporaryFile(dir=room) for _ in range(n_files)]  # noqa: SIM115 - mapped later

    def add(self, array: pa.Array) -> None:
        """Add the rows that follow."""
        self.present.append(array.is_valid())
        if not self.is_text:
            stored = array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array
            filled = stored.fill_null(0) if stored.null_count else stored
            self.files[0].write(np.ascontiguousarray(filled.to_numpy()).data)
            return
        text = array.cast(self.kind)
        ends = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset : text.offset + len(text) + 1]
        self.files[0].write((ends[:-1] - ends[0] + self.bytes).data)
        if text.buffers()[2] is not None:
            self.files[1].write(memoryview(text.buffers()[2])[ends[0] : ends[-1]])
        self.bytes += int(ends[-1] - ends[0])

    def array(self) -> pa.Array:
        """Return the rows; their files go with it."""
        if self.is_text:
            self.files[0].write(np.array([self.bytes], dtype=np.int64).data)
        present, buffers = whole(pa.chunked_array(self.present, pa.bool_())), list[pa.Buffer | None]([None])
        if present.false_count:
            buffers = [pa.py_buffer(np.packbits(present.to_numpy(zero_copy_only=False), bitorder="little"))]
        for file in self.files:
            with file:
                file.flush()
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b""
                buffers.append(content := pa.py_buffer(mapped))
                if isinstance(mapped, mmap.mmap):
                    MAPPED[content.address] = mapped
        stored = pa.int8() if pa.types.is_boolean(self.kind) else self.kind
        return pa.Array.from_buffers(stored, len(present), buffers).cast(self.kind)


def spilled(
    source: Source, names: list[str], types: Mapping[str, str], key: list[str], engine: str, memory: int, to: Path
) -> pa.Table:
    """Return columns of a table in key order: made canonical by ``engine``, sorted, and mapped from the disk of ``to``.

    At most ``memory`` bytes are held while they are sorted. The files have no name, so a killed process leaves none.
    """
    empty = canonical_table(source.schema.empty_table(), names, types)
    schema = pa.schema([(field.name, STORED.get(field.type, field.type)) for field in empty.schema])
    make = partial(sortable, names=names, types=column_types(empty))  # of all parts alike
    with aside(to, ".spilling", to) as room:
        if engine == "duckdb":
            parts: Iterator[pa.Table] = map(make, source.batches(names))
        elif engine not in ("dask", "spark"):
            raise SplitError(f"there is no engine {engine!r}; choose auto, memory, duckdb, dask or spark.")
        elif not key:
            raise SplitError("without a key a row is its position, and rows on a cluster have none; name a key column.")
        else:
            parts = _by_dask(source, make, names) if engine == "dask" else _by_spark(source, make, schema, room)
        columns = [_Column(kind, room) for kind in empty.schema.types]
        for part in _in_order(parts, schema, key, room, memory):
            for column, values in zip(columns, part.columns, strict=True):
                column.add(whole(values))
        return pa.table([column.array() for column in columns], schema=empty.schema)


def _in_order(
    parts: Iterator[pa.Table], schema: pa.Schema, key: list[str], folder: Path, memory: int
) -> Iterator[pa.Table]:
    """Yield canonical rows sorted by ``key``, if there is one, within ``memory``."""
    import duckdb

    if not key:
        yield from parts
        return
    # By number, for DuckDB takes names that differ in case alone for one.
    by_number = pa.schema([field.with_name(str(i)) for i, field in enumerate(schema)])
    failed = list[Exception]()
    stream = pa.RecordBatchReader.from_batches(by_number, _batches(parts, by_number, failed))
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
        order = ", ".join(quoted(str(schema.names.index(name))) for name in key)
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


def _batches(parts: Iterator[pa.Table], by_number: pa.Schema, failed: list[Exception]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of tables in the columns of ``by_number``; what goes wrong is kept as it was."""
    try:
        for part in parts:
            yield from pa.table(part.columns, schema=by_number).to_batches()
    except Exception as error:
        failed.append(error)
        raise


def _by_dask(source: Source, make: Make, names: list[str]) -> Iterator[pa.Table]:
    """Yield the canonical rows of each partition of a Dask DataFrame, or of each row group of Parquet files."""
    try:
        import dask.dataframe
    except ImportError as error:
        raise SplitError(f"engine='dask' needs Dask ({error}); install evenfold[dask].") from None
    if hasattr(source.native, "to_delayed"):
        delayed = [dask.delayed(_of_frame)(make, part) for part in source.native[names].to_delayed()]
    else:
        delayed = [dask.delayed(_of_file)(make, names, *group) for group in _row_groups(source, "Dask")]
    for start in range(0, len(delayed), AT_ONCE):
        yield from dask.compute(*delayed[start : start + AT_ONCE])


def _by_spark(source: Source, make: Make, schema: pa.Schema, folder: Path) -> Iterator[pa.Table]:
    """Yield the canonical rows that Spark's active session makes of a frame or Parquet files below ``folder``."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SplitError(f"engine='spark' needs PySpark ({error}); install evenfold[spark].") from None
    session: Any = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if "PYSPARK_PYTHON" not in os.environ and hasattr(session, "sparkContext"):
        session.sparkContext.pythonExec = sys.executable  # workers on this machine know our code
    if hasattr(source.native, "mapInArrow"):
        parts, names = source.native.select(*(f"`{name}`" for name in schema.names)), None
    else:  # read by Arrow, not by Spark, whose types know neither nanoseconds nor unsigned numbers
        groups, names = _row_groups(source, "Spark"), schema.names
        parts = session.createDataFrame(groups, "file string, part int").repartition(max(1, len(groups)))
    columns = ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in schema)
    rows, written = parts.mapInArrow(partial(_of_batches, make, names), columns), folder / "parts"
    rows.write.option("compression", "zstd").parquet(written.absolute().as_uri())
    for path in sorted(written.glob("part-*.parquet")):
        yield pq.read_table(path, memory_map=False).cast(schema)
        path.unlink()


def _row_groups(source: Source, engine: str) -> list[tuple[str, int]]:
    """Return the row groups of the Parquet files of a source, (file, number) each: what workers read as a part."""
    if not isinstance(source, ParquetFiles) or "://" in source.native:
        raise SplitError(f"{engine} reads Parquet files, and its own data frames; pass one of them.")
    return [(file, group) for file in source.files for group in range(pq.read_metadata(file).num_row_groups)]


def _of_frame(make: Make, frame: Any) -> pa.Table:
    return make(pa.Table.from_pandas(frame, preserve_index=False))


def _of_file(make: Make, names: list[str], file: str, group: int) -> pa.Table:
    with pq.ParquetFile(file) as parquet:
        return make(parquet.read_row_group(group, columns=names))


def _of_batches(make: Make, names: list[str] | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the used columns as Spark is given them; with ``names``, batches name files and their row groups."""
    for batch in batches:
        if names is None:
            tables = [make(pa.Table.from_batches([batch]))]
        else:
            tables = [_of_file(make, names, row["file"], row["part"]) for row in batch.to_pylist()]
        for table in tables:
            types = (pa.string() if pa.types.is_large_string(kind) else kind for kind in table.schema.types)
            yield from table.cast(pa.schema(zip(table.column_names, types, strict=True))).to_batches()


# Of the table of groups, with three classes, as it was seen at four million groups; more where groups are texts, of 14
# letters. And of each row its group and class.
BYTES_A_GROUP, OF_TEXT, BYTES_OF_ROWS = 225, 110, 18


def require_room_to_decide(plan: Plan, memory: str | int | None) -> None:
    """Raise SplitError where what a strategy is given of each row takes more than there is."""
    strategy, types = str(plan.spec.strategy), {field.name: field.type for field in plan.table.schema}
    if plan.packs_groups:
        group = str(plan.spec.columns.group)
        each, n = BYTES_A_GROUP + OF_TEXT * pa.types.is_large_string(types[group]), plan.n
        if n * (each + BYTES_OF_ROWS) > bytes_of_memory(memory, parts=1):  # to count groups is a pass over the rows
            n = len(numbered(plan.table.column(group))[1])
        require_rows(n, each + BYTES_OF_ROWS * plan.n // n, strategy, memory, "groups")
    elif not isinstance(plan.splitter, HashSplit) or plan.spec.holdout is not None:
        seen = [kind for name, kind in types.items() if plan.splitter.needs.key or name not in plan.key]
        bytes_a_row = 32 + sum(40 if pa.types.is_large_string(kind) else 8 for kind in seen)
        require_rows(plan.n, bytes_a_row, strategy, memory, instead=", or split by groups or HashSplit")

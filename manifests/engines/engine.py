"""What an engine has to be able to do, and the one that is always there: DuckDB in this process.

Engines are never asked to print, cast or compare a value that is not canonical yet: they print doubles, normalise text
and order it differently.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

import joblib
import pyarrow as pa
from evenfold.manifests.engines.spill import Canonical, mapped
from evenfold.manifests.store.write import clear_abandoned, owned
from evenfold.manifests.tables.addresses import Source, quoted
from evenfold.manifests.tables.canonical import InKeyOrder, listed
from evenfold.manifests.tables.read import no_rows, not_written
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import reason_of

# What DuckDB does not hold, or not exactly, or ends the process with, and what holds the same bytes.
SAME_BYTES = (
    (pa.types.is_float16, pa.int16()),
    (pa.types.is_duration, pa.int64()),
    (pa.types.is_decimal256, pa.binary(32)),
)
UNHELD = (pa.types.is_map, pa.types.is_interval, pa.types.is_union, pa.types.is_run_end_encoded)


def carried(schema: pa.Schema) -> pa.Schema:
    """Return the types in which DuckDB is given columns, which are called by their number.

    By number, for DuckDB takes names that differ in case alone for one. A dictionary is carried as its values, an
    extension as what stores it. Raises SplitError for a column that DuckDB cannot hold unchanged.
    """
    return pa.schema([(str(i), _carried(field)) for i, field in enumerate(schema)])


def _carried(field: pa.Field) -> pa.DataType:
    stored = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    alike = _same_bytes(stored)
    arrow = stored.value_type if pa.types.is_dictionary(stored) else stored
    if alike is None and any(_same_bytes(part) or any(odd(part) for odd in UNHELD) for part in _parts(arrow)):
        raise unsorted_column(field)
    return alike or arrow


def unsorted_column(field: pa.Field) -> SplitError:
    """Return the error of a column that cannot go through DuckDB and come back as it was."""
    return SplitError(
        f"column {field.name!r} is {field.type}, which cannot be sorted out of core; cast it to another type, leave it "
        "out, or allow more memory."
    )


def _same_bytes(arrow: pa.DataType) -> pa.DataType | None:
    return next((alike for is_type, alike in SAME_BYTES if is_type(arrow)), None)


def _parts(arrow: pa.DataType) -> list[pa.DataType]:
    """Return a type and those that it is made of."""
    return [arrow, *(part for i in range(arrow.num_fields) for part in _parts(arrow.field(i).type))]


def _out(column: pa.ChunkedArray, arrow: pa.DataType) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if _same_bytes(column.type) is None:
        return column if column.type == arrow else column.cast(arrow)
    return pa.chunked_array([chunk.view(arrow) for chunk in column.chunks], arrow)


def as_it_was(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Return what DuckDB gave back in its own types as rows of ``schema``: types, zones, names and metadata.

    An ordered dictionary stays its values: of parts with categories of their own no one order is known. Together they
    may have more than a narrow index counts, so it has 32 bits at least. Raises SplitError for a column that does not
    go back.
    """
    columns = [_back(*pair) for pair in zip(batch.columns, schema, strict=True)]
    fields = [field.with_type(column.type) for field, column in zip(schema, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields, schema.metadata))


def _back(column: pa.Array, field: pa.Field) -> pa.Array:
    arrow, alike = field.type, _same_bytes(field.type)
    try:
        if alike is not None:
            return column.cast(alike).view(arrow)
        if isinstance(arrow, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(arrow, _back(column, field.with_type(arrow.storage_type)))
        if not pa.types.is_dictionary(arrow):
            return column if column.type == arrow else column.cast(arrow)
        values = column.cast(arrow.value_type)
        index = arrow.index_type if arrow.index_type.bit_width >= 32 else pa.int32()
        wide = pa.dictionary(index, arrow.value_type)
        return values if arrow.ordered else values.dictionary_encode().cast(wide)
    except (pa.ArrowException, TypeError):
        raise unsorted_column(field) from None


EngineName = Literal["auto", "memory", "duckdb", "dask", "spark"]


# Sorts a table by its key, where one is named, and yields it a part at a time; what it spills lies below a folder.
Engine = Callable[[Source, Canonical, list[str], Path], Iterator[pa.Table]]


def spilled(
    source: Source, names: Sequence[str], types: Mapping[str, str], key: list[str], engine: Engine, to: str | Path
) -> InKeyOrder:
    """Return columns of a table in key order, sorted by ``engine`` and mapped from the disk of the folder ``to``.

    SplitError for a table without rows.
    """
    canonical = Canonical(tuple(names), tuple((name, kind) for name, kind in types.items() if name in names))
    with room_beside(to) as room:
        table = mapped(engine(source, canonical, key, room), canonical.schema(source.schema), room)
    if not table.table.num_rows:
        raise no_rows("the table")
    return table


def in_order(parts: Iterator[pa.Table], key: list[str], folder: Path, memory: int) -> Iterator[pa.Table]:
    """Yield the rows of ``parts`` sorted by ``key``, out of core: at most ``memory`` bytes, the rest in ``folder``.

    Columns keep their types and values; an ordered category becomes its value, others have an index of 32 bits or more.
    Of parts without rows the columns are yielded, once. Raises what a part raises, and SplitError for a part whose
    columns have other types than those of the first, and for a column that DuckDB cannot hold.
    """
    import duckdb

    first = next(parts, None)
    if first is None:
        return
    names, failed = first.column_names, list[Exception]()
    numbered = carried(first.schema)
    stream = pa.RecordBatchReader.from_batches(numbered, _batches(first, parts, numbered, failed))
    settings: dict[str, str | bool | int | float | list[str]] = {
        # What DuckDB holds besides its buffers, and our own batches, need as much again.
        "memory_limit": f"{max(memory // 2, 64 << 20) >> 20}MiB",
        "temp_directory": str(folder / "spilled"),
        "threads": joblib.cpu_count(),
    }
    with closing(duckdb.connect(config=settings)) as database:
        database.execute("set arrow_large_buffer_size = true")
        database.execute("set enable_progress_bar = false")  # it would be among what a command prints
        database.register("canonical", stream)
        # A relation's reader keeps the order; a cursor's did not, twice, in DuckDB 2.0.0. The plan looks at it.
        order = ", ".join(quoted(str(names.index(name))) for name in key)
        try:
            reader, rows = database.sql(f"select * from canonical order by {order}").to_arrow_reader(1 << 17), 0
            for batch in reader:
                yield as_it_was(batch, first.schema)
                rows += batch.num_rows
            if not rows:
                yield as_it_was(pa.RecordBatch.from_pylist([], reader.schema), first.schema)
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
            _require_alike(first.schema, table.schema)
            columns = [_out(*pair) for pair in zip(table.columns, numbered.types, strict=True)]
            yield from pa.table(columns, schema=numbered).to_batches()
    except Exception as error:
        failed.append(error)
        raise


def _require_alike(first: pa.Schema, schema: pa.Schema) -> None:
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
    if name == "dask":
        from .on_dask import ordered

        return ordered
    if name == "spark":
        from .on_spark import ordered as ordered_by_spark

        return ordered_by_spark
    if name == "duckdb":
        return partial(_in_this_process, memory=memory)
    raise SplitError(f"there is no engine {name!r}; choose auto, memory, duckdb, dask or spark.")


def _in_this_process(
    source: Source, canonical: Canonical, key: list[str], folder: Path, memory: int
) -> Iterator[pa.Table]:
    parts = (canonical(part) for part in source.batches(list(canonical.names)))
    return in_order(parts, key, folder, memory) if key else parts


@contextmanager
def room_beside(root: str | Path) -> Iterator[Path]:
    """Give a folder for what is spilled, on the disk of the results, and clear it; also those of killed processes."""
    home = Path(root)
    # They go again where nothing comes of it.
    created = [place for place in (home, *home.parents) if not place.exists()]
    folder = home / owned(".spilling")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise not_written(root, error) from None
    clear_abandoned(home, ".spilling")
    try:
        yield folder
    except OSError as error:
        raise not_written(folder, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for place in created:
            if not place.exists() or any(place.iterdir()):
                break
            place.rmdir()

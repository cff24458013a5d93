"""The one noun for data: a table that can be read more than once. Parquet, frames, and what lies in other engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
from evenfold.manifests.tables.canonical import INDEX, listed, one_schema, require_columns
from evenfold.splitters import SplitError
from evenfold.splitters.errors import reason_of, without_secrets
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

AT_ONCE = 16  # objects of which a store is asked for the columns: it is waiting, no work
BATCH_ROWS = 1 << 17
NUMBER_BYTES, TEXT_BYTES = 8, 24  # of a value in memory; of texts, a short one and its place


Read = Callable[[list[str], int], Iterable[pa.Table]]


class Source:
    """A table that can be read more than once, in batches where it lies, by ``read(columns, rows)``.

    ``count`` returns its rows, where it can be asked; ``native`` is what an engine may read better than by batches.
    """

    _count: Callable[[], int] | None = None

    def __init__(self, native: Any, schema: pa.Schema, read: Read, count: Callable[[], int] | None = None) -> None:
        self.native, self._types, self._batches, self._count = native, schema, read, count

    @cached_property
    def schema(self) -> pa.Schema:
        """The types of the columns; what pandas calls an index that has no name is no column."""
        return pa.schema([field for field in self._types if not INDEX.fullmatch(field.name)])

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows; None where only a reader to the end would know."""
        return None if self._count is None else self._count()

    def batches(self, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield ``columns`` as tables of at most about ``rows`` rows, in the same order each time."""
        require_columns(columns, self.names)
        return iter(self._batches(columns, rows))

    @property
    def about_rows(self) -> int | None:
        """About how many rows there are; None where nobody can guess."""
        return self.n_rows

    def settled(self) -> Source:
        """Return the table in the types that all of its values show, and not the first of them alone."""
        return self

    def table(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return ``columns``, all by default; SplitError for absent ones, and for a table without rows."""
        names = self.names if columns is None else list(dict.fromkeys(columns))
        require_columns(names, self.names)
        table = self._read(names, by_name=columns is not None)
        if not table.num_rows:
            kind = type(getattr(self.native, "native", self.native)).__name__
            raise no_rows(str(self.native) if isinstance(self.native, (str, Path)) else f"the {kind}")
        return table

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        parts = list(self.batches(names))
        return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})

    def blocks(self, names: list[str], rows: NDArray[np.int64]) -> Iterator[tuple[slice, pa.Table, NDArray[np.int64]]]:
        """Yield where each batch lies, the batch, and the places in it of those ascending ``rows`` that it holds."""
        start = 0
        for block in self.batches(names):
            here = slice(start, start := start + block.num_rows)
            inside = rows[np.searchsorted(rows, here.start) : np.searchsorted(rows, here.stop)]
            yield here, block, inside - here.start

    def bytes_a_row(self, columns: Iterable[str]) -> int:
        """Return about how many bytes a row of ``columns`` takes in memory."""
        names = set(columns)  # of one that is absent, or there twice, whoever reads it says so
        types = [field.type for field in self.schema if field.name in names]
        fixed = sum(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in types)
        return int(fixed * NUMBER_BYTES + (len(types) - fixed) * TEXT_BYTES)


class ParquetFiles(Source):
    """Parquet files of this machine, or objects of a file system, as one table; SplitError where columns differ."""

    def __init__(self, native: str, names: Sequence[str], files: Any = None) -> None:
        self.files, self._here = list(names), files is None
        with readable(native):
            data = pyarrow.dataset.dataset(self.files, schema=pa.schema([]), format="parquet", filesystem=files)
            parts = list(data.get_fragments())
            with ThreadPoolExecutor(AT_ONCE) as readers:
                schemas = list(readers.map(lambda part: part.physical_schema, parts))  # each reads its footer once
            schema = one_schema(names, schemas)
            self._data = pyarrow.dataset.FileSystemDataset(parts, schema, data.format, data.filesystem)
        # From the footers: count_rows starts threads for them.
        super().__init__(native, schema, self._of_each, lambda: int(sum(part.metadata.num_rows for part in parts)))

    def _of_each(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        with readable(self.native):
            read = self._data.to_batches(columns=columns, batch_size=rows, batch_readahead=2, fragment_readahead=1)
            yield from (pa.Table.from_batches([batch]) for batch in read if batch.num_rows)

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        if not self._here:  # threads that read through Python may outlive it
            return super()._read(names, by_name)
        with readable(self.native):
            return self._data.to_table(columns=names)


@contextmanager
def readable(place: str, kind: str = "Parquet") -> Iterator[None]:
    """Raise SplitError where what is read inside the block is damaged, of other types than one another, or absent."""
    try:
        yield
    except SplitError:
        raise
    except (pa.ArrowException, ValueError, IndexError, OSError) as error:
        reason = without_secrets(reason_of(error))  # aiohttp's names the parameters that fsspec was given
        raise SplitError(f"{place} cannot be read as {kind} ({reason}); correct or replace it.") from None


def slices(table: pa.Table, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """Yield a table in parts of at most ``rows`` rows."""
    return (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def no_rows(table: str) -> SplitError:
    """Return the error of a table without rows."""
    return SplitError(f"{table} has 0 rows; 1 is needed at least, and 2 to split.")


# What a column of a frame may hold and Arrow has no one type for, and what to say of it where it was named.
ODD = {
    OverflowError: "holds whole numbers beyond 64 bits; make them text, as with .astype(str)",
    UnicodeEncodeError: "holds text that is no Unicode, half of a pair of surrogates; correct it, as with "
    ".str.encode('utf-8', 'replace').str.decode('utf-8')",
}
NO_ONE_TYPE = b"evenfold.several_types"  # of a column that was read as text: the sentence that says why
UNLIKE_ARROW = (*ODD, pa.ArrowException, TypeError, NarwhalsError)


class Frame(Source):
    """A frame in memory; a pandas index is a column where it has a name."""

    def __init__(self, native: Any) -> None:
        self.native = native
        frame = pa.Table.from_batches([native]) if isinstance(native, pa.RecordBatch) else native
        if isinstance(frame, pd.DataFrame):
            levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
            frame = _known_to_arrow(frame.reset_index(level=levels).reset_index(drop=True))
        try:
            self._frame: Any = frame if isinstance(frame, pa.Table) else nw.from_native(frame, eager_only=True)
            self._names = list(map(str, frame.column_names if isinstance(frame, pa.Table) else self._frame.columns))
        except (TypeError, NarwhalsError) as error:
            names = [str(name) for name in native.columns] if isinstance(error, NarwhalsError) else []
            require_columns(names, names)  # says which is there twice
            lazy = "its .collect(), " if hasattr(native, "collect") else ""
            raise SplitError(
                f"{type(native).__name__} is not a table; pass {lazy}a file, or a pandas, polars or pyarrow frame."
            ) from None

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name in self._names if not INDEX.fullmatch(name)]

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows."""
        return len(self._frame)

    @cached_property
    def schema(self) -> pa.Schema:
        """The types of the columns."""
        return self.settled().table().schema

    def settled(self) -> Source:
        """Return the frame, in Arrow from now on, so that nothing is made of it twice."""
        if not isinstance(self._frame, pa.Table):
            self._frame = self.table()
        return self

    def batches(self, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield ``columns`` in parts."""
        return slices(self.table(columns), rows)

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        if isinstance(self._frame, pa.Table):
            return self._frame.select(names)
        places = [self._names.index(name) for name in names]  # pandas may have names that are not text
        try:
            return _in_arrow(self._frame[:, places])
        except UNLIKE_ARROW:
            pairs = zip(names, places, strict=True)
            columns = [_alone(self._frame[:, [place]], name, as_text=not by_name) for name, place in pairs]
            return pa.table([values for _, values in columns], schema=pa.schema([field for field, _ in columns]))


def _in_arrow(columns: nw.DataFrame[Any]) -> pa.Table:
    """Return columns of a frame; ArrowTypeError where one mixes times with and without a zone, which Arrow takes."""
    table = columns.to_arrow()
    for column, values in zip(columns.iter_columns(), table.columns, strict=True):
        times = column.drop_nulls() if column.dtype == nw.Object and pa.types.is_timestamp(values.type) else ()
        if len({time.tzinfo is None for time in times}) > 1:
            raise pa.ArrowTypeError("times with and without a zone")
    return table


def _alone(column: nw.DataFrame[Any], name: str, *, as_text: bool) -> tuple[pa.Field, pa.ChunkedArray]:
    """Return a column of a frame; as the text of its values where they have no one type and nobody named it."""
    values = column[:, 0]
    try:
        array = _in_arrow(column).column(0)
        return pa.field(name, array.type), array
    except UNLIKE_ARROW as error:
        kinds = {(type(value).__name__, getattr(value, "tzinfo", None) is not None) for value in values.drop_nulls()}
        types = listed(f"{kind} with a zone" if zone else kind for kind, zone in sorted(kinds))
        why = f"holds values that Arrow has no one type for ({types}); give it one, as by .astype(str), to_datetime"
        why = next((text for kind, text in ODD.items() if isinstance(error, kind)), why)
        if not as_text:
            raise SplitError(f"column {name!r} {why}.") from None
    texts = [
        None if empty else str(value).encode(errors="backslashreplace").decode()
        for value, empty in zip(values, values.is_null(), strict=True)
    ]
    metadata = {NO_ONE_TYPE: f"column {name!r} {why}."} if len(kinds) > 1 else None  # texts of one are told apart
    return pa.field(name, pa.large_string(), metadata=metadata), pa.chunked_array([pa.array(texts, pa.large_string())])


def _known_to_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with intervals of pandas' cut and qcut as ordered categories of text, and sparse columns dense."""
    plain = frame.copy(deep=False)
    for i, kind in enumerate(frame.dtypes):
        if isinstance(kind, pd.SparseDtype):
            plain.isetitem(i, np.asarray(frame.iloc[:, i]))
        of = kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind
        if isinstance(of, pd.IntervalDtype):
            column = frame.iloc[:, i].astype("category")
            texts = column.cat.categories.astype(str).tolist()
            plain.isetitem(i, column.cat.rename_categories(texts).array)
    return plain


def of_relation(relation: Any) -> Source:
    """Return a DuckDB relation as a table that is read in batches."""

    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        chosen = relation.project(", ".join(quoted(name) for name in columns))
        return (pa.Table.from_batches([batch]) for batch in chosen.to_arrow_reader(rows))

    schema = relation.limit(0).to_arrow_table().schema
    return Source(relation, schema, read, lambda: int(relation.aggregate("count(*)").fetchall()[0][0]))


def _of_polars(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        parts = frame.select(columns).collect_batches(chunk_size=rows, maintain_order=True)
        return (part.to_arrow() for part in parts)

    return Source(frame, frame.limit(0).collect().to_arrow().schema, read)


def _of_dask(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        parts = (pa.Table.from_pandas(part.compute(), preserve_index=False) for part in frame[columns].partitions)
        return (piece for part in parts for piece in slices(part, rows))

    return Source(frame, pa.Schema.from_pandas(frame._meta, preserve_index=False), read)


def _of_spark(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        # All of the columns at once: asked for only to see whether an integer target is a number or classes.
        return slices(frame.select(*(f"`{name}`" for name in columns)).toArrow(), rows)

    return Source(frame, frame.limit(0).toArrow().schema, read)


# A DuckDB relation, a lazy frame of polars, a frame of Dask or Spark: by the method that nothing else has.
STREAMS: dict[str, Callable[[Any], Source]] = {
    "to_arrow_reader": of_relation,
    "collect_batches": _of_polars,
    "map_partitions": _of_dask,
    "mapInArrow": _of_spark,
}


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'

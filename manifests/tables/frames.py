"""Frames of other libraries as tables: in memory through narwhals, lazy ones and those of clusters in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import reason_of
from narwhals.exceptions import NarwhalsError

from .canonical import INDEX, listed, require_columns
from .source import BATCH_ROWS, Source, Stream, slices

# What a column of a frame may hold and Arrow has no one type for, and what to say of it where it was named.
ODD = {
    OverflowError: "holds whole numbers beyond 64 bits; make them text, as with .astype(str)",
    UnicodeEncodeError: "holds text that is no Unicode, half of a pair of surrogates; correct it, as with "
    ".str.encode('utf-8', 'replace').str.decode('utf-8')",
}
SEVERAL_TYPES = b"evenfold.several_types"  # of a column that was read as text: the sentence that says why
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
        except TypeError:
            lazy = "its .collect(), " if hasattr(native, "collect") else ""
            raise SplitError(
                f"{type(native).__name__} is not a table; pass {lazy}a file, or a pandas, polars or pyarrow frame."
            ) from None
        except NarwhalsError as error:
            names = [str(name) for name in getattr(native, "columns", [])]
            require_columns(names, names)  # says which is there twice
            raise SplitError(
                f"the columns of the frame cannot be told apart ({' '.join(str(error).split())})."
            ) from None

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name in self._names if not INDEX.fullmatch(name)]

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows."""
        return len(self._frame)

    def _schema(self) -> pa.Schema:
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


def _kind_of_value(value: Any) -> str:
    if not isinstance(value, datetime):
        return type(value).__name__
    return f"{datetime.__name__} {'with' if value.tzinfo else 'without'} a time zone"


def _alone(column: nw.DataFrame[Any], name: str, *, as_text: bool) -> tuple[pa.Field, pa.ChunkedArray]:
    """Return a column of a frame; as the text of its values where they have no one type and nobody named it."""
    try:
        values = _in_arrow(column).column(0)
        return pa.field(name, values.type), values
    except UNLIKE_ARROW as error:
        kinds = Counter(map(_kind_of_value, column[:, 0].drop_nulls())).most_common()
        types = listed(f"{n:,} {kind}" for kind, n in kinds)
        why = f"holds values of several types ({types}); give it one, by .astype(str) or pandas.to_datetime"
        if len(kinds) == 1:
            why = f"cannot be read ({reason_of(error)}); give it one plain type"
        why = next((text for kind, text in ODD.items() if isinstance(error, kind)), why)
        if not as_text:
            raise SplitError(f"column {name!r} {why}.") from None
    values = column[:, 0]
    texts = [
        None if empty else str(value).encode(errors="backslashreplace").decode()
        for value, empty in zip(values, values.is_null(), strict=True)
    ]
    metadata = {SEVERAL_TYPES: f"column {name!r} {why}."} if len(kinds) > 1 else None
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


def stream_of(data: Any) -> Source | None:
    """Return a DuckDB relation, a lazy frame of polars or a frame of Dask or Spark as a table; None of all else."""
    verb, wrap = _STREAMS.get(type(data).__module__.partition(".")[0].lstrip("_"), ("", None))
    return wrap(data) if wrap is not None and hasattr(data, verb) else None


def of_relation(relation: Any) -> Source:
    """Return a DuckDB relation as a table that is read in batches."""

    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        chosen = relation.project(", ".join(quoted(name) for name in columns))
        return (pa.Table.from_batches([batch]) for batch in chosen.to_arrow_reader(rows))

    schema = relation.limit(0).to_arrow_table().schema
    return Stream(relation, schema, read, lambda: int(relation.aggregate("count(*)").fetchall()[0][0]))


def _of_polars(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        parts = frame.select(columns).collect_batches(chunk_size=rows, maintain_order=True)
        return (part.to_arrow() for part in parts)

    return Stream(frame, frame.limit(0).collect().to_arrow().schema, read)


def _of_dask(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        parts = (pa.Table.from_pandas(part.compute(), preserve_index=False) for part in frame[columns].partitions)
        return (piece for part in parts for piece in slices(part, rows))

    return Stream(frame, pa.Schema.from_pandas(frame._meta, preserve_index=False), read)


def _of_spark(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        # All of the columns at once: asked for only to see whether an integer target is a number or classes.
        return slices(frame.select(*(f"`{name}`" for name in columns)).toArrow(), rows)

    return Stream(frame, frame.limit(0).toArrow().schema, read)


_STREAMS: dict[str, tuple[str, Callable[[Any], Source]]] = {
    "duckdb": ("to_arrow_reader", of_relation),
    "polars": ("collect_batches", _of_polars),
    "dask": ("map_partitions", _of_dask),
    "pyspark": ("mapInArrow", _of_spark),
}


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'

"""Frames in memory, and what lies in other engines, as tables: pandas, polars and pyarrow, DuckDB, Dask and Spark."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.splitters import SplitError
from narwhals.exceptions import NarwhalsError

from .canonical import INDEX, listed, require_columns
from .source import ParquetFiles, Source, slices

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
        super().__init__(native, lambda: self.settled().table().schema, self._slices, lambda: len(self._frame))
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
        self.names = [name for name in self._names if not INDEX.fullmatch(name)]

    def settled(self) -> Source:
        """Return the frame, in Arrow from now on, so that nothing is made of it twice."""
        if not isinstance(self._frame, pa.Table):
            self._frame = self.table()
        return self

    def _slices(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
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
    """Return columns of a frame; ArrowTypeError where one mixes times with days, or zones with none, as Arrow does."""
    table = columns.to_arrow()
    for column, values in zip(columns.iter_columns(), table.columns, strict=True):
        times = column.drop_nulls() if column.dtype == nw.Object and pa.types.is_temporal(values.type) else ()
        if len({getattr(time, "tzinfo", None) is None for time in times}) > 1:
            raise pa.ArrowTypeError("times with and without a zone")
        if pa.types.is_date(values.type) and any(isinstance(time, datetime) for time in times):
            raise pa.ArrowTypeError("days and times of day")
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
            plain.isetitem(i, column.cat.rename_categories(column.cat.categories.astype(str).tolist()).array)
    return plain


# Two reads of what a plan makes so may have two orders, and a row's place in one is another row's in the next.
ORDERLESS = re.compile(r"\b(\w*_)?(AGGREGATES?|GROUP[ _]BY|JOIN|DISTINCT|UNIQUE|UNION|SAMPLE|PIVOT)\b")


def _read_once(plan: str, source: Source) -> Source:
    """Return a stream as it is, or, where two reads may have two orders, as a file of one, gone with the source."""
    if not ORDERLESS.search(plan.upper()):
        return source
    folder = tempfile.TemporaryDirectory(prefix="evenfold-")
    place = str(Path(folder.name) / "rows.parquet")
    with pq.ParquetWriter(place, source.schema) as file:  # by Arrow, which keeps every type as it is
        for block in source.batches(source.names):
            file.write_table(block.cast(source.schema))
    files = ParquetFiles(place, [place])

    def read(columns: list[str], rows: int, _folder: object = folder) -> Iterable[pa.Table]:  # which goes with this
        return files.batches(columns, rows)

    return Source(source.native, lambda: source.schema, read, lambda: files.n_rows)


def of_relation(relation: Any) -> Source:
    """Return a DuckDB relation as a table that is read in batches."""

    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        chosen = relation.project(", ".join(quoted(name) for name in columns))
        return (pa.Table.from_batches([batch]) for batch in chosen.to_arrow_reader(rows))

    source = Source(
        relation, lambda: relation.limit(0).to_arrow_table().schema, read,
        lambda: int(relation.aggregate("count(*)").fetchall()[0][0]),
    )  # fmt: skip
    return _read_once(relation.explain(), source)


def _of_polars(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        parts = frame.select(columns).collect_batches(chunk_size=rows, maintain_order=True)
        return (part.to_arrow() for part in parts)

    source = Source(frame, lambda: frame.limit(0).collect().to_arrow().schema, read)
    return _read_once(frame.explain(), source)


def _of_dask(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        parts = (pa.Table.from_pandas(part.compute(), preserve_index=False) for part in frame[columns].partitions)
        return (piece for part in parts for piece in slices(part, rows))

    return Source(frame, lambda: pa.Schema.from_pandas(frame._meta, preserve_index=False), read)


def _of_spark(frame: Any) -> Source:
    def read(columns: list[str], rows: int) -> Iterable[pa.Table]:
        # All of the columns at once: asked for only to see whether an integer target is a number or classes.
        return slices(frame.select(*(f"`{name}`" for name in columns)).toArrow(), rows)

    return Source(frame, lambda: frame.limit(0).toArrow().schema, read)


# A DuckDB relation, a lazy frame of polars, a frame of Dask or Spark: by the method that nothing else has.
STREAMS: dict[str, Callable[[Any], Source]] = {
    "to_arrow_reader": of_relation, "collect_batches": _of_polars, "map_partitions": _of_dask, "mapInArrow": _of_spark,
}  # fmt: skip


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'

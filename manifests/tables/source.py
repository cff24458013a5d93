"""What a table may lie in besides a file or a frame, read as a stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import reason_of

from .addresses import BATCH_ROWS, Source as Source, is_address, opened, streamed
from .canonical import INDEX, one_schema, require_columns
from .csv_files import about_rows, csv_batches, texts_of_long
from .read import blocks_of, data_files, is_parquet, parquet_data, read_table, readable


def source_of(data: Any, types: dict[str, str] | None = None) -> Source:
    """Return what ``data`` are as a stream.

    ``data``: a Parquet or CSV file, folder or glob, also behind ``s3://`` and other addresses that fsspec knows; a
    DuckDB table as ``duckdb:///folder/file.db#table``; a DuckDB relation; a lazy frame of polars; a DataFrame of Dask
    or Spark; any frame. Of CSV, types that the first megabyte does not show must be declared in ``types``.
    """
    if isinstance(data, Source):
        return data
    if is_address(data):
        return _without_index(opened(data))
    if isinstance(data, (str, Path)):
        if not is_parquet(data):
            return _from_csv(data_files(data), types or {}, str(data))
        with readable(data):
            rows = parquet_data(data_files(data))
            return _without_index(Source(rows.schema, partial(blocks_of, str(data)), rows.count_rows(), str(data)))
    if is_stream(data):
        return _STREAMS[_library(data)][1](data)
    return _from_table(read_table(data), data)


def held_or_source(data: Any) -> Any:
    """Return data as what joins them takes them: those that are read batch by batch where they lie as a source."""
    return source_of(data) if is_stream(data) else data


def is_stream(data: Any) -> bool:
    """Return whether data are read batch by batch where they lie: a relation, a lazy frame, one of Dask or Spark."""
    return hasattr(data, _STREAMS.get(_library(data), ("",))[0])


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0].lstrip("_")


def _slices(table: pa.Table, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _from_table(table: pa.Table, native: Any) -> Source:
    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        return _slices(table.select(columns), rows)

    return Source(table.schema, batches, table.num_rows, native)


def _without_index(source: Source) -> Source:
    return replace(source, schema=pa.schema([field for field in source.schema if not INDEX.fullmatch(field.name)]))


def _from_csv(files: list[Path], types: dict[str, str], native: str) -> Source:
    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        try:
            read = (batch for file in files for batch in csv_batches(file, types, columns, schema))
            yield from (piece for batch in read for piece in _slices(pa.Table.from_batches([batch]), rows))
        except pa.ArrowException as error:
            raise SplitError(
                f"{native} cannot be read as CSV ({reason_of(error)}); declare the column's type."
            ) from None

    try:
        heads = [pa.Table.from_batches(islice(csv_batches(file, types), 2)) for file in files]
        long = [field for file, head in zip(files, heads, strict=True) for field in texts_of_long(file, types, head, 2)]
        schemas = [next(csv_batches(file, types, schema=long)).schema for file in files] if long else []
        schema = one_schema(files, schemas or [head.schema for head in heads])
        return Source(schema, batches, None, native, about_rows(files))
    except (pa.ArrowException, UnicodeDecodeError):
        return _from_table(read_table(native, types=types), native)  # which says what is wrong


def _from_lazy(frame: Any) -> Source:
    schema = frame.limit(0).collect().to_arrow().schema

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        require_columns(columns, schema.names)
        chosen = frame.select(columns)
        return (part.to_arrow() for part in chosen.collect_batches(chunk_size=rows, maintain_order=True))

    return Source(schema, batches, None, frame)


def _from_dask(frame: Any) -> Source:
    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        parts = (part.compute() for part in frame[columns].partitions)
        return (piece for part in parts for piece in _slices(pa.Table.from_pandas(part, preserve_index=False), rows))

    return Source(schema, batches, None, frame)


def _from_spark(frame: Any) -> Source:
    schema = frame.limit(0).toArrow().schema

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        # All of the columns at once: asked for only to see whether an integer target is a number or classes.
        yield from _slices(frame.select(*(f"`{name}`" for name in columns)).toArrow(), rows)

    return Source(schema, batches, None, frame)


_STREAMS: dict[str, tuple[str, Callable[[Any], Source]]] = {
    "duckdb": ("to_arrow_reader", lambda relation: _without_index(streamed(relation))),
    "polars": ("collect_batches", _from_lazy),
    "dask": ("map_partitions", _from_dask),
    "pyspark": ("mapInArrow", _from_spark),
}

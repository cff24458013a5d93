"""What a table may lie in besides a file or a frame, read as a stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from evenfold.manifests.tables.addresses import Addressed, is_address, opened, streamed
from evenfold.manifests.tables.canonical import INDEX, one_schema, require_columns
from evenfold.manifests.tables.csv_files import about_rows, csv_batches, texts_of_long
from evenfold.manifests.tables.read import blocks_of, data_files, is_parquet, parquet_data, read_table, readable
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import reason_of

BATCH_ROWS = 1 << 17
NUMBER_BYTES, TEXT_BYTES = 8, 24  # of a value in memory; of texts, a short one and its place


@dataclass(frozen=True)
class Source:
    """A table that can be read more than once, a batch at a time.

    ``batches(columns)`` yields tables of at most about 131,072 rows, in the same order each time. ``n_rows`` is None
    where only a reader to the end would know; ``about_rows`` is then a guess, where one can be made. ``native`` is what
    an engine may read better than through batches.
    """

    schema: pa.Schema
    batches: Callable[[list[str]], Iterator[pa.Table]]
    n_rows: int | None
    native: Any
    about_rows: int | None = None

    def bytes_of(self, columns: list[str]) -> int | None:
        """Return about how many bytes ``columns`` take in memory; None where the number of rows is not known."""
        rows = self.about_rows if self.n_rows is None else self.n_rows
        if rows is None:
            return None
        types = [self.schema.field(name).type for name in columns]
        return rows * sum(NUMBER_BYTES if is_number(arrow) else TEXT_BYTES for arrow in types)


def is_number(arrow: pa.DataType) -> bool:
    """Return whether values of an Arrow type have one length."""
    return bool(pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow))


def source_of(data: Any, types: dict[str, str] | None = None) -> Source:
    """Return what ``data`` are as a stream.

    ``data``: a Parquet or CSV file, folder or glob, also behind ``s3://`` and other addresses that fsspec knows; a
    DuckDB table as ``duckdb:///folder/file.db#table``; a DuckDB relation; a lazy frame of polars; a DataFrame of Dask
    or Spark; any frame. Of CSV, types that the first megabyte does not show must be declared in ``types``.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, Path)):
        return _from_address(str(data), types or {})
    if is_stream(data):
        return _STREAMS[_library(data)][1](data)
    table = read_table(data)
    return Source(table.schema, lambda columns: _slices(table.select(columns)), table.num_rows, data)


def is_stream(data: Any) -> bool:
    """Return whether data are read batch by batch where they lie: a relation, a lazy frame, one of Dask or Spark."""
    return hasattr(data, _STREAMS.get(_library(data), ("",))[0])


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0].lstrip("_")


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, BATCH_ROWS):
        yield table.slice(start, BATCH_ROWS)


def _from_address(address: str, types: dict[str, str]) -> Source:
    if is_address(address):
        return _from_addressed(opened(address))
    if is_parquet(address):
        with readable(address):
            data = parquet_data(data_files(address))
            rows = partial(blocks_of, address, rows=BATCH_ROWS)
            return Source(_without_index(data.schema), rows, data.count_rows(), address)
    return _from_csv(data_files(address), types, address)


def _from_addressed(data: Addressed) -> Source:
    schema = _without_index(data.schema)
    return Source(schema, lambda columns: data.batches(columns, BATCH_ROWS), data.n_rows, data.native)


def _without_index(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if not INDEX.fullmatch(field.name)])


def _from_csv(files: list[Path], types: dict[str, str], native: str) -> Source:
    def batches(columns: list[str]) -> Iterator[pa.Table]:
        try:
            read = (batch for file in files for batch in csv_batches(file, types, columns, schema))
            yield from (piece for batch in read for piece in _slices(pa.Table.from_batches([batch])))
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
        table = read_table(native, types=types)  # which says what is wrong
        return Source(table.schema, lambda columns: _slices(table.select(columns)), table.num_rows, native)


def _from_relation(relation: Any) -> Source:
    return _from_addressed(streamed(relation))


def _from_lazy(frame: Any) -> Source:
    schema = frame.limit(0).collect().to_arrow().schema

    def batches(columns: list[str]) -> Iterator[pa.Table]:
        require_columns(columns, schema.names)
        chosen = frame.select(columns)
        return (part.to_arrow() for part in chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True))

    return Source(schema, batches, None, frame)


def _from_dask(frame: Any) -> Source:
    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)

    def batches(columns: list[str]) -> Iterator[pa.Table]:
        parts = (part.compute() for part in frame[columns].partitions)
        return (piece for part in parts for piece in _slices(pa.Table.from_pandas(part, preserve_index=False)))

    return Source(schema, batches, None, frame)


def _from_spark(frame: Any) -> Source:
    schema = frame.limit(0).toArrow().schema

    def batches(columns: list[str]) -> Iterator[pa.Table]:
        # All of the columns at once: asked for only to see whether an integer target is a number or classes.
        yield from _slices(frame.select(*(f"`{name}`" for name in columns)).toArrow())

    return Source(schema, batches, None, frame)


_STREAMS: dict[str, tuple[str, Callable[[Any], Source]]] = {
    "duckdb": ("to_arrow_reader", _from_relation),
    "polars": ("collect_batches", _from_lazy),
    "dask": ("map_partitions", _from_dask),
    "pyspark": ("mapInArrow", _from_spark),
}

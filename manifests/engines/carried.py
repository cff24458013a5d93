"""Columns on their way through DuckDB, which has fewer types than Arrow and one zone: out as they came in."""

from __future__ import annotations

import pyarrow as pa
from evenfold.splitters import SplitError

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


def as_carried(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in the types of ``carried``, no value changed; O(1) for a column of the same type."""
    return pa.table([_out(*pair) for pair in zip(table.columns, schema.types, strict=True)], schema=schema)


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

"""Data read block by block, for work whose memory must not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ._columns import require_columns
from ._read import INDEX, data_files, parquet_data, read_table


def blocks_of(source: Any, columns: Iterable[str], rows: int = 100_000) -> Iterator[pa.Table]:
    """Yield ``columns`` of a source, in row order, as tables of at most ``rows`` rows.

    Of Parquet files a few blocks are in memory at a time, of anything else the whole.
    """
    wanted = list(dict.fromkeys(columns))
    if isinstance(source, (str, Path)) and is_parquet(source):
        data = parquet_data(data_files(source))
        require_columns(wanted, data.schema.names)
        batches = data.to_batches(columns=wanted, batch_size=rows, batch_readahead=2, fragment_readahead=1)
        yield from (pa.Table.from_batches([batch]) for batch in batches)
        return
    table = read_table(source, wanted)
    yield from (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def schema_of(source: Any) -> pa.Schema:
    """Return the names and types of a source's columns; of Parquet files without reading a row."""
    parquet = isinstance(source, (str, Path)) and is_parquet(source)
    schema = parquet_data(data_files(source)).schema if parquet else read_table(source).schema
    return pa.schema([field for field in schema if not INDEX.fullmatch(field.name)])


def is_parquet(path: str | Path) -> bool:
    """Return whether every file of a path, folder or glob is Parquet by its ending."""
    return all(file.suffix in (".parquet", ".pq") for file in data_files(path))

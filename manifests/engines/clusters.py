"""Dask and Spark as engines: their workers run our Arrow functions on parts of a table, where these lie."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.tables.source import ParquetFiles, Source
from evenfold.splitters import SplitError

from .spill import STORED, Canonical

AT_ONCE = 16  # parts that Dask's workers make and this process holds
SPARK_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.large_string(): "string",
}


def parts_by_dask(source: Source, canonical: Canonical) -> Iterator[pa.Table]:
    """Yield the canonical rows of each partition of a Dask DataFrame, or of each row group of Parquet files."""
    try:
        import dask.dataframe
    except ImportError as error:
        raise SplitError(f"engine='dask' needs Dask ({error}); install evenfold[dask].") from None
    frame = hasattr(source.native, "to_delayed")
    parts: list[Any] = list(source.native.to_delayed()) if frame else _row_groups(source, "Dask")
    delayed = [dask.delayed(_canonical_part)(canonical, part) for part in parts]
    for start in range(0, len(delayed), AT_ONCE):
        yield from dask.compute(*delayed[start : start + AT_ONCE])


def parts_by_spark(source: Source, canonical: Canonical, folder: Path) -> Iterator[pa.Table]:
    """Yield the canonical rows of a Spark DataFrame, or of Parquet files, as Spark writes them below ``folder``.

    By the active session, or one of its defaults; workers and this process see the same folders.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SplitError(f"engine='spark' needs PySpark ({error}); install evenfold[spark].") from None
    session: Any = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if "PYSPARK_PYTHON" not in os.environ and hasattr(session, "sparkContext"):
        session.sparkContext.pythonExec = sys.executable  # workers on this machine know our code
    stored = [(field.name, STORED.get(field.type, field.type)) for field in canonical.schema(source.schema)]
    of_files = not hasattr(source.native, "mapInArrow")
    if of_files:  # read by Arrow, not by Spark, whose types know neither nanoseconds nor unsigned numbers
        groups = _row_groups(source, "Spark")
        parts = session.createDataFrame(groups, "file string, part int").repartition(max(1, len(groups)))
    else:
        parts = source.native.select(*(f"`{name}`" for name in canonical.names))
    schema = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in stored)
    rows, written = parts.mapInArrow(partial(_canonical_batches, canonical, of_files), schema), folder / "parts"
    rows.write.option("compression", "zstd").parquet(written.absolute().as_uri())
    for path in sorted(written.glob("part-*.parquet")):
        yield pq.read_table(path, memory_map=False).cast(pa.schema(stored))
        path.unlink()


def _row_groups(source: Source, engine: str) -> list[tuple[str, int]]:
    """Return the row groups of the Parquet files of a source, (file, number) each: what workers read as a part."""
    if not isinstance(source, ParquetFiles) or "://" in source.native:
        raise SplitError(f"{engine} reads Parquet files, and its own data frames; pass one of them.")
    return [(file, group) for file in source.files for group in range(pq.read_metadata(file).num_row_groups)]


def _canonical_part(canonical: Canonical, part: Any) -> pa.Table:
    """Return the canonical rows of a part: a row group of a file, or a frame that an engine hands over."""
    names = list(canonical.names)
    if not isinstance(part, tuple):
        return canonical(pa.Table.from_pandas(part[names], preserve_index=False))
    file, group = part
    with pq.ParquetFile(file) as parquet:
        return canonical(parquet.read_row_group(group, columns=names))


def _canonical_batches(
    canonical: Canonical, of_files: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the used columns as Spark is given them; ``of_files``, batches name files and their row groups."""
    for batch in batches:
        tables = [canonical(pa.Table.from_batches([batch]))] if not of_files else []
        tables += [_canonical_part(canonical, (row["file"], row["part"])) for row in batch.to_pylist() if of_files]
        for table in tables:
            types = (pa.string() if pa.types.is_large_string(kind) else kind for kind in table.schema.types)
            yield from table.cast(pa.schema(zip(table.column_names, types, strict=True))).to_batches()

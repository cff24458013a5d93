"""Spark as an engine: it moves and sorts canonical rows, and runs our Arrow functions on its workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from evenfold.manifests.tables.addresses import Source
from evenfold.splitters import SplitError

from . import spill
from .spill import STORED, Canonical, read_in_turn, read_part, require_key, row_groups

SPARK_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.large_string(): "string",
}


def ordered(source: Source, canonical: Canonical, key: list[str], folder: Path) -> Iterator[pa.Table]:
    """Yield the shards that Spark writes: sorted by ranges of the key, UTF-8 text by its bytes as everywhere.

    By the active session, or one of its defaults; workers and this process see the same folders. The plan stays flat:
    one pass makes rows canonical, one sort by ranges, and all else runs on the sorted files.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SplitError(f"engine='spark' needs PySpark ({error}); install evenfold[spark].") from None
    session: Any = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if "PYSPARK_PYTHON" not in os.environ and hasattr(session, "sparkContext"):
        session.sparkContext.pythonExec = sys.executable  # workers on this machine know our code
    require_key(key)
    arrow_schema = canonical.schema(source.schema)
    types = dict(zip(arrow_schema.names, arrow_schema.types, strict=True))
    stored = {name: STORED.get(kind, kind) for name, kind in types.items()}
    schema = ", ".join(f"`{name}` {SPARK_TYPES[arrow]}" for name, arrow in stored.items())
    of_files = not hasattr(source.native, "mapInArrow")
    if of_files:  # read by Arrow, not by Spark, whose types know neither nanoseconds nor unsigned numbers
        groups = row_groups(source, "Spark")
        parts = session.createDataFrame(groups, "file string, part int").repartition(max(1, len(groups)))
    else:
        parts = source.native.select(*(f"`{name}`" for name in canonical.names))
    frame = parts.mapInArrow(Made(canonical, of_files), schema)
    rows = source.native.count() if source.n_rows is None else source.n_rows
    ranges = max(1, -(-rows // spill.SHARD_ROWS))
    written = folder / "ordered"
    in_order = frame.repartitionByRange(ranges, *key).sortWithinPartitions(*key)
    in_order.write.option("compression", "zstd").parquet(written.absolute().as_uri())
    # Spark numbers the files by their ranges; a range without a row may have a file as well.
    shards = [path for path in sorted(written.glob("part-*.parquet")) if pa.parquet.read_metadata(path).num_rows]
    return read_in_turn(shards, types)


class Made:
    """Batches of rows made canonical; ``of_files``, they name files and their row groups, whose rows are meant."""

    def __init__(self, canonical: Canonical, of_files: bool) -> None:
        self.canonical, self.of_files = canonical, of_files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the used columns as Spark is given them."""
        for batch in batches:
            parts = [pa.Table.from_batches([batch])]
            if self.of_files:
                parts = [read_part((row["file"], row["part"]), list(self.canonical.names)) for row in batch.to_pylist()]
            for part in parts:
                table = self.canonical(part)
                yield from table.cast(pa.schema([_plain(field) for field in table.schema])).to_batches()


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field

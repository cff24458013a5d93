"""Dask and Spark as engines: they move and sort canonical rows, and run our Arrow functions on their workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from evenfold.manifests.tables.addresses import Source
from evenfold.splitters import SplitError

from . import spill
from .spill import STORED, Canonical, read_in_turn, read_part, read_stored, require_key, row_groups, write_shard

T = TypeVar("T")
R = TypeVar("R")
SAMPLED = 1_000  # keys of each part from which the borders between ranges are chosen


def ordered_by_dask(source: Source, canonical: Canonical, key: list[str], folder: Path) -> Iterator[pa.Table]:
    """Yield the ranges in key order, of a Dask DataFrame's partitions or files' row groups; SplitError without a key.

    Each part is made canonical and sorted where it lies; borders from a sample of keys cut it into ranges; each range
    is merged from all parts. Every row is written and read twice, and crosses the network once; workers see the same
    folders as this process.
    """
    try:
        import dask.dataframe
    except ImportError as error:
        raise SplitError(f"engine='dask' needs Dask ({error}); install evenfold[dask].") from None

    def at_once(function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        # Not pure: a task writes files, so one with equal arguments must not be taken for it.
        return iter(dask.compute(*(dask.delayed(function, pure=False)(part) for part in parts)))

    require_key(key)
    schema, frame = canonical.schema(source.schema), hasattr(source.native, "to_delayed")
    read: list[Any] = list(source.native.to_delayed()) if frame else list(row_groups(source, "Dask"))
    parts = [(part, canonical, key, folder / f"part-{i:06d}.arrow") for i, part in enumerate(read)]
    sampled = [sample for sample in at_once(_sort_part, parts) if sample is not None]
    if not sampled:
        return iter(())
    rows, keys = sum(n for n, _ in sampled), pa.concat_tables([sample for _, sample in sampled])
    keys = keys.take(pc.sort_indices(keys, sort_keys=_ascending(key)))
    ranges = max(1, -(-rows // spill.SHARD_ROWS))
    borders = keys.take(np.arange(1, ranges) * keys.num_rows // ranges)
    files = [path for _, _, _, path in parts if path.exists()]
    list(at_once(_cut_part, [(path, borders, key) for path in files]))
    wanted = [(files, number, key, folder / f"ordered-{number:06d}.arrow") for number in range(ranges)]
    merged = [path for path in at_once(_merge_range, wanted) if path is not None]
    return read_in_turn(merged, dict(zip(schema.names, schema.types, strict=True)))


def _ascending(key: list[str]) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in key]


def _sort_part(task: tuple[Any, Canonical, list[str], Path]) -> tuple[int, pa.Table] | None:
    """Write a part's canonical columns in key order; return its rows and a sample of its keys."""
    part, canonical, key, path = task
    table = canonical(read_part(part, list(canonical.names)))
    if table.num_rows == 0:
        return None
    table = table.take(pc.sort_indices(table, sort_keys=_ascending(key)))
    write_shard(table, path)
    return table.num_rows, table.select(key).take(np.linspace(0, table.num_rows - 1, SAMPLED).astype(np.int64))


def _cut_part(task: tuple[Path, pa.Table, list[str]]) -> None:
    """Write what a sorted part has of each range to a file of its own."""
    path, borders, key = task
    table = read_stored(path)
    both = pa.concat_tables([borders, table.select(key)])
    # The sort is stable and the borders come first: rows equal to a border follow it, in every part alike.
    order = pc.sort_indices(both, sort_keys=_ascending(key)).to_numpy()
    # A border's place among the rows alone: less the borders before it.
    places = np.flatnonzero(order < borders.num_rows) - np.arange(borders.num_rows)
    for number, (start, stop) in enumerate(zip([0, *places], [*places, table.num_rows], strict=True)):
        if stop > start:
            write_shard(table.slice(start, stop - start), _cut(path, number))


def _cut(path: Path, number: int) -> Path:
    return path.with_suffix(f".{number:06d}.arrow")


def _merge_range(task: tuple[list[Path], int, list[str], Path]) -> Path | None:
    """Write one range of all parts in key order, as a shard; None where no part has rows of it."""
    files, number, key, shard = task
    cuts = [_cut(path, number) for path in files if _cut(path, number).exists()]
    if not cuts:
        return None
    table = pa.concat_tables(read_stored(cut) for cut in cuts)
    write_shard(table.take(pc.sort_indices(table, sort_keys=_ascending(key))), shard)
    for cut in cuts:
        cut.unlink()
    return shard


SPARK_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.large_string(): "string",
}


def ordered_by_spark(source: Source, canonical: Canonical, key: list[str], folder: Path) -> Iterator[pa.Table]:
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
    frame = parts.mapInArrow(partial(_canonical_batches, canonical, of_files), schema)
    rows = source.native.count() if source.n_rows is None else source.n_rows
    ranges = max(1, -(-rows // spill.SHARD_ROWS))
    written = folder / "ordered"
    in_order = frame.repartitionByRange(ranges, *key).sortWithinPartitions(*key)
    in_order.write.option("compression", "zstd").parquet(written.absolute().as_uri())
    # Spark numbers the files by their ranges; a range without a row may have a file as well.
    shards = [path for path in sorted(written.glob("part-*.parquet")) if pa.parquet.read_metadata(path).num_rows]
    return read_in_turn(shards, types)


def _canonical_batches(
    canonical: Canonical, of_files: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the used columns as Spark is given them; ``of_files``, batches name files and their row groups."""
    for batch in batches:
        parts = [pa.Table.from_batches([batch])]
        if of_files:
            parts = [read_part((row["file"], row["part"]), list(canonical.names)) for row in batch.to_pylist()]
        for table in map(canonical, parts):
            types = (pa.string() if pa.types.is_large_string(kind) else kind for kind in table.schema.types)
            yield from table.cast(pa.schema(zip(table.column_names, types, strict=True))).to_batches()

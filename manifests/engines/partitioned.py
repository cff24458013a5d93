"""Sorting by ranges, for engines that can do no more than apply a function to parts: Dask, Ray, pools of processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.tables.addresses import Source
from evenfold.manifests.tables.read import data_files, is_parquet
from evenfold.splitters import SplitError

from . import spill
from .spill import Canonical, read_in_turn, read_stored, write_shard

T = TypeVar("T")
R = TypeVar("R")
SAMPLED = 1_000  # keys of each part from which the borders between ranges are chosen


class Partitioned(ABC):
    """An engine whose workers see the same folders, and whose sort is made of ``map`` alone.

    Each part is made canonical and sorted where it lies; borders from a sample of keys cut it into ranges; each range
    is merged from all parts. Every row is written and read twice, and crosses the network once.
    """

    @abstractmethod
    def map(self, function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield ``function`` of each part, in the order of the parts."""

    def parts(self, source: Source) -> list[Any]:
        """Return what workers read: a Parquet file's row groups each, or the batches of any other source."""
        if isinstance(source.native, str) and is_parquet(source.native):
            files = [str(file) for file in data_files(source.native)]
            return [(file, group) for file in files for group in range(pq.read_metadata(file).num_row_groups)]
        raise SplitError(f"{type(self).__name__} reads Parquet files, and its own data frames; pass one of them.")

    def ordered(self, source: Source, canonical: Canonical, key: list[str], folder: Path) -> Iterator[pa.Table]:
        """Yield the ranges in key order; SplitError where no key is named."""
        require_key(key)
        schema = canonical.schema(source.schema)
        return read_in_turn(
            self._ranges(source, canonical, key, folder), dict(zip(schema.names, schema.types, strict=True))
        )

    def _ranges(self, source: Source, canonical: Canonical, key: list[str], folder: Path) -> list[Path]:
        parts = [(part, canonical, key, folder / f"part-{i:06d}.arrow") for i, part in enumerate(self.parts(source))]
        sampled = [sample for sample in self.map(_sort_part, parts) if sample is not None]
        if not sampled:
            return []
        rows, keys = sum(n for n, _ in sampled), pa.concat_tables([sample for _, sample in sampled])
        keys = keys.take(pc.sort_indices(keys, sort_keys=_ascending(key)))
        ranges = max(1, -(-rows // spill.SHARD_ROWS))
        borders = keys.take(np.arange(1, ranges) * keys.num_rows // ranges)
        files = [path for _, _, _, path in parts if path.exists()]
        list(self.map(_cut_part, [(path, borders, key) for path in files]))
        wanted = [(files, number, key, folder / f"ordered-{number:06d}.arrow") for number in range(ranges)]
        return [path for path in self.map(_merge_range, wanted) if path is not None]


def require_key(key: list[str]) -> None:
    """Raise SplitError where no key is named."""
    if not key:
        raise SplitError("without a key a row is its position, and rows on a cluster have none; name a key column.")


def _ascending(key: list[str]) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in key]


def read_part(part: Any, columns: list[str]) -> pa.Table:
    """Return columns of a part: a row group of a file, or a frame that an engine hands over."""
    if isinstance(part, tuple):
        file, group = part
        with pq.ParquetFile(file) as parquet:
            return parquet.read_row_group(group, columns=columns)
    return pa.Table.from_pandas(part[columns], preserve_index=False)


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

"""Deciding a split wherever its rows lie: in memory, out of core, on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

import pyarrow as pa
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.plan import Plan, used_columns
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.store.write import write_manifest
from evenfold.splitters import SplitError

from .deciding import StreamedPlan
from .engine import EngineName, bytes_of_memory, engine_named, free_memory
from .sources import Source, source_of
from .stored import StoredManifest, room_beside, write_streamed

# What deciding takes in memory, measured at 10 million rows, as a multiple of the columns that are read.
TIMES_THE_COLUMNS = 6


@overload
def decide(spec: Any, data: Any, *, engine: EngineName = "auto", memory: str | int | None = None) -> Manifest: ...
@overload
def decide(
    spec: Any, data: Any, *, engine: EngineName = "auto", memory: str | int | None = None, to: str | Path
) -> StoredManifest: ...
def decide(
    spec: Any,
    data: Any,
    *,
    engine: EngineName = "auto",
    memory: str | int | None = None,
    to: str | Path | None = None,
) -> Manifest | StoredManifest:
    """Return the manifest that ``spec`` (a SplitSpec, mapping or file) asks for on ``data`` (a file or frame).

    Promises: the same rows give the same folds in any container and any row order (with a key column), on any
    machine and any engine. Raises SplitError where the data or the specification do not allow the split; nothing is
    written then. O(n log n).

    Without ``to`` the manifest is decided in memory. With it, the manifest is written below that folder, and ``data``
    may be larger than memory: see ``source_of`` for what they may lie in. ``engine="auto"`` sorts with DuckDB, out of
    core, where the split would take more than a quarter of the memory that is free, and with Dask or Spark where the
    data are theirs. ``memory`` ("2GB") is what this process may take; a quarter of what is free where it is None.
    """
    if to is None:
        if engine not in ("auto", "memory"):
            raise SplitError(f"engine={engine!r} writes the manifest as it reads the rows; pass the folder as to=.")
        return Plan(spec, data).decide()
    asked = read_spec(spec)
    source = source_of(data, dict(asked.types))
    engine = "memory" if engine == "auto" and _fits(asked, source, memory) else engine
    if engine == "memory":
        table = data if isinstance(data, (str, Path)) and "://" not in str(data) else _whole(asked, source)
        return StoredManifest(write_manifest(Plan(asked, table).decide(), to))
    return _streamed(asked, source, engine, bytes_of_memory(memory), to)


def _streamed(spec: SplitSpec, source: Source, engine: EngineName, memory: int, to: str | Path) -> StoredManifest:
    with room_beside(to) as folder:
        plan = StreamedPlan(spec, source, engine_named(engine, source, memory), folder, memory)
        return write_streamed(plan, plan.decided(), to)


def _fits(spec: SplitSpec, source: Source, memory: str | int | None) -> bool:
    """Return whether the split is decided in memory: it takes little of it, or the strategy knows no other way."""
    if type(source.native).__module__.partition(".")[0] in ("dask", "pyspark"):
        return False
    if spec.strategy and spec.splitter().in_memory_because:
        return True
    names = used_columns(spec, spec.splitter().needs) if spec.strategy else spec.columns.roles()
    taken = source.bytes_of([name for name in names if name in source.schema.names])
    limit = free_memory() // 4 if memory is None else bytes_of_memory(memory)
    return taken is not None and taken * TIMES_THE_COLUMNS <= limit


def _whole(spec: SplitSpec, source: Source) -> pa.Table:
    roles = dict.fromkeys([*spec.columns.roles(), *spec.types])
    names = [name for name in roles if name in source.schema.names] or source.schema.names[:1]
    return pa.concat_tables(source.batches(names), promote_options="permissive")

"""Deciding a split, in memory or on disk, wherever the rows of its data lie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.plan import Plan, used_columns
from evenfold.manifests.spec import Columns, SplitSpec, name_like, read_spec
from evenfold.manifests.store.stored import StoredManifest
from evenfold.manifests.store.write import write_manifest
from evenfold.manifests.tables.canonical import InKeyOrder, numbered, require_columns
from evenfold.manifests.tables.read import no_rows
from evenfold.manifests.tables.source import bytes_of_memory, fits_in_memory, require_rows, room_of, source_of
from evenfold.splitters import HashSplit, SplitError
from evenfold.splitters.deployed import is_address

from .spill import EngineName, engine_named, spilled

FRAME = re.compile("[0-9a-f]{32}")  # the name of a frame's file: its digest


@overload
def decide(
    spec: Any = None,
    data: Any = None,
    *,
    engine: EngineName = "auto",
    memory: str | int | None = None,
    to: str | Path,
    **fields: Any,
) -> StoredManifest: ...
@overload
def decide(
    spec: Any = None, data: Any = None, *, engine: EngineName = "auto", memory: str | int | None = None, **fields: Any
) -> Manifest: ...
def decide(
    spec: Any = None,
    data: Any = None,
    *,
    engine: EngineName = "auto",
    memory: str | int | None = None,
    to: str | Path | None = None,
    **fields: Any,
) -> Manifest:
    """Return the manifest that ``spec`` (a SplitSpec, mapping or file) asks for on ``data`` (a file or frame).

    Fields are put over it, or stand in its place: ``decide(frame, key="id", target="y", n_splits=10)``.

    Promises: the same rows give the same folds in any container and any row order (with a key column), on any
    machine and any engine. Raises SplitError where the data or the specification do not allow the split; nothing is
    written then. O(n log n).

    Without ``to`` the manifest is decided in memory. With it, the manifest is written below that folder, and ``data``
    may be larger than memory: see ``source_of`` for what they may lie in. ``engine="auto"`` sorts with DuckDB, out of
    core, where the split would take more than a quarter of the memory that is free, and with Dask or Spark where the
    data are theirs. ``memory`` ("2GB") is what this process may take; a quarter of what is free where it is None.
    """
    if data is None or isinstance(data, (SplitSpec, Mapping)):  # decide(df, key=...) names the data first
        spec, data = data, spec
    if fields or spec is None:
        spec = specification(data, spec, **fields)
    if to is None:
        if engine not in ("auto", "memory"):
            raise SplitError(f"engine={engine!r} writes the manifest as it reads the rows; pass the folder as to=.")
        return Plan(spec, data).decide()
    plan = planned(spec, data, engine=engine, memory=memory, to=to)
    return StoredManifest(write_manifest(plan.decide(), to))


def specification(data: Any, spec: Any = None, **fields: Any) -> SplitSpec:
    """Return ``spec`` with what is given beside it put over it; without a name it is called as the data's file."""
    overrides: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if not overrides and isinstance(spec, SplitSpec) and "name" in spec.model_fields_set:
        return spec
    base = {} if spec is None else read_spec(spec).model_dump(exclude_unset=True)
    columns = {role: overrides.pop(role) for role in Columns.model_fields if role in overrides}
    counted = {name: overrides.pop(name) for name in ("n_splits", "parts") if name in overrides}
    params = overrides.pop("params", {})
    if "holdout" in overrides:
        overrides["holdout"] = {**(base.get("holdout") or {}), "fraction": overrides["holdout"]}
    merged = base | overrides | {"name": overrides.get("name") or base.get("name") or name_of(data)}
    # What is no mapping is refused with the rest of the specification.
    merged["params"] = {**base.get("params", {}), **params, **counted} if isinstance(params, Mapping) else params
    # One group that is given takes the place of several that the specification names.
    before = base.get("columns", {}).items()
    merged["columns"] = {role: value for role, value in before if role != "entities" or not columns.get("group")}
    merged["columns"] |= {role: value for role, value in columns.items() if value}
    return read_spec(merged)


def name_of(data: Any) -> str:
    """Return what a split of some data is called where nobody says: as their file, or by the digest of a frame."""
    place = str(data).removesuffix(".gz").rpartition("#")[2] if is_address(data) else str(data).removesuffix(".gz")
    stem = Path(place).stem if isinstance(data, (str, Path)) else ""
    return f"table-{stem[:8]}" if FRAME.fullmatch(stem) else name_like(stem) or "split"


def planned(
    spec: Any, data: Any, *, engine: EngineName = "auto", memory: str | int | None = None, to: str | Path
) -> Plan:
    """Return the plan of a split, its columns in memory or sorted on the disk of ``to``; nothing is decided yet.

    What was sorted there takes its room until the plan is forgotten, and has no name.
    """
    request = read_spec(spec)
    source = source_of(data, dict(request.types))
    require_columns([*request.columns.roles(), *request.types], source.schema.names)
    names = used_columns(request, request.splitter().needs) if request.strategy else request.columns.roles()
    if engine == "auto" and type(source.native).__module__.partition(".")[0] not in ("dask", "pyspark"):
        fits = fits_in_memory(source, names or source.schema.names[:1], memory)
        engine = "memory" if fits else engine
    if engine == "memory":
        return Plan(request, data if isinstance(data, (str, Path)) else source)
    sorter = engine_named(engine, source, bytes_of_memory(memory))
    if not names:  # then rows are nothing but their numbers
        n = sum(part.num_rows for part in source.batches(source.schema.names[:1]))
        if not n:
            raise no_rows("the table")
        return Plan(request, InKeyOrder(pa.table({"row": np.arange(n)})))
    table = spilled(source, names, request.types, request.columns.key, sorter, to)
    try:
        plan = Plan(request, table)
    except SplitError as error:
        # The places that it names are those of sorted rows.
        where = " Rows are counted in key order." if "first at" in str(error) else ""
        raise type(error)(f"{error}{where}") from None
    _require_memory(plan, memory)
    return plan


# Of the table of groups, with three classes, as it was seen at four million groups; more where groups are texts, of 14
# letters. And of each row its group and class.
BYTES_A_GROUP, OF_TEXT, BYTES_OF_ROWS = 225, 110, 18


def _require_memory(plan: Plan, memory: str | int | None) -> None:
    """Raise SplitError where what a strategy is given of each row takes more than there is."""
    if isinstance(plan.splitter, HashSplit) and plan.spec.holdout is None:
        return
    if plan.packs_groups:
        column, rows = plan.table.column(str(plan.spec.columns.group)), plan.table.num_rows
        each, n = BYTES_A_GROUP + OF_TEXT * pa.types.is_large_string(column.type), rows
        if n * (each + BYTES_OF_ROWS) > room_of(memory):  # to count groups is a pass over the rows
            n = len(numbered(column)[1])
        require_rows(n, each + BYTES_OF_ROWS * rows // n, str(plan.spec.strategy), memory, "groups")
        return
    table = plan.table.drop_columns(
        [] if plan.splitter.needs.key else [name for name in plan.key if name in plan.types]
    )
    bytes_a_row = 32 + sum(40 if pa.types.is_large_string(kind) else 8 for kind in table.schema.types)
    instead = ", or split by groups or HashSplit"
    require_rows(plan.table.num_rows, bytes_a_row, str(plan.spec.strategy), memory, instead=instead)

"""The decision of a split, and what is around it: its specification, the sorting of what does not fit, repeats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import numbered, require_columns
from evenfold.manifests.tables.read import bytes_of_memory, fits_in_memory, require_rows, room_of, source_of
from evenfold.splitters import HashSplit, Repeated, SplitError
from evenfold.splitters.errors import is_address
from numpy.typing import NDArray

from .fields import EngineName
from .manifest import Manifest
from .plan import Plan, used_columns
from .spec import Columns, SplitSpec, name_like, read_spec
from .spill import spilled
from .store.stored import StoredManifest
from .store.write import write_manifest

CLUSTERS: dict[str, EngineName] = {"dask": "dask", "pyspark": "spark"}  # by the package of a frame that lies there
FRAME = re.compile("[0-9a-f]{32}")  # the name of a frame's file: its digest


@overload
def decide(spec: Any = None, data: Any = None, *, to: str | Path, **fields: Any) -> StoredManifest: ...
@overload
def decide(spec: Any = None, data: Any = None, **fields: Any) -> Manifest: ...
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
    columns = {role: value for role in Columns.model_fields if (value := overrides.pop(role, None))}
    counted = {name: overrides.pop(name) for name in ("n_splits", "parts") if name in overrides}
    params = overrides.pop("params", {})
    if "holdout" in overrides:
        overrides["holdout"] = {**(base.get("holdout") or {}), "fraction": overrides["holdout"]}
    merged = base | overrides | {"name": overrides.get("name") or base.get("name") or name_of(data)}
    # What is no mapping is refused with the rest of the specification.
    merged["params"] = {**base.get("params", {}), **params, **counted} if isinstance(params, Mapping) else params
    # One group that is given takes the place of several that the specification names.
    before = base.get("columns", {}).items()
    merged["columns"] = {role: name for role, name in before if role != "entities" or "group" not in columns} | columns
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
    require_columns([*request.columns.roles(), *request.types], source.names)
    names = used_columns(request, request.splitter().needs) if request.strategy else request.columns.roles()
    if engine == "auto":
        theirs = CLUSTERS.get(type(source.native).__module__.partition(".")[0])
        engine = theirs or ("memory" if fits_in_memory(source, names or source.names[:1], memory) else "duckdb")
    if engine == "memory":
        return Plan(request, source)
    if not names:  # then rows are nothing but their numbers
        n = source.n_rows or sum(part.num_rows for part in source.batches(source.names[:1]))
        return Plan(request, pa.table({"row": np.arange(n)}), in_order=True)
    table = spilled(source, names, request.types, request.columns.key, engine, bytes_of_memory(memory), Path(to))
    try:
        plan = Plan(request, table, in_order=True)
    except SplitError as error:
        # The places that it names are those of sorted rows.
        where = " Rows are counted in key order." if "first at" in str(error) else ""
        raise type(error)(f"{error}{where}") from None
    _require_memory(plan, memory)
    return plan


WHOLE = frozenset({"exhaustive", "trains_on_rest"})


def further_folds(manifest: Manifest, rows: pa.Table, n_repeats: int) -> NDArray[Any]:
    """Return the folds of the repeats that make a manifest's folds ``n_repeats``: rows by further repeats.

    ``rows``: the columns of the specification's roles, of the rows in use that are not locked, in key order. The
    strategy is the manifest's own under other seeds, as ``Repeated`` has it: groups stay whole, and asking for more
    repeats leaves the first ones as they are. Raises SplitError where the strategy has no other folds.
    """
    spec, splitter = manifest.spec, manifest.splitter
    if manifest.kind == "draws":
        raise SplitError(f"{spec.strategy} draws rows, and more draws of it are its repeats; ask for more (n_splits).")
    if not splitter.promises >= WHOLE:
        raise SplitError(f"{spec.strategy} has no other folds that test each row once by a model of all other rows.")
    name = {"strategy": spec.strategy, "params": spec.params}
    strategy = spec.params["strategy"] if isinstance(splitter, Repeated) else name
    again = Repeated(strategy, n_repeats, random_state=spec.seed)
    again.inner()  # what cannot be repeated says so itself
    types = {name: kind for name, kind in manifest.types.items() if name in rows.column_names}
    repeated = spec.model_copy(
        update={"strategy": "Repeated", "params": {"strategy": strategy, "n_repeats": n_repeats},
                "holdout": None, "on_immature": "use", "types": spec.types | types}
    )  # fmt: skip
    plan = Plan(repeated, rows)
    keys = None if manifest.keys is None else manifest.keys.take(pa.array(manifest.in_use.unlocked))
    if keys is not None and not plan.table.select(plan.key).equals(keys.cast(plan.table.select(plan.key).schema)):
        raise SplitError(f"the keys of the rows are not those of {manifest.name} {manifest.version}.")
    return np.asarray(again.decide(plan.rows()))[:, manifest.membership.n_repeats :]


# Of the table of groups, with three classes, as it was seen at four million groups; more where groups are texts, of 14
# letters. And of each row its group and class.
BYTES_A_GROUP, OF_TEXT, BYTES_OF_ROWS = 225, 110, 18


def _require_memory(plan: Plan, memory: str | int | None) -> None:
    """Raise SplitError where what a strategy is given of each row takes more than there is."""
    strategy, types = str(plan.spec.strategy), {field.name: field.type for field in plan.table.schema}
    if plan.packs_groups:
        group = str(plan.spec.columns.group)
        each, n = BYTES_A_GROUP + OF_TEXT * pa.types.is_large_string(types[group]), plan.n
        if n * (each + BYTES_OF_ROWS) > room_of(memory):  # to count groups is a pass over the rows
            n = len(numbered(plan.table.column(group))[1])
        require_rows(n, each + BYTES_OF_ROWS * plan.n // n, strategy, memory, "groups")
    elif not isinstance(plan.splitter, HashSplit) or plan.spec.holdout is not None:
        seen = [kind for name, kind in types.items() if plan.splitter.needs.key or name not in plan.key]
        bytes_a_row = 32 + sum(40 if pa.types.is_large_string(kind) else 8 for kind in seen)
        require_rows(plan.n, bytes_a_row, strategy, memory, instead=", or split by groups or HashSplit")

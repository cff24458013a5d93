"""Deciding, measuring and auditing a split wherever its rows lie: in memory, out of core, on a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, overload
from weakref import finalize

import pyarrow as pa
from evenfold.manifests.audits.audit import audit as audit_rows
from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.balance import measure as measure_rows
from evenfold.manifests.engines.deciding import StreamedPlan
from evenfold.manifests.engines.engine import EngineName, bytes_of_memory, engine_named, free_memory
from evenfold.manifests.engines.sources import Source, is_stream, source_of
from evenfold.manifests.engines.stored import StoredManifest, room_beside, write_streamed
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.figures import BalanceReport
from evenfold.manifests.growth.assign import Merged
from evenfold.manifests.growth.extend import MOST_MISSING, Extension, extend as extend_rows
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.plan import Plan, used_columns
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.store.write import write_manifest
from evenfold.manifests.tables.canonical import require_columns
from evenfold.splitters import SplitError

from .auditing import audited
from .beside import beside
from .growing import extended
from .measuring import measured, sizes_of

# What deciding takes in memory, measured at 10 million rows, as a multiple of the columns that are read.
TIMES_THE_COLUMNS = 6
BYTES_OF_MEMBER = 24  # of a key or a code of a row, while splits are made
TIMES_THE_TABLE = 4  # as it is read, in key order, as a frame, and as an array


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
    plan = planned(spec, data, engine=engine, memory=memory, to=to)
    if isinstance(plan, StreamedPlan):
        with plan.room:
            return write_streamed(plan, plan.decided, to)
    return StoredManifest(write_manifest(plan.decide(), to))


def planned(
    spec: Any, data: Any, *, engine: EngineName = "auto", memory: str | int | None = None, to: str | Path
) -> Plan:
    """Return the plan of a split, made in memory or out of core as ``decide`` does; nothing is decided yet.

    A ``StreamedPlan`` has the rows in key order below the folder ``to``; they are cleared when its ``room`` is left,
    when the plan is forgotten, and at the end of the process.
    """
    asked = read_spec(spec)
    source = source_of(data, dict(asked.types))
    engine = "memory" if engine == "auto" and _fits(asked, source, memory) else engine
    if engine == "memory":
        return Plan(asked, data if isinstance(data, (str, Path)) else _whole(asked, source))
    limit = bytes_of_memory(memory)
    with ExitStack() as stack:
        room = stack.enter_context(room_beside(to))
        plan = StreamedPlan(asked, source, engine_named(engine, source, limit), room, limit)
        plan.room = stack.pop_all()
    # Whoever fails to leave the room does not leave the rows on disk either.
    finalize(plan, plan.room.close)
    return plan


def held_manifest(folder: str | Path, data: Any, memory: str | int | None = None) -> Manifest | StoredManifest:
    """Return the manifest in ``folder``: in memory where it and the columns of ``data`` that are measured fit there.

    Where they would take more than ``memory`` (a quarter of what is free where it is None), it stays on disk. Raises
    SplitError for a damaged file either way.
    """
    stored = StoredManifest(Path(folder))
    return stored.prove() if stays_on_disk(stored, data, memory) else stored.read()


@overload
def asked_again(manifest: Manifest, gates: GateLimits, ignore: Mapping[str, str]) -> Manifest: ...
@overload
def asked_again(
    manifest: Manifest | StoredManifest, gates: GateLimits, ignore: Mapping[str, str]
) -> Manifest | StoredManifest: ...
def asked_again(
    manifest: Manifest | StoredManifest, gates: GateLimits, ignore: Mapping[str, str]
) -> Manifest | StoredManifest:
    """Return the manifest under these gates and reasons to ignore a check, in place of its own: they move no row."""
    spec = manifest.spec.model_copy(update={"gates": gates, "ignore": dict(ignore)})
    return replace(manifest, spec=spec) if isinstance(manifest, Manifest) else replace(manifest, asked=spec)


def stays_on_disk(stored: StoredManifest, data: Any, memory: str | int | None = None) -> bool:
    """Return whether a manifest is worked on out of core: it can be, and takes more than ``memory`` with its data."""
    if not stored.streams:
        return False
    source = source_of(data, dict(stored.spec.types))
    rows = max(stored.n, source.n_rows or 0)
    return not _holds(replace(source, n_rows=rows), stored.spec.columns.roles(), memory)


def fits_whole(stored: StoredManifest, source: Source | None, memory: str | int | None = None) -> bool:
    """Return whether a manifest and all columns of its data, or its own rows alone, fit into ``memory``."""
    if source is None:
        return stored.n * BYTES_OF_MEMBER * max(len(stored.column_names), 1) <= bytes_of_memory(memory)
    if is_stream(source.native):
        return False
    return not stays_on_disk(stored, source, memory) and _holds(source, source.schema.names, memory)


def _fits(spec: SplitSpec, source: Source, memory: str | int | None) -> bool:
    """Return whether the split is decided in memory: it takes little of it, or the strategy knows no other way."""
    if type(source.native).__module__.partition(".")[0] in ("dask", "pyspark"):
        return False
    known = spec.says_when_known or spec.may_wait or spec.columns.entities
    if known or (spec.strategy and spec.splitter().in_memory_because):
        return True
    return _holds(source, used_columns(spec, spec.splitter().needs) if spec.strategy else spec.columns.roles(), memory)


def _holds(source: Source, names: list[str], memory: str | int | None) -> bool:
    # What is not there, or there twice, whoever reads it says.
    taken = source.bytes_of([name for name in names if source.schema.get_field_index(name) >= 0])
    return taken is not None and taken * TIMES_THE_COLUMNS <= bytes_of_memory(memory)


class NoRoomError(SplitError):
    """A table takes more memory than there is."""


def require_room(data: Any, memory: str | int | None = None, columns: Collection[str] | None = None) -> None:
    """Raise NoRoomError where ``columns`` of ``data`` would take more than ``memory`` (all that is free) in a model.

    All columns where None are named. The rows of CSV are judged by the length of its first lines, compressed or not; a
    table of which only a reader to the end would know them, such as a lazy frame, is not judged.
    """
    source = source_of(data)
    names = [name for name in source.schema.names if columns is None or name in columns]
    taken = source.bytes_of(names)
    limit = free_memory() if memory is None else bytes_of_memory(memory)
    if taken is not None and taken * TIMES_THE_TABLE > limit:
        rows = f"about {source.about_rows:,}" if source.n_rows is None else f"{source.n_rows:,}"
        fewer = "rows" if columns is not None else "rows, or name fewer features"
        raise NoRoomError(
            f"{rows} rows of {len(names)} columns take about {taken * TIMES_THE_TABLE / 2**30:.3g} GB as a model is "
            f"given them, and {limit / 2**30:.3g} GB are at hand; pass a table with fewer {fewer}."
        )


def _whole(spec: SplitSpec, source: Source) -> pa.Table:
    roles = dict.fromkeys([*spec.columns.roles(), *spec.types])
    names = [name for name in roles if name in source.schema.names] or source.schema.names[:1]
    return pa.concat_tables(source.batches(names), promote_options="permissive")


def measure(manifest: Manifest | StoredManifest, data: Any = None, *, memory: str | int | None = None) -> BalanceReport:
    """Return how even ``manifest`` is on ``data`` (whatever ``decide`` takes); sizes alone without data.

    A manifest in memory is measured in memory: data are read once and joined once. One on disk (``StoredManifest``)
    is measured out of core, in at most ``memory``, with the same figures: classes and groups are counted by fold in
    one reading, and a numeric target is sorted. Raises SplitError where data are not the rows of the manifest, and
    where the target or the group column has holes. O(n log n + splits x n).
    """
    if isinstance(manifest, Manifest) or not manifest.streams:
        return measure_rows(manifest if isinstance(manifest, Manifest) else read_whole(manifest, memory), data)
    if data is None:
        return sizes_of(manifest)
    with beside(manifest, data, memory) as rows:
        return measured(rows)


@overload
def extend(
    manifest: Manifest,
    data: Any,
    *,
    batch: bool = False,
    merged: Merged = "quarantine",
    max_missing: float = MOST_MISSING,
    memory: str | int | None = None,
) -> Extension[Manifest]: ...
@overload
def extend(
    manifest: StoredManifest,
    data: Any,
    *,
    batch: bool = False,
    merged: Merged = "quarantine",
    max_missing: float = MOST_MISSING,
    memory: str | int | None = None,
    staged: Path | None = None,
) -> Extension[StoredManifest]: ...
def extend(
    manifest: Manifest | StoredManifest,
    data: Any,
    *,
    batch: bool = False,
    merged: Merged = "quarantine",
    max_missing: float = MOST_MISSING,
    memory: str | int | None = None,
    staged: Path | None = None,
) -> Extension[Manifest] | Extension[StoredManifest]:
    """Return ``manifest`` with the new rows of ``data`` assigned: the next minor version.

    ``data`` is the whole current table, and rows of the manifest that it lacks become deleted; with ``batch`` it holds
    new rows only. More than ``max_missing`` of the known rows missing is refused. New rows of a known group follow it;
    new groups are packed into what the folds lack; rows without groups fill what their class lacks. A changed class
    moves nothing. Rows whose targets are not known yet wait, and join when they are. Groups that turn out to be one are
    quarantined (in no split from now on, their folds kept) unless ``merged="accept"``.

    A manifest on disk (``StoredManifest``) is extended out of core, in at most ``memory``, by whatever ``decide``
    takes, and its next version written beside it: rows that are new or gone are held in memory, and no others.
    ``staged``: a folder that it stays in until somebody settles it, see ``appear``.

    Promises: every row that had a fold has the same fold, in memory proved by making the parent's split_id anew from
    the older generations, on disk by taking over their files, whose SHA-256 is proved; the order of rows in ``data``
    does not matter, and neither does where it is done; nothing new gives the manifest itself. Raises SplitError without
    a key column, for a strategy that cannot grow, where a key repeats, and where rows are missing. O(n log n), and a
    vectorised step per new group.
    """
    if isinstance(manifest, Manifest):
        return extend_rows(manifest, data, batch=batch, merged=merged, max_missing=max_missing)
    if manifest.streams:
        return extended(manifest, data, batch, merged, max_missing, memory, staged)
    known = read_whole(manifest, memory)
    grown = extend_rows(known, data, batch=batch, merged=merged, max_missing=max_missing)
    written = manifest if grown.manifest is known else _written(grown.manifest, manifest, staged)
    numbers = (grown.added, grown.deleted, grown.returned, grown.quarantined, grown.moved)
    return Extension(written, *numbers, grown.notes)


def _written(grown: Manifest, before: StoredManifest, staged: Path | None) -> StoredManifest:
    return StoredManifest(write_manifest(grown, before.folder.parent.parent, staged))


def read_whole(manifest: StoredManifest, memory: str | int | None = None) -> Manifest:
    """Return a manifest as what needs all of its rows at once takes it; SplitError beyond ``memory``."""
    limit, needed = bytes_of_memory(memory), manifest.n * BYTES_OF_MEMBER * max(len(manifest.column_names), 1)
    if needed > limit and manifest.streams:
        raise SplitError(
            f"{manifest.name} {manifest.version} and its {manifest.n:,} rows take about {needed / 2**30:.1f} GB in "
            f"memory, and {limit / 2**30:.1f} GB are allowed; allow more, or export to csv, h2o, autogluon or spark, "
            "which are written row after row."
        )
    if needed > limit:
        raise SplitError(
            f"{manifest.name} {manifest.version} holds {manifest.kind} that are made from all of its {manifest.n:,} "
            f"rows at once, about {needed / 2**30:.1f} GB, and {limit / 2**30:.1f} GB are allowed; allow more memory, "
            "or split into folds, which are read row after row."
        )
    return manifest.read()


def audit(
    manifest: Manifest | StoredManifest,
    data: Any,
    *,
    features: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    gates: Mapping[str, Any] | None = None,
    target: str | None = None,
    group: str | None = None,
    time: str | None = None,
    ignore: Mapping[str, str] | None = None,
    impact: bool = False,
    memory: str | int | None = None,
) -> Audit:
    """Return what is wrong with ``manifest`` as a split of ``data`` (whatever ``decide`` takes, in any row order).

    ``features`` are the columns that a model would see: by default every number, truth value and category that plays
    no other part, without those to ``exclude``. ``gates`` changes limits (``GATES`` has the defaults): a number, beyond
    which the audit fails, or "off"; they go over those of the specification. ``target``, ``group`` and ``time`` ask
    about columns that the split was not made by: "do patients leak in this random split?" ``ignore`` maps a check's
    number (``EF205``) to the reason why what it finds is no fault; it goes over that of the specification, and what was
    found is told with the reason. ``impact`` says what a leak costs: the score of a small model as split, and mended.

    Of a manifest on disk (``StoredManifest``) the checks that counts answer are asked, in at most ``memory``, with
    the same figures; those that compare rows with one another say that they were not asked.

    Promises: every check gives a finding, passes, or says why it was not asked or could not run; a check that could
    not run has not passed. Raises SplitError where the data cannot be joined at all, for an unknown column in
    ``features`` and for an unknown gate. O(n log n).
    """
    if isinstance(manifest, Manifest) or not manifest.streams:
        made = manifest if isinstance(manifest, Manifest) else read_whole(manifest, memory)
        return audit_rows(
            made, data, features=features, exclude=exclude, gates=gates, target=target, group=group, time=time,
            ignore=ignore, impact=impact,
        )  # fmt: skip
    if impact:
        raise SplitError("what a leak costs is found by fitting models to rows in memory; pass manifest.read().")
    require_columns([*(features or []), *exclude], source_of(data, dict(manifest.spec.types)).schema.names)
    with beside(manifest, data, memory, target=target, group=group, time=time) as rows:
        return audited(rows, gates=gates, ignore=ignore)

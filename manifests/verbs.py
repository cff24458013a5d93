"""Deciding, measuring, auditing and growing a split, in memory or on disk, wherever the rows of its data lie."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
from evenfold.splitters import HashSplit, SplitError

from .audits.audit import audit as audit_rows
from .audits.findings import Audit
from .balance import measure as measure_rows
from .engines.engine import EngineName, engine_named, spilled
from .fields import GateLimits
from .figures import BalanceReport
from .growth.assign import Merged
from .growth.extend import MOST_MISSING, Extension, extend as extend_rows
from .manifest import Manifest
from .plan import Plan, used_columns
from .spec import SplitSpec, read_spec
from .store.stored import LOOKED_AT, StoredManifest, in_memory
from .store.write import write_manifest
from .tables.addresses import Source
from .tables.canonical import InKeyOrder, require_columns
from .tables.limits import bytes_of_memory, fits_in_memory, require_rows
from .tables.read import no_rows
from .tables.source import held_or_source, source_of


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
    return StoredManifest(write_manifest(plan.decide(), to))


def planned(
    spec: Any, data: Any, *, engine: EngineName = "auto", memory: str | int | None = None, to: str | Path
) -> Plan:
    """Return the plan of a split, its columns in memory or sorted on the disk of ``to``; nothing is decided yet.

    What was sorted there takes its room until the plan is forgotten, and has no name.
    """
    asked = read_spec(spec)
    source = source_of(data, dict(asked.types))
    require_columns([*asked.columns.roles(), *asked.types], source.schema.names)
    names = used_columns(asked, asked.splitter().needs) if asked.strategy else asked.columns.roles()
    if engine == "auto" and not _is_on_cluster(source):
        fits = fits_in_memory(source, names or source.schema.names[:1], memory)
        engine = "memory" if fits else engine
    if engine == "memory":
        return Plan(asked, data if isinstance(data, (str, Path)) else _whole(asked, source))
    sorter = engine_named(engine, source, bytes_of_memory(memory))
    if not names:
        return Plan(asked, InKeyOrder(_numbered(source)))
    table = spilled(source, names, asked.types, asked.columns.key, sorter, to)
    try:
        plan = Plan(asked, table)
    except SplitError as error:
        # The places that it names are those of sorted rows.
        raise type(error)(f"{error}{IN_KEY_ORDER if 'first at' in str(error) else ''}") from None
    _require_memory(plan, memory)
    return plan


IN_KEY_ORDER = " Rows are counted in key order."


def _require_memory(plan: Plan, memory: str | int | None) -> None:
    """Raise SplitError where what a strategy is given of each row takes more than there is."""
    by_key = isinstance(plan.splitter, HashSplit) and plan.spec.holdout is None
    if by_key or (plan.splitter.by_group_table and plan.spec.columns.group):
        return
    given = plan.table.drop_columns(
        [] if plan.splitter.needs.key else [name for name in plan.key if name in plan.types]
    )
    bytes_a_row = 32 + sum(40 if pa.types.is_large_string(kind) else 8 for kind in given.schema.types)
    require_rows(plan.table.num_rows, bytes_a_row, str(plan.spec.strategy), memory)


def _is_on_cluster(source: Source) -> bool:
    return type(source.native).__module__.partition(".")[0] in ("dask", "pyspark")


def _numbered(source: Source) -> pa.Table:
    """Return the rows as nothing but their numbers."""
    rows = sum(part.num_rows for part in source.batches(source.schema.names[:1]))
    if not rows:
        raise no_rows("the table")
    return pa.table({"row": np.arange(rows)})


def held_manifest(folder: str | Path, memory: str | int | None = None) -> Manifest:
    """Return the manifest in ``folder``, proved; SplitError for a damaged file, and beyond ``memory``."""
    return in_memory(StoredManifest(Path(folder)), memory)


def asked_again(manifest: Manifest, gates: GateLimits, ignore: Mapping[str, str]) -> Manifest:
    """Return the manifest under these gates and reasons to ignore a check, in place of its own: they move no row."""
    return replace(manifest, spec=manifest.spec.model_copy(update={"gates": gates, "ignore": dict(ignore)}))


def _whole(spec: SplitSpec, source: Source) -> pa.Table:
    roles = dict.fromkeys([*spec.columns.roles(), *spec.types])
    names = [name for name in roles if name in source.schema.names] or source.schema.names[:1]
    return pa.concat_tables(source.batches(names), promote_options="permissive")


def measure(manifest: Manifest | StoredManifest, data: Any = None, *, memory: str | int | None = None) -> BalanceReport:
    """Return how even ``manifest`` is on ``data`` (whatever ``decide`` takes); sizes alone without data.

    Data are read once, the columns of its roles alone, and joined once. Raises SplitError where data are not the rows
    of the manifest, where the target or the group column has holes, and where the rows take more than ``memory`` (all
    that is free where it is None). O(n log n + splits x n).
    """
    return measure_rows(in_memory(manifest, memory, LOOKED_AT), held_or_source(data))


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
) -> Extension[StoredManifest]: ...
def extend(
    manifest: Manifest | StoredManifest,
    data: Any,
    *,
    batch: bool = False,
    merged: Merged = "quarantine",
    max_missing: float = MOST_MISSING,
    memory: str | int | None = None,
) -> Extension[Manifest] | Extension[StoredManifest]:
    """Return ``manifest`` with the new rows of ``data`` assigned: the next minor version.

    ``data`` is the whole current table, and rows of the manifest that it lacks become deleted; with ``batch`` it holds
    new rows only. More than ``max_missing`` of the known rows missing is refused. New rows of a known group follow it;
    new groups are packed into what the folds lack; rows without groups fill what their class lacks. A changed class
    moves nothing. Rows whose targets are not known yet wait, and join when they are. Groups that turn out to be one are
    quarantined (in no split from now on, their folds kept) unless ``merged="accept"``.

    A manifest on disk (``StoredManifest``) is read for it, and its next version written beside it.

    Promises: every row that had a fold has the same fold, proved by making the parent's split_id anew from the older
    generations; the order of rows in ``data`` does not matter; nothing new gives the manifest itself. Raises SplitError
    without a key column, for a strategy that cannot grow, where a key repeats, where rows are missing, and where the
    rows take more than ``memory`` (all that is free where it is None). O(n log n), and a vectorised step per new group.
    """
    known = in_memory(manifest, memory)
    grown = extend_rows(known, held_or_source(data), batch=batch, merged=merged, max_missing=max_missing)
    if isinstance(manifest, Manifest):
        return grown
    root = manifest.folder.parent.parent
    return grown.of(manifest if grown.manifest is known else StoredManifest(write_manifest(grown.manifest, root)))


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

    Promises: every check gives a finding, passes, or says why it was not asked or could not run; a check that could
    not run has not passed. Raises SplitError where the data cannot be joined at all, for an unknown column in
    ``features``, for an unknown gate, and where the rows take more than ``memory`` (all that is free where it is None).
    O(n log n), and O(n) for each of at most 200 draws or pairs; the features are read block by block, with 8 bytes a
    row kept.
    """
    return audit_rows(
        in_memory(manifest, memory, LOOKED_AT), held_or_source(data), features=features, exclude=exclude, gates=gates,
        target=target, group=group, time=time, ignore=ignore, impact=impact,
    )  # fmt: skip

"""The tasks of splits: decide once and find what was decided, audit it; judge the next table, let its rows join."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Unpack

from evenfold.estimates import ModelSpec
from evenfold.manifests import Audit, Extension, Manifest, Plan, Snapshot, SplitSpec, StoredManifest, digest_json
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.growth.extend import MOST_MISSING
from evenfold.manifests.store.stored import asked_again, in_memory, require_memory
from evenfold.manifests.store.versions import version_in, versions_below
from evenfold.manifests.tables.read import stamp
from evenfold.splitters import SplitError
from evenfold.splitters.base import ONE_OF
from evenfold.tasks import plans
from evenfold.tasks.outcomes import Champion, Growth, SplitAudit, SplitRef
from evenfold.tasks.parameters import Data, DataEngine, Memory, Merged, OnRefused, Spec
from evenfold.tasks.references import OfSplit, manifest_folder, write
from evenfold.tasks.requests import SplitFields, flat
from evenfold.tasks.runtime.home import Home, Settings, data_reference, locked
from evenfold.tasks.runtime.limits import unlogged
from evenfold.tasks.steps import is_refreshing, step
from evenfold.tasks.store import bucket_of, remember

from evenfold import manifests


def _planned(
    data: Any, spec: Any = None, *, data_engine: DataEngine = "auto", memory: Memory = None, **columns: Any
) -> tuple[Plan, str]:
    path = manifests.from_anywhere(data_reference(data, Home.here()))
    spec = manifests.specification(path if isinstance(data, (str, Path)) else data, spec, **columns)
    return plans.plan_of(spec, path, data_engine, memory), path


def _key(data: Any, spec: Any = None, **columns: Any) -> str:
    plan, path = _planned(data, spec, **columns)
    # With name and place: one plan under two names is two folders, and what is returned names its table.
    identity: list[object] = [plan.plan_id, plan.spec.name, path]
    identity += [part for part in (plan.spec.gates, plan.spec.ignore, [*plan.splitter.part_codes()]) if part]
    return f"split/{digest_json(identity)}"


def _title(data: Any, spec: Any = None, **columns: Any) -> str:
    if not isinstance(data, (str, Path)):  # it would be written as a file for its title alone
        return "decide the split of a frame"
    plan, _ = _planned(data, spec, **columns)
    what = f"{ONE_OF[plan.splitter.kind]}s of {plan.spec.name}"
    return f"decide {what} ({plan.algorithm['name']} v{plan.algorithm['version']})"


@step(key_of=_key, run_name=_title)
@flat
def split(data: Data, spec: Spec = None, **fields: Unpack[SplitFields]) -> SplitRef:
    """Decide the split of ``data``, write its manifest below the home, and return what names it.

    The same rows and rules are decided once, by the columns that the strategy reads, the specification and the
    strategy's version: a plan that was decided before gives its folder, made anew where it is damaged, and another one
    of the same name the next major version. A table that takes more than ``memory`` is sorted out of core by DuckDB, or
    by ``data_engine``: the manifest is the same. Raises SplitError.
    """
    plan, path = _planned(data, spec, **fields)
    decided = plans.placed(plan, path, again=is_refreshing())
    remember(plans.preimage_of(plan))
    return decided


@step(key_of=plans.audit_key, run_name=lambda split, **_: f"audit {split.name}", retries=0)
def audit_split(
    split: SplitRef, *, features: list[str] | None = None, gates: GateLimits | None = None, memory: str | None = None,
    build: str | None = None,
) -> SplitAudit:  # fmt: skip
    """Say what is wrong with a split of its data: leaks, rows that do not fit, uneven folds. Raises SplitError.

    The findings are kept until the manifest or a file of its data is written again, but for a check that could not run.
    ``build``, the import path of a function that makes features, is audited as well, and kept until its code changes.
    """
    columns, limit, data = plans.named_features(split, features), Settings.memory_of(memory), plans.table_of(split)
    manifest: Manifest = split.stored()
    if split.gates is not None:
        manifest = asked_again(in_memory(manifest, limit), split.gates, split.ignore or {})
    with unlogged():
        audit = manifests.audit(manifest, data, features=columns, gates=gates, memory=limit, build=build)
    remember(plans.preimage_of_audit(split, features, gates, build))
    return SplitAudit(**dict(audit))


def newest(
    home: Home, spec: SplitSpec, champion: Champion | None = None, on_refused: OnRefused = "stop"
) -> Path | None:
    """Return the version that new rows join: of the champion's line, or without a champion the name's newest.

    A line is a split and what grew from it. Raises SplitError where the champion's is not here or has other rules than
    ``spec``, unless ``on_refused`` allows another one; None where the newest has other rules too.
    """
    if bucket := bucket_of(home):
        bucket.fetch_splits(spec.name)
    versions = {version_in(path.name): (path, header) for path, header in versions_below(home.splits, spec.name)}
    if champion and (split_id := champion.tags.get("evenfold.split_id")):
        same = [version for version, (_, header) in versions.items() if header["split_id"] == split_id]
        of_tag = [each for each in same if f"{spec.name}@{each[0]}.{each[1]}" == champion.tags.get("evenfold.spec")]
        line = {version[0] for version in sorted(of_tag or same)[-1:]}
        end = max((version for version in versions if version[0] in line), default=None)
        if end and _has_rules(versions[end][0], spec):
            return versions[end][0]
        if on_refused == "stop":
            was = champion.tags.get("evenfold.spec", split_id[:12])
            problem = "has other rules than are asked for" if end else f"is not among the splits in {home.splits}"
            raise SplitError(
                f"version {champion.version} of {champion.name}, the champion, stands on {was}, which {problem}. The "
                "retraining stopped: another split forgets which rows were tested; to go on with one, say "
                "on_refused='new_major' (--on-refused new_major)."
            )
    last = versions[max(versions)][0] if versions else None
    return last if last and _has_rules(last, spec) else None


def _has_rules(folder: Path, spec: SplitSpec) -> bool:
    stored = StoredManifest(folder).prove()
    same = stored.spec.decision(stored.types) == spec.decision(stored.types)
    return same and [*stored.spec.splitter().part_codes()] == [*spec.splitter().part_codes()]


@step(run_name=lambda data, **_: f"look at {Path(data).name}", retries=0)
def check_table(
    folder: str, data: str, *, recipe: ModelSpec, merged: Merged = "quarantine", gates: GateLimits | None = None
) -> Audit:
    """Say what is wrong with ``data`` as the next table after those of the manifest in ``folder``. Raises SplitError.

    Rows that vanished, changed targets, columns that the recipe may read, the new rows' number and targets, groups that
    merge. ``gates``: in place of the manifest's.
    """
    manifest = manifests.read_manifest(folder)
    snapshot = Snapshot.newest(manifest, Path(folder).parent, Home.here().snapshots)
    columns = recipe.features
    if columns is None and snapshot is not None:
        columns = tuple(name for name in snapshot.types if name not in recipe.exclude)
    quarantined = 0
    if manifest.spec.columns.grouped and merged == "quarantine":
        with suppress(SplitError):  # what cannot be extended is refused where it is extended, with its own sentence
            quarantined = extension_of(folder, data, False, merged, 1).quarantined
    manifest = manifest if gates is None else asked_again(manifest, gates, manifest.spec.ignore)
    return manifests.check_arrival(manifest, data, snapshot, columns=columns, quarantined=quarantined)


# What an extension says of a table besides how many rows joined; what stops a retraining is for its gates.
TOLD = ("changed_targets", "lost_columns", "unseen_categories")
MOST_ROWS = 1_000_000  # of a table that a split or an extension reads whole for what the next one is compared with


def notes_on(folder: Path, data: str, memory: str | None = None) -> list[str]:
    """Return how ``data`` differ from the table that the manifest in ``folder`` last met, in sentences.

    Corrected targets, columns that are gone or of another kind, values that no known row had; nothing where nothing was
    kept of that table, and where this one takes more than ``memory``.
    """
    manifest = StoredManifest(folder)
    fits = manifests.fits_in_memory(data, manifest.spec.columns.roles(), Settings.memory_of(memory))
    snapshot = Snapshot.newest(manifest, folder.parent, Home.here().snapshots) if fits else None
    if snapshot is None:
        return []
    checked = manifests.check_arrival(manifest, data, snapshot)
    messages = checked.passed | {finding.check: finding.message for finding in checked.findings}
    return [messages[check] for check in TOLD if messages.get(check)]


def keep_small_snapshot(split: SplitRef, memory: str | None = None) -> None:
    """Keep what the next table is compared with, where rows have keys, are at most a million and fit into memory."""
    columns = split.stored().spec.columns
    small = columns.key and split.n_rows <= MOST_ROWS
    if small and manifests.fits_in_memory(split.data, columns.roles(), Settings.memory_of(memory)):
        keep_snapshot(split)


def keep_snapshot(split: SplitRef) -> None:
    """Keep of the table that was split what the next one is compared with."""
    Snapshot.of(split.manifest(), split.data).keep(Home.here().snapshots)


def extension_of(manifest: str, data: str, batch: bool, merged: Merged, max_missing: float) -> Extension:
    """Return the extension; the same folder and file are read once per process."""
    state = (*stamp(data), manifests.read_header(Path(manifest))["split_id"])
    return _extension(manifest, data, state, batch, merged, max_missing)


@lru_cache(maxsize=1)
def _extension(
    manifest: str, data: str, _state: tuple[object, ...], batch: bool, merged: Merged, max_missing: float
) -> Extension:
    read = manifests.read_manifest(manifest)
    return manifests.extend(read, data, batch=batch, merged=merged, max_missing=max_missing)


@step(run_name=lambda manifest, **_: f"extend {manifest_folder(manifest).parent.name}", retries=0)
def extend(
    manifest: Manifest | SplitRef | OfSplit | str | Path, data: Data, *, batch: bool = False,
    merged: Merged = "quarantine", max_missing: float = MOST_MISSING, memory: Memory = None, staged: str = "",
) -> Growth:  # fmt: skip
    """Extend a manifest by the new rows of ``data``, write the next version beside it, and return what happened.

    ``manifest``: what ``split`` returns, a name such as ``visits@1.0``, or the folder. No assigned row moves; the same
    data make the same version. ``staged``: the folder in which a new one stays until it is committed. SplitError, also
    where the rows take more than ``memory``.
    """
    folder, home, aside = manifest_folder(manifest), Home.here(), Path(staged) if staged else None
    path = manifests.from_anywhere(data_reference(data, home))
    with locked(home.locks, f"name/{folder.parent.name}"):
        require_memory(StoredManifest(folder), Settings.memory_of(memory))
        grown = extension_of(str(folder), path, batch, merged, max_missing)
        reused = folder.with_name(grown.manifest.version).exists()
        written = folder if grown.manifest.uri else write(grown.manifest, folder.parent.parent, aside)
    return Growth(
        split=SplitRef.of(StoredManifest(written), path, reused, aside),
        parent_split_id=grown.manifest.parent_split_id,
        notes=list(grown.notes),
        **{name: getattr(grown, name) for name in ("added", "deleted", "returned", "quarantined", "moved")},
    )


@step(run_name=lambda spec, **_: f"stage the split {spec.name}", retries=0)
def stage_split(data: str, spec: SplitSpec, staged: str) -> SplitRef:
    """Decide the first split of a name, or its next major version, ``staged`` until it is committed. SplitError."""
    path = manifests.from_anywhere(data)
    return plans.placed(plans.plan_of(spec, path), path, Path(staged), is_refreshing())

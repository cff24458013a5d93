"""Whether a table looks like the next one: asked before anything is learnt from it, and told where a split grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenfold.estimates import ModelSpec
from evenfold.manifests import Audit, Snapshot, check_arrival, extend, read_header, read_manifest
from evenfold.splitters import SplitError

from .outcomes import SplitRef
from .parameters import Merged
from .results.files import write_aside
from .runtime.home import Home
from .runtime.step import step


def _snapshot_of(split_id: str) -> Path:
    return Home.here().shared / "snapshots" / f"{split_id}.parquet"


def _name_of(known: str, data: str, **_: Any) -> str:
    return f"look at {Path(data).name}"


@step(run_name=_name_of, retries=0)
def check_table(
    known: str, data: str, *, recipe: ModelSpec, merged: Merged = "quarantine", gates: Mapping[str, Any] | None = None
) -> Audit:
    """Say what is wrong with ``data`` as the next table after those that the manifest in ``known`` is of.

    It is compared with what was kept of the last one: rows that vanished, targets that changed, columns that the
    recipe may read, the new rows' number and targets, groups that merge. Raises SplitError.
    """
    manifest = read_manifest(known)
    kept = _snapshot_of(manifest.split_id)
    snapshot = Snapshot.read(kept) if kept.exists() else None
    columns = recipe.features
    if columns is None and snapshot is not None:
        columns = tuple(name for name in snapshot.types if name not in recipe.exclude)
    grouped = bool(manifest.spec.columns.grouped) and merged == "quarantine"
    return check_arrival(
        manifest,
        data,
        snapshot,
        columns=columns,
        quarantined=_quarantined(manifest, data) if grouped else 0,
        gates=gates,
    )


def _quarantined(manifest: Any, data: str) -> int:
    try:
        return extend(manifest, data, max_missing=1).quarantined
    except SplitError:  # what cannot be extended is refused where it is extended, with its own sentence
        return 0


# What an extension says of a table besides how many rows joined; what stops a retraining is for its gates.
TOLD = ("changed_targets", "lost_columns", "changed_types", "unseen_categories")
MOST_ROWS = 1_000_000  # of a table that a split or an extension reads whole for what the next one is compared with


def notes_on(folder: Path, data: str) -> list[str]:
    """Return what differs in ``data`` from the table that the manifest in ``folder`` last met, in sentences.

    Corrected targets of known rows, columns that are gone or of another type, values that no known row had. Nothing
    where nothing was kept of that table, as of one without a key or of more than a million rows.
    """
    kept = _snapshot_of(str(read_header(folder)["split_id"]))
    if not kept.exists():
        return []
    found = check_arrival(read_manifest(folder), data, Snapshot.read(kept))
    return [finding.message for finding in found.findings if finding.check in TOLD]


def keep_small_snapshot(split: SplitRef) -> None:
    """Keep what the next table is compared with, where rows have keys and there are at most a million of them."""
    if split.n_rows <= MOST_ROWS and split.stored().spec.columns.key:
        keep_snapshot(split)


def keep_snapshot(split: SplitRef) -> None:
    """Keep of the table that was split what the next one is compared with, for the owner of the results alone."""
    place = _snapshot_of(split.split_id)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_aside(place, Snapshot.of(split.manifest(), split.data).write)

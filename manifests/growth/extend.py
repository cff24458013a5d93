"""Growing a manifest: new rows join, no assigned row or group ever changes its fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.manifest import ACTIVE, DELETED, QUARANTINED, Manifest
from evenfold.manifests.membership import LOCKED
from evenfold.manifests.plan import Plan
from evenfold.manifests.store.stored import StoredManifest, in_memory, manifest_of, written
from evenfold.manifests.tables.canonical import amount, digests_of, fingerprint, listed, verb
from evenfold.splitters import Predefined, Repeated, SplitError, all_strategies
from numpy.typing import NDArray

from .assign import Arrival, Assignment, Merged, grow

GROWING_VERSION = 2  # raised whenever new rows would get other folds than before; part of a grown plan_id


@dataclass(frozen=True)
class Extension:
    """A grown manifest and what happened, in numbers and sentences; ``moved``, older rows of another fold, is 0."""

    manifest: Manifest
    added: int = 0
    deleted: int = 0
    returned: int = 0
    quarantined: int = 0
    moved: int = 0
    notes: tuple[str, ...] = ()


# A table that lacks more of the known rows is more often cut short, or a month's alone, than really that much smaller.
MOST_MISSING = 0.1


def extend(
    manifest: Any, data: Any, *, batch: bool = False, merged: Merged = "quarantine",
    max_missing: float = MOST_MISSING, memory: str | int | None = None,
) -> Extension:  # fmt: skip
    """Return ``manifest`` with the new rows of ``data`` assigned: the next minor version.

    ``data`` is the whole current table, and rows of the manifest that it lacks become deleted; with ``batch`` it holds
    new rows only. More than ``max_missing`` of the known rows missing is refused. New rows of a known group follow it;
    new groups are packed into what the folds lack; rows without groups fill what their class lacks. A changed class
    moves nothing. Rows whose targets are not known yet wait, and join when they are. Groups that turn out to be one are
    quarantined (in no split from now on, their folds kept) unless ``merged="accept"``.

    The next version of a manifest on disk (``StoredManifest``) is written beside it.

    Promises: every row that had a fold has the same fold, proved by making the parent's split_id anew from the older
    generations; the order of rows in ``data`` does not matter; nothing new gives the manifest itself. Raises SplitError
    without a key column, for a strategy that cannot grow, where a key repeats, where rows are missing, and where the
    rows take more than ``memory`` (all that is free where it is None). O(n log n), and a vectorised step per new group.
    """
    manifest = manifest_of(manifest)
    whole = in_memory(manifest, memory)
    grown = _grown(whole, data, batch, merged, max_missing)
    if not isinstance(manifest, StoredManifest):
        return grown
    same, root = grown.manifest is whole, manifest.folder.parent.parent
    return replace(grown, manifest=manifest if same else written(grown.manifest, root))


def _grown(manifest: Manifest, data: Any, batch: bool, merged: Merged, max_missing: float) -> Extension:
    _require_growable(manifest)
    assert manifest.keys is not None
    arrival = Arrival(manifest, data, batch)
    _require_present(manifest, arrival.gone.size, max_missing)
    growth = grow(manifest, arrival, merged)
    torn = arrival.keys.take(growth.torn if merged == "quarantine" else growth.torn[:0])
    gone, back = (manifest.keys.take(rows) for rows in (arrival.gone, arrival.back))
    status = np.repeat([DELETED, ACTIVE, QUARANTINED], [keys.num_rows for keys in (gone, back, torn)]).astype(np.int8)
    changes = pa.concat_tables([gone, back, torn]).append_column("status", pa.array(status)).combine_chunks()
    waiting, notes = arrival.waiting, growth.notes
    if arrival.new.size == changes.num_rows == 0 and manifest.waiting == waiting:
        return Extension(manifest, notes=notes or ("there is nothing new.",))
    child = _child(manifest, arrival, growth, changes)
    title = f"{manifest.name} {manifest.version}"
    older = child.at_generation(manifest.generation)
    if older.split_id != manifest.split_id:
        moved = int((older.membership.codes != manifest.membership.codes).any(axis=1).sum())
        raise SplitError(f"extending {title} would move {moved:,} rows; it was not extended.")
    if (child.in_use.column() < LOCKED).all():
        why = f"extending {title} would leave no row in use: each would be deleted or quarantined"
        raise SplitError(f"{why}; it was not extended. Look at the groups in the data, or split them anew.")
    if waiting is not None:
        n, are = waiting.num_rows, verb(waiting.num_rows, "its target is", "their targets are")
        notes += (f"{amount(n, 'row')} {verb(n, 'waits', 'wait')} until {are} known.",)
    now, older_rows = child.status == QUARANTINED, child.generations <= manifest.generation
    now[older_rows] &= manifest.status != QUARANTINED  # one that was, and is gone, makes none of the others undone
    sizes = {"added": arrival.new.size, "deleted": arrival.gone.size, "returned": arrival.back.size}
    return Extension(child, **sizes, quarantined=int(np.count_nonzero(now)), notes=notes)


def _require_growable(manifest: Manifest) -> None:
    name, title = manifest.algorithm["name"], f"{manifest.name} {manifest.version}"
    if manifest.keys is None:
        why = f"{title} has no key column, so new rows cannot be told from old ones"
        raise SplitError(f"{why}; split again with a key.")
    if not manifest.splitter.grows:
        growing = [strategy for strategy, of in all_strategies().items() if of.grows]
        raise SplitError(f"a split by {name} cannot grow without moving rows; one by {listed(growing, most=99)} can.")
    if isinstance(manifest.splitter, Predefined) and manifest.group_table is not None and manifest.state is None:
        why = f"groups of {title} lie in several of the folds that were given, so new rows of one would have no fold"
        raise SplitError(f"{why} to follow; adopt them without a group, or split anew by it.")


def _require_present(manifest: Manifest, gone: int, most: float) -> None:
    n_known = np.count_nonzero(manifest.status != DELETED)
    if not 0 <= most <= 1:
        raise SplitError(f"max_missing={most!r}; choose a share of the known rows, 0 to 1.")
    if gone > most * n_known:
        least = np.ceil(100 * gone / n_known) / 100
        raise SplitError(
            f"{gone:,} of the {n_known:,} rows that {manifest.name} {manifest.version} knows ({gone / n_known:.1%}) "
            f"are not in the data, and at most {most:.0%} may be; if the data are new rows alone, say so (batch=True, "
            f"--batch), and if those rows are really gone, raise max_missing (--max-missing) to {least:g}."
        )


def _child(manifest: Manifest, arrival: Arrival, growth: Assignment, changes: pa.Table) -> Manifest:
    assert manifest.keys is not None
    generation = manifest.generation + 1
    both = pa.concat_tables([manifest.keys, arrival.keys.take(arrival.new)]).combine_chunks()
    order = pc.sort_indices(both, sort_keys=[(name, "ascending") for name in both.column_names]).to_numpy()
    keys = both.take(order).combine_chunks()
    joined = np.full(arrival.new.size, generation, dtype=np.int16)
    codes, content = manifest.membership.codes, fingerprint(digests_of(arrival.table), arrival.waiting)
    algorithm, parent = manifest.algorithm | {"growing": GROWING_VERSION}, manifest.split_id
    return manifest.altered(
        group_table=growth.groups,
        state=growth.state,
        version=f"{manifest.version.partition('.')[0]}.{generation}",
        parent_split_id=parent,
        fingerprint=content,
        algorithm=algorithm,
        plan_id=manifest.spec.plan_id(manifest.types, content, algorithm, parent),
        uri=None,
        # Old rows keep their codes and only change places: all else that is per row goes through the same order.
        membership=manifest.membership.with_rows(np.vstack([codes, growth.codes.astype(codes.dtype)])[order], keys),
        keys=keys,
        born=np.concatenate([manifest.generations, joined])[order],
        changes={**manifest.changes, **({generation: changes} if changes.num_rows else {})},
        waiting=arrival.waiting,
    )


def further_folds(manifest: Manifest, rows: pa.Table, n_repeats: int) -> NDArray[Any]:
    """Return the folds of the repeats that make a manifest's folds ``n_repeats``: rows by further repeats.

    ``rows``: the columns of the specification's roles, of the rows in use that are not locked, in key order. The
    strategy is the manifest's own under other seeds, as ``Repeated`` has it: groups stay whole, and asking for more
    repeats leaves the first ones as they are. Raises SplitError where the strategy has no other folds.
    """
    spec, splitter = manifest.spec, manifest.splitter
    if manifest.kind == "draws":
        raise SplitError(f"{spec.strategy} draws rows, and more draws of it are its repeats; ask for more (n_splits).")
    if not splitter.promises >= {"exhaustive", "trains_on_rest"}:
        raise SplitError(f"{spec.strategy} has no other folds that test each row by all others; split by KFold.")
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
    return np.asarray(again.assign(plan.rows()))[:, manifest.membership.n_repeats :]

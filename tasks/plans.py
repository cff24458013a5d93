"""Splits by their keys, decided now or before, and keys of audits: without tasks, so that a plan needs no Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import sklearn
from evenfold.manifests import Manifest, Plan, SplitSpec, StoredManifest, digest_json, from_anywhere
from evenfold.manifests.audits.sample import are_all_columns
from evenfold.manifests.exchange.changes import differences, split_parts
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.store.stored import LOOKED_AT, is_intact, require_memory
from evenfold.manifests.store.versions import next_major
from evenfold.manifests.tables.keys import WhichRows
from evenfold.manifests.tables.read import stamp
from evenfold.splitters.base import modules_of_strategy, strategy_code
from evenfold.splitters.errors import SplitError
from evenfold.splitters.naming import code_of, installed
from evenfold.tasks.runtime.home import Home, Settings, locked

from evenfold import manifests

from .outcomes import SplitRef
from .parameters import DataEngine, Folder, Memory
from .references import manifest_folder, write
from .store import Marks, Preimage, bucket_of, preimages_in


def plan_of(spec: SplitSpec, data: str, data_engine: DataEngine = "auto", memory: Memory = None) -> Plan:
    """Return the resolved plan; the same file and specification are read once per process."""
    state = *stamp(data), strategy_code(spec.strategy, spec.params)
    return _plan(spec, data, state, data_engine, Settings.memory_of(memory))


def require_splittable(spec: SplitSpec, data: str, data_engine: DataEngine = "auto", memory: Memory = None) -> Plan:
    """Return the plan; SplitError where it cannot be decided, or who measures it would take more than ``memory``."""
    plan = plan_of(spec, data, data_engine, memory)
    plan.check()
    require_memory(plan, Settings.memory_of(memory), LOOKED_AT)
    return plan


@lru_cache(maxsize=2)
def _plan(spec: SplitSpec, data: str, _stamp: tuple[object, ...], data_engine: DataEngine, memory: str | None) -> Plan:
    return manifests.planned(spec, data, engine=data_engine, memory=memory, to=Home.here().splits)


def forget_plans() -> None:
    """Free the memory and the disk that the rows of plans take, once what they are planned for is decided."""
    _plan.cache_clear()


def decided_otherwise(before: Manifest, now: Manifest) -> list[str]:
    """Return the differences between the requests of two manifests of a name, in words, as far as they are kept."""
    past = [each.parts for each in preimages_in(Preimage(kind="split", name=now.name, parts={}).folder)]

    def parts_of_split(manifest: Manifest) -> dict[str, object]:
        parts = split_parts(manifest)
        same = (each for each in past if digest_json({name: each.get(name) for name in parts}) == digest_json(parts))
        return next(same, parts)

    return differences(parts_of_split(before), parts_of_split(now))


def preimage_of(plan: Plan) -> Preimage:
    """Return what the split of a plan depends on."""
    code = modules_of_strategy(plan.spec.strategy, plan.spec.params)
    parts = split_parts(plan) | plan.digests | {"code": code}

    def marks() -> Marks:  # of many rows nothing
        few = plan.table.num_rows <= 20_000_000
        names = [name for name in plan.table.column_names if few and name not in plan.key]
        return Marks.of(plan.table.select(names), digest_json([plan.digests["columns"][name] for name in plan.key]))

    return Preimage(kind="split", name=plan.spec.name, parts=parts, marks=marks)


def placed(plan: Plan, data: str, staged: Path | None = None, again: bool = False) -> SplitRef:
    """Return the version of this decision, as ``find_or_decide`` does; what two would decide at once one decides."""
    home = Home.here()
    home.make()
    # Always in this order: two that held one each would wait for one another for ever.
    with locked(home.locks, f"plan/{plan.plan_id}"), locked(home.locks, f"name/{plan.spec.name}"):
        # Where it is damaged, it is not staged again.
        committed = staged and next(plan.versions(home.splits, plan.spec.name), None)
        return find_or_decide(plan, data, None if committed else staged, again)


def find_or_decide(plan: Plan, data: str, staged: Path | None = None, again: bool = False) -> SplitRef:
    """Return the version that holds this decision: made before, under this name or another, or now.

    A name's folder is what grows, so each gets its own; what is damaged is made anew. ``staged``: where a new one lies
    until it is committed, and nothing else is written. ``again``: nothing that was made before counts as that. Raises
    SplitError where the holdout is asked for with another budget of looks than it was locked with.
    """
    home, name = Home.here(), plan.spec.name
    if bucket := bucket_of(home):
        bucket.fetch_splits(name)
    earlier = next(plan.versions(home.splits, name), None)
    if earlier is not None and is_intact(earlier):
        folder, reused = earlier, not again
    else:
        same = None if again else next(filter(is_intact, plan.versions(home.splits)), None)
        manifest = StoredManifest(same).altered(spec=plan.spec, uri=None) if same else plan.decide()
        version = next_major(home.splits, name)
        if earlier is not None and staged is None:  # out of the way, with what is in it
            version, aside = earlier.name, earlier.with_name(f".damaged-{uuid4().hex[:8]}")
            aside.mkdir()
            earlier.rename(aside / version)
        folder, reused = write(manifest.altered(version=version), home.splits, staged), same is not None
    before, now = StoredManifest(folder).spec.holdout, plan.spec.holdout
    if before and now and before.budget != now.budget:
        raise SplitError(
            f"the holdout of {name} {folder.name} was locked with a budget of {before.budget or 'any number of'} "
            f"looks, and {now.budget or 'any number'} are asked for now; keep the budget, or give the split a new name "
            "(which may lower it and never raise it)."
        )
    forget_plans()
    return SplitRef.of(StoredManifest(folder), data, reused, staged).asked(plan.spec)


def table_of(split: SplitRef) -> str:
    """Return where the table of a split lies; SplitError where it names none, as one that was loaded without."""
    if not isinstance(split, SplitRef):
        raise SplitError(f"a value of type {type(split).__name__} is no split; pass what split or load_split returns.")
    if not split.data:
        raise SplitError(f"{split.name} {split.version} names no table; say which: load_split(reference, data=...).")
    return split.data


def split_in(manifest: Folder, data: str, rows: WhichRows = "all") -> SplitRef:
    """Return the split in a manifest; SplitError where ``data`` lack its ``rows``; a warning counts those left out."""
    stored = StoredManifest(manifest_folder(manifest)).prove()
    path = from_anywhere(data)
    if rows == "known":  # of all of them the balance is measured on the data, which says it
        stored.positions(path, rows)
    return SplitRef.of(stored, path, True).model_copy(update={"rows": rows})


def audit_key(
    split: SplitRef, features: list[str] | None = None, gates: GateLimits | None = None, memory: str | None = None,
    build: str | None = None,
) -> str | None:  # fmt: skip
    """Return the key of an audit; None where nothing says when its table is written again."""
    if stamp(split.data) == (split.data,):
        return None
    return f"audit/{digest_json(preimage_of_audit(split, features, gates, build).parts)}"


def preimage_of_audit(
    split: SplitRef, features: list[str] | None, gates: GateLimits | None = None, build: str | None = None
) -> Preimage:
    """Return the preimage of the key of a split's audit; of a build of features its code is a part."""
    limits = {"gates": gates, "gates_now": split.gates, "ignore_now": split.gates and split.ignore}
    how = {"features": named_features(split, features), "exclude": [], **limits}  # the keys of before hold the second
    versions = {"evenfold": installed("evenfold"), "scikit-learn": sklearn.__version__}
    of = {"manifest": digest_json(split.stored().header), "file": digest_json(str(stamp(split.data)))}
    parts = how | of | {"versions": versions} | parts_of_build(build)
    return Preimage(kind="audit", name=split.name, parts=parts)


def parts_of_build(build: str | None) -> dict[str, str | dict[str, str]]:
    """Return what keys hold of a build of features: its name and its code; nothing where there is none."""
    return {} if build is None else {"build": build, "code": code_of(build)}


def named_features(split: SplitRef, features: Sequence[str] | None) -> list[str] | None:
    """Return the features to audit by name; None where they are all."""
    schema = None if features is None else manifests.source_of(table_of(split)).settled().schema
    return None if features is None or are_all_columns(features, split.stored().spec, schema) else list(features)

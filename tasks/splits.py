"""The task of the split: decide once, and find what was decided."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

from evenfold.manifests import Plan, StoredManifest, digest_json, specification, write_manifest
from evenfold.splitters import SplitError
from evenfold.splitters.base import ONE_OF

from .outcomes import SplitRef
from .parameters import Data, DataEngine, Memory, Spec
from .plans import (
    decided_elsewhere,
    forget_plans,
    is_intact,
    made_by,
    marks_of,
    parts_of,
    plan_of,
    preimage_of,
    versions_in,
)
from .requests import SplitFields, flat
from .results.store import remember, results_of
from .runtime.files import data_reference, from_anywhere
from .runtime.home import Home
from .runtime.locks import locked
from .steps.step import is_refreshing, step

MOST_TRIES = 20


def _planned(
    data: Any, spec: Any = None, *, data_engine: DataEngine = "auto", memory: Memory = None, **columns: Any
) -> Plan:
    path = from_anywhere(data_reference(data, Home.here()))
    spec = specification(path if isinstance(data, (str, Path)) else data, spec, **columns)
    return plan_of(spec, path, data_engine, memory)


def _key(data: Any, spec: Any = None, **columns: Any) -> str:
    plan = _planned(data, spec, **columns)
    # With name and place: one plan under two names is two folders, and what is returned names its table.
    identity: list[Any] = [plan.plan_id, plan.spec.name, from_anywhere(data_reference(data, Home.here()))]
    identity += [part for part in (plan.spec.gates, plan.spec.ignore, parts_of(plan.splitter)) if part]
    return f"split/{digest_json(identity)}"


def _title(data: Any, spec: Any = None, **columns: Any) -> str:
    if not isinstance(data, (str, Path)):  # it would be written as a file for its title alone
        return "decide the split of a frame"
    plan = _planned(data, spec, **columns)
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
    plan = _planned(data, spec, **fields)
    path = from_anywhere(data_reference(data, Home.here()))
    folder, reused = placed(plan, Home.here())
    remember(preimage_of(plan), partial(marks_of, plan))
    forget_plans()
    return SplitRef.of(StoredManifest(folder), folder, path, reused).asked(plan.spec)


def placed(plan: Plan, home: Home, staged: Path | None = None) -> tuple[Path, bool]:
    """Return the version that holds this decision, and whether it was there before: not where it is decided anew.

    ``staged``: where a new one is written and stays until it is committed.
    """
    home.make()
    results, name, again = results_of(home), plan.spec.name, is_refreshing()
    # Always in this order: two that held one each would wait for one another for ever.
    with locked(home.locks, f"plan/{plan.plan_id}"), locked(home.locks, f"name/{name}"):
        manifest = plan.decide() if again else None
        for _ in range(MOST_TRIES):
            results.fetch_splits(name)
            versions = home.splits / name
            earlier = next(made_by(plan, versions), None)
            if earlier is not None and is_intact(earlier):
                _require_budget(earlier, plan)
                return earlier, not again
            elsewhere = decided_elsewhere(home, plan) if manifest is None else None
            manifest = manifest or elsewhere
            majors = [int(path.name.partition(".")[0]) for path in versions_in(versions)]
            version = f"{max(majors, default=0) + 1}.0" if earlier is None else earlier.name
            if earlier is not None:  # damaged: out of the way, with what is in it
                aside = versions / f".damaged-{uuid4().hex[:8]}"
                aside.mkdir()
                earlier.rename(aside / earlier.name)
            folder = write_manifest((manifest or plan.decide()).altered(version=version), home.splits, staged)
            if staged or results.offer_split(folder):
                return folder, elsewhere is not None
            shutil.rmtree(folder)  # another machine was first with this version of another decision: it is fetched next
    raise SplitError(f"{MOST_TRIES} versions of {name} in a row were made on other machines; run it again.")


def _require_budget(folder: Path, plan: Plan) -> None:
    """Raise SplitError where the holdout is asked for with another budget of looks than it was locked with."""
    before, now = StoredManifest(folder).spec.holdout, plan.spec.holdout
    if before and now and before.budget != now.budget:
        raise SplitError(
            f"the holdout of {plan.spec.name} {folder.name} was locked with a budget of "
            f"{before.budget or 'any number of'} looks, and {now.budget or 'any number'} are asked for now; keep the "
            "budget, or give the split a new name (which may lower it and never raise it)."
        )

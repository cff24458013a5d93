"""The task of the split: decide once, and find what was decided; and what names the manifest it leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
from evenfold.manifests import (
    Manifest,
    Plan,
    SplitSpec,
    StoredManifest,
    blocks_of,
    canonical_table,
    column_names,
    data_files,
    digest_json,
    planned,
    read_header,
    read_table,
    require_columns,
    specification,
    write_manifest,
)
from evenfold.manifests.store.header import VERSION
from evenfold.manifests.tables.addresses import is_address, version_of
from evenfold.manifests.tables.maturity import waiting_rows
from evenfold.splitters import LabelSplitter, SplitError, Splitter
from evenfold.splitters.base import ONE_OF
from evenfold.splitters.catalogue import modules_of_strategy, strategy_code
from evenfold.tasks.results.preimages import Marks
from evenfold.tasks.runtime.home import Settings

from .outcomes import SplitRef
from .parameters import Data, DataEngine, Memory, Spec
from .requests import SplitFields, flat
from .results.preimages import Preimage, differences
from .results.store import asked, remember, results_of
from .runtime.files import data_reference, from_anywhere, set_aside
from .runtime.home import Home
from .runtime.locks import locked
from .steps.step import is_refreshing, step

MOST_TRIES = 20
MOST_MARKED = 20_000_000  # rows


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


def plan_of(spec: SplitSpec, data: str, data_engine: DataEngine = "auto", memory: Memory = None) -> Plan:
    """Return the resolved plan; the same file and specification are read once per process."""
    state = *stamp(data), strategy_code(spec.strategy, spec.params)
    return _plan(spec, data, state, data_engine, Settings.memory_of(memory))


@lru_cache(maxsize=2)
def _plan(spec: SplitSpec, data: str, _stamp: tuple[Any, ...], data_engine: DataEngine, memory: str | None) -> Plan:
    return planned(spec, data, engine=data_engine, memory=memory, to=Home.here().splits)


def forget_plans() -> None:
    """Free the memory and the disk that the rows of plans take, once what they are planned for is decided."""
    _plan.cache_clear()


def stamp(data: str) -> tuple[Any, ...]:
    """Return what changes when a file, or one of a folder, glob or address, is written again, comes or goes."""
    try:
        if is_address(data):
            return version_of(data)
        files = [(path, path.stat()) for path in data_files(data)]
    except (SplitError, OSError):
        return (data,)
    return tuple((str(path), status.st_mtime_ns, status.st_size, status.st_ino) for path, status in files)


def check_columns(data: str, spec: SplitSpec) -> None:
    """Raise SplitError where a named column is absent, or the target or group column has holes, read or not."""
    require_columns([*spec.columns.roles(), *spec.types], column_names(data))
    names = [name for name in (spec.columns.target, *spec.columns.grouped) if name]
    if spec.may_wait:  # whether a row does may follow from the latest time of all
        times = [name for name in (spec.columns.time, spec.columns.label_end) if name and spec.says_when_known]
        table = read_table(data, [*names, *times], spec.types)
        blocks = iter([table.filter(pa.array(~waiting_rows(table, spec, spec.types)))])
        rows = table.num_rows
    else:
        blocks, rows = blocks_of(data, names or column_names(data)[:1], types=spec.types), 0
    for block in blocks:
        rows += 0 if spec.may_wait else block.num_rows
        canonical = canonical_table(block, names, spec.types)
        if not spec.may_wait and any(column.null_count for column in canonical.columns):
            # All rows once more, so that the error counts the holes of the column and not of this block.
            canonical = canonical_table(read_table(data, names, spec.types), names, spec.types)
        for name in names:
            spec.require_complete(canonical.column(name), name)
    if rows == 1:
        raise SplitError(f"{data} has 1 row; at least 2 are needed.")


def placed(plan: Plan, home: Home, staged: Path | None = None) -> tuple[Path, bool]:
    """Return the version that holds this decision, and whether it was there before: not where it is decided anew.

    ``staged``: where a new one is written and stays until it is committed.
    """
    home.make()
    # Always in this order: two that held one each would wait for one another for ever.
    with locked(home.locks, f"plan/{plan.plan_id}"), locked(home.locks, f"name/{plan.spec.name}"):
        return _placed(plan, home, is_refreshing(), staged)


def _placed(plan: Plan, home: Home, again: bool, staged: Path | None) -> tuple[Path, bool]:
    results, name = results_of(home), plan.spec.name
    manifest = plan.decide() if again else None
    for _ in range(MOST_TRIES):
        results.fetch_splits(name)
        versions = home.splits / name
        earlier = next(_made_by(plan, versions), None)
        if earlier is not None and _intact(earlier):
            _require_budget(earlier, plan)
            return earlier, not again
        elsewhere = _elsewhere(home, plan) if manifest is None else None
        manifest = manifest or elsewhere
        majors = [int(path.name.partition(".")[0]) for path in _versions(versions)]
        version = f"{max(majors, default=0) + 1}.0" if earlier is None else earlier.name
        if earlier is not None:
            set_aside(earlier)
        folder = write_manifest((manifest or plan.decide()).altered(version=version), home.splits, staged)
        if staged or results.offer_split(folder):
            return folder, elsewhere is not None
        shutil.rmtree(folder)  # another machine was first with this version of another decision, which is fetched next
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


def _elsewhere(home: Home, plan: Plan) -> Manifest | None:
    """Return the same decision as it was made under another name: a name's folder is what grows, so it gets its own."""
    others = (each for each in _made_by(plan, home.splits, "*/*.*") if each.parent.name != plan.spec.name)
    folder = next(filter(_intact, others), None)
    return None if folder is None else StoredManifest(folder).altered(spec=plan.spec, uri=None)


def split_parts(decided: Plan | Manifest) -> dict[str, Any]:
    """Return what a split is the answer to, but for what each column holds."""
    algorithm = {name: value for name, value in decided.algorithm.items() if name not in ("name", "portable")}
    algorithm["version"], _, own = str(algorithm["version"]).partition("+")
    decision, holdout = decided.spec.decision(decided.types), decided.spec.holdout
    decision |= {"holdout": decision["holdout"] | {"fraction": holdout.fraction}} if holdout else {}  # also by default
    parts = {"decision": decision, "algorithm": algorithm, "own_strategy": own or None}
    return parts | {"fingerprint": decided.fingerprint, "parent": getattr(decided, "parent_split_id", None)}


def preimage_of(plan: Plan) -> Preimage:
    """Return what the split of a plan depends on."""
    code = modules_of_strategy(plan.spec.strategy, plan.spec.params)
    return Preimage(kind="split", name=plan.spec.name, parts=split_parts(plan) | plan.digests | {"code": code})


def marks_of(plan: Plan) -> Marks:
    """Return what tells later in how many rows a column that a split reads has changed; of many rows nothing."""
    names = (
        [] if plan.table.num_rows > MOST_MARKED else [name for name in plan.table.column_names if name not in plan.key]
    )
    return Marks.of(plan.table.select(names), digest_json([plan.digests["columns"][name] for name in plan.key]))


def decided_otherwise(before: Manifest, now: Manifest) -> list[str]:
    """Return the differences between the requests of two manifests of a name, in words, as far as they are kept."""
    past = [each.parts for each in asked(Preimage(kind="split", name=now.name, parts={}).folder)]

    def parts_of_split(manifest: Manifest) -> dict[str, Any]:
        parts = split_parts(manifest)
        same = (each for each in past if digest_json({name: each.get(name) for name in parts}) == digest_json(parts))
        return next(same, parts)

    return differences(parts_of_split(before), parts_of_split(now))


def looked_up(plan: Plan, home: Home, aside: str) -> tuple[Path, bool]:
    """Return where this decision lies, and whether it was made before; what ``placed`` would write, ``aside`` holds."""
    results_of(home).fetch_splits(plan.spec.name)
    folder = next(_made_by(plan, home.splits / plan.spec.name), None)
    if folder is not None and _intact(folder):
        return folder, True
    elsewhere = _elsewhere(home, plan)
    return write_manifest(elsewhere or plan.decide(), aside), elsewhere is not None


def table_of(split: SplitRef) -> str:
    """Return where the table of a split lies; SplitError where it names none, as one that was loaded without."""
    if not isinstance(split, SplitRef):
        raise SplitError(
            f"a value of type {type(split).__name__} is no split; pass what split returns, or load_split(reference)."
        )
    if not split.data:
        raise SplitError(f"{split.name} {split.version} names no table; say which: load_split(reference, data=...).")
    return split.data


def require_rows(split: SplitRef) -> None:
    """Raise SplitError where the table of a split lacks rows of it, or holds others; or warn, see ``SplitRef.rows``."""
    split.manifest().positions(split.data, split.rows)


def _intact(folder: Path) -> bool:
    try:
        StoredManifest(folder).prove()
    except SplitError:
        return False
    return True


def _made_by(plan: Plan, folder: Path, pattern: str = "*.*") -> Iterator[Path]:
    """Yield the versions below a folder that were decided by this very plan."""
    order = parts_of(plan.splitter)
    for path in sorted(_versions(folder, pattern)):
        with suppress(SplitError, OSError):  # a damaged neighbour is found by whoever reads it
            # Reading all of a header takes ten times as long.
            named_in_it = plan.plan_id.encode() in (path / "manifest.json").read_bytes()
            if named_in_it and read_header(path)["plan_id"] == plan.plan_id and _has_parts(path, order):
                yield path


def _has_parts(folder: Path, order: list[str]) -> bool:
    try:
        return not order or parts_of(StoredManifest(folder).spec.splitter()) == order
    except SplitError:  # damaged, and made anew in its place
        return True


def parts_of(splitter: Splitter) -> list[str]:
    """Return the parts in their order: rows are dealt to them in it, and a plan's key does not tell it."""
    return list(splitter.part_codes()) if isinstance(splitter, LabelSplitter) else []


def _versions(folder: Path, pattern: str = "*.*") -> list[Path]:
    """Return the versions of a name; what somebody copied beside them, such as ``1.0.bak``, is none."""
    return [path for path in folder.glob(pattern) if VERSION.fullmatch(path.name)]

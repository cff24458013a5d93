"""Split, measure and record: what every other flow begins with; and letting new rows join."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from evenfold.manifests import BalanceReport, Manifest, StoredManifest, from_anywhere, measure
from evenfold.manifests.exchange.adopt import given_folds
from evenfold.manifests.plan import check_columns
from evenfold.manifests.store.stored import require_memory
from evenfold.tasks import Growth, Settings, SplitRef, prepare_environment, splits
from evenfold.tasks.parameters import DataEngine, Engine, Memory
from evenfold.tasks.plans import forget_plans, require_splittable, split_in
from evenfold.tasks.record.splits import balance_of, read_split, record_split, split_run_of
from evenfold.tasks.requests import AdoptFields, flat
from evenfold.tasks.runtime.progress import saying
from evenfold.tasks.steps import finished, happened, run, tell

from . import definitions
from .flow import flow
from .outcomes import ExtendOutcome, SplitOutcome
from .requests import Request


def check_split(request: Request) -> str:
    """Raise SplitError for bad input; return what the split is called."""
    spec = request.specification
    check_columns(request.data, spec)
    require_splittable(spec, from_anywhere(request.data), request.data_engine, request.memory)
    return spec.name


def check_extension(request: Request) -> str:
    """Raise SplitError for bad input; return what the split is called."""
    place, folder = from_anywhere(request.data), Path(request.manifest)
    require_memory(StoredManifest(folder).prove(), Settings.memory_of(request.memory))
    splits.extension_of(str(folder), place, request.batch, request.merged, request.max_missing)
    return folder.parent.name


@flow(definitions.split, check_split)
def split(request: Request) -> SplitOutcome:
    """Split, measure, record and audit."""
    outcome = split_of(request, request.data_engine, request.memory)
    audit = run(splits.audit_split, outcome.split, memory=request.memory)
    splits.keep_small_snapshot(outcome.split, request.memory)
    return outcome.model_copy(update={"audit": audit})


@flow(definitions.extend, check_extension)
def extend(request: Request) -> ExtendOutcome:
    """Extend a manifest, measure it and record the new version."""
    data, batch, memory = request.data, request.batch, request.memory
    with saying("extending"):
        notes = splits.notes_on(Path(request.manifest), from_anywhere(data), memory)
        growth = run(
            splits.extend, request.manifest, data, batch=batch, merged=request.merged,
            max_missing=request.max_missing, memory=memory,
        )  # fmt: skip
    split = growth.split
    # A batch lacks the rows that were there before: the balance is of the manifest's own, and no table is kept.
    record = recorded(split, split.reused, memory, measure(split.stored(), memory=memory) if batch else None)
    say_extended(growth)
    if not batch:
        splits.keep_small_snapshot(split, memory)
    tell(notes)
    extended = {"notes": [*growth.notes, *notes], "balance": record.balance, "run_id": record.run_id}
    return ExtendOutcome(**{**dict(growth), **extended})


def say_extended(growth: Growth) -> None:
    """Tell Prefect that a split has grown, where it has."""
    split, numbers = growth.split, growth.model_dump(include={"added", "deleted", "quarantined"})
    if any(numbers.values()):
        amounts = ", ".join(f"{rows:,} {name}" for name, rows in numbers.items())
        happened("split.extended", split.name, f"{split.name} is {split.version} now: {amounts}.", None, **numbers)


def split_of(request: Request, data_engine: DataEngine = "auto", memory: Memory = None) -> SplitOutcome:
    """Return the split of a request, recorded: of the manifest that it names, or decided now or before."""
    if request.parameters.get("manifest"):
        return recorded(split_in(request.manifest, request.data, request.rows), True)
    with saying("splitting"):
        try:
            result = finished(splits.split, request.data, request.specification, data_engine=data_engine, memory=memory)
        finally:
            forget_plans()
    return recorded(result.value, result.cached or result.value.reused, memory)


def recorded(ref: SplitRef, cached: bool, memory: Memory = None, balance: BalanceReport | None = None) -> SplitOutcome:
    """Record a split, say what it is and return it; ``balance``: that of its table, if left out."""
    balance = balance or balance_of(ref, memory)
    with saying("recording the split"):
        # Of the known rows alone: a record that is there is of all of them.
        run_id = split_run_of(ref) if ref.rows == "known" else run(record_split, ref, balance, memory=memory).run_id
    outcome = SplitOutcome(split=ref, cached=cached, balance=balance, run_id=run_id)
    tell([outcome.summary])
    return outcome


@flat
def adopt(data: Any, folds: Any, *, engine: Engine = "prefect", **fields: Unpack[AdoptFields]) -> SplitOutcome:
    """Take ``folds`` that were decided elsewhere into a manifest, unmoved; audit and record it as ``split`` does.

    ``folds``: the ``cv`` that a team's code splits by, a column, an array, pairs, or a file; see
    ``evenfold.manifests.adopt``. ``extend`` and ``retrain`` grow it from there: no row moves. Raises SplitError.
    """
    rows, spec = given_folds(data, folds, **fields)
    return split(rows, spec, engine=engine)


def load_split(reference: Any) -> Manifest:
    """Return the manifest of ``name@1.1``, a name, a split_id or a plan_id, also from MLflow; SplitError for none."""
    prepare_environment()
    return read_split(reference)

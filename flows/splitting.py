"""Split, measure and record: the flow every other begins with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenfold.manifests import BalanceReport, Plan, measure, read_manifest, read_table
from evenfold.reports.pictures import split_note
from evenfold.splitters import SplitError
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.splits import (
    check_columns,
    extend_split,
    extension_of,
    named,
    plan_of,
    reference,
    split_data,
    still_there,
)
from evenfold.tasks.work import check_model

from .requests import EvaluateRequest, ExtendOutcome, ExtendRequest, Say, SplitOutcome, SplitRequest, silent


@dataclass(frozen=True)
class Split:
    """A split under way: its reference, where it came from, and how even it is."""

    ref: dict[str, Any]
    cached: bool
    report: BalanceReport
    fingerprint: str


def check(request: SplitRequest | ExtendRequest) -> None:
    """Raise SplitError or ModelError for bad input, before anything is started or written."""
    if isinstance(request, ExtendRequest):
        extension_of(request.manifest, request.data, request.batch, request.merged)
        return
    given = request.manifest if isinstance(request, EvaluateRequest) else None
    spec = read_manifest(given).spec if given else request.spec
    if not given:
        check_columns(request.data, spec)
    if isinstance(request, EvaluateRequest):
        check_model(request.data, spec, request.model)
        if request.on == "holdout" and not request.reason.strip():
            raise SplitError("a look at the holdout needs a reason, which is recorded; pass --reason.")
    if given:
        return
    plan = plan_of(spec, request.data)
    plan.check()
    if isinstance(request, EvaluateRequest) and request.on == "holdout" and not plan.locks:
        raise SplitError("nothing is locked, so there is no holdout to look at; split with one (--holdout 0.2).")


def extend_body(engine: Engine, home: Home, request: ExtendRequest, say: Say = silent) -> ExtendOutcome:
    """Extend a manifest, measure it and record the new version."""
    say("extending", 0, 1)
    arguments = request.model_dump(mode="json")
    done = engine.run(Call(extend_split, arguments, name=f"extend {Path(request.manifest).parent.name}"))
    told = dict(done.value)
    ref = told.pop("split")
    manifest = read_manifest(ref["uri"])
    report = measure(manifest, None if request.batch else read_table(request.data, types=manifest.spec.types))
    say("extending", 1, 1)
    run_id = record_split_of(engine, home, request.data, Split(ref, False, report, manifest.fingerprint), say)
    return ExtendOutcome(split=ref, balance=report, run_id=run_id, **told)


def split_body(engine: Engine, home: Home, request: SplitRequest, say: Say = silent) -> SplitOutcome:
    """Split, measure and record."""
    split = split_of(engine, home, request, say)
    run_id = record_split_of(engine, home, request.data, split, say)
    return SplitOutcome(split=split.ref, cached=split.cached, balance=split.report, run_id=run_id)


def split_of(engine: Engine, home: Home, request: SplitRequest, say: Say) -> Split:
    """Return the split that a request asks for, decided now or from the cache, with its balance."""
    say("splitting", 0, 1)
    plan = plan_of(request.spec, request.data)
    ref, cached = decided(engine, home, plan, request.data)
    report = measure(read_manifest(ref["uri"]), read_table(request.data, types=request.spec.types))
    say("splitting", 1, 1)
    return Split(ref, cached, report, plan.fingerprint)


def decided(engine: Engine, home: Home, plan: Plan, data: str) -> tuple[dict[str, Any], bool]:
    """Return the reference to what the plan decides, under the plan's name, and whether it came from the cache."""
    place = str(home.path)
    done = engine.run(
        Call(
            split_data,
            {"spec": plan.spec.model_dump(mode="json"), "data": data, "home": place},
            name=f"split {plan.spec.strategy} v{plan.algorithm['version']}",
            key=f"split/{plan.plan_id}",
            intact=still_there,
        )
    )
    return named(done.value, plan.spec.name, place), done.cached


def split_given(request: EvaluateRequest) -> Split:
    """Return the split that a manifest holds already."""
    manifest = read_manifest(str(request.manifest))
    report = measure(manifest, read_table(request.data, types=manifest.spec.types))
    return Split(reference(str(request.manifest)), True, report, manifest.fingerprint)


def record_split_of(engine: Engine, home: Home, data: str, split: Split, say: Say) -> str:
    """Record a split and return its run."""
    from evenfold.tasks.record.tracker import record_split

    say("recording the split", 0, 1)
    arguments = {
        "split": split.ref,
        "report": split.report.model_dump(mode="json"),
        "data": data,
        "fingerprint": split.fingerprint,
        "tags": engine.tags(),
        "home": str(home.path),
    }
    done = engine.run(Call(record_split, arguments, name=f"record split {split.ref['name']}", retries=2))
    say("recording the split", 1, 1)
    engine.note(f"split {split.ref['name']}", split_note(split.ref, split.report, done.value))
    return str(done.value)

"""The order of steps. Nothing is computed here: every figure comes from a step or a pure call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.estimates import Estimate, EvaluationError, FoldScore, aggregate, bootstrap_aggregate
from evenfold.manifests import BalanceReport, measure, read_manifest, read_table
from evenfold.splitters import SplitError
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.fit import (
    BLOCK,
    Work,
    check_model,
    fit_all,
    fit_block,
    fit_fold,
    kept,
    key_of_all,
    key_of_block,
    key_of_split,
    scores_in,
    split_title,
    work_of,
)
from evenfold.tasks.split import extend_split, plan_of, reference, split_data, still_there

from ._look import look_at_holdout
from ._requests import EvaluateRequest, Evaluation, ExtendOutcome, ExtendRequest, SplitOutcome, SplitRequest

MOST_SINGLE_FOLDS = 1_000

Say = Callable[[str, int, int], None]


def silent(what: str, done: int, of: int) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Split:
    """A split under way: its reference, where it came from, and how even it is."""

    ref: dict[str, Any]
    cached: bool
    report: BalanceReport
    fingerprint: str


def check(request: SplitRequest) -> None:
    """Raise SplitError or ModelError for bad input, before anything is started or written."""
    given = request.manifest if isinstance(request, EvaluateRequest) else None
    spec = read_manifest(given).spec if given else request.spec
    if not given:
        plan_of(spec, request.data).check()
    if isinstance(request, EvaluateRequest):
        check_model(request.data, spec, request.model)
        if request.on == "holdout" and not request.reason.strip():
            raise SplitError("a look at the holdout needs a reason, which is recorded; pass --reason.")


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
    run_id = _record_split(engine, home, request.data, Split(ref, False, report, manifest.fingerprint), say)
    return ExtendOutcome(split=ref, balance=report, run_id=run_id, **told)


def split_body(engine: Engine, home: Home, request: SplitRequest, say: Say = silent) -> SplitOutcome:
    """Split, measure and record."""
    split = _split(engine, home, request, say)
    run_id = _record_split(engine, home, request.data, split, say)
    return SplitOutcome(split=split.ref, cached=split.cached, balance=split.report, run_id=run_id)


def _split(engine: Engine, home: Home, request: SplitRequest, say: Say) -> Split:
    say("splitting", 0, 1)
    plan = plan_of(request.spec, request.data)
    done = engine.run(
        Call(
            split_data,
            {"spec": plan.spec.model_dump(mode="json"), "data": request.data, "home": str(home.path)},
            name=f"split {plan.spec.strategy} v{plan.algorithm['version']}",
            key=f"split/{plan.plan_id}",
            intact=still_there,
        )
    )
    report = measure(read_manifest(done.value["uri"]), read_table(request.data, types=request.spec.types))
    say("splitting", 1, 1)
    return Split(done.value, done.cached, report, plan.fingerprint)


def _given(request: EvaluateRequest) -> Split:
    """Return the split that a manifest holds already."""
    manifest = read_manifest(str(request.manifest))
    report = measure(manifest, read_table(request.data, types=manifest.spec.types))
    return Split(reference(str(request.manifest)), True, report, manifest.fingerprint)


def _record_split(engine: Engine, home: Home, data: str, split: Split, say: Say) -> str:
    from evenfold.tasks.record import record_split

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
    return str(done.value)


def evaluate_body(engine: Engine, home: Home, request: EvaluateRequest, say: Say = silent) -> Evaluation:
    """Split, fit every split, aggregate and record; raises EvaluationError where folds are missing."""
    started = time.monotonic()
    split = _given(request) if request.manifest else _split(engine, home, request, say)
    split_run_id = _record_split(engine, home, request.data, split, say)
    work = work_of(request.data, split.ref, request.model)
    if request.on == "holdout":
        return look_at_holdout(engine, home, request, split, split_run_id, work)
    fits = _fit(engine, home, request, split, work, say)
    estimates = [] if fits.errors and not request.allow_partial else _aggregate(fits, work)
    run_id = _record(engine, home, request, split, split_run_id, work, fits, estimates, say)
    if fits.errors and not (request.allow_partial and fits.scores):
        raise EvaluationError(fits.failure(work.manifest.n_splits))
    return Evaluation(
        split=split.ref,
        cached=split.cached,
        balance=split.report,
        split_run_id=split_run_id,
        run_id=run_id,
        model=work.problem.model,
        task=work.problem.task,
        features=list(work.problem.features),
        left_out=work.problem.left_out,
        scores=fits.scores,
        apparent=fits.apparent,
        estimates=estimates,
        n_cached=fits.n_cached,
        seconds=time.monotonic() - started,
    )


@dataclass
class Fits:
    """What came of the fits: scores in split order, files, how many were cached, and what went wrong."""

    scores: list[FoldScore]
    predictions: list[str]
    tables: list[str]
    errors: list[str]
    n_cached: int
    apparent: FoldScore | None = None

    def failure(self, n_splits: int) -> str:
        """Return why there is no estimate, in a sentence."""
        return f"{len(self.errors)} of {max(n_splits, len(self.errors))} fits failed: " + "; ".join(self.errors[:3])


def _fit(engine: Engine, home: Home, request: EvaluateRequest, split: Split, work: Work, say: Say) -> Fits:
    in_blocks = work.manifest.kind == "draws" or work.manifest.n_splits > MOST_SINGLE_FOLDS
    seed = request.spec.seed
    shared = {
        "data": request.data,
        "split": split.ref,
        "model": request.model.model_dump(mode="json"),
        "seed": seed,
        "threads": engine.threads,
    }
    calls = _blocks(work, shared, seed, home) if in_blocks else _folds(work, shared, seed, home)
    fits = Fits([], [], [], [], 0)
    total, number = sum(call.size for call in calls), 0
    say("fitting models", 0, total)
    finished: dict[str, Any] = {}
    for done in engine.map(calls):
        number += done.call.size
        fits.n_cached += done.call.size if done.cached else 0
        if done.error is None:
            finished[done.call.name] = done.value
        else:
            fits.errors.append(_reason(done.error))
        say("fitting models", number, total)
    for call in calls:
        if call.name in finished:
            _collect(fits, call, finished[call.name])
    return fits


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, (EvaluationError, ValueError)) else f"{type(error).__name__}: {error}"


def _collect(fits: Fits, call: Call, value: dict[str, Any]) -> None:
    if call.step is fit_all:
        fits.apparent = FoldScore.from_json(value["score"])
    elif call.step is fit_block:
        fits.scores += scores_in(pd.read_parquet(value["file"]))
        fits.tables.append(value["file"])
    else:
        fits.scores.append(FoldScore.from_json(value["score"]))
        fits.predictions.append(value["file"])


def _folds(work: Work, shared: dict[str, Any], seed: int, home: Home) -> list[Call]:
    calls = []
    for i in range(work.manifest.n_splits):
        key = key_of_split(work, i, seed)
        arguments = {**shared, "i": i, "key": key, "home": str(home.path)}
        calls.append(Call(fit_fold, arguments, split_title(work.manifest, i), key=f"score/{key}", intact=kept))
    return calls


def _blocks(work: Work, shared: dict[str, Any], seed: int, home: Home) -> list[Call]:
    n = work.manifest.n_splits
    calls = [Call(fit_all, shared, "all rows", key=f"score/{key_of_all(work, seed)}")]
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        key = key_of_block(work, first, last, seed)
        arguments = {**shared, "first": first, "last": last, "key": key, "home": str(home.path)}
        calls.append(
            Call(fit_block, arguments, f"draws {first}-{last - 1}", key=f"score/{key}", intact=kept, size=last - first)
        )
    return calls


def _aggregate(fits: Fits, work: Work) -> list[Estimate]:
    if fits.apparent is not None and "out_of_bag" in work.manifest.splitter.promises:
        return bootstrap_aggregate(fits.scores, fits.apparent)
    predictions = [pd.read_parquet(file) for file in fits.predictions]
    return aggregate(fits.scores, predictions, work.problem, work.problem.model)


def _record(
    engine: Engine,
    home: Home,
    request: EvaluateRequest,
    split: Split,
    split_run_id: str,
    work: Work,
    fits: Fits,
    estimates: list[Estimate],
    say: Say,
) -> str:
    from evenfold.tasks.record import record_evaluation, run_key

    say("recording the evaluation", 0, 1)
    model = work.problem.model.canonical()
    partial = {"evenfold.partial": "true"} if fits.errors and estimates else {}
    evaluation = {
        "key": run_key(
            kind="evaluate", split_id=split.ref["split_id"], fingerprint=work.fingerprint, model=model,
            seed=request.spec.seed, label=request.run_label,
        ),
        "split_run_id": split_run_id,
        "model": model,
        "seed": request.spec.seed,
        "tags": {"evenfold.run_label": request.run_label, **partial},
        "fingerprint": work.fingerprint,
        "estimates": [each.to_json() for each in estimates],
        "children": [score.to_json() for score in fits.scores] if fits.predictions else [],
        "artifacts": {
            "estimates.json": [each.to_json() for each in estimates],
            "features.json": {"used": list(work.problem.features), "left_out": work.problem.left_out},
        },
        "tables": {"predictions.parquet": fits.predictions, "scores.parquet": fits.tables},
        "failure": fits.failure(work.manifest.n_splits) if fits.errors and not estimates else None,
    }  # fmt: skip
    arguments = {
        "split": split.ref, "evaluation": evaluation, "data": request.data, "tags": engine.tags(),
        "home": str(home.path),
    }  # fmt: skip
    done = engine.run(Call(record_evaluation, arguments, name="record evaluation", retries=2))
    say("recording the evaluation", 1, 1)
    return str(done.value)

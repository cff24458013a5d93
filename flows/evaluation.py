"""The order of steps. Nothing is computed here: every figure comes from a step or a pure call."""

from __future__ import annotations

import time
from typing import Any

from evenfold.estimates import Estimate, EvaluationError, ModelError
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.fits import fit_final, kept, split_title
from evenfold.tasks.record.entries import run_key
from evenfold.tasks.work import Work, key_of_all, key_of_split, work_of

from .fits import Fits, conclude, fit_splits, in_blocks, shared_arguments
from .holdout import look_at_holdout
from .requests import EvaluateRequest, Evaluation, Say, silent
from .splitting import Split, record_split_of, split_given, split_of


def check_models(request: EvaluateRequest, work: Work) -> None:
    """Raise ModelError where a model per fold is asked for and there are draws, or over 1,000 folds."""
    if request.log_models == "all" and in_blocks(work):
        raise ModelError(
            f"log_models='all' keeps a model per fold, and {work.manifest.algorithm['name']} makes "
            f"{work.manifest.n_splits:,} splits that are fitted in blocks; choose 'final'."
        )


def models_of(engine: Engine, home: Home, request: EvaluateRequest, ref: dict[str, Any], work: Work) -> dict[str, Any]:
    """Return file, digest and key of each model that was asked for, by its run's name; raises what a fit raises."""
    if request.log_models == "none":
        return {}
    seed = request.spec.seed
    asked = shared_arguments(engine, home, request, ref)
    keys: dict[str, tuple[str, int | None]] = {"all rows": (key_of_all(work, seed), None)}
    if request.log_models == "all":
        splits = range(work.manifest.n_splits)
        keys |= {split_title(work.manifest, i): (key_of_split(work, i, seed), i) for i in splits}
    made = {}
    for name, (key, i) in keys.items():
        call = Call(fit_final, {**asked, "key": key, "i": i}, f"model of {name}", f"model/{key}", kept)
        made[name] = engine.run(call).value | {"key": key}
    return made


def evaluate_body(engine: Engine, home: Home, request: EvaluateRequest, say: Say = silent) -> Evaluation:
    """Split, fit every split, aggregate and record; raises EvaluationError where folds are missing."""
    started = time.monotonic()
    split = split_given(request) if request.manifest else split_of(engine, home, request, say)
    split_run_id = record_split_of(engine, home, request.data, split, say)
    work = work_of(request.data, split.ref, request.model)
    if request.on == "holdout":
        return look_at_holdout(engine, home, request, split, split_run_id, work)
    check_models(request, work)
    fits = fit_splits(engine, home, request, split.ref, work, say)
    estimates = [] if fits.errors and not request.allow_partial else conclude(fits, work, request.spec.seed)
    told = _told(request, split, split_run_id, work, fits, estimates)
    told["models"] = {} if fits.errors else models_of(engine, home, request, split.ref, work)
    told["artifacts"]["report.html"] = fits.report(work, estimates, home)
    run_id = _record(engine, home, request, split, told, say)
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
        n_fits=fits.n_fits,
        seconds=time.monotonic() - started,
    )


def _record(engine: Engine, home: Home, request: EvaluateRequest, split: Split, told: dict[str, Any], say: Say) -> str:
    from evenfold.tasks.record.tracker import record_evaluation

    say("recording the evaluation", 0, 1)
    asked = {"split": split.ref, "evaluation": told, "data": request.data, "tags": engine.tags()}
    done = engine.run(Call(record_evaluation, {**asked, "home": str(home.path)}, name="record evaluation", retries=2))
    say("recording the evaluation", 1, 1)
    return str(done.value)


def _told(
    request: EvaluateRequest, split: Split, split_run_id: str, work: Work, fits: Fits, estimates: list[Estimate]
) -> dict[str, Any]:
    """Return what the record of an evaluation holds, as JSON and names of files."""
    model = work.problem.model.canonical()
    about = {"model": model, "seed": request.spec.seed}
    identity = {"split_id": split.ref["split_id"], "fingerprint": work.fingerprint, "label": request.run_label}
    partial = {"evenfold.partial": "true"} if fits.errors and estimates else {}
    return {
        **about,
        "key": run_key(kind="evaluate", **about, **identity),
        "split_run_id": split_run_id,
        "tags": {"evenfold.run_label": request.run_label, "evenfold.n_cached": str(fits.n_cached), **partial},
        "fingerprint": work.fingerprint,
        "estimates": [each.to_json() for each in estimates],
        "children": fits.children(),
        "artifacts": {
            "estimates.json": [each.to_json() for each in estimates],
            "features.json": {"used": list(work.problem.features), "left_out": work.problem.left_out},
        },
        "tables": {"predictions.parquet": fits.predictions, "scores.parquet": fits.tables},
        "failure": fits.failure(work.manifest.n_splits) if fits.errors and not estimates else None,
    }

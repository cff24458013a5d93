"""Split, fit every split, aggregate and record. Nothing is computed here: every figure comes from a task."""

from __future__ import annotations

import time
from collections.abc import Sequence

from evenfold.estimates import EvaluationError, LevelScore, ModelError, ModelSpec
from evenfold.estimates.ledger import level_of_look
from evenfold.manifests import Audit
from evenfold.manifests.spec import name_like
from evenfold.tasks.audits import audit_split
from evenfold.tasks.fits import fit_final, fit_fold
from evenfold.tasks.outcomes import Evaluated, Measured, Segment, SplitRef
from evenfold.tasks.record.evaluations import record_evaluation
from evenfold.tasks.record.looks import record_look, record_look_scores
from evenfold.tasks.record.studies import record_segments
from evenfold.tasks.requests import FoldFields, LookFields
from evenfold.tasks.runtime.files import data_reference, from_anywhere
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.progress import say, saying
from evenfold.tasks.scores import aggregate_look, check_levels, unaggregated
from evenfold.tasks.segments import NO_VALUE, evaluate_segment, segmented
from evenfold.tasks.steps.running import finished_each, happened, run, tell
from evenfold.tasks.work import work_of

from .fits import fit_more, fit_splits
from .outcomes import Evaluation, GateError, Segments
from .requests import Request, checked, require_none
from .splitting import Split, recorded, split_asked


def check_evaluation(request: Request) -> str:
    """Raise SplitError or ModelError for bad input; return what the split is called."""
    return check_segments(request) if request.parameters.get("by") else checked(request)[0]


def run_evaluation(request: Request) -> Evaluation | Segments:
    """Split, evaluate on the folds or the locked part, and record."""
    if request.by:
        return run_segments(request)
    split = split_asked(request)
    split_run_id = recorded(split)
    if request.on == "holdout":
        return look_at_holdout(split, split_run_id, request.recipe, request)
    outcome = evaluated(split, split_run_id, request.recipe, request)
    audited = run(audit_split, split.ref, features=outcome.features, build=request.build)
    evaluation = outcome.model_copy(update={"audit": audited})
    title = f"the evaluation, run {evaluation.run_id[:8]},"
    require_level_gap(split.ref, evaluation.levels, evaluation.model.metrics[0], title)
    return evaluation


def check_segments(request: Request) -> str:
    """Raise SplitError or ModelError for what can be no segment's; what one alone lacks is said in its row."""
    unused = [*request.given(LookFields), *(name for name in request.given(FoldFields) if name != "run_label")]
    require_none(unused, "for one split, and by makes many", "or by")
    spec, *_ = segmented(from_anywhere(request.data), request.specification, request.recipe, request.by)
    return spec.name


def run_segments(request: Request) -> Segments:
    """Split, fit and audit each segment, a task run for each, and record their table in one run."""
    started, by, home = time.monotonic(), request.by, Home.here()
    spec, model, tables = segmented(from_anywhere(request.data), request.specification, request.recipe, by)
    calls = [
        (data_reference(table, home), spec.model_copy(update={"name": name_like(f"{spec.name}-{value}")}), model, value)
        for value, table in tables.items()
        if value
    ]
    segments = {name: Segment(segment=name, rows=rows.num_rows, failed=NO_VALUE) for name, rows in tables.items()}
    how = {"interval": request.interval, "level": request.level, "time_limit": request.time_limit}
    for n_done, (number, done) in enumerate(finished_each(evaluate_segment, calls, **how), start=1):
        value = calls[number][-1]
        why = " ".join(str(done.error).split())
        segments[value] = done.returned or segments[value].model_copy(update={"failed": why})
        say("evaluating segments", n_done, len(calls))
    table = list(segments.values())
    run_id = run(record_segments, spec, model, by, table, run_label=request.run_label).run_id
    if all(each.failed for each in table):
        raise EvaluationError(f"none of {len(table):,} segments has a score, run {run_id[:8]}; {table[0].reason}")
    return Segments(
        name=spec.name, by=by, model=model, segments=table, run_id=run_id, seconds=time.monotonic() - started
    )


def require_level_gap(split: SplitRef, levels: Sequence[LevelScore], metric: str, what: str) -> None:
    """Raise GateError where levels of a column to balance on differ by more than the gate ``level_gap`` allows.

    ``what`` is recorded by then, and stays.
    """
    audit = check_levels(split, levels, metric)
    stop_where_failed(audit, f"{what} is recorded, and a gate of {split.name} {split.version} failed")


def stop_where_failed(audit: Audit, what: str, where: str = "in the specification") -> None:
    """Raise GateError with the sentences of what failed, and how to say yes to it."""
    stopping = [finding for finding in audit.findings if finding.gate == "failed"]
    if not stopping:
        return
    off = ", ".join(f"{finding.check}: off" for finding in stopping)
    sentences = " ".join(finding.message for finding in stopping)
    words = f"{what}: {sentences} If that is right, say so by gates: {{{off}}} {where}."
    happened("audit.failed", audit.name, words)
    raise GateError(words)


def evaluated(split: Split, split_run_id: str, recipe: ModelSpec, request: Request) -> Evaluation:
    """Fit every split, aggregate and record; raises EvaluationError where folds are missing."""
    started, log_models, limit = time.monotonic(), request.log_models, request.time_limit
    if log_models == "all" and split.ref.in_blocks:
        raise ModelError(
            f"log_models='all' keeps a model per fold, and {split.ref.strategy} makes "
            f"{split.ref.n_splits:,} splits that are fitted in blocks; choose 'final'."
        )
    fits = fit_splits(split.ref, recipe, apparent=getattr(request, "apparent", "full"), time_limit=limit)
    fit_more(fits, request.interval, limit)
    outcome = fits.evaluated(request.allow_partial, interval=request.interval, level=request.level)
    models = {} if fits.errors or log_models == "none" else {"all rows": run(fit_final, split.ref, recipe)}
    if log_models == "all" and not fits.errors:
        title = split.ref.manifest().membership.split_title
        models |= {title(i): run(fit_final, split.ref, recipe, i) for i in split.ref.splits()}
    with saying("recording the evaluation"):
        record = run(
            record_evaluation, split.ref, outcome, split_run_id=split_run_id, run_label=request.run_label,
            n_cached=fits.n_cached, states=fits.states, models=models, build=request.build,
        )  # fmt: skip
    if fits.errors and not outcome.estimates:
        raise EvaluationError(fits.failure)
    evaluation = _evaluation(split, outcome, split_run_id, record.run_id, started, fits.n_fits, fits.n_cached)
    tell([evaluation.summary, *([f"{record.since}."] if record.since else [])])
    return evaluation.model_copy(update={"since": record.since, "states": fits.states})


def _evaluation(
    split: Split, outcome: Evaluated, split_run_id: str, run_id: str, started: float, n_fits: int, n_cached: int = 0
) -> Evaluation:
    return Evaluation(
        **{name: getattr(outcome, name) for name in Measured.model_fields},
        cached=split.cached,
        balance=split.report,
        split_run_id=split_run_id,
        run_id=run_id,
        scores=outcome.scores,
        apparent=outcome.apparent.score if outcome.apparent else None,
        n_cached=n_cached,
        n_fits=n_fits,
        seconds=time.monotonic() - started,
    )


def look_at_holdout(split: Split, split_run_id: str, model: ModelSpec, request: Request) -> Evaluation:
    """Record the look, train on every row that is not locked, score the locked ones, and record what was seen.

    Its interval is as wide as the number of looks asks, so that those of all looks hold together at ``level``. Raises
    EvaluationError where the look cannot be recorded, and then nobody has looked.
    """
    started, work = time.monotonic(), work_of(split.ref, model)
    work.manifest.locked_pair()  # where nothing is locked there is nothing to record either
    try:
        look = run(record_look, split.ref, work.problem.model, request.reason)
    except Exception as error:
        why = " ".join(str(error).split())[:300].rstrip(".")
        raise EvaluationError(f"the look could not be recorded, so the holdout stays closed: {why}.") from error
    result = run(fit_fold, split.ref, "holdout", model, time_limit=request.time_limit)
    left = None if look.budget is None else look.budget - look.look
    adjusted = level_of_look(look.look, request.level, look.sharing)
    estimates = run(aggregate_look, split.ref, result, interval=request.interval, level=adjusted)
    run(record_look_scores, split.ref, look, result, estimates)
    outcome = unaggregated(split.ref, model, [result]).model_copy(update={"estimates": estimates})
    evaluation = _evaluation(split, outcome, split_run_id, look.run_id, started, n_fits=1)
    return evaluation.model_copy(update={"look": look.look, "looks_left": left})

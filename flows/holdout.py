"""A look at the locked part: recorded first, taken then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pandas as pd
from evenfold.estimates import Declined, Estimate, EvaluationError, Evidence, FoldScore, interval_for, metric_of
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.fits import fit_holdout
from evenfold.tasks.work import Work

from .requests import EvaluateRequest, Evaluation

if TYPE_CHECKING:
    from .splitting import Split


def look_at_holdout(
    engine: Engine, home: Home, request: EvaluateRequest, split: Split, split_run_id: str, work: Work
) -> Evaluation:
    """Record the look, train on every row that is not locked, score the locked ones, and record what was seen."""
    started = time.monotonic()
    work.manifest.locked_pair()  # where nothing is locked there is nothing to record either
    look = _record(engine, home, request, split, work)
    fitted = _fit(engine, home, request, split, look["run_id"])
    score, predictions = FoldScore.from_json(fitted["score"]), pd.read_parquet(fitted["file"])
    return Evaluation(
        split=split.ref,
        cached=split.cached,
        balance=split.report,
        split_run_id=split_run_id,
        run_id=look["run_id"],
        model=work.problem.model,
        task=work.problem.task,
        features=list(work.problem.features),
        left_out=work.problem.left_out,
        scores=[score],
        apparent=None,
        estimates=[_estimate(name, score, predictions, work) for name in score.test],
        n_cached=0,
        n_fits=1,
        seconds=time.monotonic() - started,
        look=look["look"],
    )


def _record(engine: Engine, home: Home, request: EvaluateRequest, split: Split, work: Work) -> dict[str, Any]:
    """Record that somebody looks, and why; raises EvaluationError where that fails, and then nobody has looked."""
    from evenfold.tasks.record.looks import record_look

    model = work.problem.model.canonical()
    asked = {"split": split.ref, "model": model, "reason": request.reason, "data": request.data}
    arguments = {**asked, "tags": engine.tags(), "home": str(home.path)}
    try:
        return dict(engine.run(Call(record_look, arguments, "record the look", retries=2)).value)
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise EvaluationError(f"the look could not be recorded ({why}), so the holdout stays closed.") from error


def _fit(engine: Engine, home: Home, request: EvaluateRequest, split: Split, run_id: str) -> dict[str, Any]:
    """Return what the fit scored on the locked rows, and record it in the run of the look."""
    from evenfold.tasks.record.looks import record_look_scores

    arguments = {
        "data": request.data,
        "split": split.ref,
        "model": request.model.model_dump(mode="json"),
        "seed": request.spec.seed,
        "threads": engine.threads,
        "home": str(home.path),
    }
    fitted = dict(engine.run(Call(fit_holdout, arguments, "holdout")).value)
    seen = {"name": split.ref["name"], "run_id": run_id, "score": fitted["score"], "file": fitted["file"]}
    engine.run(Call(record_look_scores, {**seen, "home": str(home.path)}, "record what was seen", retries=2))
    return fitted


def _estimate(metric: str, score: FoldScore, predictions: pd.DataFrame, work: Work) -> Estimate:
    value, apparent = score.test[metric], score.apparent[metric]
    made = interval_for(Evidence(metric_of(metric), work.problem, [score], predictions), "wald")
    return Estimate(
        metric,
        "locked holdout",
        value,
        sd=None,
        se=None,
        n_splits=1,
        apparent=apparent,
        gap=apparent - value,
        interval=None if isinstance(made, Declined) else made.holding(value),
    )

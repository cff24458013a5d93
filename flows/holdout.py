"""A look at the locked part: recorded first, taken then."""

from __future__ import annotations

import time
from typing import Any

from evenfold.estimates import EvaluationError, ModelSpec
from evenfold.estimates.holdouts.ledger import level_of_look
from evenfold.estimates.holdouts.policies import require_answerable
from evenfold.tasks.fits import fit_holdout
from evenfold.tasks.outcomes import Look
from evenfold.tasks.record.looks import answer_look, record_look, record_look_scores
from evenfold.tasks.runtime.running import run
from evenfold.tasks.scores import aggregate_look
from evenfold.tasks.work import Work, work_of

from .outcomes import Evaluation
from .splitting import Split


def look_at_holdout(
    split: Split,
    split_run_id: str,
    model: ModelSpec,
    reason: str,
    time_limit: float | None,
    interval: Any = "auto",
    level: float = 0.95,
) -> Evaluation:
    """Record the look, train on every row that is not locked, score the locked ones, and record what was seen.

    Its interval is as wide as the number of looks asks, so that those of all looks hold together at ``level``. Under
    a policy that answers for the holdout the score is what that tells, without an interval; the rest stays unseen.
    """
    started, work = time.monotonic(), work_of(split.ref, model)
    work.manifest.locked_pair()  # where nothing is locked there is nothing to record either
    part = work.manifest.spec.holdout
    policy = part.policy if part else "refuse"
    if policy != "refuse":
        require_answerable(policy, work.problem.model.metrics)
    look = _announced(split, work, reason)
    result = run(fit_holdout, split.ref, model, time_limit=time_limit)
    left, words = None if look.budget is None else look.budget - look.look, ""
    if policy != "refuse":
        answer = run(answer_look, split.ref, look, result)
        result, words = result.model_copy(update={"score": answer.score}), answer.words
        left = answer.left if policy == "thresholdout" else left
    adjusted = level_of_look(look.look, level, look.budget)
    estimates = run(aggregate_look, split.ref, result, interval=interval, level=adjusted, answered=words)
    run(record_look_scores, split.ref, look, result, estimates, whole=not words)
    return Evaluation(
        split=split.ref,
        cached=split.cached,
        balance=split.report,
        split_run_id=split_run_id,
        run_id=look.run_id,
        model=work.problem.model,
        task=work.problem.task,
        features=list(work.problem.features),
        left_out=work.problem.left_out,
        scores=[result.score],
        apparent=None,
        estimates=estimates,
        n_cached=0,
        n_fits=1,
        seconds=time.monotonic() - started,
        look=look.look,
        looks_left=left,
    )


def _announced(split: Split, work: Work, reason: str) -> Look:
    """Record that somebody looks, and why; raises EvaluationError where that fails, and then nobody has looked."""
    try:
        return run(record_look, split.ref, work.problem.model, reason)
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise EvaluationError(f"the look could not be recorded ({why}), so the holdout stays closed.") from error

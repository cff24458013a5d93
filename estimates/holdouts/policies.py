"""What a look at locked rows is told where the score itself is not: by Thresholdout, or by the Ladder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from evenfold.estimates.metrics.registry import metric_of
from evenfold.splitters.errors import SplitError

from .ladder import Ladder
from .ledger import AnswerLine
from .thresholdout import Thresholdout


def require_answerable(policy: str, metrics: Sequence[str]) -> None:
    """Raise SplitError unless one metric is asked for, and it is a share of rows: what both theorems are about."""
    loss = metric_of(metrics[0]).loss
    if len(metrics) != 1 or loss is None or not loss.share:
        raise SplitError(
            f"the holdout's policy {policy} answers one metric a look, a share of rows such as accuracy, and "
            f"{', '.join(metrics)} {'is' if len(metrics) == 1 else 'are'} asked for; pass "
            "metrics='accuracy' (--metric accuracy)."
        )


def told(
    policy: str,
    metric: str,
    training: float,
    holdout: float,
    *,
    earlier: Sequence[AnswerLine],
    budget: int | None,
    step: float,
    seed: int,
) -> tuple[float, bool]:
    """Return what a look is told of a score, and whether the holdout answered for itself.

    ``earlier``: what the looks before were told, as the ledger has it; ``training``: the score of the training rows.
    Thresholdout (``budget``, noise of ``seed``) tells the training score where the two are near; the Ladder tells the
    best score so far, in steps of ``step``, as theorem 3.1 of its paper has it. Their docstrings say what is promised.
    """
    if policy == "thresholdout":
        guard = Thresholdout(budget or 1, seed=seed)
        guard.replay(answer["spent"] for answer in earlier)
        before = guard.left
        answer = guard.answer(training, holdout)
        return min(max(answer, 0.0), 1.0), guard.left < before
    loss = metric_of(metric).loss
    assert loss is not None
    board = Ladder(step)
    board.best = min(
        (loss.score(answer["told"][metric]) for answer in earlier if metric in answer["told"]), default=np.inf
    )
    before_best = board.best
    best = board.answer(np.array([loss.score(holdout)]))
    return loss.score(min(max(best, 0.0), 1.0)), best < before_best


def words_of(policy: str, step: float, own: bool) -> str:
    """Return a sentence on what a look was told."""
    if policy == "ladder":
        better = "is better by more than a step" if own else "is not better by more than a step, so it is told again"
        return f"Told by the Ladder, in steps of {step:g}: the best score so far; this model {better}."
    if own:
        return "Told by Thresholdout: the holdout's score with noise, because the training score is far from it."
    return "Told by Thresholdout: the training score, because the holdout's is near it; no answer was spent."

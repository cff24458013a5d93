"""scikit-learn's scorers: what they say of some rows, and why they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
from evenfold.estimates.results import EvaluationError
from evenfold.splitters.deployed import cause_of, is_deployed, reason_of, shown
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

MOST_SHOWN_CLASSES = 5


def score(metric: str, answers: Any, y: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
    """Return the scorer's value, higher always better; ``answers`` is an estimator that knows its rows."""
    scorer = get_scorer(metric)
    given = {} if weights is None else {"sample_weight": weights}
    return float(scorer(answers, np.empty((y.size, 0)), y, **given))


def method_of(metric: str) -> tuple[str, ...]:
    """Return the estimator's methods of which the scorer calls the first that there is."""
    method = get_scorer(metric)._response_method
    return (method,) if isinstance(method, str) else tuple(method)


def takes_weights(metric: str) -> bool:
    """Return whether the scorer can weigh rows."""
    return "sample_weight" in signature(get_scorer(metric)._score_func).parameters


def scores_of(
    metrics: Sequence[str],
    answers: Any,
    y: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    name: str,
    side: str,
) -> dict[str, float]:
    """Return every metric's score; raises EvaluationError where one fails or is not a number.

    A single test row, as of leave-one-out, has no R2 and no AUC: such a metric is left out, and has the score of all
    rows together. ``name`` is the split's (``fold 3``), ``side`` its rows' (``test`` or ``training``): an error is
    about both.
    """
    scores: dict[str, float] = {}
    alone = y.size == 1 and side == "test"
    for metric in metrics:
        try:
            value = score(metric, answers, y, weights)
        except Exception as error:
            if alone and isinstance(error, ValueError):
                continue
            raise EvaluationError(_undefined(metric, y, answers, name, side, first_line(error))) from cause_of(error)
        if not np.isnan(value):
            scores[metric] = value
        elif not alone:
            raise EvaluationError(_undefined(metric, y, answers, name, side, "the score is not a number."))
    return scores


def describe_classes(y: NDArray[Any]) -> str:
    """Return ``one class ('no')`` or ``2 classes ('no', 'yes')`` for the labels in ``y``."""
    levels = np.unique(y).tolist()
    named = ", ".join(shown(repr(level)) for level in levels[:MOST_SHOWN_CLASSES])
    more = ", …" if len(levels) > MOST_SHOWN_CLASSES else ""
    return f"{'one class' if len(levels) == 1 else f'{len(levels)} classes'} ({named}{more})"


def _undefined(metric: str, y: NDArray[Any], answers: Any, name: str, side: str, because: str) -> str:
    start = f"{name}: {metric} is undefined: its {y.size:,} {side} {'row holds' if y.size == 1 else 'rows hold'}"
    classes = getattr(answers, "classes_", None)
    if classes is None:
        ends = [shown(f"{end:g}") for end in (y.min(), y.max())]
        held = f"the one value {ends[0]}" if y.min() == y.max() else f"values of {ends[0]} to {ends[1]}"
        return f"{start} {held}; {because} Use fewer folds, or another metric such as neg_mean_absolute_error."
    if np.unique(y).size < len(classes):
        return (
            f"{start} {describe_classes(y)} of the model's {len(classes)}; {because} "
            "Use a strategy that stratifies, fewer folds, or another metric such as accuracy."
        )
    return f"{start} {describe_classes(y)}; {because} Choose another metric such as accuracy."


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, as a sentence."""
    line = reason_of(error) if is_deployed() else str(error).strip().partition("\n")[0].rstrip()
    return line if line.endswith(".") else line + "."

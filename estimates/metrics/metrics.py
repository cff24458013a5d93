"""scikit-learn's scorers by name: which there are, which fit a target, and what they say of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
from evenfold.estimates.models.responses import Replay
from evenfold.estimates.models.spec import Task, default_for, nearest
from evenfold.estimates.results import EvaluationError, ModelError
from evenfold.splitters.deployed import cause_of, is_deployed, reason_of, shown
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names

MOST_SHOWN_CLASSES = 5

# What people write for scorers that scikit-learn calls otherwise.
KNOWN_AS = {
    "rmse": "neg_root_mean_squared_error",
    "mse": "neg_mean_squared_error",
    "mae": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error",
    "auc": "roc_auc",
    "auroc": "roc_auc",
    "log_loss": "neg_log_loss",
    "logloss": "neg_log_loss",
    "brier": "neg_brier_score",
    "mcc": "matthews_corrcoef",
}


def check_metrics(metrics: Sequence[str], task: Task, classes: tuple[Any, ...]) -> None:
    """Raise ModelError for a name that is no scorer, and for a scorer that cannot score such a target.

    Each scorer is tried on a few invented rows with perfect predictions, so that a metric that asks for other
    classes or for another task is found before anything is fitted.
    """
    known = set(get_scorer_names())
    for metric in metrics:
        if metric not in known:
            raise ModelError(f"{metric!r} is no scikit-learn scorer{_meant(metric, known, task, classes)}")
        try:
            score(metric, *_perfect(task, classes))
        except Exception as error:
            needs = (
                f"it needs {' or '.join(method_of(metric))}."
                if isinstance(error, AttributeError)
                else _first_line(error)
            )
            raise ModelError(
                f"metric {metric!r} cannot score this {task} target{_of(classes)}: {needs} "
                f"Metrics that can: {_suited(task, classes)}."
            ) from None


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

    ``name`` is the split's (``fold 3``), ``side`` its rows' (``test`` or ``training``): an error is about both.
    """
    scores = {}
    for metric in metrics:
        try:
            scores[metric] = score(metric, answers, y, weights)
        except Exception as error:
            raise EvaluationError(_undefined(metric, y, answers, name, side, _first_line(error))) from cause_of(error)
        if np.isnan(scores[metric]):
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


def _meant(metric: str, known: set[str], task: Task, classes: tuple[Any, ...]) -> str:
    if metric.lower() in KNOWN_AS:
        return f"; did you mean {KNOWN_AS[metric.lower()]!r}?"
    close = nearest(metric, sorted(known))
    return close if "did you mean" in close else f"; choose one such as {_suited(task, classes)}."


def _suited(task: Task, classes: tuple[Any, ...]) -> str:
    return ", ".join(default_for(task, len(classes)).metrics)


def _of(classes: tuple[Any, ...]) -> str:
    return f" ({', '.join(shown(repr(each)) for each in classes[:MOST_SHOWN_CLASSES])})" if classes else ""


def _first_line(error: Exception) -> str:
    line = reason_of(error) if is_deployed() else str(error).strip().partition("\n")[0].rstrip()
    return line if line.endswith(".") else line + "."


def _perfect(task: Task, classes: tuple[Any, ...]) -> tuple[Replay, NDArray[Any]]:
    if task == "regression":
        y = np.arange(1.0, 5.0) + 0.5  # fractions, which scorers of classes refuse
        return Replay({"predict": y}), y
    labels = np.asarray(classes)
    codes = np.repeat(np.arange(len(classes)), 2)
    sure = np.eye(len(classes))[codes]
    decision = sure[:, 1] if len(classes) == 2 else sure
    answers = {"predict": labels[codes], "predict_proba": sure, "decision_function": decision}
    return Replay(answers, classes), labels[codes]

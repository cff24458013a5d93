"""One model, one split, one score: the step that every evaluation repeats."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters import Splitter
from numpy.typing import NDArray

from ._assemble import assemble
from ._errors import EvaluationError
from ._responses import Responses
from .fold_score import FoldScore
from .metrics import describe_classes, scores_of
from .model_spec import ModelSpec
from .problem import IntArray, Problem

# Raise it when a change here can change a score: it is part of every score key.
FIT_VERSION = 1


def fit_and_score(
    model: ModelSpec,
    problem: Problem,
    train: IntArray,
    test: IntArray,
    *,
    seed: int,
    name: str,
    repeat: int = 0,
    fold: int = 0,
    inner: Splitter | None = None,
) -> tuple[FoldScore, pd.DataFrame]:
    """Fit on the rows ``train``, score on ``test`` and on ``train``, and return the scores and test predictions.

    Positions in ``train`` may repeat. Pure: the same arguments give the same result, times aside. Scores equal those
    of scikit-learn's ``cross_validate`` with ``assemble(model, problem, seed)`` on the same pair.

    Predictions have a row per test row: row (position), repeat, fold, y, prediction, then proba_<class> for every
    class of the problem (0 for a class absent from training), or decision (decision_<class> for three classes or
    more) where the model gives no probabilities, and weight where the problem has weights.
    Raises EvaluationError where the fit fails or a metric is undefined.
    """
    started = perf_counter()
    estimator = fitted(model, problem, train, seed=seed, name=name, inner=inner)
    between = perf_counter()
    metrics = model.completed(problem.task, len(problem.classes)).metrics
    answers = Responses(estimator, problem.X.iloc[test])
    on_test = scores_of(metrics, answers, problem.y[test], _part(problem.weights, test), name=name, side="test")
    known = Responses(estimator, problem.X.iloc[train])
    on_train = scores_of(metrics, known, problem.y[train], _part(problem.weights, train), name=name, side="training")
    predictions = _predictions(problem, test, answers, repeat, fold)
    seconds_fit, seconds_score = between - started, perf_counter() - between
    score = FoldScore(name, repeat, fold, on_test, on_train, len(train), len(test), seconds_fit, seconds_score)
    return score, predictions


def fitted(
    model: ModelSpec,
    problem: Problem,
    train: IntArray,
    *,
    seed: int,
    name: str,
    inner: Splitter | None = None,
) -> Any:
    """Return the assembled estimator, fitted on the rows ``train``; raises EvaluationError where that fails."""
    return fit_on(problem.X.iloc[train], assemble(model, problem, seed), problem, train, name=name)


def fit_on(X: Any, estimator: Any, problem: Problem, train: IntArray, *, name: str) -> Any:
    """Return ``estimator`` fitted on the features ``X`` of the rows ``train``."""
    y = problem.y[train]
    try:
        return estimator.fit(X, y)
    except Exception as error:
        held = f", which hold {describe_classes(y)}" if problem.classes else ""
        raise EvaluationError(
            f"{name}: the model could not be fitted on its {len(train):,} training rows{held}: "
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        ) from error


def _part(values: NDArray[Any] | None, rows: IntArray) -> NDArray[Any] | None:
    return None if values is None else values[rows]


def _predictions(problem: Problem, test: IntArray, answers: Responses, repeat: int, fold: int) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "row": np.asarray(test, dtype=np.int64),
        "repeat": np.int32(repeat),
        "fold": np.int32(fold),
        "y": problem.y[test],
        "prediction": answers.say("predict"),
    }
    if problem.classes:
        columns |= _confidence(problem, answers)
    if problem.weights is not None:
        columns["weight"] = problem.weights[test]
    return pd.DataFrame(columns)


def _confidence(problem: Problem, answers: Responses) -> dict[str, NDArray[Any]]:
    kind, given = "proba", answers.say("predict_proba")
    if given is None:
        kind, given = "decision", answers.say("decision_function")
    if given is None:
        return {}
    if given.ndim == 1:
        return {"decision": given}
    column = {label: j for j, label in enumerate(answers.classes_.tolist())}
    absent = np.zeros(len(given)) if kind == "proba" else np.full(len(given), np.nan)
    return {f"{kind}_{label}": given[:, column[label]] if label in column else absent for label in problem.classes}

"""One model, one split, one score: the step that every evaluation repeats."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters import Splitter
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.metrics import get_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from ._assemble import assemble
from ._errors import EvaluationError, ModelError
from ._options import by_column, parts_of, takes
from ._quick import reads_names
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
    validation: IntArray | None = None,
) -> tuple[FoldScore, pd.DataFrame]:
    """Fit on the rows ``train``, score on ``test`` and on ``train``, and return the scores and test predictions.

    Positions in ``train`` may repeat. Pure: the same arguments give the same result, times aside. Scores equal those
    of scikit-learn's ``cross_validate`` with ``assemble(model, problem, seed)`` on the same pair.

    ``inner``: the strategy of the cross-validation inside the training rows, for ``threshold: tuned``. ``validation``:
    the rows that ``eval_set: validation`` hands to an estimator that stops early.

    Predictions have a row per test row: row (position), repeat, fold, y, prediction, then proba_<class> for every
    class of the problem (0 for a class absent from training), or decision (decision_<class> for three classes or
    more) where the model gives no probabilities, and weight where the problem has weights.
    Raises EvaluationError where the fit fails or a metric is undefined.
    """
    started = perf_counter()
    estimator = fitted(model, problem, train, seed=seed, name=name, inner=inner, validation=validation)
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
    validation: IntArray | None = None,
    arrays: bool = False,
) -> Any:
    """Return the assembled estimator, fitted on the rows ``train``; raises EvaluationError where that fails.

    ``inner`` and ``validation``: as in ``fit_and_score``. ``arrays``: features go in as an array where no part can read
    column names, which is quicker.
    """
    try:
        estimator = assemble(model, problem, seed, train, inner)
        X = features_for(problem, estimator, arrays)
        given = _fit_params(model, problem, train) | _validation(model, problem, estimator, X, validation)
        return _fit(estimator, take(X, train), problem.y[train], given)
    except ModelError:
        raise
    except Exception as error:
        held = f", which hold {describe_classes(problem.y[train])}" if problem.classes else ""
        raise EvaluationError(
            f"{name}: the model could not be fitted on its {len(train):,} training rows{held}: "
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}{_missing(error, problem)}"
        ) from error


def _missing(error: Exception, problem: Problem) -> str:
    """Return which features have missing values and what to do, where that is what the model refused."""
    if "NaN" not in str(error):
        return ""
    names = [name for name in problem.features if problem.X[name].isna().any()]
    if not names:
        return ""
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f" Missing values are in {shown}: exclude what holds them, or name a pipeline that begins with an imputer"


def features_for(problem: Problem, estimator: Any, arrays: bool) -> Any:
    """Return the features as a frame, or as an array where that is asked for and gives the same model."""
    use_array = arrays and problem.array is not None and not reads_names(estimator)
    return problem.array if use_array else problem.X


def _fit(estimator: Any, X: Any, y: NDArray[Any], given: dict[str, Any]) -> Any:
    if not given:
        return estimator.fit(X, y)
    with config_context(enable_metadata_routing=True):
        for part in parts_of(estimator):
            _request(part, given)
        return estimator.fit(X, y, **given)


def _request(part: Any, given: dict[str, Any]) -> None:
    # Weights are for what predicts; a scaler before it stays unweighted, as scikit-learn has it by default.
    asked = {name: name != "sample_weight" or hasattr(part, "predict") for name in given if takes(part, name)}
    if asked and hasattr(part, "set_fit_request"):
        part.set_fit_request(**asked)
    if "sample_weight" in given and isinstance(part, TunedThresholdClassifierCV):
        part.scoring = get_scorer("balanced_accuracy").set_score_request(sample_weight=True)


def _fit_params(model: ModelSpec, problem: Problem, train: IntArray) -> dict[str, Any]:
    given = dict(model.fit_params)
    for name, column in by_column(model.fit_params).items():
        if column not in problem.columns:
            raise ModelError(f"fit parameter {name!r} reads column {column!r}; make the problem with this model.")
        given[name] = problem.columns[column][train]
    if problem.weights is not None:
        given["sample_weight"] = problem.weights[train]
    return given


def _validation(
    model: ModelSpec, problem: Problem, estimator: Any, X: Any, validation: IntArray | None
) -> dict[str, Any]:
    if model.eval_set is None:
        return {}
    if validation is None:
        raise ModelError("eval_set: validation needs validation rows; use a strategy that makes a validation part.")
    if isinstance(estimator, Pipeline):
        raise ModelError("eval_set: validation rows would not be encoded; list features that are numbers only.")
    rows, y = take(X, validation), problem.y[validation]
    return {"X_val": rows, "y_val": y} if takes(estimator, "X_val") else {"eval_set": [(rows, y)]}


def take(X: Any, rows: IntArray) -> Any:
    """Return some rows of features."""
    # Taking along the contiguous axis keeps the layout that scikit-learn makes of a frame, and so every bit.
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X.T.take(rows, axis=1).T


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
    if given.ndim == 1 and len(problem.classes) == 2:
        return {"decision": given}
    if given.ndim == 1:  # two of the problem's classes are known, and the second's decision is the first's negative
        given = np.stack([-given, given], axis=1)
    column = {label: j for j, label in enumerate(answers.classes_.tolist())}
    absent = np.zeros(len(given)) if kind == "proba" else np.full(len(given), np.nan)
    return {f"{kind}_{label}": given[:, column[label]] if label in column else absent for label in problem.classes}

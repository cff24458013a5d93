"""What a fitted estimator says of some rows, asked once however many metrics want to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.errors import EvaluationError
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class Responses:
    """A fitted estimator that answers for one set of rows, and remembers each answer.

    It has the estimator's methods, tags and attributes and no others, so scikit-learn's scorers give the same
    scores; each method runs at most once. Answers of an estimator that does not sort its classes are sorted, as
    scorers know no other order. Raises EvaluationError where a row has several predictions.
    """

    def __init__(self, fitted: Any, X: Any) -> None:
        self._fitted = fitted
        self._X = X
        self._answers: dict[str, NDArray[Any]] = {}
        classes = np.asarray(getattr(fitted, "classes_", ()))
        order = np.argsort(classes, kind="stable") if classes.ndim == 1 else np.arange(0)
        self._order = None if np.array_equal(order, np.arange(order.size)) else order

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._fitted, name)
        if name == "classes_" and self._order is not None:
            return np.asarray(value)[self._order]
        if name not in METHODS:
            return value

        def answer(X: Any) -> Any:
            if name not in self._answers:
                values = value(self._X)
                if name == "predict":
                    values = _one_a_row(values, len(self._X))
                elif self._order is not None:  # the decision of two is that for the second
                    values = values[:, self._order] if values.ndim == 2 else -values
                self._answers[name] = values
            return self._answers[name]

        answer.__name__ = name  # scikit-learn tells probabilities from decisions by the method's name
        return answer

    def __sklearn_tags__(self) -> Any:
        return self._fitted.__sklearn_tags__()

    def say(self, method: str) -> Any:
        """Return the answer of ``method`` for the rows, or None where the estimator lacks it."""
        return getattr(self, method)(self._X) if hasattr(self._fitted, method) else None


def _one_a_row(answer: Any, n: int) -> Any:
    shape = np.shape(answer)
    if shape == (n, 1):
        return np.asarray(answer).reshape(-1)
    if len(shape) != 1:
        raise EvaluationError(
            f"predict returned an array of shape {shape}, and 1 value for each of {n:,} rows is needed; predict one "
            "target."
        )
    return answer


class Replay(BaseEstimator):  # type: ignore[misc]
    """Answers given earlier, as a fitted estimator: for scores of many folds' predictions together."""

    def __init__(self, answers: Mapping[str, NDArray[Any]], classes: tuple[Any, ...] = ()) -> None:
        self.answers = answers
        self.classes = classes

    def __getattr__(self, name: str) -> Any:
        if name == "classes_" and self.classes:
            return np.asarray(self.classes)
        if name not in METHODS or name not in self.answers:
            raise AttributeError(name)

        def answer(X: Any) -> Any:
            return self.answers[name]

        answer.__name__ = name
        return answer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if self.classes else "regressor"
        tags.classifier_tags = ClassifierTags() if self.classes else None
        tags.regressor_tags = None if self.classes else RegressorTags()
        return tags


def recorded(answers: Any, n: int) -> Replay:
    """Return what an estimator that knows its n rows says of them, to be taken apart."""
    methods = [name for name in METHODS if name != "predict_log_proba" and hasattr(answers, name)]
    recordings = {name: np.asarray(getattr(answers, name)(np.empty((n, 0)))) for name in methods}
    return Replay(recordings, tuple(np.asarray(getattr(answers, "classes_", ())).tolist()))


def replay(predictions: pd.DataFrame, classes: tuple[Any, ...] = ()) -> Replay:
    """Return the estimator that said what is in a frame of predictions."""
    answers: dict[str, NDArray[Any]] = {"predict": predictions["prediction"].to_numpy()}
    for method, prefix in (("predict_proba", "proba"), ("decision_function", "decision")):
        names = [f"{prefix}_{label}" for label in classes]
        if any(name in predictions for name in names):
            # Of a class that the model does not know the probability is 0, and nobody knows a decision.
            absent = 0.0 if prefix == "proba" else np.nan
            answers[method] = predictions.reindex(columns=names, fill_value=absent).to_numpy()
    if "decision" in predictions:
        answers["decision_function"] = predictions["decision"].to_numpy()
    return Replay(answers, classes)


def all_classes(probabilities: NDArray[Any], trained: NDArray[Any], classes: tuple[Any, ...]) -> NDArray[np.float64]:
    """Return probabilities with a column for each of ``classes``, 0 for those not ``trained`` to the estimator."""
    if np.array_equal(trained, classes):
        return probabilities
    wide = np.zeros((len(probabilities), len(classes)))
    levels = np.asarray(classes)
    wide[:, np.searchsorted(levels, np.asarray(trained, dtype=levels.dtype))] = probabilities
    return wide

"""Codes for a classifier that takes no other labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.record import Floats
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from .problem import Problem


def _has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(self.estimator, method)


class CodedLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier of the codes 0, 1, … of ``classes``, the sorted labels, which says the labels themselves."""

    def __init__(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator = estimator
        self.classes = classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        return self.classes

    def fit(self, X: Any, y: NDArray[Any], **fit_params: Any) -> CodedLabels:
        """Fit the classifier to the codes of other labels."""
        self.classes, codes = np.unique(y, return_inverse=True)
        self.estimator = clone(self.estimator).fit(X, codes, **fit_params)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        return np.asarray(self.classes[np.asarray(self.estimator.predict(X)).reshape(-1).astype(np.int64)])

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the labels."""
        return np.asarray(self.estimator.predict_proba(X))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """Return the decisions of the labels."""
        return np.asarray(self.estimator.decision_function(X))


def saying_labels(problem: Problem, train: NDArray[np.int64], learn: Callable[[Problem], Any]) -> Any:
    """Return the model that ``learn`` fits; where it refuses the labels of the training rows, that of their codes."""
    try:
        return learn(problem)
    except (ValueError, TypeError) as error:
        labels = np.unique(problem.y[train])
        if not problem.classes or isinstance(error, ModelError) or np.array_equal(labels, np.arange(labels.size)):
            raise
        places = {label: code for code, label in enumerate(labels.tolist())}
        codes = np.array([places.get(label, -1) for label in problem.y.tolist()])
        model = problem.model.model_copy(update={"positive": places.get(problem.positive)})
        coded = replace(problem, y=codes, classes=tuple(places.values()), model=model)
        try:
            return CodedLabels(learn(coded), labels)
        except Exception:  # then the labels were not the reason
            raise error from None

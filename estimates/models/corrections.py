"""Any labels for a classifier that takes 0, 1, … alone. The file keeps its name: stored skops models hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
from evenfold.estimates.metrics.record import Floats
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if


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

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the labels."""
        return np.asarray(self.estimator.predict_proba(X))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """Return the decisions of the labels."""
        return np.asarray(self.estimator.decision_function(X))

"""What sets predictions right again: probabilities after balancing, means after a transform of the target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.record import Floats
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if

from .problem import Problem

MOST_RESIDUALS = 200


def evened(y: NDArray[Any], weights: Floats) -> Floats:
    """Return the weights of rows times a factor per class, so that all classes that weigh anything weigh the same."""
    classes, codes = np.unique(y, return_inverse=True)
    masses = np.bincount(codes, weights=weights)
    factors = np.divide(masses.sum() / classes.size, masses, out=np.ones(classes.size), where=masses > 0)
    return np.asarray(weights * factors[codes])


class Recalibrated(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are set back from balanced classes to the shares of its training rows.

    ``estimator``: learns from balanced classes; ``sizes``: how many rows of each class of y are left then, None where
    weights make all classes equal: its own of classes, or those of rows, which are evened out before it gets them. Its
    probability of a class is multiplied by share / balanced share, and the products are scaled to a sum of 1: what
    Bayes' rule says where balancing changed the shares of the classes and nothing else. A prediction is the most
    probable class. Source: Saerens, Latinne and Decaestecker (2002), Adjusting the outputs of
    a classifier to new a priori probabilities, section 2.1.
    """

    def __init__(self, estimator: Any, sizes: Callable[[NDArray[Any]], Mapping[Any, int]] | None = None) -> None:
        self.estimator = estimator
        self.sizes = sizes

    def fit(self, X: Any, y: NDArray[Any], sample_weight: Any = None, **given: Any) -> Recalibrated:
        """Fit the classifier, and remember the (weighted) shares of the classes."""
        if sample_weight is not None:
            given["sample_weight"] = evened(y, sample_weight) if self.sizes is None else sample_weight
        self.estimator_ = clone(self.estimator).fit(X, y, **given)
        self.classes_ = self.estimator_.classes_
        mass = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        shares = np.array([mass[np.asarray(y) == label].sum() for label in self.classes_]) / mass.sum()
        left = dict.fromkeys(self.classes_.tolist(), 1) if self.sizes is None else self.sizes(np.asarray(y))
        balanced = np.array([left[label] for label in self.classes_.tolist()], dtype=np.float64)
        self.factors_ = shares / (balanced / balanced.sum())
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the corrected probabilities."""
        raised = np.asarray(self.estimator_.predict_proba(X)) * self.factors_
        corrected: Floats = raised / raised.sum(axis=1, keepdims=True)
        return corrected

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def get_metadata_routing(self) -> Any:
        """Return where scikit-learn's routing passes what ``fit`` gets: on to the classifier."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))


class Smeared(TransformedTargetRegressor):  # type: ignore[misc]
    """A regressor of a transformed target that predicts means: the inverse averaged over the training residuals.

    The inverse of a prediction on the transformed scale is a median, which lies below the mean of a skewed target.
    Of more than 200 residuals, and of those of rows with different weights, 200 quantiles stand for all; residuals of
    rows that weigh nothing are left out. Where an inverse is undefined it is left out of the
    average. Residuals are those of the training rows: a model that knows these by heart has none to smear with.
    Source: Duan (1983), Smearing estimate: a nonparametric retransformation method.
    """

    def fit(self, X: Any, y: NDArray[Any], **given: Any) -> Smeared:
        """Fit the regressor, and keep quantiles of its residuals."""
        super().fit(X, y, **given)
        on_scale = self.transformer_.transform(np.asarray(y, dtype=np.float64).reshape(-1, 1)).reshape(-1)
        residuals = on_scale - np.asarray(self.regressor_.predict(X)).reshape(-1)
        weights = given.get("sample_weight")
        self.residuals_ = _standing(residuals, np.ones(residuals.size) if weights is None else np.asarray(weights))
        return self

    def predict(self, X: Any, **given: Any) -> Floats:
        """Return the mean of the target for each row."""
        middle = np.asarray(self.regressor_.predict(X, **given)).reshape(-1)
        total, times = np.zeros(middle.size), np.zeros(middle.size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what is undefined, which is left out
            for residual in self.residuals_:
                back = self.transformer_.inverse_transform((middle + residual).reshape(-1, 1)).reshape(-1)
                defined = np.isfinite(back)
                total[defined] += back[defined]
                times += defined
        means: Floats = np.divide(total, times, out=np.full(middle.size, np.nan), where=times > 0)
        return means


def _standing(residuals: Floats, weights: Floats) -> Floats:
    """Return at most ``MOST_RESIDUALS`` residuals, sorted, whose plain mean stands for the weighted mean of all."""
    order = np.argsort(residuals)
    order = order[weights[order] > 0]
    residuals, weights = residuals[order], weights[order]
    even = (np.arange(MOST_RESIDUALS) + 0.5) / MOST_RESIDUALS
    if weights.min() < weights.max():
        return residuals[np.searchsorted(np.cumsum(weights) / weights.sum(), even)]
    return residuals if residuals.size <= MOST_RESIDUALS else np.quantile(residuals, even)


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

    def fit(self, X: Any, y: NDArray[Any], **given: Any) -> CodedLabels:
        """Fit the classifier to the codes of other labels."""
        self.classes, codes = np.unique(y, return_inverse=True)
        self.estimator = clone(self.estimator).fit(X, codes, **given)
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
    """Return what ``learn`` fits; where it refuses the labels of the training rows, what it learns of their codes."""
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

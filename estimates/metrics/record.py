"""The record of a metric, which everything else asks, and the rows with a model's answers that it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any, Literal

import numpy as np
import pandas as pd
from evenfold.splitters.errors import EvaluationError, ModelError, shown
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags

MOST_SHOWN_CLASSES = 5
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Task = Literal["classification", "regression"]
# ``share``: of 1. ``target``: the target's own unit. ``none``: a number without a unit.
Unit = Literal["share", "target", "target squared", "none"]
# What every fold must hold for its own score to mean what the metric means.
FoldNeed = Literal["nothing", "every class", "spread"]
Influence = tuple[float, Floats]


class Responses(BaseEstimator):  # type: ignore[misc]
    """A model's answers for one set of rows, as a fitted estimator that scikit-learn's scorers score the same.

    ``answers``: of each method, or the function that gives them, which runs at most once. ``classes``: sorted, as
    scorers know no other order; none of numbers.
    """

    def __init__(self, answers: Mapping[str, Any], classes: Sequence[Any] | NDArray[Any] = ()) -> None:
        self.answers = answers
        self.classes = classes
        self._known: dict[str, Any] = {}

    @classmethod
    def of(cls, fitted: Any, X: Any) -> Responses:
        """Return the answers of a fitted estimator for ``X``; EvaluationError where a row has several predictions."""
        classes = np.asarray(getattr(fitted, "classes_", ()))
        classes = classes if classes.ndim == 1 else np.empty(0)
        order = np.argsort(classes, kind="stable")
        is_sorted = np.array_equal(order, np.arange(order.size))

        def ask(method: str) -> Any:
            values = getattr(fitted, method)(X)
            if method == "predict":
                values = np.asarray(values).reshape(-1) if np.shape(values) == (len(X), 1) else values
                if len(np.shape(values)) != 1:
                    what = f"predict returned an array of shape {np.shape(values)}, and 1 value for each of {len(X):,}"
                    raise EvaluationError(f"{what} rows is needed; predict one target.")
            if is_sorted or method == "predict":
                return values
            return values[:, order] if values.ndim == 2 else -values  # the decision of two is that for the second

        answers = {method: partial(ask, method) for method in METHODS if hasattr(fitted, method)}
        return cls(answers, classes if is_sorted else classes[order])

    def __getattr__(self, name: str) -> Any:
        if name == "classes_" and len(self.classes):
            return np.asarray(self.classes)
        if name not in METHODS or name not in self.answers:
            raise AttributeError(name)

        def answer(X: Any) -> Any:
            return self.say(name)

        answer.__name__ = name  # scikit-learn tells probabilities from decisions by the method's name
        return answer

    def __sklearn_tags__(self) -> Any:
        tags, is_classifier = super().__sklearn_tags__(), len(self.classes) > 0
        tags.estimator_type = "classifier" if is_classifier else "regressor"
        tags.classifier_tags = ClassifierTags() if is_classifier else None
        tags.regressor_tags = None if is_classifier else RegressorTags()
        return tags

    def say(self, method: str) -> Any:
        """Return the answers of ``method``, or None where there are none."""
        if method not in self._known:
            answers = self.answers.get(method)
            self._known[method] = answers() if callable(answers) else answers
        return self._known[method]

    def drawn(self, lines: Codes) -> Responses:
        """Return the answers for the rows at these positions, which may repeat."""

        def at(method: str) -> Any:
            return np.asarray(self.say(method))[lines]

        return Responses({method: partial(at, method) for method in self.answers}, self.classes)


def replay(predictions: pd.DataFrame, classes: tuple[Any, ...] = ()) -> Responses:
    """Return the answers that are in a frame of predictions."""
    answers: dict[str, NDArray[Any]] = {"predict": predictions["prediction"].to_numpy()}
    for method, prefix in (("predict_proba", "proba"), ("decision_function", "decision")):
        names = [f"{prefix}_{label}" for label in classes]
        if any(name in predictions for name in names):
            # Of a class that the model does not know the probability is 0, and nobody knows a decision.
            absent = 0.0 if prefix == "proba" else np.nan
            answers[method] = predictions.reindex(columns=names, fill_value=absent).to_numpy()
    if "decision" in predictions:
        answers["decision_function"] = predictions["decision"].to_numpy()
    return Responses(answers, classes)


def confidence(answers: Responses, classes: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """Return the probability of each class, or the decision where there is none, as columns by name."""
    kind, values = "proba", answers.say("predict_proba")
    if values is None:
        kind, values = "decision", answers.say("decision_function")
    if values is None:
        return {}
    if values.ndim == 1 and len(classes) == 2:
        return {"decision": values}
    if values.ndim == 1:  # two of the classes are known, and the second's decision is the first's negative
        values = np.stack([-values, values], axis=1)
    column = {label: j for j, label in enumerate(answers.classes_.tolist())}
    # Of a class that training lacked the probability is 0, and nobody knows a decision.
    absent = np.zeros(len(values)) if kind == "proba" else np.full(len(values), np.nan)
    return {f"{kind}_{label}": values[:, column[label]] if label in column else absent for label in classes}


def all_classes(probabilities: NDArray[Any], trained: NDArray[Any], classes: tuple[Any, ...]) -> NDArray[np.float64]:
    """Return probabilities with a column for each of ``classes``, 0 for those not ``trained`` to the estimator."""
    if np.array_equal(trained, classes):
        return probabilities
    wide = np.zeros((len(probabilities), len(classes)))
    levels = np.asarray(classes)
    wide[:, np.searchsorted(levels, np.asarray(trained, dtype=levels.dtype))] = probabilities
    return wide


def describe_classes(y: NDArray[Any]) -> str:
    """Return ``one class ('no')`` or ``2 classes ('no', 'yes')`` for the labels in ``y``."""
    levels = np.unique(y).tolist()
    listing = ", ".join(shown(repr(level)) for level in levels[:MOST_SHOWN_CLASSES])
    more = ", …" if len(levels) > MOST_SHOWN_CLASSES else ""
    return f"{'one class' if len(levels) == 1 else f'{len(levels)} classes'} ({listing}{more})"


@dataclass(frozen=True)
class Answered:
    """n rows with a model's answers: all that a part of a metric is a function of.

    ``classes``: the problem's labels, sorted, empty for numbers; the model may know fewer. ``weights``: one per row,
    or None. ``held``: whether a mean of classes is one of those that the rows hold, not also of those predicted.
    """

    answers: Responses
    y: NDArray[Any]
    classes: tuple[Any, ...] = ()
    weights: Floats | None = None
    held: bool = False

    @classmethod
    def of(cls, frame: pd.DataFrame, classes: tuple[Any, ...], held: bool = False) -> Answered:
        """Return the rows of a frame of predictions."""
        weights = frame["weight"].to_numpy() if "weight" in frame else None
        return cls(replay(frame, classes), frame["y"].to_numpy(), classes, weights, held)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.y.size)

    @cached_property
    def truth(self) -> NDArray[Any]:
        """The targets: numbers, or positions among ``classes``."""
        return codes_of(self.y, self.classes) if self.classes else self.y

    @cached_property
    def predicted(self) -> NDArray[Any]:
        """The predictions, like ``truth``."""
        predictions = np.asarray(self.answers.predict(self.X))
        return codes_of(predictions, self.classes) if self.classes else predictions

    @cached_property
    def probabilities(self) -> Floats:
        """The probabilities, a column per class of ``classes``; 0 for a class that the model does not know."""
        columns = self.answers.predict_proba(self.X)
        return all_classes(columns, self.answers.classes_, self.classes) if self.classes else np.asarray(columns)

    @cached_property
    def numbers(self) -> Floats:
        """The answers of a model, a line per row: a number, or a probability per class, of a mere label 0 and 1."""
        chances = self.classes and hasattr(self.answers, "predict_proba")
        answers = self.probabilities if chances else self.predicted
        answers = np.eye(len(self.classes))[answers] if self.classes and not chances else answers
        return np.asarray(answers, dtype=np.float64).reshape(self.n, -1)

    @cached_property
    def ranking(self) -> Floats:
        """The values that rank the rows of two classes: the decision, or else the probability of the second class."""
        if hasattr(self.answers, "decision_function"):
            return np.asarray(self.answers.decision_function(self.X))
        return np.asarray(self.answers.predict_proba(self.X)[:, 1])

    @cached_property
    def mass(self) -> Floats:
        """The weights, 1 where there are none."""
        return np.ones(self.n) if self.weights is None else np.asarray(self.weights, dtype=np.float64)

    def drawn(self, lines: Codes) -> Answered:
        """Return the rows at these positions, which may repeat."""
        weights = None if self.weights is None else self.weights[lines]
        return replace(self, answers=self.answers.drawn(lines), y=self.y[lines], weights=weights)

    def mean(self, values: Floats) -> float:
        """Return the (weighted) mean of one value per row."""
        return float(np.average(values, weights=self.weights))

    @property
    def X(self) -> NDArray[Any]:
        """A table of so many rows, for the methods of estimators that know theirs."""
        return np.empty((self.n, 0))


@dataclass(frozen=True)
class RowLoss:
    """A metric as a mean over rows: score = ``best`` - mean loss, so a loss of 0 is the best a row can do.

    ``of``: the loss of each row. ``reads``: the estimator's method that it needs. ``share``: whether losses are 0 or 1.
    """

    best: float
    of: Callable[[Answered], Floats]
    reads: str = "predict"
    share: bool = False

    def score(self, loss: float) -> float:
        """Return the score of a mean loss, or the mean loss of a score: the map is its own inverse."""
        return self.best - loss


@dataclass(frozen=True)
class Metric:
    """A metric: everything that is known of it, in one place. Scores are scikit-learn's: higher is always better.

    ``name``: scikit-learn's scorer; ``title``: for people. ``aliases``: other names that are understood. ``task``: None
    for any. ``lower_is_better``: whether people read it as an error, the score's negative. ``unit``: of what is read.
    ``low``, ``high``: the least and the greatest score. ``loss``: the metric as a mean over rows, or None.
    ``influence``: see ``influence_of``. ``quick``: the score without scikit-learn's checks. ``no_information``: the
    score of predictions paired with targets at random; None where only permutations can say. ``needs``: what a fold
    must hold for its own score to mean anything. ``of_recalls``: whether it is the mean of the classes' recalls.
    ``one_sided``: whether naming one class for every row scores best or worst. ``ranks``: whether pooling mixes models'
    scales. ``of_single_rows``: why leaving rows out makes no interval, and a remedy; else empty.
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    task: Task | None = None
    lower_is_better: bool = False
    unit: Unit = "none"
    low: float = -inf
    high: float = inf
    loss: RowLoss | None = field(default=None, repr=False)
    influence: Callable[[Answered], Influence] | None = field(default=None, repr=False)
    quick: Callable[[Answered], float] | None = field(default=None, repr=False)
    no_information: Callable[[Answered], float] | None = field(default=None, repr=False)
    needs: FoldNeed = "nothing"
    ranks: bool = False
    of_recalls: bool = False
    one_sided: bool = False
    of_single_rows: str = field(default="", repr=False)

    def shown(self, score: float) -> float:
        """Return a score as people read it: an error is positive."""
        return 0.0 - score if self.lower_is_better else score


def codes_of(labels: NDArray[Any], classes: tuple[Any, ...]) -> Codes:
    """Return the position of each label in the sorted ``classes``; ModelError where one is none of them.

    A whole number is the text class written like it, also with ``.0``; a shorter float the class it is shortened from.
    """
    levels, values = np.asarray(classes), np.asarray(labels)
    if levels.dtype.kind == "U":
        # As long as they are: cut to the length of the classes, one may be another.
        text = values.astype(str)
        if values.dtype.kind == "f":
            whole = (values == np.round(values)) & (np.abs(values) < 2**53) & ~np.isin(text, levels)
            text = np.where(whole, np.where(whole, values, 0).astype(np.int64).astype(str), text)
        values = text
    elif levels.dtype.kind == values.dtype.kind == "f":
        levels = levels.astype(values.dtype)
    elif values.dtype.kind not in "biuf":
        values = values.astype(levels.dtype)
    at = np.minimum(np.searchsorted(levels, values), levels.size - 1)
    if (other := np.flatnonzero(levels[at] != values)).size:
        of = f"{other.size:,} of {values.size:,} labels {'is' if other.size == 1 else 'are'} not among"
        what = f"{of} {describe_classes(levels)}, such as {shown(repr(values[other[0]].item()))}"
        raise ModelError(f"{what}; name every class that is predicted, or use a model that predicts no others.")
    return at

"""Diagnostics of a model: the features that it uses, and the classes that it confuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Responses, codes_of, recorded
from evenfold.estimates.metrics.registry import metric_of, score_or_nan
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.estimates.results import FoldScore, hearing
from evenfold.splitters import Stream
from evenfold.splitters.kernels import IMPORTANCE
from sklearn.metrics import confusion_matrix

MOST_ROWS, FEWEST_ROWS, REPEATS = 300, 40, 2
AT_LEAST = 5_000  # predictions that are cheap beside any fit
MOST_FOLDS = 10  # of which it is measured: the first ones, for more would say the same at the cost of short fits


def permutation_importance(
    fitted: Any, problem: Problem, test: IntArray, n_train: int, *, seed: int, path: Sequence[int]
) -> dict[str, float]:
    """Return by how much the first metric falls without the order of each feature, on rows of ``test``.

    Each feature's values change places twice among at most 300 evenly drawn test rows. All changed rows, no more than
    half of those that scoring predicts (or 5,000), are predicted at once; with many features rows or changes are fewer.
    Empty below 40 rows, or where the metric is undefined. ``seed`` and ``path`` decide rows and changes. Features that
    say the same share their worth. Source: Breiman (2001), Random forests; Fisher, Rudin and Dominici (2019).
    """
    features = list(problem.features)
    m, repeats = _size(len(features), int(test.size), n_train)
    if m < FEWEST_ROWS:
        return {}
    stream = Stream(seed, IMPORTANCE, *path)
    rows = np.sort(test[stream.permutation(test.size)[:m]])
    X = problem.X.iloc[rows]
    as_they_are = np.tile(np.arange(m), (1 + len(features) * repeats, 1))  # once, and once for each change
    columns = {}
    for name in sorted(features):  # so that the order of columns changes nothing
        order, i = as_they_are.copy(), features.index(name)
        order[1 + i * repeats : 1 + (i + 1) * repeats] = [stream.permutation(m) for _ in range(repeats)]
        columns[name] = X[name].array.take(order.reshape(-1))
    X = pd.DataFrame(columns)[features]
    weights = None if problem.weights is None else np.tile(problem.weights[rows], len(as_they_are))
    y = np.tile(problem.y[rows], len(as_they_are))
    answered = Answered(recorded(Responses(fitted, X), len(X)), y, problem.classes, weights)
    metric, blocks = metric_of(problem.model.metrics[0]), np.arange(y.size).reshape(as_they_are.shape)
    with hearing():  # of what is undefined, which is no importance then
        scores = [score_or_nan(metric, answered.drawn(block), quick=True) for block in blocks]
    if not np.isfinite(scores).all():
        return {}
    falls = scores[0] - np.reshape(scores[1:], (len(features), repeats)).mean(axis=1)
    return dict(zip(features, falls.tolist(), strict=True))


def _size(n_features: int, n_test: int, n_train: int) -> tuple[int, int]:
    """Return how many test rows are used and how often each feature is changed."""
    room = max(AT_LEAST, (n_train + n_test) // 2)
    for repeats in (REPEATS, 1):
        m = min(MOST_ROWS, n_test, room // (n_features * repeats + 1))
        if m >= FEWEST_ROWS:
            break
    return m, repeats


def importance_table(scores: Sequence[FoldScore]) -> pd.DataFrame:
    """Return each feature's importance over the folds, largest first: feature, mean, sd (n - 1), least, most, folds.

    Empty where no fold has any. Folds share training rows, so their spread is no interval.
    """
    measured = pd.DataFrame([score.importance for score in scores if score.importance])
    rows = [
        (name, column.mean(), column.std(), column.min(), column.max(), int(column.count()))
        for name, column in measured.items()
    ]
    table = pd.DataFrame(rows, columns=["feature", "mean", "sd", "least", "most", "folds"])
    return table.sort_values("mean", ascending=False, kind="stable", ignore_index=True)


MOST_CLASSES = 20


@dataclass(frozen=True)
class Confusion:
    """Counts of true by predicted classes, over all folds' test rows; ``apparent``: over the model's training rows.

    ``counts``: a row per true class, a column per predicted one. ``thresholds``: the lowest and the highest over
    the folds, of ``positive``, where the model has one that is not .5; else None.
    """

    classes: list[str]
    counts: list[list[int]]
    positive: str | None = None
    thresholds: tuple[float, float] | None = None
    apparent: bool = False

    @classmethod
    def of(cls, problem: Problem, predictions: pd.DataFrame, apparent: bool = False) -> Confusion | None:
        """Return it for predictions of classes; None for numbers, and for more than 20 classes."""
        classes = problem.classes
        if not classes or len(classes) > MOST_CLASSES:
            return None
        truth, called = (codes_of(predictions[name].to_numpy(), classes) for name in ("y", "prediction"))
        has_threshold = problem.model.threshold is not None and f"proba_{problem.positive}" in predictions
        return cls(
            [str(label) for label in classes],
            confusion_matrix(truth, called, labels=range(len(classes))).tolist(),
            None if problem.positive is None else str(problem.positive),
            thresholds(problem, predictions) if has_threshold else None,
            apparent,
        )


def thresholds(problem: Problem, predictions: pd.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest threshold over the folds, as probabilities of the positive class.

    It is the given one, or for a threshold of each fold midway between the largest probability called a no and the
    least called a yes.
    """
    threshold = problem.model.threshold
    if threshold is None or isinstance(threshold, float):
        return (threshold or 0.5,) * 2
    label = problem.positive
    yes = predictions["prediction"] == label
    probability = predictions[f"proba_{label}"]
    by = [predictions["repeat"], predictions["fold"]]
    # Where a fold calls none a yes, or none a no, the threshold is somewhere beyond: taken as the end of the scale.
    least = probability.where(yes).groupby(by).min().fillna(1.0)
    most = probability.mask(yes).groupby(by).max().fillna(0.0)
    middle = (least + most) / 2
    return float(middle.min()), float(middle.max())

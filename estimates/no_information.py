"""The no-information rate: what a model would score if its features said nothing of the target."""

from __future__ import annotations

from typing import Any

import numpy as np
from evenfold.splitters import Stream
from numpy.typing import NDArray

from ._errors import ModelError
from ._responses import Replay
from .metrics import score
from .row_losses import Floats, all_classes, codes_of, row_loss

LEAST_PERMUTATIONS = 50


def no_information_rate(
    metric: str,
    answers: Any,
    y: NDArray[Any],
    classes: tuple[Any, ...] = (),
    *,
    weights: Floats | None = None,
    seed: int = 0,
    n_permutations: int = 100,
) -> float:
    """Return the score that predictions have on average when y is paired with them at random, as a score.

    ``answers``: the model fitted on all rows, for those rows. Exact, over all n x n pairs (weighing both rows of a
    pair), for accuracy, squared and absolute error, log loss, Brier score, and what follows from them: R2 and
    balanced accuracy. .5 for any AUC. Otherwise the mean over ``n_permutations`` seeded permutations of y, at least 50.
    Source: Efron and Tibshirani (1997); for metrics that are no mean over rows, permutations stand for the pairs.
    """
    if metric.startswith("roc_auc"):
        return 0.5
    exact = _of_classes if classes else _of_numbers
    rate = exact(metric, answers, y, classes, np.ones(y.size) if weights is None else weights)
    return _permuted(metric, answers, y, classes, weights, seed, n_permutations) if rate is None else rate


def _of_numbers(metric: str, answers: Any, y: NDArray[Any], _: tuple[Any, ...], weights: Floats) -> float | None:
    if metric not in ("r2", "neg_mean_squared_error", "neg_mean_absolute_error"):
        return None
    said = np.asarray(answers.predict(_rows(y)), dtype=np.float64)
    if metric == "neg_mean_absolute_error":
        return -_absolute(said, y, weights)
    (mean_y, var_y), (mean_said, var_said) = _moments(y, weights), _moments(said, weights)
    squared = var_y + var_said + (mean_y - mean_said) ** 2
    return 1.0 - squared / var_y if metric == "r2" else -squared


def _of_classes(metric: str, answers: Any, y: NDArray[Any], classes: tuple[Any, ...], weights: Floats) -> float | None:
    codes = codes_of(y, classes)
    shares = np.bincount(codes, weights=weights, minlength=len(classes)) / weights.sum()
    loss = row_loss("accuracy" if metric == "balanced_accuracy" else metric)
    if loss is None:
        return None
    if loss.reads == "predict":
        said: NDArray[Any] = codes_of(np.asarray(answers.predict(_rows(y))), classes)
    else:
        said = all_classes(answers.predict_proba(_rows(y)), answers.classes_, classes)
    if metric == "balanced_accuracy":
        shares = (shares > 0) / np.sum(shares > 0)
    # A row of class c meets every prediction equally often, so n x n pairs are one mean per class.
    means = [float(np.average(loss.of(np.full(y.size, c), said), weights=weights)) for c in range(len(classes))]
    return loss.score(float(sum(share * mean for share, mean in zip(shares, means, strict=True))))


def _moments(values: NDArray[Any], weights: Floats) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.average(np.square(values - mean), weights=weights))


def _absolute(said: NDArray[Any], y: NDArray[Any], weights: Floats) -> float:
    # The mean of |y_i - p_j| over all pairs, by sorting: O(n log n) instead of n x n.
    order = np.argsort(said, kind="stable")
    below = np.searchsorted(said[order], y)
    mass = np.concatenate(([0.0], np.cumsum(weights[order])))
    moment = np.concatenate(([0.0], np.cumsum(weights[order] * said[order])))
    sums = y * mass[below] - moment[below] + (moment[-1] - moment[below]) - y * (mass[-1] - mass[below])
    return float(np.average(sums, weights=weights) / mass[-1])


def _permuted(
    metric: str,
    answers: Any,
    y: NDArray[Any],
    classes: tuple[Any, ...],
    weights: Floats | None,
    seed: int,
    count: int,
) -> float:
    if count < LEAST_PERMUTATIONS:
        raise ModelError(f"n_permutations={count}; choose at least {LEAST_PERMUTATIONS}.")
    replay = _recorded(answers, y, classes)
    stream = Stream(seed, NO_INFORMATION)
    orders = (stream.permutation(y.size) for _ in range(count))
    return float(np.mean([score(metric, replay, y[o], None if weights is None else weights[o]) for o in orders]))


# The purpose of the stream, so that these permutations share no numbers with any split.
NO_INFORMATION = 632


def _recorded(answers: Any, y: NDArray[Any], classes: tuple[Any, ...]) -> Replay:
    methods = ("predict", "predict_proba", "decision_function")
    said = {name: getattr(answers, name)(_rows(y)) for name in methods if hasattr(answers, name)}
    return Replay(said, tuple(answers.classes_.tolist()) if classes else ())


def _rows(y: NDArray[Any]) -> NDArray[Any]:
    return np.empty((y.size, 0))

"""The metrics that are means over rows: one loss per row, from which errors, intervals and comparisons are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from evenfold.estimates.models.responses import Replay
from evenfold.estimates.results import ModelError
from evenfold.splitters import Stream
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import rankdata
from sklearn.base import BaseEstimator

from .metrics import score

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowLoss:
    """A metric as a mean over rows: score = ``best`` - mean loss, so a loss of 0 is the best a row can do.

    ``reads``: ``predict`` or ``predict_proba``. ``of``: the losses of truths y (numbers, or codes of classes) for
    predictions (numbers or codes), or for probabilities of shape (n, classes).
    """

    best: float
    reads: str
    of: Callable[[Any, Any], Floats]

    def score(self, loss: float) -> float:
        """Return the score of a mean loss, or the mean loss of a score: the map is its own inverse."""
        return self.best - loss


def row_loss(metric: str) -> RowLoss | None:
    """Return the metric's loss per row, or None where the metric is no mean over rows (AUC, R2, F1)."""
    return ROW_LOSSES.get(metric)


def losses_of(metric: str, answers: Any, y: NDArray[Any], classes: tuple[Any, ...] = ()) -> Floats:
    """Return the loss of each row; their (weighted) mean is ``best`` minus scikit-learn's score.

    ``answers``: an estimator that knows its rows. ``classes``: the problem's labels, sorted; the estimator may know
    fewer of them, and then gives the others probability 0. Raises ModelError for a metric that is no mean over rows.
    """
    loss = ROW_LOSSES.get(metric)
    if loss is None:
        raise ModelError(f"{metric!r} is no mean over rows; those are {', '.join(ROW_LOSSES)}.")
    said = getattr(answers, loss.reads)(np.empty((y.size, 0)))
    if not classes:
        return loss.of(y, said)
    if loss.reads == "predict":
        return loss.of(codes_of(y, classes), codes_of(np.asarray(said), classes))
    return loss.of(codes_of(y, classes), all_classes(said, answers.classes_, classes))


def codes_of(labels: NDArray[Any], classes: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return the position of each label in the sorted ``classes``."""
    levels = np.asarray(classes)
    return np.searchsorted(levels, np.asarray(labels, dtype=levels.dtype))


def all_classes(probabilities: NDArray[Any], known: NDArray[Any], classes: tuple[Any, ...]) -> Floats:
    """Return probabilities with a column for each of ``classes``, 0 for those not ``known`` to the estimator."""
    if len(known) == len(classes):
        return probabilities
    wide = np.zeros((len(probabilities), len(classes)))
    wide[:, codes_of(np.asarray(known), classes)] = probabilities
    return wide


def _wrong(y: Floats, said: Floats) -> Floats:
    return np.asarray(y != said, dtype=np.float64)


def _squared(y: Floats, said: Floats) -> Floats:
    return np.square(y - said)


def _absolute(y: Floats, said: Floats) -> Floats:
    return np.abs(y - said)


def _relative(y: Floats, said: Floats) -> Floats:
    return np.abs(y - said) / np.maximum(np.abs(y), np.finfo(np.float64).eps)


def _squared_log(y: Floats, said: Floats) -> Floats:
    return np.asarray(np.square(np.log1p(y) - np.log1p(said)))


def _poisson(y: Floats, said: Floats) -> Floats:
    return np.asarray(2 * (xlogy(y, y / said) - y + said))


def _gamma(y: Floats, said: Floats) -> Floats:
    return np.asarray(2 * (np.log(said / y) + y / said - 1))


def _log(y: NDArray[np.int64], said: Floats) -> Floats:
    tiny = np.finfo(said.dtype).eps  # scikit-learn's own bound, so that one sure mistake is not infinitely bad
    return -np.log(np.clip(said[np.arange(y.size), y], tiny, 1 - tiny))


def _brier(y: NDArray[np.int64], said: Floats) -> Floats:
    n_classes = said.shape[1]
    squared = np.zeros(y.size)
    for j in range(n_classes):
        squared += np.square(said[:, j] - (y == j))
    return squared / 2 if n_classes == 2 else squared


ROW_LOSSES: dict[str, RowLoss] = {
    "accuracy": RowLoss(1.0, "predict", _wrong),
    "neg_mean_squared_error": RowLoss(0.0, "predict", _squared),
    "neg_mean_absolute_error": RowLoss(0.0, "predict", _absolute),
    "neg_mean_absolute_percentage_error": RowLoss(0.0, "predict", _relative),
    "neg_mean_squared_log_error": RowLoss(0.0, "predict", _squared_log),
    "neg_mean_poisson_deviance": RowLoss(0.0, "predict", _poisson),
    "neg_mean_gamma_deviance": RowLoss(0.0, "predict", _gamma),
    "neg_log_loss": RowLoss(0.0, "predict_proba", _log),
    "neg_brier_score": RowLoss(0.0, "predict_proba", _brier),
}


Quick = Callable[[Any, NDArray[Any], tuple[Any, ...]], float]


def reads_names(estimator: Any) -> bool:
    """Return whether an estimator may look at columns by name, so that it must be given a frame.

    False only where every part is scikit-learn's own and none selects columns: then an array gives the same model.
    """
    parts = [estimator, *(part for part in estimator.get_params().values() if isinstance(part, BaseEstimator))]
    return any(_may_read_names(part) for part in parts)


def _may_read_names(part: Any) -> bool:
    ours = type(part).__module__.partition(".")[0] == "sklearn"
    selects = type(part).__name__ in ("ColumnTransformer", "FunctionTransformer")
    named = [getattr(part, name, None) for name in ("categorical_features", "monotonic_cst", "interaction_cst")]
    return not ours or selects or any(not (value is None or str(value) == "from_dtype") for value in named)


def _auc(answers: Any, y: NDArray[Any], classes: tuple[Any, ...]) -> float:
    if len(answers.classes_) < 2:
        return float("nan")
    rows = np.empty((y.size, 0))
    decides = hasattr(answers, "decision_function")
    said = answers.decision_function(rows) if decides else answers.predict_proba(rows)[:, 1]
    positive = y == answers.classes_[1]
    n_positive = int(positive.sum())
    pairs = n_positive * (y.size - n_positive)
    if pairs == 0:
        return float("nan")
    return float((rankdata(said)[positive].sum() - n_positive * (n_positive + 1) / 2) / pairs)


def _balanced_accuracy(answers: Any, y: NDArray[Any], classes: tuple[Any, ...]) -> float:
    right = 1.0 - losses_of("accuracy", answers, y, classes)
    codes = codes_of(y, classes)
    counts = np.bincount(codes, minlength=len(classes))
    recalled = np.bincount(codes, weights=right, minlength=len(classes))
    return float(np.mean(recalled[counts > 0] / counts[counts > 0]))


def _r2(answers: Any, y: NDArray[Any], classes: tuple[Any, ...]) -> float:
    residual = float(losses_of("neg_mean_squared_error", answers, y).sum())
    total = float(np.square(y - y.mean()).sum())
    if y.size < 2:
        return float("nan")
    if total == 0:
        return float(residual == 0)  # scikit-learn's convention for a constant truth
    return 1.0 - residual / total


def _rmse(answers: Any, y: NDArray[Any], classes: tuple[Any, ...]) -> float:
    return -float(np.sqrt(losses_of("neg_mean_squared_error", answers, y).mean()))


QUICK: dict[str, Quick] = {
    "roc_auc": _auc,
    "balanced_accuracy": _balanced_accuracy,
    "r2": _r2,
    "neg_root_mean_squared_error": _rmse,
}


def from_losses(metric: str, losses: Floats, weights: Floats | None) -> float:
    """Return the score of a metric that is a mean over rows, from the rows' losses."""
    return ROW_LOSSES[metric].score(float(np.average(losses, weights=weights)))


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
        return -_absolute_without_information(said, y, weights)
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


def _absolute_without_information(said: NDArray[Any], y: NDArray[Any], weights: Floats) -> float:
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

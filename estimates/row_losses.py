"""The metrics that are means over rows: one loss per row, from which errors, intervals and comparisons are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from ._errors import ModelError

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

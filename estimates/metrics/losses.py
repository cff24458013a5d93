"""The losses of single rows, whose mean is a metric."""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from .record import Answered, Floats


def wrong(rows: Answered) -> Floats:
    """Return 1 for a row whose prediction is wrong, else 0."""
    return np.asarray(rows.truth != rows.predicted, dtype=np.float64)


def squared(rows: Answered) -> Floats:
    """Return the squared errors."""
    return np.asarray(np.square(rows.truth - rows.predicted))


def absolute(rows: Answered) -> Floats:
    """Return the absolute errors."""
    return np.asarray(np.abs(rows.truth - rows.predicted))


def relative(rows: Answered) -> Floats:
    """Return the absolute errors as shares of the truth."""
    least = np.finfo(np.float64).eps
    return np.asarray(np.abs(rows.truth - rows.predicted) / np.maximum(np.abs(rows.truth), least))


def squared_log(rows: Answered) -> Floats:
    """Return the squared errors of log(1 + value)."""
    return np.asarray(np.square(np.log1p(rows.truth) - np.log1p(rows.predicted)))


def poisson(rows: Answered) -> Floats:
    """Return the Poisson deviances."""
    y, mean = rows.truth, rows.predicted
    return np.asarray(2 * (xlogy(y, y / mean) - y + mean))


def gamma(rows: Answered) -> Floats:
    """Return the gamma deviances."""
    y, mean = rows.truth, rows.predicted
    return np.asarray(2 * (np.log(mean / y) + y / mean - 1))


def log(rows: Answered) -> Floats:
    """Return minus the logarithm of the probability of the true class."""
    tiny = np.finfo(rows.probabilities.dtype).eps  # scikit-learn's own bound: one sure mistake is not infinitely bad
    return np.asarray(-np.log(np.clip(rows.probabilities[np.arange(rows.n), rows.truth], tiny, 1 - tiny)))


def brier(rows: Answered) -> Floats:
    """Return the squared distances of the probabilities from the truth, half of them for two classes."""
    n_classes = rows.probabilities.shape[1]
    distance = np.zeros(rows.n)
    for j in range(n_classes):
        distance += np.square(rows.probabilities[:, j] - (rows.truth == j))
    return distance / 2 if n_classes == 2 else distance

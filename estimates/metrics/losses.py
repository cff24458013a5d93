"""The losses of single rows, whose mean is a metric; NaN where scikit-learn's metric is not defined on the row."""

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
    """Return the squared errors of log(1 + value), of values above -1."""
    y, predicted = rows.truth, rows.predicted
    defined = (y > -1) & (predicted > -1)
    apart = np.log1p(np.where(defined, y, np.nan)) - np.log1p(np.where(defined, predicted, np.nan))
    return np.asarray(np.square(apart))


def poisson(rows: Answered) -> Floats:
    """Return the Poisson deviances, of counts from 0 and predictions above 0."""
    y = rows.truth
    mean = np.where((y >= 0) & (rows.predicted > 0), rows.predicted, np.nan)
    return np.asarray(2 * (xlogy(y, y / mean) - y + mean))


def gamma(rows: Answered) -> Floats:
    """Return the gamma deviances, of values and predictions above 0."""
    y = np.where(rows.truth > 0, rows.truth, np.nan)
    mean = np.where(rows.predicted > 0, rows.predicted, np.nan)
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

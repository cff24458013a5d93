"""Scores without scikit-learn's checks, for draws by the thousand; NaN where the metric is undefined."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from .losses import squared, wrong
from .record import Answered


def auc(rows: Answered) -> float:
    """Return the area under the curve of two classes."""
    classes = rows.answers.classes_
    if len(classes) < 2:
        return float("nan")
    positive = rows.y == classes[1]
    n_positive = int(positive.sum())
    pairs = n_positive * (rows.n - n_positive)
    if pairs == 0:
        return float("nan")
    return float((rankdata(rows.ranking)[positive].sum() - n_positive * (n_positive + 1) / 2) / pairs)


def balanced_accuracy(rows: Answered) -> float:
    """Return the mean of the recalls of the classes that there are."""
    k = len(rows.classes)
    counts = np.bincount(rows.truth, minlength=k)
    recalled = np.bincount(rows.truth, weights=1.0 - wrong(rows), minlength=k)
    return float(np.mean(recalled[counts > 0] / counts[counts > 0]))


def r2(rows: Answered) -> float:
    """Return R2."""
    if rows.n < 2:
        return float("nan")
    residual, total = float(squared(rows).sum()), float(np.square(rows.y - rows.y.mean()).sum())
    if total == 0:
        return float(residual == 0)  # scikit-learn's convention for a constant truth
    return 1.0 - residual / total


def rmse(rows: Answered) -> float:
    """Return minus the root of the mean squared error."""
    return -float(np.sqrt(squared(rows).mean()))

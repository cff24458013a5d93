"""Scores of thousands of draws, without scikit-learn's checks of each: the same values, to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator

from .row_losses import ROW_LOSSES, Floats, codes_of, losses_of

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

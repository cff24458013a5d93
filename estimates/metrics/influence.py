"""How much each row moves a metric: what turns predictions into an interval without drawing anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.intervals import bootstrap_interval, interval_of
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.models.responses import replay
from evenfold.estimates.results import Interval
from numpy.typing import NDArray
from scipy.stats import rankdata

from .metrics import score
from .registry import ROW_LOSSES, Floats, codes_of, losses_of

Influence = tuple[float, Floats]


def pooled_rows_interval(
    metric: str, predictions: pd.DataFrame, problem: Problem, *, level: float = 0.95
) -> Interval | None:
    """Return the interval of the pooled score from each row's influence, or None where the metric has no such form.

    For means over rows the influence is the row's loss. For RMSE, R2, balanced accuracy and binary AUC it is the
    derivative of the metric (for AUC: DeLong, DeLong and Clarke-Pearson 1988). Influences are averaged over repeats
    first. Groups of the problem make it cluster-robust.
    """
    values, rows, moves = [], [], []
    for _, part in predictions.groupby("repeat"):
        found = influence_of(metric, part, problem.classes)
        if found is None or not np.all(np.isfinite(found[1])):
            return None
        values.append(found[0])
        rows.append(part["row"].to_numpy())
        moves.append(found[1])
    present, codes, counts = np.unique(np.concatenate(rows), return_inverse=True, return_counts=True)
    influence = np.bincount(codes.reshape(-1), weights=np.concatenate(moves)) / counts
    groups = None if problem.groups is None else problem.groups[present]
    if np.unique(present if groups is None else groups).size < 2:
        return None  # one row or group is one observation, which has no spread
    return interval_of(float(np.mean(values)), influence, groups, level=level).cut(metric)


def resampled_interval(
    metric: str,
    predictions: pd.DataFrame,
    problem: Problem,
    *,
    method: str | None = None,
    level: float = 0.95,
    n_resamples: int = 999,
    seed: int = 0,
) -> Interval:
    """Return the bootstrap interval of the pooled score of any metric; whole groups are drawn where there are some.

    With repeats a resample holds the same rows of every repeat, and their scores are averaged.
    """
    parts = [part.sort_values("row").reset_index(drop=True) for _, part in predictions.groupby("repeat")]
    rows = parts[0]["row"].to_numpy()

    def statistic(drawn: NDArray[np.int64]) -> float:
        return float(np.mean([_score(metric, part.iloc[drawn], problem) for part in parts]))

    groups = None if problem.groups is None else problem.groups[rows]
    return bootstrap_interval(
        statistic, rows.size, groups, method=method, level=level, n_resamples=n_resamples, seed=seed
    )


def _score(metric: str, part: pd.DataFrame, problem: Problem) -> float:
    weights = part["weight"].to_numpy() if "weight" in part else None
    try:
        return score(metric, replay(part, problem.classes), part["y"].to_numpy(), weights)
    except ValueError:  # undefined on these rows
        return float("nan")


def influence_of(metric: str, part: pd.DataFrame, classes: tuple[Any, ...]) -> Influence | None:
    """Return the pooled score of one repeat's predictions and each row's influence on it, or None.

    Influences sum to 0, and their standard deviation over sqrt(n) is the score's standard error.
    """
    answers, y = replay(part, classes), part["y"].to_numpy()
    weights = part["weight"].to_numpy() if "weight" in part else None
    if metric in ROW_LOSSES:
        return _of_mean(metric, answers, y, classes, weights)
    if weights is not None or metric not in _INFLUENCES:
        return None
    if metric == "roc_auc" and len(classes) != 2:
        return None
    return _INFLUENCES[metric](answers, y, classes)


def _of_mean(metric: str, answers: Any, y: Any, classes: tuple[Any, ...], weights: Floats | None) -> Influence | None:
    loss = ROW_LOSSES[metric]
    if not hasattr(answers, loss.reads):
        return None
    losses = losses_of(metric, answers, y, classes)
    mean = float(np.average(losses, weights=weights))
    share = 1.0 if weights is None else weights / weights.mean()
    return loss.score(mean), (mean - losses) * share


def _of_rmse(answers: Any, y: Any, classes: tuple[Any, ...]) -> Influence:
    squares = losses_of("neg_mean_squared_error", answers, y)
    root = float(np.sqrt(squares.mean()))
    return -root, (squares.mean() - squares) / (2 * root) if root > 0 else np.zeros(y.size)


def _of_r2(answers: Any, y: Any, classes: tuple[Any, ...]) -> Influence:
    squares = losses_of("neg_mean_squared_error", answers, y)
    apart = np.square(y - y.mean())
    ratio = float(squares.mean() / apart.mean())
    return 1.0 - ratio, (ratio * apart - squares) / apart.mean()


def _of_balanced_accuracy(answers: Any, y: Any, classes: tuple[Any, ...]) -> Influence:
    right = 1.0 - losses_of("accuracy", answers, y, classes)
    codes = codes_of(y, classes)
    counts = np.bincount(codes, minlength=len(classes))
    recall = np.bincount(codes, weights=right, minlength=len(classes)) / np.maximum(counts, 1)
    present = int(np.sum(counts > 0))
    moves = (right - recall[codes]) * (y.size / (present * counts[codes]))
    return float(recall[counts > 0].mean()), moves


def _of_auc(answers: Any, y: Any, classes: tuple[Any, ...]) -> Influence:
    rows = np.empty((y.size, 0))
    decides = hasattr(answers, "decision_function")
    said = answers.decision_function(rows) if decides else answers.predict_proba(rows)[:, 1]
    positive = codes_of(y, classes) == 1
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(said)
    # A row's placement: the share of the other class's rows that it is rightly ordered with.
    placed = np.empty(y.size)
    placed[positive] = (ranks[positive] - rankdata(said[positive])) / max(n_negative, 1)
    placed[~positive] = 1 - (ranks[~positive] - rankdata(said[~positive])) / max(n_positive, 1)
    auc = float(placed[positive].mean()) if n_positive and n_negative else float("nan")
    return auc, (placed - auc) * np.where(positive, y.size / max(n_positive, 1), y.size / max(n_negative, 1))


_INFLUENCES = {
    "neg_root_mean_squared_error": _of_rmse,
    "r2": _of_r2,
    "balanced_accuracy": _of_balanced_accuracy,
    "roc_auc": _of_auc,
}

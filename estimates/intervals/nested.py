"""The careful interval: nested cross-validation, which measures how far cross-validation itself is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Floats
from evenfold.estimates.results import Interval
from numpy.typing import NDArray
from scipy import stats

from .evidence import Declined, Evidence, Made, Pair

UNTESTED = -1
MOST_FITS = 1_000
Losses = tuple[Floats, Floats]  # and the weight of each


def nested_interval(
    inner: Sequence[Losses], outer: Sequence[Losses], plain: Losses, n_splits: int, n: int, level: float = 0.95
) -> Interval:
    """Return the nested cross-validation interval for a mean loss, from each outer fold's losses and their weights.

    ``inner``: for every outer fold of every repeat the losses of models trained without the fold and one more, on that
    one; ``outer``: of the model trained without the fold, on the fold; ``plain``: the outer losses of all folds.
    For each fold a = mean(inner) - mean(outer) and
    b = var(outer)/size; the mean of a^2 - b estimates the mean squared error of cross-validation on (k-1)/k of the
    ``n`` rows, so se^2 = (k-1)/k of it, kept between sd^2/n and k sd^2/n. The centre is moved by the bias of training
    on fewer rows: Err_nested - (1 + (k-2)/k)(Err_nested - Err_cv).
    Source: Bates, Hastie and Tibshirani (2023), Cross-validation: what does it estimate and how well does it do it?
    (the bias as in the paper; the authors' own code raises (k-2)/k to the power 1.5).
    """
    inside, outside = ([_mean_and_variance(*losses) for losses in each] for each in (inner, outer))
    mean, variance = _mean_and_variance(*plain)
    errors = [(a - b) ** 2 - chance for (a, _), (b, chance) in zip(inside, outside, strict=True)]
    # As of n rows: repeats lose on the same rows again, and are no further ones.
    least = sqrt(variance * plain[0].size / n)
    se = sqrt(max(0.0, float(np.mean(errors))) * (n_splits - 1) / n_splits)
    se = min(max(se, least), sqrt(n_splits) * least)
    nested = float(np.mean([error for error, _ in inside]))
    centre = nested - (1 + (n_splits - 2) / n_splits) * (nested - mean)
    half = float(stats.norm.ppf(0.5 + level / 2)) * se
    return Interval(centre - half, centre + half, level, "nested cross-validation")


def _mean_and_variance(loss: Floats, weight: Floats) -> tuple[float, float]:
    """Return a weighted mean and its variance for independent rows."""
    mean = float(np.average(loss, weights=weight))
    share = weight / weight.sum()
    return mean, loss.size / max(loss.size - 1, 1) * float(np.sum(np.square(share * (loss - mean))))


def nested_splits(evidence: Evidence) -> list[Pair]:
    """Return the fits that a nested cross-validation asks for besides the evaluation's own: k(k - 1)/2 a repeat.

    Each trains without two folds and tests both, so it serves as the inner model of either.
    """
    return [
        (np.flatnonzero(~np.isin(folds, (*pair, UNTESTED))), np.flatnonzero(np.isin(folds, pair)))
        for folds in _folds(evidence)
        for pair in combinations(np.unique(folds[folds != UNTESTED]).tolist(), 2)
    ]


def _folds(evidence: Evidence) -> Iterator[NDArray[np.int64]]:
    for part in evidence.parts:
        folds = np.full(evidence.problem.n, UNTESTED, dtype=np.int64)
        folds[part["row"].to_numpy()] = part["fold"].to_numpy()
        yield folds


def not_nestable(evidence: Evidence) -> str:
    """Return why a nested cross-validation is not for such evidence, and what would be."""
    if evidence.metric.loss is None:
        return (
            f"nested cross-validation needs a mean over rows, and {evidence.metric.title} is none; "
            "choose auto or bootstrap."
        )
    n, units = evidence.rows.size, evidence.units
    if units is not None and np.unique(units).size < n:
        return (
            f"nested cross-validation takes rows for independent, and the rows of each of {np.unique(units).size:,} "
            "groups err together; choose auto."
        )
    trained = any(score.n_train + score.n_test != n for score in evidence.scores)
    if trained or any(part.shape[0] != n for part in evidence.parts):
        return "nested cross-validation needs folds that test every row, and train on all others; choose auto."
    k = evidence.parts[0]["fold"].nunique()
    if k < 3:
        return f"nested cross-validation needs 3 folds, and has {k}; choose auto."
    fits = len(evidence.parts) * k * (k - 1) // 2
    if fits > MOST_FITS:
        return (
            f"nested cross-validation of {k:,} folds asks for {fits:,} further fits, and {MOST_FITS:,} is the most; "
            "use fewer folds, or choose auto."
        )
    return ""


def nested(evidence: Evidence, level: float) -> Made:
    """Return the interval of a metric that is a mean over rows."""
    loss, k = evidence.metric.loss, evidence.parts[0]["fold"].nunique()
    assert loss is not None
    if not evidence.refits:
        return Declined("nested cross-validation needs further fits, which this evaluation does not have.")

    def lost(frame: pd.DataFrame) -> Losses:
        rows = evidence.answered(frame)
        return loss.of(rows), rows.mass

    # In the order in which nested_splits asked for them.
    refits = iter(evidence.refits)
    inner: list[Losses] = []
    outer: list[Losses] = []
    for part, of_row in zip(evidence.parts, _folds(evidence), strict=True):
        without: dict[int, list[pd.DataFrame]] = {fold: [] for fold in np.unique(of_row[of_row != UNTESTED]).tolist()}
        for i, j in combinations(without, 2):
            refit = next(refits)
            # Trained without i and j: with i as the outer fold, j is an inner one, and the other way round.
            tested = of_row[refit["row"].to_numpy()]
            without[i].append(refit[tested == j])
            without[j].append(refit[tested == i])
        inner += [lost(pd.concat(frames)) for frames in without.values()]
        outer += [lost(part[part["fold"] == fold]) for fold in without]
    if min(losses.size for losses, _ in outer) < 2:
        return Declined("nested cross-validation needs 2 rows a fold; use fewer folds.")
    interval = nested_interval(inner, outer, lost(pd.concat(evidence.parts)), k, evidence.rows.size, level)
    return interval.scores(loss.best).within(evidence.metric.low, evidence.metric.high)

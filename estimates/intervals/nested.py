"""The careful interval: nested cross-validation, which measures how far cross-validation itself is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.record import Floats
from evenfold.estimates.results import Interval
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .evidence import Declined, Evidence, IntervalMethod, Made, Pair

UNTESTED = -1
MOST_FITS = 1_000
Losses = Sequence[tuple[ArrayLike, ArrayLike]]


def nested_interval(
    folds: Losses,
    n_splits: int,
    n: int,
    cv_losses: ArrayLike,
    *,
    level: float = 0.95,
    weights: Losses | None = None,
    cv_weights: ArrayLike | None = None,
) -> Interval:
    """Return the nested cross-validation interval for a mean loss, from each outer fold's losses.

    ``folds``: for every outer fold of every repeat its inner and outer losses: of models trained without the fold and
    one more, on that one; and of the model trained without the fold, on the fold. ``cv_losses``: the outer losses of
    plain cross-validation, all rows once per repeat. For each fold a = mean(inner) - mean(outer) and
    b = var(outer)/size; the mean of a^2 - b estimates the mean squared error of cross-validation on (k-1)/k of the
    rows, so se^2 = (k-1)/k of it, kept between sd^2/n and k sd^2/n. The centre is moved by the bias of training on
    fewer rows: Err_nested - (1 + (k-2)/k)(Err_nested - Err_cv). ``weights``, ``cv_weights``: one per loss, in the same
    shapes; the means are weighted then, and their variances those of weighted means.
    Source: Bates, Hastie and Tibshirani (2023), Cross-validation: what does it estimate and how well does it do it?
    (the bias as in the paper; the authors' own code raises (k-2)/k to the power 1.5).
    """
    mass = weights or [(np.ones(np.size(inner)), np.ones(np.size(outer))) for inner, outer in folds]
    if min(np.size(outer) for _, outer in folds) < 2 or n_splits < 3:
        raise ModelError(f"nested cross-validation needs 3 folds of 2 rows, and has {n_splits}; use larger folds.")
    inner = [_mean_and_variance(losses, w) for (losses, _), (w, _) in zip(folds, mass, strict=True)]
    outer = [_mean_and_variance(losses, w) for (_, losses), (_, w) in zip(folds, mass, strict=True)]
    size = np.size(cv_losses)
    plain, variance = _mean_and_variance(cv_losses, np.ones(size) if cv_weights is None else cv_weights)
    errors = [(a - b) ** 2 - chance for (a, _), (b, chance) in zip(inner, outer, strict=True)]
    # As of n rows: repeats lose on the same rows again, and are no further ones.
    least = sqrt(variance * size / n)
    se = sqrt(max(0.0, float(np.mean(errors))) * (n_splits - 1) / n_splits)
    se = min(max(se, least), sqrt(n_splits) * least)
    nested = float(np.mean([mean for mean, _ in inner]))
    centre = nested - (1 + (n_splits - 2) / n_splits) * (nested - plain)
    half = float(stats.norm.ppf(0.5 + level / 2)) * se
    return Interval(centre - half, centre + half, level, "nested cross-validation")


def _mean_and_variance(losses: ArrayLike, weights: ArrayLike) -> tuple[float, float]:
    """Return a weighted mean and its variance for independent rows."""
    loss, weight = np.asarray(losses, dtype=np.float64), np.asarray(weights, dtype=np.float64)
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
    if reason := not_nestable(evidence):
        return Declined(reason)
    loss, k = evidence.metric.loss, evidence.parts[0]["fold"].nunique()
    assert loss is not None

    def lost(frame: pd.DataFrame) -> tuple[Floats, Floats]:
        rows = evidence.answered(frame)
        return loss.of(rows), rows.mass

    # In the order in which nested_splits asked for them.
    refits = iter(evidence.refits)
    folds: list[tuple[tuple[Floats, Floats], tuple[Floats, Floats]]] = []
    for part, of_row in zip(evidence.parts, _folds(evidence), strict=True):
        inner: dict[int, list[pd.DataFrame]] = {fold: [] for fold in np.unique(of_row[of_row != UNTESTED]).tolist()}
        for i, j in combinations(inner, 2):
            refit = next(refits)
            # Trained without i and j: with i as the outer fold, j is an inner one, and the other way round.
            tested = of_row[refit["row"].to_numpy()]
            inner[i].append(refit[tested == j])
            inner[j].append(refit[tested == i])
        folds += [(lost(pd.concat(frames)), lost(part[part["fold"] == fold])) for fold, frames in inner.items()]
    plain, weights = lost(pd.concat(evidence.parts))
    losses = [(a[0], b[0]) for a, b in folds]
    mass = [(a[1], b[1]) for a, b in folds]
    if min(np.size(b) for _, b in losses) < 2:
        return Declined("nested cross-validation needs 2 rows a fold; use fewer folds.")
    of_losses = nested_interval(
        losses, k, evidence.rows.size, plain, level=level, weights=mass, cv_weights=weights
    )  # fmt: skip
    # The highest loss is the lowest score.
    low, high = loss.score(of_losses.high), loss.score(of_losses.low)
    interval = Interval(low, high, level, of_losses.method, of_losses.notes)
    return interval.within(evidence.metric.low, evidence.metric.high)


METHODS = (
    IntervalMethod(
        name="nested",
        needs=frozenset({"predictions", "refits"}),
        of="a model trained on these rows, on new rows like them",
        make=nested,
        splits=nested_splits,
        unfit=not_nestable,
        only="means over rows, without groups",
        fits="k(k - 1)/2 a repeat",
    ),
)

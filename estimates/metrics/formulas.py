"""The mathematics of the metrics: losses of rows, scores without checks, influence of rows, rates without information.

* A loss: a number per row, whose mean is a metric; NaN where scikit-learn's metric is not defined on the row.
* A quick score: without scikit-learn's checks, for draws by the thousand; NaN where the metric is undefined.
* An influence: how much each row moves a metric that is not a mean over rows, of which an interval is made without
  drawing anything. It is the score and one number per row: the derivative of the score by the row's multiplicity,
  times n. Influences sum to 0, and their standard deviation over sqrt(n) is the score's standard error.
* A rate: what predictions score on average when the targets are paired with them at random. Source: Efron and
  Tibshirani (1997), Improvements on cross-validation: the .632+ bootstrap method.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import rankdata

from .record import Answered, Codes, Floats, Influence, RowLoss
from .scoring import OF, OF_ONE_CLASS, among_rows, positive_class, scorer_of

STEP = 1e-4  # of a cell's mass; the error of a central difference is of the order of its square


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


def quick_auc(rows: Answered) -> float:
    """Return the area under the curve of two classes."""
    classes = rows.answers.classes_
    positive = rows.y == classes[1] if len(classes) > 1 else np.zeros(rows.n, dtype=bool)
    n_positive = int(positive.sum())
    pairs = n_positive * (rows.n - n_positive)
    if pairs == 0:
        return float("nan")
    return float((rankdata(rows.ranking)[positive].sum() - n_positive * (n_positive + 1) / 2) / pairs)


def quick_balanced_accuracy(rows: Answered) -> float:
    """Return the mean of the recalls of the classes that there are."""
    k = len(rows.classes)
    counts = np.bincount(rows.truth, minlength=k)
    recalled = np.bincount(rows.truth, weights=1.0 - wrong(rows), minlength=k)
    return float(np.mean(recalled[counts > 0] / counts[counts > 0]))


def quick_r2(rows: Answered) -> float:
    """Return R2; of a constant truth 1 or 0, as scikit-learn does, and NaN for one row."""
    if rows.n < 2:
        return float("nan")
    residual, total = float(squared(rows).sum()), float(np.square(rows.y - rows.y.mean()).sum())
    return float(residual == 0) if total == 0 else 1.0 - residual / total


def quick_rmse(rows: Answered) -> float:
    """Return minus the root of the mean squared error."""
    return -float(np.sqrt(squared(rows).mean()))


def influence_on_mean(loss: RowLoss, rows: Answered) -> Influence:
    """Return the influence of rows on a mean of losses: how far each is from the mean."""
    losses = loss.of(rows)
    mean = rows.mean(losses)
    share = 1.0 if rows.weights is None else rows.weights / rows.weights.mean()
    return loss.score(mean), (mean - losses) * share


def influence_on_rmse(rows: Answered) -> Influence:
    """Return the influence of rows on the root of the mean squared error."""
    squares = squared(rows)
    mean = rows.mean(squares)
    root = float(np.sqrt(mean))
    moves = (mean - squares) / (2 * root) if root > 0 else np.zeros(rows.n)
    return -root, moves * rows.mass / rows.mass.mean()


def influence_on_r2(rows: Answered) -> Influence:
    """Return the influence of rows on R2, the share of the variance that is explained."""
    squares, apart = squared(rows), np.square(rows.y - rows.mean(rows.y))
    total = rows.mean(apart)
    if total == 0:  # one truth: no row moves what is 0 or 1 by scikit-learn's convention
        return float(not squares.any()), np.zeros(rows.n)
    ratio = rows.mean(squares) / total
    # A row moves the mean of y as well, but there the sum of squares is least: to first order that counts nothing.
    return 1.0 - ratio, (ratio * apart - squares) / total * (rows.mass / rows.mass.mean())


def influence_on_auc(rows: Answered) -> Influence:
    """Return the influence of rows on the area of two classes (DeLong, DeLong and Clarke-Pearson 1988)."""
    return _of_two(rows.ranking, rows.truth == 1, rows.mass)


def influence_on_auc_ovr(rows: Answered, weighted: bool = False) -> Influence:
    """Return the same for several classes, each against the rest; ``weighted``: by the classes' shares."""
    shares = np.array([float(rows.mass[rows.truth == j].sum()) for j in range(len(rows.classes))])
    parts = [_of_two(rows.probabilities[:, j], rows.truth == j, rows.mass) for j in range(len(rows.classes))]
    areas = np.array([area for area, _ in parts])
    share = shares / shares.sum() if weighted else np.full(areas.size, 1 / areas.size)
    moves = np.tensordot(share, np.stack([influence for _, influence in parts]), axes=1)
    value = float(share @ areas)
    if weighted:  # the shares are estimated too
        moves = moves + (areas[rows.truth] - value) * rows.mass / rows.mass.mean()
    return value, moves


def _of_two(ranking: Floats, positive: NDArray[np.bool_], mass: Floats) -> Influence:
    if positive.all() or not positive.any():
        return float("nan"), np.full(positive.size, np.nan)
    # A row's placement: the mass of the other class's rows that it is rightly ordered with; half of a tie.
    placed = np.empty(positive.size)
    for of, others, above in ((positive, ~positive, True), (~positive, positive, False)):
        order = np.argsort(ranking[others], kind="stable")
        values, below = ranking[others][order], np.concatenate(([0.0], np.cumsum(mass[others][order])))
        left, right = (below[np.searchsorted(values, ranking[of], side)] for side in ("left", "right"))
        smaller = (left + right) / 2 / below[-1]
        placed[of] = smaller if above else 1 - smaller
    auc = float(np.average(placed[positive], weights=mass[positive]))
    total = np.where(positive, mass[positive].sum(), mass[~positive].sum())
    return auc, (placed - auc) * mass * positive.size / total


def influence_on_cells(name: str, rows: Answered) -> Influence:
    """Return that on a function of the confusion matrix: the numerical derivative by each cell's mass."""
    k = len(rows.classes)
    present, of_row = np.unique(rows.truth * k + rows.predicted, return_inverse=True)
    mass = np.bincount(of_row, weights=rows.mass).astype(np.float64)
    base, _, label = name.partition(OF)
    codes = list(range(k))
    if base in OF_ONE_CLASS and k == 2:  # the class is named, for among the codes another one may be the usual
        label = label or str(positive_class(rows.classes, None))
    coded = f"{base}{OF}{[str(each) for each in rows.classes].index(label)}" if label else name
    value = score_of_cells(coded, present, mass, codes, rows.held)
    slopes = np.empty(present.size)
    for cell in range(present.size):
        sides = (np.where(np.arange(present.size) == cell, mass * side, mass) for side in (1 + STEP, 1 - STEP))
        above, below = (score_of_cells(coded, present, moved, codes, rows.held) for moved in sides)
        slopes[cell] = (above - below) / (2 * STEP * mass[cell])
    # A score does not change when all masses grow alike, so these sum to 0 as influences must (Euler).
    return value, slopes[of_row] * rows.mass * rows.n


def score_of_cells(name: str, cells: Codes, mass: Floats, codes: list[int], held: bool = False) -> float:
    """Return the scorer's value of a confusion matrix: ``cells`` are truth x k + prediction, of the k ``codes``."""
    scorer, k = scorer_of(name, codes), len(codes)
    if held:
        scorer = among_rows(name, scorer, cells[mass > 0] // k)
    with warnings.catch_warnings(action="ignore"):  # a class that is never predicted is the scorer's own convention
        return float(scorer._score_func(cells // k, cells % k, sample_weight=mass, **scorer._kwargs))


def rate_over_classes(loss: RowLoss, rows: Answered, alike: bool = False) -> float:
    """Return the rate of a mean of losses of classes, over all n x n pairs; ``alike``: every class counts as much."""
    shares = np.bincount(rows.truth, weights=rows.mass, minlength=len(rows.classes)) / rows.mass.sum()
    if alike:
        shares = (shares > 0) / np.sum(shares > 0)
    # A row of class c meets every prediction equally often, so n x n pairs are one mean per class.
    kind = np.asarray(rows.classes).dtype
    means = [rows.mean(loss.of(replace(rows, y=np.full(rows.n, label, dtype=kind)))) for label in rows.classes]
    return loss.score(float(sum(share * mean for share, mean in zip(shares, means, strict=True))))


def rate_of_squares(rows: Answered) -> float:
    """Return the rate of the mean squared error, over all n x n pairs."""
    (mean_y, var_y), (mean_said, var_said) = _moments(rows, rows.y), _moments(rows, rows.predicted)
    return -(var_y + var_said + (mean_y - mean_said) ** 2)


def rate_of_r2(rows: Answered) -> float:
    """Return the rate of R2."""
    return 1.0 + rate_of_squares(rows) / _moments(rows, rows.y)[1]


def _moments(rows: Answered, values: NDArray[np.float64]) -> tuple[float, float]:
    mean = rows.mean(values)
    return mean, rows.mean(np.square(values - mean))


def rate_of_distances(rows: Answered) -> float:
    """Return the rate of the mean absolute error: the mean of |y_i - p_j| over all pairs, in O(n log n)."""
    y, predicted = rows.y, np.asarray(rows.predicted, dtype=np.float64)
    order = np.argsort(predicted, kind="stable")
    # |y - p| is y - p of the predictions below y, and p - y of the others: running sums hold both parts.
    below = np.searchsorted(predicted[order], y)
    mass = np.concatenate(([0.0], np.cumsum(rows.mass[order])))
    moment = np.concatenate(([0.0], np.cumsum(rows.mass[order] * predicted[order])))
    sums: Floats = y * mass[below] - moment[below] + (moment[-1] - moment[below]) - y * (mass[-1] - mass[below])
    return -float(rows.mean(sums) / mass[-1])

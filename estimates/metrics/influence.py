"""How much each row moves a metric that is not a mean over rows: what an interval is made of without drawing anything.

Each function returns the score and one influence per row: the derivative of the score by the row's multiplicity,
times n. Influences sum to 0, and their standard deviation over sqrt(n) is the score's standard error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .losses import squared
from .record import Answered, Codes, Floats, Influence, RowLoss
from .scoring import OF, OF_ONE_CLASS, among_rows, positive_class, scorer_of


def of_mean(loss: RowLoss, rows: Answered) -> Influence:
    """Return the influence of rows on a mean of losses: how far each is from the mean."""
    losses = loss.of(rows)
    mean = rows.mean(losses)
    share = 1.0 if rows.weights is None else rows.weights / rows.weights.mean()
    return loss.score(mean), (mean - losses) * share


def of_rmse(rows: Answered) -> Influence:
    """Return the influence of rows on the root of the mean squared error."""
    squares = squared(rows)
    mean = rows.mean(squares)
    root = float(np.sqrt(mean))
    moves = (mean - squares) / (2 * root) if root > 0 else np.zeros(rows.n)
    return -root, moves * rows.mass / rows.mass.mean()


def of_r2(rows: Answered) -> Influence:
    """Return the influence of rows on R2, the share of the variance that is explained."""
    squares, apart = squared(rows), np.square(rows.y - rows.mean(rows.y))
    total = rows.mean(apart)
    if total == 0:  # one truth: no row moves what is 0 or 1 by scikit-learn's convention
        return float(not squares.any()), np.zeros(rows.n)
    ratio = rows.mean(squares) / total
    # A row moves the mean of y as well, but there the sum of squares is least: to first order that counts nothing.
    return 1.0 - ratio, (ratio * apart - squares) / total * (rows.mass / rows.mass.mean())


def of_auc(rows: Answered) -> Influence:
    """Return the influence of rows on the area under the curve of two classes.

    Source: DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated curves.
    """
    return _of_two(rows.ranking, rows.truth == 1, rows.mass)


def of_auc_ovr(rows: Answered, weighted: bool = False) -> Influence:
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


STEP = 1e-4  # of a cell's mass; the error of a central difference is of the order of its square


def of_cells(scorer: str) -> Callable[[Answered], Influence]:
    """Return the influence function of a scorer that reads classes only: a function of the confusion matrix.

    The derivative by each cell's mass is taken numerically from the scorer itself. O(n + cells x the scorer).
    """
    return partial(_of_cells, scorer)


def _of_cells(name: str, rows: Answered) -> Influence:
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
        ends = []
        for side in (1 + STEP, 1 - STEP):
            moved = mass.copy()
            moved[cell] *= side
            ends.append(score_of_cells(coded, present, moved, codes, rows.held))
        slopes[cell] = (ends[0] - ends[1]) / (2 * STEP * mass[cell])
    # A score does not change when all masses grow alike, so these sum to 0 as influences must (Euler).
    return value, slopes[of_row] * rows.mass * rows.n


def score_of_cells(name: str, cells: Codes, mass: Floats, codes: list[int], held: bool = False) -> float:
    """Return the scorer's value of a confusion matrix: ``cells`` are truth x k + prediction, of the k ``codes``."""
    scorer, k = scorer_of(name, codes), len(codes)
    if held:
        scorer = among_rows(name, scorer, cells[mass > 0] // k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that is never predicted is the scorer's own convention
        return float(scorer._score_func(cells // k, cells % k, sample_weight=mass, **scorer._kwargs))

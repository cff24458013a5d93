"""What a classifier confuses: per class, per fold and over all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .record import codes_of

if TYPE_CHECKING:
    from evenfold.estimates.models.problem import Problem

POOLED = -1
MOST_CLASSES = 20


@dataclass(frozen=True)
class Confusion:
    """What was called what, over the test rows of all folds together.

    ``counts``: a row per true class, a column per class that it was called. ``thresholds``: the lowest and the highest
    over the folds, of ``positive``, where the model has one that is not .5; else None.
    """

    classes: list[str]
    counts: list[list[int]]
    positive: str | None = None
    thresholds: tuple[float, float] | None = None

    @classmethod
    def of(cls, problem: Problem, predictions: pd.DataFrame) -> Confusion | None:
        """Return it for predictions of classes; None for numbers, and for more than 20 classes."""
        classes = problem.classes
        if not classes or len(classes) > MOST_CLASSES:
            return None
        counts = sum(counts for _, fold, counts in _matrices(predictions, classes) if fold == POOLED)
        known = problem.model.threshold is not None and f"proba_{problem.positive}" in predictions
        return cls(
            [str(label) for label in classes],
            np.asarray(counts).tolist(),
            None if problem.positive is None else str(problem.positive),
            thresholds(problem, predictions) if known else None,
        )


def thresholds(problem: Problem, predictions: pd.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest threshold over the folds, as probabilities of the positive class.

    As given, or, where each fold has its own, midway between the largest probability called a no and the least called
    a yes: what the predictions tell of it.
    """
    given = problem.model.threshold
    if given is None or isinstance(given, float):
        return (given or 0.5,) * 2
    label = problem.positive
    yes = predictions["prediction"] == label
    said = predictions[f"proba_{label}"]
    by = [predictions["repeat"], predictions["fold"]]
    # Where a fold calls none a yes, or none a no, the threshold is somewhere beyond: taken as the end of the scale.
    least, most = said.where(yes).groupby(by).min().fillna(1.0), said.mask(yes).groupby(by).max().fillna(0.0)
    middle = (least + most) / 2
    return float(middle.min()), float(middle.max())


def confusion_table(predictions: pd.DataFrame, classes: tuple[Any, ...]) -> pd.DataFrame:
    """Return the confusion matrices of every fold and of all folds together, one cell a row.

    Columns: repeat, fold (-1 for all folds of the repeat together), y, prediction, rows. Every pair of ``classes`` is
    there, with 0 rows where it never occurs, so a fold's cells are always a full matrix.
    """
    parts = []
    for repeat, fold, counts in _matrices(predictions, classes):
        truth = [label for label in classes for _ in classes]
        cells = {"y": truth, "prediction": list(classes) * len(classes), "rows": counts.reshape(-1)}
        parts.append(pd.DataFrame({"repeat": repeat, "fold": fold, **cells}))
    return pd.concat(parts, ignore_index=True)


def class_scores(predictions: pd.DataFrame, classes: tuple[Any, ...]) -> pd.DataFrame:
    """Return recall and precision of every class in every fold and over all folds.

    Columns: repeat, fold (-1 for all together), class, rows (of the class), predicted (rows said to be of it), recall
    (share of its rows found; NaN where the fold has none), precision (share of the rows said to be of it that are;
    NaN where there are none), so an undefined value is never taken for a bad one.
    """
    parts = []
    for repeat, fold, counts in _matrices(predictions, classes):
        rows, predicted, right = counts.sum(axis=1), counts.sum(axis=0), np.diagonal(counts)
        with np.errstate(invalid="ignore"):
            recall, precision = right / rows, right / predicted
        sizes = {"class": list(classes), "rows": rows, "predicted": predicted}
        parts.append(pd.DataFrame({"repeat": repeat, "fold": fold, **sizes, "recall": recall, "precision": precision}))
    return pd.concat(parts, ignore_index=True)


def _matrices(predictions: pd.DataFrame, classes: tuple[Any, ...]) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Return (repeat, fold, counts by truth and prediction) of each fold, after each repeat's sum over its folds."""
    k = len(classes)
    cells = codes_of(predictions["y"].to_numpy(), classes) * k + codes_of(predictions["prediction"].to_numpy(), classes)
    repeats, of_row = predictions["repeat"].to_numpy(), predictions["fold"].to_numpy()
    made: list[tuple[int, int, NDArray[np.int64]]] = []
    for repeat in np.unique(repeats).tolist():
        inside = repeats == repeat
        folds = np.unique(of_row[inside]).tolist()
        each = [np.bincount(cells[inside & (of_row == fold)], minlength=k * k).reshape(k, k) for fold in folds]
        made.append((repeat, POOLED, np.sum(each, axis=0)))
        made += [(repeat, fold, counts) for fold, counts in zip(folds, each, strict=True)]
    return made

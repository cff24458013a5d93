"""What a classifier confuses: per class, per fold and over all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .record import codes_of

POOLED = -1


def confusion_table(predictions: pd.DataFrame, classes: tuple[Any, ...]) -> pd.DataFrame:
    """Return the confusion matrices of every fold and of all folds together, one cell a row.

    Columns: repeat, fold (-1 for all folds of the repeat together), y, prediction, rows. Every pair of ``classes`` is
    there, with 0 rows where it never occurs, so a fold's cells are always a full matrix.
    """
    parts = []
    for repeat, fold, counts in matrices(predictions, classes):
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
    for repeat, fold, counts in matrices(predictions, classes):
        rows, predicted, right = counts.sum(axis=1), counts.sum(axis=0), np.diagonal(counts)
        with np.errstate(invalid="ignore"):
            recall, precision = right / rows, right / predicted
        sizes = {"class": list(classes), "rows": rows, "predicted": predicted}
        parts.append(pd.DataFrame({"repeat": repeat, "fold": fold, **sizes, "recall": recall, "precision": precision}))
    return pd.concat(parts, ignore_index=True)


def matrices(predictions: pd.DataFrame, classes: tuple[Any, ...]) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Return (repeat, fold, counts by truth and prediction) of each fold, after each repeat's sum over its folds."""
    k = len(classes)
    cells = codes_of(predictions["y"].to_numpy(), classes) * k + codes_of(predictions["prediction"].to_numpy(), classes)
    repeats, of_row = predictions["repeat"].to_numpy(), predictions["fold"].to_numpy()
    by_fold: list[tuple[int, int, NDArray[np.int64]]] = []
    for repeat in np.unique(repeats).tolist():
        inside = repeats == repeat
        folds = np.unique(of_row[inside]).tolist()
        tables = [np.bincount(cells[inside & (of_row == fold)], minlength=k * k).reshape(k, k) for fold in folds]
        by_fold.append((repeat, POOLED, np.sum(tables, axis=0)))
        by_fold += [(repeat, fold, counts) for fold, counts in zip(folds, tables, strict=True)]
    return by_fold

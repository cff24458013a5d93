"""What a classifier confused, and from which probability on it said yes."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from evenfold.estimates.metrics.record import codes_of
from sklearn.metrics import confusion_matrix

from .problem import Problem

MOST_CLASSES = 20


@dataclass(frozen=True)
class Confusion:
    """Counts of true by predicted classes, over all folds' test rows; ``apparent``: over the model's training rows.

    ``counts``: a row per true class, a column per predicted one. ``thresholds``: the lowest and the highest over
    the folds, of ``positive``, where the model has one that is not .5; else None.
    """

    classes: list[str]
    counts: list[list[int]]
    positive: str | None = None
    thresholds: tuple[float, float] | None = None
    apparent: bool = False

    @classmethod
    def of(cls, problem: Problem, predictions: pd.DataFrame, apparent: bool = False) -> Confusion | None:
        """Return it for predictions of classes; None for numbers, and for more than 20 classes."""
        classes = problem.classes
        if not classes or len(classes) > MOST_CLASSES:
            return None
        truth, called = (codes_of(predictions[name].to_numpy(), classes) for name in ("y", "prediction"))
        has_threshold = problem.model.threshold is not None and f"proba_{problem.positive}" in predictions
        return cls(
            [str(label) for label in classes],
            confusion_matrix(truth, called, labels=range(len(classes))).tolist(),
            None if problem.positive is None else str(problem.positive),
            thresholds(problem, predictions) if has_threshold else None,
            apparent,
        )


def thresholds(problem: Problem, predictions: pd.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest threshold over the folds, as probabilities of the positive class.

    As given, or for a threshold of each fold midway between the largest probability called a no and the least
    called a yes.
    """
    threshold = problem.model.threshold
    if threshold is None or isinstance(threshold, float):
        return (threshold or 0.5,) * 2
    label = problem.positive
    yes = predictions["prediction"] == label
    probability = predictions[f"proba_{label}"]
    by = [predictions["repeat"], predictions["fold"]]
    # Where a fold calls none a yes, or none a no, the threshold is somewhere beyond: taken as the end of the scale.
    least = probability.where(yes).groupby(by).min().fillna(1.0)
    most = probability.mask(yes).groupby(by).max().fillna(0.0)
    middle = (least + most) / 2
    return float(middle.min()), float(middle.max())

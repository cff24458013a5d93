"""What was learnt: fold scores in, conclusions with their name, method and caveat out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd

from ._responses import replay
from .fold_score import FoldScore
from .metrics import score
from .model_spec import ModelSpec
from .problem import Problem


@dataclass(frozen=True)
class Interval:
    """Where the value of a metric lies: ``method`` covers the truth about as often as ``level`` says."""

    low: float
    high: float
    level: float
    method: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """The conclusion on one metric. Higher is always better, as in scikit-learn's scorers.

    ``method``: how ``value`` was got: ``cross-validation`` (mean over splits), ``out-of-bag``, ``.632``, ``.632+``.
    ``sd``: the *spread*, the sample standard deviation (ddof=1) of the scores of single splits; no interval.
    ``se``: sd/sqrt(splits), which takes the splits for independent, and they are not; None for repeats and draws,
    where it would shrink to nothing. ``pooled``: the score of all out-of-fold predictions together (with repeats,
    the mean of the repeats' pooled scores); None where there is none. ``apparent``: the mean score on training rows.
    ``gap``: apparent - value; above 0 the model does better on rows it has seen. ``notes``: sentences to be read.
    ``ingredients``: the numbers that ``value`` is made of, by name.
    """

    metric: str
    method: str
    value: float
    sd: float | None
    se: float | None
    n_splits: int
    pooled: float | None = None
    apparent: float | None = None
    gap: float | None = None
    interval: Interval | None = None
    notes: tuple[str, ...] = ()
    ingredients: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self) | {"notes": list(self.notes)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Estimate:
        """Return what ``to_json`` wrote."""
        interval = given.get("interval")
        if interval is not None:
            interval = Interval(**{**interval, "notes": tuple(interval["notes"])})
        return cls(**{**given, "interval": interval, "notes": tuple(given["notes"])})


def aggregate(
    scores: Sequence[FoldScore],
    predictions: Sequence[pd.DataFrame] | pd.DataFrame,
    problem: Problem,
    model: ModelSpec,
) -> list[Estimate]:
    """Return one Estimate per metric from the folds of a cross-validation, repeated or not.

    ``predictions``: the frames of ``fit_and_score``, in any order, or one frame of them all.
    """
    together = predictions if isinstance(predictions, pd.DataFrame) else pd.concat(list(predictions))
    metrics = model.completed(problem.task, len(problem.classes)).metrics
    return [_over_folds(metric, scores, together, problem) for metric in metrics]


def pooled_score(metric: str, predictions: pd.DataFrame, problem: Problem) -> float | None:
    """Return the metric of all predictions together, averaged over repeats; None where it is undefined."""
    try:
        each = [_replayed(metric, part, problem) for _, part in predictions.groupby("repeat", sort=True)]
    except Exception:  # what a scorer raises is its own affair; here it means that there is no pooled score
        return None
    mean = float(np.mean(each))
    return None if np.isnan(mean) else mean


_DEPENDENT = "se = sd/sqrt({n}) takes the folds for independent; they share training rows, so it tends to be too small."
_REPEATED = "There is no se: repeats use the same rows again, and sd/sqrt(splits) would shrink without new information."
_NO_POOLED = "There is no pooled score: {metric} cannot be computed from the predictions of all folds together."
_ONE = "There is one split, so there is no spread."


def _over_folds(metric: str, scores: Sequence[FoldScore], predictions: pd.DataFrame, problem: Problem) -> Estimate:
    test = [each.test[metric] for each in scores]
    mean, spread = float(np.mean(test)), sample_sd(test)
    repeated = len({each.repeat for each in scores}) > 1
    pooled = pooled_score(metric, predictions, problem)
    apparent = float(np.mean([each.apparent[metric] for each in scores]))
    notes = [spread_note(len(test), "folds") if spread is not None else _ONE]
    if spread is not None:
        notes.append(_REPEATED if repeated else _DEPENDENT.format(n=len(test)))
    if pooled is None:
        notes.append(_NO_POOLED.format(metric=metric))
    return Estimate(
        metric=metric,
        method="repeated cross-validation" if repeated else "cross-validation",
        value=mean,
        sd=spread,
        se=None if spread is None or repeated else spread / sqrt(len(test)),
        n_splits=len(test),
        pooled=pooled,
        apparent=apparent,
        gap=apparent - mean,
        notes=tuple(notes),
    )


def spread_note(n: int, what: str) -> str:
    """Return the sentence that keeps a spread from being read as an interval."""
    return f"sd is the spread of {n:,} {what}' scores, not an interval: it does not say how far off the value is."


def sample_sd(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (ddof=1), or None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _replayed(metric: str, predictions: pd.DataFrame, problem: Problem) -> float:
    answers = replay(predictions, problem.classes)
    weights = predictions["weight"].to_numpy() if "weight" in predictions else None
    return score(metric, answers, predictions["y"].to_numpy(), weights)

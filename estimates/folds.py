"""What the folds say together: fold scores in, conclusions with their name, method and caveat out."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.intervals import corrected_resampled_t
from evenfold.estimates.metrics.influence import pooled_rows_interval
from evenfold.estimates.metrics.metrics import score
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.models.responses import replay
from evenfold.estimates.models.spec import ModelSpec

from .results import Estimate, FoldScore

FEW_ROWS = 20

# A mean over folds of these is not the metric of all rows: each divides by something that a small fold hardly has.
RATIOS: tuple[str, ...] = (
    "r2",
    "explained_variance",
    "d2_",
    "roc_auc",
    "average_precision",
    "balanced_accuracy",
    "f1",
    "precision",
    "recall",
    "jaccard",
    "matthews_corrcoef",
)


def overfitting(metric: str, scores: Sequence[FoldScore]) -> str | None:
    """Return a sentence where the gap between apparent and test score exceeds its own noise, else None.

    The noise is the corrected standard error of the folds' gaps (Nadeau and Bengio 2003): 95 % of its interval must
    lie above 0. A gap alone is no fault, many good models have one; it says that the apparent score means nothing.
    """
    gaps = [each.apparent[metric] - each.test[metric] for each in scores if metric in each.apparent]
    if len(gaps) < 2 or not np.all(np.isfinite(gaps)):
        return None
    test = corrected_resampled_t(gaps, [each.n_train for each in scores], [each.n_test for each in scores])
    if test.interval.low <= 0:
        return None
    known = float(np.mean([each.apparent[metric] for each in scores]))
    new = float(np.mean([each.test[metric] for each in scores]))
    return (
        f"Overfitting: {metric} is {known:.3g} on rows the model was trained on and {new:.3g} on new rows; "
        f"the gap of {test.mean:.2g} is more than its noise (95 % [{test.interval.low:.2g}, {test.interval.high:.2g}])."
    )


def small_folds(metric: str, scores: Sequence[FoldScore], pooled: float | None) -> str | None:
    """Return a warning where folds have fewer than 20 rows and a mean over folds misleads, as for ratios."""
    least = min(each.n_test for each in scores)
    if least >= FEW_ROWS or not metric.startswith(RATIOS):
        return None
    instead = "" if pooled is None else f"; read the pooled score ({pooled:.3g}) instead"
    return (
        f"Folds have as few as {least} test rows, and the mean of {metric} over so small folds falls (or rises) with "
        f"the number of folds although the model is the same{instead}."
    )


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
_ACROSS = "The pooled score also ranks rows of different folds' models, which lowers it where their scales differ."
_RANKS = ("roc_auc", "average_precision")
_ONE = "There is one split, so there is no spread."


def _over_folds(metric: str, scores: Sequence[FoldScore], predictions: pd.DataFrame, problem: Problem) -> Estimate:
    test = [each.test[metric] for each in scores]
    mean, spread = float(np.mean(test)), sample_sd(test)
    repeated = len({each.repeat for each in scores}) > 1
    pooled = pooled_score(metric, predictions, problem)
    interval = None if pooled is None else pooled_rows_interval(metric, predictions, problem)
    apparent = float(np.mean([each.apparent[metric] for each in scores]))
    notes = [
        _of_spread(test, repeated),
        _NO_POOLED.format(metric=metric) if pooled is None else _ACROSS if metric.startswith(_RANKS) else None,
        small_folds(metric, scores, pooled),
        overfitting(metric, scores),
    ]
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
        interval=interval,
        notes=tuple(note for note in notes if note is not None),
    )


def _of_spread(test: Sequence[float], repeated: bool) -> str:
    if len(test) < 2:
        return _ONE
    return f"{spread_note(len(test), 'folds')} {_REPEATED if repeated else _DEPENDENT.format(n=len(test))}"


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

"""What the scores of folds say in words: overfitting beyond the noise, and folds too small for a mean of ratios."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .fold_score import FoldScore
from .intervals import corrected_resampled_t

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

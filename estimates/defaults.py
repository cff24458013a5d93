"""What is chosen where nothing was asked for: one table, here and nowhere else.

============================================  ==============  ================================  ==========================================================
the target column                             task            default model                     default metrics
============================================  ==============  ================================  ==========================================================
fractional numbers (a float column)           regression      HistGradientBoostingRegressor     r2, neg_mean_absolute_error, neg_root_mean_squared_error
text, boolean or categorical; two classes     classification  HistGradientBoostingClassifier    roc_auc, accuracy, balanced_accuracy
text, boolean or categorical; more classes    classification  HistGradientBoostingClassifier    accuracy, balanced_accuracy, neg_log_loss
integers of at most 20 different values       classification  as for text                       as for text
integers of more than 20 different values     regression      as for fractional numbers         as for fractional numbers
============================================  ==============  ================================  ==========================================================

A task that is asked for comes first; then an estimator that says whether it is a classifier or a regressor; then the
table. The default strategy is StratifiedKFold for classes, SortedStratifiedKFold for numbers, and BalancedGroupKFold
as soon as a group column is named.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from ._errors import ModelError

Task = Literal["classification", "regression"]

MOST_CLASSES_OF_INTEGERS = 20


@dataclass(frozen=True)
class Default:
    """One row of the table: the names of the model, the metrics and the strategies."""

    estimator: str
    metrics: tuple[str, ...]
    strategy: str
    grouped_strategy: str = "BalancedGroupKFold"


DEFAULTS: dict[str, Default] = {
    "regression": Default(
        "sklearn.ensemble:HistGradientBoostingRegressor",
        ("r2", "neg_mean_absolute_error", "neg_root_mean_squared_error"),
        "SortedStratifiedKFold",
    ),
    "binary": Default(
        "sklearn.ensemble:HistGradientBoostingClassifier",
        ("roc_auc", "accuracy", "balanced_accuracy"),
        "StratifiedKFold",
    ),
    "multiclass": Default(
        "sklearn.ensemble:HistGradientBoostingClassifier",
        ("accuracy", "balanced_accuracy", "neg_log_loss"),
        "StratifiedKFold",
    ),
}


def default_for(task: Task, n_classes: int = 0) -> Default:
    """Return the table's row for a task and, for classification, a number of classes."""
    if task == "regression":
        return DEFAULTS["regression"]
    return DEFAULTS["binary" if n_classes == 2 else "multiclass"]


def infer_task(target: pd.Series) -> Task:
    """Return what the table says of a target column; raises ModelError for a column that is no target (dates)."""
    kind = pd.api.types
    if isinstance(target.dtype, pd.CategoricalDtype) or kind.is_bool_dtype(target):
        return "classification"
    if kind.is_integer_dtype(target):
        return "classification" if target.nunique() <= MOST_CLASSES_OF_INTEGERS else "regression"
    if kind.is_float_dtype(target):
        return "regression"
    if kind.is_string_dtype(target) or kind.is_object_dtype(target):
        return "classification"
    raise ModelError(
        f"target {target.name!r} holds {target.dtype}, neither numbers nor classes; choose another target."
    )

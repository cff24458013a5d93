"""The column to predict: its task, its values, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from ._build import named_estimator
from ._columns import first_rows, kind_of, plain_numbers, plain_or_objects
from ._errors import ModelError
from .defaults import Task, infer_task
from .model_spec import ModelSpec


def require_target(column: pd.Series) -> None:
    """Raise ModelError where target values are missing."""
    missing = np.flatnonzero(column.isna().to_numpy())
    if missing.size:
        raise ModelError(
            f"target {column.name!r} is missing (None or NaN) in {missing.size:,} of {len(column):,} rows "
            f"(first at {first_rows(missing)}); drop or fill those rows first."
        )


def target_column(table: pd.DataFrame, target: str) -> pd.Series:
    """Return the target's column; objects that are all numbers or booleans become that."""
    column = table[target].infer_objects()
    if column.dtype == object and kind_of(column) == "number" and not column.isna().any():
        return pd.Series(plain_numbers(column), index=column.index, name=target)
    return column


def task_of(model: ModelSpec, column: pd.Series) -> Task:
    """Return the task that is asked for, or that the estimator says, or that the table of defaults says."""
    if model.task is not None:
        return model.task
    if model.estimator is not None:
        estimator = named_estimator(model.estimator, model.params)
        kind = kind_of(column)
        if _says(is_classifier, estimator):
            return "classification"
        if _says(is_regressor, estimator) and kind == "number":
            return "regression"
    return infer_task(column)


def values_of(column: pd.Series, task: Task) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Return the target's values and its sorted classes (none for regression)."""
    return (_numbers(column), ()) if task == "regression" else _labels(column)


def _numbers(column: pd.Series) -> NDArray[Any]:
    if kind_of(column) != "number":
        raise ModelError(
            f"target {column.name!r} holds {column.dtype}, and regression needs numbers; use task: classification."
        )
    y = plain_numbers(column).astype(np.float64)
    infinite = np.flatnonzero(~np.isfinite(y))
    if infinite.size:
        raise ModelError(
            f"target {column.name!r} is infinite in {infinite.size:,} of {y.size:,} rows "
            f"(first at {first_rows(infinite)}); drop those rows first."
        )
    if y.min() == y.max():
        raise ModelError(f"target {column.name!r} is {y[0]:g} in all {y.size:,} rows; there is nothing to predict.")
    return y


def _labels(column: pd.Series) -> tuple[NDArray[Any], tuple[Any, ...]]:
    if kind_of(column) in ("date", "objects"):
        raise ModelError(f"target {column.name!r} holds {column.dtype}, and classes are text, booleans or integers.")
    y = plain_or_objects(column)
    if y.dtype.kind == "f":
        y = _whole(y, str(column.name))
    try:
        levels = np.unique(y).tolist()
    except TypeError as error:
        raise ModelError(f"target {column.name!r} mixes kinds of values ({error}); make them all text.") from None
    if len(levels) < 2:
        raise ModelError(
            f"target {column.name!r} holds one class ({levels[0]!r}) in all {y.size:,} rows; "
            "there is nothing to predict."
        )
    return y, tuple(levels)


def _whole(y: NDArray[Any], name: str) -> NDArray[Any]:
    if np.any(y != np.floor(y)):
        raise ModelError(
            f"target {name!r} holds {np.unique(y).size:,} different fractional numbers, and classification needs "
            "classes; use task: regression."
        )
    return y.astype(np.int64)


def _says(kind: Callable[[Any], bool], estimator: Any) -> bool:
    try:
        return bool(kind(estimator))
    except AttributeError:  # an estimator of another library, without scikit-learn's tags
        return False


def check_kind(model: ModelSpec, task: Task, column: pd.Series) -> None:
    """Raise ModelError for a classifier on numbers or a regressor on classes."""
    estimator = model.build(0)
    if _says(is_regressor if task == "classification" else is_classifier, estimator):
        kind, other = ("regressor", "regression") if task == "classification" else ("classifier", "classification")
        raise ModelError(
            f"{model.estimator!r} is a {kind}, and the task is {task} (target {column.name!r} holds "
            f"{column.nunique():,} different values); use task: {other}, or another estimator."
        )

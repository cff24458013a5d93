"""One data set as a model sees it, checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered
from evenfold.estimates.metrics.scoring import positive_class
from evenfold.splitters.errors import ModelError, reason_of, shown
from evenfold.splitters.numbers import digest_json, first_rows
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from .encoding import choose_features, encodings, feature_table, kind_of, plain_numbers, read_by_itself, require_columns
from .estimators import check_options, error_of, infer_task, named_for
from .spec import ModelSpec, Task

IntArray = NDArray[np.int64]
MISSING, FILL = "missing (None or NaN)", "drop or fill those rows first"


def require_in_no_row(wrong: NDArray[np.bool_], what: str, remedy: str) -> None:
    """Raise ModelError that says in which rows a column is ``what``, and the remedy, where it is so in any."""
    if (rows := np.flatnonzero(wrong)).size:
        raise ModelError(f"{what} in {rows.size:,} of {wrong.size:,} rows (first at {first_rows(rows)}); {remedy}.")


def predicts_classes(model: ModelSpec) -> bool:
    """Return whether a model predicts classes whatever its target holds: its task says so, or its estimator."""
    return model.task == "classification" if model.task else _says(is_classifier, model.unfitted)


def task_of(model: ModelSpec, column: pd.Series) -> Task:
    """Return the task that is asked for, or that the estimator says, or that the table of defaults says."""
    if model.task is not None:
        return model.task
    if predicts_classes(model):
        return "classification"
    regresses = _says(is_regressor, model.unfitted) and kind_of(column) == "number"
    return "regression" if regresses else infer_task(column)


def values_of(
    column: pd.Series, task: Task, labels: tuple[Any, ...] | None = None
) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Return the target's values and its sorted classes, or ``labels``; ModelError for one value, or for no target."""
    y, classes = (_numbers(column), ()) if task == "regression" else _labels(column)
    if labels is not None:
        return y, labels
    if len(classes) == 1 or (not classes and y.min() == y.max()):
        value = f"holds one class ({shown(repr(classes[0]))})" if classes else f"is {shown(f'{y[0]:g}')}"
        raise ModelError(f"target {column.name!r} {value} in all {y.size:,} rows; there is nothing to predict.")
    return y, classes


def _numbers(column: pd.Series) -> NDArray[Any]:
    if kind_of(column) != "number":
        held = f"holds {column.dtype}, and regression needs numbers"
        raise ModelError(f"target {column.name!r} {held}; use task: classification.")
    y = plain_numbers(column).astype(np.float64)
    require_in_no_row(~np.isfinite(y), f"target {column.name!r} is infinite", "drop those rows first")
    return y


def _labels(column: pd.Series) -> tuple[NDArray[Any], tuple[Any, ...]]:
    if kind_of(column) in ("date", "objects"):
        raise ModelError(f"target {column.name!r} holds {column.dtype}, and classes are text, booleans or integers.")
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype if column.notna().all() else object)
    y = plain_numbers(column) if kind_of(column) == "number" else column.to_numpy(dtype=object)
    if y.dtype.kind == "f":
        if beyond := int(np.count_nonzero(np.abs(y) >= 2.0**53)):  # where two classes may be one number
            raise ModelError(f"target {column.name!r} is infinite or beyond 2**53 in {beyond:,} rows; correct those.")
        if np.any(y != np.floor(y)):
            what = f"holds {np.unique(y).size:,} different fractional numbers, and classification needs classes"
            raise ModelError(f"target {column.name!r} {what}; use task: regression.")
        y = y.astype(np.int64)
    try:
        levels = np.unique(y).tolist()
    except TypeError as error:
        what = f"mixes kinds of values ({reason_of(error)})"
        raise ModelError(f"target {column.name!r} {what}; make them all text.") from None
    return y, tuple(levels)


def _says(kind: Callable[[Any], bool], estimator: Any) -> bool:
    try:
        return estimator is not None and bool(kind(estimator))
    except AttributeError:  # an estimator of another library, without scikit-learn's tags
        return False


def _completed(model: ModelSpec, column: pd.Series, task: Task, classes: tuple[Any, ...], y: NDArray[Any]) -> ModelSpec:
    """Return the recipe with all that the target decides; ModelError for what does not fit it."""
    completed = model.completed(task, len(classes)).simplest()
    metrics = named_for(completed.metrics, task, classes, model.positive)
    completed = completed.model_copy(update={"metrics": metrics})
    if _says(is_regressor if task == "classification" else is_classifier, completed.build(0)):
        kind, other = ("regressor", "regression") if task == "classification" else ("classifier", "classification")
        held = f"target {column.name!r} holds {column.nunique():,} different values"
        what = f"{completed.estimator!r} is a {kind}, and the task is {task} ({held})"
        raise ModelError(f"{what}; use task: {other}, or another estimator.")
    check_options(completed, task, classes, y, str(column.name))
    return completed


@dataclass(frozen=True)
class Problem:
    """n rows: features and target, in the table's order, seen by position.

    ``y``: class labels as in the data. ``classes``: in sorted order, empty for regression. ``groups``: a code per row;
    ``weights``: a weight per row; ``times``: the place in time of each row; None without. ``model``: the specification
    with task, estimator and metrics filled in. ``encoded``: the features that are text or categories, of which the
    model reads ``own`` as they are. ``left_out``: why each other column is not used. ``columns_read``: every column
    that can change a score, sorted.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    task: Task
    classes: tuple[Any, ...]
    model: ModelSpec
    target: str
    features: tuple[str, ...]
    encoded: tuple[str, ...]
    left_out: dict[str, str]
    columns_read: tuple[str, ...]
    groups: IntArray | None = None
    weights: NDArray[np.float64] | None = None
    times: IntArray | None = None
    own: frozenset[str] = frozenset()

    @property
    def encodings(self) -> dict[str, str]:
        """The way in which each feature that is text or a category becomes numbers."""
        return encodings(self.model, self.model.build(0), self.X, self.encoded, self.own) if self.encoded else {}

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def usual_row(self) -> pd.DataFrame:
        """The medians and most frequent values of the features: a row that is none of the data's."""
        numbers = self.X.select_dtypes("number").columns
        usual = {name: column.quantile(interpolation="nearest") if name in numbers else column.mode().get(0)
                 for name, column in self.X.items()}  # fmt: skip
        return pd.DataFrame([usual]).astype(self.X.dtypes)

    @property
    def digest(self) -> str:
        """The digest of the recipe, its code, and every value that it reads. O(rows x columns)."""
        beside = {"target": self.y, "weight": self.weights, "group": self.groups}
        columns = pd.DataFrame({role: values for role, values in beside.items() if values is not None})
        rows = pd.util.hash_pandas_object(pd.concat([self.X.reset_index(drop=True), columns], axis=1), index=False)
        read = [*self.features, self.target, hashlib.sha256(rows.to_numpy().tobytes()).hexdigest()]
        return digest_json([self.model.canonical() | self.model.code, read])

    @property
    def positive(self) -> Any:
        """The class of two that a threshold is of; None where there are not two."""
        return positive_class(self.classes, self.model.positive)

    @cached_property
    def array(self) -> NDArray[Any] | None:
        """The features as one array of numbers, or None where some are categories or text."""
        return None if self.encoded else self.X.to_numpy(dtype=np.result_type(*self.X.dtypes))

    @classmethod
    def of(
        cls, table: pd.DataFrame, model: ModelSpec, target: str, roles: Collection[str] = (), *,
        groups: str | Sequence[Any] | NDArray[Any] | None = None, times: str | None = None,
        labels: tuple[Any, ...] | None = None, folds: Collection[str] = (),
    ) -> Problem:  # fmt: skip
        """Return the checked problem of predicting ``target``. O(rows x columns).

        ``roles``: the columns that are never features: key, group, time, stratify. ``groups``: a column's name or one
        value per row; rows of a group count as one in intervals. ``times``: the column of times. ``folds``: columns of
        folds, features only where they are listed. ``labels``: the classes that a model knows already, none for
        numbers; rows to score may then have one value. Raises ModelError for a missing column, a target with missing
        values or one value, metrics and estimators that do not fit it, and where no feature is left.
        """
        taken = dict.fromkeys([*roles, *_named(times)], "a key, group, time or stratify column")
        taken |= dict.fromkeys(_named(groups), "the group column")
        taken |= dict.fromkeys(_named(model.weights), "the column of weights") | {target: "the target"}
        for name, role in taken.items():
            require_columns(table, [name], role)
        if len(table) < (2 if labels is None else 1):
            raise ModelError(f"the data holds {'1 row' if len(table) else '0 rows'}; at least 2 are needed.")
        kinds, left_out = choose_features(table, model, taken, folds)
        column = table[target].infer_objects()
        if column.dtype == object and kind_of(column) == "number" and not column.isna().any():
            column = pd.Series(plain_numbers(column), index=column.index, name=target)
        require_in_no_row(column.isna().to_numpy(), f"target {target!r} is {MISSING}", FILL)
        task = task_of(model, column)
        y, classes = values_of(column, task, labels)
        completed = _completed(model, column, task, classes, y)
        return cls(
            feature_table(table, kinds), y, task, classes, completed, target, features=tuple(kinds),
            encoded=tuple(name for name, kind in kinds.items() if kind in ("text", "category")), left_out=left_out,
            columns_read=tuple(sorted({*kinds, target, *_named(model.weights), *_named(groups)})),
            groups=_group_codes(table, groups), weights=_weights(table, completed, task, classes),
            times=None if times is None else pd.factorize(table[times], sort=True)[0].astype(np.int64),
            own=read_by_itself(model, table, kinds),
        )  # fmt: skip

    def units(self, rows: IntArray) -> IntArray | None:
        """Return the numbers, 0, 1, ..., of the groups of some rows, which err together; None where there are none."""
        if self.groups is None:
            return None
        return np.unique(self.groups[rows], return_inverse=True)[1].reshape(-1).astype(np.int64)

    def answered(self, answers: Any, rows: IntArray) -> Answered:
        """Return some rows with a model's answers for them."""
        weights = None if self.weights is None else self.weights[rows]
        return Answered(answers, self.y[rows], self.classes, weights)

    def mass(self, rows: IntArray) -> NDArray[np.float64]:
        """Return the weights of some rows, 1 where there are none."""
        return np.ones(rows.size) if self.weights is None else self.weights[rows]

    def metric(self, name: str) -> str:
        """Return a metric, or its alias, as it is named for this target; raises ModelError if it cannot score that."""
        return named_for([name], self.task, self.classes, self.model.positive)[0]

    def judged_by(self, metric: str | None) -> tuple[ModelSpec, str]:
        """Return the model, scored by ``metric`` as well, and its name for this target: by default the model's first.

        Raises ModelError for one that cannot score the target.
        """
        name = self.model.metrics[0] if metric is None else self.metric(metric)
        return self.model.with_metric(name), name

    def of_later(
        self, table: pd.DataFrame, model: ModelSpec, metrics: Sequence[str] | None, groups: Any = None
    ) -> Problem:
        """Return the problem of rows that came later: the same target, features and classes; ``groups`` as in ``of``.

        ``model``: the recipe as it was asked for; ``metrics``: others than its own. Raises ModelError for a class that
        the model was never shown.
        """
        strange = [label for label in table[self.target].dropna().unique() if label not in self.classes]
        if self.classes and strange:
            raise ModelError(
                f"target {self.target!r} holds {shown(repr(strange[0]))}, a class that the model was never shown; "
                "leave those rows out, or train on some of them."
            )
        update: dict[str, object] = {"features": self.features, "exclude": (), "task": self.task}
        update |= {"metrics": tuple(map(self.metric, metrics))} if metrics else {}
        # What plays another role was no feature in training, and the features are named.
        return Problem.of(table, model.model_copy(update=update), self.target, groups=groups, labels=self.classes)


def _named(column: Any) -> list[str]:
    return [column] if isinstance(column, str) else []


def _group_codes(table: pd.DataFrame, groups: Any) -> IntArray | None:
    if groups is None:
        return None
    values = table[groups] if isinstance(groups, str) else groups
    if len(values) != len(table):
        raise ModelError(f"groups has {len(values):,} values for {len(table):,} rows; pass one value per row.")
    codes = pd.factorize(np.asarray(values, dtype=object) if isinstance(values, (list, tuple)) else values)[0]
    require_in_no_row(codes < 0, f"groups is {MISSING}", FILL)
    return np.asarray(codes, dtype=np.int64)


def _weights(table: pd.DataFrame, model: ModelSpec, task: Task, classes: tuple[Any, ...]) -> NDArray[np.float64] | None:
    if model.weights is None:
        return None
    if kind_of(table[model.weights]) != "number":
        raise ModelError(f"weights column {model.weights!r} holds {table[model.weights].dtype}; weights are numbers.")
    weights = plain_numbers(table[model.weights]).astype(np.float64)
    what = f"weights column {model.weights!r} is missing, infinite or negative"
    require_in_no_row(~(np.isfinite(weights) & (weights >= 0)), what, "weights are numbers of at least 0")
    for metric in model.metrics:
        if error_of(metric, task, classes, weighed=True):
            raise ModelError(f"metric {metric!r} cannot weigh rows; leave weights out, or choose another metric.")
    return weights

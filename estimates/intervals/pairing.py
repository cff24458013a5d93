"""The rows that two frames of predictions share, side by side and weighed alike, and McNemar's exact test of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Metric
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.metrics.scoring import first_line, score
from evenfold.splitters.errors import ModelError, cause_of
from numpy.typing import NDArray
from scipy import stats

# What two rows of one table may differ in, and two tests of a row never do.
TOLD_APART = {"y": "target", "row": "row number", "weight": "weight", "group": "group"}


@dataclass(frozen=True)
class SharedRows:
    """The rows that two frames of predictions share, line by line; ``keys``: the row of each, as codes."""

    metric: Metric
    frames: tuple[pd.DataFrame, pd.DataFrame]
    classes: tuple[Any, ...]
    keys: NDArray[np.int64]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, a: pd.DataFrame, b: pd.DataFrame, metric: Metric, on: Sequence[str], groups: str | None,
        classes: tuple[Any, ...] | None, names: tuple[str, str],
    ) -> SharedRows:  # fmt: skip
        """Return those of two frames; arguments and errors are those of ``compare``."""
        for column in [*on, *([groups] if groups else [])]:
            if lack := [name for name, frame in zip(names, (a, b), strict=True) if column not in frame]:
                both = ", ".join(str(name) for name in a if name in b)
                has = "has" if len(lack) == 1 else "have"
                raise ModelError(f"{' and '.join(lack)} {has} no column {column!r}; both have {both}.")
        a, b, notes = paired(a, b, list(on), names)
        labels = classes_of(metric.name, a, b, names) if classes is None else classes
        keys = a.groupby(list(on), sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)
        return cls(metric, (a, b), labels, keys, notes)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.keys.max()) + 1

    @cached_property
    def tested(self) -> pd.Series[int]:
        """The number of rows of each repeat."""
        return pd.Series(self.keys).groupby(self.frames[0]["repeat"]).nunique()

    @cached_property
    def sizes(self) -> pd.Series[int]:
        """The number of lines of each fold of each repeat."""
        return self.frames[0].groupby(["repeat", "fold"]).size()

    @property
    def same_folds(self) -> bool:
        """Return whether both were tested in the same folds."""
        first, second = (frame["fold"].to_numpy() for frame in self.frames)
        return np.array_equal(first, second)

    def answered(self, lines: Any = slice(None)) -> list[Answered]:
        """Return some lines of either frame as the metric reads them."""
        return [Answered.of(frame.iloc[lines], self.classes, held=True) for frame in self.frames]

    def scores(self) -> list[float]:
        """Return either one's score, the mean over repeats."""
        parts = [[part for _, part in frame.groupby("repeat")] for frame in self.frames]
        return [float(np.mean([score_of(self.metric.name, part, self.classes) for part in own])) for own in parts]


def paired(
    a: pd.DataFrame, b: pd.DataFrame, on: list[str], names: tuple[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Return both frames' shared rows in one order, with the weights of A's, and notes about them.

    A row that several folds of a repeat test pairs its first tests, its second ones, and so on. ModelError where a row
    is in a fold twice, ``on`` names another one too, no row is shared, targets differ, or a repeat weighs nothing.
    """
    by = [*on, "repeat"]
    often = any([_tested_often(frame, by, name) for name, frame in zip(names, (a, b), strict=True)])
    left, right = (_by_test(frame, by) if often else frame.set_index(by).sort_index() for frame in (a, b))
    shared = left.index.intersection(right.index)
    if not len(shared):
        raise ModelError(f"{names[0]} and {names[1]} share no row by {', '.join(on)}; compare runs of the same split.")
    left, right = left.loc[shared], right.loc[shared]
    if differ := int((left["y"].to_numpy() != right["y"].to_numpy()).sum()):
        where = f"{differ:,} of {len(shared):,} shared rows"
        raise ModelError(f"the target differs in {where}; compare runs on the same data.")
    if "weight" in left and not left["weight"].groupby(level="repeat").any().all():
        where = f"on all shared rows of a repeat ({len(shared):,} rows are shared), so there is no score"
        raise ModelError(f"the weights of {names[0]} are 0 {where}; compare rows that weigh something.")
    notes: list[str] = []
    first, second = (each["weight"].to_numpy() if "weight" in each else np.ones(len(each)) for each in (left, right))
    if not np.array_equal(first, second):  # other weights make another metric
        right = right.assign(weight=first) if "weight" in left else right.drop(columns="weight")
        how = f"with the weights of {names[0]}" if "weight" in left else f"without weights, as {names[0]} was"
        notes.append(f"Both are scored {how}, and not as {names[1]}.")
    if not len(shared) == len(a) == len(b):
        notes += _left_out(left, (a, b), on, names)
    if not np.array_equal(left["fold"].to_numpy(), right["fold"].to_numpy()):
        notes.append("The folds differ, so there is no test by folds, and the models had different training rows.")
    left, right = ((frame.droplevel(-1) if often else frame).reset_index() for frame in (left, right))
    return left, right, tuple(notes)


def _tested_often(frame: pd.DataFrame, by: list[str], name: str) -> bool:
    """Return whether several folds of a repeat test a row; ModelError where ``by`` names two rows."""
    again = int(frame.duplicated(by).sum())
    if not again:
        return False
    if twice := int(frame.duplicated([*by, "fold"]).sum()):
        raise ModelError(f"{twice:,} rows of {name} have the same {', '.join(by)}, fold; a key names one row.")
    for column, what in TOLD_APART.items():
        others = again - int(frame.duplicated([*by, column]).sum()) if column in frame and column not in by else 0
        if others:
            alike = f"have the same {', '.join(by)} and another {what}"
            raise ModelError(f"{others:,} rows of {name} {alike}; a key names one row.")
    return True


def _left_out(
    shared: pd.DataFrame, frames: tuple[pd.DataFrame, pd.DataFrame], on: list[str], names: tuple[str, str]
) -> list[str]:
    """Return notes on the rows, and on the tests of shared rows, that one frame alone has."""
    tests = [frame.groupby(on, observed=True, dropna=False).size() for frame in (shared, *frames)]
    rows, notes = [len(each) for each in tests], []
    if rows[0] < max(rows):
        notes.append(f"Compared on the {rows[0]:,} shared rows of {_of_both(rows[1:], names)}.")
    of_shared = [int(each.reindex(tests[0].index).sum()) for each in tests]
    if of_shared[0] < max(of_shared):
        both = f"{of_shared[0]:,} of {_of_both(of_shared[1:], names)}"
        notes.append(f"Compared on the first tests of each row, as many as both have: {both}.")
    return notes


def _of_both(numbers: list[int], names: tuple[str, str]) -> str:
    return f"{numbers[0]:,} in {names[0]} and {numbers[1]:,} in {names[1]}"


def _by_test(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows in the order of ``by``, of which and of the number of a row's test the index is made."""
    ordered = frame.sort_values("fold", kind="stable")
    number = ordered.groupby(by, sort=False, dropna=False).cumcount().rename(None)
    return ordered.set_index([*(ordered[name] for name in by), number]).drop(columns=by).sort_index()


def same_answers(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Return whether two paired frames have the same predictions, whatever their metric."""
    names = [name for name in a if name in b and str(name).partition("_")[0] in ("prediction", "proba", "decision")]
    return np.array_equal(a[names].to_numpy(), b[names].to_numpy())


def classes_of(metric: str, a: pd.DataFrame, b: pd.DataFrame, names: tuple[str, str]) -> tuple[Any, ...]:
    """Return the labels of y, predictions and probabilities; none for a metric of numbers, or of no task and a float y.

    A column of one's own is no class where probabilities beside it add up to 1. ModelError where numbers and text mix.
    """
    y, task = a["y"].to_numpy(), metric_of(metric).task
    if task == "regression" or (task is None and y.dtype.kind == "f"):
        return ()
    labels = set(np.unique(y).tolist())
    for frame in (a, b):
        predicted = frame["prediction"].dropna().unique()
        if predicted.dtype.kind == y.dtype.kind == "f":  # those of y may come in a shorter float
            predicted = predicted[~np.isin(predicted, y.astype(predicted.dtype))]
        labels |= set(predicted.tolist())
    if len({isinstance(label, str) for label in labels}) > 1:
        what = f"y and the predictions of {' and '.join(names)} name classes by numbers and by text"
        raise ModelError(f"{what}; name them alike.")
    kind = next(type(label) for label in labels)
    for text in {text for frame in (a, b) for text in _named_by_columns(frame, labels)}:
        with suppress(ValueError):  # a column of somebody's own
            labels.add(text == "True" if kind is bool else kind(text))
    return tuple(sorted(labels))


def _named_by_columns(frame: pd.DataFrame, labels: set[Any]) -> Iterator[str]:
    """Yield what further columns name: those beside probabilities that lack something to 1, and beside decisions."""
    for kind in ("proba_", "decision_"):
        columns = [f"{kind}{label}" for label in labels if f"{kind}{label}" in frame]
        whole = kind == "proba_" and np.allclose(frame[columns].sum(axis="columns"), 1)
        if columns and not whole:
            yield from (str(name).removeprefix(kind) for name in frame if str(name).startswith(kind) and name != kind)


def score_of(metric: str, part: pd.DataFrame, classes: tuple[Any, ...]) -> float:
    """Return the metric of some predictions, a mean of classes of those that they hold; ModelError where undefined."""
    rows, loss = Answered.of(part, classes, held=True), metric_of(metric).loss
    try:
        return score(metric, replace(rows, classes=()))
    except ValueError as error:  # scikit-learn has no log loss of rows that lack a class, and each row has its own
        mean = np.nan if loss is None or not classes else rows.mean(loss.of(rows))
        if loss is None or not np.isfinite(mean):
            message = f"{metric} is undefined on these {rows.n:,} rows: {first_line(error)} Choose another metric."
            raise ModelError(message) from cause_of(error)
        return loss.score(float(mean))


def exact_test(shared: SharedRows, groups: str | None, names: tuple[str, str]) -> tuple[float, str] | None:
    """Return McNemar's exact p (1947) in a sentence, too; None unless rows are tested once, alone, right or wrong."""
    loss, first = shared.metric.loss, shared.frames[0]
    once = len(first) == shared.n and len(shared.tested) == 1
    if loss is None or not loss.share or groups is not None or not once or "weight" in first:
        return None
    right_a, right_b = (loss.of(rows) == 0 for rows in shared.answered())
    only_a, only_b = int(np.sum(right_a & ~right_b)), int(np.sum(right_b & ~right_a))
    p = 1.0 if only_a + only_b == 0 else float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue)
    alone = f"{names[0]} alone is right on {only_a:,} rows and {names[1]} alone on {only_b:,}"
    return p, f"Of these fitted models: {alone} (McNemar's exact test, p = {p:.2g})."

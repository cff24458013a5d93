"""Early stopping: each fit holds a part of its training rows back, and these, never those that judge, stop it."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
from evenfold.estimates.errors import EvaluationError
from evenfold.splitters import BalancedGroupSplit, FractionalStratifiedSplit, StratifiedSplit
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from .options import fit_with, last_of, parts_of, takes, validation_weights
from .problem import IntArray, Problem

Mask = NDArray[np.bool_]


def stopping_rows(problem: Problem, train: IntArray, fraction: float, seed: int) -> Mask:
    """Return which training rows, about ``fraction`` of them, stop the training that the others are learnt from.

    A group is on one side, and so are the copies of a row. Rows of a problem with times are the last ones: of one
    time together, or the groups that end last. Others are drawn by ``seed``, so that each class has its share, or a
    number its distribution. Rows that alone have a class are learnt from. Raises EvaluationError where one side
    would have no rows, SplitError where they are too few. O(n log n).
    """
    rows, place = np.unique(train, return_inverse=True)
    y, units = problem.y[rows], problem.units(rows)
    if problem.times is not None:
        stops, of = _last(problem.times[rows], units, fraction), "one time or group"
    else:
        stops, of = _drawn(y, units, fraction, seed, bool(problem.classes)), "one group"
    if problem.classes:
        units = np.arange(rows.size) if units is None else units
        alone = stops & ~np.isin(y, y[~stops])
        stops &= ~np.isin(units, units[alone])
    if not stops.any():
        raise EvaluationError(
            f"eval_set: {fraction:g} of {rows.size:,} training rows, which are of {of} or alone have a class, leaves "
            "no rows on one side; leave eval_set out, or pass more rows."
        )
    held: Mask = stops[place.reshape(-1)]
    return held


def _last(times: IntArray, units: IntArray | None, fraction: float) -> Mask:
    units = np.unique(times, return_inverse=True)[1] if units is None else units
    end = np.full(units.max() + 1, -1)
    np.maximum.at(end, units, times)
    latest = np.argsort(-end, kind="stable")
    missed = np.abs(np.cumsum(np.bincount(units)[latest]) - fraction * units.size)
    return np.isin(units, latest[: 1 + int(np.argmin(missed[:-1]))] if end.size > 1 else [])


def _drawn(y: NDArray[Any], units: IntArray | None, fraction: float, seed: int, classes: bool) -> Mask:
    parts = {"train": 1 - fraction, "stop": fraction}
    if units is not None:
        strategy: Any = BalancedGroupSplit(parts, random_state=seed)
    elif classes:
        strategy = StratifiedSplit(parts, rare="spread", random_state=seed)
    else:
        strategy = FractionalStratifiedSplit(parts, random_state=seed)
    codes = strategy.assign(np.zeros((y.size, 1)), y, units)
    return np.asarray(codes == strategy.part_codes()["stop"])


def fit_stopped(
    estimator: Any, X: Any, y: NDArray[Any], fit_params: Mapping[str, object], held: tuple[Any, NDArray[Any], Any]
) -> Any:
    """Fit an estimator, or the last step of a pipeline, that stops by the rows ``held`` back: X, y and weights.

    The steps before that one learn from the other rows alone, and the rows held back go through it.
    """
    rows, y_held, weights = held
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before, (name, last) = estimator[:-1], estimator.steps[-1]
        its = {key: value for key, value in fit_params.items() if any(takes(part, key) for part in parts_of(last))}
        X = fit_with(before, X, y, {key: value for key, value in fit_params.items() if key not in its}, "fit_transform")
        last = fit_stopped(last, X, y, its, (before.transform(rows), y_held, weights))
        estimator.steps = [*before.steps, (name, last)]
        return estimator
    last = last_of(estimator)
    alone = takes(last, "X_val")  # other libraries take several sets
    watched: dict[str, object] = {"X_val": rows, "y_val": y_held} if alone else {"eval_set": [(rows, y_held)]}
    if weights is not None:
        watched[str(validation_weights(last))] = weights if alone else [weights]
    if "verbose" not in fit_params and getattr(signature(last.fit).parameters.get("verbose"), "default", None) is True:
        watched["verbose"] = False  # XGBoost prints a line a round
    return fit_with(estimator, X, y, {**fit_params, **watched})

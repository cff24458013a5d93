"""The small models that the checks learn with, of rows that they have not seen, and the cost of a leak by one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, wraps
from hashlib import sha256
from typing import Any, cast

import numpy as np
from evenfold.manifests.audits.findings import DropFeatures, Found, KeepTogether, Remedy, SplitByTime
from evenfold.manifests.audits.statistics import Array, Codes, correlation
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .sample import BLOCKS, Column, Sample, alone

MOST_LEAVES = 64
MOST_KNOWN = 256  # predictions that a process keeps, of at most 8,000 rows each
MOST_CATEGORIES, MOST_COLUMNS = 60, 100
PRIOR_ROWS = 5.0  # a level's mean counts this many rows of the overall mean


@cache
def _pools() -> ThreadpoolController:
    import sklearn.ensemble  # noqa: F401, what starts threads is looked for once, and must be loaded by then

    return ThreadpoolController()


def in_one_thread() -> AbstractContextManager[Any]:
    """Return a context in which small models learn in one thread.

    Sums in parallel differ in their last bits, and threads that wait for one another burn more than they save.
    """
    return cast("AbstractContextManager[Any]", _pools().limit(limits=1))


def _once(learn: Callable[..., Array]) -> Callable[..., Array]:
    """Return ``learn`` such that a process that asks the very same again has the answer at once.

    The audit of a split and that of a model's features learn mostly the same: the fits are nearly all of their time.
    """
    answers: dict[bytes, Array] = {}

    @wraps(learn)
    def run(*arguments: Any) -> Array:
        key = sha256(pickle.dumps(arguments)).digest()
        if key not in answers:
            learnt = learn(*arguments)
            for oldest in list(answers)[: max(0, len(answers) + 1 - MOST_KNOWN)]:
                answers.pop(oldest, None)
            answers[key] = learnt
        return answers[key].copy()

    return run


def predict_from_one(column: Column, outcomes: Array, test: NDArray[np.bool_]) -> Array:
    """Return what one column alone tells of the outcomes of the ``test`` rows, learnt from the others.

    Of a number or a time a tree of at most 64 leaves, missing values on the better side; of a category the mean of
    its level, drawn a little towards the overall mean. O(n log n).
    """
    if column.kind == "category":
        codes, train = column.codes + 1, ~test  # missing values are level 0
        rows = np.bincount(codes[train], minlength=column.n_levels + 1)
        sums = [np.bincount(codes[train], weights=outcome[train], minlength=rows.size) for outcome in outcomes.T]
        means = np.stack(sums, axis=1) + PRIOR_ROWS * outcomes[train].mean(axis=0)
        return np.asarray((means / (rows + PRIOR_ROWS)[:, None])[codes[test]])
    return _grown(column.values[~test], outcomes[~test], column.values[test])


@_once
def _grown(values: Array, outcomes: Array, queries: Array) -> Array:
    from sklearn.tree import DecisionTreeRegressor

    least = max(5, values.size // 250)
    tree = DecisionTreeRegressor(max_leaf_nodes=MOST_LEAVES, min_samples_leaf=least, random_state=0)
    tree.fit(values[:, None], outcomes)
    return np.asarray(tree.predict(queries[:, None])).reshape(-1, outcomes.shape[1])


def predict_from_all(columns: Sequence[Column], outcomes: Array, blocks: Codes, past: bool = False) -> Array:
    """Return what the columns together tell of each row, learnt from the other blocks by gradient-boosted trees.

    ``past``: learnt from the blocks before its own alone, of which the first has none and is 0. Categories of over 60
    levels are left out, because they name rows rather than describe them.
    """
    X, categorical = design(columns)
    predicted = np.zeros_like(outcomes)
    for block in np.unique(blocks)[int(past) :]:
        train, test = blocks < block if past else blocks != block, blocks == block
        for i, outcome in enumerate(outcomes.T):
            predicted[test, i] = predict_boosted(X[train], outcome[train], X[test], categorical)
    return predicted


@_once
def predict_boosted(train: Array, outcome: Array, queries: Array, categorical: list[bool], rounds: int = 40) -> Array:
    """Return what gradient-boosted trees, learnt from ``train`` and its outcome, say of other rows.

    Columns without two values in ``train`` are left out; where none is left its mean is said. Of more than 100 columns
    those are learnt from that go closest with the outcome, by their values or their distance from the mean.
    """
    varying = np.flatnonzero(np.fmax.reduce(train) > np.fmin.reduce(train)).tolist()
    if not varying:
        return np.full(queries.shape[0], outcome.mean())
    if len(varying) > MOST_COLUMNS:
        away = (np.nan_to_num(train[:, i] - np.nanmean(train[:, i])) for i in varying)
        strength = [-max(abs(correlation(side, outcome)) for side in (x, np.abs(x))) for x in away]
        varying = sorted(varying[i] for i in np.argsort(strength, kind="stable")[:MOST_COLUMNS])
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=rounds, max_leaf_nodes=12, min_samples_leaf=10, learning_rate=0.15, max_bins=63,
        categorical_features=[categorical[i] for i in varying], early_stopping=False, random_state=0,
    )  # fmt: skip
    return np.asarray(model.fit(train[:, varying], outcome).predict(queries[:, varying]))


def design(columns: Sequence[Column]) -> tuple[Array, list[bool]]:
    """Return columns side by side as trees read them, and which of them are categories."""
    used = usable(columns)
    coded = [np.where(c.codes < 0, np.nan, c.codes) if c.kind == "category" else c.values for c in used]
    return np.column_stack(coded).astype(np.float64), [column.kind == "category" for column in used]


def usable(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that describe rows: those without categories of over 60 levels."""
    return [column for column in columns if column.kind != "category" or column.n_levels <= MOST_CATEGORIES]


def with_impact(finding: Found, learned: Sample) -> Found:
    """Return what was found with the points at stake, where there is a remedy.

    The same small model (gradient-boosted trees on at most 8,000 rows) is fitted with the manifest's folds and
    features, and with the remedy: without the features named, with whole units in one fold, or on the past alone. Both
    scores are of the same rows, out of fold. What one such model makes of a leak is a lower bound of what a better one
    might. O(features x n log n) for each finding.
    """
    remedy = finding.remedy
    if remedy is None or (impact := at_stake(learned, remedy)) is None:
        return finding
    measure, before, mended = impact
    scores = f"{measure} {before:.3f} as split, {mended:.3f} {remedy.words}"
    message = f"{finding.message} At stake: {scores}, of a small model."
    figures = {"measure": measure, "as_split": before, "mended": mended}
    return replace(finding, message=message, figures={**finding.figures, "impact": figures})


def at_stake(sample: Sample, remedy: Remedy) -> tuple[str, float, float] | None:
    """Return the measure, the score as split and the mended one; None where there is nothing to learn or to compare."""
    target, columns, blocks = sample.target, sample.feature_columns(), sample.blocks
    if not usable(columns):
        return None
    as_split = predict_from_all(columns, target.outcomes, blocks)
    rows = np.arange(blocks.size)
    match remedy:
        case DropFeatures():
            rest = [column for column in columns if column.name not in remedy.features]
            nothing = np.broadcast_to(target.outcomes.mean(axis=0), target.outcomes.shape)
            mended = predict_from_all(rest, target.outcomes, blocks) if usable(rest) else nothing
        case KeepTogether():
            units = alone(remedy.units[sample.rows])
            _, first, unit = np.unique(units, return_index=True, return_inverse=True)
            whole = blocks[first[unit]]  # that of its unit's first row
            if np.unique(whole).size < 2:
                return None
            mended = predict_from_all(columns, target.outcomes, whole)
        case SplitByTime():
            clock = sample.clock(remedy.column)
            places = clock.codes / max(clock.n_levels, 1)
            edges = np.quantile(places, np.arange(1, BLOCKS) / BLOCKS)
            stretches = np.searchsorted(edges, places, side="right")  # equal times are in one stretch
            rows = np.flatnonzero(stretches > stretches.min())
            if not rows.size:  # all rows are of one stretch of time, which has no past
                return None
            mended = predict_from_all(columns, target.outcomes, stretches, past=True)
    own = target.take(rows)
    return target.measure, own.score(as_split[rows]), own.score(mended[rows])

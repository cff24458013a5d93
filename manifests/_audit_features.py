"""Checks of single features: one that names rows, or one that gives the target away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.splitters import stable_order
from numpy.typing import NDArray

from ._columns import to_numpy
from ._decide import is_numeric_target
from ._features import Features
from ._finding import Found, NotAsked, Outcome
from ._joined import Joined
from ._words import amount, listed, verb

ID_LIKE, TARGET_LIKE = 0.99, 0.999
LEAST_ROWS = 50
MOST_CLASSES = 10
ROWS_A_VALUE = 5  # a category that stands in fewer rows follows the target by chance


def id_like_features(joined: Joined, features: Features) -> Outcome:
    """Look for features, floats aside, of which nearly every row has its own value. All rows are counted."""
    if joined.n < LEAST_ROWS:
        return NotAsked(f"{joined.n} rows are too few to tell a name from a number")
    sample = features.sample
    likely = [name for name in sample.column_names if _distinct(sample.column(name)) >= ID_LIKE]
    shares = {name: _distinct(joined.column(name)) for name in likely}
    alike = {name: share for name, share in shares.items() if share >= ID_LIKE}
    if not alike:
        return None
    shown = listed(f"{name} ({share:.1%} distinct)" for name, share in alike.items())
    said = f"{amount(len(alike), 'feature')} {verb(len(alike), 'names', 'name')} rows: {shown}"
    return Found(len(alike), f"{said}; leave them out, or use them as the key.", {"features": alike})


def _distinct(column: pa.ChunkedArray) -> float:
    if pa.types.is_floating(column.type):
        return 0.0
    return float(pc.count_distinct(column).as_py()) / len(column)


def target_like_features(joined: Joined, features: Features) -> Outcome:
    """Look for features that order the rows as the target does: |rank correlation| or AUC of at least 0.999.

    Of several classes the AUC is the mean over all pairs of the ten largest classes (Hand and Till, 2001, A simple
    generalisation of the area under the ROC curve). A category stands for the mean rank of its target. That a value
    is missing counts as a feature of its own.
    """
    name = joined.columns.target
    if name is None:
        return NotAsked("no target column is named")
    if features.rows.size < LEAST_ROWS:
        return NotAsked(f"{features.rows.size} rows are too few to tell a copy of the target from chance")
    column = joined.column(name).take(pa.array(features.rows))
    target = Target.of(column)
    likeness = {each: target.likeness(features.sample.column(each)) for each in features.sample.column_names}
    alike = {each: value for each, value in likeness.items() if value >= TARGET_LIKE}
    if not alike:
        return None
    shown = listed(f"{each} ({target.measure} {value:.4f})" for each, value in alike.items())
    said = f"{amount(len(alike), 'feature')} all but {verb(len(alike), 'gives', 'give')} {name!r}: {shown}"
    remedy = "leave them out unless they are known before the target is"
    return Found(len(alike), f"{said}{features.looked_at}; {remedy}.", {"features": alike})


class Target:
    """The target of the sampled rows, and how like it a feature is. Rows without a target are left out."""

    def __init__(self, ranks: NDArray[np.float64], classes: NDArray[np.int64] | None, present: NDArray[np.bool_]):
        self.ranks, self.classes, self.present = ranks, classes, present

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Target:
        """Return the target that a canonical column holds: a number, or classes by size."""
        if is_numeric_target(column):
            values = to_numpy(column).astype(np.float64)
            return cls(ranks_of(values), None, ~np.isnan(values))
        encoded = column.combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        sizes = np.bincount(codes[codes >= 0], minlength=1)
        by_size = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
        classes = np.where(codes >= 0, by_size[codes], -1)
        return cls(classes.astype(np.float64), classes, (classes >= 0) & (classes < MOST_CLASSES))

    @property
    def measure(self) -> str:
        """What likeness is called."""
        return "|rank correlation|" if self.classes is None else "AUC"

    def likeness(self, feature: pa.ChunkedArray) -> float:
        """Return how like the target a feature, or its being missing, is: 0 to 1."""
        missing = pc.is_null(feature, nan_is_null=True).to_numpy()
        use = self.present & ~missing
        found = self._of(_numbers(feature, self.ranks, use), use) if np.count_nonzero(use) >= LEAST_ROWS else 0.0
        some = min(np.count_nonzero(missing), np.count_nonzero(~missing)) >= LEAST_ROWS
        return max(found, self._of(missing.astype(np.float64), self.present)) if some else found

    def _of(self, numbers: NDArray[np.float64], use: NDArray[np.bool_]) -> float:
        if self.classes is None:
            return _correlation(ranks_of(numbers[use]), ranks_of(self.ranks[use]))
        return mean_auc(numbers[use], self.classes[use])


def _numbers(feature: pa.ChunkedArray, ranks: NDArray[np.float64], use: NDArray[np.bool_]) -> NDArray[np.float64]:
    if not pa.types.is_large_string(feature.type):
        if pa.types.is_date32(feature.type):
            feature = feature.cast(pa.int32())
        elif pa.types.is_timestamp(feature.type):
            feature = feature.cast(pa.int64())
        return to_numpy(feature.fill_null(False) if pa.types.is_boolean(feature.type) else feature).astype(np.float64)
    encoded = feature.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.maximum(np.bincount(codes[use], minlength=len(encoded.dictionary)), 1)
    means = np.bincount(codes[use], weights=ranks[use], minlength=rows.size) / rows
    followed = means if np.count_nonzero(use) >= ROWS_A_VALUE * rows.size else np.zeros(rows.size)
    return np.asarray(followed[codes])


def ranks_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value, equal values at the middle of theirs."""
    ranked = np.sort(values)
    below, up_to = np.searchsorted(ranked, values, "left"), np.searchsorted(ranked, values, "right")
    return (below + up_to).astype(np.float64) / 2.0


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return abs(float((a * b).sum())) / scale if scale else 0.0


def mean_auc(numbers: NDArray[np.float64], classes: NDArray[np.int64]) -> float:
    """Return the mean over all pairs of classes of the AUC with which ``numbers`` tell the two apart, 0.5 to 1."""
    order = stable_order(numbers)
    last = np.append(np.flatnonzero(np.diff(numbers[order])), numbers.size - 1)
    present = np.unique(classes)
    below = np.stack([np.cumsum(classes[order] == each)[last] for each in present]).astype(np.float64)
    found: list[Any] = []
    for i in range(present.size):
        step = np.diff(below[i], prepend=0.0)
        for j in range(i):
            # Of the rows of class i at each value: all of class j below it, and half of those at it.
            wins = (step * (np.append(0.0, below[j][:-1]) + below[j]) / 2.0).sum() / (below[i][-1] * below[j][-1])
            found.append(max(wins, 1.0 - wins))
    return float(np.mean(found)) if found else 0.0

"""Stratified k-fold: class counts and sizes even at once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._base import LabelSplitter
from ._deal import deal
from ._errors import SplitError
from ._random import Stream
from ._rows import Needs, Rows


class StratifiedKFold(LabelSplitter):
    """Folds in which each class has its share, for two or more classes.

    Promises: test sets are disjoint and hold every row once; any two folds' counts of any class differ by at most
    1, and so do their sizes. A class with fewer rows than folds is a SplitError, unless ``rare="spread"``: then its
    rows go to distinct folds and some folds have none, which the balance report says.

    Unlike implementations that start every class at the first fold, so that left-over rows pile up there, the
    classes continue where the one before stopped. O(n log n). Source: Kohavi (1995), A study of cross-validation
    and bootstrap for accuracy estimation and model selection.
    """

    needs = Needs(y="classes")
    promises = LabelSplitter.promises | {"even_sizes", "even_classes"}

    def __init__(self, n_splits: int = 5, *, rare: Literal["error", "spread"] = "error", random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.rare = rare
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        assert rows.y is not None
        return deal(stream.shuffled_by(rows.y, len(rows.levels)), self.n_splits, stream, by="cycle")

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        check_classes(rows, self.n_splits, self.rare)


def check_classes(rows: Rows, n_splits: int, rare: str) -> None:
    """Raise SplitError where y has one class, or a class with fewer rows than folds that may not be spread."""
    if rare not in ("error", "spread"):
        raise SplitError(f"rare={rare!r}; choose 'error' or 'spread'.")
    counts = rows.class_counts()
    if counts.size == 1:
        raise SplitError(f"y has one class ({rows.levels[0]!r}) in all {rows.n:,} rows; use KFold.")
    rarest = int(np.argmin(counts))
    if rare == "error" and counts[rarest] < n_splits:
        fewest = int(counts[rarest])
        fewer = "n_splits=2, or " if fewest == 2 else f"n_splits of 2 to {fewest}, or " if fewest > 2 else ""
        raise SplitError(
            f"class {rows.levels[rarest]!r} has {fewest:,} of {rows.n:,} rows, fewer than n_splits={n_splits}; "
            f"choose {fewer}rare='spread'."
        )

"""Folds that were decided elsewhere, as a column of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._base import LabelSplitter
from ._errors import SplitError
from ._random import IntArray, Stream
from ._rows import Needs, Rows, whole_numbers


class Predefined(LabelSplitter):
    """Folds as given: a column of whole numbers, 0..k-1 for the fold in which a row is tested.

    -1 is never tested (always trained on, as in scikit-learn's PredefinedSplit), -2 is locked and -3 excluded: both
    are in neither side of any pair. ``folds`` holds the labels; without it they are the rows' ``fixed`` column.

    Promises: no row is in both sides of a pair; the labels are the given ones. A missing label, a fold number that is
    skipped and a fold with nothing to train on are SplitErrors. O(n) for the labels, O(n) for each pair.
    """

    promises = frozenset({"disjoint", "as_given"})

    def __init__(self, folds: Any = None) -> None:
        self.folds = folds

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """The rows' fixed column, unless ``folds`` holds the labels."""
        return Needs(y="ignored", fixed=self.folds is None)

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        """Return the given label of each row."""
        return self._given(rows.fixed)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of folds."""
        fixed = None if self.folds is not None else self.rows(X, y, groups, **roles).fixed
        return int(self._given(fixed).max()) + 1

    def _n_splits(self, rows: Rows) -> int:
        return int(self._given(rows.fixed).max()) + 1

    def _given(self, fixed: IntArray | None) -> IntArray:
        return whole_numbers(self.folds, "folds") if fixed is None else fixed

    def _check(self, rows: Rows) -> None:
        given = self._given(rows.fixed)
        if given.size != rows.n:
            raise SplitError(f"folds has {given.size:,} labels for {rows.n:,} rows; pass one label per row.")
        if given.min() < -3 or given.max() < 0:
            raise SplitError(
                f"labels run from {given.min()} to {given.max()}; choose 0 and above for the fold that tests a row, "
                "-1 for never tested, -2 for locked, -3 for excluded."
            )
        skipped = np.setdiff1d(np.arange(min(int(given.max()), rows.n + 1)), given)
        if skipped.size:
            raise SplitError(f"no row has label {skipped[0]}, and labels go up to {given.max()}; number them 0, 1, ...")
        if given.max() == 0 and not (given == -1).any():
            raise SplitError("every row is in fold 0, so there is nothing to train on; give some rows label -1 or 1.")

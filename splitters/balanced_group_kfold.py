"""Grouped k-fold: groups whole, sizes and class shares as even as they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._base import LabelSplitter
from ._errors import SplitError
from ._order import stable_order
from ._pack import group_table, pack
from ._random import PACKING, Stream
from ._rows import Needs, Rows

QUANTILE_BINS = 10


class BalancedGroupKFold(LabelSplitter):
    """Folds that keep every group whole and share out rows and classes evenly.

    y may be classes, numbers (then 10 quantile bins stand for the distribution) or absent (then sizes alone count).

    Promises: test sets are disjoint and hold every row once; no group is in two folds; no fold is empty. How even
    sizes and classes can be depends on the groups; the balance report says how even they are.

    O(n) for the table of groups x classes, then one vectorised step a group. The idea of packing groups by their class
    counts: Figueira (2022), Stratified k-fold cross-validation on grouped datasets.
    """

    needs = Needs(y="any", groups=True)
    promises = LabelSplitter.promises | {"groups_whole", "no_empty_fold"}

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        assert rows.groups is not None
        y, n_classes = classes_to_balance(rows)
        table = group_table(rows.groups, rows.n_groups, y, n_classes)
        shares = np.full(self.n_splits, 1.0 / self.n_splits)
        return pack(table, shares, self._stream(PACKING))[rows.groups]

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.n_groups < 2:
            raise SplitError(f"all {rows.n:,} rows are one group; use KFold, or a finer group column.")
        if self.n_splits > rows.n_groups:
            raise SplitError(f"n_splits={self.n_splits} with {rows.n_groups} groups; choose {_range(rows.n_groups)}.")


def classes_to_balance(rows: Rows) -> tuple[NDArray[np.int64] | None, int]:
    """Return the classes that the table counts, and how many there are: classes as they are, numbers by quantile."""
    if rows.y is None:
        return None, 1
    if rows.y.dtype.kind == "f":
        bins = min(QUANTILE_BINS, rows.n)
        ranks = np.empty(rows.n, dtype=np.int64)
        ranks[stable_order(rows.y)] = np.arange(rows.n)
        return ranks * bins // rows.n, bins
    return rows.y, len(rows.levels)


def _range(most: int) -> str:
    return "2" if most == 2 else f"2 or {most}" if most == 3 else f"2 to {most}"

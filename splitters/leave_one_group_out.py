"""Leave one group out: every group is a fold of its own."""

from __future__ import annotations

from typing import Any

from ._base import LabelSplitter
from ._errors import SplitError
from ._random import IntArray, Stream
from ._rows import Needs, Rows


class LeaveOneGroupOut(LabelSplitter):
    """As many folds as groups: train on all groups but one, test on that one (a hospital, a year, a plant).

    Promises: test sets are disjoint and hold every row once; each is one whole group, in order of first appearance.
    Folds are as uneven as groups are. Nothing is random.

    O(n) for the labels, O(n) for each pair.
    """

    needs = Needs(y="ignored", groups=True)
    promises = LabelSplitter.promises | {"groups_whole", "no_empty_fold"}

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        """Return each row's group."""
        assert rows.groups is not None
        return rows.groups

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of groups."""
        return self.rows(X, y, groups, **roles).n_groups

    def _n_splits(self, rows: Rows) -> int:
        return rows.n_groups

    def _check(self, rows: Rows) -> None:
        if rows.n_groups < 2:
            raise SplitError(f"all {rows.n:,} rows are one group; use KFold, or a finer group column.")

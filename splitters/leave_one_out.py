"""Leave one out: every row is a fold of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._base import LabelSplitter
from ._errors import SplitError
from ._random import IntArray, Stream
from ._rows import Needs, Rows


class LeaveOneOut(LabelSplitter):
    """As many folds as rows: train on all rows but one, test on that one.

    Promises: fold i tests row i alone. Nothing is random, and there is nothing to repeat.

    O(n) for the labels, O(n) for each pair. Source: Stone (1974), Cross-validatory choice and assessment of
    statistical predictions. The n scores are almost the same model's, so their mean varies more than ten folds' does.
    """

    needs = Needs(y="ignored")
    promises = LabelSplitter.promises | {"even_sizes"}

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        """Return each row's own position."""
        return np.arange(rows.n)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of rows."""
        return self.rows(X, y, groups, **roles).n

    def _n_splits(self, rows: Rows) -> int:
        return rows.n

    def _check(self, rows: Rows) -> None:
        if rows.n < 2:
            raise SplitError("there is 1 row and nothing to train on; pass at least 2 rows.")

"""Plain k-fold: every row tested once, sizes as even as whole rows allow."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ._base import LabelSplitter
from ._deal import deal
from ._random import Stream
from ._rows import Needs, Rows


class KFold(LabelSplitter):
    """Random folds of equal size.

    Promises: test sets are disjoint and hold every row once; sizes differ by at most 1; every partition into such
    folds is equally likely. Rows are always shuffled: data in order would make folds of neighbours.

    Unlike the textbook code that gives all n mod k left-over rows to the last fold, and empty folds where n < k,
    left-over rows go to distinct folds, and n < k is an error.

    O(n log n), one vectorised sort of random keys. Source: Stone (1974), Cross-validatory choice and assessment of
    statistical predictions.
    """

    needs = Needs(y="ignored")
    promises = LabelSplitter.promises | {"even_sizes"}

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        return deal(stream.permutation(rows.n), self.n_splits, stream, by="cycle")

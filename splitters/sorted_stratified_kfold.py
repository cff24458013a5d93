"""Sorted stratification: folds whose target distributions are nearly the same, for numbers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._base import LabelSplitter, label_type
from ._deal import deal
from ._errors import SplitError
from ._order import stable_order
from ._random import IntArray, Stream
from ._rows import Needs, Rows

LEFTOVERS = ("spread", "random", "end")


class SortedStratifiedKFold(LabelSplitter):
    """Folds with the same distribution of a numeric target.

    Rows are sorted by y, and each run of ``n_splits`` neighbours is dealt to the folds in a random order. The
    n mod n_splits rows left over go to distinct folds; ``leftovers`` says which rows these are: taken out at regular
    intervals of the sorted order (``spread``), anywhere (``random``), or the largest (``end``).

    Promises: test sets are disjoint and hold every row once; sizes differ by at most 1; for every threshold, any
    two folds' numbers of rows below it differ by at most 1 (``end``) or 2 (``spread``, ``random``). So the
    distributions differ by at most about 2 rows in a fold's size; their *means* do not where one row of a heavy
    tail outweighs a fold.

    O(n log n): one sort and one pass. Source: Lowe (2016), Stratified validation splits for regression problems.
    Corrected here: left-over rows go to distinct folds (the text lets each fall anywhere, so sizes could differ by
    n mod k), the interval is n/(mod+1), and the number of partitions is (k!)^floor(n/k) times the choices left over.
    """

    needs = Needs(y="numbers")
    promises = LabelSplitter.promises | {"even_sizes", "even_distribution"}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        leftovers: Literal["spread", "random", "end"] = "spread",
        random_state: int = 0,
    ) -> None:
        self.n_splits = n_splits
        self.leftovers = leftovers
        self.random_state = random_state

    @property
    def threshold_gap(self) -> int:
        """The most by which two folds' counts below any threshold differ."""
        return 1 if self.leftovers == "end" else 2

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        assert rows.y is not None
        order = stable_order(rows.y)
        left = self._left_over(rows.n, stream)
        labels = np.empty(rows.n, dtype=label_type(self.n_splits))
        labels[order] = _deal_apart(rows.n, left, self.n_splits, stream)
        return labels

    def _left_over(self, n: int, stream: Stream) -> IntArray:
        """Return the ranks, ascending, of the n mod n_splits rows that fill no whole block."""
        count = n % self.n_splits
        if self.leftovers == "end":
            return np.arange(n - count, n)
        if self.leftovers == "random":
            return np.sort(stream.permutation(n)[:count])
        return np.arange(1, count + 1) * n // (count + 1)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if self.leftovers not in LEFTOVERS:
            raise SplitError(f"leftovers={self.leftovers!r}; choose 'spread', 'random' or 'end'.")


def _deal_apart(n: int, left: IntArray, n_folds: int, stream: Stream) -> NDArray[Any]:
    """Return a fold for each rank: the ranks in ``left`` as a block of their own, the others in whole blocks."""
    folds = np.empty(n, dtype=label_type(n_folds))
    whole = np.ones(n, dtype=np.bool_)
    whole[left] = False
    folds[whole] = deal(np.arange(n - left.size), n_folds, stream, by="block")
    folds[left] = deal(np.arange(left.size), n_folds, stream, by="block")
    return folds

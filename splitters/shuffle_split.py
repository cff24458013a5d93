"""Random draws of a train and a test set."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._base import DrawSplitter, Pair
from ._random import Stream
from ._rows import Needs, Rows
from ._sizes import Size, sizes_of


class ShuffleSplit(DrawSplitter):
    """Draws of ``test_size`` rows to test and ``train_size`` to train, each anew; shares or numbers of rows.

    Promises: no row is in both sides of a pair; sizes are exact; draw i does not depend on ``n_splits``. Test sets of
    different draws overlap: they are independent. What is not given of the sizes is what the other leaves, and a
    tenth to test where neither is given.

    O(n log n) a draw, one vectorised sort of random keys.
    """

    needs = Needs(y="ignored")
    promises = DrawSplitter.promises | {"exact_sizes"}

    def __init__(
        self, n_splits: int = 10, *, test_size: Size = None, train_size: Size = None, random_state: int = 0
    ) -> None:
        self.n_splits = n_splits
        self.test_size = test_size
        self.train_size = train_size
        self.random_state = random_state

    def sizes(self, n: int) -> tuple[int, int]:
        """Return (train rows, test rows) of ``n`` rows."""
        return sizes_of(n, self.test_size, self.train_size, default=0.1)

    def draw(self, rows: Any, stream: Stream) -> Pair:
        """Return one (train, test), positions ascending."""
        n_train, n_test = self.sizes(rows.n)
        shuffled = stream.permutation(rows.n)
        return np.sort(shuffled[n_test : n_test + n_train]), np.sort(shuffled[:n_test])

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        self.sizes(rows.n)

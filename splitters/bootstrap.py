"""The bootstrap: train on n rows drawn with replacement, test on the rows that were not drawn."""

from __future__ import annotations

import numpy as np

from ._base import DrawSplitter, Pair
from ._random import IntArray, Stream
from ._rows import Needs, Rows


class Bootstrap(DrawSplitter):
    """Resamples of n rows with replacement; the rows left out are the test set.

    Promises: train has n rows, some of them several times; test is every row that train lacks, about a share
    (1-1/n)^n of them, .368 for large n; resample i does not depend on ``n_splits``, so 500 resamples
    are the first 500 of 10,000. A draw that leaves no row out (likely only below about 5 rows) is drawn again.

    O(n) a resample, memory flat in their number. Source: Efron (1979), Bootstrap methods: another look at the
    jackknife.
    """

    needs = Needs(y="ignored")
    promises = DrawSplitter.promises | {"out_of_bag"}

    def __init__(self, n_splits: int = 200, *, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def draw(self, rows: Rows, stream: Stream) -> Pair:
        """Return one (drawn rows with repeats, rows not drawn), positions ascending."""
        counts = self.counts(rows, stream)
        return np.repeat(np.arange(rows.n), counts), np.flatnonzero(counts == 0)

    def counts(self, rows: Rows, stream: Stream) -> IntArray:
        """Return how often each row is drawn; the counts sum to n and at least one of them is 0."""
        counts = np.bincount(stream.below(rows.n, rows.n), minlength=rows.n)
        while counts.all():
            counts = np.bincount(stream.below(rows.n, rows.n), minlength=rows.n)
        return counts

"""The bootstrap: train on n rows drawn with replacement, test on the rows that were not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._base import DrawSplitter, Pair
from ._random import DRAWS, IntArray, Stream
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
    promises = DrawSplitter.promises | {"out_of_bag", "n_draws"}

    def __init__(self, n_splits: int = 200, *, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def resamples(self, rows: Rows) -> Iterator[IntArray]:
        """Yield for each resample how often it draws each row: a resample without its lists of positions."""
        prepared = self.prepare(rows)
        return (self.counts(prepared, self._stream(DRAWS, i)) for i in range(self.n_splits))

    def draw(self, rows: Any, stream: Stream) -> Pair:
        """Return one (drawn rows with repeats, rows not drawn), positions ascending."""
        counts = self.counts(rows, stream)
        return np.repeat(np.arange(counts.size), counts), np.flatnonzero(counts == 0)

    def prepare(self, rows: Rows) -> Any:
        """Return room for n drawn rows, which all draws use in turn: making room costs as much as drawing."""
        return np.empty(rows.n, dtype=np.int64)

    def counts(self, room: Any, stream: Stream) -> IntArray:
        """Return how often each row is drawn; the counts sum to n and at least one of them is 0."""
        counts = np.bincount(stream.below(room.size, room.size, out=room), minlength=room.size)
        return self.counts(room, stream) if counts.all() else counts

"""The stratified bootstrap: each class is resampled by itself, so none is lost or doubled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._errors import SplitError
from ._order import stable_order
from ._random import IntArray, Stream
from ._rows import Needs, Rows
from .bootstrap import Bootstrap


@dataclass(frozen=True)
class Classes:
    """Rows class by class, and where each class begins."""

    order: IntArray
    begins: IntArray
    sizes: IntArray


class StratifiedBootstrap(Bootstrap):
    """Resamples that draw each class as often as it has rows, with replacement within the class.

    Promises: train has n rows and as many of each class as there are; test is every row that train lacks; resample i
    does not depend on ``n_splits``. A class of one row is in every train set and in no test set; a draw that leaves no
    row of any class out is drawn again.

    O(n) a resample, after one O(n) ordering by class. Source: Davison and Hinkley (1997), Bootstrap methods and their
    application, chapter 3.
    """

    needs = Needs(y="classes")
    promises = Bootstrap.promises | {"draws_classes"}

    def prepare(self, rows: Rows) -> Classes:
        """Return the rows in order of their classes."""
        assert rows.y is not None
        sizes = rows.class_counts()
        return Classes(stable_order(rows.y), np.cumsum(sizes) - sizes, sizes)

    def counts(self, rows: Classes, stream: Stream) -> IntArray:
        """Return how often each row is drawn; the counts of a class sum to its size."""
        spans = zip(rows.begins.tolist(), rows.sizes.tolist(), strict=True)
        drawn = np.concatenate([begin + stream.below(size, size) for begin, size in spans])
        counts = np.empty(drawn.size, dtype=np.int64)
        counts[rows.order] = np.bincount(drawn, minlength=drawn.size)
        return self.counts(rows, stream) if counts.all() else counts

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.class_counts().max() == 1:
            raise SplitError(
                f"y has {rows.n:,} classes in {rows.n:,} rows, so a draw by class takes every row; "
                "use Bootstrap, or classes of two rows and more."
            )

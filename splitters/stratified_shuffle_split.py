"""Random draws in which classes, or a numeric target's distribution, keep their shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._base import Pair
from ._errors import SplitError
from ._evenly import shuffled_in_blocks, take_evenly
from ._order import stable_order
from ._random import IntArray, Stream
from ._rows import Needs, Rows
from .shuffle_split import ShuffleSplit


@dataclass(frozen=True)
class Ordered:
    """Rows that a draw puts in order: by number, or class by class."""

    n: int
    by_number: IntArray | None
    classes: IntArray | None
    n_classes: int

    def in_order(self, length: int, stream: Stream) -> IntArray:
        """Return the rows class by class, each in random order; or by number, each ``length`` neighbours shuffled."""
        if self.by_number is not None:
            return self.by_number[shuffled_in_blocks(self.by_number.size, length, stream)]
        assert self.classes is not None
        return stream.shuffled_by(self.classes, self.n_classes)


class StratifiedShuffleSplit(ShuffleSplit):
    """Draws of a test and a train set, stratified by classes or by numbers (fractional ones; whole ones are classes).

    Rows are put in order, class by class in random order, or by number with short runs of neighbours shuffled; then
    every (n / test rows)-th is tested, from a random start.

    Promises: no row is in both sides of a pair; sizes are exact; every row is equally likely to be tested; a test set
    holds each class's share of rows, rounded up or down (for numbers: the count below any threshold is within
    3 rows of its share); draw i does not depend on ``n_splits``. A class of one row is on one side only.

    O(n log n) a draw. Source: Madow and Madow (1944), On the theory of systematic sampling.
    """

    needs = Needs(y="any")
    promises = ShuffleSplit.promises | {"draws_class_shares"}

    def prepare(self, rows: Rows) -> Ordered:
        """Return the order by number, or the classes."""
        assert rows.y is not None
        if rows.y.dtype.kind == "f":
            return Ordered(rows.n, stable_order(rows.y), None, 0)
        return Ordered(rows.n, None, rows.y, len(rows.levels))

    def draw(self, rows: Ordered, stream: Stream) -> Pair:
        """Return one (train, test), positions ascending."""
        n_train, n_test = self.sizes(rows.n)
        order = rows.in_order(-(-rows.n // n_test), stream)
        tested = np.zeros(rows.n, dtype=np.bool_)
        tested[take_evenly(rows.n, n_test, stream)] = True
        test, rest = order[tested], order[~tested]
        train = rest if n_train == rest.size else rest[take_evenly(rest.size, n_train, stream)]
        return np.sort(train), np.sort(test)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.y is None or rows.y.ndim != 1:
            raise SplitError(
                f"{type(self).__name__} needs y, one column of classes or numbers; for no y use ShuffleSplit."
            )

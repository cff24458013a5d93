"""Random draws in which classes, or a numeric target's distribution, keep their shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._base import Pair, label_type
from ._errors import SplitError
from ._evenly import shuffled_in_blocks, take_evenly
from ._order import stable_order
from ._random import IntArray, Stream
from ._rows import Needs, Rows
from .shuffle_split import ShuffleSplit


@dataclass(frozen=True)
class Ordered:
    """Rows that a draw puts in order: by number, or class by class."""

    y: Any
    by_number: IntArray | None


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
        """Return the order by number, or the classes in few bytes."""
        assert rows.y is not None
        if rows.y.dtype.kind == "f":
            return Ordered(rows.y, stable_order(rows.y))
        return Ordered(rows.y.astype(label_type(len(rows.levels))), None)

    def draw(self, rows: Ordered, stream: Stream) -> Pair:
        """Return one (train, test), positions ascending."""
        n = rows.y.size
        n_train, n_test = self.sizes(n)
        order = _in_order(rows, n, -(-n // n_test), stream)
        tested = np.zeros(n, dtype=np.bool_)
        tested[take_evenly(n, n_test, stream)] = True
        test, rest = order[tested], order[~tested]
        train = rest if n_train == rest.size else rest[take_evenly(rest.size, n_train, stream)]
        return np.sort(train), np.sort(test)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.y is None or rows.y.ndim != 1:
            raise SplitError(
                f"{type(self).__name__} needs y, one column of classes or numbers; for no y use ShuffleSplit."
            )


def _in_order(rows: Ordered, n: int, interval: int, stream: Stream) -> IntArray:
    if rows.by_number is not None:
        return rows.by_number[shuffled_in_blocks(n, interval, stream)]
    shuffled = stream.permutation(n)
    return shuffled[stable_order(rows.y[shuffled])]

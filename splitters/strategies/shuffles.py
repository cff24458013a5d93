"""Random draws of a train and a test set."""

from __future__ import annotations

from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, Pair
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.random import Stream
from evenfold.splitters.kernels.sampling import Size, groups_until, shuffled_in_blocks, sizes_of, take_evenly
from evenfold.splitters.rows import Needs, Rows


class ShuffleSplit(DrawSplitter):
    """Draws of ``test_size`` rows to test and ``train_size`` to train, each anew; shares or numbers of rows.

    Promises: no row is in both sides of a pair; sizes are exact; draw i does not depend on ``n_splits``. Test sets of
    different draws overlap: they are independent. What is not given of the sizes is what the other leaves, and a
    tenth to test where neither is given.

    O(n) a draw.
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
        test, train = stream.sides(rows.n, n_test, n_train)
        return train, test

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        self.sizes(rows.n)


class StratifiedShuffleSplit(ShuffleSplit):
    """Draws of a test and a train set, stratified by classes or by numbers (floats, or integers of over 20 values).

    Rows are put in order, class by class in random order, or by number with short runs of neighbours shuffled; then
    every (n / test rows)-th is tested, from a random start.

    Promises: no row is in both sides of a pair; sizes are exact; every row is equally likely to be tested; a test set
    holds each class's share of rows, rounded up or down (for numbers: the count below any threshold is within
    3 rows of its share); draw i does not depend on ``n_splits``. A class of one row is on one side only.

    O(n log n) a draw. Source: Madow and Madow (1944), On the theory of systematic sampling.
    """

    needs = Needs(y="any")
    promises = ShuffleSplit.promises | {"draws_class_shares"}
    version = 2

    def draw(self, rows: Rows, stream: Stream) -> Pair:
        """Return one (train, test), positions ascending."""
        n_train, n_test = self.sizes(rows.n)
        if rows.y_holds == "numbers":
            # Shuffled among as many neighbours as one tested row stands for, so any of them can be it.
            order = rows.ranked[shuffled_in_blocks(rows.n, -(-rows.n // n_test), stream)]
        else:
            order = stream.shuffled_by(rows.y, len(rows.levels))
        tested = np.zeros(rows.n, dtype=np.bool_)
        tested[take_evenly(rows.n, n_test, stream)] = True
        test, rest = order[tested], order[~tested]
        train = rest if n_train == rest.size else rest[take_evenly(rest.size, n_train, stream)]
        return np.sort(train), np.sort(test)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.y_holds not in ("classes", "numbers"):
            other = "of several use BalancedKFold" if rows.y_holds == "columns" else "for no y use ShuffleSplit"
            raise SplitError(f"{type(self).__name__} needs y, one column of classes or numbers; {other}.")


class GroupShuffleSplit(ShuffleSplit):
    """Draws of whole groups; ``test_size`` and ``train_size`` are shares or numbers of *rows*, not of groups.

    Groups are put in random order and taken to the test side while they bring its rows closer to the wanted number,
    then to the train side likewise (all that are left, where no ``train_size`` is given). A group of more than twice
    the wanted rows is passed over while others can be taken.

    Promises: no group is on both sides; each side has a group; draw i does not depend on ``n_splits``. How close the
    sizes come depends on the groups: half a group, more or less. Where no size is given, a fifth is tested.

    O(n) a draw, and O(groups log groups).
    """

    needs = Needs(y="ignored", groups=True)
    promises = (ShuffleSplit.promises - {"exact_sizes"}) | {"groups_whole"}
    version = 2

    def sizes(self, n: int) -> tuple[int, int]:
        """Return the wanted (train rows, test rows) of ``n`` rows."""
        return sizes_of(n, self.test_size, self.train_size, default=0.2)

    def draw(self, rows: Rows, stream: Stream) -> Pair:
        """Return one (train, test), positions ascending."""
        n_train, n_test = self.sizes(rows.n)
        sizes = rows.group_sizes
        order = stream.permutation(sizes.size)
        taken = groups_until(sizes[order], n_test, order.size - 1)
        left = np.delete(order, taken)
        if n_train + n_test < rows.n:
            left = left[groups_until(sizes[left], n_train, left.size)]
        side = np.zeros(order.size, dtype=np.int8)
        side[order[taken]], side[left] = 1, -1
        return np.flatnonzero(side[rows.groups] == -1), np.flatnonzero(side[rows.groups] == 1)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        rows.require_two_groups("ShuffleSplit")

"""Random draws of whole groups, by their share of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._base import Pair
from ._errors import SplitError
from ._groups import groups_until
from ._random import IntArray, Stream
from ._rows import Needs, Rows
from ._sizes import sizes_of
from .shuffle_split import ShuffleSplit


@dataclass(frozen=True)
class Grouped:
    """The group of each row and the rows of each group."""

    groups: IntArray
    sizes: IntArray


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

    def sizes(self, n: int) -> tuple[int, int]:
        """Return the wanted (train rows, test rows) of ``n`` rows."""
        return sizes_of(n, self.test_size, self.train_size, default=0.2)

    def prepare(self, rows: Rows) -> Grouped:
        """Return the groups and their sizes."""
        assert rows.groups is not None
        return Grouped(rows.groups, np.bincount(rows.groups))

    def draw(self, rows: Grouped, stream: Stream) -> Pair:
        """Return one (train, test), positions ascending."""
        n_train, n_test = self.sizes(rows.groups.size)
        order = stream.permutation(rows.sizes.size)
        taken = groups_until(rows.sizes[order], n_test, order.size - 1)
        left = np.delete(order, taken)
        if n_train + n_test < rows.groups.size:
            left = left[groups_until(rows.sizes[left], n_train, left.size)]
        side = np.zeros(order.size, dtype=np.int8)
        side[order[taken]], side[left] = 1, -1
        return np.flatnonzero(side[rows.groups] == -1), np.flatnonzero(side[rows.groups] == 1)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        check_two_groups(rows, "ShuffleSplit")


def check_two_groups(rows: Rows, ungrouped: str) -> None:
    """Raise SplitError where all rows are one group."""
    if rows.n_groups < 2:
        raise SplitError(f"all {rows.n:,} rows are one group; use {ungrouped}, or a finer group column.")

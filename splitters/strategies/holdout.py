"""A locked test part first, any strategy on the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, Splitter, follows, strategy_of
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import HOLDOUT, IntArray, Stream, rows_of_share, shuffled_in_blocks, take_evenly
from evenfold.splitters.numbers import stable_order
from evenfold.splitters.packing.cost import Aim, table_to_pack
from evenfold.splitters.packing.pack import pack_to
from evenfold.splitters.rows import Rows

from .forward_chaining import nearest_begins

LOCKING_VERSION = 3  # raised whenever other rows would be locked


def locked_rows(rows: Rows, fraction: float, stream: Stream) -> IntArray:
    """Return the positions, ascending, of ``fraction`` of the rows (``rows_of_share``), even as its folds.

    Where time is seen, the latest rows, from the time on that begins nearest to the share. Else groups stay whole and
    are packed, or classes, or the order of numbers, have their share to within one row. O(n log n).
    """
    n_locked = rows_of_share(fraction, rows.n)
    if rows.time is not None:
        begin = nearest_begins(rows.times, np.array([rows.n - n_locked]))[0]
        return np.flatnonzero(rows.time >= rows.times[begin])
    if rows.groups is not None:
        sizes, table, weights = table_to_pack(rows)
        aim = Aim(table, np.array([1.0 - fraction, fraction]), sizes=sizes, weights=weights)
        return np.flatnonzero((pack_to(aim, stream) == 1)[rows.groups])
    # In such an order any regular pick among neighbours is a fair share of every class or range.
    if rows.y_holds == "numbers":  # among as many neighbours as one locked row stands for, any can be that row
        order = stable_order(rows.y)[shuffled_in_blocks(rows.n, max(2, round(1 / fraction)), stream)]
    else:
        order = stream.permutation(rows.n)
    if rows.y_holds in ("classes", "columns"):
        one = rows.y_holds == "classes"
        codes = rows.y if one else np.unique(rows.y, axis=0, return_inverse=True)[1].reshape(-1)
        order = order[stable_order(codes[order])]
    return np.sort(order[take_evenly(rows.n, n_locked, stream)])


def set_apart(strategy: Splitter, rows: Rows, train: IntArray, fraction: float, stream: Stream) -> Pair:
    """Return what is left of ``train`` to learn from, and ``fraction`` of its rows, drawn as ``locked_rows`` draws.

    Copies of a row in a draw are on one side.
    """
    among = np.unique(train)
    check_fraction(fraction, of := rows.take(among))
    apart = among[locked_rows(of, fraction, stream)]
    left = strategy.trainable(rows, np.setdiff1d(among, apart), apart)
    return train[np.isin(train, left)], apart


def rest_of(strategy: Splitter, rows: Rows, locked: IntArray) -> IntArray:
    """Return the positions, ascending, of the rows that are left for ``strategy`` beside the locked ones.

    That is all others, but for those that time or groups forbid to be learnt from where the locked rows are tested.
    Raises SplitError where the strategy was made for positions among all rows.
    """
    if strategy.by_position:
        raise SplitError(
            f"{type(strategy).__name__} names rows by their position among all {rows.n:,}, and a holdout locks "
            f"{locked.size:,} of them; leave the holdout out, and keep what is locked out of the given pairs or folds "
            "(label -2 of Predefined)."
        )
    return np.sort(strategy.trainable(rows, np.setdiff1d(np.arange(rows.n), locked), locked))


def check_fraction(fraction: object, rows: Rows) -> None:
    """Raise SplitError unless ``fraction`` is between 0 and 1 and leaves a row, and a group, on each side."""
    if not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise SplitError(f"the holdout's fraction={fraction!r}; choose a number above 0 and below 1, such as 0.2.")
    units, what = (rows.n_groups, "groups") if rows.groups is not None else (rows.n, "rows")
    if rows.time is not None:
        units, what = np.unique(rows.time).size, "times"
    if rows_of_share(fraction, rows.n) == rows.n or units < 3:
        raise SplitError(
            f"a holdout of {fraction:g} of {units:,} {what} leaves too few on one side; pass more {what}, "
            "or choose another fraction."
        )


@follows("needs", "portable", "version", "prepared", version=LOCKING_VERSION)
class Holdout(Splitter):
    """Any strategy on the rows that are left when a test part is locked away.

    The Python form of a specification's ``holdout``. ``strategy`` is an instance or a mapping, as for ``Repeated``.
    The locked part is drawn first, from a stream of its own, by what the strategy needs: groups whole, classes or the
    order of numbers in their share; of strategies of time it is the latest rows. ``locked(X, y, groups)`` returns its
    positions, ``rest`` those of the rows that the strategy splits: all others, but for rows too near in time to the
    locked ones and of their groups where the strategy leaves such rows out of training.

    Promises: no row is in both sides of a pair; no locked row is in any pair; the locked rows depend on
    ``random_state`` and the fraction, not on the strategy's own parameters. O(n log n) more than the strategy.
    """

    kind = "pairs"
    promises = frozenset({"disjoint", "locked_apart", "rest_as_alone"})

    def __init__(self, strategy: Splitter | Mapping[str, Any], fraction: float = 0.2, *, random_state: int = 0) -> None:
        self.strategy = strategy
        self.fraction = fraction
        self.random_state = random_state

    def inner(self) -> Splitter:
        """Return the strategy that splits the rest."""
        return strategy_of(self.strategy, self.random_state)

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the strategy's pairs of the rows that are not locked."""
        rest = rest_of(self.inner(), rows, self.locked_of(rows))
        return ((rest[train], rest[test]) for train, test in self.inner().pairs(rows.take(rest)))

    def locked(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> IntArray:
        """Return the positions of the locked rows, ascending."""
        return self.locked_of(self.rows(X, y, groups, **roles))

    def rest(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> IntArray:
        """Return the positions of the rows that the strategy splits, ascending."""
        rows = self.rows(X, y, groups, **roles)
        return rest_of(self.inner(), rows, self.locked_of(rows))

    def locked_of(self, rows: Rows) -> IntArray:
        """Return the positions of the locked rows among checked rows, ascending."""
        return locked_rows(rows, self.fraction, Stream(int(self.random_state), HOLDOUT))

    def _n_pairs(self, rows: Rows | None = None) -> int:
        if rows is not None:
            return self.inner()._n_pairs(rows.take(rest_of(self.inner(), rows, self.locked_of(rows))))
        with suppress(Exception):  # whatever the strategy raises without rows, it has to see them
            return self.inner().get_n_splits()
        return 0

    def _check(self, rows: Rows) -> None:
        check_fraction(self.fraction, rows)
        self.inner().check(rows.take(rest_of(self.inner(), rows, self.locked_of(rows))))

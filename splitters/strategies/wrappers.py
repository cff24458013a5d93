"""Strategies around another one: its repeats, a locked test part before it, and entities that are not joined."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np
from evenfold.splitters.base import EXCLUDED, LOCKED, LabelSplitter, Pair, Splitter, follows, refines, strategy_of
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import components_of, rows_of_share, shuffled_in_blocks, take_evenly
from evenfold.splitters.numbers import CROSSING, HOLDOUT, REPEATS, IntArray, Stream, check_count, encode, stable_order
from evenfold.splitters.packing.cost import aim_of, table_to_pack
from evenfold.splitters.packing.crossing import Crossing, bins_of_levels
from evenfold.splitters.packing.pack import pack_to
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray
from sklearn.base import clone

from .grouped import GroupPacker
from .time import begins_of, nearest_begins

TRIES = 20


@follows("needs", "portable", "grows", "shares_out", "by_group_table", "version", "parts", "part_codes")
class Repeated(LabelSplitter):
    """Repeats of a strategy: k-fold, grouped k-fold, parts, or a strategy of your own.

    ``strategy`` is an instance, or ``{"strategy": "KFold", "params": {"n_splits": 5}}`` as JSON holds it; a named
    one takes this ``random_state`` unless its parameters have their own. Repeat 0 is the strategy itself; every
    further repeat gets a seed spawned from ``random_state``. ``assign`` returns a column per repeat (rows by
    repeats); ``split`` yields all pairs of repeat 0, then those of repeat 1, and so on.

    Promises: what the strategy promises, in every repeat, so that k-fold tests each row exactly ``n_repeats`` times;
    and no two repeats are the same partition under other labels: one that is like an earlier one is tried again with
    another seed, and where the rows allow too few, that is a SplitError.

    The strategy's cost times ``n_repeats``, and O(n) a repeat to compare partitions.
    """

    def __init__(
        self, strategy: LabelSplitter | Mapping[str, Any], n_repeats: int = 10, *, random_state: int = 0
    ) -> None:
        self.strategy, self.n_repeats, self.random_state = strategy, n_repeats, random_state

    def inner(self) -> LabelSplitter:
        """Return the strategy itself; raises SplitError where it is not known or cannot be repeated."""
        strategy = strategy_of(self.strategy, self.random_state)
        seeded = isinstance(strategy, LabelSplitter) and "random_state" in strategy.get_params(deep=False)
        if not seeded or LOCKED in strategy.part_codes().values():
            raise SplitError(
                f"{strategy!r} has nothing to repeat: it gives rows no labels, has no random_state to change, or keeps "
                "a test part for the end; repeat a k-fold strategy such as KFold(5), or train and validation only."
            )
        return cast("LabelSplitter", strategy)

    @refines(LabelSplitter.promises | {"repeats_differ"})
    def promises(self) -> frozenset[str]:
        return self.inner().promises | {"repeats_differ"}

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row in each repeat (rows by repeats)."""
        strategy = self.inner()
        first = strategy.assign(rows)
        repeats, other = {_partition(first): first}, clone(strategy)
        other.takes_best = False
        for repeat in range(1, self.n_repeats):
            for attempt in range(TRIES):
                seed = int(Stream(self.random_state, REPEATS, repeat, attempt).raw(1)[0])
                labels = other.set_params(random_state=seed).assign(rows)
                repeats.setdefault(_partition(labels), labels)
                if len(repeats) > repeat:
                    break
            else:
                raise SplitError(
                    f"n_repeats={self.n_repeats}, and {TRIES} tries at repeat {repeat} all came out like an earlier "
                    f"one: these {rows.n:,} rows allow {strategy!r} too few different partitions; choose n_repeats of "
                    f"1 to {repeat}."
                )
        return np.stack([*repeats.values()]).T

    def _n_pairs(self, rows: Rows | None = None) -> int:
        return self.n_repeats * self.inner()._n_pairs(rows)

    def _check(self, rows: Rows) -> None:
        check_count("n_repeats", self.n_repeats, least=1)
        self.inner().check(rows)


def _partition(labels: NDArray[Any]) -> bytes:
    """Return a digest of the partition that ``labels`` make, whatever its folds are called."""
    # Codes by first appearance are alike for two labellings exactly where their partitions are.
    return hashlib.sha256(encode(labels, "fold")[0].tobytes()).digest()


LOCKING_VERSION = 3  # raised whenever other rows would be locked


def locked_rows(rows: Rows, fraction: float, stream: Stream) -> IntArray:
    """Return the positions, ascending, of ``fraction`` of the rows (``rows_of_share``), even as its folds.

    Where time is seen, the latest rows, from the time on that begins nearest to the share. Else groups stay whole and
    are packed, or classes, or the order of numbers, have their share to within one row. SplitError unless the fraction
    is between 0 and 1 and leaves a row, and a group or a time, on each side. O(n log n).
    """
    if not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise SplitError(f"the holdout's fraction={fraction!r}; choose a number above 0 and below 1, such as 0.2.")
    n_locked = rows_of_share(fraction, rows.n)
    units, what = (rows.n_groups, "groups") if rows.groups is not None else (rows.n, "rows")
    if rows.time is not None:
        units, what = begins_of(rows.times).size, "times"
    if n_locked == rows.n or units < 3:
        cure = f"pass more {what}, or choose another fraction"
        raise SplitError(f"a holdout of {fraction:g} of {units:,} {what} leaves too few on one side; {cure}.")
    if rows.time is not None:
        begin = nearest_begins(rows.times, np.array([rows.n - n_locked]))[0]
        return np.flatnonzero(rows.time >= rows.times[begin])
    if rows.groups is not None:
        aim = aim_of(rows, np.array([1.0 - fraction, fraction]))
        return np.flatnonzero((pack_to(aim, stream) == 1)[rows.groups])
    # In such an order any regular pick among neighbours is a fair share of every class or range.
    if rows.y_holds == "numbers":  # among as many neighbours as one locked row stands for, any can be that row
        order = rows.ranked[shuffled_in_blocks(rows.n, max(2, round(1 / fraction)), stream)]
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
    apart = among[locked_rows(rows.take(among), fraction, stream)]
    return train[np.isin(train, strategy.trainable(rows, np.setdiff1d(among, apart), apart))], apart


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


@follows("needs", "portable", "version", "prepared", version=LOCKING_VERSION)
class Holdout(Splitter):
    """Any strategy on the rows that are left when a test part is locked away.

    The Python form of a specification's ``holdout``. ``strategy`` is an instance or a mapping, as for ``Repeated``.
    The locked part is drawn first, from a stream of its own, by what the strategy needs: groups whole, classes or the
    order of numbers in their share; of strategies of time it is the latest rows. ``locked(X, y, groups)`` returns its
    positions, ``rest`` those of the rows that the strategy splits: all others, but for rows too near in time to the
    locked ones and of their groups where the strategy leaves such rows out of training.

    Promises: no locked row is in any pair; the locked rows depend on ``random_state`` and the fraction, not on the
    strategy's own parameters. O(n log n) more than the strategy.
    """

    kind = "pairs"
    promises = frozenset({"disjoint", "locked_apart", "rest_as_alone"})

    def __init__(self, strategy: Splitter | Mapping[str, Any], fraction: float = 0.2, *, random_state: int = 0) -> None:
        self.strategy, self.fraction, self.random_state = strategy, fraction, random_state

    def inner(self) -> Splitter:
        return strategy_of(self.strategy, self.random_state)

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        rest = self.rest(rows)
        return ((rest[train], rest[test]) for train, test in self.inner().pairs(rows.take(rest)))

    def locked(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> IntArray:
        """Return the positions of the locked rows, ascending."""
        stream = Stream(int(self.random_state), HOLDOUT)
        return locked_rows(self.rows(X, y, groups, **roles), self.fraction, stream)

    def rest(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> IntArray:
        """Return the positions of the rows that the strategy splits, ascending."""
        rows = self.rows(X, y, groups, **roles)
        return rest_of(self.inner(), rows, self.locked(rows))

    def _n_pairs(self, rows: Rows | None = None) -> int:
        if rows is not None:
            return self.inner()._n_pairs(rows.take(self.rest(rows)))
        with suppress(Exception):  # whatever the strategy raises without rows, it has to see them
            return self.inner().get_n_splits()
        return 0

    def _check(self, rows: Rows) -> None:
        self.inner().check(rows.take(self.rest(rows)))


@follows("version", "parts", "_n_pairs")
class Crossed(LabelSplitter):
    """A strategy that packs groups, of rows with several entities each, such as a patient and a device.

    The Python form of a specification's ``group_mode: cross``. ``groups`` are several columns; in one nothing crosses.
    Elsewhere such columns are joined: rows that share a patient or a device, and what those share in turn, are one
    group, and where that is nearly all rows no split is left. Here every patient and every device gets a fold, and a
    row whose patient and device have different ones is in none: its label is -3. ``strategy`` is BalancedGroupKFold or
    BalancedGroupSplit, as an instance or a mapping; it shares out what is left, sizes and classes evenly. ``parts``
    are those of the strategy; one of folds has none.

    Promises: no level of any column is on both sides of a split; a row is left out only where its entities are in
    different folds. Few rows are, though not the fewest there could be, which nobody finds fast; where levels meet at
    random many are, up to nearly 1 - 1/k of them with k folds.

    When not to use it: what the columns join is small; then joining keeps every row. The same where one column lies
    within the other, as patients in hospitals.

    O(visits x rows of a level) for a search whose visits are limited, then the pack kernel.
    """

    promises = frozenset({"disjoint", "entities_apart", "leaves_out_crossing_alone"})
    needs = Needs(y="any", groups=True)

    def __init__(self, strategy: LabelSplitter | Mapping[str, Any], *, random_state: int = 0) -> None:
        self.strategy, self.random_state = strategy, random_state

    def inner(self) -> GroupPacker:
        """Return the strategy that shares out what is left; raises SplitError where it packs no groups."""
        strategy = strategy_of(self.strategy, self.random_state)
        if isinstance(strategy, GroupPacker):
            return strategy
        raise SplitError(
            f"{type(strategy).__name__} does not pack groups into folds of given shares, so it cannot cross entities; "
            "choose BalancedGroupKFold or BalancedGroupSplit, or join the entities (group_mode: merge)."
        )

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row, -3 for a row of entities of two folds."""
        return self.codes(rows)

    def codes(self, rows: Rows, locked: float = 0.0, seed: int = 0) -> NDArray[Any]:
        """Return the labels where a share ``locked`` of the rows is kept for the end: -2, drawn first by ``seed``."""
        strategy = self.inner()
        usable = np.arange(rows.n) if rows.entities is None else np.flatnonzero(self._kept(rows, locked))
        left = rows.take(usable)
        groups = components_of(np.stack(left.together(), axis=1))  # what the entities of the rows that are kept join
        left = replace(left, groups=groups, entities=None)
        rest = np.arange(usable.size)
        if locked:
            rest = np.setdiff1d(rest, locked_rows(left, locked, Stream(seed, HOLDOUT)))
        strategy.check(left.take(rest))
        decided = strategy.assign(left.take(rest))
        codes = np.full(rows.n, EXCLUDED, dtype=decided.dtype)
        codes[usable] = LOCKED
        codes[usable[rest]] = decided
        of_rows = []  # the fold of each row's entities, column by column: a row left out whose own agree fits there
        for column in rows.together():
            of_level = np.full(int(column.max()) + 1, EXCLUDED, dtype=codes.dtype)
            # All kept rows of a level were joined and have one code; -3 is below every code, so the maximum is that.
            np.maximum.at(of_level, column, codes)
            of_rows.append(of_level[column])
        return np.where(np.logical_and.reduce([row == of_rows[0] for row in of_rows]), of_rows[0], codes)

    def _kept(self, rows: Rows, locked: float) -> NDArray[np.bool_]:
        """Return which rows have entities of one bin, of bins for all levels."""
        assert rows.entities is not None
        sizes = rows.entities.codes.max(axis=0) + 1
        levels = rows.entities.codes + np.concatenate([[0], np.cumsum(sizes)[:-1]])
        # The search sees rows that have the same levels once, with their count.
        alike, number = np.unique(levels, axis=0, return_inverse=True)
        number = number.reshape(-1)
        count, table, weights = table_to_pack(replace(rows, groups=number))
        shares = self.inner().bin_shares() * (1.0 - locked)
        shares = np.append(shares, locked) if locked else shares
        crossing = Crossing(alike, np.vstack([count, table.T]), shares, np.sqrt(weights))
        bins = bins_of_levels(crossing, Stream(int(self.random_state), CROSSING))
        return np.asarray(crossing.bin_of_rows(bins) >= 0)[number]

    def _check(self, rows: Rows) -> None:
        self.inner()

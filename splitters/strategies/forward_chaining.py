"""Forward chaining: train on the past, test on what came next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, PairSplitter, check_count
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.order import stable_order
from evenfold.splitters.kernels.random import IntArray
from evenfold.splitters.rows import Needs, Rows
from evenfold.splitters.times import gap_of


@dataclass(frozen=True)
class Window:
    """One split as ranks in time order: train on [train_start, train_end), test on [test_start, test_end)."""

    train_start: int
    train_end: int
    test_start: int
    test_end: int


class ForwardChaining(PairSplitter):
    """Splits that move forward in time: split i tests the i-th of ``n_splits`` last stretches and trains before it.

    A stretch holds about ``test_size`` rows (by default n // (n_splits + 1)). Rows of the same time are never parted:
    a stretch begins where a time begins, at the one nearest to the wanted row. ``gap`` is a length of time that is
    left out between train and test: a number for times that are numbers, text such as "7 days" or "36 hours" for
    timestamps. ``max_train_size`` keeps the latest rows only, for a window that slides.

    Groups may be given. Then a group with rows in the test stretch is dropped from that split's train side: its earlier
    rows are in neither side, and ``dropped`` counts them.

    Promises: no row is in both sides of a pair; every train time + gap is before every test time; test stretches
    follow one another and end with the last row; groups, where given, are on one side. Nothing is random.

    O(n log n), one sort, then O(n) a pair.
    """

    needs = Needs(y="ignored", groups="optional", time=True)
    promises = PairSplitter.promises | {"past_before_future", "groups_whole", "tested_once_at_most", "to_the_end"}
    in_memory_because = ""

    def __init__(
        self,
        n_splits: int = 5,
        *,
        gap: float | str | timedelta = 0,
        max_train_size: int | None = None,
        test_size: int | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.gap = gap
        self.max_train_size = max_train_size
        self.test_size = test_size

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each stretch's (rows before it, rows in it), positions ascending."""
        assert rows.time is not None
        order = stable_order(rows.time)
        for window in self.windows(rows):
            test = order[window.test_start : window.test_end]
            train = _without_groups_of(test, order[window.train_start : window.train_end], rows.groups)
            yield np.sort(train), np.sort(test)

    def windows(self, rows: Rows) -> list[Window]:
        """Return the splits as ranks in time order (equal times by position), before groups are dropped."""
        assert rows.time is not None
        ranked = rows.time[stable_order(rows.time)]
        starts = self._starts(ranked)
        ends = np.searchsorted(ranked + gap_of(self.gap, ranked), ranked[starts], side="left")
        first = np.maximum(ends - (self.max_train_size or rows.n), 0)
        stops = np.append(starts[1:], rows.n)
        return [Window(*map(int, window)) for window in zip(first, ends, starts, stops, strict=True)]

    def dropped(self, rows: Rows) -> list[int]:
        """Return for each split how many rows of the past are left out because their group is tested."""
        sizes = [window.train_end - window.train_start for window in self.windows(rows)]
        return [size - train.size for size, (train, _) in zip(sizes, self.pairs(rows), strict=True)]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of stretches."""
        return int(self.n_splits)

    def _starts(self, ranked: Any) -> IntArray:
        """Return the rank at which each stretch begins: the beginning of a time, nearest to where it was wanted."""
        begins = _begins(ranked)
        turn = np.arange(self.n_splits)
        wanted = ranked.size - (self.n_splits - turn) * self._test_size(ranked.size)
        after = np.clip(np.searchsorted(begins, wanted), 1, begins.size - 1)
        nearest = after - (wanted - begins[after - 1] < begins[after] - wanted)
        # Strictly ascending, after the first time, and room for the stretches that follow.
        nearest = np.maximum.accumulate(np.maximum(nearest, 1) - turn) + turn
        starts: IntArray = begins[np.minimum(nearest, begins.size - self.n_splits + turn)]
        return starts

    def _test_size(self, n: int) -> int:
        return self.test_size or max(1, n // (self.n_splits + 1))

    def _check(self, rows: Rows) -> None:
        assert rows.time is not None
        check_count("n_splits", self.n_splits, least=1)
        for name in ("max_train_size", "test_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)
        gap_of(self.gap, rows.time)
        self._check_times(rows)
        sizes = [window.train_end - window.train_start for window in self.windows(rows)]
        left = sizes if rows.groups is None else [train.size for train, _ in self.pairs(rows)]
        if 0 in left:
            empty = left.index(0)
            raise SplitError(
                f"split {empty} has nothing to train on: {sizes[empty]:,} rows lie before its gap of {self.gap}"
                f"{' and all are of tested groups' if sizes[empty] else ''}; "
                "choose a smaller gap, fewer n_splits or a smaller test_size."
            )

    def _check_times(self, rows: Rows) -> None:
        assert rows.time is not None
        times = _begins(np.sort(rows.time)).size
        if times <= self.n_splits:
            raise SplitError(
                f"n_splits={self.n_splits} with {times:,} different times; "
                + (f"choose 1 to {times - 1}." if times > 1 else "pass rows of at least 2 times.")
            )
        if self.n_splits * self._test_size(rows.n) >= rows.n:
            raise SplitError(
                f"n_splits={self.n_splits} stretches of test_size={self.test_size} are all of the {rows.n:,} rows; "
                f"choose a test_size of 1 to {(rows.n - 1) // self.n_splits}."
            )


def _begins(ranked: Any) -> IntArray:
    """Return the ranks at which a new time begins."""
    return np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))


def _without_groups_of(test: IntArray, train: IntArray, groups: IntArray | None) -> IntArray:
    if groups is None:
        return train
    tested = np.zeros(int(groups.max()) + 1, dtype=np.bool_)
    tested[groups[test]] = True
    return train[~tested[groups[train]]]

"""Forward chaining: train on the past, test on what came next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, PairSplitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.order import stable_order
from evenfold.splitters.kernels.random import IntArray
from evenfold.splitters.numbers import check_count
from evenfold.splitters.rows import Needs, Rows
from evenfold.splitters.times import Calendar, calendar_units, gap_of, later
from numpy.typing import NDArray


class ForwardChaining(PairSplitter):
    """Splits that move forward in time: split i tests the i-th of ``n_splits`` last stretches and trains before it.

    A stretch holds about ``test_size`` rows (by default n // (n_splits + 1)). Rows of the same time are never parted:
    a stretch begins where a time begins, at the one nearest to the wanted row. With ``every`` (day, week, month,
    quarter or year, in UTC) the stretches are the last ``n_splits`` of them that have rows. ``gap`` is a length of time
    that is left out between train and test: a number for times that are numbers, text such as "7 days" or "36 hours"
    for timestamps. ``max_train_size`` keeps the latest rows only, for a window that slides.

    Groups may be given. Then a group with rows in the test stretch is dropped from that split's train side: its earlier
    rows are in neither side, and ``dropped`` counts them. ``label_end`` may be given, when the target of each row is
    known: rows whose target was not known, the gap before the test stretch began, are not trained on (they are purged).

    Promises: no row is in both sides of a pair; every train time + gap, and where given every label_end + gap, is
    before every test time; test stretches follow one another and end with the last row; groups, where given, are on one
    side. Nothing is random.

    O(n log n), one sort, then O(n) a pair.
    """

    needs = Needs(y="ignored", groups="optional", time=True, label_end="optional")
    promises = PairSplitter.promises | {
        *("past_before_future", "labels_known", "groups_whole", "tested_once_at_most", "to_the_end")
    }
    version = 2

    def __init__(
        self,
        n_splits: int = 5,
        *,
        gap: float | str | timedelta = 0,
        max_train_size: int | None = None,
        test_size: int | None = None,
        every: Calendar | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.gap = gap
        self.max_train_size = max_train_size
        self.test_size = test_size
        self.every = every

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each stretch's (rows before it, rows in it), positions ascending."""
        for before, test in self._stretches(rows):
            yield np.sort(without_groups_of(test, before, rows)), np.sort(test)

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` that lie, and were known, before every time in ``test``, and share no group."""
        return without_groups_of(test, self._before(rows, train, test), rows)

    def dropped(self, rows: Rows) -> list[int]:
        """Return for each split how many rows of the past are left out because their group is tested."""
        return [before.size - without_groups_of(test, before, rows).size for before, test in self._stretches(rows)]

    def _stretches(self, rows: Rows) -> Iterator[Pair]:
        """Yield (rows before it, rows in it) of each stretch, in time order; groups are not looked at."""
        order = stable_order(rows.time)
        ranked = rows.time[order]
        if self.every is not None:
            starts = begins_of(calendar_units(ranked, self.every))[-self.n_splits :]
        else:
            starts = nearest_begins(ranked, rows.n - np.arange(self.n_splits, 0, -1) * self._test_size(rows.n))
        for start, stop in pairwise([*starts.tolist(), rows.n]):
            test = order[start:stop]
            before = self._before(rows, order[:start], test)
            # `before` is still in order of time, so its end is the latest rows.
            yield before[-(self.max_train_size or rows.n) :], test

    def _before(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        in_time: NDArray[np.bool_] = later(rows.known[train], gap_of(self.gap, rows.time)) < rows.time[test].min()
        return train[in_time]

    def _test_size(self, n: int) -> int:
        return self.test_size or max(1, n // (self.n_splits + 1))

    def _check(self, rows: Rows) -> None:
        check_count("n_splits", self.n_splits, least=1)
        for name in ("max_train_size", "test_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)
        gap_of(self.gap, rows.time)
        if self.every is not None and self.test_size is not None:
            raise SplitError(f"every={self.every!r} and test_size={self.test_size} both say what is tested; give one.")
        times, unit = np.sort(rows.time), "time" if self.every is None else self.every
        n_periods = begins_of(times if self.every is None else calendar_units(times, self.every)).size
        if n_periods <= self.n_splits:
            raise SplitError(
                f"n_splits={self.n_splits} with {n_periods:,} different {unit}s; "
                + (f"choose 1 to {n_periods - 1}." if n_periods > 1 else f"pass rows of at least 2 {unit}s.")
            )
        if self.every is None and self.n_splits * self._test_size(rows.n) >= rows.n:
            raise SplitError(
                f"n_splits={self.n_splits} stretches of test_size={self.test_size} are all of the {rows.n:,} rows; "
                f"choose a test_size of 1 to {(rows.n - 1) // self.n_splits}."
            )
        for split, (before, test) in enumerate(self._stretches(rows)):
            if not without_groups_of(test, before, rows).size:
                advice = "choose a smaller gap, fewer n_splits or a smaller test_size."
                if before.size:
                    advice = "name the time alone where groups, as those of a panel, are there all along."
                raise SplitError(
                    f"split {split} has nothing to train on: {before.size:,} rows lie before its gap of {self.gap}"
                    f"{'' if rows.label_end is None else ' with a label that was known'}"
                    f"{' and all are of tested groups' if before.size else ''}; {advice}"
                )


def begins_of(ranked: NDArray[Any]) -> IntArray:
    """Return the ranks at which a new value begins among values in order."""
    return np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))


def nearest_begins(ranked: NDArray[Any], wanted: IntArray) -> IntArray:
    """Return for each wanted rank, ascending, the rank at which a time begins that is nearest to it.

    Strictly ascending, after the first time. There must be more times than wanted ranks.
    """
    begins, turn = begins_of(ranked), np.arange(wanted.size)
    after = np.clip(np.searchsorted(begins, wanted), 1, begins.size - 1)
    nearest = after - (wanted - begins[after - 1] < begins[after] - wanted)
    # After the first time, and room for the stretches that follow.
    # Less its own turn, a strictly ascending sequence is one that never falls.
    nearest = np.maximum.accumulate(np.maximum(nearest, 1) - turn) + turn
    starts: IntArray = begins[np.minimum(nearest, begins.size - wanted.size + turn)]
    return starts


def without_groups_of(test: IntArray, train: IntArray, rows: Rows) -> IntArray:
    """Return those of ``train`` that share no group with a row of ``test``; of several entities, none of them."""
    for groups in rows.together():
        tested = np.zeros(int(groups.max()) + 1, dtype=np.bool_)
        tested[groups[test]] = True
        train = train[~tested[groups[train]]]
    return train

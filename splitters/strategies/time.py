"""Strategies that look at time: the past before the future, or blocks that the rest is purged for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import combinations, pairwise
from math import comb
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, PairSplitter, refines
from evenfold.splitters.errors import SplitError
from evenfold.splitters.numbers import IntArray, Stream, check_count, label_type
from evenfold.splitters.rows import Needs, Rows
from evenfold.splitters.times import Calendar, calendar_units, gap_of, later, rows_in, unit_and_zone
from numpy.typing import NDArray

from .parts import TRAIN_AND_TEST, PartSplitter, part_sizes

Length = float | str | timedelta


class ForwardChaining(PairSplitter):
    """Splits that move forward in time: split i tests the i-th of ``n_splits`` last stretches and trains before it.

    A stretch holds about ``test_size`` rows (by default n // (n_splits + 1)) and begins where a time begins, at the one
    nearest to the wanted row: rows of the same time are never parted. With ``every`` (day, week, month, quarter or
    year, in UTC or, as ``{"unit": "month", "zone": "Europe/Berlin"}``, by a zone's clocks) the stretches are the last
    ``n_splits`` of them that have rows. ``gap`` is left out between train and test: a number for times that are
    numbers, text such as "7 days" or "36 hours" for timestamps. ``max_train_size`` keeps the latest rows only.

    Groups may be given: a group with rows in the test stretch is dropped from that split's train side, and its earlier
    rows are in neither. ``label_end`` may be given, when the target of each row is known: rows whose target was not
    known, the gap before the test stretch began, are not trained on (they are purged).

    Promises: every train time + gap, and where given every label_end + gap, is before every test time; test stretches
    follow one another and end with the last row; groups, where given, are on one side. Nothing is random.

    O(n log n), one sort, then O(n) a pair.
    """

    needs = Needs(y="ignored", groups="optional", time=True, label_end="optional")
    promises = PairSplitter.promises | {
        *("past_before_future", "labels_known", "groups_whole", "tested_once_at_most", "to_the_end")
    }
    version = 2

    def __init__(
        self, n_splits: int = 5, *, gap: Length = 0, max_train_size: int | None = None, test_size: int | None = None,
        every: Calendar | Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.n_splits, self.gap, self.max_train_size = n_splits, gap, max_train_size
        self.test_size, self.every = test_size, every

    @refines(True)
    def portable(self) -> bool:
        """Not by a zone's clocks, whose rules each machine has from a database of its own."""
        return not isinstance(self.every, Mapping)

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` that lie, and were known, before every time in ``test``, and share no group."""
        in_time = later(rows.known[train], self.gap) < rows.time[test].min()
        return without_groups_of(test, train[in_time], rows.together())

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        starts = self._begins(rows)[-self.n_splits :]
        if self.every is None:
            starts = nearest_begins(rows.times, rows.n - np.arange(self.n_splits, 0, -1) * self._test_size(rows.n))
        # A stretch begins where a time begins: which rows are in it, their times alone say, without an order of rows.
        usable = later(rows.known, self.gap)
        for begin, end in pairwise([*rows.times[starts], None]):
            test = np.flatnonzero(rows.time >= begin if end is None else (rows.time >= begin) & (rows.time < end))
            before = usable < begin
            if self.max_train_size is not None:
                before[rows.by_time[before[rows.by_time]][: -self.max_train_size]] = False
            yield without_groups_of(test, np.flatnonzero(before), rows.together()), test

    def _begins(self, rows: Rows) -> IntArray:
        """Return the ranks at which a time, or a stretch of the calendar, begins."""
        return begins_of(rows.times if self.every is None else calendar_units(rows.times, self.every))

    def _test_size(self, n: int) -> int:
        return max(1, n // (self.n_splits + 1)) if self.test_size is None else self.test_size

    def _check(self, rows: Rows) -> None:
        if self.every is not None and self.test_size is not None:
            raise SplitError(f"every={self.every!r} and test_size={self.test_size} both say what is tested; give one.")
        n, unit = self._begins(rows).size, "time" if self.every is None else unit_and_zone(self.every)[0]
        check_count("n_splits", self.n_splits, least=1, most=n - 1, among=f"{n:,} different {unit}s")
        most, stretches = (rows.n - 1) // self.n_splits, f"{self.n_splits} stretches of {rows.n:,} rows"
        check_count("test_size", self._test_size(rows.n), least=1, most=most, among=stretches)
        if self.max_train_size is not None:
            check_count("max_train_size", self.max_train_size, least=1)
        gap_of(self.gap, rows.time)
        self._require_training(
            rows,
            "choose a smaller gap, fewer n_splits or a smaller test_size, or name the time alone where groups, as "
            "those of a panel, are there all along",
        )


class TimeSplit(PartSplitter):
    """Named parts in the order of time: train, then further parts in the given order, validation, and test.

    A part begins where a time begins, at the one nearest to its share, so rows of one time are in one part.

    Promises: every row is in one part, and every time of a part is before every time of the next. Nothing is random.

    O(n log n), one sort. Source: Tashman (2000), Out-of-sample tests of forecasting accuracy: an analysis and review.

    When not to use it: targets are known later than their rows (the audit counts those that train too early), or there
    are groups to keep whole: ``ForwardChaining(1)`` leaves such rows out.
    """

    needs = Needs(y="ignored", time=True)
    promises = PartSplitter.promises | {"past_before_future"}
    grows = False

    def __init__(self, parts: Mapping[str, float] = TRAIN_AND_TEST) -> None:
        self.parts = parts

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        codes = self.part_codes()
        sizes = dict(zip(codes, part_sizes(self.parts, rows.n).tolist(), strict=True))
        late = {"validation": 1, "test": 2}
        parts = sorted(codes, key=lambda name: -1 if codes[name] == -1 else late.get(name, 0))
        starts = nearest_begins(rows.times, np.cumsum([sizes[name] for name in parts[:-1]]))
        labels = np.empty(rows.n, dtype=label_type(len(parts)))
        sizes_by_time = np.diff(starts, prepend=0, append=rows.n)
        labels[rows.by_time] = np.repeat([codes[name] for name in parts], sizes_by_time)
        return labels

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` that were known before every time in ``test``."""
        return train[np.flatnonzero(rows.known[train] < rows.time[test].min())]

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        n_times = begins_of(rows.times).size
        check_count("parts", len(self.parts), least=2, most=n_times, among=f"{n_times:,} different times")


class LeaveLastOut(PairSplitter):
    """The latest rows of each group are tested and its earlier ones trained on: the next purchase of known customers.

    Split i tests the rows of each group's (n_splits - i)-th last time, of all groups at once. A group's first time is
    never tested and always trained on.

    Promises: no row is tested twice, and within each group every train time is before every test time. Between groups
    it is not: a model has seen other groups' rows from after a tested one. Nothing is random.

    O(n log n), one sort, then O(n) a pair. Source: Rendle, Freudenthaler, Gantner and Schmidt-Thieme (2009), BPR:
    Bayesian personalized ranking from implicit feedback, which leaves one row of each user out; here it is the last.

    When not to use it: what happens to one group tells of others at that time, as demand or prices do: their future is
    learnt from (ForwardChaining hides it). Or new groups will come (BalancedGroupKFold).
    """

    needs = Needs(y="ignored", groups=True, time=True)
    promises = PairSplitter.promises | {"tested_once_at_most", "last_of_each_group"}

    def __init__(self, n_splits: int = 1) -> None:
        self.n_splits = n_splits

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each split's (earlier rows of each group, its rows of one time), positions ascending."""
        first, later_ones = self._places(rows)
        for left in range(self.n_splits - 1, -1, -1):
            yield np.flatnonzero(first | (later_ones > left)), np.flatnonzero(~first & (later_ones == left))

    def _places(self, rows: Rows) -> tuple[NDArray[np.bool_], IntArray]:
        """Return which rows are of their group's first time, and how many later times the group has after each."""
        times, time = np.unique(rows.time, return_inverse=True)
        cells, cell = np.unique(rows.groups * times.size + time.reshape(-1), return_inverse=True)
        starts = begins_of(cells // times.size)  # of each group's times among all, in order of group and time
        ends, cell = np.append(starts[1:], cells.size), cell.reshape(-1)
        return cell == starts[rows.groups], ends[rows.groups] - 1 - cell

    def _check(self, rows: Rows) -> None:
        most = int(self._places(rows)[1].max())
        check_count("n_splits", self.n_splits, least=1, most=most, among=f"at most {most + 1} times of a group")


MOST_SPLITS = 10_000


class PurgedKFold(PairSplitter):
    """Blocked folds: each of ``n_splits`` consecutive blocks of time is tested, and rows on both sides are learnt from.

    A block holds about n / n_splits rows; rows of the same time are never parted. ``label_end`` may be given, when the
    target of each row is known: a training row from whose time to whose label_end any of a tested row's lies is left
    out (purged), on both sides. ``gap`` is left out before a tested block, ``embargo`` after it: a length of time, as
    for ForwardChaining, or text such as "10 rows", with those that share the last one's time. Groups may be given: then
    those with rows in the tested block are not trained on.

    Promises: every row is tested once; no training row's label overlaps a tested one's, with the gap before and the
    embargo after it; groups, where given, are on one side. Nothing is random. It does train on what came after.

    O(n log n) a pair. Source: Lopez de Prado (2018), Advances in Financial Machine Learning, chapter 7. Corrected here:
    rows of the same time stay together, and the embargo is counted from when the last tested label is known.

    When not to use it: a model of tomorrow is asked for, and the past alone is long enough to learn from:
    ForwardChaining tests what will be done.
    """

    needs = Needs(y="ignored", groups="optional", time=True, label_end="optional")
    promises = PairSplitter.promises | {"purged", "groups_whole", "exhaustive"}
    blocks = "n_splits"  # the parameter that says how many there are
    n_test_blocks = 1  # of them that a split tests

    def __init__(self, n_splits: int = 5, *, gap: Length = 0, embargo: Length = 0) -> None:
        self.n_splits, self.gap, self.embargo = n_splits, gap, embargo

    def _tested(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the blocks that each split tests."""
        return combinations(range(getattr(self, self.blocks)), self.n_test_blocks)

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each split's (what may be learnt from, tested blocks), positions ascending."""
        n_blocks = int(getattr(self, self.blocks))
        inner = nearest_begins(rows.times, np.arange(1, n_blocks) * rows.n // n_blocks)
        bounds = [0, *inner.tolist(), rows.n]
        for tested in self._tested():
            test = np.sort(np.concatenate([rows.by_time[bounds[block] : bounds[block + 1]] for block in tested]))
            yield self.trainable(rows, np.delete(np.arange(rows.n), test), test), test

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` whose labels overlap no tested stretch, out of reach of it and of its groups."""
        tested, usable = np.zeros((2, rows.n), dtype=np.bool_)
        tested[test], usable[train] = True, True
        # Tested blocks that touch are one stretch: nothing has to be purged between them.
        edges = np.flatnonzero(np.diff(tested[rows.by_time].astype(np.int8), prepend=0, append=0))
        for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            usable &= self._apart(rows, first, stop)
        return without_groups_of(test, np.flatnonzero(usable), rows.together())

    def _apart(self, rows: Rows, first: int, stop: int) -> Any:
        """Return which rows are known before the stretch of these ranks, or happen after its labels are known."""
        order, stretch = rows.by_time, rows.by_time[first:stop]
        n_before, n_after = rows_in(self.gap), rows_in(self.embargo)
        before = later(rows.known, self.gap if n_before is None else 0) < rows.time[stretch].min()
        after = rows.time > later(rows.known[stretch].max(), self.embargo if n_after is None else 0)
        if n_before:  # the last of them, and what happened at the same time as one of those
            last = order[before[order]][-n_before:]
            before &= rows.time < rows.time[last].min() if last.size else False
        if n_after:
            next_ones = order[after[order]][:n_after]
            after &= rows.time > rows.time[next_ones].max() if next_ones.size else False
        return before | after

    def _check(self, rows: Rows) -> None:
        name, n_blocks = self.blocks, getattr(self, self.blocks)
        n_times = begins_of(rows.times).size
        check_count(name, n_blocks, least=2, most=n_times, among=f"{n_times:,} different times")
        for length, called in ((self.gap, "gap"), (self.embargo, "embargo")):
            if rows_in(length) is None:
                gap_of(length, rows.time, called)
        self._require_training(rows, f"choose a smaller gap or embargo, or another {name}, or leave the groups out")


class CombinatorialPurgedKFold(PurgedKFold):
    """Blocked folds in every combination: ``n_test_blocks`` of ``n_blocks`` consecutive blocks of time are tested.

    That makes C(n_blocks, n_test_blocks) splits, in lexicographic order. They chain into C(n_blocks - 1, n_test_blocks
    - 1) ``paths``, on each of which every row is tested once: as many histories of the model, where PurgedKFold has
    one. All else is as for PurgedKFold.

    Promises: every row is tested once on every path; and what PurgedKFold promises of labels and groups.

    O(n log n) a pair. Source: Lopez de Prado (2018), Advances in Financial Machine Learning, chapter 12. Corrected
    here: rows of the same time stay together.

    When not to use it: the fits are dear (PurgedKFold), or a model of tomorrow is asked for (ForwardChaining).
    """

    promises = PurgedKFold.promises - {"exhaustive"} | {"on_every_path"}
    blocks = "n_blocks"

    def __init__(self, n_blocks: int = 6, n_test_blocks: int = 2, *, gap: Length = 0, embargo: Length = 0) -> None:
        self.n_blocks, self.n_test_blocks = n_blocks, n_test_blocks
        self.gap, self.embargo = gap, embargo

    @property
    def n_paths(self) -> int:
        """Return the number of paths, as often as every row is tested."""
        return comb(self.n_blocks - 1, self.n_test_blocks - 1)

    def paths(self) -> list[list[int]]:
        """Return for each path the split that tests each of the blocks: the p-th that does, on path p."""
        tests = list(self._tested())
        of_block = [[i for i, tested in enumerate(tests) if block in tested] for block in range(self.n_blocks)]
        return [[splits[path] for splits in of_block] for path in range(self.n_paths)]

    def _n_pairs(self, rows: Rows | None = None) -> int:
        return comb(self.n_blocks, self.n_test_blocks)

    def _check(self, rows: Rows) -> None:
        check_count("n_blocks", self.n_blocks, least=2)
        check_count("n_test_blocks", self.n_test_blocks, 1, most=self.n_blocks - 1, among=f"n_blocks={self.n_blocks}")
        if self._n_pairs() > MOST_SPLITS:
            raise SplitError(
                f"{self.n_test_blocks} of {self.n_blocks} blocks make {self._n_pairs():,} splits, and at most "
                f"{MOST_SPLITS:,} are made; choose fewer n_blocks or n_test_blocks."
            )
        super()._check(rows)


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
    # After the first time, with room for the others; less its own turn, what ascends strictly is what never falls.
    nearest = np.maximum.accumulate(np.maximum(nearest, 1) - turn) + turn
    return np.asarray(begins[np.minimum(nearest, begins.size - wanted.size + turn)])


def without_groups_of(test: IntArray, train: IntArray, together: Sequence[IntArray]) -> IntArray:
    """Return those of ``train`` that share no group with a row of ``test``; of several entities, none of them.

    ``together``: the codes of the rows by each column whose equal values are to be on one side, from 0.
    """
    for groups in together:
        tested = np.zeros(int(groups.max()) + 1, dtype=np.bool_)
        tested[groups[test]] = True
        train = train[~tested[groups[train]]]
    return train

"""Blocks of time that are tested while the rest is learnt from, but for what overlaps them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, PairSplitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import IntArray
from evenfold.splitters.numbers import check_count, stable_order
from evenfold.splitters.rows import Needs, Rows
from evenfold.splitters.times import gap_of, later, rows_in

from .forward_chaining import begins_of, nearest_begins, without_groups_of

Length = float | str | timedelta
MOST_SPLITS = 10_000


class _Blocks(PairSplitter):
    """Consecutive blocks of time, of about as many rows each; some are tested at a time."""

    needs = Needs(y="ignored", groups="optional", time=True, label_end="optional")
    promises = PairSplitter.promises | {"purged", "groups_whole"}
    gap: Length
    embargo: Length
    blocks = "n_splits"  # the parameter that says how many there are

    def _tested(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the blocks that each split tests."""
        raise NotImplementedError

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each split's (what may be learnt from, tested blocks), positions ascending."""
        order = stable_order(rows.time)
        n_blocks = int(getattr(self, self.blocks))
        inner = nearest_begins(rows.time[order], np.arange(1, n_blocks) * rows.n // n_blocks)
        bounds = [0, *inner.tolist(), rows.n]
        for tested in self._tested():
            test = np.sort(np.concatenate([order[bounds[block] : bounds[block + 1]] for block in tested]))
            yield self._kept(rows, order, np.delete(np.arange(rows.n), test), test), test

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` whose labels overlap no tested stretch, out of reach of it and of its groups."""
        return self._kept(rows, stable_order(rows.time), train, test)

    def _kept(self, rows: Rows, order: IntArray, train: IntArray, test: IntArray) -> IntArray:
        tested, usable = np.zeros((2, rows.n), dtype=np.bool_)
        tested[test], usable[train] = True, True
        # Tested blocks that touch are one stretch: nothing has to be purged between them.
        edges = np.flatnonzero(np.diff(tested[order].astype(np.int8), prepend=0, append=0))
        for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            usable &= self._apart(rows, order, first, stop)
        return without_groups_of(test, np.flatnonzero(usable), rows.together())

    def _apart(self, rows: Rows, order: IntArray, first: int, stop: int) -> Any:
        """Return which rows are known before the stretch of these ranks, or happen after its labels are known."""
        stretch = order[first:stop]
        before = rows.known < rows.time[stretch].min()
        after = rows.time > rows.known[stretch].max()
        n_before, n_after = rows_in(self.gap), rows_in(self.embargo)
        if n_before is None:
            before = later(rows.known, gap_of(self.gap, rows.time)) < rows.time[stretch].min()
        elif n_before:  # the last of them, and what happened at the same time as one of those
            last = order[before[order]][-n_before:]
            before &= rows.time < rows.time[last].min() if last.size else False
        if n_after is None:
            after = rows.time > later(rows.known[stretch].max(), gap_of(self.embargo, rows.time, "embargo"))
        elif n_after:
            next_ones = order[after[order]][:n_after]
            after &= rows.time > rows.time[next_ones].max() if next_ones.size else False
        return before | after

    def _check_blocks(self, rows: Rows) -> None:
        name, n_blocks = self.blocks, int(getattr(self, self.blocks))
        for length, called in ((self.gap, "gap"), (self.embargo, "embargo")):
            if rows_in(length) is None:
                gap_of(length, rows.time, called)
        times = begins_of(rows.times).size
        if times < n_blocks:
            raise SplitError(
                f"{name}={n_blocks} with {times:,} different times; "
                + (f"choose 2 to {times}." if times > 1 else "pass rows of at least 2 times.")
            )
        for split, (train, test) in enumerate(self.pairs(rows)):
            if not train.size:
                raise SplitError(
                    f"split {split} has nothing to train on: of {rows.n - test.size:,} rows beside the tested ones all "
                    "are of tested groups, or lie within their labels, the gap or the embargo; choose less of those, "
                    f"or another {name}."
                )


class PurgedKFold(_Blocks):
    """Blocked folds: each of ``n_splits`` consecutive blocks of time is tested, and rows on both sides are learnt from.

    A block holds about n / n_splits rows; rows of the same time are never parted. ``label_end`` may be given, when the
    target of each row is known: a training row from whose time to whose label_end any of a tested row's lies is left
    out (purged), on both sides. ``gap`` is left out before a tested block, ``embargo`` after it: a length of time, as
    for ForwardChaining, or text such as "10 rows", with those that share the last one's time. Groups may be given: then
    those with rows in the tested block are not trained on.

    Promises: no row is in both sides of a pair; every row is tested once; no training row's label overlaps a tested
    one's, with the gap before and the embargo after it; groups, where given, are on one side. Nothing is random.
    It does train on what came after the tested rows.

    O(n log n), one sort, then O(n log n) a pair. Source: Lopez de Prado (2018), Advances in Financial Machine Learning,
    chapter 7. Corrected here: rows of the same time stay together, and the embargo is counted from when the last
    tested label is known.

    When not to use it: a model of tomorrow is asked for, and the past alone is long enough to learn from:
    ForwardChaining tests what will be done.
    """

    promises = _Blocks.promises | {"exhaustive"}

    def __init__(self, n_splits: int = 5, *, gap: Length = 0, embargo: Length = 0) -> None:
        self.n_splits = n_splits
        self.gap = gap
        self.embargo = embargo

    def _tested(self) -> Iterator[tuple[int, ...]]:
        return ((block,) for block in range(self.n_splits))

    def _check(self, rows: Rows) -> None:
        check_count("n_splits", self.n_splits, least=2)
        self._check_blocks(rows)


class CombinatorialPurgedKFold(_Blocks):
    """Blocked folds in every combination: ``n_test_blocks`` of ``n_blocks`` consecutive blocks of time are tested.

    That makes C(n_blocks, n_test_blocks) splits, in lexicographic order. They chain into C(n_blocks - 1, n_test_blocks
    - 1) ``paths``, on each of which every row is tested once: as many histories of the model, where PurgedKFold has
    one. ``gap``, ``embargo``, ``label_end`` and groups are as for PurgedKFold.

    Promises: no row is in both sides of a pair; every row is tested once on every path; no training row's label
    overlaps a tested one's, with the gap before and the embargo after it; groups, where given, are on one side. Nothing
    is random. It does train on what came after the tested rows.

    O(n log n), one sort, then O(n log n) a pair. Source: Lopez de Prado (2018), Advances in Financial Machine Learning,
    chapter 12. Corrected here: rows of the same time stay together.

    When not to use it: the fits are dear (PurgedKFold has one for each block), or a model of tomorrow is asked for
    (ForwardChaining).
    """

    promises = _Blocks.promises | {"on_every_path"}
    blocks = "n_blocks"

    def __init__(self, n_blocks: int = 6, n_test_blocks: int = 2, *, gap: Length = 0, embargo: Length = 0) -> None:
        self.n_blocks = n_blocks
        self.n_test_blocks = n_test_blocks
        self.gap = gap
        self.embargo = embargo

    @property
    def n_paths(self) -> int:
        """Return the number of paths, as often as every row is tested."""
        return comb(self.n_blocks - 1, self.n_test_blocks - 1)

    def paths(self) -> list[list[int]]:
        """Return for each path the split that tests each of the blocks: the p-th that does, on path p."""
        tests = list(self._tested())
        of_block = [[i for i, tested in enumerate(tests) if block in tested] for block in range(self.n_blocks)]
        return [[splits[path] for splits in of_block] for path in range(self.n_paths)]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of combinations."""
        return comb(self.n_blocks, self.n_test_blocks)

    def _tested(self) -> Iterator[tuple[int, ...]]:
        return combinations(range(self.n_blocks), self.n_test_blocks)

    def _check(self, rows: Rows) -> None:
        check_count("n_blocks", self.n_blocks, least=2)
        check_count("n_test_blocks", self.n_test_blocks, least=1)
        if self.n_test_blocks >= self.n_blocks:
            raise SplitError(
                f"n_test_blocks={self.n_test_blocks} of n_blocks={self.n_blocks} leaves nothing to train on; "
                f"choose 1 to {self.n_blocks - 1}."
            )
        if self.get_n_splits() > MOST_SPLITS:
            raise SplitError(
                f"{self.n_test_blocks} of {self.n_blocks} blocks make {self.get_n_splits():,} splits, and at most "
                f"{MOST_SPLITS:,} are made; choose fewer n_blocks or n_test_blocks."
            )
        self._check_blocks(rows)

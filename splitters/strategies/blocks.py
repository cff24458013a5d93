"""Blocks of time or of a map that are tested while the rest is learnt from, but for what lies too near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, PairSplitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import IntArray
from evenfold.splitters.numbers import check_count, encode, is_real, stable_order
from evenfold.splitters.rows import Needs, Rows
from evenfold.splitters.times import gap_of, later, rows_in

from .forward_chaining import begins_of, nearest_begins, without_groups_of
from .grouped import BalancedGroupKFold

Length = float | str | timedelta
MOST_SPLITS = 10_000


class PurgedKFold(PairSplitter):
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

    needs = Needs(y="ignored", groups="optional", time=True, label_end="optional")
    promises = PairSplitter.promises | {"purged", "groups_whole", "exhaustive"}
    blocks = "n_splits"  # the parameter that says how many there are

    def __init__(self, n_splits: int = 5, *, gap: Length = 0, embargo: Length = 0) -> None:
        self.n_splits = n_splits
        self.gap = gap
        self.embargo = embargo

    def _tested(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the blocks that each split tests."""
        return ((block,) for block in range(self.n_splits))

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
        n_before, n_after = rows_in(self.gap), rows_in(self.embargo)
        gap = gap_of(self.gap if n_before is None else 0, rows.time)
        embargo = gap_of(self.embargo if n_after is None else 0, rows.time, "embargo")
        before = later(rows.known, gap) < rows.time[stretch].min()
        after = rows.time > later(rows.known[stretch].max(), embargo)
        if n_before:  # the last of them, and what happened at the same time as one of those
            last = order[before[order]][-n_before:]
            before &= rows.time < rows.time[last].min() if last.size else False
        if n_after:
            next_ones = order[after[order]][:n_after]
            after &= rows.time > rows.time[next_ones].max() if next_ones.size else False
        return before | after

    def _check(self, rows: Rows) -> None:
        name, n_blocks = self.blocks, getattr(self, self.blocks)
        check_count(name, n_blocks, least=2)
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


class CombinatorialPurgedKFold(PurgedKFold):
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

    promises = PurgedKFold.promises - {"exhaustive"} | {"on_every_path"}
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

    def _n_pairs(self, rows: Rows | None = None) -> int:
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
        if self._n_pairs() > MOST_SPLITS:
            raise SplitError(
                f"{self.n_test_blocks} of {self.n_blocks} blocks make {self._n_pairs():,} splits, and at most "
                f"{MOST_SPLITS:,} are made; choose fewer n_blocks or n_test_blocks."
            )
        super()._check(rows)


# Distances that are equal on paper differ in their last bits; the border lies where no measured distance does.
SLACK = 1e-9
MOST_BLOCKS = 2.0**53  # from the origin on: beyond, neighbours are no longer told apart


class SpatialBlockKFold(PairSplitter):
    """Folds of whole blocks of a map: a grid of squares, or of rectangles, each tested with all of its rows.

    Rows that lie near one another are alike, so a random fold is predicted by its neighbours. ``coordinates`` are two
    columns of a plane, in one unit, such as metres of a map's grid; longitudes and latitudes are projected first.
    ``block_size`` is the side of a square in that unit, or width and height; it should be longer than neighbours stay
    alike. The grid begins at the origin of the coordinates, so the same place is in the same block in every table.
    Blocks are packed as BalancedGroupKFold packs groups, sizes and classes evenly (y as there).

    ``buffer`` is a distance: rows of other blocks within it of a tested row are not learnt from in that split. They are
    tested in folds of their own.

    Promises: no row is in both sides of a pair; every row is tested once; no block is on both sides; no training row
    lies within the buffer of a tested one, and no other row is left out. How even sizes and classes are depends on the
    blocks.

    O(n log n): a table of blocks x classes, the pack kernel, and, where there is a buffer, a tree of the tested rows
    for each fold. Source: Roberts et al. (2017), Cross-validation strategies for data with temporal, spatial,
    hierarchical, or phylogenetic structure; Valavi, Elith, Lahoz-Monfort and Guillera-Arroita (2019), blockCV, whose
    buffer is round the tested points as well. Unlike there the packing is not the best of many random ones.

    When not to use it: the places to predict lie among those that were measured; then random folds ask the right
    question. Where new rows are to join without moving any, write each row's block into a column and name it as the
    group of BalancedGroupKFold.
    """

    needs = Needs(y="any", coordinates=True)
    promises = PairSplitter.promises | {"exhaustive", "blocks_whole", "buffered"}
    version = f"1/{BalancedGroupKFold.version}"

    def __init__(
        self, n_splits: int = 5, *, block_size: float | Sequence[float], buffer: float = 0.0, random_state: int = 0
    ) -> None:
        self.n_splits = n_splits
        self.block_size = block_size
        self.buffer = buffer
        self.random_state = random_state

    def prepared(self, rows: Rows) -> Rows:
        """Return the rows with their blocks as groups, which whoever locks some of them away keeps whole as well."""
        size: Any = self.block_size
        sides = size if isinstance(size, (list, tuple, np.ndarray)) else [size, size]
        if len(sides) != 2 or not all(is_real(side) and side > 0 for side in sides):
            raise SplitError(
                f"block_size={size!r}; choose the side of a square, a number above 0 in the unit of coordinates, or "
                "width and height, such as [1000, 500]."
            )
        squares = np.floor(rows.coordinates / np.array(sides, dtype=np.float64))
        if float(np.abs(squares).max()) >= MOST_BLOCKS:
            raise SplitError(
                f"block_size={self.block_size!r} is too small for coordinates up to "
                f"{float(np.abs(rows.coordinates).max()):.3g}; choose a larger one."
            )
        _, number = np.unique(squares.astype(np.int64), axis=0, return_inverse=True)
        # Again by first appearance, as any groups: what the blocks' coordinates are is to move no row.
        blocks, levels = encode(number.reshape(-1), "blocks")
        return replace(rows, groups=blocks, group_levels=tuple(levels))

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each fold's (rows of other blocks beyond the buffer, rows of its blocks), positions ascending."""
        packed = BalancedGroupKFold(self.n_splits, random_state=self.random_state)
        folds = packed.decide(rows)
        for fold in range(self.n_splits):
            test = np.flatnonzero(folds == fold)
            yield self.trainable(rows, np.flatnonzero(folds != fold), test), test

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` that lie farther than the buffer from every row of ``test``."""
        if not self.buffer:
            return train
        from scipy.spatial import KDTree  # loaded by whoever has a buffer

        # The tree finds who is nearest; how far that is, is computed alike on every machine.
        some, others, most = rows.coordinates[train], rows.coordinates[test], self.buffer * (1.0 + SLACK)
        _, nearest = KDTree(others).query(some, distance_upper_bound=most * (1.0 + SLACK))
        reached = np.flatnonzero(nearest < others.shape[0])
        apart = some[reached] - others[nearest[reached]]
        near = np.sqrt(apart[:, 0] * apart[:, 0] + apart[:, 1] * apart[:, 1]) <= most
        return np.delete(train, reached[near])

    def _check(self, rows: Rows) -> None:
        check_count("n_splits", self.n_splits, least=2)
        if not is_real(self.buffer) or self.buffer < 0:
            raise SplitError(f"buffer={self.buffer!r}; choose a distance of at least 0, in the unit of coordinates.")
        if rows.n_groups < self.n_splits:
            blocks = "1 block" if rows.n_groups == 1 else f"{rows.n_groups:,} blocks"
            fewer = f"2 to {rows.n_groups} folds, or " if rows.n_groups > 1 else ""
            raise SplitError(
                f"n_splits={self.n_splits} with {blocks} of block_size={self.block_size!r}; choose {fewer}smaller "
                "blocks."
            )
        for fold, (train, test) in enumerate(self.pairs(rows) if self.buffer else ()):
            if not train.size:
                raise SplitError(
                    f"fold {fold} has nothing to train on: all {rows.n - test.size:,} rows of other blocks lie within "
                    f"buffer={self.buffer:g} of a tested one; choose a smaller buffer, or larger blocks."
                )

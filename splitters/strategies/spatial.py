"""Blocks of a map that are tested as a whole, while what lies too near is not learnt from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from evenfold.splitters.base import Pair, PairSplitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import IntArray
from evenfold.splitters.numbers import check_count, encode, is_real
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from .grouped import BalancedGroupKFold

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
        self,
        n_splits: int = 5,
        *,
        block_size: float | Sequence[float],
        buffer: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.n_splits = n_splits
        self.block_size = block_size
        self.buffer = buffer
        self.random_state = random_state

    def prepared(self, rows: Rows) -> Rows:
        """Return the rows with their blocks as groups, which whoever locks some of them away keeps whole as well."""
        squares = np.floor(rows.coordinates / np.array(_sides(self.block_size)))
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
        return train[~_are_near(rows.coordinates[train], rows.coordinates[test], self.buffer * (1.0 + SLACK))]

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


def _sides(block_size: Any) -> tuple[float, float]:
    """Return width and height of a block; SplitError where they are no lengths."""
    sides = block_size if isinstance(block_size, (list, tuple, np.ndarray)) else [block_size, block_size]
    if len(sides) != 2 or not all(is_real(side) and side > 0 for side in sides):
        raise SplitError(
            f"block_size={block_size!r}; choose the side of a square, a number above 0 in the unit of coordinates, or "
            "width and height, such as [1000, 500]."
        )
    return float(sides[0]), float(sides[1])


def _are_near(some: NDArray[np.float64], others: NDArray[np.float64], most: float) -> NDArray[np.bool_]:
    """Return which of ``some`` points have one of ``others`` within ``most``. O(n log n)."""
    from scipy.spatial import KDTree  # loaded by whoever has a buffer

    # The tree finds who is nearest; how far that is, is computed alike on every machine.
    _, nearest = KDTree(others).query(some, distance_upper_bound=most * (1.0 + SLACK))
    reached = nearest < others.shape[0]
    apart = some[reached] - others[nearest[reached]]
    near = np.zeros(some.shape[0], dtype=np.bool_)
    near[reached] = np.sqrt(apart[:, 0] * apart[:, 0] + apart[:, 1] * apart[:, 1]) <= most
    return near

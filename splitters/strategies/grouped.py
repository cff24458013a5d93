"""Strategies that pack whole groups, blocks of a map, or rows, by their sizes and classes; and their base."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
from evenfold.splitters.base import LabelSplitter, Pair, PairSplitter, pairs_of_labels, refines
from evenfold.splitters.errors import SplitError, shown
from evenfold.splitters.numbers import (
    PACKING,
    IntArray,
    Stream,
    check_choice,
    check_count,
    check_number,
    encode,
    is_real,
    is_whole,
)
from evenfold.splitters.packing.cost import aim_of, table_to_pack
from evenfold.splitters.packing.pack import DEFAULT_EFFORT, HIGH_EFFORT, Effort, pack_to
from evenfold.splitters.packing.report import PackReport, report_on
from evenfold.splitters.packing.searches import Published
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from . import moved as __getattr__  # noqa: F401
from .kfold import RARE
from .parts import PartSplitter

Optimiser = Literal["evenfold", "published"] | Mapping[str, Any]


def of_effort(version: int) -> Any:
    """Make a version another one where a population of packings follows the exchanges."""
    searched = f"{version}.1"
    return refines(version)(lambda self: version if is_whole(self.effort) and self.effort < HIGH_EFFORT else searched)


class GroupPacker(LabelSplitter):
    """A strategy that packs groups into bins of given shares, by rows and classes at once, with a stream of its own."""

    needs = Needs(y="any", groups=True)
    by_group_table = True
    size_weight: float | Literal["relative"]
    effort: Effort
    optimiser: Optimiser
    rare: Literal["error", "spread"] = "spread"

    @abstractmethod
    def __init__(self) -> None:
        """Take the parameters: those above, and the folds or the parts."""

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        aim, packing_stream = aim_of(rows, self.bin_shares(), self.size_weight), self._stream(PACKING)
        if published := published_by(self.optimiser):
            packing = published.pack(aim, packing_stream)
        else:
            packing = pack_to(aim, packing_stream, self.effort, close=True, exact=self.takes_best)
        bins: IntArray = packing[rows.groups]
        codes = list(self.part_codes().values())
        return np.array(codes)[bins] if codes else bins

    def report(self, X: Any = None, y: Any = None, groups: Any = None, labels: Any = None) -> PackReport:
        """Return how even the split of these rows is, and how even any split of them could be.

        ``labels`` are those that are decided already, one per row; every group has one label. As long as splitting, and
        up to a few seconds for a proof where groups are few.
        """
        rows = self.rows(X, y, groups)
        labels = self.assign(rows) if labels is None else labels
        # Bins stand in the given order of the parts, as bin_shares() has them.
        bin_of = {code: number for number, code in enumerate(self.part_codes().values())}
        bins = np.zeros(rows.n_groups, dtype=np.int64)
        bins[rows.groups] = [bin_of[code] for code in labels.tolist()] if bin_of else labels
        aim = aim_of(rows, self.bin_shares(), self.size_weight)
        return report_on(aim, bins, self._stream(PACKING, 1))  # a stream apart from the packing's

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        parts, n_groups = self.part_codes(), rows.n_groups
        name, n_bins = ("parts", len(parts)) if parts else ("n_splits", self.n_splits)
        check_count(name, n_bins, least=2, most=n_groups, among=f"{n_groups:,} groups")
        if not isinstance(self.effort, str) or self.effort != "max":
            check_count("effort", self.effort, least=1)
        if self.size_weight != "relative":
            check_number("size_weight", self.size_weight, "such as 1.0, or 'relative'")
        published_by(self.optimiser)
        check_choice("rare", self.rare, RARE)
        if self.rare == "error" and rows.levels and rows.y_holds in ("nothing", "classes"):  # of groups y is not held
            holding = np.count_nonzero(table_to_pack(rows)[1], axis=0)
            rarest = int(np.argmin(holding))
            if holding[rarest] < n_bins:
                raise SplitError(
                    f"class {shown(repr(rows.levels[rarest]))} lies in {holding[rarest]:,} of {n_groups:,} groups, "
                    f"fewer than {name}={n_bins}; choose fewer, or rare='spread' (--param rare=spread)."
                )


def published_by(optimiser: Any) -> Published | None:
    """Return the published search with its parameters, or None for our own; SplitError where it is neither."""
    if isinstance(optimiser, str) and optimiser == "evenfold":
        return None
    options: Any = {"name": optimiser} if isinstance(optimiser, str) else optimiser
    names = {"name", *(field.name for field in fields(Published))}
    if not isinstance(options, Mapping) or options.get("name") != "published" or not set(options) <= names:
        raise SplitError(
            f"optimiser={optimiser!r}; choose 'evenfold', 'published', or the latter with its parameters, "
            "such as {'name': 'published', 'start': 'random', 'min_cost': 1e-7, 'max_retries': 500}."
        )
    published = Published(**{name: value for name, value in options.items() if name != "name"})
    check_choice("start", published.start, ("greedy", "random", "zero"))
    check_number("min_cost", published.min_cost, "such as 1e-5")
    check_count("max_retries", published.max_retries, least=0)
    return published


class BalancedGroupKFold(GroupPacker):
    """Folds that keep every group whole and share out rows and classes evenly.

    y may be classes, numbers (then at most 10 bins of about as many rows, equal numbers in one, stand for the
    distribution), several columns (each column's classes count), or absent (then sizes alone count).

    Promises: every row is tested once; no group is in two folds; no fold is empty. How even sizes and classes can be
    depends on the groups; ``report`` says how even they are, and how even they could be.

    ``size_weight`` weighs sizes against classes: 1.0 is the published cost, sum_f (n_f/n - 1/k)^2 + sum_f sum_c
    (n_fc/n_f - n_c/n)^2; "relative" measures a fold's size by what it should be, (k n_f/n - 1)^2: the published cost
    lets a giant group make folds half as large again. A fold without a class that at least k groups have costs 1 more.
    ``effort`` counts rounds of exchanges, never seconds; from 64 on large groups are moved as well, and "max" searches
    on. Up to 20 groups get the best assignment there is, whatever the seed, where branch and bound ends within some
    thousand nodes (``report`` says so). Few groups else (up to 20 at an effort below 16 or in the later repeats of
    ``Repeated``; 21 to 6 a fold but for "max") get one of the many assignments that are good enough, so that seeds
    differ: with fewer than 15 groups at a third of the cost of rows that fall into the folds one by one, from 15 on at
    1/48 of it.
    A class of fewer groups than folds is spread over as many as it can be; with ``rare="error"`` it is a SplitError.
    ``optimiser="published"`` is the search of the source, for comparison; its parameters are given as
    ``{"name": "published", "start": "greedy", "min_cost": 1e-5, "max_retries": 100}``.

    O(n) for the table of groups x classes, then the pack kernel. The idea of packing groups by their class counts,
    and the cost: Figueira (2022), Stratified k-fold cross-validation on grouped datasets.
    """

    promises = LabelSplitter.promises | {"groups_whole", "no_empty_fold"}
    version = of_effort(6)

    def __init__(
        self, n_splits: int = 5, *,
        size_weight: float | Literal["relative"] = "relative", effort: Effort = DEFAULT_EFFORT,
        optimiser: Optimiser = "evenfold", rare: Literal["error", "spread"] = "spread", random_state: int = 0,
    ) -> None:  # fmt: skip
        self.n_splits, self.size_weight, self.effort = n_splits, size_weight, effort
        self.optimiser, self.rare, self.random_state = optimiser, rare, random_state


TRAIN_VALIDATION_TEST: Mapping[str, float] = {"train": 0.8, "validation": 0.1, "test": 0.1}


class BalancedGroupSplit(GroupPacker, PartSplitter):
    """Parts of any shares that keep every group whole and have the same class shares.

    y, ``size_weight``, ``effort``, ``optimiser`` and ``rare`` are as in BalancedGroupKFold; a part's size counts
    relative to its own share, so that a small part is as exact as a large one.

    Promises: every row is in one part, no group in two, and no part is empty. How close sizes and classes come to
    their shares depends on the groups; ``report`` says how close they are, and how close they could be.

    O(n) for the table of groups x classes, then the pack kernel.
    """

    promises = PartSplitter.promises | {"groups_whole"}
    version = of_effort(5)

    def __init__(
        self, parts: Mapping[str, float] = TRAIN_VALIDATION_TEST, *,
        size_weight: float | Literal["relative"] = "relative", effort: Effort = DEFAULT_EFFORT,
        optimiser: Optimiser = "evenfold", rare: Literal["error", "spread"] = "spread", random_state: int = 0,
    ) -> None:  # fmt: skip
        self.parts, self.size_weight, self.effort = parts, size_weight, effort
        self.optimiser, self.rare, self.random_state = optimiser, rare, random_state


class BalancedKFold(LabelSplitter):
    """Folds in which every class of every column of y has its share: for several columns, and for many labels a row.

    y may be several columns (n, columns), or as for BalancedGroupKFold, which rows need that belong together.

    Promises: every row is tested once; sizes differ by at most 1. How even classes can be depends on the rows.

    Rows that are alike are dealt out together, the others one by one, then exchanged while that makes the folds more
    even: O(n x (n_splits + columns)). The task, with another rule that looks at one rare label at a time and ends
    with uneven sizes: Sechidis, Tsoumakas, Vlahavas (2011), On the stratification of multi-label data.
    """

    needs = Needs(y="any")
    promises = LabelSplitter.promises | {"even_sizes"}
    version = of_effort(3)

    def __init__(self, n_splits: int = 5, *, effort: Effort = DEFAULT_EFFORT, random_state: int = 0) -> None:
        self.n_splits, self.effort, self.random_state = n_splits, effort, random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        return pack_to(aim_of(rows, self.bin_shares(), "exact"), self._stream(PACKING), self.effort)  # its own stream

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if not isinstance(self.effort, str) or self.effort != "max":
            check_count("effort", self.effort, least=1)


# Distances that are equal on paper differ in their last bits; the border lies where no measured distance does.
SLACK = 1e-9
MOST_BLOCKS = 2.0**53  # from the origin on: beyond, neighbours are no longer told apart


class SpatialBlockKFold(PairSplitter):
    """Folds of whole blocks of a map: a grid of squares, or of rectangles, each tested with all of its rows.

    Rows that lie near one another are alike, so a random fold is predicted by its neighbours. ``coordinates`` are two
    columns of a plane, in one unit, such as metres of a map's grid; longitudes and latitudes are projected first.
    ``block_size`` is the side of a square in that unit, or width and height; it should be longer than neighbours stay
    alike. The grid begins at the origin of the coordinates, so the same place is in the same block in every table.
    Blocks are packed as BalancedGroupKFold packs groups, sizes and classes evenly (y as there). Rows of other blocks
    within the distance ``buffer`` of a tested row are not learnt from in that split.

    Promises: every row is tested once; no block is on both sides; no training row lies within the buffer of a tested
    one, and no other row is left out. How even sizes and classes are depends on the blocks.

    O(n log n): a table of blocks x classes, the pack kernel, and, where there is a buffer, a tree of the tested rows
    for each fold. Source: Roberts et al. (2017), Cross-validation strategies for data with temporal, spatial,
    hierarchical, or phylogenetic structure; Valavi, Elith, Lahoz-Monfort and Guillera-Arroita (2019), blockCV, whose
    buffer is round the tested points as well. Unlike there the packing is not the best of many random ones.

    When not to use it: the places to predict lie among those that were measured (random folds ask that question); or
    new rows are to join without moving any: name a column of each row's block as the group of BalancedGroupKFold.
    """

    needs = Needs(y="any", coordinates=True)
    promises = PairSplitter.promises | {"exhaustive", "blocks_whole", "buffered"}
    version = f"1/{BalancedGroupKFold.version}"

    def __init__(
        self, n_splits: int = 5, *, block_size: float | Sequence[float], buffer: float = 0.0, random_state: int = 0
    ) -> None:
        self.n_splits, self.block_size, self.buffer, self.random_state = n_splits, block_size, buffer, random_state

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
        return replace(rows, groups=encode(number.reshape(-1), "blocks")[0])

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each fold's (rows of other blocks beyond the buffer, rows of its blocks), positions ascending."""
        folds = BalancedGroupKFold(self.n_splits, random_state=self.random_state).assign(rows)
        pairs = pairs_of_labels(folds, range(self.n_splits))
        return ((self.trainable(rows, train, test), test) for train, test in pairs)

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
        blocks = f"{rows.n_groups:,} blocks of block_size={self.block_size!r}"
        check_count("n_splits", self.n_splits, least=2, most=rows.n_groups, among=blocks)
        check_number("buffer", self.buffer, "in the unit of coordinates")
        if self.buffer:
            self._require_training(rows, "choose a smaller buffer, or larger blocks")

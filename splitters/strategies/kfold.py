"""Folds of single rows: at random, with even classes or numbers; and leave-one-out, of rows and of groups."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from evenfold.splitters.base import LabelSplitter
from evenfold.splitters.errors import SplitError, shown
from evenfold.splitters.kernels import deal
from evenfold.splitters.numbers import IntArray, Stream, check_choice, label_type
from evenfold.splitters.packing.cost import table_to_pack
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from . import moved as __getattr__  # noqa: F401


class KFold(LabelSplitter):
    """Random folds of equal size.

    Promises: every row is tested once; sizes differ by at most 1; every partition into such folds is equally likely.
    Rows are always shuffled: data in order would make folds of neighbours.

    O(n log n). Source: Stone (1974), Cross-validatory choice and assessment of statistical predictions.
    """

    needs = Needs(y="ignored")
    promises = LabelSplitter.promises | {"even_sizes"}

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        self.n_splits, self.random_state = n_splits, random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        return deal(stream.permutation(rows.n), self.n_splits, stream, by="cycle")


class StratifiedKFold(LabelSplitter):
    """Folds in which each class has its share, for two or more classes.

    Promises: every row is tested once; any two folds' counts of any class differ by at most 1, and so do their sizes.
    A class with fewer rows than folds is a SplitError, unless ``rare="spread"``: then its rows go to distinct folds and
    some folds have none, which the balance report says.

    Unlike implementations that start every class at the first fold, so that left-over rows pile up there, the
    classes continue where the one before stopped. O(n log n). Source: Kohavi (1995), A study of cross-validation
    and bootstrap for accuracy estimation and model selection.
    """

    needs = Needs(y="classes")
    promises = LabelSplitter.promises | {"even_sizes", "even_classes"}

    def __init__(self, n_splits: int = 5, *, rare: Literal["error", "spread"] = "error", random_state: int = 0) -> None:
        self.n_splits, self.rare, self.random_state = n_splits, rare, random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        return deal(stream.shuffled_by(rows.y, len(rows.levels)), self.n_splits, stream, by="cycle")

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        check_classes(rows, self.n_splits, self.rare)


RARE = ("error", "spread")  # what becomes of a class that cannot be in every fold
MOST_CLASSES = 100  # so many values may y have, or a tenth of the rows where that is more; else it is an identifier
MOST_DATES = 20  # so many texts that look like numbers or dates may be classes; more were misread
MISREAD = re.compile(r"[+-]?\d{1,3}(\.?\d{3})*,\d+|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?")


def check_classes(rows: Rows, n_splits: int, rare: str, of: str = "") -> None:
    """Raise SplitError where y has one class, or one of fewer rows than folds (``of``: parts) that is not to spread."""
    check_choice("rare", rare, RARE)
    require_two_classes(rows, "KFold")
    counts = rows.class_counts()
    misread = counts.size > MOST_DATES and all(
        isinstance(level, str) and MISREAD.fullmatch(level.strip()) for level in rows.levels[:MOST_DATES]
    )
    if rare == "error" and (misread or counts.size > max(MOST_CLASSES, rows.n // 10)):
        raise SplitError(
            f"{rows.called('y')} holds {counts.size:,} different values in {rows.n:,} rows, such as "
            f"{shown(repr(rows.levels[0]))}: those are not classes. Numbers with decimal commas, or dates, read as "
            "text? Save them as 180.65 and 2024-12-31 (pandas.read_csv(FILE, decimal=',') reads commas), or use KFold."
        )
    rarest = int(np.argmin(counts))
    if rare == "error" and counts[rarest] < n_splits:
        fewer = f"n_splits of at most {counts[rarest]}, or " if counts[rarest] > 1 and not of else ""
        sorts = not of and counts.size > 2 and not isinstance(rows.levels[rarest], (str, bool))
        raise SplitError(
            f"class {shown(repr(rows.levels[rarest]))} has {counts[rarest]:,} of {rows.n:,} rows, fewer than "
            f"{of or f'n_splits={n_splits}'}; choose {fewer}rare='spread' (--param rare=spread)"
            f"{', or SortedStratifiedKFold for numbers' if sorts else ''}."
        )


def require_two_classes(rows: Rows, instead: str) -> None:
    """Raise SplitError, which says what to use ``instead``, where y has one class."""
    if len(rows.levels) == 1:
        only = shown(repr(rows.levels[0]))
        raise SplitError(f"{rows.called('y')} has one class ({only}) in all {rows.n:,} rows; use {instead}.")


class SortedStratifiedKFold(LabelSplitter):
    """Folds with the same distribution of a numeric target.

    Rows are sorted by y, and each run of ``n_splits`` neighbours is dealt to the folds in a random order. The
    n mod n_splits rows left over go to distinct folds; ``leftovers`` says which rows these are: taken out at regular
    intervals of the sorted order (``spread``), anywhere (``random``), or the largest (``end``).

    Promises: every row is tested once; sizes differ by at most 1; for every threshold, any two folds' numbers of rows
    below it differ by at most 1 (``end``) or 2 (``spread``, ``random``). That bounds the distributions, and not the
    *means* where one row of a heavy tail outweighs a fold.

    O(n log n): one sort and one pass. Source: Lowe (2016), Stratified validation splits for regression problems.
    Corrected here: left-over rows go to distinct folds (the text lets each fall anywhere, so sizes could differ by
    n mod k), and the interval is n/(mod+1).
    """

    needs = Needs(y="numbers")
    promises = LabelSplitter.promises | {"even_sizes", "even_distribution"}

    def __init__(
        self, n_splits: int = 5, *, leftovers: Literal["spread", "random", "end"] = "spread", random_state: int = 0
    ) -> None:
        self.n_splits, self.leftovers, self.random_state = n_splits, leftovers, random_state

    @property
    def threshold_gap(self) -> int:
        """The most by which two folds' counts below any threshold differ."""
        return 1 if self.leftovers == "end" else 2

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        order, count = rows.ranked, rows.n % self.n_splits
        labels = np.empty(rows.n, dtype=label_type(self.n_splits))
        # Those left over, by ascending rank, are a block of their own; the others fill whole blocks.
        left = np.arange(1, count + 1) * rows.n // (count + 1)
        if self.leftovers == "end":
            left = np.arange(rows.n - count, rows.n)
        elif self.leftovers == "random":
            left = np.sort(stream.permutation(rows.n)[:count])
        labels[np.delete(order, left)] = deal(np.arange(rows.n - left.size), self.n_splits, stream, by="block")
        labels[order[left]] = deal(np.arange(left.size), self.n_splits, stream, by="block")
        return labels

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        check_choice("leftovers", self.leftovers, ("spread", "random", "end"))


class LeaveOneOut(LabelSplitter):
    """As many folds as rows: train on all rows but one, test on that one.

    Promises: fold i tests row i alone. Nothing is random, and there is nothing to repeat.

    O(n) for the labels, O(n) for each pair. Source: Stone (1974), Cross-validatory choice and assessment of
    statistical predictions. The n scores are almost the same model's, so their mean varies more than ten folds' does.
    """

    needs = Needs(y="ignored")
    promises = LabelSplitter.promises | {"even_sizes"}
    grows = False
    shares_out = False

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        return np.arange(rows.n)


class LeaveOneGroupOut(LabelSplitter):
    """As many folds as groups: train on all groups but one, test on that one (a hospital, a year, a plant).

    Promises: every row is tested once; each test set is one whole group, in order of first appearance. Folds are as
    uneven as groups are. Nothing is random.

    O(n) for the labels, O(n) for each pair.
    """

    needs = Needs(y="ignored", groups=True)
    promises = LabelSplitter.promises | {"groups_whole", "no_empty_fold"}
    grows = False
    shares_out = False
    by_group_table = True

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        return np.asarray(rows.groups)


class StratifiedLeaveOneGroupOut(LabelSplitter):
    """Folds that each leave one group out of every stratum: one hospital of each region, one field of each farm.

    y holds the strata; a group is of the stratum that most of its rows have (of several, the one that appears first).
    There are as many folds as the largest stratum has groups; a stratum with fewer is tested in as many folds.

    Promises: every row is tested once; no group is in two folds; a fold tests at most one group of a stratum. Which
    groups meet in a fold is random; stratum after stratum, that of the most groups first, they go to the folds with the
    fewest rows. Sizes differ as groups do.

    O(n) for the table of groups x strata, then O(groups log groups). Source: the blocked design of Roberts et al.
    (2017), Cross-validation strategies for data with temporal, spatial, hierarchical, or phylogenetic structure.

    When not to use it: the question is one particular site (LeaveOneGroupOut), or there are many small groups
    (BalancedGroupKFold with the strata to stratify).
    """

    needs = Needs(y="classes", groups=True)
    promises = LabelSplitter.promises | {"groups_whole", "one_group_a_stratum"}
    grows = False
    shares_out = False

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        strata, sizes = self._strata(rows), rows.group_sizes
        counts = np.bincount(strata)
        held = np.zeros(int(counts.max()), dtype=np.int64)
        folds = np.empty(sizes.size, dtype=np.int64)
        shuffled = stream.permutation(sizes.size)
        # The first and largest stratum has a group for every fold, so no fold stays empty.
        for stratum in np.argsort(-counts, kind="stable").tolist():
            groups = shuffled[strata[shuffled] == stratum]
            folds[groups] = np.argsort(held, kind="stable")[: groups.size]
            held[folds[groups]] += sizes[groups]
        return np.asarray(folds[rows.groups])

    def _strata(self, rows: Rows) -> IntArray:
        return np.asarray(np.argmax(table_to_pack(rows)[1], axis=1))

    def _check(self, rows: Rows) -> None:
        if np.bincount(self._strata(rows)).max() < 2:
            what = f"every stratum has one group, of {rows.n_groups} in all, so a fold would leave all of them out"
            raise SplitError(f"{what}; use LeaveOneGroupOut, or coarser strata.")

"""Random draws of a train and a test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, Pair
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import Size, groups_until, shuffled_in_blocks, sizes_of, take_evenly
from evenfold.splitters.numbers import IntArray, Stream, check_number
from evenfold.splitters.packing.cost import table_to_pack
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from .kfold import require_two_classes


class ShuffleSplit(DrawSplitter):
    """Draws of ``test_size`` rows to test and ``train_size`` to train, each anew; shares or numbers of rows.

    Promises: sizes are exact; draw i does not depend on ``n_splits``. Test sets of different draws overlap: they are
    independent. What is not given of the sizes is what the other leaves, and a tenth to test where neither is given.

    O(n) a draw.
    """

    needs = Needs(y="ignored")
    promises = DrawSplitter.promises | {"exact_sizes"}
    tested = 0.1  # of the rows, where no size is given

    def __init__(
        self, n_splits: int = 10, *, test_size: Size = None, train_size: Size = None, random_state: int = 0
    ) -> None:
        self.n_splits, self.test_size = n_splits, test_size
        self.train_size, self.random_state = train_size, random_state

    def sizes(self, n: int) -> tuple[int, int]:
        return sizes_of(n, self.test_size, self.train_size, default=self.tested)

    def draw(self, rows: Any, stream: Stream) -> Pair:
        n_train, n_test = self.sizes(rows.n)
        test, train = stream.sides(rows.n, n_test, n_train)
        return train, test


class StratifiedShuffleSplit(ShuffleSplit):
    """Draws of a test and a train set, stratified by classes or by numbers (floats, or integers of over 20 values).

    Rows are put in order, class by class in random order, or by number with short runs of neighbours shuffled; then
    every (n / test rows)-th is tested, from a random start.

    Promises: sizes are exact; every row is equally likely to be tested; a test set holds each class's share of rows,
    rounded up or down (for numbers: the count below any threshold is within 3 rows of its share); draw i does not
    depend on ``n_splits``. A class of one row is on one side only.

    O(n log n) a draw. Source: Madow and Madow (1944), On the theory of systematic sampling.
    """

    needs = Needs(y="any")
    promises = ShuffleSplit.promises | {"draws_class_shares"}
    version = 2

    def draw(self, rows: Rows, stream: Stream) -> Pair:
        n_train, n_test = self.sizes(rows.n)
        if rows.y_holds == "numbers":
            # Shuffled among as many neighbours as one tested row stands for, so any of them can be it.
            order = rows.ranked[shuffled_in_blocks(rows.n, -(-rows.n // n_test), stream)]
        else:
            order = stream.shuffled_by(rows.y, len(rows.levels))
        tested = take_evenly(rows.n, n_test, stream)
        test, rest = order[tested], np.delete(order, tested)
        train = rest if n_train == rest.size else rest[take_evenly(rest.size, n_train, stream)]
        return np.sort(train), np.sort(test)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.y_holds not in ("classes", "numbers"):
            other = "of several use BalancedKFold" if rows.y_holds == "columns" else "for no y use ShuffleSplit"
            raise SplitError(f"{type(self).__name__} needs y, one column of classes or numbers; {other}.")


class GroupShuffleSplit(ShuffleSplit):
    """Draws of whole groups; ``test_size`` and ``train_size`` are shares or numbers of *rows*, not of groups.

    Groups are put in random order and taken to the test side while they bring its rows closer to the wanted number,
    then to the train side likewise (all that are left, where no ``train_size`` is given). A group of more than twice
    the wanted rows is passed over while others can be taken.

    Promises: no group is on both sides; each side has a group; draw i does not depend on ``n_splits``. How close the
    sizes come depends on the groups: half a group, more or less. Where no size is given, a fifth is tested.

    O(n) a draw, and O(groups log groups).
    """

    needs = Needs(y="ignored", groups=True)
    promises = (ShuffleSplit.promises - {"exact_sizes"}) | {"groups_whole"}
    version = 2
    tested = 0.2

    def draw(self, rows: Rows, stream: Stream) -> Pair:
        n_train, n_test = self.sizes(rows.n)
        sizes = rows.group_sizes
        order = stream.permutation(sizes.size)
        taken = groups_until(sizes[order], n_test, order.size - 1)
        left = np.delete(order, taken)
        if n_train + n_test < rows.n:
            left = left[groups_until(sizes[left], n_train, left.size)]
        side = np.zeros(order.size, dtype=np.int8)
        side[order[taken]], side[left] = 1, -1
        return np.flatnonzero(side[rows.groups] == -1), np.flatnonzero(side[rows.groups] == 1)


# Natural logarithm of 2 in two parts, of which small multiples of the first are exact.
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_TERMS = 14


def exp_weights(x: NDArray[np.float64]) -> IntArray:
    """Return floor(2^32 e^x) for ``x`` of 0 and below, to within 1; 0 from about -22 down.

    x is a multiple of ln 2 and a rest, of whose series 14 terms are more than a double holds: elementwise
    multiplications and additions only. O(n).
    """
    # e**-60 is far below 2**-32, and with a bound the exponent stays one that ldexp knows.
    least = np.maximum(x, -60.0)
    halvings = np.floor(least * -1.4426950408889634 + 0.5)
    rest = (least + halvings * _LN2_HIGH) + halvings * _LN2_LOW
    series = np.ones_like(rest)
    for term in range(_TERMS, 0, -1):
        series = series * rest / term + 1.0
    return np.floor(np.ldexp(series, 32 - halvings.astype(np.int32))).astype(np.int64)


def weighted_choice(weights: IntArray, word: int) -> int:
    """Return a position with probability weights / their sum, by a uniform 64-bit ``word``; integers throughout."""
    reached = np.cumsum(weights)
    # Multiply-shift in Python's integers: 64 bits times the sum would overflow an int64.
    return int(np.searchsorted(reached, word * int(reached[-1]) >> 64, side="right"))


REPAIRS = 16
CANDIDATES = 64
CLOSE = 0.1  # of a mean group


@dataclass(frozen=True)
class GroupCounts:
    """Rows of each class in each group, and how far each group pulls a test set from the wanted size and shares.

    ``pulls`` (1 + classes, groups + 1): its rows as a share of all; its rows of each class above the class's share, as
    a share of the wanted test rows. The last group is empty: to swap with it is to move. ``wanted``: train, test rows.
    """

    groups: IntArray
    counts: IntArray
    sizes: IntArray
    pulls: NDArray[np.float64]
    wanted: tuple[int, int]


class GroupStratifiedShuffleSplit(DrawSplitter):
    """Draws of whole groups in which the test set has its share of rows and of each class, for any number of classes.

    By default a random draw of groups is repaired. Up to 16 times, two groups change sides, or one: a random one of the
    swaps that bring the share of rows and every class's prevalence within a tenth of a mean group's share; where there
    is none, the one that comes closest. Of more than 64 groups on a side, 64 random ones are looked at.

    ``beta`` asks for the published rule instead: the train set starts with a random group; each next group is drawn
    with probability proportional to exp(beta x delta), delta = how much it lies on the other side of the wanted
    prevalence; of the last two numbers of groups, the one closer to the share is taken. Higher beta: closer
    prevalence, fewer different draws, and groups that are never tested (``BalanceReport.picks``).

    Promises: no group is on both sides; each side has a group; draw i does not depend on ``n_splits``. How close size
    and prevalence come depends on the groups; with fewer than about ten, draws come back to few good test sets.

    O(n) once; then O(groups log groups + n) a draw, with beta O(groups^2). Source of beta: Yoyodyne Data Science
    (2020), GroupStratifiedShuffleSplit. Corrected here: k or k - 1 groups, whichever is closer (the text's rule; its
    code always overshoots); exponents are shifted by their maximum, so no beta overflows; delta is defined for any
    number of classes (with two it is the published one).
    """

    needs = Needs(y="classes", groups=True)
    promises = DrawSplitter.promises | {"groups_whole"}
    version = 2

    def __init__(
        self, n_splits: int = 10, *, train_size: float | int = 0.8, beta: float | None = None, random_state: int = 0
    ) -> None:
        self.n_splits, self.train_size, self.beta, self.random_state = n_splits, train_size, beta, random_state

    def sizes(self, n: int) -> tuple[int, int]:
        return sizes_of(n, None, self.train_size, default=0.2)

    def prepare(self, rows: Rows) -> GroupCounts:
        sizes, counts, _ = table_to_pack(rows)
        wanted, totals = self.sizes(rows.n), counts.sum(axis=0)
        pulls = np.zeros((1 + totals.size, sizes.size + 1))
        pulls[0, :-1] = sizes / rows.n
        pulls[1:, :-1] = (counts.T - totals[:, None] / rows.n * sizes) / wanted[1]
        return GroupCounts(rows.groups, counts, sizes, pulls, wanted)

    def draw(self, rows: GroupCounts, stream: Stream) -> Pair:
        tested = _repaired(rows, stream) if self.beta is None else ~_tempered(rows, float(self.beta), stream)
        side = tested[rows.groups]
        return np.flatnonzero(~side), np.flatnonzero(side)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        require_two_classes(rows, "GroupShuffleSplit")
        if self.beta is not None:
            check_number("beta", self.beta, "or None for the default")


def _repaired(table: GroupCounts, stream: Stream) -> NDArray[np.bool_]:
    """Return which groups are tested: those of a random draw, repaired."""
    n_groups = table.sizes.size
    order = stream.permutation(n_groups)
    tested = np.zeros(n_groups + 1, dtype=np.bool_)
    tested[order[groups_until(table.sizes[order], table.wanted[1], n_groups - 1)]] = True
    for _ in range(REPAIRS):
        totals, counts = table.counts.sum(axis=0), table.counts[tested[:-1]].sum(axis=0)
        size, n = int(counts.sum()), int(totals.sum())
        shares = (counts - totals / n * size) / table.wanted[1]
        off = np.append((size - table.wanted[1]) / n, shares)
        if np.abs(off).max() <= CLOSE / n_groups:
            break
        n_tested = int(tested[:-1].sum())
        leaving = _candidates(tested[:-1], may_gain=n_groups - n_tested > 1, stream=stream)
        coming = _candidates(~tested[:-1], may_gain=n_tested > 1, stream=stream)
        swap = _swap(off, table.pulls[:, leaving], table.pulls[:, coming], CLOSE / n_groups, stream)
        if swap is None:
            break
        tested[leaving[swap[0]]], tested[coming[swap[1]]] = False, True
    return tested[:-1]


def _candidates(side: NDArray[np.bool_], may_gain: bool, stream: Stream) -> IntArray:
    """Return up to 64 random groups that may leave a side; the empty group among them if the side may just gain one."""
    groups = np.flatnonzero(side)
    if groups.size > CANDIDATES:
        groups = groups[stream.permutation(groups.size)[:CANDIDATES]]
    return np.append(groups, side.size) if may_gain else groups


def _swap(
    off: NDArray[np.float64], leaving: NDArray[np.float64], coming: NDArray[np.float64], close: float, stream: Stream
) -> tuple[int, int] | None:
    """Return which group leaves and which comes, by place, or None where every swap would make it worse."""
    after = off[:, None, None] - leaving[:, :, None] + coming[:, None, :]
    good = np.flatnonzero((np.abs(after) <= close).all(axis=0))
    if good.size:
        place = good[stream.below(good.size, 1)[0]]
    else:
        after *= after
        cost = np.add.reduce(after, axis=0)
        place = np.argmin(cost)
        # cumsum adds one after another, as the reduction over the first axis does; sum() would add in pairs.
        if cost.reshape(-1)[place] >= np.cumsum(off * off)[-1]:
            return None
    leaves, comes = divmod(int(place), coming.shape[1])
    return leaves, comes


def _tempered(table: GroupCounts, beta: float, stream: Stream) -> NDArray[np.bool_]:
    """Return which groups are trained on, by the published rule: one after another, leaning back to the shares."""
    counts, wanted = table.counts, table.wanted[0]
    chosen = [int(stream.below(table.sizes.size, 1)[0])]
    left = np.delete(np.arange(table.sizes.size), chosen[0])
    inside = counts[chosen[0]].copy()
    totals = counts.sum(axis=0)
    while inside.sum() < wanted and left.size > 1:
        # How far each group that is left lies on the other side of the wanted prevalence: the distance between the
        # train set's prevalences and the group's, in the direction in which the train set is off (of absolute sum 1).
        # With two classes that is sgn(I_train - I) x (I_train - I_group).
        now, delta = inside / inside.sum(), np.zeros(left.size)
        lean = now - totals / totals.sum()
        scale = np.cumsum(np.abs(lean))[-1]
        for c, direction in enumerate((lean / scale).tolist() if scale > 0 else ()):
            delta += direction * (now[c] - counts[left, c] / table.sizes[left])
        # The greatest exponent becomes 0, so at any beta some weight is above 0.
        place = weighted_choice(exp_weights(beta * (delta - delta.max())), int(stream.raw(1)[0]))
        chosen.append(int(left[place]))
        left = np.delete(left, place)
        inside += counts[chosen[-1]]
    k = int(inside.sum())
    if len(chosen) > 1 and abs(k - int(table.sizes[chosen[-1]]) - wanted) < abs(k - wanted):
        chosen.pop()
    trained = np.zeros(table.sizes.size, dtype=np.bool_)
    trained[chosen] = True
    return trained

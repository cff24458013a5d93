"""The bootstrap: train on n rows drawn with replacement, test on the rows that were not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import factorial
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, Pair
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import key_hashes, splitmix64
from evenfold.splitters.numbers import DRAWS, IntArray, Stream, stable_order
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray


class Bootstrap(DrawSplitter):
    """Resamples of n rows with replacement; the rows left out are the test set.

    Promises: train has n rows, some of them several times; test is every row that train lacks, a share of .368 for
    large n; resample i does not depend on ``n_splits``, so 500 resamples are the first 500 of 10,000. A draw that
    leaves no row out (likely only below about 5 rows) is drawn again.

    O(n) a resample, memory flat. Source: Efron (1979), Bootstrap methods: another look at the jackknife.
    """

    needs = Needs(y="ignored")
    promises = DrawSplitter.promises | {"out_of_bag", "n_draws"}

    def __init__(self, n_splits: int = 200, *, random_state: int = 0) -> None:
        self.n_splits, self.random_state = n_splits, random_state

    def resamples(self, rows: Rows) -> Iterator[IntArray]:
        """Yield for each resample how often it draws each row: a resample without its lists of positions."""
        prepared = self.prepare(rows)
        return (self.counts(prepared, self._stream(DRAWS, i)) for i in range(self.n_splits))

    def draw(self, rows: Any, stream: Stream) -> Pair:
        """Return one (drawn rows with repeats, rows not drawn), positions ascending."""
        counts = self.counts(rows, stream)
        return np.repeat(np.arange(counts.size), counts), np.flatnonzero(counts == 0)

    def prepare(self, rows: Rows) -> Any:
        """Return room for n drawn rows, which all draws use in turn: making room costs as much as drawing."""
        return np.empty(rows.n, dtype=np.int64)

    def counts(self, room: Any, stream: Stream) -> IntArray:
        """Return how often each row is drawn; the counts sum to n and at least one of them is 0."""
        # Counted into a new array: the room is overwritten by the next draw.
        counts = np.bincount(stream.below(room.size, room.size, out=room), minlength=room.size)
        return self.counts(room, stream) if counts.all() else counts


class StratifiedBootstrap(Bootstrap):
    """Resamples that draw each class as often as it has rows, with replacement within the class.

    Promises: train has n rows and as many of each class as there are; test is every row that train lacks; resample i
    does not depend on ``n_splits``. A class of one row is in no test set; a draw that leaves no row out is drawn again.

    O(n) a resample. Source: Davison and Hinkley (1997), Bootstrap methods and their application, chapter 3.
    """

    needs = Needs(y="classes")
    promises = Bootstrap.promises | {"draws_classes"}

    def prepare(self, rows: Rows) -> tuple[IntArray, IntArray]:
        """Return the rows class by class, and the rows of each class."""
        sizes = rows.class_counts()
        return stable_order(rows.y), sizes[sizes > 0]  # a locked part may hold all rows of a class

    def counts(self, rows: tuple[IntArray, IntArray], stream: Stream) -> IntArray:
        """Return how often each row is drawn; the counts of a class sum to its size."""
        order, sizes = rows
        spans = zip((np.cumsum(sizes) - sizes).tolist(), sizes.tolist(), strict=True)
        drawn = np.concatenate([begin + stream.below(size, size) for begin, size in spans])
        counts = np.empty(drawn.size, dtype=np.int64)
        counts[order] = np.bincount(drawn, minlength=drawn.size)
        return self.counts(rows, stream) if counts.all() else counts

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.class_counts().max() == 1:
            what = f"{rows.called('y')} has {rows.n:,} classes in {rows.n:,} rows, so a draw by class takes every row"
            raise SplitError(f"{what}; use Bootstrap, or classes of two rows and more.")


class GroupBootstrap(Bootstrap):
    """Resamples of as many groups as there are, with replacement; the groups left out are the test set.

    Promises: every row of a group is drawn equally often; test is every row that train lacks, so no group is on both
    sides; resample i does not depend on ``n_splits``. Train has as many *groups* as there are, not as many rows.
    A draw that leaves no group out is drawn again.

    O(n) a resample. Source: Davison and Hinkley (1997), Bootstrap methods and their application, section 3.8.
    """

    needs = Needs(y="ignored", groups=True)
    promises = (Bootstrap.promises - {"n_draws"}) | {"groups_whole", "draws_groups"}
    version = 2

    def prepare(self, rows: Rows) -> IntArray:
        return np.asarray(rows.groups)

    def counts(self, groups: IntArray, stream: Stream) -> IntArray:
        """Return how often each row is drawn: as often as its group."""
        n_groups = int(groups.max()) + 1
        drawn = np.bincount(stream.below(n_groups, n_groups), minlength=n_groups)
        return self.counts(groups, stream) if drawn.all() else drawn[groups]


# floor(2^64 P(X <= k)) for X Poisson(1) and k = 0, 1, ..., in exact fractions, as far as 64 bits reach; P(X = 0) = 1/e,
# of which 40 terms leave out far less than 2**-64.
_AT_ZERO = sum(Fraction((-1) ** i, factorial(i)) for i in range(40))
_AT_MOST = [_AT_ZERO * sum(Fraction(1, factorial(i)) for i in range(k + 1)) for k in range(20)]
QUANTILES = np.array([int(share * 2**64) for share in _AT_MOST], dtype=np.uint64)


class PoissonBootstrap(Bootstrap):
    """Resamples in which each row is drawn Poisson(1) times, by a hash of its key and the resample's number.

    base = first 64 bits of SHA-256(random_state + "|" + key); word i = number i of the splitmix64 sequence that
    starts at base; the count in resample i is the k with P(X < k) <= word / 2^64 < P(X <= k).

    Promises: a row's count in resample i depends on its key, ``random_state`` and i alone, so old rows keep theirs
    when rows are added; test is every row that train lacks, a share of 1/e in the mean. Train has n rows in the mean,
    with a standard deviation of sqrt(n). Below 65 rows a resample may draw every row or none: that is a SplitError,
    since drawing again would look at the other rows. Above, the odds of it are below 1 in 10^12 a resample.

    O(n) a resample after a microsecond a row for hashes. Source: Chamandy, Muralidharan, Najmi and Naidu (2012),
    Estimating uncertainty for massive data streams; Oza and Russell (2001), Online bagging and boosting.
    """

    needs = Needs(y="ignored", key=True)
    promises = (Bootstrap.promises - {"n_draws"}) | {"by_key_alone"}
    grows = True

    def prepare(self, rows: Rows) -> NDArray[np.uint64]:
        return key_hashes(rows.key, str(self.random_state))

    def counts(self, bases: NDArray[np.uint64], stream: Stream) -> IntArray:
        """Return how often each row is drawn in the resample whose number ends the stream's path."""
        return np.searchsorted(QUANTILES, splitmix64(bases, stream.path[-1]), side="right")

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.n > 64:
            return
        for i, counts in enumerate(self.resamples(rows)):
            if counts.all() or not counts.any():
                what = f"resample {i} draws {'every' if counts.all() else 'none'} of the {rows.n} rows"
                raise SplitError(f"{what}; pass more rows, another random_state, or use Bootstrap, which draws again.")

"""The keyed Poisson bootstrap: how often a row is drawn follows from its key, so old rows stay as data grow."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np
from numpy.typing import NDArray

from ._errors import SplitError
from ._hashing import hashed, mixed
from ._random import IntArray, Stream
from ._rows import Needs, Rows
from .bootstrap import Bootstrap

FEW = 64


def _quantiles() -> NDArray[np.uint64]:
    """Return floor(2^64 P(X <= k)) for X Poisson(1) and k = 0, 1, ..., in exact fractions, as far as 64 bits reach."""
    at_zero = sum(Fraction((-1) ** i, factorial(i)) for i in range(40))
    at_most = [at_zero * sum(Fraction(1, factorial(i)) for i in range(k + 1)) for k in range(20)]
    return np.array([int(share * 2**64) for share in at_most], dtype=np.uint64)


QUANTILES = _quantiles()


class PoissonBootstrap(Bootstrap):
    """Resamples in which each row is drawn Poisson(1) times, by a hash of its key and the resample's number.

    base = first 64 bits of SHA-256(random_state + "|" + key); word i = number i of the splitmix64 sequence that
    starts at base; the count in resample i is the k with P(X < k) <= word / 2^64 < P(X <= k).

    Promises: a row's count in resample i depends on its key, ``random_state`` and i alone, so old rows keep theirs
    when rows are added, and any part of the rows can be resampled apart; test is every row that train lacks, a share
    of exactly 1/e in the mean. Train has n rows in the mean, with a standard deviation of sqrt(n).
    Below 65 rows a resample may draw every row or none: that is a SplitError, since drawing again would look at the
    other rows. Above, the odds of it are below 1 in 10^12 a resample.

    O(n) a resample after about a microsecond a row for the keys' hashes, memory flat. Source: Chamandy, Muralidharan,
    Najmi and Naidu (2012), Estimating uncertainty for massive data streams; Oza and Russell (2001), Online bagging
    and boosting.
    """

    needs = Needs(y="ignored", key=True)
    promises = (Bootstrap.promises - {"n_draws"}) | {"by_key_alone"}

    def prepare(self, rows: Rows) -> NDArray[np.uint64]:
        """Return each row's base."""
        return hashed(rows.key, str(self.random_state))

    def counts(self, bases: NDArray[np.uint64], stream: Stream) -> IntArray:
        """Return how often each row is drawn in the resample whose number ends the stream's path."""
        words = mixed(bases, stream.path[-1])
        counts = np.zeros(words.size, dtype=np.int64)
        for quantile in QUANTILES:
            reached = words >= quantile
            if not reached.any():
                break
            counts += reached
        return counts

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.n > FEW:
            return
        for i, counts in enumerate(self.resamples(rows)):
            if counts.all() or not counts.any():
                raise SplitError(
                    f"resample {i} draws {'every' if counts.all() else 'none'} of the {rows.n} rows; "
                    "pass more rows, another random_state, or use Bootstrap, which draws again."
                )

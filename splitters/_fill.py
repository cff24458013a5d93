"""The fill kernel: new rows go where their class is furthest below its share, and nothing that is placed moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._order import stable_order
from ._random import IntArray, Stream


def fill(strata: IntArray, held: IntArray, shares: NDArray[np.float64], stream: Stream) -> IntArray:
    """Return a bin for each new row.

    ``strata`` is each new row's class (or bin of a number, or 0); ``held`` what each bin holds of each stratum already
    (bins by strata); bin f wants ``shares[f]`` of every stratum.
    Promises: after filling, a stratum is as close to its shares as is possible without moving a row: where no bin
    had more than its share before, every bin is within 1 row of it, and so are the sizes. Rows of one stratum are
    interchangeable: which of them goes where is random. O(n log n + strata x bins log bins).
    """
    order = stable_order(strata)
    counts = np.bincount(strata, minlength=held.shape[1])
    bins = np.empty(strata.size, dtype=np.int64)
    owed = np.zeros(shares.size)
    start = 0
    for stratum in np.flatnonzero(counts).tolist():
        count = int(counts[stratum])
        seats, owed = _seats(held[:, stratum], count, shares, owed)
        rows = order[start : start + count]
        bins[rows[stream.permutation(count)]] = np.repeat(np.arange(shares.size), seats)
        start += count
    return bins


def _seats(
    held: IntArray, count: int, shares: NDArray[np.float64], owed: NDArray[np.float64]
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return how many of ``count`` rows each bin gets, and what rounding still owes each bin.

    What is owed is carried from stratum to stratum, so that the sizes are rounded once and not once a stratum.
    """
    wanted = _water(shares * (int(held.sum()) + count) - held, count, shares)
    seats = np.floor(wanted).astype(np.int64)
    left = wanted - seats
    served = np.argsort(-(left + owed), kind="stable")[: count - int(seats.sum())]
    seats[served] += 1
    return seats, owed + wanted - seats


def _water(missing: NDArray[np.float64], count: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of ``count`` that lift the emptiest bins to one level: none where a bin holds too much already."""
    # A bin takes part while its lack per share is above the level; the level is found in the order of lacks.
    lack = missing / shares
    order = np.argsort(-lack, kind="stable")
    levels = (np.cumsum(missing[order]) - count) / np.cumsum(shares[order])
    taking = int(np.flatnonzero(lack[order] > levels)[-1]) + 1 if count else 0
    level = levels[taking - 1] if taking else 0.0
    return np.maximum(missing - level * shares, 0.0) if count else np.zeros(shares.size)

"""The draw kernel: a share of rows in order, even along the order, every row equally likely."""

from __future__ import annotations

import numpy as np

from ._random import IntArray, Stream


def take_evenly(n: int, count: int, stream: Stream) -> IntArray:
    """Return ``count`` of the ranks 0..n-1, ascending: systematic sampling with a random start, in integers.

    Each rank is taken with the same probability, count / n. Among any L consecutive ranks, L x count / n are taken,
    rounded up or down. O(count). Source: Madow and Madow (1944), On the theory of systematic sampling.
    """
    start = int(stream.below(n, 1)[0])
    crossings = np.arange(count) + (start >= count)
    return -((start - crossings * n) // count)


def shuffled_in_blocks(n: int, length: int, stream: Stream) -> IntArray:
    """Return the ranks 0..n-1 with each ``length`` neighbours in random order; the last block may be shorter. O(n)."""
    whole = n - n % length
    blocks = stream.shuffled_rows(whole // length, length) + np.arange(0, whole, length)[:, None]
    return np.concatenate([blocks.reshape(-1), whole + stream.permutation(n - whole)])

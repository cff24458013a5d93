"""The deal kernel: rows in order, neighbours dealt round the folds like cards."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._base import label_type
from ._random import IntArray, Stream


def deal(order: IntArray, n_folds: int, stream: Stream, by: Literal["cycle", "block"]) -> NDArray[Any]:
    """Return a fold for each row, so that neighbours in ``order`` land in different folds.

    ``cycle``: one random permutation of the folds, repeated. In any run of consecutive rows, folds' counts differ
    by at most 1; so classes laid end to end have even counts, and so has the whole.
    ``block``: a fresh permutation for every ``n_folds`` rows. Counts before any point of the order differ by at
    most 1, and which rows meet is as random as that allows.
    A last block that is not full goes to distinct folds. O(n), and O(n log n_folds) for blocks.
    """
    n = order.size
    labels: NDArray[Any] = np.empty(n, dtype=label_type(n_folds))
    if by == "cycle":
        dealt: NDArray[Any] = np.resize(stream.permutation(n_folds).astype(labels.dtype), n)
    else:
        dealt = stream.shuffled_rows(-(-n // n_folds), n_folds).reshape(-1)[:n]
    labels[order] = dealt
    return labels

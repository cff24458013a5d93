"""Packing beside what lies in the bins already."""

from __future__ import annotations

import numpy as np

from ._cost import Aim, FloatArray
from ._pack import DEFAULT_EFFORT
from ._random import IntArray, Stream
from ._refine import Packing
from ._start import place


def pack_into(held: IntArray, table: IntArray, shares: FloatArray, stream: Stream) -> IntArray:
    """Return a bin for each entry of ``table``, where bin f holds ``held[f]`` of each column already.

    The entries go in largest first, each to the bin that lacks most of what it brings, then they are exchanged among
    themselves; what the bins hold stays. Costs and arithmetic are those of ``pack``.
    """
    n_bins = held.shape[0]
    aim = Aim.of(np.vstack([held, table]), shares)
    bins = np.concatenate([np.arange(n_bins), np.full(table.shape[0], -1)])
    place(aim, bins, stream)
    packing = Packing(aim, bins, stream, np.arange(n_bins, bins.size))
    packing.improve(DEFAULT_EFFORT)
    return packing.bins[n_bins:]

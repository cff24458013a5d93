"""Where a packing starts: identical entries dealt out at once, the others one by one, large before small."""

from __future__ import annotations

import numpy as np
from evenfold.splitters.kernels.hashing import combined
from evenfold.splitters.kernels.order import stable_order
from evenfold.splitters.kernels.random import IntArray, Stream

from .cost import Aim, FloatArray


def kinds(table: IntArray) -> IntArray:
    """Return a number for each row of ``table`` that identical rows share. O(n log n)."""
    order = stable_order(combined(table.T))
    # Different rows of one code stand side by side, so neighbours are compared value by value.
    ranked = table[order]
    starts = np.ones(order.size, dtype=np.bool_)
    starts[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    kind = np.empty(order.size, dtype=np.int64)
    kind[order] = np.cumsum(starts) - 1
    return kind


def deal_identical(kind: IntArray, shares: FloatArray, stream: Stream) -> IntArray:
    """Return a bin for as many entries of each kind as go to every bin in its share, and -1 for the others.

    Of m entries of a kind, bin f gets floor(m * shares[f]), which ones at random. O(n log n).
    """
    shuffled = stream.permutation(kind.size)
    order = shuffled[stable_order(kind[shuffled])]
    counts = np.bincount(kind)
    # Kind after kind: bin 0's entries, bin 1's, ..., then those that whole shares leave over.
    quota = np.floor(counts[:, None] * shares).astype(np.int64)
    quota = np.column_stack([quota, counts - quota.sum(axis=1)])
    bins = np.empty(kind.size, dtype=np.int64)
    bins[order] = np.repeat(np.tile(np.append(np.arange(shares.size), -1), counts.size), quota.reshape(-1))
    return bins


def place(aim: Aim, bins: IntArray, stream: Stream) -> None:
    """Give every entry whose bin is -1 the bin that wants it most, in place.

    Large entries go first (by powers of 2, those of about the same size in random order). What a bin wants is the
    sum over the columns of what it still misses times what the entry brings, relative to the column's total.
    No bin stays empty while there are as many entries. One vectorised step an entry of O(bins x columns).
    """
    columns = np.column_stack([aim.sizes, aim.table])
    left = np.flatnonzero(bins < 0)
    left = left[stream.permutation(left.size)]
    left = left[stable_order(-np.frexp(aim.sizes[left].astype(np.float64))[1])]
    # A bin's wish for an entry is the sum over columns of (missing / total) x (brings / total).
    totals = np.maximum(columns.sum(axis=0), 1).astype(np.float64)
    pull = (columns[left] / (totals * totals))[:, :, None]
    brings = columns[left].astype(np.float64)
    missing = totals[:, None] * aim.shares - aim.loads(np.where(bins < 0, aim.shares.size, bins))
    empty = set(range(aim.shares.size)) - set(bins[bins >= 0].tolist())
    wish, gain = np.empty_like(missing), np.empty(aim.shares.size)
    exact, taken, turns = aim.exact, np.zeros(aim.shares.size), left.size
    chosen = np.empty(left.size, dtype=np.int64)
    # A hundred thousand groups are as many turns: nothing is looked up in them that is the same in each.
    # columns_of is a view: what a bin gets is taken from `missing`.
    multiply, add_up, columns_of = np.multiply, np.add.reduce, missing.T
    for turn, (wants, rows) in enumerate(zip(pull, brings, strict=True)):
        add_up(multiply(missing, wants, wish), axis=0, out=gain)
        if exact:  # sizes come out exact when every bin gets one entry before any gets its next
            gain += taken
        # As many bins are empty as entries are left: each must get one of them.
        if empty and len(empty) >= turns - turn:
            gain[[f for f in range(gain.size) if f not in empty]] = -np.inf
        best = int(gain.argmax())
        chosen[turn] = best
        if empty:
            empty.discard(best)
        columns_of[best] -= rows
        if exact:
            taken[best] = -np.inf
            if (turn + 1) % taken.size == 0:
                taken[:] = 0.0
    bins[left] = chosen

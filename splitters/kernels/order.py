"""The one place where rows are put in order, faster than an argsort and alike on every machine; and what joins them."""

from __future__ import annotations

from typing import Any

import numpy as np
from evenfold.splitters.numbers import IntArray
from numpy.typing import NDArray

STRETCH = 1 << 20
_SIGN = np.int64(-(2**63))


def stable_order(values: NDArray[Any]) -> IntArray:
    """Return the positions of ``values`` in ascending order, equal values by position. Values are finite.

    NumPy's fast argsorts leave equal values in an order that differs between CPUs. Here each value's leading bits and
    its position share one 64-bit integer: all are different, so any sort of them gives the same order, and sorting
    values is several times faster than sorting positions. Where leading bits are equal and later ones are not, the
    few rows concerned are put right afterwards. O(n log n).
    """
    if values.size == 0 or values.dtype.kind == "O" or values.dtype.itemsize <= 2:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)  # small integers: a radix sort, O(n)
    keys, position_bits = _ordered_bits(values), max(values.size - 1, 1).bit_length()
    # A narrow range leaves room for the position, so that nothing of most columns is lost.
    keys -= keys.min()
    lost = max(int(keys.max()).bit_length() + position_bits - 64, 0)
    keys >>= np.uint64(lost)
    keys <<= np.uint64(position_bits)
    keys |= np.arange(keys.size, dtype=np.uint64)
    keys.sort()
    order: IntArray = (keys & np.uint64((1 << position_bits) - 1)).view(np.int64)
    if lost:
        keys >>= np.uint64(position_bits)
        _put_right(order, keys, values)
    return order


def places_in(ordered: NDArray[np.int64], wanted: NDArray[np.int64]) -> IntArray:
    """Return where each wanted whole number stands among ``ordered``, one or more that ascend; -1 where it does not.

    By a table of all numbers between the ends, where it has at most four places a number; else by search, a stretch of
    sorted numbers at a time, so that its steps lie near one another. Holds little beside the table and what it returns.
    O(ordered + wanted), or O(wanted log ordered).
    """
    places, (least, most) = np.empty(wanted.size, dtype=np.int64), ordered[[0, -1]]
    width, table = int(most) - int(least) + 1, None
    if ordered.size < width <= 4 * min(ordered.size, 8 * wanted.size):
        table = np.full(width, -1, dtype=np.int32 if ordered.size < 2**31 else np.int64)
        for start in range(0, ordered.size, STRETCH):
            part = ordered[start : start + STRETCH] - least
            table[part] = np.arange(start, start + part.size)
    for start in range(0, wanted.size, STRETCH):
        part, place = wanted[start : start + STRETCH], places[start : start + STRETCH]
        if table is None and width > ordered.size:
            order = stable_order(part)
            near = np.minimum(np.searchsorted(ordered, part[order]), ordered.size - 1)
            place[order] = np.where(ordered[near] == part[order], near, -1)
        else:
            near = np.clip(part, least, most)
            at = near - least
            place[:] = np.where(near == part, at if table is None else table[at], -1)
    return places


def _ordered_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a new array of integers that are in the same order as the numbers or times."""
    if values.dtype.kind == "u":
        return values.astype(np.uint64)
    if values.dtype.kind != "f":
        return (values.astype(np.int64) ^ _SIGN).view(np.uint64)
    bits = (values.astype(np.float64, copy=False) + 0.0).view(np.int64)  # -0.0 becomes 0.0
    # As integers, doubles below 0 run backwards: of those all bits are flipped, of the others the sign alone.
    flipped = bits >> np.int64(63)
    flipped |= _SIGN
    bits ^= flipped
    return bits.view(np.uint64)


def _put_right(order: IntArray, leading: NDArray[np.uint64], values: NDArray[Any]) -> None:
    """Order rows of equal leading bits by their whole values; the slots they take together stay the same."""
    # tied[i] says whether slot i has the leading bits of slot i - 1.
    tied = np.zeros(order.size + 1, dtype=np.bool_)
    np.equal(leading[1:], leading[:-1], out=tied[1:-1])
    slots = np.flatnonzero(tied[1:] | tied[:-1])
    rows = order[slots]
    ranked = values[rows]
    # All at once: rows of different leading bits are in order, so none leaves the slots of its own tie.
    if (ranked[1:] < ranked[:-1]).any():
        order[slots] = rows[np.argsort(ranked, kind="stable")]


def components_of(entities: IntArray) -> IntArray:
    """Return the component of each row, by first appearance: rows that share a level of any column have the same one.

    ``entities`` (rows, columns) are codes from 0 on; a code below 0 is no level and joins nothing. About O(rows x
    columns). Levels are the nodes and rows the edges; a row's levels hang on a node of its own.
    """
    n = entities.shape[0]
    sizes = entities.max(axis=0, initial=-1) + 1
    # Nodes 0 to n - 1 are the rows, then each column's levels after those of the columns before it.
    nodes = entities + n + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    present = entities >= 0
    rows = np.broadcast_to(np.arange(n)[:, None], entities.shape)[present]
    return by_appearance(joined_by(rows, nodes[present], n + int(sizes.sum()))[:n])


def joined_by(a: IntArray, b: IntArray, n: int) -> IntArray:
    """Return the component of each of ``n`` nodes that the edges from ``a`` to ``b`` join."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(n, n))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)


def by_appearance(codes: NDArray[np.integer]) -> IntArray:
    """Return codes from 0 on in the order in which they first appear."""
    from pandas import factorize

    return factorize(codes)[0]

"""Rows that share any of several entities, joined until nothing is shared: connected components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .random import IntArray


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
    edges = coo_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(n, n))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)


def by_appearance(codes: NDArray[np.integer]) -> IntArray:
    """Return codes from 0 on in the order in which they first appear."""
    from pandas import factorize

    return factorize(codes)[0]

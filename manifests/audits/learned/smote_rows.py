"""Rows that lie exactly between two others: synthetic rows, made of two real ones each to even out classes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from .sample import Array, Codes, Column, Target

LEAST_COLUMNS, MOST_DIMENSIONS = 4, 16
LEAST_ROWS, MOST_ROWS = 30, 5_000  # of a class: the small ones are evened out
NEIGHBOURS = 12
STRAIGHT = 1e-3  # of the distance between the ends
INSIDE = 0.02  # of that distance, from either end
FLAT = 1e-2  # variance of a direction, of the widest, below which the rows hardly fill it
CHUNK = 500


def rows_between(columns: list[Column], target: Target | None) -> tuple[Codes, Codes]:
    """Return pairs of a row and each end of the segment that it lies on, inside its class.

    The ends are sought among the twelve nearest rows, by spreads and in the columns' own units. In four dimensions or
    more chance hardly ever puts a row so near to such a segment (a thousandth of its length). The ends differ in four
    columns at least, and classes of over 5,000 rows are not looked at. O(rows x 66 x columns).
    """
    found: list[Codes] = [np.empty((2, 0), dtype=np.int64)]
    whole = ~np.any([np.isnan(column.values) for column in columns], axis=0)
    for rows in _classes(target, whole):
        space = np.column_stack([column.values[rows] for column in columns])
        if not LEAST_ROWS <= rows.size <= MOST_ROWS:
            continue
        space = space[:, space.std(axis=0) > 0]
        if space.shape[1] < LEAST_COLUMNS:
            continue
        views = [space, space / space.std(axis=0)]
        space = (space - space.mean(axis=0)) / space.std(axis=0)
        spread = np.linalg.eigvalsh(np.cov(space.T))
        if np.count_nonzero(spread > FLAT * spread[-1]) >= LEAST_COLUMNS:
            found += [rows[pairs] for view in views for pairs in _between(space, view[:, :MOST_DIMENSIONS])]
    both = np.hstack(found)
    return both[0], both[1]


def _classes(target: Target | None, whole: Codes) -> Iterator[Codes]:
    if target is None or target.numeric:
        yield np.flatnonzero(whole)
        return
    for code in np.unique(target.values[target.present]):
        yield np.flatnonzero(whole & target.present & (target.values == code))


def _between(space: Array, view: Array) -> Iterator[Codes]:
    from scipy.spatial import cKDTree

    k = min(NEIGHBOURS + 1, len(space) - 1)
    nearest = cKDTree(view).query(view, k=k + 1)[1]
    one, other = (np.array(side) for side in zip(*combinations(range(k + 1), 2), strict=True))
    for start in range(0, len(space), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(space)))
        ends = space[nearest[rows]] - space[rows, None]  # seen from the row itself
        distances = np.einsum("rki,rki->rk", ends, ends)
        inner = np.einsum("rki,rli->rkl", ends, ends)[:, one, other]
        a, b = distances[:, one], distances[:, other]
        # All from inner products, with the row at the origin: |p - q|^2, where on the line from p to q the foot of the
        # perpendicular lies, and the squared height over the squared length.
        length = a + b - 2.0 * inner
        with np.errstate(invalid="ignore", divide="ignore"):
            place = (a - inner) / length
            off = np.maximum(a * b - inner * inner, 0.0) / np.square(length)
        straight = (off < STRAIGHT**2) & (place > INSIDE) & (place < 1.0 - INSIDE)
        row, pair = np.nonzero(straight & (length > 1e-12))
        moved = np.count_nonzero(np.abs(ends[row, one[pair]] - ends[row, other[pair]]) > 1e-9, axis=1)
        row, pair = row[moved >= LEAST_COLUMNS], pair[moved >= LEAST_COLUMNS]
        ends_of = nearest[rows[row]]
        for side in (one, other):
            yield np.stack([rows[row], ends_of[np.arange(row.size), side[pair]]])

"""The rows that are set aside before anything else is decided."""

from __future__ import annotations

import numpy as np

from ._errors import SplitError
from ._evenly import shuffled_in_blocks, take_evenly
from ._order import stable_order
from ._pack import pack
from ._random import IntArray, Stream
from ._rows import Rows
from ._table import table_to_pack


def locked_rows(rows: Rows, fraction: float, stream: Stream) -> IntArray:
    """Return the positions, ascending, of about ``fraction`` of the rows: as even a part as the strategy's own folds.

    Groups stay whole and are packed; else classes, or the order of numbers, have their share to within one row.
    O(n log n).
    """
    if rows.groups is not None:
        sizes, table, weights = table_to_pack(rows)
        shares = np.array([1.0 - fraction, fraction])
        return np.flatnonzero((pack(table, shares, stream, sizes=sizes, weights=weights) == 1)[rows.groups])
    order = _even_order(rows, fraction, stream)
    return np.sort(order[take_evenly(rows.n, round(fraction * rows.n), stream)])


def _even_order(rows: Rows, fraction: float, stream: Stream) -> IntArray:
    """Return the rows so that any regular pick among neighbours is a fair share of every class or range."""
    if rows.y is None:
        return stream.permutation(rows.n)
    if rows.y.dtype.kind == "f":
        return stable_order(rows.y)[shuffled_in_blocks(rows.n, max(2, round(1 / fraction)), stream)]
    shuffled = stream.permutation(rows.n)
    codes = rows.y if rows.y.ndim == 1 else np.unique(rows.y, axis=0, return_inverse=True)[1].reshape(-1)
    return shuffled[stable_order(codes[shuffled])]


def check_fraction(fraction: object, rows: Rows) -> None:
    """Raise SplitError unless ``fraction`` is between 0 and 1 and leaves a row, and a group, on each side."""
    if not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise SplitError(f"the holdout's fraction={fraction!r}; choose a number above 0 and below 1, such as 0.2.")
    units, what = (rows.n_groups, "groups") if rows.groups is not None else (rows.n, "rows")
    if round(fraction * rows.n) < 1 or units < 3:
        raise SplitError(
            f"a holdout of {fraction:g} of {units:,} {what} leaves too few on one side; pass more {what}, "
            "or choose another fraction."
        )

"""Groups in random order until they are about the wanted number of rows."""

from __future__ import annotations

import numpy as np

from ._random import IntArray


def groups_until(sizes: IntArray, wanted: int, most: int) -> IntArray:
    """Return the places of the groups to take from an order so that their rows come close to ``wanted``.

    ``sizes`` are the groups' rows in that order. Groups are taken while they bring the number of rows closer; those
    that alone would miss it by more than none at all are passed over, unless all are like that. At least one
    group is taken and at most ``most``. The number is missed by half the largest group taken or met after, at most,
    as long as the groups suffice. O(groups).
    """
    fit = np.flatnonzero(sizes < 2 * wanted)
    fit = fit if fit.size else np.arange(1)
    missed = np.abs(np.cumsum(sizes[fit])[:most] - wanted)
    return fit[: 1 + int(np.argmin(missed))]

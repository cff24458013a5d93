"""Which rows have another row of their unit on the other side of a split."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from evenfold.manifests.joined import Joined
from evenfold.manifests.tables.canonical import listed
from numpy.typing import NDArray


@dataclass(frozen=True)
class Crossings:
    """The number of rows with another row of their unit on the other side of a split, in each fold and in words."""

    count: int
    places: dict[str, int]
    where: str


def where(places: Collection[str]) -> str:
    """Return in words where rows are, of the names of folds, splits and parts."""
    numbers: dict[str, list[str]] = {}
    for noun, _, number in (place.rpartition(" ") for place in places):
        if noun and number.isdigit():
            numbers.setdefault(noun, []).append(number)
    listing = [f"{noun}{'s' if len(of) > 1 else ''} {listed(of, most=8)}" for noun, of in numbers.items()]
    return listed([*listing, *(place for place in places if not (" " in place and place.rpartition(" ")[2].isdigit()))])


def crossings(joined: Joined, units: NDArray[np.int64]) -> Crossings:
    """Return which rows of the data cross, for ``units`` that number what belongs together (-1: nothing does).

    Of labels two rows cross where their codes differ and both are trained on, tested or locked; of draws and pairs
    where one is in train and the other in test of the same split, or one is locked and the other is not.
    O(n x repeats), or O(n x splits).
    """
    rows, places = joined.crossing(units)
    return Crossings(int(np.count_nonzero(rows)), places, where(places) + joined.looked_at)

"""What belongs together and lies on both sides of a split: the one question behind every kind of leak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from evenfold.splitters import Pair
from numpy.typing import NDArray

from ._joined import Joined, fold_name
from ._manifest import LOCKED
from ._words import listed


@dataclass(frozen=True, eq=False)
class Crossings:
    """The rows with another row of their unit on the other side of a split, and how many of them each fold has."""

    rows: NDArray[np.bool_]
    places: dict[str, int]
    looked_at: str

    @property
    def count(self) -> int:
        """The number of such rows."""
        return int(np.count_nonzero(self.rows))

    def where(self) -> str:
        """Return in words where they are: ``folds 0, 2 and 4``."""
        nouns = dict.fromkeys(place.partition(" ")[0] for place in self.places if place[-1].isdigit())
        told = [_all_of(noun, [place for place in self.places if place.startswith(noun + " ")]) for noun in nouns]
        return listed([*told, *(place for place in self.places if not place[-1].isdigit())]) + self.looked_at


def _all_of(noun: str, places: list[str]) -> str:
    numbers = [place.removeprefix(noun + " ") for place in places]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {listed(numbers, most=8)}"


def crossings(joined: Joined, units: NDArray[np.int64]) -> Crossings:
    """Return which rows of the data cross, for ``units`` that number what belongs together (-1: nothing does).

    Of labels two rows cross where their codes differ and both are trained on, tested or locked; of draws and pairs
    where one is in train and the other in test of the same split, or one is locked and the other is not.
    O(n x repeats), or O(n x splits).
    """
    shared = np.where(np.bincount(units[units >= 0], minlength=1)[units] > 1, units, -1) if units.size else units
    shared[units < 0] = -1
    return _of_labels(joined, shared) if joined.manifest.kind == "labels" else _of_pairs(joined, shared)


def _of_labels(joined: Joined, units: NDArray[np.int64]) -> Crossings:
    rows = np.zeros(joined.n, dtype=np.bool_)
    for codes in joined.codes.T:
        placed = np.flatnonzero((units >= 0) & (codes >= LOCKED))
        of, code = units[placed], codes[placed].astype(np.int64)
        n_units = units.max(initial=-1) + 1
        least, most = np.full(n_units, code.max(initial=0)), np.full(n_units, LOCKED)
        np.minimum.at(least, of, code)
        np.maximum.at(most, of, code)
        rows[placed[least[of] < most[of]]] = True
    parts = joined.manifest.part_codes()
    found, counts = np.unique(joined.codes[rows, 0], return_counts=True)
    placed_in = {fold_name(int(code), parts): int(count) for code, count in zip(found, counts, strict=True)}
    return Crossings(rows, placed_in, joined.looked_at)


def _of_pairs(joined: Joined, units: NDArray[np.int64]) -> Crossings:
    rows, places = np.zeros(joined.n, dtype=np.bool_), {}
    for place, (train, test) in _sides(joined):
        trained, tested = (_marked(units, side) for side in (train, test))
        both = np.append(trained & tested, False)  # the last for units of -1
        crossing = test[both[units[test]]]
        rows[crossing] = True
        rows[train[both[units[train]]]] = True
        if crossing.size:
            places[place] = int(crossing.size)
    return Crossings(rows, places, joined.looked_at)


def _sides(joined: Joined) -> Iterator[tuple[str, Pair]]:
    for i, pair in enumerate(joined.splits()):
        yield f"split {i}", pair
    codes = joined.codes[:, 0]
    if (codes == LOCKED).any():
        yield "the locked rows", (np.flatnonzero(codes > LOCKED), np.flatnonzero(codes == LOCKED))


def _marked(units: NDArray[np.int64], side: NDArray[np.int64]) -> NDArray[np.bool_]:
    marks = np.zeros(units.max(initial=-1) + 1, dtype=np.bool_)
    of = units[side]
    marks[of[of >= 0]] = True
    return marks

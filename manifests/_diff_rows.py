"""The rows of two manifests side by side, by key."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from evenfold.splitters import Pair
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ._decide import is_numeric_target
from ._identity import resample_counts
from ._joined import Joined, fold_name
from ._manifest import DELETED, QUARANTINED, Manifest
from ._match import positions_in
from ._words import amount

MOST_SPLITS = 200
Ranks = NDArray[np.int64]


class Rows(BaseModel):
    """Rows that went the same way: from one fold (None: not in a) to another (None: not in b), and their classes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str | None
    to: str | None
    rows: int
    classes: dict[str, int] | None = None


class Match:
    """Two manifests whose rows have been matched; ``place`` is the rank in b of each row of a, -1 where it has none."""

    def __init__(self, a: Manifest, b: Manifest, data: Any = None) -> None:
        self.a, self.b = a, b
        self.place = np.arange(a.n) if a.keys is None or b.keys is None else positions_in(b.keys, a.keys)
        self.in_a, self.in_b = a.status != DELETED, b.status != DELETED
        self.classes = [None if data is None else _classes(each, data) for each in (a, b)]

    @cached_property
    def both(self) -> Ranks:
        """The ranks in a of rows that are in both."""
        return np.flatnonzero((self.place >= 0) & self.in_a & self.in_b[self.place])

    def moved(self) -> tuple[list[Rows], int]:
        """Return the rows on another side, and how many different rows they are."""
        return self._moved_labels() if self.a.kind == "labels" else self._moved_splits()

    def _moved_labels(self) -> tuple[list[Rows], int]:
        ours = self.a.codes.reshape(self.a.n, -1)[self.both]
        theirs = self.b.codes.reshape(self.b.n, -1)[self.place[self.both]]
        repeats = min(ours.shape[1], theirs.shape[1])
        differs = ours[:, :repeats] != theirs[:, :repeats]
        moved = np.flatnonzero(differs.any(axis=1))
        first = differs[moved].argmax(axis=1)
        ways = np.column_stack([ours[moved, first], theirs[moved, first]])
        return self._counted(self.both[moved], ways), int(moved.size)

    def _moved_splits(self) -> tuple[list[Rows], int]:
        anywhere, told = np.zeros(self.both.size, dtype=np.bool_), []
        for i in range(min(self.a.n_splits, self.b.n_splits, MOST_SPLITS)):
            ours, theirs = _sides(self.a, self.a.pair(i)), _sides(self.b, self.b.pair(i))
            differs = ours[self.both] != theirs[self.place[self.both]]
            anywhere |= differs
            if differs.any():
                classes = self._class_counts(0, self.both[differs])
                told.append(Rows(of=f"split {i}", to=f"split {i}", rows=int(differs.sum()), classes=classes))
        return told, int(anywhere.sum())

    def added(self) -> list[Rows]:
        """Return the rows of b that a lacks, by fold."""
        known = np.zeros(self.b.n, dtype=np.bool_)
        known[self.place[(self.place >= 0) & self.in_a]] = True
        return self._single(1, np.flatnonzero(self.in_b & ~known))

    def removed(self) -> list[Rows]:
        """Return the rows of a that b lacks, or holds as deleted, by fold."""
        kept = (self.place >= 0) & self.in_b[self.place]
        return self._single(0, np.flatnonzero(self.in_a & ~kept))

    def quarantined(self) -> list[str]:
        """Return a sentence where rows of both were quarantined in between."""
        before, after = self.a.status[self.both], self.b.status[self.place[self.both]]
        rows = int(np.count_nonzero((before != QUARANTINED) & (after == QUARANTINED)))
        return [f"{amount(rows, 'row')} quarantined; their folds are kept."] if rows else []

    def _single(self, side: int, ranks: Ranks) -> list[Rows]:
        manifest = (self.a, self.b)[side]
        codes = manifest.codes.reshape(manifest.n, -1)[ranks, 0]
        told = []
        for code in np.unique(codes).tolist():
            rows = ranks[codes == code]
            way = {("of", "to")[side]: _place(manifest, code), ("to", "of")[side]: None}
            told.append(Rows(rows=rows.size, classes=self._class_counts(side, rows), **way))
        return told

    def _counted(self, ranks: Ranks, ways: NDArray[Any]) -> list[Rows]:
        if not ranks.size:
            return []
        found, which = np.unique(ways, axis=0, return_inverse=True)
        return [
            Rows(
                of=_place(self.a, int(of)),
                to=_place(self.b, int(to)),
                rows=int(np.count_nonzero(which.reshape(-1) == number)),
                classes=self._class_counts(0, ranks[which.reshape(-1) == number]),
            )
            for number, (of, to) in enumerate(found)
        ]

    def _class_counts(self, side: int, ranks: Ranks) -> dict[str, int] | None:
        known = self.classes[side]
        if known is None:
            return None
        codes, levels = known
        counts = np.bincount(codes[ranks] + 1, minlength=len(levels) + 1)
        names = ["not in the data", *map(str, levels)]
        return {names[code]: int(counts[code]) for code in np.flatnonzero(counts)}


def _place(manifest: Manifest, code: int) -> str:
    if manifest.kind != "labels" and code == 0:
        return "the rows in use"
    return fold_name(code, manifest.part_codes())


def _sides(manifest: Manifest, pair: Pair) -> Ranks:
    return resample_counts(*pair, manifest.n)


def _classes(manifest: Manifest, data: Any) -> tuple[Ranks, list[Any]] | None:
    """Return the class of each row of a manifest (-1 where the data lack it), none where the target is a number."""
    target = manifest.spec.columns.target
    joined = Joined.of(manifest, data)
    if target is None or is_numeric_target(joined.column(target)):
        return None
    codes, levels = joined.encoded(target)
    return np.where(joined.row_of >= 0, codes[joined.row_of], -1), levels

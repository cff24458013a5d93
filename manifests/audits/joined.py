"""Data beside a manifest: every row's place in it and its folds, whether the two fit each other or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from evenfold.manifests.manifest import DELETED, Manifest, join_positions, keys_of
from evenfold.manifests.membership import LOCKED, NEVER_TESTED, Labels
from evenfold.manifests.spec import Columns
from evenfold.manifests.tables.canonical import canonical_table, listed
from evenfold.manifests.tables.keys import positions_in
from evenfold.manifests.tables.read import is_parquet, read_table
from evenfold.splitters import Pair
from numpy.typing import NDArray

UNKNOWN = -4
MOST_SPLITS = 200
ROLES = ("train", "test")
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Joined:
    """The rows of the data as they stand to a manifest; ``place`` is each row's rank in it, -1 where it has none.

    ``columns`` are the roles to look at: those of the specification unless others were asked for. Columns are read
    when they are wanted, and no others.
    """

    manifest: Manifest
    source: Any
    columns: Columns
    place: NDArray[np.int64]
    keys: pa.Table | None

    @classmethod
    def of(cls, manifest: Manifest, data: Any, **roles: str | None) -> Joined:
        """Return ``data`` beside ``manifest``; SplitError where the key column is absent."""
        parquet = isinstance(data, (str, Path)) and is_parquet(str(data))
        source = data if parquet else read_table(data, types=manifest.spec.types)
        shape = JoinedLabels if isinstance(manifest.in_use, Labels) else cls
        columns = manifest.spec.columns.model_copy(update={name: role for name, role in roles.items() if role})
        if manifest.keys is None:
            return shape(manifest, source, columns, join_positions(manifest, source), None)
        plain = read_table(source, manifest.spec.columns.key, manifest.spec.types)
        place = positions_in(manifest.keys, keys_of(manifest, plain))
        return shape(manifest, source, columns, place, plain)

    @property
    def n(self) -> int:
        """The number of rows of the data."""
        return int(self.place.size)

    @cached_property
    def codes(self) -> NDArray[Any]:
        """The codes in use (rows by repeats): -3 for deleted, quarantined and excluded rows, -4 for unknown ones."""
        codes = self.manifest.in_use.codes[np.maximum(self.place, 0)]
        codes[self.place < 0] = UNKNOWN
        return codes

    @cached_property
    def row_of(self) -> NDArray[np.int64]:
        """The row of the data that each rank of the manifest has, -1 for none."""
        rows = np.full(self.manifest.n, -1, dtype=np.int64)
        known = np.flatnonzero(self.place >= 0)
        rows[self.place[known]] = known
        return rows

    @property
    def n_looked_at(self) -> int:
        """How many splits are looked at: all of labels, at most 200 pairs or draws."""
        return min(self.manifest.n_splits, MOST_SPLITS)

    @property
    def looked_at(self) -> str:
        """A remark for sentences where not all splits are looked at."""
        few = self.n_looked_at < self.manifest.n_splits
        return f" (the first {self.n_looked_at:,} of {self.manifest.n_splits:,} splits were looked at)" if few else ""

    def splits(self) -> Iterator[Pair]:
        """Yield (train, test) as rows of the data, of the splits that are looked at; absent rows are left out."""
        for i in range(self.n_looked_at):
            train, test = (self.row_of[side] for side in self.manifest.pair(i))
            yield train[train >= 0], test[test >= 0]

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of the data in its canonical type; SplitError where there is none."""
        if name not in self._read:
            table = read_table(self.source, [name], self.manifest.spec.types)
            self._read[name] = canonical_table(table, [name], self.manifest.types).column(name)
        return self._read[name]

    @cached_property
    def _read(self) -> dict[str, pa.ChunkedArray]:
        return {}

    def encoded(self, name: str) -> tuple[NDArray[np.int64], list[Any]]:
        """Return a code for each row's value of a column (-1 where it is missing) and the values."""
        encoded = self.column(name).chunk(0).dictionary_encode()  # a canonical column is one chunk
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, encoded.dictionary.to_pylist()

    @property
    def deleted(self) -> NDArray[np.bool_]:
        """Which rows of the data the manifest holds as deleted."""
        return np.asarray((self.place >= 0) & (self.manifest.status[np.maximum(self.place, 0)] == DELETED))

    apart: ClassVar[str] = "on both sides of a split"

    def empty_places(self) -> list[str]:
        """Return the names of folds, or sides of splits, that have no row in the data."""
        sides = (
            (i, role, rows) for i, pair in enumerate(self.splits()) for role, rows in zip(ROLES, pair, strict=True)
        )
        return [f"the {role} side of split {i}" for i, role, rows in sides if not rows.size]

    def class_tables(self, codes: NDArray[np.int64], n_classes: int) -> tuple[Counts, Counts]:
        """Return the rows of each class that each split trains on and tests (splits by classes)."""
        sides = [[_counted(codes[rows], n_classes) for rows in pair] for pair in self.splits()]
        return np.array([train for train, _ in sides]), np.array([test for _, test in sides])

    def crossing(self, units: NDArray[np.int64]) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """Return which rows have another row of their unit on the other side of a split, and how many are where."""
        rows, places = np.zeros(self.n, dtype=np.bool_), {}
        for place, (train, test) in self._sides():
            trained, tested = (_marked(units, side) for side in (train, test))
            both = np.append(trained & tested, False)  # the last for units of -1
            crossing = test[both[units[test]]]
            rows[crossing] = True
            rows[train[both[units[train]]]] = True
            if crossing.size:
                places[place] = int(crossing.size)
        return rows, places

    def _sides(self) -> Iterator[tuple[str, Pair]]:
        for i, pair in enumerate(self.splits()):
            yield f"split {i}", pair
        codes = self.codes[:, 0]
        if (codes == LOCKED).any():
            yield "the locked rows", (np.flatnonzero(codes > LOCKED), np.flatnonzero(codes == LOCKED))


class JoinedLabels(Joined):
    """Data beside folds or parts: the codes alone say what the splits are, so all are looked at, however many."""

    apart = "in more than one fold"

    @property
    def labels(self) -> Labels:
        """The labels in use."""
        assert isinstance(self.manifest.in_use, Labels)
        return self.manifest.in_use

    @property
    def n_looked_at(self) -> int:
        """All splits."""
        return self.manifest.n_splits

    def shares(self) -> dict[int, float]:
        """Return the share of all rows that each code should hold: as recorded, or equal."""
        recorded = (self.manifest.state or {}).get("shares")
        if recorded:
            return {int(code): float(share) for code, share in recorded}
        return dict.fromkeys(self.labels.tested, 1.0 / self.labels.n_bins)

    def empty_places(self) -> list[str]:
        """Return the names of tested folds or parts that have no row in the data."""
        empty = []
        for repeat, codes in enumerate(self.codes.T):
            counts = np.bincount(codes[codes >= 0], minlength=max(self.labels.tested) + 1)
            of = f" of repeat {repeat}" if self.labels.n_repeats > 1 else ""
            empty += [f"fold {code}{of}" for code in self.labels.tested if not counts[code]]
        return empty

    def fold_table(self, repeat: int, codes: NDArray[np.int64], n_classes: int) -> Counts:
        """Return the rows of each code from -2 up and each class."""
        column = self.codes[:, repeat]
        use = (column >= LOCKED) & (codes >= 0)
        fold = column[use].astype(np.int64) - LOCKED
        n_codes = max(int(column.max()), *self.labels.tested) - LOCKED + 1
        return np.bincount(fold * n_classes + codes[use], minlength=n_codes * n_classes).reshape(n_codes, n_classes)

    def class_tables(self, codes: NDArray[np.int64], n_classes: int) -> tuple[Counts, Counts]:
        """Return the rows of each class that each split trains on and tests, from one count a repeat."""
        trains, tests = [], []
        for repeat in range(self.labels.n_repeats):
            table = self.fold_table(repeat, codes, n_classes)
            test = table[[code - LOCKED for code in self.labels.tested]]
            train = table[NEVER_TESTED - LOCKED :].sum(axis=0) - test
            rest = table[NEVER_TESTED - LOCKED] if self.labels.parts else train
            trains.append(np.broadcast_to(rest, test.shape))
            tests.append(test)
        return np.vstack(trains), np.vstack(tests)

    def crossing(self, units: NDArray[np.int64]) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """Return which rows have a row of their unit in another fold; a unit crosses where its codes differ."""
        rows = np.zeros(self.n, dtype=np.bool_)
        n_units = units.max(initial=-1) + 1
        for codes in self.codes.T:
            placed = np.flatnonzero((units >= 0) & (codes >= LOCKED))
            of, code = units[placed], codes[placed].astype(np.int64)
            least, most = np.full(n_units, code.max(initial=0)), np.full(n_units, LOCKED)
            np.minimum.at(least, of, code)
            np.maximum.at(most, of, code)
            rows[placed[least[of] < most[of]]] = True
        places, counts = np.unique(self.codes[rows, 0], return_counts=True)
        return rows, {self.labels.code_name(int(c)): int(n) for c, n in zip(places, counts, strict=True)}


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
    rows, places = joined.crossing(shared)
    return Crossings(rows, places, joined.looked_at)


def _marked(units: NDArray[np.int64], side: NDArray[np.int64]) -> NDArray[np.bool_]:
    marks = np.zeros(units.max(initial=-1) + 1, dtype=np.bool_)
    of = units[side]
    marks[of[of >= 0]] = True
    return marks


def _counted(codes: NDArray[np.int64], n_classes: int) -> Counts:
    return np.bincount(codes[codes >= 0], minlength=n_classes)

"""Data beside a manifest: every row's place in it and its folds, whether the two fit each other or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from evenfold.splitters import Pair
from evenfold.splitters.kernels import components_of
from evenfold.splitters.numbers import stable_order
from numpy.typing import NDArray

from .figures import Figures
from .manifest import Manifest
from .membership import EXCLUDED, LOCKED, MOST_MEASURED, NEVER_TESTED, UNKNOWN, Labels
from .spec import Columns
from .store.state import cell_counts, is_numeric_target
from .tables.canonical import canonical_table, encoded, numbered, require_years, to_numpy
from .tables.keys import Lookup, pseudonyms
from .tables.read import source_of
from .tables.source import Source

ROLES = ("train", "test")
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Joined:
    """The rows of the data as they stand to a manifest; some may be in it alone, and some in them alone.

    ``columns`` are the roles to look at: those of the specification unless others were asked for, read at once with the
    key; any other column when it is wanted. What measures and audits takes this as data, so that they are read once.
    """

    manifest: Manifest
    source: Source
    columns: Columns
    lookup: Lookup
    table: pa.Table
    _canonical: dict[str, pa.ChunkedArray] = field(init=False, default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest, data: Any, **roles: str | None) -> Joined:
        """Return ``data`` beside ``manifest``; SplitError where the key column is absent."""
        wanted = {name: role for name, role in roles.items() if role}
        if isinstance(data, Joined) and data.manifest is manifest:
            return replace(data, columns=data.columns.model_copy(update=wanted)) if wanted else data
        columns = manifest.spec.columns.model_copy(update=wanted)
        source = source_of(data, manifest.key_types).settled()
        # A key that is absent is an error here; any other column where somebody asks for it.
        names = [name for name in columns.roles() if name in source.names or name in columns.key]
        table = source.table(names or None)
        shape = JoinedLabels if isinstance(manifest.in_use, Labels) else Joined
        return shape(manifest, source, columns, manifest.lookup(table), table)

    @property
    def keys(self) -> pa.Table | None:
        """The key columns of the data, canonical and not encoded; None where rows are joined by position."""
        names, manifest = self.manifest.spec.columns.key, self.manifest
        return None if manifest.keys is None else canonical_table(self.table, names, manifest.types)

    @property
    def n(self) -> int:
        """The number of rows of the data."""
        return int(self.lookup.rank.size)

    @cached_property
    def codes(self) -> NDArray[Any]:
        """The codes in use (rows by repeats): -3 for deleted, quarantined and excluded rows, -4 for unknown ones."""
        # Rows without a rank read row 0 here; they are overwritten next.
        codes = self.manifest.in_use.codes[np.maximum(self.lookup.rank, 0)]
        codes[self.lookup.rank < 0] = UNKNOWN
        codes[self.lookup.waits] = EXCLUDED
        return codes

    @property
    def n_looked_at(self) -> int:
        """Return the number of splits to look at: all of labels, at most 200 pairs or draws."""
        return min(self.manifest.n_splits, MOST_MEASURED)

    @property
    def looked_at(self) -> str:
        """A remark for sentences where not all splits are looked at."""
        few = self.n_looked_at < self.manifest.n_splits
        return f" (the first {self.n_looked_at:,} of {self.manifest.n_splits:,} splits were looked at)" if few else ""

    def splits(self) -> Iterator[Pair]:
        """Yield (train, test) as rows of the data, of the splits that are looked at; absent rows are left out."""
        for i in range(self.n_looked_at):
            train, test = (self.lookup.row[side] for side in self.manifest.in_use.pair(i))
            yield train[train >= 0], test[test >= 0]

    def require_complete(self, name: str) -> None:
        """Raise SplitError where a column has holes in rows that do not wait."""
        column = self.column(name)
        values = column.filter(pa.array(~self.lookup.waits)) if self.lookup.waits.any() else column
        self.manifest.spec.require_complete(pa.table({name: values}), decided=True)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of the data in its canonical type, or its pseudonyms; SplitError where there is none."""
        if name not in self._canonical:
            have = self.table if name in self.table.column_names else None
            table = self.source.table([name]) if have is None else have
            column = canonical_table(table, [name], self.manifest.types).column(name)
            spec = self.manifest.spec
            group = self.columns.group if spec.key_encoding and "group" in spec.key_encoding.encode else None
            if name in (*spec.pseudonyms(), group):  # of these only pseudonyms are seen here
                column = pa.chunked_array([pseudonyms(column, self.manifest.spec)])
            self._canonical[name] = column
        return self._canonical[name]

    def encoded(self, name: str) -> tuple[NDArray[np.int64], list[Any]]:
        """Return a code for each row's value of a column (-1 where it is missing) and the values."""
        require_years(self.column(name), name)
        codes, values = encoded(self.column(name))
        return codes, values.to_pylist()

    def together(self) -> NDArray[np.int64] | None:
        """Return a code for each row, equal for rows that belong together: its group, or what its entities join.

        A row without a group has a code of its own; rows in no split join nothing.
        """
        names = self.columns.grouped
        if len(names) < 2:
            return self.units(names[0]) if names else None
        codes = np.column_stack([self.encoded(name)[0] for name in names])
        codes[self.codes[:, 0] < LOCKED] = -1
        return components_of(codes)

    def is_numeric(self, name: str) -> bool:
        """Return whether a column is a number to predict."""
        return is_numeric_target(self.column(name))

    def levels(self, name: str) -> list[Any]:
        """Return the different values of a column of classes or groups."""
        return self.encoded(name)[1]

    def level_rows(self, name: str) -> Counts:
        """Return the rows of each level."""
        codes, levels = self.encoded(name)
        return _class_counts(codes, len(levels))

    apart: ClassVar[str] = "on both sides of a split"

    def empty_places(self) -> list[str]:
        """Return the names of folds, or sides of splits, that have no row in the data."""
        sides = ((i, *side) for i, pair in enumerate(self.splits()) for side in zip(ROLES, pair, strict=True))
        return [f"the {role} side of split {i}" for i, role, rows in sides if not rows.size]

    def tables_of(self, codes: NDArray[np.int64], n_classes: int) -> tuple[Counts, Counts]:
        """Return the rows of each class that each split trains on and tests (splits by classes), of each row's code."""
        sides = [[_class_counts(codes[rows], n_classes) for rows in pair] for pair in self.splits()]
        return np.array([train for train, _ in sides]), np.array([test for _, test in sides])

    def crossing(self, *of: NDArray[np.int64]) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """Return which rows have another row of one of their units across a split, and how many are where."""
        rows, places = np.zeros(self.n, dtype=np.bool_), {}
        for place, (train, test) in self.sides():
            here = np.zeros(test.size, dtype=np.bool_)
            for units in of:
                trained, tested = (_class_counts(units[side], units.max(initial=-1) + 1) for side in (train, test))
                both = np.append((trained > 0) & (tested > 0), False)  # the last for units of -1
                here |= both[units[test]]
                rows[train[both[units[train]]]] = True
            rows[test[here]] = True
            if here.any():
                places[place] = int(np.count_nonzero(here))
        return rows, places

    def units(self, name: str) -> NDArray[np.int64]:
        """Return the group of each row of the data, its own of one without."""
        return numbered(self.column(name))[0].astype(np.int64)

    def sides(self) -> Iterator[tuple[str, Pair]]:
        """Yield what is called by a name and has two sides: each split looked at, and the locked rows."""
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
        """Return the share of all rows that each code should hold: as recorded, or equal; for given folds too."""
        state = self.manifest.state  # of given folds the shares that they happen to have, which new rows are dealt by
        if state is not None and state.shares and "as_given" not in self.manifest.splitter.promises:
            return state.shares
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
        """Return the rows of each code from -2 up and each class, of the class of each row."""
        column, there = self.codes[:, repeat], codes >= 0
        n_codes = max(int(column.max()), *self.labels.tested) - LOCKED + 1
        return cell_counts(column[there], codes[there], n_codes, n_classes, LOCKED)

    def tables_of(self, codes: NDArray[np.int64], n_classes: int) -> tuple[Counts, Counts]:
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

    def distances(self, name: str) -> list[tuple[float, int]]:
        """Return the KS distance of a number in each fold that has rows from that in all, with the fold's code."""
        y = to_numpy(self.column(name)).astype(np.float64)
        present = np.flatnonzero(~np.isnan(y) & (self.codes[:, 0] >= LOCKED))
        placed = product(self.codes[present].T, self.labels.tested)
        folds = [(code, rows) for column, code in placed if (rows := np.flatnonzero(column == code)).size]
        compared = compared_with_all(y[present], [rows for _, rows in folds]) if folds else []
        return [(figures["ks"] or 0.0, code) for figures, (code, _) in zip(compared, folds, strict=True)]

    def group_table(self, group: str, name: str | None = None) -> tuple[Counts, Counts, Counts]:
        """Return groups, classes of a column and their rows, of pairs that rows in use have; class 0 without one."""
        groups, names = self.encoded(group)
        codes = np.zeros(self.n, dtype=np.int64) if name is None else self.encoded(name)[0]
        rows = (self.codes[:, 0] >= LOCKED) & (groups >= 0) & (codes >= 0)
        # A cell is class x groups + group: only pairs that exist are held, and not a table of all.
        cells, counts = np.unique(codes[rows] * max(len(names), 1) + groups[rows], return_counts=True)
        return cells % max(len(names), 1), cells // max(len(names), 1), counts

    def crossing(self, *of: NDArray[np.int64]) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """Return which rows have a row of one of their units in another fold; a unit crosses where its codes differ."""
        rows = np.zeros(self.n, dtype=np.bool_)
        for units, codes in product(of, self.codes.T):
            n_units, placed = units.max(initial=-1) + 1, np.flatnonzero((units >= 0) & (codes >= LOCKED))
            unit, code, torn = units[placed], codes[placed], np.zeros(n_units, dtype=np.bool_)
            of_unit = np.empty(n_units, dtype=codes.dtype)
            of_unit[unit] = code  # of several the last
            torn[unit[of_unit[unit] != code]] = True
            rows[placed[torn[unit]]] = True
        places, counts = np.unique(self.codes[rows, 0], return_counts=True)
        return rows, {self.labels.code_name(int(c)): int(n) for c, n in zip(places, counts, strict=True)}


def _class_counts(codes: NDArray[np.int64], n_classes: int) -> Counts:
    return np.bincount(codes[codes >= 0], minlength=n_classes)


def sample_sd(y: NDArray[np.float64]) -> float | None:
    """Return the sample's standard deviation (ddof=1), which one row has none of."""
    return float(y.std(ddof=1)) if y.size > 1 else None


def compared_with_all(y: NDArray[np.float64], places: list[NDArray[Any]]) -> list[Figures]:
    """Return mean, sd, KS and Wasserstein distance to all of ``y``, for each set of rows; none of an empty one."""
    order = stable_order(y)
    ranked = y[order]
    is_new = np.append(True, ranked[1:] != ranked[:-1])
    values, rank = ranked[is_new], np.empty(y.size, dtype=np.int64)
    rank[order] = np.cumsum(is_new) - 1
    del order, ranked, is_new  # of many rows, what is done with takes as much as what is needed
    # Distribution functions are compared at each value, where they have taken all of its rows.
    steps, overall = np.diff(values), np.cumsum(np.bincount(rank)) / y.size

    def compared(rows: NDArray[Any]) -> Figures:
        if not rows.size:
            return {}
        gap = np.cumsum(np.bincount(rank[rows], minlength=values.size)) / rows.size
        gap -= overall
        np.abs(gap, out=gap)
        of_place, area = y[rows], float((gap[:-1] * steps).sum())
        mean, sd = float(of_place.mean()), sample_sd(of_place)
        return {"mean": mean, "sd": sd, "ks": float(gap.max()), "wasserstein": area}

    return [compared(rows) for rows in places]

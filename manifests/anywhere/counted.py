"""What rows of any size hold, counted once beside their folds: classes, groups, and how numbers are distributed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.engines.engine import in_order
from evenfold.manifests.engines.groups import counted, is_numeric
from evenfold.manifests.figures import Figures
from evenfold.manifests.membership import LOCKED, fold_column
from evenfold.manifests.tables.canonical import require_columns, to_numpy, whole
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from .beside import Beside, IntArray, in_use

LEAST_CODE = -4
BYTES_OF_CELL = 64  # while cells of two stretches are added up
MOST_HELD = 4_000_000


@dataclass
class Levels:
    """The different values of a column, numbered by first appearance in key order."""

    values: pa.Array | None = None

    def codes(self, column: pa.ChunkedArray) -> IntArray:
        """Return the number of each value, -1 where it is missing; values that are new are added."""
        array = whole(column)
        fresh = array.unique().drop_null()
        if self.values is not None:
            fresh = fresh.filter(pc.invert(pc.is_in(fresh, self.values)))
            fresh = pa.concat_arrays([self.values, fresh])
        self.values = fresh
        places = pc.index_in(array, value_set=self.values, skip_nulls=True)
        return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)

    def __len__(self) -> int:
        return 0 if self.values is None else len(self.values)


@dataclass
class Cells:
    """How many rows there are of each pair of a code and a level, or of two levels: only of those that there are."""

    most_bytes: int
    keys: list[IntArray] = field(default_factory=list)
    rows: list[IntArray] = field(default_factory=list)

    def add(self, first: IntArray, second: IntArray) -> None:
        """Count the rows of a stretch; a level of -1 is none. Both numbers are below 2^31."""
        present = second >= 0
        # A pair in one integer: the first number, from 0 on, above the 32 bits of the second.
        keys, rows = counted(((first - LEAST_CODE)[present] << 32) | second[present])
        self.keys.append(keys)
        self.rows.append(rows)
        if sum(part.size for part in self.keys) > MOST_HELD:
            self._add_up()

    def _add_up(self) -> None:
        keys, place = np.unique(np.concatenate(self.keys), return_inverse=True)
        rows = np.zeros(keys.size, dtype=np.int64)
        np.add.at(rows, place, np.concatenate(self.rows))
        if keys.size * BYTES_OF_CELL > self.most_bytes:
            raise SplitError(
                f"{keys.size:,} pairs of folds and values are to be counted, and {self.most_bytes >> 20:,} MB of "
                "memory are allowed; allow more, or leave the column out."
            )
        self.keys, self.rows = [keys], [rows]

    @property
    def triples(self) -> tuple[IntArray, IntArray, IntArray]:
        """The two numbers of each pair that there is, and its rows."""
        if not self.keys:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        self._add_up()
        keys = self.keys[0]
        return (keys >> 32) + LEAST_CODE, keys & 0xFFFFFFFF, self.rows[0]


@dataclass(frozen=True, eq=False)
class Counted:
    """The columns of classes and groups of the data, counted by fold in one reading; numbers are sorted when asked.

    ``rows``: of each repeat, the rows of each code. ``by_code``: of each repeat and column, codes and levels;
    ``by_group``: of each column of classes, groups and levels, of rows in use.
    """

    beside: Beside
    numeric: frozenset[str]
    levels: dict[str, Levels]
    rows: list[dict[int, int]]
    by_code: dict[tuple[int, str], Cells]
    by_group: dict[str, Cells]

    @classmethod
    def of(cls, beside: Beside) -> Counted:
        """Count what the target, the strata and the groups hold. One reading, and one of integer targets."""
        columns, types = beside.columns, beside.ordered.types
        balanced = list(dict.fromkeys(name for name in (columns.target, *columns.stratify) if name in types))
        numeric = frozenset(
            name
            for name in balanced
            if is_numeric(beside.ordered.scan([name]), name, beside.ordered.schema.field(name).type)
        )
        classes = [name for name in balanced if name not in numeric]
        group = columns.group if columns.group in types else None
        names = list(dict.fromkeys([*classes, *([group] if group else [])]))
        made = cls(beside, numeric, {name: Levels() for name in names}, [{} for _ in range(beside.n_repeats)], {}, {})
        made.by_code.update(
            {(repeat, name): Cells(beside.memory) for repeat in range(beside.n_repeats) for name in names}
        )
        made.by_group.update({name: Cells(beside.memory) for name in classes if group})
        for codes, table in beside.stretches(names):
            made._add(codes, {name: made.levels[name].codes(table.column(name)) for name in names}, group)
        return made

    def _add(self, codes: IntArray, of: dict[str, IntArray], group: str | None) -> None:
        used = in_use(codes)
        for repeat, column in enumerate(codes.T):
            for code, rows in zip(*np.unique(column, return_counts=True), strict=True):
                self.rows[repeat][int(code)] = self.rows[repeat].get(int(code), 0) + int(rows)
            for name, level in of.items():
                self.by_code[repeat, name].add(column, level)
        for name, cells in self.by_group.items():
            assert group is not None
            both = used & (of[group] >= 0)
            cells.add(of[group][both], of[name][both])

    @property
    def n(self) -> int:
        """The number of rows of the data."""
        return sum(self.rows[0].values())

    @property
    def n_in_use(self) -> int:
        """The number of rows in use."""
        return sum(rows for code, rows in self.rows[0].items() if code >= LOCKED)

    def values(self, name: str) -> list[Any]:
        """Return the levels of a column of classes or groups."""
        known = self.levels[name].values
        return [] if known is None else list(to_numpy(pa.chunked_array([known])).tolist())

    def table(self, name: str, repeat: int = 0) -> dict[int, IntArray]:
        """Return the rows of each level, by code."""
        codes, levels, rows = self.by_code[repeat, name].triples
        counts = {int(code): np.zeros(len(self.levels[name]), dtype=np.int64) for code in np.unique(codes)}
        for code, table in counts.items():
            of = codes == code
            table[levels[of]] = rows[of]
        return counts

    def groups_in(self, name: str, repeat: int) -> dict[int, int]:
        """Return how many levels each code has rows of."""
        codes, _, _ = self.by_code[repeat, name].triples
        return {int(c): int(n) for c, n in zip(*np.unique(codes, return_counts=True), strict=True)}

    @cached_property
    def distances(self) -> dict[str, Distances]:
        """How each numeric column is distributed over all rows in use, and over those of each code of each repeat."""
        return {name: _distances(self, name) for name in sorted(self.numeric)}

    def require_complete(self, names: list[str]) -> None:
        """Raise SplitError where one of the columns is absent, or has holes; which rows of the data is not known."""
        ordered = self.beside.ordered
        require_columns(names, ordered.types)
        for name in names:
            holes = sum(table.column(name).null_count for table in ordered.scan([name]))
            if holes:
                raise SplitError(ordered.faulty(name, "missing", holes))


@dataclass(frozen=True)
class Distances:
    """A numeric column over all rows in use: mean, sd; and of each (repeat, code) its mean, sd, KS and Wasserstein."""

    mean: float
    sd: float | None
    of: dict[tuple[int, int], Figures]


@dataclass
class _Moments:
    """Mean and sd of a column whose rows come in stretches; sums of differences from a value near their mean."""

    shift: float
    n: int
    total: float = 0.0
    squares: float = 0.0

    def add(self, off: NDArray[np.float64]) -> None:
        self.total += float(off.sum())
        self.squares += float((off * off).sum())

    def mean(self) -> float:
        return self.shift + self.total / self.n

    def sd(self) -> float | None:
        mean = self.total / self.n
        squares = max(self.squares - self.n * mean * mean, 0.0)
        return float(np.sqrt(squares / (self.n - 1))) if self.n > 1 else None


@dataclass
class _Gap:
    """How far the distribution of some of the rows lies from that of all, in one reading by value."""

    n: int
    below: int = 0
    last: float = 0.0
    most: float = 0.0
    area: float = 0.0

    def add(self, mine: NDArray[np.bool_], fresh: NDArray[np.bool_], everywhere: Any, steps: Any) -> None:
        """Take the next stretch: ``fresh`` the last row of each value in it, ``everywhere`` the share up to there."""
        gap = np.abs((self.below + np.cumsum(mine)[fresh]) / self.n - everywhere)
        # A value that goes on in the next stretch is compared there, where all of its rows are counted.
        self.area += float((np.concatenate([[self.last], gap[:-1]]) * steps).sum())
        self.most = max(self.most, float(gap[:-1].max(initial=0.0)), self.last if steps[0] else 0.0)
        self.last = float(gap[-1])
        self.below += int(np.count_nonzero(mine))


def _distances(seen: Counted, name: str) -> Distances:
    """Sort the column with its codes, out of core, and compare cumulative distributions in one reading."""
    sizes = {
        (repeat, code): rows[code] for repeat, rows in enumerate(seen.rows) for code in sorted(rows) if code >= LOCKED
    }
    shift = _mean(seen, name)
    whole = _Moments(shift, seen.n_in_use)
    moments = {place: _Moments(shift, n) for place, n in sizes.items()}
    gaps = {place: _Gap(n) for place, n in sizes.items()}
    passed, last = 0, None
    for y, codes in _by_value(seen, name):
        fresh = np.append(y[1:] != y[:-1], True)  # the last row of each value in this stretch
        values, everywhere = y[fresh], (passed + np.flatnonzero(fresh) + 1) / whole.n
        steps = np.diff(values, prepend=values[0] if last is None else last)
        passed, last = passed + y.size, float(values[-1])
        off = y - shift
        whole.add(off)
        for repeat, code in sizes:
            mine = codes[:, repeat] == code
            gaps[repeat, code].add(mine, fresh, everywhere, steps)
            moments[repeat, code].add(off[mine])
    of = {place: _apart(moments[place], gaps[place]) for place in sizes}
    return Distances(whole.mean(), whole.sd(), of)


def _apart(moments: _Moments, gap: _Gap) -> Figures:
    return {"mean": moments.mean(), "sd": moments.sd(), "ks": max(gap.most, gap.last), "wasserstein": gap.area}


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return to_numpy(table.column(name)).astype(np.float64)


def _mean(seen: Counted, name: str) -> float:
    """Return about the mean of the rows in use, from which sums of squares lose no digits."""
    sums = [
        (float(_numbers(table, name)[in_use(codes)].sum()), int(in_use(codes).sum()))
        for codes, table in seen.beside.stretches([name])
    ]
    return sum(total for total, _ in sums) / max(sum(rows for _, rows in sums), 1)


def _by_value(seen: Counted, name: str) -> Iterator[tuple[NDArray[np.float64], IntArray]]:
    """Yield the values of the rows in use in ascending order, and their codes, a stretch at a time."""
    folds = [fold_column(repeat) for repeat in range(seen.beside.n_repeats)]

    def parts() -> Iterator[pa.Table]:
        for codes, table in seen.beside.stretches([name]):
            used = in_use(codes)
            columns = {fold: codes[used, r].astype(np.int32) for r, fold in enumerate(folds)}
            yield pa.table({"value": _numbers(table, name)[used], **columns})

    for table in in_order(parts(), ["value"], seen.beside.folder, seen.beside.memory):
        y = table.column("value").to_numpy()
        if y.size:
            yield y, np.column_stack([table.column(fold).to_numpy() for fold in folds])

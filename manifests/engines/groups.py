"""Groups, classes and quantiles of rows that are read a shard at a time: all that grouped strategies look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.tables.canonical import to_numpy, whole
from evenfold.splitters.encoding import encode
from evenfold.splitters.packing.cost import require_table, side_by_side
from evenfold.splitters.packing.quantiles import QUANTILE_BINS, Span, begins
from evenfold.splitters.rows import GroupRows
from evenfold.splitters.targets import MOST_CLASSES_OF_NUMBERS, is_number
from numpy.typing import NDArray

from .engine import Engine
from .ordered import Ordered, read_shard

IntArray = NDArray[np.int64]
FEW_EDGES = 20
SAMPLE = 400_000


@dataclass(frozen=True)
class Classes:
    """Columns of classes: the values of each, by first appearance in key order."""

    names: tuple[str, ...]
    levels: tuple[pa.Array, ...]

    def codes(self, table: pa.Table, start: int) -> list[IntArray]:
        """Return the class of each row in each column."""
        return [_index(table.column(name), known) for name, known in zip(self.names, self.levels, strict=True)]

    @property
    def sizes(self) -> list[int]:
        """The number of classes of each column."""
        return [len(known) for known in self.levels]

    def values(self, column: int) -> list[Any]:
        """Return the classes of a column as a manifest names them."""
        values: list[Any] = to_numpy(self.levels[column]).tolist()
        return values


@dataclass(frozen=True)
class Edges:
    """A column of numbers, cut at values."""

    names: tuple[str, ...]
    edges: NDArray[np.float64]

    def codes(self, table: pa.Table, start: int) -> list[IntArray]:
        """Return the bin of each row."""
        return [_bins_of(_numbers(table.column(self.names[0])), self.edges)]

    @property
    def sizes(self) -> list[int]:
        """The number of bins."""
        return [self.edges.size + 1]


@dataclass(frozen=True)
class Combinations:
    """The combinations of several columns' classes that rows have, by first appearance in key order."""

    classes: Classes
    known: dict[tuple[int, ...], int]

    @classmethod
    def of(cls, ordered: Ordered, classes: Classes) -> Combinations:
        """Return the combinations of an ordered table."""
        known: dict[tuple[int, ...], int] = {}
        for table in ordered.scan(list(classes.names)):
            for combination in _combined(classes, table)[1]:
                known.setdefault(combination, len(known))
        return cls(classes, known)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.classes.names

    def codes(self, table: pa.Table, start: int) -> list[IntArray]:
        """Return the combination of each row."""
        numbers, combinations = _combined(self.classes, table)
        return [np.array([self.known[combination] for combination in combinations], dtype=np.int64)[numbers]]

    @property
    def sizes(self) -> list[int]:
        """The number of combinations."""
        return [len(self.known)]

    def values(self) -> list[list[Any]]:
        """Return the classes of each combination."""
        values = [self.classes.values(j) for j in range(len(self.names))]
        return [[values[j][code] for j, code in enumerate(combination)] for combination in self.known]


def _combined(classes: Classes, table: pa.Table) -> tuple[IntArray, list[tuple[int, ...]]]:
    """Return a number for each row, by first appearance, and the class of each column that a number stands for."""
    columns, numbers = classes.codes(table, 0), np.zeros(table.num_rows, dtype=np.int64)
    for codes, size in zip(columns, classes.sizes, strict=True):
        # Numbered anew after each column: the product of many columns' classes has more than 64 bits.
        numbers = encode(numbers * size + codes, "classes")[0]
    first = np.unique(numbers, return_index=True)[1]
    return numbers, [tuple(combination) for combination in np.column_stack(columns)[first].tolist()]


Strata = Classes | Edges | Combinations


def _index(column: pa.ChunkedArray, known: pa.Array) -> IntArray:
    return np.asarray(pc.index_in(whole(column), value_set=known).to_numpy(zero_copy_only=False), dtype=np.int64)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return to_numpy(column).astype(np.float64)


def _bins_of(numbers: NDArray[np.float64], edges: NDArray[np.float64]) -> IntArray:
    """Return how many of the ascending edges each number reaches."""
    if edges.size > FEW_EDGES:
        return np.searchsorted(edges, numbers, side="right")
    bins = np.zeros(numbers.size, dtype=np.uint8)  # a comparison with all costs a fifth of a step of each one's search
    for edge in edges.tolist():
        bins += numbers >= edge
    return bins.astype(np.int64)


def distinct_values(tables: Iterator[pa.Table], name: str, most: int | None = None) -> pa.Array:
    """Return the different values of a column by first appearance; where there are more than ``most``, some of them."""
    known: pa.Array | None = None
    for table in tables:
        new = whole(table.column(name)).unique()
        known = new if known is None else pa.concat_arrays([known, new]).unique()
        if most is not None and len(known) > most:
            break
    return pa.nulls(0) if known is None else known  # of a table without rows


def is_numeric(tables: Iterator[pa.Table], name: str, arrow: pa.DataType) -> bool:
    """Return whether a column is a number to predict, as ``is_numeric_target`` does of one in memory."""
    kind = "f" if pa.types.is_floating(arrow) else "i" if pa.types.is_integer(arrow) else "O"
    return is_number(kind, lambda: distinct_values(tables, name, MOST_CLASSES_OF_NUMBERS + 1).drop_null())


@dataclass(frozen=True)
class Groups:
    """The groups by first appearance in key order; each shard's codes lie beside it."""

    ordered: Ordered
    values: pa.Array

    @classmethod
    def of(cls, ordered: Ordered, name: str, engine: Engine) -> Groups:
        """Return the groups of an ordered table: one reading of their column, and an int32 a row on disk."""
        parts = [(shard, name, ordered.types[name]) for shard in ordered.shards]
        known: pa.Array | None = None
        for shard, local in zip(ordered.shards, engine.map(_encode, parts), strict=True):
            # A shard's groups that are new come after those known, so numbers follow first appearance in key order.
            known = (
                local if known is None else pa.concat_arrays([known, local.filter(pc.invert(pc.is_in(local, known)))])
            )
            np.save(_beside(shard, "numbers"), _index(pa.chunked_array([local]), known).astype(np.int32))
        assert known is not None
        return cls(ordered, known)

    def __len__(self) -> int:
        return len(self.values)

    def codes(self) -> Iterator[IntArray]:
        """Yield the group of each row, shard by shard."""
        return map(group_codes, self.ordered.shards)

    def tables(self, engine: Engine, strata: Strata | None, into: IntArray | None = None) -> list[IntArray]:
        """Return the rows of each class in each group (groups, classes), of each column; rows alone without strata.

        ``into`` sums groups up: it says for each group which row of the table counts it, -1 for none.
        """
        sizes = strata.sizes if strata else [1]
        height = len(self) if into is None else int(into.max()) + 1
        for size in sizes:
            require_table(height, size)
        tables = [np.zeros(height * size, dtype=np.int64) for size in sizes]
        path = None
        if into is not None:
            path = self.ordered.shards[0].parent / "into.npy"
            np.save(path, into)
        types = {name: self.ordered.types[name] for name in strata.names} if strata else {}
        places = zip(self.ordered.shards, self.ordered.starts, strict=True)
        for counts in engine.map(_count, [(shard, start, types, strata, path) for shard, start in places]):
            for table, (cells, rows) in zip(tables, counts, strict=True):
                table[cells] += rows
        return [table.reshape(height, size) for table, size in zip(tables, sizes, strict=True)]


def _beside(shard: Path, what: str) -> Path:
    return shard.with_suffix(f".{what}.npy")


def group_codes(shard: Path) -> IntArray:
    """Return the group of each row of a shard."""
    codes: IntArray = np.load(_beside(shard, "numbers"))[np.load(_beside(shard, "codes"))].astype(np.int64)
    return codes


def _encode(part: tuple[Path, str, str]) -> pa.Array:
    """Write each row's code among its shard's own groups beside the shard; return those groups."""
    shard, name, kind = part
    encoded = whole(read_shard(shard, {name: kind}).column(name)).dictionary_encode()
    np.save(_beside(shard, "codes"), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32))
    return encoded.dictionary


def _count(part: tuple[Path, int, dict[str, str], Strata | None, Path | None]) -> list[tuple[IntArray, IntArray]]:
    """Return the cells of groups x classes that a shard has rows in, and their rows, of each column."""
    shard, start, types, strata, into = part
    groups = group_codes(shard)
    groups = groups if into is None else np.load(into)[groups]
    columns, sizes = [np.zeros(groups.size, dtype=np.int64)], [1]
    if strata is not None:
        columns, sizes = strata.codes(read_shard(shard, types), start), strata.sizes
    cells = [(groups * size + codes)[groups >= 0] for codes, size in zip(columns, sizes, strict=True)]
    return [counted(cell) for cell in cells]


def counted(cells: IntArray) -> tuple[IntArray, IntArray]:
    """Return the different cells and how often each stands there: by counting where they are dense, else by sorting."""
    # Counting takes as much room as the largest cell is high.
    if cells.size == 0 or int(cells.max()) > 16 * cells.size:
        return np.unique(cells, return_counts=True)
    counts = np.bincount(cells)
    filled = np.flatnonzero(counts)
    return filled, counts[filled]


def rows_by_group(n: int, sizes: IntArray, tables: list[IntArray], single: bool) -> GroupRows:
    """Return what a strategy looks at: one column's table as it is, those of several side by side, or sizes alone."""
    table, weights = np.zeros((sizes.size, 0), dtype=np.int64), np.zeros(0)
    if tables and single:
        table, weights = tables[0], np.ones(tables[0].shape[1])
    elif tables:
        table, weights = side_by_side(tables)
    groups = np.arange(sizes.size)
    names = tuple(range(sizes.size))
    return GroupRows(n=n, groups=groups, group_levels=names, sizes=sizes, table=table, weights=weights)


def first_classes(groups: Groups, classes: Classes, kept: NDArray[np.bool_]) -> list[IntArray]:
    """Return the classes of each column that rows of the kept groups have, by first appearance among those rows."""
    seen: list[list[int]] = [[] for _ in classes.names]
    scans = zip(groups.ordered.scan(list(classes.names)), groups.codes(), strict=True)
    for table, codes in scans:
        for order, column in zip(seen, classes.codes(table, 0), strict=True):
            values, first = np.unique(column[kept[codes]], return_index=True)
            order += [code for code in values[np.argsort(first)].tolist() if code not in order]
    return [np.array(order, dtype=np.int64) for order in seen]


def quantiles(groups: Groups, name: str, kept: NDArray[np.bool_] | None = None) -> Edges:
    """Return the cuts between ten bins of about as many rows (of the kept groups alone), as those in memory."""
    numbers = Numbers(groups.ordered, name, groups if kept is not None else None, kept)
    return Edges((name,), numbers.edges(QUANTILE_BINS))


@dataclass(frozen=True)
class Numbers:
    """A column of numbers whose order statistics are found in a few readings, in little memory."""

    ordered: Ordered
    name: str
    groups: Groups | None = None
    kept: NDArray[np.bool_] | None = None

    def _values(self) -> Iterator[NDArray[np.float64]]:
        values = (_numbers(table.column(self.name)) for table in self.ordered.scan([self.name]))
        if self.groups is None or self.kept is None:
            return values
        kept = self.kept
        return (part[kept[codes]] for part, codes in zip(values, self.groups.codes(), strict=True))

    @property
    def n(self) -> int:
        """The number of values."""
        return self.ordered.n if self.kept is None else sum(part.size for part in self._values())

    def at(self, ranks: list[int]) -> NDArray[np.float64]:
        """Return the values at ascending ``ranks``, exactly.

        A sample says between which two values each must lie; a reading counts what is below and keeps what is inside.
        """
        n, wanted = self.n, np.array(ranks, dtype=np.int64)
        step = max(1, n // SAMPLE)
        sample = np.sort(np.concatenate([part[::step] for part in self._values()]))
        bounded = np.concatenate([[-np.inf], sample, [np.inf]])  # the least and the largest may be in no sample
        # Four standard deviations of a share in a sample, whatever the share: hardly a bracket is missed.
        half = int(4 * np.sqrt(0.25 * sample.size)) + 2
        while True:
            place = wanted * sample.size // n + 1
            ends = np.maximum(place - half, 0), np.minimum(place + half, sample.size + 1)
            values = self._between(bounded[ends[0]], bounded[ends[1]], wanted)
            if values is not None:
                return values
            half *= 4

    def _between(
        self, low: NDArray[np.float64], high: NDArray[np.float64], ranks: IntArray
    ) -> NDArray[np.float64] | None:
        """Return the values at ``ranks`` where each lies in its bracket, else None."""
        counts = np.zeros((4, ranks.size), dtype=np.int64)
        inside: list[NDArray[np.float64]] = []
        for part in self._values():
            ranked = np.sort(part)
            ends = [np.searchsorted(ranked, end, side) for end in (low, high) for side in ("left", "right")]
            counts += ends
            keep = np.zeros(ranked.size, dtype=np.bool_)
            for first, stop in zip(ends[1], ends[2], strict=True):
                keep[first:stop] = True  # the ends themselves are counted alone: most rows may have one of them
            inside.append(ranked[keep])
        below, up_to_low, below_high, up_to_high = counts
        if (ranks < below).any() or (ranks >= up_to_high).any():
            return None
        held = np.append(np.sort(np.concatenate(inside)), np.inf)
        # The rank among the values above `low`; brackets may overlap, so `held` is entered at this one's `low`.
        places = np.searchsorted(held, low, "right") + ranks - up_to_low
        between = held[np.clip(places, 0, held.size - 1)]
        return np.where(ranks < up_to_low, low, np.where(ranks < below_high, between, high))

    def edges(self, bins: int) -> NDArray[np.float64]:
        """Return the numbers at which all bins but the first begin, as ``edges_of`` does of rows in memory."""
        known: dict[int, Span] = {}
        values: dict[int, float] = {}

        def spans(ranks: Sequence[int]) -> list[Span]:
            if new := sorted({*ranks} - known.keys()):
                found = self.at(new)
                values.update(zip(new, found.tolist(), strict=True))
                known.update(zip(new, self._spans(found), strict=True))
            return [known[rank] for rank in ranks]

        at = begins(self.n, bins, spans)
        spans(at)
        return np.array([values[rank] for rank in at])

    def _spans(self, values: NDArray[np.float64]) -> list[Span]:
        """Return the first rank of each value, and the first beyond."""
        counts = np.zeros((2, values.size), dtype=np.int64)
        for part in self._values():
            for i, value in enumerate(values.tolist()):
                counts[:, i] += np.count_nonzero(part < value), np.count_nonzero(part <= value)
        return list(zip(*counts.tolist(), strict=True))

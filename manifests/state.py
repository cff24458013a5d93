"""The memory of a manifest: enough of its classes that new rows can be shared out without the old ones at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.manifests.tables.canonical import coded, numbered, to_numpy
from evenfold.splitters import Predefined, Rows, Splitter
from evenfold.splitters.numbers import MOST_CLASSES_OF_NUMBERS, Coded, encode, is_number
from evenfold.splitters.packing.cost import QUANTILE_BINS, edges_of
from evenfold.splitters.strategies.parts import shares_of_parts
from numpy.typing import NDArray

from .membership import EXCLUDED, UNKNOWN, Membership, fold_column
from .spec import Columns

MOST_CELLS = 1_000
MOST_EDGES = 100
MOST_SHARES = 100
STRETCH = 1 << 22


def is_numeric_target(column: pa.ChunkedArray) -> bool:
    """Return whether a canonical column is a number to predict, by the rule of ``evenfold.splitters.numbers``."""
    kind = "f" if pa.types.is_floating(column.type) else "i" if pa.types.is_integer(column.type) else "O"

    def distinct() -> pa.Array:
        head = column.slice(0, 1_000).drop_null().unique()  # these alone may show that there are many
        return head if len(head) > MOST_CLASSES_OF_NUMBERS else column.drop_null().unique()

    return is_number(kind, distinct)


def to_balance(table: pa.Table, columns: Columns) -> NDArray[Any] | Coded | None:
    """Return what is to be shared out evenly: a number or class of each row, or those of several columns; None of none.

    Text and several columns come as codes: much faster, and all that a split needs.
    """
    balanced = [table.column(name) for name in columns.shared_out]
    if len(balanced) > 1:
        codes = [coded(column) for column in balanced]
        return Coded(np.column_stack([column.codes for column in codes]), [column.levels for column in codes])
    for column in balanced:
        if pa.types.is_large_string(column.type):
            return coded(column)
        values = to_numpy(column)
        return values.astype(np.float64) if is_numeric_target(column) else values
    return None


def shares_of(splitter: Splitter, n_folds: int, locked: float) -> dict[int, float]:
    """Return the share of all rows that each code wants: equal for folds, as asked for parts; -2 for a locked part."""
    if codes := splitter.part_codes():
        parts = shares_of_parts(getattr(splitter, "parts"))  # noqa: B009 - only strategies of parts have it
        shares = {code: parts[name] for name, code in codes.items()}
    else:
        shares = {fold: 1.0 / n_folds for fold in range(n_folds)}
    if not locked:
        return shares
    # The locked part is drawn first; the strategy shares out what it leaves.
    shares = {code: share * (1.0 - locked) for code, share in shares.items()}
    return shares | {-2: shares.get(-2, 0.0) + locked}


@dataclass(frozen=True)
class State:
    """The memory of a manifest: the shares of the codes, and what each holds of each stratum.

    ``shares`` is None above 100 codes, where they follow from the strategy. Strata are the ``classes`` of the target
    (or of several columns together), or what lies between the ``edges`` of a number, frozen when they were made, so
    that data that drift are seen as drifting. ``counts`` (repeats by codes by strata) is None above 1,000 cells.
    """

    shares: dict[int, float] | None = None
    edges: list[float] | None = None
    classes: list[Any] | None = None
    counts: list[list[list[int]]] | None = None

    @classmethod
    def of(cls, values: dict[str, Any] | None) -> State | None:
        """Return the state that a header holds."""
        if values is None:
            return None
        shares = {int(code): float(share) for code, share in values["shares"]} if "shares" in values else None
        return cls(shares, values.get("edges"), values.get("classes"), values.get("counts"))

    def to_json(self) -> dict[str, Any]:
        """Return what a header holds; what is None is left out."""
        shares = None if self.shares is None else [[code, share] for code, share in self.shares.items()]
        values = {"shares": shares, "edges": self.edges, "classes": self.classes, "counts": self.counts}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def n_strata(self) -> int:
        """The number of strata."""
        return len(self.edges) + 1 if self.edges is not None else max(len(self.classes or ()), 1)

    def strata(self, y: NDArray[Any] | Coded | None, n: int) -> tuple[NDArray[np.int64], State]:
        """Return the stratum of each of ``n`` rows, and the state with the classes that are new added at the end."""
        if y is None:
            return np.zeros(n, dtype=np.int64), self
        if self.edges is not None and not isinstance(y, Coded):
            return np.searchsorted(np.array(self.edges), y.astype(np.float64), side="right"), self
        by_name = {_name(level): number for number, level in enumerate(self.classes or ())}
        codes, levels = _levels(y)
        numbers = [by_name.setdefault(_name(level), len(by_name)) for level in levels]
        new = [list(name) if isinstance(name, tuple) else name for name in list(by_name)[len(self.classes or ()) :]]
        return np.array(numbers, dtype=np.int64)[codes], replace(self, classes=[*(self.classes or ()), *new])


def _levels(y: NDArray[Any] | Coded) -> tuple[NDArray[np.int64], list[Any]]:
    """Return a code per row by first appearance, and what it stands for as JSON has it: a class, or one a column."""
    if isinstance(y, Coded) and y.codes.ndim == 2:
        codes, first = combined(zip(y.codes.T, map(len, y.levels), strict=True))
        rows = y.codes[first].tolist()
        return codes, [[plain(levels[code]) for levels, code in zip(y.levels, row, strict=True)] for row in rows]
    codes, levels = encode(y, "y")
    return codes, [plain(level) for level in levels]


def combined(columns: Iterable[tuple[NDArray[Any], int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a code for each row's combination of (codes, how many), by first appearance, and where that is."""
    codes: Any = 0
    for column, n in columns:  # numbered anew each time, so that the product of many columns does not overflow
        codes = pd.factorize(codes * n + column)[0]
    return codes, np.unique(codes, return_index=True)[1]


def first_state(splitter: Splitter, rows: Rows, membership: Membership, locked: float) -> State | None:
    """Return what to remember of a new split; None where there are too many codes or classes to remember anything.

    Nor of given folds that tear groups, of which a new row would have no fold to follow.
    """
    shares = shares_of(splitter, membership.n_bins, locked)
    if isinstance(splitter, Predefined):  # given folds keep the shares that they have
        folds = membership.column()
        if rows.groups is not None:
            _, first, of_row = np.unique(rows.groups, return_index=True, return_inverse=True)
            if (folds != folds[first][of_row]).any():
                return None
        codes, n = np.unique(folds[folds != EXCLUDED], return_counts=True)
        shares = dict(zip(codes.tolist(), (n / n.sum()).tolist(), strict=True))
    edges: list[float] | None = None
    classes: list[Any] | None = None
    strata = np.zeros(rows.n, dtype=np.int64)
    if rows.y is not None and rows.y.dtype.kind == "f":
        # So many bins of a numeric target are told apart; whole groups are packed by those that edges_of returns.
        bins = QUANTILE_BINS if rows.groups is not None else max(2, min(MOST_EDGES, MOST_CELLS // len(shares)))
        cuts = np.arange(1, bins) * rows.n // bins
        cut = rows.y[rows.ranked[cuts]] if rows.groups is None else edges_of(rows.y[rows.ranked], bins)
        edges = [float(edge) for edge in dict.fromkeys(cut.tolist())]
        strata = np.searchsorted(np.array(edges), rows.y, side="right")
    elif rows.y is not None and rows.y.ndim == 1:
        classes, strata = [plain(level) for level in rows.levels], np.asarray(rows.y, dtype=np.int64)
    elif rows.y is not None:
        strata, first = combined((rows.y[:, j], len(levels)) for j, levels in enumerate(rows.levels))
        classes = [[plain(rows.levels[j][code]) for j, code in enumerate(row)] for row in rows.y[first].tolist()]
    state, countable = uncounted(shares, membership.n_repeats, edges, classes)
    if state is None or not countable:
        return state
    tables = (cell_counts(bins_of(codes, shares), strata, len(shares), state.n_strata) for codes in membership.codes.T)
    return replace(state, counts=[table.tolist() for table in tables])


def uncounted(
    shares: dict[int, float], repeats: int, edges: list[float] | None, classes: list[Any] | None
) -> tuple[State | None, bool]:
    """Return a first state without its counts, and whether these are few enough to be kept."""
    state = State(shares if len(shares) <= MOST_SHARES else None, edges, classes)
    if len(shares) * state.n_strata * repeats <= MOST_CELLS:
        return state, True
    return (state if len(shares) <= MOST_CELLS // 10 and len(classes or ()) <= MOST_CELLS else None), False


def bins_of(codes: NDArray[Any], shares: dict[int, float]) -> NDArray[np.int64]:
    """Return the number of each code among ``shares``, -1 for one that has no share."""
    lookup = {code: number for number, code in enumerate(shares)}
    # A table from the least code on: each row's bin is one look-up, of millions of rows as of ten.
    span = range(UNKNOWN, int(codes.max(initial=UNKNOWN)) + 1)
    numbers: NDArray[np.int64] = np.array([lookup.get(code, -1) for code in span])
    return np.asarray(numbers[codes - UNKNOWN])


def plain(value: Any) -> Any:
    """Return a class as JSON holds it."""
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _name(level: Any) -> Any:
    return tuple(level) if isinstance(level, list) else level


def cell_counts(bins: NDArray[Any], strata: NDArray[Any], n_bins: int, n_of_strata: int) -> NDArray[np.int64]:
    """Return the rows of each stratum in each bin (bins by strata); bins below 0 are left out."""
    cells = np.zeros(n_bins * n_of_strata, dtype=np.int64)
    for start in range(0, bins.size, STRETCH):  # a hundred million rows need no copy as large as they are
        here = slice(start, start + STRETCH)
        numbers = bins[here].astype(np.int64) * n_of_strata + strata[here]
        placed = bins[here] >= 0
        cells += np.bincount(numbers if placed.all() else numbers[placed], minlength=cells.size)
    return cells.reshape(n_bins, n_of_strata)


MOST_COUNTED_CLASSES = 100


def first_group_table(rows: Rows, column: pa.ChunkedArray, membership: Membership) -> pa.Table:
    """Return each group with its fold (of each repeat) and its rows, of each class where there are few classes."""
    assert rows.groups is not None
    first = np.full(rows.n_groups, rows.n, dtype=np.int64)
    np.minimum.at(first, rows.groups, np.arange(rows.n))
    sizes, cells = np.bincount(rows.groups, minlength=rows.n_groups), None
    classes = rows.y is not None and rows.y.dtype.kind == "i" and rows.y.ndim == 1
    if classes and len(rows.levels) <= MOST_COUNTED_CLASSES:
        assert rows.y is not None
        counts = np.bincount(rows.groups * len(rows.levels) + rows.y, minlength=rows.n_groups * len(rows.levels))
        cells = counts.reshape(rows.n_groups, -1)
    names = {"group": column.take(first)}
    return group_table_of(names, membership.codes[first], sizes, levels=rows.levels, cells=cells)


def group_table_of(
    names: dict[str, pa.Array], codes: NDArray[Any], rows: NDArray[Any] | None, generation: int = 0,
    levels: Sequence[Any] = (), cells: NDArray[Any] | None = None,
) -> pa.Table:  # fmt: skip
    """Return the table of groups with a name, with ``cells`` (groups, levels) of their rows where classes are few."""
    n, columns = len(codes), dict[str, Any](names)
    columns |= {fold_column(repeat): np.ascontiguousarray(folds) for repeat, folds in enumerate(codes.T)}
    columns["rows"] = pa.nulls(n, pa.int64()) if rows is None else pa.array(rows, pa.int64())
    columns["generation"] = np.full(n, generation, dtype=np.int16)
    if cells is not None and len(levels) <= MOST_COUNTED_CLASSES:
        columns |= {f"rows_{level}": counts for level, counts in zip(levels, cells.T, strict=True)}
    table = pa.table(columns)
    # No later row can be of a group without a name.
    return table.filter(table.column("group").is_valid()) if table.column("group").null_count else table


def levels_of(table: pa.Table) -> tuple[NDArray[np.int64], pa.Table]:
    """Return the codes of each row's entities (rows, columns), and the levels that they number: ``entity``, ``group``.

    Levels are numbered column after column, by first appearance; ``group`` is the level as text.
    """
    codes, entities, start = [], [], 0
    for name in table.column_names:
        numbers, levels = numbered(table.column(name))
        codes.append(numbers.astype(np.int64) + start)
        start += len(levels)
        names = pa.array([name] * len(levels), pa.large_string())
        entities.append(pa.table({"entity": names, "group": levels.cast(pa.large_string())}))
    return np.column_stack(codes), pa.concat_tables(entities).combine_chunks()


def first_entity_table(table: pa.Table, codes: NDArray[Any]) -> pa.Table:
    """Return each level of each entity with its fold (of each repeat), and its rows; -3 where all are excluded."""
    of_row, levels = levels_of(table)
    best = np.full((levels.num_rows, codes.shape[1]), EXCLUDED, dtype=codes.dtype)
    for column in of_row.T:
        # Rows in use of one level have one code, and -3 is below it: the largest is the level's fold.
        np.maximum.at(best, column, codes)
    rows = np.bincount(of_row.reshape(-1), minlength=levels.num_rows)
    return group_table_of({name: levels.column(name) for name in levels.column_names}, best, rows)

"""The memory of a manifest, by which new rows are shared out without the old ones; and the table of groups and classes.

Whole groups are decided on that table alone, a few bytes a row, as it scales past the rows that a strategy can hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.manifests.membership import EXCLUDED, LOCKED, UNKNOWN, Membership, fold_column
from evenfold.manifests.spec import Columns
from evenfold.manifests.tables.canonical import STRETCH, coded, numbered, stretches, to_numpy
from evenfold.splitters import Needs, Predefined, Rows, Splitter
from evenfold.splitters.kernels import shares_of_parts
from evenfold.splitters.numbers import MOST_CLASSES_OF_NUMBERS, Coded, encode, is_number
from evenfold.splitters.packing.cost import QUANTILE_BINS, GroupRows, edges_of, require_table, side_by_side
from numpy.typing import NDArray

from .header import Remembered

MOST_CELLS = 1_000
MOST_CODES = 100  # or edges, or classes, to be remembered one by one


def is_numeric_target(column: pa.ChunkedArray) -> bool:
    """Return whether a canonical column is a number to predict, by the rule of ``evenfold.splitters.numbers``."""
    kind = "f" if pa.types.is_floating(column.type) else "i" if pa.types.is_integer(column.type) else "O"
    head = column.slice(0, 1_000).drop_null().unique()  # these alone may show that there are many
    return is_number(kind, lambda: head if len(head) > MOST_CLASSES_OF_NUMBERS else column.drop_null().unique())


def to_balance(table: pa.Table, columns: Columns) -> NDArray[Any] | Coded | None:
    """Return what is to be shared out evenly: numbers as they are, text and several columns as codes; None of none."""
    balanced = table.select(columns.shared_out)
    if balanced.num_columns > 1 or balanced.schema.types == [pa.large_string()]:
        return coded(balanced)
    for column in balanced.columns:
        return to_numpy(column).astype(np.float64) if is_numeric_target(column) else to_numpy(column)
    return None


def shares_of(splitter: Splitter, n_folds: int, locked: float) -> dict[int, float]:
    """Return the share of all rows that each code wants: equal for folds, as asked for parts; -2 for a locked part."""
    if splitter.parts:
        codes = splitter.part_codes()
        shares = {codes[name]: share for name, share in shares_of_parts(splitter.parts).items()}
    else:
        shares = {fold: 1.0 / n_folds for fold in range(n_folds)}
    # The locked part is drawn first; the strategy shares out what it leaves.
    shares = {code: share * (1.0 - locked) for code, share in shares.items()}
    return shares | ({LOCKED: shares.get(LOCKED, 0.0) + locked} if locked else {})


@dataclass(frozen=True)
class State:
    """The memory of a manifest: the shares of the codes (None above 100), and what each holds of each stratum.

    Strata are the ``classes`` of the target (or of several columns together), or lie between the ``edges`` of a number,
    frozen so that drift is seen. ``counts`` (repeats by codes by strata) is None above 1,000 cells.
    """

    shares: dict[int, float] | None = None
    edges: list[float] | None = None
    classes: list[Any] | None = None
    counts: list[list[list[int]]] | None = None

    @classmethod
    def of(cls, values: Remembered | None) -> State | None:
        """Return the state that a header holds."""
        if values is None:
            return None
        shares = dict(values["shares"]) if "shares" in values else None
        return cls(shares, values.get("edges"), values.get("classes"), values.get("counts"))

    def to_json(self) -> Remembered:
        """Return what a header holds; what is None is left out."""
        values = vars(self) | {"shares": None if self.shares is None else [*map(list, self.shares.items())]}
        return cast(Remembered, {name: value for name, value in values.items() if value is not None})

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
        columns: list[Classed] = [encode(y, "y")]
        if isinstance(y, Coded) and y.codes.ndim == 2:
            columns = list(zip(y.codes.T, y.levels, strict=True))
        codes, levels = _classed(columns, n)
        names = [tuple(each) if isinstance(each, list) else each for each in [*(self.classes or ()), *(levels or ())]]
        by_name = {name: number for number, name in enumerate(dict.fromkeys(names))}
        numbers = np.array([by_name[name] for name in names[len(self.classes or ()) :]], dtype=np.int64)
        classes = [list(name) if isinstance(name, tuple) else name for name in by_name]
        return numbers[codes], replace(self, classes=classes)


Classed = tuple[NDArray[Any], Sequence[Any]]  # the codes of a column's rows, and what they stand for
Strata = tuple[NDArray[Any], list[Any] | None, list[float] | None]  # of each row; their classes, or edges of numbers


def _classed(columns: Sequence[Classed], n: int) -> tuple[NDArray[Any], list[Any] | None]:
    """Return the stratum of each of ``n`` rows by first appearance, and the classes (lists of columns) for JSON."""
    if not columns:
        return np.zeros(n, dtype=np.int8), None
    plain = [
        (codes, [level if isinstance(level, (str, int, float, bool)) else str(level) for level in levels])
        for codes, levels in columns
    ]
    if len(plain) == 1:
        return plain[0]
    strata: Any = 0
    for codes, levels in plain:  # numbered anew each time, so that the product of many columns does not overflow
        strata = pd.factorize(strata * len(levels) + codes)[0]
    first = np.unique(strata, return_index=True)[1]
    rows = zip(*([levels[code] for code in codes[first].tolist()] for codes, levels in plain), strict=True)
    return strata, [list(row) for row in rows]


def first_state(splitter: Splitter, rows: Rows | GroupTable, membership: Membership, locked: float) -> State | None:
    """Return what to remember of a new split; None of too many codes or classes, and of folds that tear groups."""
    shares = shares_of(splitter, membership.n_bins, locked)
    if isinstance(splitter, Predefined):  # given folds keep the shares that they have
        folds = membership.column()
        if rows.groups is not None:
            first = np.unique(rows.groups, return_index=True)[1]
            if (folds != folds[first[rows.groups]]).any():
                return None
        present, n = np.unique(folds[folds != EXCLUDED], return_counts=True)
        shares = dict(zip(present.tolist(), (n / n.sum()).tolist(), strict=True))
    strata, classes, edges = _strata_of(rows, len(shares))
    state, codes = State(shares if len(shares) <= MOST_CODES else None, edges, classes), membership.codes
    if len(shares) * state.n_strata * codes.shape[1] > MOST_CELLS:
        return state if len(shares) <= MOST_CODES and len(classes or ()) <= MOST_CELLS else None
    return replace(state, counts=held_of(shares, codes, strata, state.n_strata).tolist())


def _strata_of(rows: Rows | GroupTable, n_shares: int) -> Strata:
    if isinstance(rows, GroupTable):
        if rows.edges is not None:
            return rows.strata[0], None, rows.edges.tolist()
        classes = [to_numpy(levels).tolist() for levels in rows.levels]
        return *_classed(list(zip(rows.strata, classes, strict=True)), rows.groups.size), None
    if rows.y_holds != "numbers":
        return *_classed(rows.classed, rows.n), None
    # So many bins of a numeric target are told apart; whole groups are packed by those that edges_of returns.
    bins = QUANTILE_BINS if rows.groups is not None else max(2, min(MOST_CODES, MOST_CELLS // n_shares))
    cuts = np.arange(1, bins) * rows.n // bins
    cut = rows.y[rows.ranked[cuts]] if rows.groups is None else edges_of(rows.y[rows.ranked], bins)
    edges = list(dict.fromkeys(cut.tolist()))
    return np.searchsorted(edges, rows.y, side="right"), None, edges


def held_of(shares: Mapping[int, float], codes: NDArray[Any], strata: NDArray[Any], n_strata: int) -> NDArray[np.int64]:
    """Return the rows of each stratum that each code with a share holds (repeats by codes by strata)."""
    places = np.array(list(shares)) - UNKNOWN  # from the least code on
    n_codes = max(int(codes.max(initial=UNKNOWN)) - UNKNOWN, int(places.max())) + 1
    return np.stack([cell_counts(column, strata, n_codes, n_strata, UNKNOWN)[places] for column in codes.T])


def cell_counts(
    bins: NDArray[Any], strata: NDArray[Any], n_bins: int, n_of_strata: int, first: int = 0
) -> NDArray[np.int64]:
    """Return the rows of each stratum in each bin (bins by strata), from bin ``first`` on; those below are left out."""
    require_table(n_bins, n_of_strata)
    cells = np.zeros(n_bins * n_of_strata, dtype=np.int64)
    for start in range(0, bins.size, 4 * STRETCH):  # a hundred million rows need no copy as large as they are
        here = slice(start, start + 4 * STRETCH)
        numbers = (bins[here].astype(np.int64) - first) * n_of_strata + strata[here]
        placed = bins[here] >= first
        cells += np.bincount(numbers if placed.all() else numbers[placed], minlength=cells.size)
    return cells.reshape(n_bins, n_of_strata)


def group_table_of(
    names: dict[str, pa.Array], codes: NDArray[Any], rows: NDArray[Any] | None, generation: int = 0,
    of_classes: Mapping[str, NDArray[Any]] | None = None,
) -> pa.Table:  # fmt: skip
    """Return the table of groups with a name, their folds and rows, and the columns of their rows of each class."""
    n, columns = len(codes), dict[str, pa.Array | NDArray[Any]](names)
    columns |= {fold_column(repeat): np.ascontiguousarray(folds) for repeat, folds in enumerate(codes.T)}
    columns["rows"] = pa.nulls(n, pa.int64()) if rows is None else pa.array(rows, pa.int64())
    columns["generation"] = np.full(n, generation, dtype=np.int16)
    table = pa.table(columns | dict(of_classes or {}))
    # No later row can be of a group without a name.
    return table.filter(table.column("group").is_valid()) if table.column("group").null_count else table


def levels_of(table: pa.Table) -> tuple[NDArray[np.int64], pa.Table]:
    """Return the level of each row's entities (rows, columns), numbered column by column, and a table of the levels."""
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


class GroupTable:
    """The rows of each class in each group, and which group a row is of; both numbered by first appearance.

    The classes of numbers are the bins between ``edges``. ``levels`` are the classes of each column, ``tables`` the
    rows of each in each group, of rows alone without a column. ``numeric``: whether the target is a number, if known.
    """

    def __init__(self, table: pa.Table, columns: Columns, needs: Needs, numeric: bool | None = None) -> None:
        self.groups, self.values = numbered(table.column(str(columns.group)))
        shared = [table.column(name) for name in (columns.shared_out if needs.y != "ignored" else [])]
        numeric = len(shared) == 1 and is_numeric_target(shared[0]) if numeric is None else numeric
        classed = [] if numeric else [numbered(column) for column in shared]
        self.strata, self.levels = [codes for codes, _ in classed], [levels for _, levels in classed]
        self.edges: NDArray[np.float64] | None = None
        if numeric:
            ascending, start = np.empty(len(shared[0])), 0
            for part in map(to_numpy, stretches(shared[0])):
                ascending[start : start + part.size] = part
                start += part.size
            ascending.sort()  # the copy itself: of a hundred million numbers another one is 0.8 GB
            self.edges = edges_of(ascending, QUANTILE_BINS)
            del ascending
            # In parts, for the places that are found take eight bytes a row, and one is enough.
            bins = (np.searchsorted(self.edges, to_numpy(part), "right") for part in stretches(shared[0]))
            self.strata.append(np.concatenate([part.astype(np.int8) for part in bins]))
        widths = [len(levels) for levels in self.levels] if self.edges is None else [self.edges.size + 1]
        counted = list(zip(self.strata, widths, strict=True)) or [(np.zeros(self.groups.size, dtype=np.int8), 1)]
        self.tables = [cell_counts(self.groups, codes, len(self.values), width) for codes, width in counted]

    def rows(self) -> GroupRows:
        """Return what a strategy looks at: the table of one column, those of several side by side, or sizes alone."""
        sizes = self.tables[0].sum(axis=1)
        table, weights = side_by_side(self.tables if self.strata else [], sizes.size)
        levels = tuple(self.levels[0].to_pylist()) if len(self.levels) == 1 else ()
        return GroupRows(
            n=int(sizes.sum()), groups=np.arange(sizes.size), levels=levels, sizes=sizes, table=table, weights=weights
        )  # fmt: skip

    def group_table(self, of_groups: NDArray[Any]) -> pa.Table:
        """Return each group with its fold (of each repeat) and its rows, of each class where there are few classes."""
        of_classes = dict[str, NDArray[np.int64]]()
        if len(self.levels) == 1 and len(self.levels[0]) <= MOST_CODES:
            names = [f"rows_{level}" for level in to_numpy(self.levels[0]).tolist()]
            of_classes = dict(zip(names, self.tables[0].T, strict=True))
        return group_table_of({"group": self.values}, of_groups, self.tables[0].sum(axis=1), of_classes=of_classes)

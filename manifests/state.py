"""What a manifest remembers of its classes, so that new rows can be shared out without the old ones at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.splitters import LabelSplitter, Rows, Splitter
from evenfold.splitters.kernels.order import stable_order
from numpy.typing import NDArray

from .membership import EXCLUDED, Membership, fold_column

MOST_CELLS = 1_000
MOST_EDGES = 100
MOST_SHARES = 100


def shares_of(splitter: Splitter, n_folds: int, locked: float) -> dict[int, float]:
    """Return the share of all rows that each code wants: equal for folds, as asked for parts; -2 for a locked part."""
    codes = splitter.part_codes() if isinstance(splitter, LabelSplitter) else {}
    if codes:
        parts = getattr(splitter, "parts")  # noqa: B009 - only strategies of parts have it
        shares = {code: float(parts[name]) for name, code in codes.items()}
    else:
        shares = {fold: 1.0 / n_folds for fold in range(n_folds)}
    if not locked:
        return shares
    shares = {code: share * (1.0 - locked) for code, share in shares.items()}
    return shares | {-2: shares.get(-2, 0.0) + locked}


@dataclass(frozen=True)
class State:
    """What a manifest remembers of its rows: the shares of the codes, and what each holds of each stratum.

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

    def strata(self, y: NDArray[Any] | None, n: int) -> tuple[NDArray[np.int64], State]:
        """Return the stratum of each of ``n`` rows, and the state with the classes that are new added at the end."""
        if y is None:
            return np.zeros(n, dtype=np.int64), self
        if self.edges is not None:
            return np.searchsorted(np.array(self.edges), y.astype(np.float64), side="right"), self
        known = {_name(level): number for number, level in enumerate(self.classes or ())}
        named = [_name([_plain(v) for v in row] if isinstance(row, list) else _plain(row)) for row in y.tolist()]
        codes = np.fromiter((known.setdefault(name, len(known)) for name in named), np.int64, len(named))
        new = [list(name) if isinstance(name, tuple) else name for name in list(known)[len(self.classes or ()) :]]
        return codes, replace(self, classes=[*(self.classes or ()), *new])


def first_state(splitter: Splitter, rows: Rows, membership: Membership, locked: float) -> State | None:
    """Return what to remember of a new split; None where there are too many codes or classes to remember anything."""
    shares = shares_of(splitter, membership.n_bins, locked)
    state = State(shares if len(shares) <= MOST_SHARES else None)
    if rows.y is not None and rows.y.dtype.kind == "f":
        most = max(2, min(MOST_EDGES, MOST_CELLS // len(shares)))
        state = replace(state, edges=_edges(rows.y, 10 if rows.groups is not None else most))
    elif rows.y is not None:
        state = replace(state, classes=_classes(rows))
    columns = membership.codes.T
    if len(shares) * state.n_strata * len(columns) > MOST_CELLS:
        small = len(shares) <= MOST_CELLS // 10 and len(state.classes or ()) <= MOST_CELLS
        return state if small else None
    if rows.y is None:
        return replace(state, counts=[_sizes(codes, shares) for codes in columns])
    strata = _first_strata(rows, state)
    lookup = {code: number for number, code in enumerate(shares)}
    bin_of = np.array([lookup.get(code, -1) for code in range(EXCLUDED, int(columns.max()) + 1)])
    counts = (cell_counts(bin_of[codes - EXCLUDED], strata, len(shares), state.n_strata) for codes in columns)
    return replace(state, counts=[table.tolist() for table in counts])


def _sizes(codes: NDArray[Any], shares: dict[int, float]) -> list[list[int]]:
    values, counts = np.unique(codes, return_counts=True)
    known = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return [[known.get(code, 0)] for code in shares]


def _first_strata(rows: Rows, state: State) -> NDArray[np.int64]:
    assert rows.y is not None
    if state.edges is not None:
        return np.searchsorted(np.array(state.edges), rows.y, side="right")
    if rows.y.ndim == 1:
        return np.asarray(rows.y, dtype=np.int64)
    numbers: dict[tuple[int, ...], int] = {}
    return np.array([numbers.setdefault(tuple(codes), len(numbers)) for codes in rows.y.tolist()])


def _edges(y: NDArray[np.float64], bins: int) -> list[float]:
    ranked = y[stable_order(y)]
    cuts = np.arange(1, bins) * y.size // bins
    return [float(edge) for edge in dict.fromkeys(ranked[cuts].tolist())]


def _classes(rows: Rows) -> list[Any]:
    assert rows.y is not None
    if rows.y.ndim == 1:
        return [_plain(level) for level in rows.levels]
    combinations = dict.fromkeys(map(tuple, rows.y.tolist()))
    return [[_plain(rows.levels[j][code]) for j, code in enumerate(codes)] for codes in combinations]


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _name(level: Any) -> Any:
    return tuple(level) if isinstance(level, list) else level


def cell_counts(bins: NDArray[np.int64], strata: NDArray[np.int64], n_bins: int, n_of_strata: int) -> NDArray[np.int64]:
    """Return the rows of each stratum in each bin (bins by strata); bins below 0 are left out."""
    placed = bins >= 0
    cells = np.bincount(bins[placed] * n_of_strata + strata[placed], minlength=n_bins * n_of_strata)
    return cells.reshape(n_bins, n_of_strata)


MOST_COUNTED_CLASSES = 100


def groups_of(column: pa.Table) -> tuple[NDArray[np.int64], pa.Table]:
    """Return a code per row by first appearance, and the groups that the codes stand for."""
    combined = column.column(0).combine_chunks()
    encoded = (combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)).dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return codes, pa.table({column.column_names[0]: encoded.dictionary})


def first_group_table(rows: Rows, column: pa.ChunkedArray, membership: Membership) -> pa.Table:
    """Return each group with its fold (of each repeat) and its rows, of each class where there are few classes."""
    assert rows.groups is not None
    first = np.full(rows.n_groups, rows.n, dtype=np.int64)
    np.minimum.at(first, rows.groups, np.arange(rows.n))
    columns: dict[str, Any] = {"group": column.take(first)}
    for repeat, folds in enumerate(membership.codes[first].T):
        columns[fold_column(repeat)] = folds
    columns["rows"] = np.bincount(rows.groups, minlength=rows.n_groups)
    columns["generation"] = np.zeros(rows.n_groups, dtype=np.int16)
    classes = rows.y is not None and rows.y.dtype.kind == "i" and rows.y.ndim == 1
    if classes and len(rows.levels) <= MOST_COUNTED_CLASSES:
        assert rows.y is not None
        cells = np.bincount(rows.groups * len(rows.levels) + rows.y, minlength=rows.n_groups * len(rows.levels))
        for level, counts in zip(rows.levels, cells.reshape(rows.n_groups, -1).T, strict=True):
            columns[f"rows_{level}"] = counts
    return pa.table(columns)


def group_rows(groups: pa.Table, folds: NDArray[Any], like: pa.Table, generation: int) -> pa.Table:
    """Return new groups as rows of a table like ``like``: group and folds filled, counts left empty."""
    born = pa.array(np.full(groups.num_rows, generation))
    columns: dict[str, Any] = {"group": groups.column(0), "generation": born}
    for repeat, fold in enumerate(folds.T):
        columns[fold_column(repeat)] = pa.array(fold)
    return pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(groups.num_rows, field.type)
            for field in like.schema
        }
    )

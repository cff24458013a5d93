"""What a manifest remembers of its classes, so that new rows can be shared out without the old ones at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.splitters import LabelSplitter, Rows, Splitter, stable_order
from numpy.typing import NDArray

from .membership import Membership, fold_column

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


def first_state(splitter: Splitter, rows: Rows, membership: Membership, locked: float) -> dict[str, Any] | None:
    """Return shares, classes or frozen quantile edges, and what each bin holds of each (repeats by bins by strata).

    Every later generation is counted by the same edges, so data that drift are seen as drifting. None where there
    would be more than 1,000 counts: then only a whole table can extend the manifest. More than 100 shares are left
    out; they follow from the strategy.
    """
    shares = shares_of(splitter, membership.n_bins, locked)
    numbers, columns = rows.y is not None and rows.y.dtype.kind == "f", membership.codes.T
    bins = most_edges(shares, rows.groups is not None)
    edges = _edges(rows.y, bins) if rows.y is not None and numbers else None
    state, countable = uncounted(shares, len(columns), edges, None if numbers or rows.y is None else _classes(rows))
    if state is None or not countable:
        return state
    strata = np.zeros(rows.n, dtype=np.int64) if rows.y is None else _first_strata(rows, state)
    total = n_strata(state, state.get("classes", []))
    counts = [counted(bins_of(codes, shares), strata, len(shares), total) for codes in columns]
    return state | {"counts": [count.tolist() for count in counts]}


def most_edges(shares: dict[int, float], grouped: bool) -> int:
    """Return how many bins of a numeric target are told apart."""
    return 10 if grouped else max(2, min(MOST_EDGES, MOST_CELLS // len(shares)))


def uncounted(
    shares: dict[int, float], repeats: int, edges: list[float] | None, classes: list[Any] | None
) -> tuple[dict[str, Any] | None, bool]:
    """Return a first state without its counts, and whether these are few enough to be kept."""
    few = len(shares) <= MOST_SHARES
    state: dict[str, Any] = {"shares": [[code, share] for code, share in shares.items()]} if few else {}
    if edges is not None:
        state["edges"] = edges
    elif classes is not None:
        state["classes"] = classes
    if len(shares) * n_strata(state, classes or []) * repeats <= MOST_CELLS:
        return state, True
    return (state if len(shares) <= MOST_CELLS // 10 and len(classes or ()) <= MOST_CELLS else None), False


def bins_of(codes: NDArray[Any], shares: dict[int, float]) -> NDArray[np.int64]:
    """Return the number of each code among ``shares``, -1 for one that has no share."""
    lookup = {code: number for number, code in enumerate(shares)}
    numbers: NDArray[np.int64] = np.array([lookup.get(code, -1) for code in range(-3, int(codes.max(initial=-3)) + 1)])
    return numbers[codes + 3]


def _first_strata(rows: Rows, state: dict[str, Any]) -> NDArray[np.int64]:
    assert rows.y is not None
    if "edges" in state:
        return np.searchsorted(np.array(state["edges"]), rows.y, side="right")
    if rows.y.ndim == 1:
        return np.asarray(rows.y, dtype=np.int64)
    numbers: dict[tuple[int, ...], int] = {}
    return np.array([numbers.setdefault(tuple(codes), len(numbers)) for codes in rows.y.tolist()])


def _edges(y: NDArray[np.float64], bins: int) -> list[float]:
    ranked = y[stable_order(y)]
    cuts = np.arange(1, bins) * y.size // bins
    return distinct(ranked[cuts].tolist())


def distinct(edges: list[float]) -> list[float]:
    """Return each edge once."""
    return [float(edge) for edge in dict.fromkeys(edges)]


def _classes(rows: Rows) -> list[Any]:
    assert rows.y is not None
    if rows.y.ndim == 1:
        return [plain(level) for level in rows.levels]
    combinations = dict.fromkeys(map(tuple, rows.y.tolist()))
    return [[plain(rows.levels[j][code]) for j, code in enumerate(codes)] for codes in combinations]


def plain(value: Any) -> Any:
    """Return a class as JSON holds it."""
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def strata_of(y: NDArray[Any] | None, n: int, state: dict[str, Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the stratum of each row, and the classes with those that are new added at the end."""
    if y is None:
        return np.zeros(n, dtype=np.int64), []
    if "edges" in state:
        return np.searchsorted(np.array(state["edges"]), y.astype(np.float64), side="right"), []
    known = {_name(level): number for number, level in enumerate(state.get("classes", []))}
    named = [_name([plain(v) for v in row] if isinstance(row, list) else plain(row)) for row in y.tolist()]
    codes = np.fromiter((known.setdefault(name, len(known)) for name in named), np.int64, len(named))
    new = [name for name, number in known.items() if number >= len(state.get("classes", []))]
    return codes, [*state.get("classes", []), *(list(name) if isinstance(name, tuple) else name for name in new)]


def _name(level: Any) -> Any:
    return tuple(level) if isinstance(level, list) else level


def n_strata(state: dict[str, Any], classes: list[Any]) -> int:
    """Return how many strata there are."""
    return len(state["edges"]) + 1 if "edges" in state else max(len(classes), 1)


def counted(bins: NDArray[np.int64], strata: NDArray[np.int64], n_bins: int, n_of_strata: int) -> NDArray[np.int64]:
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
    sizes, cells = np.bincount(rows.groups, minlength=rows.n_groups), None
    if (
        rows.y is not None
        and rows.y.dtype.kind == "i"
        and rows.y.ndim == 1
        and len(rows.levels) <= MOST_COUNTED_CLASSES
    ):
        counts = np.bincount(rows.groups * len(rows.levels) + rows.y, minlength=rows.n_groups * len(rows.levels))
        cells = counts.reshape(rows.n_groups, -1)
    return group_table_of(column.take(first), membership.codes[first], sizes, rows.levels, cells)


def group_table_of(
    groups: pa.Array, codes: NDArray[Any], sizes: NDArray[Any], levels: Sequence[Any], cells: NDArray[Any] | None
) -> pa.Table:
    """Return the table of groups of generation 0, with ``cells`` (groups, levels) where there are few classes."""
    columns: dict[str, Any] = {"group": groups}
    columns |= {fold_column(repeat): np.ascontiguousarray(folds) for repeat, folds in enumerate(codes.T)}
    columns |= {"rows": sizes, "generation": np.zeros(sizes.size, dtype=np.int16)}
    if cells is not None and len(levels) <= MOST_COUNTED_CLASSES:
        columns |= {f"rows_{level}": counts for level, counts in zip(levels, cells.T, strict=True)}
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

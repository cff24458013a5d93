"""The balance of a split, in numbers; and columns beside it: their levels, folds in them, rows that they join."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.tables.canonical import canonical_table, coded, encoded, to_numpy
from evenfold.splitters import DrawSplitter, GroupPacker, Needs, PackReport, Rows
from numpy.typing import NDArray

from .figures import FIGURES, AttributeBalance, BalanceReport, Figures, FoldBalance, PartBalance
from .joined import Joined, compared_with_all, sample_sd
from .manifest import Manifest
from .membership import LOCKED, MOST_MEASURED, Draws, Labels, Ranks
from .spec import SplitSpec
from .store.state import GroupTable, is_numeric_target, shares_of
from .store.stored import LOOKED_AT, in_memory


def measure(manifest: Any, data: Any = None, *, memory: str | int | None = None) -> BalanceReport:
    """Return how even ``manifest`` is on ``data`` (whatever ``decide`` takes, or a ``Joined``); sizes alone without.

    SplitError where data are not the manifest's rows, where the target or the group column has holes, and where the
    rows take more than ``memory`` (all that is free where it is None). O(n log n + splits x n).
    """
    manifest = in_memory(manifest, memory, LOOKED_AT)
    places, membership = _places(manifest), manifest.in_use
    balances = [balance for _, balance in places]
    equal = isinstance(membership, Labels) and not membership.parts and manifest.splitter.shares_out
    report = BalanceReport(
        split_id=manifest.split_id, target=manifest.spec.columns.target if data is not None else None,
        n_rows=int(np.count_nonzero(membership.column() >= LOCKED)), n_folds=membership.n_bins if equal else None,
        n_splits=manifest.n_splits, n_measured=min(manifest.n_splits, MOST_MEASURED),
        folds=[balance for balance in balances if isinstance(balance, FoldBalance)],
        parts=[balance for balance in balances if isinstance(balance, PartBalance)],
    )  # fmt: skip
    if data is not None:
        report = _on_data(report, Joined.of(manifest, data), [rows for rows, _ in places])
    worst = {figure.name: value for figure in FIGURES if (value := figure.value(report)) is not None}
    bounds = {figure.name: figure.least(report) for figure in FIGURES if figure.name in worst}
    least = {name: bound for name, bound in bounds.items() if bound is not None}
    return report.model_copy(update={"worst": worst, "reachable": least})


def _places(manifest: Manifest) -> list[tuple[Ranks, FoldBalance | PartBalance]]:
    """Return the test rows of each split, and the parts that no split tests, with the rows that each was to have."""
    membership, splitter = manifest.in_use, manifest.splitter
    places: list[tuple[Ranks, FoldBalance | PartBalance]] = []
    column, wanted = membership.column(), _asked(manifest)
    drawn = splitter.sizes(int(np.count_nonzero(column == 0))) if isinstance(splitter, DrawSplitter) else None
    untested = dict(wanted)
    for i in range(min(manifest.n_splits, MOST_MEASURED)):
        train, test = membership.pair(i)
        fold = membership.split_name(i)[1]
        code = membership.tested[fold] if isinstance(membership, Labels) else fold
        untested.pop(code, None)
        name = membership.code_name(code) if membership.parts and membership.n_repeats == 1 else None
        balance = FoldBalance(split=i, rows=test.size, wanted=wanted.get(code), name=name)
        sizes = {"wanted": drawn[1], "train": train.size, "wanted_train": drawn[0]} if drawn else {}
        places.append((test, balance.model_copy(update=sizes)))
    for code, share in untested.items():
        rows = np.flatnonzero(column == code)
        places.append((rows, PartBalance(name=membership.code_name(code), rows=rows.size, wanted=share)))
    return places


def _asked(manifest: Manifest) -> dict[int, float]:
    """Return the rows that each code was to have: folds the same of what is tested, parts their shares of all."""
    membership, column, splitter = manifest.in_use, manifest.in_use.column(), manifest.splitter
    in_use, tested = int(np.count_nonzero(column >= LOCKED)), int(np.count_nonzero(column >= 0))
    holdout = manifest.spec.locked_share
    if membership.parts:
        return {code: share * in_use for code, share in shares_of(splitter, membership.n_bins, holdout).items()}
    locked: dict[int, float] = {LOCKED: holdout * in_use} if holdout else {}
    if not isinstance(membership, Labels) or not splitter.shares_out:
        return locked
    return dict.fromkeys(membership.tested, tested / membership.n_bins) | locked


def _on_data(report: BalanceReport, beside: Joined, places: list[Ranks]) -> BalanceReport:
    """Return the report with what the columns of the data say of places, which are ranks of rows."""
    manifest, columns, update = beside.manifest, beside.manifest.spec.columns, dict[str, object]()
    column, rows = manifest.in_use.column(), beside.lookup.exact_rows()
    sets = [np.flatnonzero(column >= LOCKED), *places]
    figures: list[Figures] = [{} for _ in sets]
    if columns.target:
        figures = _distribution(beside, columns.target, rows, sets)
    for name in columns.grouped:
        beside.require_complete(name)
    units = beside.together()
    if units is not None:
        groups = units[rows]
        tested = np.bincount(groups[column >= 0], minlength=groups.max(initial=-1) + 1)
        picked = np.zeros(tested.size)
        for number, place in enumerate(places):
            held = np.bincount(groups[place], minlength=tested.size) > 0
            figures[number + 1]["groups"] = int(np.count_nonzero(held))
            picked += held if number < len(report.folds) else 0
        if isinstance(manifest.membership, Draws):
            shares = picked[tested > 0] / report.n_measured
            update["picks"] = float(shares.min()), float(shares.max())
        update["largest_group"] = int(tested.max(initial=0)) if manifest.splitter.needs.groups else None
        update["reach"] = _reach(beside, rows, groups)
    update["strata"] = {name: _worst_share(_distribution(beside, name, rows, sets)) for name in columns.stratify}
    update["attributes"] = {name: _attribute(beside, name, rows, sets) for name in columns.balance_on}
    of_places = [place.model_copy(update=dict(of)) for place, of in zip(report.measured, figures[1:], strict=True)]
    update |= {"folds": of_places[: len(report.folds)], "parts": of_places[len(report.folds) :]}
    return report.model_copy(update=dict(figures[0]) | update)


def _reach(beside: Joined, rows: Ranks, groups_of_ranks: NDArray[np.int64]) -> PackReport | None:
    """Return how even a grouped split is and could be; None for other strategies, and where a group is in two folds."""
    splitter, columns, membership = beside.manifest.splitter, beside.manifest.spec.columns, beside.manifest.in_use
    if not isinstance(splitter, GroupPacker) or columns.group is None:
        return None
    codes = membership.column()
    tested = np.flatnonzero(np.isin(codes, list(membership.parts.values()) or np.arange(membership.n_splits)))
    if tested.size < 2:
        return None
    codes, shared_out = codes[tested], {name: beside.column(name).take(rows[tested]) for name in columns.shared_out}
    # Codes stand for the groups: of a million names alone the taking would be a tenth of measuring.
    table = pa.table({columns.group: groups_of_ranks[tested]} | shared_out)
    groups = GroupTable(table, columns, splitter.needs)
    code_of = np.zeros(len(groups.values), dtype=codes.dtype)
    code_of[groups.groups] = codes
    if (code_of[groups.groups] != codes).any():  # as merged groups have rows of two codes
        return None
    return splitter.report(groups.rows(), labels=code_of)


def _attribute(beside: Joined, name: str, rows: Ranks, sets: list[Ranks]) -> AttributeBalance:
    """Return how a column's levels are shared out among sets of rows, of which the first is all that are in use."""
    codes, levels = levels_of(beside.column(name))
    overall, *places = _shares(codes[rows], len(levels), sets)
    worst = max((float(np.abs(share - overall).max()) for share in places if share.any()), default=0.0)
    shares = [share.tolist() for share in places]
    return AttributeBalance(levels=levels, shares=overall.tolist(), places=shares, worst=worst)


def _shares(codes: NDArray[np.int64], n_levels: int, sets: list[Ranks]) -> list[NDArray[np.float64]]:
    """Return the share of each level in each set of rows; all are 0 where a set has none."""
    return [np.bincount(codes[ranks], minlength=n_levels) / max(ranks.size, 1) for ranks in sets]


def _worst_share(figures: list[Figures]) -> float:
    """Return the largest difference of a place's share of a class, or of its distribution, from that of all rows."""
    overall, *places = figures
    if "shares" not in overall:
        return max(place.get("ks") or 0.0 for place in places)
    gaps = [np.subtract(place["shares"], overall["shares"]) for place in places if "shares" in place]
    return float(np.abs(gaps).max(initial=0.0))


def _distribution(beside: Joined, name: str, rows: Ranks, sets: list[Ranks]) -> list[Figures]:
    """Return how a column is distributed over each set of rows, of which the first is all that are in use."""
    column, (in_use, *places) = beside.column(name), sets
    beside.require_complete(name)
    if is_numeric_target(column):
        y = to_numpy(column).astype(np.float64, copy=False)[rows]
        if in_use.size < y.size:  # from ranks in the manifest to places among the rows in use, which are compared
            places, y = [np.searchsorted(in_use, place) for place in places], y[in_use]
        return [{"mean": float(y.mean()), "sd": sample_sd(y)}, *compared_with_all(y, places)]
    codes, levels = beside.encoded(name)
    shares = _shares(codes[rows], len(levels), sets)
    names = [str(level) for level in levels]
    order = [level for level in np.argsort(names) if shares[0][level]]  # the levels that there are, by name
    figures: list[Figures] = [{"shares": share[order].tolist()} if share.any() else {} for share in shares]
    figures[0]["classes"] = [names[level] for level in order]
    return figures


PARTS = ("train", "validation", "test")
# What each calls the three. BigQuery takes words where it tunes, and else a column of truth values.
WORDS: dict[str, tuple[str, str, str]] = {
    "vertex": ("training", "validation", "test"),
    "databricks": ("train", "validate", "test"),
    "bigquery": ("TRAIN", "EVAL", "TEST"),
}
OFTEN = [*WORDS.values(), ("train", "valid", "test"), ("train", "val", "test"), ("train", "dev", "test")]
PART_OF = {word.lower(): part for words in OFTEN for word, part in zip(words, PARTS, strict=True)}
MOST_LEVELS = 20
QUARTERS = 4  # of a number
MISSING, OTHERS = "missing", "others"


def columns_of_folds(table: pa.Table, manifest: Manifest, codes: NDArray[Any]) -> list[str]:
    """Return the columns that give the fold of each row: numbers 0 to k-1 or 1 to k in any order, or words for parts.

    ``codes``: of the rows of ``table``, a column a repeat. Numbers are none where folds are by design what a column
    says (times, places, given folds), or chance could have dealt them; words are of some split, whichever this one is.
    """
    words, needs = [name for name in table.column_names if _are_parts(table.column(name))], manifest.splitter.needs
    dealt = manifest.n if manifest.group_table is None else manifest.group_table.num_rows
    by_design = needs.time or needs.fixed or needs.coordinates or manifest.kind != "labels"
    # Fewer than thirty rows, or groups, beyond one a fold may be dealt like another column by chance.
    if by_design or dealt < manifest.n_splits // codes.shape[1] + 30:
        return words
    numbers = [name for name in table.column_names if any(_are_folds(table.column(name), each) for each in codes.T)]
    return [*words, *numbers]


def _are_parts(column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text or len(column.slice(0, 1_000).unique()) > len(PARTS):
        return False
    parts = {PART_OF.get(word.lower()) for word in column.unique().to_pylist() if word is not None}
    return len(parts) > 1 and None not in parts


def _are_folds(column: pa.ChunkedArray, codes: NDArray[Any]) -> bool:
    kind, (folds, of_row) = column.type, np.unique(codes, return_inverse=True)
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numeric or column.null_count or pc.count_distinct(column.slice(0, 1_000)).as_py() > folds.size:
        return False
    levels, places = np.unique(to_numpy(column), return_inverse=True)
    runs = folds, np.arange(folds.size), 1 + np.arange(folds.size)
    plain = any(np.array_equal(levels, numbers) for numbers in runs)
    return plain and np.unique(places * folds.size + of_row).size == folds.size > 1


def levels_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """Return a code for each row of a canonical column, and the names of the codes; every row has one.

    Classes are in order of their names, beyond 20 the rarest are "others"; a number is cut at its quartiles. Missing
    values are the last level. Where a class is called "missing" or "others", what is not is "(missing)" or "(others)".
    """
    numeric = is_numeric_target(column)
    codes, names = _quarters(to_numpy(column).astype(np.float64)) if numeric else _classes(column)
    if (codes < 0).any():
        codes, names = np.where(codes < 0, len(names), codes), [*names, apart(MISSING, names)]
    return codes, names


def apart(name: str, names: list[str]) -> str:
    """Return a name in as many brackets as none of ``names`` has."""
    return apart(f"({name})", names) if name in names else name


def _quarters(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    present = np.sort(values[~np.isnan(values)])
    if not present.size:
        return np.full(values.size, -1, dtype=np.int64), []
    edges = np.unique(present[[(part * present.size) // QUARTERS for part in range(1, QUARTERS)]])
    codes = np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right"))
    quarters, numbered = np.unique(codes[codes >= 0], return_inverse=True)
    codes[codes >= 0] = numbered
    written = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(6, 18))
    texts = next(each for each in written if len(set(each)) == edges.size)  # 17 digits tell any two apart
    names = [f"below {texts[0]}", *(f"{a} to {b}" for a, b in pairwise(texts)), f"{texts[-1]} up"]
    return codes.astype(np.int64), [names[code] for code in quarters]


def _classes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    codes, levels = encoded(column)
    names = [str(level) for level in levels.to_pylist()]
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    frequent = sorted(range(len(names)), key=lambda code: (-counts[code], names[code]))
    chosen = frequent if len(names) <= MOST_LEVELS else frequent[: MOST_LEVELS - 1]
    chosen.sort(key=lambda code: names[code])
    place = np.full(len(names) + 1, len(chosen), dtype=np.int64)
    place[[*chosen, -1]] = [*range(len(chosen)), -1]  # the last of missing values, whose code is -1
    labels = [names[code] for code in chosen]
    return place[codes], [*labels, apart(OTHERS, labels)] if len(chosen) < len(names) else labels


def kept_together(table: pa.Table, spec: SplitSpec) -> str | NDArray[np.int64] | None:
    """Return the unit of an interval: a group column, blocks of a map, groups that rows may lack, or None."""
    places = spec.columns.coordinates
    if not places or spec.strategy is None:
        name = next((name for name in spec.columns.grouped if name in table.column_names), None)
        if name is None or spec.missing_group == "refuse":
            return name
        return coded(canonical_table(table, [name], spec.types)).codes
    read = np.column_stack([*map(to_numpy, canonical_table(table, places, spec.types).columns)])
    rows = Rows.of(needs=Needs(coordinates=True), coordinates=read)
    groups: NDArray[np.int64] | None = spec.splitter().prepared(rows).groups
    return groups

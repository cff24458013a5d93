"""The balance of a split, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import to_numpy
from evenfold.splitters import DrawSplitter, GroupPacker, PackReport
from numpy.typing import NDArray

from .attributes import levels_of
from .figures import FIGURES, AttributeBalance, BalanceReport, Figures, FoldBalance, PartBalance
from .grouped import GroupTable
from .joined import Joined, compared_with_all, sample_sd
from .manifest import Manifest
from .membership import LOCKED, MOST_MEASURED, Draws, Labels, Ranks
from .state import is_numeric_target, shares_of
from .store.stored import LOOKED_AT, in_memory


def measure(manifest: Any, data: Any = None, *, memory: str | int | None = None) -> BalanceReport:
    """Return how even ``manifest`` is on ``data`` (whatever ``decide`` takes, or a ``Joined``); sizes alone without.

    Data are read once, the columns of its roles alone, and joined once. Raises SplitError where data are not the rows
    of the manifest, where the target or the group column has holes, and where the rows take more than ``memory`` (all
    that is free where it is None). O(n log n + splits x n).
    """
    manifest = in_memory(manifest, memory, LOOKED_AT)
    places, membership = _places(manifest), manifest.in_use
    balances = [balance for _, balance in places]
    equal = isinstance(membership, Labels) and not membership.parts and manifest.splitter.shares_out
    report = BalanceReport(
        split_id=manifest.split_id,
        target=manifest.spec.columns.target if data is not None else None,
        n_rows=int(np.count_nonzero(membership.column() >= LOCKED)),
        n_splits=manifest.n_splits,
        n_measured=min(manifest.n_splits, MOST_MEASURED),
        n_folds=membership.n_bins if equal else None,
        folds=[balance for balance in balances if isinstance(balance, FoldBalance)],
        parts=[balance for balance in balances if isinstance(balance, PartBalance)],
    )
    if data is not None:
        report = _on_data(report, Joined.of(manifest, data), [rows for rows, _ in places])
    values = {figure.name: (figure.value(report), figure.least(report)) for figure in FIGURES}
    worst = {name: value for name, (value, _) in values.items() if value is not None}
    least = {name: bound for name, (_, bound) in values.items() if bound is not None and name in worst}
    return report.model_copy(update={"worst": worst, "reachable": least})


def _places(manifest: Manifest) -> list[tuple[Ranks, FoldBalance | PartBalance]]:
    """Return the test rows of each split, and the parts that no split tests, with the rows that each was to have."""
    membership, splitter = manifest.in_use, manifest.splitter
    places: list[tuple[Ranks, FoldBalance | PartBalance]] = []
    column, wanted, codes = membership.column(), _asked(manifest), set[int]()
    drawn = splitter.sizes(int(np.count_nonzero(column == 0))) if isinstance(splitter, DrawSplitter) else None
    parts = bool(membership.parts and membership.n_repeats == 1)
    for i in range(min(manifest.n_splits, MOST_MEASURED)):
        train, test = manifest.in_use.pair(i)
        fold = membership.split_name(i)[1]
        codes.add(code := membership.tested[fold] if isinstance(membership, Labels) else fold)
        sizes: dict[str, Any] = {"wanted": wanted.get(code), "name": membership.code_name(code) if parts else None}
        if drawn:
            sizes |= {"wanted": drawn[1], "train": train.size, "wanted_train": drawn[0]}
        places.append((test, FoldBalance(split=i, rows=test.size, **sizes)))
    for code in wanted:
        if code not in codes:
            rows = np.flatnonzero(column == code)
            balance = PartBalance(name=membership.code_name(code), rows=rows.size, wanted=wanted[code])
            places.append((rows, balance))
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
    manifest, columns, update = beside.manifest, beside.manifest.spec.columns, dict[str, Any]()
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
    """Return how even a grouped split is and could be; None for other strategies, and where a group lies in two folds.

    None also where under two rows are left. O(n) and the bound's search: up to a few seconds where groups are few
    enough for a proof.
    """
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
    groups = GroupTable.of(table, columns, splitter.needs)
    code_of = np.zeros(len(groups.values), dtype=codes.dtype)
    code_of[groups.groups] = codes
    if (code_of[groups.groups] != codes).any():  # as merged groups have rows of two codes
        return None
    return splitter.judge(groups.rows(groups.tables()), code_of)


def _attribute(beside: Joined, name: str, rows: Ranks, sets: list[Ranks]) -> AttributeBalance:
    """Return how a column's levels are shared out among sets of rows, of which the first is all that are in use."""
    codes, levels = levels_of(beside.column(name))
    codes = codes[rows]
    overall, *places = (np.bincount(codes[ranks], minlength=len(levels)) / max(ranks.size, 1) for ranks in sets)
    return AttributeBalance(
        levels=levels,
        shares=overall.tolist(),
        places=[share.tolist() for share in places],
        worst=max((float(np.abs(share - overall).max()) for share in places if share.any()), default=0.0),
    )


def _worst_share(figures: list[Figures]) -> float:
    """Return the largest difference of a place's share of a class, or of its distribution, from that of all rows."""
    overall, *places = figures
    if "shares" not in overall:
        return max(place.get("ks") or 0.0 for place in places)
    gaps = [np.abs(np.subtract(place["shares"], overall["shares"])).max() for place in places if "shares" in place]
    return max(map(float, gaps), default=0.0)


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
    codes = codes[rows]
    everywhere, *counts = (np.bincount(codes[ranks], minlength=len(levels)) for ranks in sets)
    order = np.argsort(np.array([str(level) for level in levels]))
    order = order[everywhere[order] > 0]  # the levels that there are, by name
    shares: list[Figures] = [
        {"shares": (count[order] / count.sum()).tolist()} if count.any() else {} for count in (everywhere, *counts)
    ]
    return [{"classes": [str(levels[level]) for level in order]} | shares[0], *shares[1:]]

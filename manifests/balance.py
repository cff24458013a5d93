"""How even a split is, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import to_numpy
from evenfold.splitters import DrawSplitter, GroupPacker, Rows
from numpy.typing import NDArray

from .attributes import levels_of
from .figures import FIGURES, AttributeBalance, BalanceReport, Distributed, Figures, FoldBalance, PartBalance, Reach
from .joined import Joined, compared_with_all, sample_sd
from .manifest import Manifest
from .membership import LOCKED, MOST_MEASURED, Draws, Labels, Membership
from .spec import SplitSpec
from .state import balanced_columns, is_numeric_target, shares_of
from .store.stored import LOOKED_AT, in_memory


def _reach(beside: Joined, rows: NDArray[np.int64]) -> Reach | None:
    """Return how even a grouped split is and could be; None for other strategies, and where a group lies in two folds.

    None also where under two rows are left. O(n) and the bound's search: up to a few seconds where groups are few
    enough for a proof.
    """
    splitter, columns, membership = beside.manifest.splitter, beside.manifest.spec.columns, beside.manifest.in_use
    if not isinstance(splitter, GroupPacker) or columns.group is None:
        return None
    codes = membership.column()
    kept = np.flatnonzero(np.isin(codes, list(membership.parts.values()) or np.arange(membership.n_splits)))
    used = dict.fromkeys([*columns.shared_out, columns.group])
    table = pa.table({name: beside.column(name) for name in used}).take(rows[kept])
    groups = to_numpy(table.column(columns.group))
    if kept.size < 2 or _torn(groups, codes[kept]):
        return None
    y = balanced_columns(table, columns)
    packed = Rows.of(np.empty((table.num_rows, 0)), y, groups, needs=splitter.needs, asked_by=type(splitter).__name__)
    return Reach(**asdict(splitter.judge(packed, codes[kept])))


def _torn(groups: NDArray[Any], codes: NDArray[Any]) -> bool:
    """Return whether a group has rows of two codes, as merged groups have."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return bool((codes[first][numbers] != codes).any())


def measure(manifest: Manifest, data: Any = None, *, memory: str | int | None = None) -> BalanceReport:
    """Return how even ``manifest`` is on ``data`` (whatever ``decide`` takes, or a ``Joined``); sizes alone without.

    Data are read once, the columns of its roles alone, and joined once. Raises SplitError where data are not the rows
    of the manifest, where the target or the group column has holes, and where the rows take more than ``memory`` (all
    that is free where it is None). O(n log n + splits x n).
    """
    manifest = in_memory(manifest, memory, LOOKED_AT)
    places, membership = _places(manifest), manifest.in_use
    equal = isinstance(membership, Labels) and not membership.parts and manifest.splitter.shares_out
    report = BalanceReport(
        split_id=manifest.split_id,
        target=manifest.spec.columns.target if data is not None else None,
        n_rows=int(np.count_nonzero(membership.column() >= LOCKED)),
        n_splits=manifest.n_splits,
        n_measured=min(manifest.n_splits, MOST_MEASURED),
        n_folds=membership.n_bins if equal else None,
        folds=[place.balance for place in places if isinstance(place.balance, FoldBalance)],
        parts=[place.balance for place in places if isinstance(place.balance, PartBalance)],
    )
    return with_figures(report if data is None else _on_data(report, Joined.of(manifest, data), places))


def with_figures(report: BalanceReport) -> BalanceReport:
    """Return the report with the worst of each figure, and what no split of the same rows can be below."""
    values = {figure.name: (figure.value(report), figure.least(report)) for figure in FIGURES}
    worst = {name: value for name, (value, _) in values.items() if value is not None}
    least = {name: bound for name, (_, bound) in values.items() if bound is not None and name in worst}
    return report.model_copy(update={"worst": worst, "reachable": least})


class _Place(NamedTuple):
    """The ranks of a fold's or part's rows, and what is known of them without data."""

    rows: NDArray[np.int64]
    balance: FoldBalance | PartBalance


def _places(manifest: Manifest) -> list[_Place]:
    """Return the test rows of each split, and the parts that no split tests, with the rows that each was to have."""
    membership = manifest.in_use
    tested, trained = [], []
    for i in range(min(manifest.n_splits, MOST_MEASURED)):
        train, test = manifest.pair(i)
        tested.append(test)
        trained.append(train.size)
    asked, drawn = _asked(manifest), _drawn(manifest)
    names = [membership.split_name(i)[1] for i in range(len(tested))]
    codes = [membership.tested[fold] for fold in names] if isinstance(membership, Labels) else names
    folds = [
        _Place(rows, FoldBalance(split=i, rows=rows.size, wanted=asked.get(code)))
        for i, (rows, code) in enumerate(zip(tested, codes, strict=True))
    ]
    if drawn:
        folds = [
            _Place(test, FoldBalance(split=i, rows=test.size, wanted=drawn[1], train=train, wanted_train=drawn[0]))
            for i, (train, test) in enumerate(zip(trained, tested, strict=True))
        ]
    others = {code: np.flatnonzero(membership.column() == code) for code in asked if code not in codes}
    return [
        *folds,
        *(
            _Place(rows, PartBalance(name=membership.code_name(code), rows=rows.size, wanted=asked[code]))
            for code, rows in others.items()
        ),
    ]


def _asked(manifest: Manifest) -> dict[int, float]:
    column = manifest.in_use.column()
    in_use, tested = int(np.count_nonzero(column >= LOCKED)), int(np.count_nonzero(column >= 0))
    return asked_rows(manifest.in_use, manifest.spec, in_use, tested)


def asked_rows(membership: Membership, spec: SplitSpec, in_use: int, tested: int) -> dict[int, float]:
    """Return the rows that each code was to have: folds the same of what is tested, parts their shares of all."""
    splitter = spec.splitter()
    holdout = spec.holdout.fraction if spec.holdout else 0.0
    if membership.parts:
        return {code: share * in_use for code, share in shares_of(splitter, membership.n_bins, holdout).items()}
    locked = {LOCKED: holdout * in_use} if holdout else {}
    if not isinstance(membership, Labels) or not splitter.shares_out:
        return locked
    return dict.fromkeys(membership.tested, tested / membership.n_bins) | locked


def _drawn(manifest: Manifest) -> tuple[int, int] | None:
    """Return the (train rows, test rows) that every draw was to have; None for other kinds, and where none is asked."""
    splitter = manifest.splitter
    if not isinstance(splitter, DrawSplitter):
        return None
    return splitter.sizes(int(np.count_nonzero(manifest.in_use.column() == 0)))


def _on_data(report: BalanceReport, beside: Joined, places: list[_Place]) -> BalanceReport:
    """Return the report with what the columns of the data say."""
    manifest, columns = beside.manifest, beside.manifest.spec.columns
    rows = beside.lookup.exact_rows()
    in_use = np.flatnonzero(manifest.in_use.column() >= LOCKED)
    overall, more = _distribution(beside, columns.target, rows, in_use, places)
    picks, largest = None, None
    for name in columns.grouped:
        beside.require_complete(name)
    units = beside.together()
    if units is not None:
        groups = units[rows]
        counts = [int(np.unique(groups[place.rows]).size) for place in places]
        more = [{**values, "groups": count} for values, count in zip(more, counts, strict=True)]
        if isinstance(manifest.membership, Draws):
            drawn = [place.rows for place in places if isinstance(place.balance, FoldBalance)]
            held = np.array([np.bincount(groups[test], minlength=groups.max() + 1) > 0 for test in drawn]).sum(axis=0)
            shares = held[np.unique(groups[manifest.in_use.column() >= 0])] / report.n_measured
            picks = (float(shares.min()), float(shares.max()))
        tested = groups[manifest.in_use.column() >= 0]
        largest = int(np.bincount(tested).max(initial=0)) if manifest.splitter.needs.groups else None
    strata = {name: worst_share(*_distribution(beside, name, rows, in_use, places)) for name in columns.stratify}
    attributes = {name: _attribute(beside, name, rows, in_use, places) for name in columns.balance_on}
    update = {"picks": picks, "largest_group": largest, "strata": strata, "attributes": attributes}
    return filled(report, more).model_copy(update={**overall, **update, "reach": _reach(beside, rows)})


def filled(report: BalanceReport, figures: Sequence[Figures]) -> BalanceReport:
    """Return the report with what is known of the rows of each fold, and then of each part."""
    places = [place.model_copy(update=dict(known)) for place, known in zip(report.measured, figures, strict=True)]
    n_folds = len(report.folds)
    return report.model_copy(update={"folds": places[:n_folds], "parts": places[n_folds:]})


def _attribute(
    beside: Joined, name: str, rows: NDArray[np.int64], in_use: NDArray[np.int64], places: list[_Place]
) -> AttributeBalance:
    codes, levels = levels_of(beside.column(name))
    return attribute_balance(codes[rows], levels, in_use, [place.rows for place in places])


def attribute_balance(
    codes: NDArray[np.int64], levels: list[str], in_use: NDArray[np.int64], places: list[NDArray[np.int64]]
) -> AttributeBalance:
    """Return how levels are shared out among places, which are the ranks of rows, beside all rows in use."""

    def shares(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.bincount(codes[rows], minlength=len(levels)) / max(rows.size, 1)

    overall, by_place = shares(in_use), [shares(rows) for rows in places]
    return AttributeBalance(
        levels=levels,
        shares=overall.tolist(),
        places=[share.tolist() for share in by_place],
        worst=max((float(np.abs(share - overall).max()) for share in by_place if share.any()), default=0.0),
    )


def worst_share(overall: Figures, places: list[Figures]) -> float:
    """Return the largest difference of a place's share of a class, or of its distribution, from that of all rows."""
    if "shares" not in overall:
        return max(place.get("ks") or 0.0 for place in places)
    gaps = [np.abs(np.subtract(place["shares"], overall["shares"])).max() for place in places if "shares" in place]
    return max(map(float, gaps), default=0.0)


def _distribution(
    beside: Joined, name: str | None, rows: NDArray[np.int64], in_use: NDArray[np.int64], places: list[_Place]
) -> Distributed:
    """Return how a column is distributed over all rows in use, and over those of each place."""
    if not name:
        return {}, [{} for _ in places]
    column = beside.column(name)
    beside.require_complete(name)
    if is_numeric_target(column):
        y = to_numpy(column).astype(np.float64)[rows]
        # From ranks in the manifest to places among the rows in use, which are what is compared.
        rank = np.full(beside.manifest.n, -1)
        rank[in_use] = np.arange(in_use.size)
        overall: Figures = {"mean": float(y[in_use].mean()), "sd": sample_sd(y[in_use])}
        return overall, compared_with_all(y[in_use], [rank[place.rows] for place in places])
    values, levels = beside.encoded(name)
    codes = values[rows]
    counts = [np.bincount(codes[held], minlength=len(levels)) for held in (in_use, *(place.rows for place in places))]
    return shared_out(levels, counts[0], counts[1:])


def shared_out(
    levels: Sequence[object], everywhere: NDArray[np.int64], counts: Sequence[NDArray[np.int64]]
) -> Distributed:
    """Return the shares of the levels that there are, by name: of all rows, and of each place; none of an empty one."""
    order = np.argsort(np.array([str(level) for level in levels]))
    order = order[everywhere[order] > 0]
    classes = [str(levels[level]) for level in order]
    whole: Figures = {"classes": classes, "shares": (everywhere[order] / everywhere.sum()).tolist()}
    return whole, [{"shares": (count[order] / count.sum()).tolist()} if count.any() else {} for count in counts]

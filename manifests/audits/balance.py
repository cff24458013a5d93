"""Checks of how even the folds are, and of why they cannot be more so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from evenfold.manifests.balance import compared_with_all
from evenfold.manifests.manifest import LOCKED
from evenfold.manifests.plan import is_numeric_target
from evenfold.manifests.tables.canonical import amount, listed, to_numpy, verb
from numpy.typing import NDArray

from .findings import Found, NotAsked, Outcome
from .joined import Joined, fold_name

LEAST_EXPECTED = 5  # rows of a class that a fold should hold; below it one row more or less is a large deviation
MOST_CELLS = 5_000_000
Counts = NDArray[np.int64]


def missing_classes(joined: Joined) -> Outcome:
    """Look for classes that a split does not test, or does not train on."""
    names = _class_columns(joined)
    if not names:
        return NotAsked("no column of classes is named")
    if _one_row_each(joined):
        return NotAsked("every fold tests one row")
    told, figures = [], {}
    for name in names:
        codes, levels = joined.encoded(name)
        if len(levels) * joined.n_looked_at > MOST_CELLS:
            return NotAsked(f"{name!r} has {len(levels):,} classes, and there are {joined.n_looked_at:,} splits")
        for side, table in zip(("train", "test"), _class_tables(joined, codes, len(levels)), strict=True):
            empty = table == 0
            told += [_missing(name, levels, codes, empty, side, joined)] if empty.any() else []
            figures[f"{name}/{side}"] = {
                str(levels[c]): np.flatnonzero(empty[:, c]).tolist() for c in np.flatnonzero(empty.any(axis=0))[:20]
            }
    cells = sum(len(splits) for each in figures.values() for splits in each.values())
    return Found(cells, "; ".join(told) + ".", {k: v for k, v in figures.items() if v}) if told else None


def _missing(name: str, levels: list[Any], codes: Counts, empty: NDArray[np.bool_], side: str, joined: Joined) -> str:
    lacking = np.flatnonzero(empty.any(axis=0))
    rows = np.bincount(codes[codes >= 0], minlength=len(levels))[lacking]
    worst = lacking[int(np.argmin(rows))]
    splits = np.flatnonzero(empty[:, worst])
    said = (
        f"class {levels[worst]!r} of {name!r} ({amount(int(rows.min()), 'row')}) is missing from the {side} rows of "
        f"{splits.size} of {amount(empty.shape[0], 'split')} ({listed(splits)}){joined.looked_at}"
    )
    others = f", and {amount(lacking.size - 1, 'other class', 'other classes')} from some" if lacking.size > 1 else ""
    return said + others


def _class_tables(joined: Joined, codes: Counts, n_classes: int) -> tuple[Counts, Counts]:
    """Return the rows of each class that each split trains on and tests (splits by classes)."""
    if joined.manifest.kind != "labels":
        sides = [[_counted(codes[rows], n_classes) for rows in pair] for pair in joined.splits()]
        return np.array([train for train, _ in sides]), np.array([test for _, test in sides])
    trains, tests = [], []
    for column in joined.codes.T:
        table = _fold_table(joined, column, codes, n_classes)
        test = table[[code - LOCKED for code in joined.tested]]
        rest = table[-1 - LOCKED] if joined.manifest.part_codes() else table[-1 - LOCKED :].sum(axis=0) - test
        trains.append(np.broadcast_to(rest, test.shape))
        tests.append(test)
    return np.vstack(trains), np.vstack(tests)


def _counted(codes: Counts, n_classes: int) -> Counts:
    return np.bincount(codes[codes >= 0], minlength=n_classes)


def _fold_table(joined: Joined, column: NDArray[Any], codes: Counts, n_classes: int) -> Counts:
    """Return the rows of each code from -2 up and each class."""
    use = (column >= LOCKED) & (codes >= 0)
    fold = column[use].astype(np.int64) - LOCKED
    n_codes = max(int(column.max()), *joined.tested) - LOCKED + 1
    return np.bincount(fold * n_classes + codes[use], minlength=n_codes * n_classes).reshape(n_codes, n_classes)


def size_deviation(joined: Joined) -> Outcome:
    """Look for folds and parts whose rows are far from their share."""
    unfit = _not_shared(joined)
    if unfit:
        return unfit
    worst = max(_deviations(joined, np.zeros(joined.n, dtype=np.int64), 1))
    return _deviation_found(joined, worst, "")


def class_deviation(joined: Joined) -> Outcome:
    """Look for folds and parts whose rows of a class are far from their share; classes of few rows are left out."""
    unfit = _not_shared(joined)
    names = _class_columns(joined)
    if unfit or not names:
        return unfit or NotAsked("no column of classes is named")
    found = []
    for name in names:
        codes, levels = joined.encoded(name)
        if len(levels) * len(_shares(joined)) > MOST_CELLS:
            return NotAsked(f"{name!r} has {len(levels):,} classes")
        found += [
            (*each, f" of class {levels[each[-1]]!r} of {name!r}") for each in _deviations(joined, codes, len(levels))
        ]
    worst = max(found, default=None)
    return _deviation_found(joined, worst[:-1], worst[-1]) if worst else None


Deviation = tuple[float, int, int, float, int]


def _deviations(joined: Joined, codes: Counts, n_classes: int) -> Iterator[Deviation]:
    """Yield (relative deviation, code, rows, rows that its share would be, class) of the worst cell of each repeat.

    A deviation of less than a row is none, because no split can do without it.
    """
    shares = _shares(joined)
    for column in joined.codes.T:
        table = _fold_table(joined, column, codes, n_classes)
        held = table[[code - LOCKED for code in shares]]
        wanted = np.array(list(shares.values()))[:, None] * held.sum(axis=0)
        off = np.abs(held - wanted)
        off[(off < 1) | (wanted < LEAST_EXPECTED)] = 0
        relative = off / np.maximum(wanted, 1e-9)
        at, which = np.unravel_index(int(relative.argmax()), relative.shape)
        code = list(shares)[at]
        yield float(relative[at, which]), code, int(held[at, which]), float(wanted[at, which]), int(which)


def _deviation_found(joined: Joined, worst: Deviation, of: str) -> Outcome:
    relative, code, rows, wanted, _ = worst
    if not relative:
        return None
    fold = fold_name(code, joined.manifest.part_codes())
    message = f"{fold} holds {amount(rows, 'row')}{of} and its share is {wanted:,.1f}: {relative:.1%} off."
    return Found(relative, message, {"fold": code, "rows": rows, "share": wanted})


def target_deviation(joined: Joined) -> Outcome:
    """Look for folds whose numeric target is distributed unlike that of all rows: the Kolmogorov-Smirnov distance."""
    name, unfit = joined.columns.target, _not_shared(joined)
    if unfit or name is None or not is_numeric_target(joined.column(name)):
        return unfit or NotAsked("the target is no number" if name else "no target column is named")
    y = to_numpy(joined.column(name)).astype(np.float64)
    present = np.flatnonzero(~np.isnan(y) & (joined.codes[:, 0] >= LOCKED))
    codes = joined.codes[present]
    folds = [(code, np.flatnonzero(column == code)) for column in codes.T for code in joined.tested]
    folds = [(code, rows) for code, rows in folds if rows.size]
    if not folds:
        return NotAsked("no row of the data is tested in a fold")
    told = compared_with_all(y[present], [rows for _, rows in folds])
    ks, code = max((each["ks"], code) for each, (code, _) in zip(told, folds, strict=True))
    fold = fold_name(code, joined.manifest.part_codes())
    message = f"the distribution of {name!r} in {fold} has a KS distance of {ks:.3f} from that of all rows."
    return Found(ks, message, {"fold": code})


def balance_out_of_reach(joined: Joined) -> Outcome:
    """Say why folds of whole groups cannot be even: one group is larger than a share, or too few hold a class.

    Both are bounds that no packing of whole groups can pass. A group of the share s of all rows of a class has to lie
    in some fold, so some fold deviates by at least s - (the largest share) of them.
    """
    name, unfit = joined.columns.group, _not_shared(joined)
    if unfit or name is None:
        return unfit or NotAsked("no group column is named")
    groups, group_names = joined.encoded(name)
    share = max(_shares(joined).values())
    told = list(_bounds(joined, groups, group_names, share))
    if not told:
        return None
    best, message, figures = max(told, key=lambda each: each[0])
    return Found(best, message, figures)


def _bounds(
    joined: Joined, groups: Counts, names: list[Any], share: float
) -> Iterator[tuple[float, str, dict[str, Any]]]:
    in_use = (joined.codes[:, 0] >= LOCKED) & (groups >= 0)
    yield from _too_large(groups[in_use], names, "all rows", share)
    n_folds = len(_shares(joined))
    for column in _class_columns(joined):
        codes, levels = joined.encoded(column)
        for code in np.flatnonzero(np.bincount(codes[in_use & (codes >= 0)], minlength=len(levels)) >= LEAST_EXPECTED):
            held = groups[in_use & (codes == code)]
            of = f"class {levels[code]!r} of {column!r}"
            yield from _too_large(held, names, f"all rows of {of}", share)
            yield from _too_few(int(np.unique(held).size), of, n_folds, share)


def _too_large(groups: Counts, names: list[Any], of: str, share: float) -> Iterator[tuple[float, str, dict[str, Any]]]:
    counts = np.bincount(groups, minlength=1)
    largest = int(counts.argmax())
    held = counts[largest] / max(counts.sum(), 1)
    best = float(held - share)
    if best > 0:
        most = int(1 / held)
        remedy = f"choose n_splits of at most {most}, or a finer group column" if most > 1 else "name a finer column"
        message = (
            f"group {names[largest]!r} holds {held:.1%} of {of}, and the largest share of a fold is {share:.1%}: the "
            f"best reachable deviation is {best:.1%}; {remedy}."
        )
        yield best, message, {"group": str(names[largest]), "holds": float(held), "share": share, "best": best}


def _too_few(holders: int, of: str, n_folds: int, share: float) -> Iterator[tuple[float, str, dict[str, Any]]]:
    if holders < n_folds:
        hold = f"{amount(holders, 'group')} {verb(holders, 'holds', 'hold')}"
        said = f"only {hold} {of}, and there are {n_folds} folds"
        remedy = f"choose n_splits of at most {holders}" if holders > 1 else "no split can both train on it and test it"
        message = f"{said}: the best reachable deviation is {share:.1%}, a fold without any; {remedy}."
        yield share, message, {"groups": holders, "folds": n_folds, "best": share}


def _shares(joined: Joined) -> dict[int, float]:
    """Return the share of all rows that each code should hold."""
    state = joined.manifest.state or {}
    if "shares" in state:
        return {int(code): float(share) for code, share in state["shares"]}
    return {code: 1.0 / len(joined.tested) for code in joined.tested}


def _not_shared(joined: Joined) -> NotAsked | None:
    if joined.manifest.kind != "labels":
        return NotAsked("draws and pairs share nothing out")
    if joined.manifest.spec.strategy in ("LeaveOneOut", "LeaveOneGroupOut"):
        return NotAsked(f"the folds of {joined.manifest.spec.strategy} are as large as what they leave out")
    return None


def _one_row_each(joined: Joined) -> bool:
    return joined.manifest.spec.strategy == "LeaveOneOut"


def _class_columns(joined: Joined) -> list[str]:
    """Return the target and the strata that hold classes."""
    named = dict.fromkeys([joined.columns.target, *joined.columns.stratify])
    return [name for name in named if name and not is_numeric_target(joined.column(name))]

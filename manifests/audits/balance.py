"""Checks of how even the folds are, and of why they cannot be more so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from evenfold.manifests.attributes import levels_of
from evenfold.manifests.joined import ROLES, Joined, JoinedLabels
from evenfold.manifests.membership import LOCKED
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.splitters.deployed import is_deployed, shown
from numpy.typing import NDArray

from .findings import Found, NotAsked, Outcome

LEAST_EXPECTED = 5  # rows of a class that a fold should hold; below it one row more or less is a large deviation
MOST_CELLS = 5_000_000
MOST_LISTED = 20
Counts = NDArray[np.int64]


def missing_classes(joined: Joined) -> Outcome:
    """Look for classes that a split does not test, or does not train on: all are counted, twenty a side are listed."""
    names = _class_columns(joined)
    if not names:
        return NotAsked("no column of classes is named")
    if isinstance(joined, JoinedLabels) and joined.labels.n_bins >= joined.n_learnt:
        return NotAsked("every fold tests one row")
    sentences, figures, cells = [], {}, 0
    for name in names:
        levels = joined.levels(name)
        if not levels:
            continue
        if len(levels) * joined.n_looked_at > MOST_CELLS:
            return NotAsked(f"{name!r} has {len(levels):,} classes, and there are {joined.n_looked_at:,} splits")
        for side, table in zip(ROLES, joined.class_tables(name), strict=True):
            empty = table == 0
            sentences += [_missing(name, levels, empty, side, joined)] if empty.any() else []
            cells += int(np.count_nonzero(empty))
            figures[f"{name}/{side}"] = {
                f"class {c}" if is_deployed() else str(levels[c]): np.flatnonzero(empty[:, c]).tolist()
                for c in np.flatnonzero(empty.any(axis=0))[:MOST_LISTED].tolist()
            }
    if not figures:
        return NotAsked("no row has a class")
    return Found(cells, "; ".join(sentences) + ".", {k: v for k, v in figures.items() if v}) if sentences else None


def _missing(name: str, levels: list[Any], empty: NDArray[np.bool_], side: str, joined: Joined) -> str:
    lacking = np.flatnonzero(empty.any(axis=0))
    rows = joined.level_rows(name)[lacking]
    worst = lacking[int(np.argmin(rows))]
    splits = np.flatnonzero(empty[:, worst])
    which = shown(repr(levels[worst]))
    sentence = (
        f"class {which} of {name!r} ({amount(int(rows.min()), 'row')}) is missing from the {side} rows of "
        f"{splits.size} of {amount(empty.shape[0], 'split')} ({listed(splits)}){joined.looked_at}"
    )
    others = f", and {amount(lacking.size - 1, 'other class', 'other classes')} from some" if lacking.size > 1 else ""
    return sentence + others


def size_deviation(folds: JoinedLabels) -> Outcome:
    """Look for folds and parts whose rows are far from their share."""
    return _deviation_found(folds, max(_deviations(folds)))


def class_deviation(folds: JoinedLabels) -> Outcome:
    """Look for folds and parts whose rows of a class are far from their share; classes of few rows are left out."""
    names = _class_columns(folds)
    if not names:
        return NotAsked("no column of classes is named")
    worst: list[tuple[Deviation, str]] = []
    for name in names:
        levels = folds.levels(name)
        if len(levels) * len(folds.shares()) > MOST_CELLS:
            return NotAsked(f"{name!r} has {len(levels):,} classes")
        worst += [(cell, name) for cell in _deviations(folds, name)] if levels else []
    return _deviation_found(folds, *max(worst)) if worst else NotAsked("no row has a class")


class Deviation(NamedTuple):
    """The rows of one class in one fold, the rows that its share would be, and how far they are apart, relatively."""

    relative: float
    code: int
    rows: int
    share: float
    level: int


def _deviations(folds: JoinedLabels, name: str | None = None) -> Iterator[Deviation]:
    """Yield the worst cell of each repeat. A deviation of less than a row is none: no split can do without it."""
    shares = folds.shares()
    for repeat in range(folds.labels.n_repeats):
        held = folds.fold_table(repeat, name)[[code - LOCKED for code in shares]]
        wanted = np.array(list(shares.values()))[:, None] * held.sum(axis=0)
        off = np.abs(held - wanted)
        off[(off < 1) | (wanted < LEAST_EXPECTED)] = 0
        relative = off / np.maximum(wanted, 1e-9)
        at, level = np.unravel_index(int(relative.argmax()), relative.shape)
        rows, share = int(held[at, level]), float(wanted[at, level])
        yield Deviation(float(relative[at, level]), list(shares)[at], rows, share, int(level))


def _deviation_found(folds: JoinedLabels, worst: Deviation, name: str | None = None) -> Outcome:
    if not worst.relative:
        return None
    of = "" if name is None else f" of class {shown(repr(folds.levels(name)[worst.level]))} of {name!r}"
    fold, rows = folds.labels.code_name(worst.code), amount(worst.rows, "row")
    off = f"{worst.relative:.1%} off{_large_group(folds, name, worst.level)}"
    message = f"{fold} holds {rows}{of} and its share is {worst.share:,.1f}: {off}."
    return Found(worst.relative, message, {"fold": worst.code, "rows": worst.rows, "share": worst.share})


def _large_group(folds: JoinedLabels, name: str | None, level: int) -> str:
    """Say which group holds more rows (of a class) than the largest share of a fold: then no whole groups are even."""
    if folds.columns.group is None:
        return ""
    groups, codes, rows = folds.group_table(folds.columns.group, name)
    groups, rows, shares = groups[codes == level], rows[codes == level], folds.shares()
    held, share = rows.max(initial=0) / max(rows.sum(), 1), max(shares.values())
    if held <= share:
        return ""
    group = shown(repr(folds.levels(folds.columns.group)[groups[rows.argmax()]]))
    unlocked = sum(shares[code] for code in folds.labels.tested)  # which any number of folds shares out among them
    most = 0 if folds.labels.parts else int(unlocked / held + 1e-9)
    cure = f"choose n_splits of at most {most}, or a finer group column" if most > 1 else "name a finer group column"
    return f", as group {group} alone holds {held:.1%} of them, more than any share ({share:.1%}); {cure}"


def target_deviation(folds: JoinedLabels) -> Outcome:
    """Look for folds whose numeric target is distributed unlike that of all rows: the Kolmogorov-Smirnov distance."""
    name = folds.columns.target
    if name is None or not folds.is_numeric(name):
        return NotAsked("the target is not a number" if name else "no target column is named")
    distances = folds.distances(name)
    if not distances:
        return NotAsked("no row of the data is tested in a fold")
    ks, code = max(distances)
    fold = folds.labels.code_name(code)
    message = (
        f"the distribution of {name!r} in {fold} has a KS distance of {ks:.3f} from that of all rows (0: the same, 1: "
        "nothing in common)."
    )
    return Found(ks, message, {"fold": code})


def constant_target(joined: Joined) -> Outcome:
    """Look for a target of one value."""
    name = joined.columns.target
    if name is None:
        return NotAsked("no target column is named")
    target = joined.column(name).drop_null()
    if not len(target):
        return NotAsked("no row has a target")
    if not pc.all(pc.equal(target, target[0])).as_py():
        return None
    value = target[0].as_py()
    value = shown(f"{value:g}" if isinstance(value, float) else repr(value))
    of = amount(len(target), "row") + ("" if len(target) == joined.n else " that have one")
    why = "so nothing is shared out evenly and nothing can be predicted; name another column as target"
    return Found(1, f"{name!r} is {value} in all {of}, {why}.")


def attribute_deviation(joined: Joined) -> Outcome:
    """Say how far the levels of the columns to balance on are from their shares in the tested rows of a split."""
    names = joined.columns.balance_on
    if not names:
        return NotAsked("no column to balance on is named")
    deviations: list[tuple[float, str, str, int]] = []
    for name in names:
        codes, levels = levels_of(joined.column(name))
        overall = np.bincount(codes[joined.codes[:, 0] >= LOCKED], minlength=len(levels))
        tested = joined.tables_of(codes, len(levels))[1]
        rows = np.maximum(tested.sum(axis=1, keepdims=True), 1)
        off = np.abs(tested / rows - overall / max(overall.sum(), 1)) * (tested.sum(axis=1, keepdims=True) > 0)
        split, level = np.unravel_index(int(off.argmax()), off.shape)
        deviations.append((float(off[split, level]), name, shown(levels[level]), int(split)))
    worst, where, which, at = max(deviations)
    off = f"{worst * 100:.1f} points from that of all rows, the most of any"
    message = f"of {where!r} the share of {which} in split {at} is {off}."
    return Found(worst, message, {name: figure for figure, name, _, _ in deviations})


def sharing(joined: Joined) -> JoinedLabels | NotAsked:
    """Return the folds and parts that rows are shared out among, or why there are none."""
    if not isinstance(joined, JoinedLabels):
        return NotAsked("draws and pairs share nothing out")
    if not joined.manifest.splitter.shares_out:
        return NotAsked(f"the folds of {joined.manifest.spec.strategy} are as large as what they leave out")
    return joined


def _class_columns(joined: Joined) -> list[str]:
    """Return the target and the strata that hold classes."""
    names = dict.fromkeys([joined.columns.target, *joined.columns.stratify])
    return [name for name in names if name and not joined.is_numeric(name)]

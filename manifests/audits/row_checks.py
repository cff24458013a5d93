"""Checks of rows: whether the data and the manifest have the same ones, and how evenly folds share them out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.balance import levels_of
from evenfold.manifests.joined import ROLES, Joined, JoinedLabels
from evenfold.manifests.manifest import ACTIVE, DELETED, QUARANTINED
from evenfold.manifests.membership import EXCLUDED, LOCKED
from evenfold.manifests.tables.canonical import amount, listed, to_numpy, verb
from evenfold.manifests.tables.keys import positions_in
from evenfold.splitters.errors import is_deployed, shown
from evenfold.splitters.strategies.time import without_groups_of
from numpy.typing import NDArray

from .findings import CheckOutcome, Found, needed

NO_KEY = "rows are joined by position"


def rows_without_fold(joined: Joined) -> CheckOutcome:
    """Look for rows that are new, or deleted and back."""
    status = np.append(joined.manifest.status, ACTIVE)  # the last is that of rows without a place, -1
    new, back = np.flatnonzero(joined.lookup.unknown), np.flatnonzero(status[joined.lookup.rank] == DELETED)
    gone = f"{verb(back.size, 'was', 'were')} deleted and {verb(back.size, 'is', 'are')} back"
    sides = ((new, f"{verb(new.size, 'has', 'have')} no fold"), (back, gone))
    amounts = [f"{amount(rows.size, 'row')} {what} (first: row {rows[0]})" for rows, what in sides if rows.size]
    figures = {"new": new.size, "back": back.size}
    return Found(new.size + back.size, f"{' and '.join(amounts)}: run `evenfold extend`.", figures) if amounts else None


def absent_rows(joined: Joined) -> CheckOutcome:
    """Look for rows of the manifest that the data lack."""
    absent = int(np.count_nonzero((joined.lookup.row < 0) & (joined.manifest.status != DELETED)))
    message = f"{amount(absent, 'row')} of the manifest {verb(absent, 'is', 'are')} not in the data"
    message += ": run `evenfold extend`, which marks them as deleted, or pass what was split."
    return Found(absent, message) if absent else None


def repeated_keys(joined: Joined) -> CheckOutcome:
    """Look for rows that repeat the key of an earlier row."""
    keys = needed(joined.keys, NO_KEY)
    # Each key has a number: its place in the manifest, or beyond them all that of its first row. Equal ones repeat.
    number, new = joined.lookup.rank.copy(), np.flatnonzero(joined.lookup.rank < 0)
    fresh = keys.take(new)
    number[new] = joined.manifest.n + positions_in(fresh, fresh)
    counts = np.bincount(number)
    repeated = int((counts[counts > 1] - 1).sum())
    if not repeated:
        return None
    first = int((counts[number] > 1).argmax())
    again = int(np.flatnonzero(number == number[first])[1])
    what = f"{amount(repeated, 'row')} {verb(repeated, 'repeats', 'repeat')} the key of an earlier row"
    return Found(repeated, f"{what} (first: rows {first} and {again}); drop the repeats, or name a key that is unique.")


def fractional_keys(joined: Joined) -> CheckOutcome:
    """Look for keys that are numbers with a fraction."""
    keys = needed(joined.keys, NO_KEY)
    for name in keys.column_names:
        values = to_numpy(keys.column(name)) if pa.types.is_floating(keys.schema.field(name).type) else np.zeros(0)
        if n := (rows := np.flatnonzero(np.isfinite(values) & (np.floor(values) != values))).size:
            what = f"{amount(n, 'row')} {verb(n, 'has', 'have')} a fraction as key ({name!r}, first in row {rows[0]})"
            why = "and a key is compared to its last bit: 0.1 + 0.2 is not 0.3"
            return Found(n, f"{what}, {why}; name a column of whole numbers or text.")
    return None


def empty_folds(joined: Joined) -> CheckOutcome:
    """Look for folds without a row, and splits with an empty side."""
    empty = joined.empty_places()
    what = f"{listed(empty)} {verb(len(empty), 'has', 'have')} no row in the data{joined.looked_at}"
    message = f"{what}; pass the data that were split, or split these anew."
    return Found(len(empty), message, {"empty": empty}) if empty else None


def deleted_rows(joined: Joined) -> CheckOutcome:
    """Count the rows that were deleted."""
    return _of_status(joined, DELETED, "were deleted from the data and are in no split; their folds are kept.")


def quarantined_rows(joined: Joined) -> CheckOutcome:
    """Count the rows that are quarantined."""
    why = "because their groups belong together and are in different folds"
    return _of_status(joined, QUARANTINED, f"are quarantined, {why}; they are in no split.")


def crossing_rows(joined: Joined) -> CheckOutcome:
    """Count the rows that were left out because their groups are in different folds, or tested at a later time."""
    manifest, columns = joined.manifest, joined.manifest.spec.columns
    if columns.grouped and columns.time and manifest.splitter.promises >= {"past_before_future", "groups_whole"}:
        return _untrained_past(joined, to_numpy(joined.column(columns.time)), columns.grouped)
    needed(manifest.spec.group_mode == "cross", "no groups are crossed")
    rows = int(np.count_nonzero((manifest.membership.column() == EXCLUDED) & (manifest.status == 0)))
    share, whose = rows / manifest.n, verb(rows, "is in no split, because its", "are in no split, because their")
    what = f"{amount(rows, 'row')} ({share:.1%}) {whose} {listed(columns.entities)} are in different folds"
    remedy = "fewer folds lose fewer rows, one of the columns as group loses none, and so does group_mode: merge"
    return Found(share, f"{what}; {remedy}.", {"rows": rows}) if rows else None


def _untrained_past(joined: Joined, time: NDArray[Any], names: list[str]) -> CheckOutcome:
    """Count, split by split, the rows before the tested ones that are not trained on because their group is tested."""
    past, rows, units = 0, 0, [joined.units(name) for name in names]
    for test in (test for _, test in joined.splits() if test.size):
        before = np.flatnonzero((joined.codes[:, 0] > LOCKED) & (time < time[test].min()))
        past, rows = past + before.size, rows + before.size - without_groups_of(test, before, units).size
    if not rows:
        return None
    what = f"{rows:,} of the {past:,} rows before tested ones{joined.looked_at} ({rows / past:.1%}) are not trained on"
    why = f"because their {listed(names)} {verb(len(names), 'is', 'are')} tested"
    remedy = "name the time alone where groups, as those of a panel, are there all along"
    return Found(rows / past, f"{what}, {why}; {remedy}.", {"rows": rows})


def waiting_rows(joined: Joined) -> CheckOutcome:
    """Count the rows that wait because their targets were not known."""
    waiting, spec = joined.manifest.waiting, joined.manifest.spec
    needed(spec.says_when_known or spec.may_wait, "nothing says when targets are known")
    rows = 0 if waiting is None else waiting.num_rows
    why = f"{verb(rows, 'waits', 'wait')} in no split, because {verb(rows, 'its target was', 'their targets were')}"
    message = f"{amount(rows, 'row')} {why} not known; `evenfold extend` lets in what is known by then."
    return Found(rows, message) if rows else None


def _of_status(joined: Joined, status: int, word: str) -> CheckOutcome:
    rows = int(np.count_nonzero(joined.manifest.status == status))
    share = rows / joined.manifest.n
    return Found(rows, f"{amount(rows, 'row')} ({share:.1%}) {word}", {"share": share}) if rows else None


MOST_CELLS = 5_000_000
MOST_LISTED = 20


def missing_classes(joined: Joined) -> CheckOutcome:
    """Look for classes that a split does not test, or does not train on: all are counted, twenty a side are listed."""
    names = _class_columns(joined)
    of_one_row = isinstance(joined, JoinedLabels) and joined.labels.n_bins >= joined.labels.unlocked.size
    needed(not of_one_row, "every fold tests one row")
    sentences, figures, cells = [], {}, 0
    for name in needed([name for name in names if joined.levels(name)], "no row has a class"):
        codes, levels = joined.encoded(name)
        many = f"{name!r} has {len(levels):,} classes, and there are {joined.n_looked_at:,} splits"
        needed(len(levels) * joined.n_looked_at <= MOST_CELLS, many)
        for side, table in zip(ROLES, joined.tables_of(codes, len(levels)), strict=True):
            if not (empty := table == 0).any():
                continue
            sentences.append(_missing(name, levels, empty, side, joined))
            cells += int(np.count_nonzero(empty))
            figures[f"{name}/{side}"] = {
                f"class {c}" if is_deployed() else str(levels[c]): np.flatnonzero(empty[:, c]).tolist()
                for c in np.flatnonzero(empty.any(axis=0))[:MOST_LISTED].tolist()
            }
    return Found(cells, f"{'; '.join(sentences)}.", figures) if sentences else None


def _missing(name: str, levels: list[Any], empty: NDArray[np.bool_], side: str, joined: Joined) -> str:
    lacking = np.flatnonzero(empty.any(axis=0))
    rows = joined.level_rows(name)[lacking]
    worst = lacking[int(np.argmin(rows))]
    splits = np.flatnonzero(empty[:, worst])
    others = f", and {amount(lacking.size - 1, 'other class', 'other classes')} from some" if lacking.size > 1 else ""
    what = f"class {shown(repr(levels[worst]))} of {name!r} ({amount(int(rows.min()), 'row')}) is missing from the"
    where = f"{splits.size} of {amount(empty.shape[0], 'split')} ({listed(splits)}){joined.looked_at}"
    return f"{what} {side} rows of {where}{others}"


def size_deviation(folds: JoinedLabels) -> CheckOutcome:
    """Look for folds and parts whose rows are far from their share."""
    return _furthest(folds, [None])


def class_deviation(folds: JoinedLabels) -> CheckOutcome:
    """Look for folds and parts whose rows of a class are far from their share; classes of few rows are left out."""
    sizes = {name: len(folds.levels(name)) for name in _class_columns(folds)}
    for name, n in sizes.items():
        needed(n * len(folds.shares()) <= MOST_CELLS, f"{name!r} has {n:,} classes")
    return _furthest(folds, needed([name for name, n in sizes.items() if n], "no row has a class"))


def _furthest(folds: JoinedLabels, names: Sequence[str | None]) -> CheckOutcome:
    """Say in which fold the rows of a class (of all rows: None) are furthest from their share, relatively."""
    shares, worst = folds.shares(), list[tuple[float, int, int, float, int, str | None]]()
    for name, repeat in product(names, range(folds.labels.n_repeats)):
        codes, levels = (np.zeros(folds.n, dtype=np.int64), [None]) if name is None else folds.encoded(name)
        held = folds.fold_table(repeat, codes, len(levels))[[code - LOCKED for code in shares]]
        wanted = np.array(list(shares.values()))[:, None] * held.sum(axis=0)
        off = np.abs(held - wanted)
        off[(off < 1) | (wanted < 5)] = 0  # less than a row is no deviation, and a row of few a large one
        off /= np.maximum(wanted, 1e-9)
        at = np.unravel_index(int(off.argmax()), off.shape)
        worst.append((float(off[at]), [*shares][at[0]], int(held[at]), float(wanted[at]), int(at[1]), name))
    relative, code, rows, share, level, name = max(worst)
    if not relative:
        return None
    of = "" if name is None else f" of class {shown(repr(folds.levels(name)[level]))} of {name!r}"
    what = f"{folds.labels.code_name(code)} holds {amount(rows, 'row')}{of} and its share is {share:,.1f}"
    message = f"{what}: {relative:.1%} off{_large_group(folds, name, level)}."
    return Found(relative, message, {"fold": code, "rows": rows, "share": share})


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


def target_deviation(folds: JoinedLabels) -> CheckOutcome:
    """Look for folds whose numeric target is distributed unlike that of all rows: the Kolmogorov-Smirnov distance."""
    name = needed(folds.columns.target, "no target column is named")
    needed(folds.is_numeric(name), "the target is not a number")
    ks, code = max(needed(folds.distances(name), "no row of the data is tested in a fold"))
    what = f"the distribution of {name!r} in {folds.labels.code_name(code)} has a KS distance of {ks:.3f} from that of"
    return Found(ks, f"{what} all rows (0: the same, 1: nothing in common).", {"fold": code})


def constant_target(joined: Joined) -> CheckOutcome:
    """Look for a target of one value."""
    name = needed(joined.columns.target, "no target column is named")
    target = joined.column(name).drop_null()
    needed(len(target), "no row has a target")
    if not pc.all(pc.equal(target, target[0])).as_py():
        return None
    value = target[0].as_py()
    value = shown(f"{value:g}" if isinstance(value, float) else repr(value))
    of = amount(len(target), "row") + " that have one" * (len(target) < joined.n)
    why = "so nothing is shared out evenly and nothing can be predicted; name another column as target"
    return Found(1, f"{name!r} is {value} in all {of}, {why}.")


def attribute_deviation(joined: Joined) -> CheckOutcome:
    """Say how far the levels of the columns to balance on are from their shares in the tested rows of a split."""
    deviations: list[tuple[float, str, str, int]] = []
    for name in needed(joined.columns.balance_on, "no column to balance on is named"):
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


def _class_columns(joined: Joined) -> list[str]:
    names = dict.fromkeys(filter(None, [joined.columns.target, *joined.columns.stratify]))
    return needed([name for name in names if not joined.is_numeric(name)], "no column of classes is named")

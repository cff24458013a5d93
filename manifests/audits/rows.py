"""Checks of whether the rows of the data and those of the manifest are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import DELETED, QUARANTINED
from evenfold.manifests.membership import EXCLUDED, LOCKED
from evenfold.manifests.tables.canonical import amount, canonical_table, listed, to_numpy, verb
from evenfold.manifests.tables.keys import positions_in
from evenfold.splitters.strategies.forward_chaining import without_groups_of
from numpy.typing import NDArray

from .findings import Found, NotAsked, Outcome


def rows_without_fold(joined: Joined) -> Outcome:
    """Look for rows that are new, or deleted and back."""
    new, back = joined.unknown, np.flatnonzero(joined.deleted)
    if not new.size and not back.size:
        return None
    amounts = []
    if new.size:
        amounts.append(f"{amount(new.size, 'row')} {verb(new.size, 'has', 'have')} no fold (first: row {new[0]})")
    if back.size:
        gone = f"{verb(back.size, 'was', 'were')} deleted and {verb(back.size, 'is', 'are')} back"
        amounts.append(f"{amount(back.size, 'row')} {gone} (first: row {back[0]})")
    rows = {"new": new.size, "back": back.size}
    return Found(sum(rows.values()), f"{' and '.join(amounts)}: run `evenfold extend`.", rows)


def absent_rows(joined: Joined) -> Outcome:
    """Look for rows of the manifest that the data lack."""
    absent = int(np.count_nonzero((joined.row_of < 0) & (joined.manifest.status != DELETED)))
    if not absent:
        return None
    message = f"{amount(absent, 'row')} of the manifest {verb(absent, 'is', 'are')} not in the data"
    return Found(absent, f"{message}: run `evenfold extend`, which marks them as deleted, or pass what was split.")


def repeated_keys(joined: Joined) -> Outcome:
    """Look for rows that repeat the key of an earlier row."""
    if joined.keys is None:
        return NotAsked("rows are joined by position")
    # Each key has a number: its place in the manifest, or beyond them all that of its first row. Equal ones repeat.
    number, new = joined.place.copy(), np.flatnonzero(joined.place < 0)
    fresh = canonical_table(joined.keys.take(new), joined.manifest.spec.columns.key, joined.manifest.types)
    number[new] = joined.manifest.n + positions_in(fresh, fresh)
    counts = np.bincount(number)
    repeated = int((counts[counts > 1] - 1).sum())
    if not repeated:
        return None
    first = int((counts[number] > 1).argmax())
    again = int(np.flatnonzero(number == number[first])[1])
    message = (
        f"{amount(repeated, 'row')} {verb(repeated, 'repeats', 'repeat')} the key of an earlier row (first: rows "
        f"{first} and {again}); drop the repeats, or name a key that is unique."
    )
    return Found(repeated, message)


def fractional_keys(joined: Joined) -> Outcome:
    """Look for keys that are numbers with a fraction."""
    if joined.keys is None:
        return NotAsked("rows are joined by position")
    keys = canonical_table(joined.keys, joined.manifest.spec.columns.key, joined.manifest.types)
    for name in keys.column_names:
        if pa.types.is_floating(keys.schema.field(name).type):
            values = to_numpy(keys.column(name))
            if n := (rows := np.flatnonzero(np.isfinite(values) & (np.floor(values) != values))).size:
                what = (
                    f"{amount(n, 'row')} {verb(n, 'has', 'have')} a fraction as key ({name!r}, first in row {rows[0]})"
                )
                why = "and a key is compared to its last bit: 0.1 + 0.2 is not 0.3"
                return Found(n, f"{what}, {why}; name a column of whole numbers or text.")
    return None


def empty_folds(joined: Joined) -> Outcome:
    """Look for folds without a row, and splits with an empty side."""
    empty = joined.empty_places()
    if not empty:
        return None
    message = f"{listed(empty)} {verb(len(empty), 'has', 'have')} no row in the data{joined.looked_at}"
    return Found(len(empty), f"{message}; pass the data that were split, or split these anew.", {"empty": empty})


def deleted_rows(joined: Joined) -> Outcome:
    """Count the rows that were deleted."""
    return _of_status(joined, DELETED, "were deleted from the data and are in no split; their folds are kept.")


def quarantined_rows(joined: Joined) -> Outcome:
    """Count the rows that are quarantined."""
    why = "because their groups belong together and are in different folds"
    return _of_status(joined, QUARANTINED, f"are quarantined, {why}; they are in no split.")


def crossing_rows(joined: Joined) -> Outcome:
    """Count the rows that were left out because their groups are in different folds, or tested at a later time."""
    manifest, columns = joined.manifest, joined.manifest.spec.columns
    if columns.grouped and columns.time and manifest.splitter.promises >= {"past_before_future", "groups_whole"}:
        return _untrained_past(joined, to_numpy(joined.column(columns.time)), columns.grouped)
    if manifest.spec.group_mode != "cross":
        return NotAsked("no groups are crossed")
    rows = int(np.count_nonzero((manifest.membership.column() == EXCLUDED) & (manifest.status == 0)))
    if not rows:
        return None
    share, names = rows / manifest.n, listed(columns.entities)
    whose = verb(rows, "is in no split, because its", "are in no split, because their")
    remedy = "fewer folds lose fewer rows, one of the columns as group loses none, and so does group_mode: merge"
    what = f"{amount(rows, 'row')} ({share:.1%}) {whose} {names} are in different folds"
    return Found(share, f"{what}; {remedy}.", {"rows": rows})


def _untrained_past(joined: Joined, time: NDArray[Any], names: list[str]) -> Outcome:
    """Count, split by split, the rows before the tested ones that are not trained on because their group is tested."""
    past, rows = 0, 0
    units = [units for name in names if (units := joined.units(name)) is not None]
    for test in (test for _, test in joined.splits() if test.size):
        before = np.flatnonzero((joined.codes[:, 0] > LOCKED) & (time < time[test].min()))
        past, rows = past + before.size, rows + before.size - without_groups_of(test, before, units).size
    if not rows:
        return None
    what = f"{rows:,} of the {past:,} rows before tested ones{joined.looked_at} ({rows / past:.1%}) are not trained on"
    why = f"because their {listed(names)} {verb(len(names), 'is', 'are')} tested"
    remedy = "name the time alone where groups, as those of a panel, are there all along"
    return Found(rows / past, f"{what}, {why}; {remedy}.", {"rows": rows})


def waiting_rows(joined: Joined) -> Outcome:
    """Count the rows that wait because their targets were not known."""
    waiting = joined.manifest.waiting
    if not (joined.manifest.spec.says_when_known or joined.manifest.spec.may_wait):
        return NotAsked("nothing says when targets are known")
    rows = 0 if waiting is None else waiting.num_rows
    if not rows:
        return None
    message = f"{verb(rows, 'waits', 'wait')} in no split, because {verb(rows, 'its target was', 'their targets were')}"
    return Found(rows, f"{amount(rows, 'row')} {message} not known; `evenfold extend` lets in what is known by then.")


def _of_status(joined: Joined, status: int, word: str) -> Outcome:
    rows = int(np.count_nonzero(joined.manifest.status == status))
    share = rows / joined.manifest.n
    return Found(rows, f"{amount(rows, 'row')} ({share:.1%}) {word}", {"share": share}) if rows else None

"""The check of a table that arrives, before anything is learnt from it: does it look like the next one?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.audits.columns import column_of
from evenfold.manifests.audits.findings import ARRIVAL_GATES, Audit, CheckOutcome, Found, gates_with, judged, needed
from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import ACTIVE, DELETED, Manifest
from evenfold.manifests.tables.canonical import amount, infer_type, listed, verb
from numpy.typing import NDArray

from .newcomers import CHECKS as OF_NEW_ROWS, Arrived, Snapshot, digests_of

FALSE_ALARMS = 0.001  # of tables that are drawn like the ones before, row by row or group by group
FEWEST_GENERATIONS = 3
MOST_LISTED = 20
KINDS = {"int": "number", "float": "number", "bool": "truth value", "text": "text", "timestamp": "time", "date": "time"}


def check_arrival(
    manifest: Manifest, data: Any, snapshot: Snapshot | None, *,
    columns: Collection[str] | None = None, quarantined: int = 0, gates: Mapping[str, Any] | None = None,
) -> Audit:  # fmt: skip
    """Return what is wrong with ``data``, the whole current table, as the next one after those of ``manifest``.

    ``manifest`` is the newest *before* it is extended, ``snapshot`` of the table that was last learnt from, None where
    none is kept. ``columns``: those that matter besides the target, a model's features; all by default.
    ``quarantined``: how many rows extending puts out of use. ``gates`` goes over the limits of the specification: a
    number beyond which the table is stopped, or "off". ``failed`` names what stops it.

    Promises: no finding quotes a value of the data. O(n log n).
    """
    arrived = Arrived(Joined.of(manifest, data), snapshot, columns, quarantined)
    checks = {check.__name__: partial(check, arrived) for check in (*CHECKS, *OF_NEW_ROWS)}
    limits = gates_with({**manifest.spec.gates, **(gates or {})}, ARRIVAL_GATES)
    return judged(limits, checks, manifest, n_rows=arrived.joined.n, features=sorted(columns or ()))


def vanished_rows(arrived: Arrived) -> CheckOutcome:
    """Look for known rows that the table lacks."""
    there, before = arrived.manifest.status != DELETED, arrived.snapshot
    if before is not None and before.generation is not None:  # what only a stopped table brought later on is not missed
        there &= arrived.manifest.generations <= before.generation
    gone, present = int(np.count_nonzero(there & (arrived.joined.lookup.row < 0))), int(np.count_nonzero(there))
    sentence = f"{gone:,} of {present:,} known rows ({gone / present:.1%}) {verb(gone, 'is', 'are')} not in the data"
    message = f"{sentence}; a table that is cut short looks like this."
    return Found(gone / present, message, {"rows": gone, "known": present}) if gone else None


def changed_targets(arrived: Arrived) -> CheckOutcome:
    """Look for known rows that have another target than when they were last learnt from; the first 20 are listed."""
    target = needed(arrived.manifest.spec.columns.target, "the split has no target")
    if arrived.kept_target is None:
        return needed(None, "the known rows' targets were not kept")
    rows = arrived.older
    before = arrived.kept_target.filter(pa.array(arrived.joined.lookup.row >= 0))
    after = arrived.joined.column(target).take(pa.array(rows)).combine_chunks()
    same = pc.fill_null(pc.equal(before, after), False)
    changed = np.sort(rows[~pc.or_(same, pc.is_null(before)).to_numpy(zero_copy_only=False)])
    n, share, first = changed.size, changed.size / max(rows.size, 1), changed[:MOST_LISTED].tolist()
    which = f"{verb(n, 'row', 'rows')} {', '.join([*map(str, first), *['…'] * (n > MOST_LISTED)])} of the data"
    what = f"{n:,} of {rows.size:,} known rows ({share:.1%}) {verb(n, 'has', 'have')} another {target} than before"
    return Found(share, f"{what} ({which}); corrections, or a feed that is broken.", {"rows": first}) if n else None


def new_rows(arrived: Arrived) -> CheckOutcome:
    """Compare the rows of the months that grew with earlier months, or without times those of earlier generations."""
    n = needed(int(arrived.new.size), "there are no new rows")
    by_month = _rows_a_day(arrived)
    if by_month is not None:
        return by_month
    sizes = np.bincount(arrived.manifest.generations)[1:]
    sizes = sizes[sizes > 0]
    few = f"{amount(int(sizes.size), 'generation')} joined so far, and {FEWEST_GENERATIONS} are needed"
    needed(sizes.size >= FEWEST_GENERATIONS, few)
    usual = float(np.median(sizes))
    message = f"{amount(n, 'new row')}, {_beside(n, usual)} ({usual:,.0f}, the median of {sizes.size})."
    return Found(max(n / usual, usual / n), message, {"rows": n, "usual": usual})


def _beside(value: float, usual: float) -> str:
    factor = f"{max(value / usual, usual / value):.3g}"
    return "as many as usual" if factor == "1" else f"{factor} times {'more' if value > usual else 'fewer'} than usual"


def _rows_a_day(arrived: Arrived) -> Found | None:
    """Return the calendar month (UTC) with new rows whose rows a day are furthest from the median of the others.

    The last month counts up to its last row. None without a column of times, and below 3 months without new rows.
    """
    name = arrived.manifest.spec.columns.time
    times = None if name is None else arrived.joined.column(name).combine_chunks()
    if times is None or times.null_count or not pa.types.is_temporal(times.type):
        return None
    days = pc.cast(times, pa.date32(), safe=False).to_numpy(zero_copy_only=False).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    labels, counts = np.unique(months, return_counts=True)
    first, end = np.maximum(labels.astype("datetime64[D]"), days.min()), (labels + 1).astype("datetime64[D]")
    length = (np.minimum(end, days.max() + 1) - first).astype(np.int64)
    rates, fresh = counts / np.maximum(length, 1), np.isin(labels, months[arrived.new])
    if np.count_nonzero(~fresh) < FEWEST_GENERATIONS:
        return None
    usual = float(np.median(rates[~fresh]))
    # Rows of a day that has only begun may be many, and never too few: the last month is short of that day alone.
    begun = (labels == months.max()) & (length == 1)
    factors = np.where(fresh, np.maximum(rates / usual, np.where(begun, 1.0, usual / rates)), 0.0)
    odd = int(np.argmax(factors))
    what = f"{labels[odd]} has {rates[odd]:.3g} rows a day, {_beside(rates[odd], usual)}"
    message = f"{what} ({usual:.3g}, the median of {np.count_nonzero(~fresh)} months without new rows)."
    return Found(float(factors[odd]), message, {"rows": int(counts[odd]), "usual": usual})


def lost_columns(arrived: Arrived) -> CheckOutcome:
    """Look for columns that matter and are gone, or that hold another kind of value, which keys and groups may."""
    earlier = needed(arrived.snapshot, "the columns of the last table were not kept").types
    before, after = ({name: KINDS[kind] for name, kind in of.items()} for of in (earlier, arrived.types))
    columns, names = arrived.manifest.spec.columns, arrived.joined.source.names
    # Nobody gives new rows a fold.
    matter = {*(before if arrived.columns is None else arrived.columns), columns.target} - {columns.fold}
    relevant = [name for name in before if name in matter]
    gone = [name for name in relevant if name not in names]
    # A batch holds no known row: a column that few rows fill may be empty in it.
    empty = [name for name in relevant if arrived.older.size and name in names and name not in after]
    other = [name for name in relevant if name in after and after[name] != before[name]]
    other = [name for name in other if name not in (*columns.key, *columns.grouped)]
    changes = [f"{name} is gone" for name in gone] + [f"{name} has no value in any row" for name in empty]
    changes += [f"{name} holds {after[name]}s, not {before[name]}s" for name in other]
    mend = "mend the file" if columns.target in (*gone, *empty, *other) else "mend the file, or retrain without them"
    losses = {"gone": gone, "empty": empty, "other": other}
    return Found(len(changes), f"{listed(changes, most=10)}; {mend}.", losses) if changes else None


def target_distribution(arrived: Arrived) -> CheckOutcome:
    """Compare the new rows' target with that of the last generations learnt from, by their shares' largest distance.

    Of numbers that is Kolmogorov's distance, of classes the largest difference of a class's share. What chance explains
    is taken off, by the two-sample inequality of Dvoretzky, Kiefer and Wolfowitz; rows of a group count as Kish (1965)
    has it. The last generations are 3, or all where few rows joined with these.
    """
    target, manifest = needed(arrived.manifest.spec.columns.target, "the split has no target"), arrived.manifest
    new, row_of, born = arrived.new, arrived.joined.lookup.row, manifest.generations
    there = (manifest.status == ACTIVE) & (row_of >= 0)
    if arrived.kept_target is not None:  # of a row that nothing was learnt from there is none
        there &= arrived.kept_target.is_valid().to_numpy(zero_copy_only=False)
    recent = there & (born > born[there].max(initial=0) - 3)
    last = np.flatnonzero(there if recent.sum() < new.size else recent)  # by their place in the manifest
    needed(new.size, "there are no new rows")
    needed(last.size, "no known row is in the data")
    now = arrived.joined.column(target).combine_chunks()
    # As it was, for the whole column may have changed.
    then = now.take(row_of[last]) if arrived.kept_target is None else arrived.kept_target.take(last)
    numbers = KINDS[infer_type(now.type, target)] == "number"
    distance, n_compared = _distance(now.take(new), then, numbers)
    chance = explained([_worth(arrived, rows) for rows in (new, row_of[last])], n_compared)
    shift = f", a shift of {2 * NormalDist().inv_cdf((1 + chance) / 2):.2g} sd" if numbers and chance < 1 else ""
    what = f"{target} of {amount(int(new.size), 'new row')} is {distance:.3g} apart from that of the last {last.size:,}"
    message = f"{what} (largest difference of shares), and chance explains at most {chance:.3g}{shift}."
    figures = {"distance": distance, "chance": chance}
    return Found(distance - chance, message, figures) if distance > chance else None


def merged_groups(arrived: Arrived) -> CheckOutcome:
    """Say how many known rows are of groups that turned out to be one."""
    n, share = arrived.quarantined, arrived.quarantined / arrived.manifest.n
    sentence = f"{amount(n, 'row')} ({share:.1%} of the known ones) {verb(n, 'is', 'are')} of groups that turned out to"
    return Found(share, f"{sentence} be one, and would be in no split any more.", {"rows": n}) if n else None


def unseen_categories(arrived: Arrived) -> CheckOutcome:
    """Look for values of text columns, and for classes, that no known row had; they are counted, never quoted."""
    after, unseen = arrived.types, {}
    last = needed(arrived.snapshot, "the categories of the last table were not kept")
    for name, categories in sorted(last.categories.items()):
        if after.get(name) == "text" and (arrived.columns is None or name in arrived.columns):
            unseen[name] = len(digests_of(arrived.joined.source, name) - set(categories))
    target, before = arrived.manifest.spec.columns.target or "", arrived.kept_target
    if target in after and before is not None and not arrived.joined.is_numeric(target):
        now = pc.unique(arrived.joined.column(target).combine_chunks().drop_null())
        if now.type == before.type:  # else it is another kind of target: see lost_columns
            unseen[target] = pc.sum(pc.invert(pc.is_in(now, before))).as_py() or 0
    unseen = {name: count for name, count in unseen.items() if count}
    names = listed((f"{name} ({count:,})" for name, count in unseen.items()), most=10)
    return Found(len(unseen), f"values that no known row had: {names}.", unseen) if unseen else None


CHECKS = vanished_rows, changed_targets, new_rows, lost_columns, target_distribution, unseen_categories, merged_groups


def _worth(arrived: Arrived, rows: NDArray[np.int64]) -> float:
    """Return how many rows that stand for themselves tell as much as these of groups; the least, of several columns."""
    sizes = [np.bincount(arrived.joined.units(name)[rows]) for name in arrived.manifest.spec.columns.grouped]
    return min([float(rows.size**2 / np.sum(np.square(each))) for each in sizes], default=float(rows.size))


def explained(worth: Sequence[float], n_compared: int) -> float:
    """Return the distance that chance explains between samples of n rows: 2 exp(-2 d^2 / sum(1/n)) is the rate."""
    return sqrt(log(2 * n_compared / FALSE_ALARMS) / 2 * sum(1 / n for n in worth))


def _distance(new: pa.Array, last: pa.Array, numbers: bool) -> tuple[float, int]:
    """Return the largest difference of the shares up to a number, or of a class, and how many were compared."""
    sides = [values.cast(pa.float64()) if numbers else values for values in (new, last)]
    codes = column_of("", pa.chunked_array([pa.concat_arrays(sides)])).codes + 1  # 0 where there is none
    shares = [np.bincount(side, minlength=codes.max() + 1) / side.size for side in np.split(codes, [len(new)])]
    away = shares[0] - shares[1]
    return float(np.abs(np.cumsum(away) if numbers else away).max()), 1 if numbers else np.unique(codes).size

"""Time that leaks: rows whose neighbours in time, on the other side of a split, have nearly their target."""

from __future__ import annotations

import numpy as np
from evenfold.manifests.audits.features import correlation
from evenfold.manifests.audits.findings import Found, NotAsked, Outcome, SplitByTime
from evenfold.manifests.joined import JoinedLabels

from .sample import LEAST_ROWS, Array, Codes, Column, Sample

ALIKE, ERRORS = 0.2, 6.0  # correlation of neighbours, and of how many standard errors


def times_left_out(sample: Sample) -> Outcome:
    """Look for a time that the split ignores and the target follows: random folds then test on what lies between.

    Looked at are the named time, every date and timestamp, and columns of numbers that number the rows. In that order
    neighbours in different folds may have targets (or a class's ones and zeros) with a correlation of at most .2; of a
    time that nobody named they have different times, as a birth date is the same in all rows of its patient.
    O(n log n) a column.
    """
    target, joined = sample.target, sample.joined
    if target is None:
        return NotAsked("no target column is named")
    if joined.manifest.splitter.needs.time:
        return NotAsked(f"{joined.manifest.spec.strategy} splits by time")
    time = joined.columns.time
    clocks = [*([sample.clock(time)] if time else []), *filter(is_clock, sample.columns.values())]
    if not clocks:
        return NotAsked("no column is a time")
    outcomes = np.where(target.present[:, None], target.outcomes, np.nan)
    likenesses = {clock.name: _likeness(clock, outcomes, sample, clock.name == time) for clock in clocks}
    followed = {name: value for name, (value, error) in likenesses.items() if value >= max(ALIKE, ERRORS * error)}
    if not followed:
        return None
    name = max(followed, key=lambda clock: followed[clock])
    is_time = any(clock.name == name and clock.kind == "time" for clock in clocks) or name == joined.columns.time
    alike = f"have targets with a correlation of {followed[name]:.2f}{sample.looked_at}"
    by_time = f"split with ForwardChaining and time {name!r} (--strategy ForwardChaining --time {name})"
    if is_time:
        message = (
            f"{target.name!r} follows {name!r}, which the split ignores: rows that are neighbours in time and in "
            f"different folds {alike}, and a model in use has no later neighbours; {by_time}."
        )
    else:
        message = (
            f"{target.name!r} follows {name!r}, which numbers the rows: neighbours in different folds {alike}, as "
            f"where rows lie by time, or all rows of an entity together. If new times will come, {by_time}; if new "
            "entities, name their column as group (--group)."
        )
    return Found(len(followed), message, {"columns": followed}, SplitByTime(name))


def is_clock(column: Column) -> bool:
    """Return whether a column is a time, or numbers the rows: whole numbers without a repeat, at least half of all."""
    if column.kind != "number" or column.fractional or column.n_levels < max(column.values.size, LEAST_ROWS):
        return column.kind == "time"
    return bool(np.ptp(column.values) < 2 * column.values.size)


def _likeness(clock: Column, outcomes: Array, sample: Sample, equal: bool) -> tuple[float, float]:
    """Return the largest correlation of an outcome with its neighbour's, and the standard error of none."""
    present = ~np.isnan(clock.values) & ~np.isnan(outcomes[:, 0])
    order = np.flatnonzero(present)[np.argsort(clock.values[present], kind="stable")]
    apart = _in_different_folds(sample, order) & (equal | (np.diff(clock.values[order]) > 0))
    ordered = outcomes[order]
    if np.count_nonzero(apart) < LEAST_ROWS:
        return 0.0, 1.0
    pairs = [(outcome[:-1][apart], outcome[1:][apart]) for outcome in ordered.T]
    return max(correlation(a, b) for a, b in pairs), 1.0 / float(np.sqrt(np.count_nonzero(apart)))


def _in_different_folds(sample: Sample, order: Codes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if not isinstance(sample.joined, JoinedLabels):
        return np.ones(max(order.size - 1, 0), dtype=np.bool_)  # of draws some split parts any two rows
    codes = sample.joined.codes[sample.rows[order], 0]
    return np.asarray(codes[1:] != codes[:-1])

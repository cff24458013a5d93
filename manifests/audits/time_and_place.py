"""Times, orders of work, maps and populations that a split ignores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
from evenfold.manifests.balance import columns_of_folds
from evenfold.manifests.joined import JoinedLabels
from evenfold.manifests.tables.canonical import listed, verb
from evenfold.splitters import Stream
from evenfold.splitters.numbers import AUDITING
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import chisquare, norm

from .columns import Array, Codes, Column, alone, are_one, auc, correlation, left_of, level_effect
from .findings import CheckOutcome, DropFeatures, Found, KeepTogether, SplitByTime, needed
from .relatives import LEAST_EFFECT, SAME, split_by
from .sample import BY_CHANCE, LEAST_ROWS, Sample, at_stake, design, predict_boosted, predict_from_all, usable

STRETCHES = 20  # of an order
ALIKE = 0.2  # correlation of neighbours
MOST_ROWS, CELLS = 4_000, 6


def times_left_out(sample: Sample) -> CheckOutcome:
    """Look for a time that the split ignores and the target follows: random folds then test on what lies between.

    Looked at are the named time, every date and timestamp, and whole numbers that number the rows, or batches of them;
    of what nobody named beyond a cubic curve, as an age acts smoothly, and with different times, as a birth date is the
    same in all rows of its patient. O(n log n) a column.
    """
    target, joined = needed(sample.target, "no target column is named"), sample.joined
    needed(not joined.manifest.splitter.needs.time, f"{joined.manifest.spec.strategy} splits by time")
    time, columns = joined.columns.time, sample.columns.values()
    clocks = [sample.clock(time)] if time else []
    clocks = needed([*clocks, *(c for c in columns if is_clock(c) or _numbers_batches(c))], "no column is a time")
    outcomes = np.where(target.present[:, None], target.outcomes, np.nan)
    likenesses = {clock.name: _likeness(clock, outcomes, sample, time) for clock in clocks}
    followed = {name: value for name, (value, error) in likenesses.items() if value >= max(ALIKE, 6.0 * error)}
    if not followed:
        return None
    name = max(followed, key=lambda clock: followed[clock])
    is_time = any(clock.name == name and clock.kind == "time" for clock in clocks) or name == time
    cure = f"split with ForwardChaining and time {name!r} (--strategy ForwardChaining --time {name})"
    if not is_time:
        cure = f"if new times will come, {cure}; if new entities, name their column as group"
    why = "the split ignores" if is_time else "numbers the rows"
    what = f"{target.name!r} follows {name!r}, which {why}: neighbours in it and in different folds have targets with a"
    what += f" correlation of {followed[name]:.2f}{sample.looked_at}, and a model in use has no later neighbours"
    message = f"{what}; {cure}; if it was written after the outcome, exclude it."
    return Found(len(followed), message, {"columns": followed}, SplitByTime(name))


def ordered_keys(labelled: Sample) -> CheckOutcome:
    """Look whether the order of the key, or of the file where none is named, foretells the target.

    Folds that are drawn read no order, so that is a note. It is a warning where the folds are stretches of it, where a
    model sees the key, and where a feature numbers the rows so.
    """
    joined, keys = labelled.joined, labelled.joined.manifest.spec.columns.key
    needed(not joined.columns.time and len(keys) < 2, "the rows have an order of time, or a key of several columns")
    sample = labelled.take(np.sort(np.unique(alone(labelled.groups), return_index=True)[1]))
    n, order = sample.rows.size, np.arange(sample.rows.size)
    effect = level_effect(sample.target.outcomes, order * STRETCHES // n)
    numbers = [c for c in sample.feature_columns() if c.kind == "number" and not c.fractional and c.n_levels == n]
    own = Column("", "number", order.astype(np.float64))
    # n whole numbers out of n**2 / 20 repeat one another ten times by chance.
    numbers = [c for c in numbers if np.ptp(c.values) < n**2 / 20 and are_one(c, own, SAME)]
    alike = [*(c.name for c in numbers), *(name for name in keys if name in sample.features)]
    cut = isinstance(joined, JoinedLabels) and not is_random(joined.codes[sample.rows, 0])
    if effect.chance >= BY_CHANCE or effect.share <= (LEAST_EFFECT if alike or cut else 0.5):
        return None
    what = f"the key {keys[0]!r}" if keys else "the rows in the file"
    why = "the folds are stretches of it: split at random" if cut else "no fold is made by it; leave it out of features"
    why = f"features are in it too: exclude {listed(alike)}" if alike else why
    what = f"{sample.target.name!r} goes with the order of {what}, between {STRETCHES} stretches of which"
    message = f"{what} {effect.share:.0%} of its variance lies{sample.looked_at}; {why}."
    remedy = DropFeatures(tuple(alike)) if alike else None
    return Found(1, message, {"features": alike, "share": effect.share}, remedy, harmless=not (alike or cut))


def is_clock(column: Column) -> bool:
    """Return whether a column is a time, or numbers the rows: whole numbers without a repeat, at least half of all."""
    if column.kind != "number" or column.fractional or column.n_levels < max(column.values.size, LEAST_ROWS):
        return column.kind == "time"
    return bool(np.ptp(column.values) < 2 * column.values.size)


def _numbers_batches(column: Column) -> bool:
    """Return whether whole numbers fill a range as evenly as the numbers of plates, batches and runs do."""
    if column.kind != "number" or column.fractional or not 20 <= column.n_levels <= column.values.size / 3:
        return False
    spread, sizes = np.nanmax(column.values) - np.nanmin(column.values), np.bincount(column.codes[column.codes >= 0])
    return bool(sizes.size > 0.9 * (spread + 1) and chisquare(sizes).pvalue > 0.05)


def _likeness(clock: Column, outcomes: Array, sample: Sample, time: str | None) -> tuple[float, float]:
    """Return the largest correlation of an outcome with its neighbour's, and the standard error of none."""
    present = np.flatnonzero(~np.isnan(clock.values) & ~np.isnan(outcomes[:, 0]))
    equal, outcomes = clock.name == time, outcomes[present]
    if not equal and present.size >= LEAST_ROWS:
        equal, outcomes = _numbers_batches(clock), _beyond(outcomes, [clock.normal[present]])
    order = np.argsort(clock.values[present], kind="stable")
    rows, ordered = present[order], outcomes[order]
    # Of draws some split parts any two rows.
    codes = sample.joined.codes[sample.rows[rows], 0] if isinstance(sample.joined, JoinedLabels) else rows
    apart = (codes[1:] != codes[:-1]) & (equal | (np.diff(clock.values[rows]) > 0))
    if (n := np.count_nonzero(apart)) < LEAST_ROWS:
        return 0.0, 1.0
    likenesses = [correlation(outcome[:-1][apart], outcome[1:][apart]) for outcome in ordered.T]
    return max(likenesses), 1.0 / float(np.sqrt(n))


def places_left_out(timeless: Sample) -> CheckOutcome:
    """Look for two columns that are a map nobody named: neighbours there share the target beyond any smooth trend.

    So must what a model of all features leaves, which loses much where parts of the map are kept together. At most
    4,000 rows are looked at. O(n log n) a pair.
    """
    sample = timeless.subsample.take(np.arange(timeless.subsample.rows.size)[:MOST_ROWS])
    outcomes, hits = sample.target.outcomes, _maps(sample)
    if not hits or not usable(sample.feature_columns()):
        return None
    left = outcomes - predict_from_all(sample.feature_columns(), outcomes, sample.blocks)
    for alike, pair, near in sorted(hits, key=lambda hit: -hit[0]):
        if _alike(_beyond(left, [c.normal for c in pair]), near)[0] <= ALIKE:
            continue
        cells = np.asarray(sum((c.places * CELLS).astype(np.int64) * CELLS**i for i, c in enumerate(pair)))
        cure = KeepTogether(sample.units(cells))
        stake = at_stake(sample, cure)
        if stake and stake[1] - stake[2] > 0.2 * (1.0 - stake[1]):
            a, b = (c.name for c in pair)
            parts = [f"pd.qcut(table[{name!r}], {CELLS}, labels=False)" for name in (a, b)]
            cell = f"{parts[0]} * {CELLS} + {parts[1]}"
            message = (
                f"neighbours in {a!r} and {b!r} share {sample.target.name!r} (correlation {alike:.2f} beyond a smooth "
                f"trend){sample.looked_at}: {stake[0]} {stake[1]:.3f} as split, {stake[2]:.3f} with parts of that map "
                f"kept together. If the model will meet new places, {split_by('cell', cell)}."
            )
            return Found(1, message, {"columns": [a, b], "correlation": alike}, cure)
    return None


def _maps(sample: Sample) -> list[tuple[float, tuple[Column, Column], Codes]]:
    """Return the pairs of fine numbers whose neighbours share the target: correlation, pair and the nearest rows."""
    outcomes, groups, hits = sample.target.outcomes, sample.groups, []
    numbers = [c for c in sample.feature_columns() if c.kind == "number" and not np.isnan(c.values).any()]
    fine = [c for c in numbers if c.n_levels > 0.3 * c.values.size and not is_clock(c)]
    fine.sort(key=lambda c: -c.n_levels)
    pairs = [pair for pair in combinations(fine[:8], 2) if not are_one(*pair, 0.9)]
    strongest = sorted(numbers, key=lambda c: -abs(correlation(c.normal, outcomes[:, 0])))[:50]
    for pair in pairs:
        space = np.column_stack([c.values / c.values.std() for c in pair])
        near = np.asarray(cKDTree(space).query(space, 7)[1])[:, 1:]
        near = np.where((groups[near] == groups[:, None]) & (groups[near] >= 0), -1, near)  # not of the same group
        rough = _beyond(outcomes, [c.normal for c in pair], [c for c in strongest if c not in pair])
        alike, chance = _alike(rough, near)
        share = alike * rough.var(axis=0).sum() / outcomes.var(axis=0).sum()
        if chance * len(pairs) < BY_CHANCE and alike > ALIKE and share > LEAST_EFFECT:
            hits.append((alike, pair, near))
    return hits


def _beyond(outcomes: Array, places: Sequence[Array], others: Sequence[Column] = ()) -> Array:
    """Return what a cubic surface of one or two places and lines of others leave of outcomes."""
    x, y = places[0], places[-1]
    terms = [x**i * y**j for i in range(4) for j in range(4) if i + j <= 3]
    return left_of(outcomes, np.column_stack([*terms, *(c.normal for c in others)]), 1e-9)


def _alike(left: Array, near: Codes) -> tuple[float, float]:
    """Return the correlation of what is left of each row with the mean of its neighbours, and its probability."""
    use = near >= 0
    means = np.where(use[..., None], left[near], 0.0).sum(axis=1) / np.maximum(use.sum(axis=1), 1)[:, None]
    scale = np.sqrt(np.square(left).sum() * np.square(means).sum())
    alike = float((left * means).sum() / scale) if scale > 0 else 0.0
    return alike, float(norm.sf(alike * np.sqrt(left.size / 2.0)))


SURE = 5.0  # standard errors of an AUC without any difference
LEAST_SIDE, PARTS = 20, 3


def other_populations(sample: Sample) -> CheckOutcome:
    """Look for folds whose rows a small model tells from the rest, out of sample: by values, categories, missingness.

    A warning needs an AUC of .57 and of five standard errors above one half; a group is one observation, because a
    model that has seen it knows its fold. At most 4,000 rows, 400,000 cells and ten folds are looked at.
    """
    joined = needed(isinstance(sample.joined, JoinedLabels) and sample.joined, "only folds and parts lie apart")
    needed(not joined.manifest.splitter.needs.time, "the parts follow one another in time")
    time, codes = joined.columns.time, joined.codes[sample.rows, 0].astype(np.int64)
    in_turn = time and not is_random(codes[np.argsort(sample.clock(time).codes, kind="stable")])
    needed(not in_turn, "the folds follow one another in time")
    folds = [fold for fold in np.unique(codes).tolist() if np.count_nonzero(codes == fold) >= LEAST_SIDE][:10]
    columns = sample.feature_columns()
    needed(len(folds) > 1, "fewer than two folds have the rows that a comparison needs")
    compared = folds if len(folds) > 2 else folds[-1:]
    # An AUC of .57 is one that a drawn fold does not reach, for large samples.
    separations = {fold: _separation(sample, codes == fold, columns, 0.57) for fold in compared}
    apart = {fold: value for fold, (value, is_apart) in separations.items() if is_apart}
    if not apart:
        return None
    listing = listed(f"{joined.labels.code_name(fold)} (AUC {value:.3f})" for fold, value in apart.items())
    values = pa.table({column.name: column.values for column in columns})
    cure = "split again at random, or say what sets them apart (a site, a period) and split by that"
    if written := columns_of_folds(values, joined.manifest, codes[:, None]):
        cure = f"leave out {listed(map(repr, written))}, which holds the fold of each row"
    are, their = verb(len(apart), "is", "are"), verb(len(apart), "its", "their")
    what = f"{listing} {are} from another population: a small model tells {their} rows from the rest"
    figures = {"auc": {str(fold): value for fold, value in apart.items()}}
    return Found(len(apart), f"{what}{sample.looked_at}; {cure}.", figures)


def other_generation(sample: Sample) -> CheckOutcome:
    """Look whether the rows of the newest generation come from another population than those before them.

    Columns of times are not looked at: they tell later rows from earlier ones in every table that grows.
    """
    manifest = sample.joined.manifest
    needed(manifest.generation, "the manifest has not grown")
    new = manifest.generations[sample.joined.lookup.rank[sample.rows]] == manifest.generation
    columns = [column for column in sample.feature_columns() if column.kind != "time"]
    fewest = min(np.count_nonzero(new), np.count_nonzero(~new))
    needed(fewest >= LEAST_SIDE, f"the newest generation or those before it have {fewest} rows, too few to compare")
    value, is_apart = _separation(sample, new, columns, 0.65, whole=True)  # less far a generation may drift
    apart = "; scores of old and new rows are about two populations: report both" if is_apart else ""
    what = f"a small model tells the {np.count_nonzero(new):,} rows of generation {manifest.generation} from the older"
    message = f"{what} ones with an AUC of {value:.3f}{sample.looked_at}{apart}."
    return Found(int(is_apart), message, {"auc": value})


def is_random(codes: NDArray[np.int64]) -> bool:
    """Return whether neighbours lie in different folds, half as often as by chance at least, where order is ignored."""
    shares = np.unique(codes, return_counts=True)[1] / codes.size
    return bool(np.mean(codes[1:] != codes[:-1]) > 0.5 * (1.0 - np.square(shares).sum()))


def _separation(
    sample: Sample, mine: NDArray[np.bool_], columns: Sequence[Column], least: float, whole: bool = False
) -> tuple[float, bool]:
    """Return the AUC with which rows are told apart out of sample, and whether it is ``least`` and beyond chance.

    Unless the AUC of the ``whole`` is asked for, it stops where the parts to come can bring no alarm.
    """
    needed(usable(columns), "no column is a feature to tell rows apart by")
    # No more than twice as many rows of one side as of the other.
    stream, sides = Stream(0, AUDITING, 4), [np.flatnonzero(mine), np.flatnonzero(~mine)]
    fewest, n_most = min(side.size for side in sides), min(MOST_ROWS, max(400_000 // len(columns), 1_000))
    most = max(min(2 * fewest, n_most - min(fewest, n_most // 2)), 1)
    balanced = np.sort(np.concatenate([side[stream.permutation(side.size)[:most]] for side in sides]))
    X, categorical = design([column.take(balanced) for column in columns])
    inside = mine[balanced]
    _, first, numbers = np.unique(alone(sample.groups[balanced]), return_index=True, return_inverse=True)
    n_inside, n_outside = (int(np.unique(numbers[side]).size) for side in (inside, ~inside))
    if min(n_inside, n_outside) < LEAST_SIDE:
        return 0.5, False
    part = Stream(0, AUDITING, 3).permutation(first.size)[numbers] % PARTS
    # That of the Mann-Whitney statistic over n1 n2, where both sides are drawn alike; a group is one observation.
    error = float(np.sqrt((n_inside + n_outside + 1) / (12.0 * n_inside * n_outside)))
    limit, values = max(least, 0.5 + SURE * error), list[float]()
    for i in range(PARTS):
        train, test = part != i, part == i
        scores = predict_boosted(X[train], inside[train].astype(np.float64), X[test], categorical, 25)
        values.append(auc(scores, inside[test]))
        if not whole and np.mean(values) + SURE * error * np.sqrt(1.0 - len(values) / PARTS) < limit:
            break
    return float(np.mean(values)), bool(np.mean(values) >= limit)

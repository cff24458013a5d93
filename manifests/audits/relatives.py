"""Rows that belong together and nobody said so: levels that cross folds, rows alike or near, and targets with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from evenfold.manifests.tables.canonical import listed
from evenfold.splitters import Stream
from evenfold.splitters.errors import is_deployed
from evenfold.splitters.kernels import joined_by
from evenfold.splitters.numbers import AUDITING, by_appearance
from scipy.spatial import cKDTree
from scipy.stats import t

from .columns import LEAST_LEVELS, Array, Codes, Column, alone, are_one, count_pairs, level_effect, level_means, several
from .duplicates import MOST_SEARCHED, PROJECTED
from .findings import CheckOutcome, Found, KeepTogether
from .marks import PIECES, parts_of
from .sample import BLOCKS, BY_CHANCE, Sample, at_stake, crossings, predict_from_all, usable

LEAST_PAIRS, SAME, STRANGERS = 20, 0.995, 5
LEAST_ROWS, LEAST_SHARE, LEAST_CLUSTERS = 20, 0.05, 10
LEAST_EFFECT = 0.1  # of the variance that the features leave, shared by relatives, and beyond the nearest strangers


@dataclass(frozen=True, eq=False)
class Candidate:
    """A tie between rows: in words, each row's code (-1 where none), and the column to name as group.

    ``made_of``: what is first to be written into a column of that name, as pandas writes it; empty where it is one.
    ``least``: the share of the target's variance that must lie between levels, where that is asked.
    """

    how: str
    codes: Codes
    group: str = ""
    made_of: str = ""
    least: float = LEAST_EFFECT
    columns: tuple[Column, ...] = ()


def split_by(group: str, made_of: str = "") -> str:
    """Return the cure of keeping a group whole, for a specification and at a terminal."""
    if not group:
        return "keep together what was recorded together: name its column as group (--group)"
    first = f"write a column {group!r} into the data (in pandas table[{group!r}] = {made_of}) and " if made_of else ""
    return f"{first}split with `group: {group}` (--group {group})"


def relatives(timeless: Sample) -> CheckOutcome:
    """Look for rows that agree in several columns, or lie much closer than usual, and whose targets agree beyond that.

    So must what a model that saw no relative leaves of the targets, beyond the nearest strangers (a t test over the
    clusters). What costs little is a note. At most 4,000 rows are looked at, clusters whole. O(columns^2 x n log n).
    """
    return _not_whole(timeless, [*(_agreeing(columns, "cluster") for columns in _sets(timeless)), *_chains(timeless)])


def _not_whole(sample: Sample, candidates: list[Candidate]) -> CheckOutcome:
    """Return which candidates tie rows together that share targets and lie apart, the one that agrees most first."""
    hits = {each: sharing for each in candidates if (sharing := _shared(sample, each, len(candidates)))}
    if not hits:
        return None
    best, *others = sorted(hits, key=lambda each: (not hits[each][2], -round(hits[each][0], 6)))
    codes = several(best.codes)
    units, n_rows, n_clusters = sample.units(codes), np.count_nonzero(codes >= 0), np.unique(codes[codes >= 0]).size
    apart, places, where = crossings(sample.joined, units)
    if apart < 0.1 * n_rows:
        return None
    also = f"; so do those that {listed((each.how for each in others), most=3)}" if others else ""
    what = f"{n_rows:,} rows {best.how}, in {n_clusters:,} clusters, and {sample.target.name!r} agrees there beyond the"
    what += f" nearest strangers (correlation {hits[best][0]:.2f} of what the features leave){sample.looked_at}{also}"
    cure = f"If the model will meet new ones, {split_by(best.group, best.made_of)}"
    message = f"{what}; {apart:,} of them are in {where}. {cure}."
    figures = {"clusters": n_clusters, "folds": places, "chance": {each.how: hits[each][1] for each in hits}}
    return Found(apart, message, figures, KeepTogether(units), harmless=not hits[best][2])


def _agreeing(columns: Sequence[Column], group: str, least: float = LEAST_EFFECT) -> Candidate:
    """Return the candidate of the rows that agree in all of some columns."""
    names, table = [column.name for column in columns], pd.DataFrame({i: c.codes for i, c in enumerate(columns)})
    codes: Codes = np.where((table < 0).all(axis=1), -1, table.groupby([*table]).ngroup())  # gaps alone tie nothing
    made_of = f"table.groupby({names!r}, dropna=False).ngroup()"
    return Candidate(f"agree in {listed(map(repr, names), most=6)}", codes, group, made_of, least, tuple(columns))


def _sets(sample: Sample) -> list[list[Column]]:
    """Return sets of columns that agree together far more often than each alone would."""
    n = sample.rows.size
    pairs = n * (n - 1.0) / 2.0
    shares = {column: count_pairs(column.codes[column.codes >= 0]) / pairs for column in sample.feature_columns()}
    likely = [column for column, share in shares.items() if LEAST_PAIRS / pairs <= share <= 0.5]
    likely = sorted(likely, key=lambda column: shares[column])[:30]
    bound = np.eye(len(likely), dtype=np.bool_)
    for i, j in combinations(range(len(likely)), 2):
        a, b = likely[i], likely[j]
        there = (a.codes >= 0) & (b.codes >= 0)
        both, by_chance = count_pairs((a.codes * b.n_levels + b.codes)[there]), shares[a] * shares[b] * pairs
        bound[i, j] = both >= max(LEAST_PAIRS, 3.0 * by_chance) and not are_one(a, b, SAME)
    one, other = np.argwhere(bound).T
    labels = joined_by(one, other, len(likely))
    sets = [[likely[i] for i in np.flatnonzero(labels == label)] for label in np.unique(labels)]
    return [each for each in sets if len(each) > 1]


def _chains(sample: Sample) -> Iterator[Candidate]:
    """Yield chains of rows that lie closer than is usual around them, where the dimension falls at small scale."""
    n = sample.rows.size
    numbers = [c for c in sample.feature_columns() if c.kind == "number" and c.n_levels > n / 2]
    fine = [c for c in numbers if not np.isnan(c.values).any()][: 12 if n <= MOST_SEARCHED else PROJECTED]
    if len(fine) < 3 or n < 10 * LEAST_CLUSTERS:
        return
    space = np.column_stack([column.normal for column in fine])
    tree, some = cKDTree(space), np.sort(Stream(0, AUDITING, 11).permutation(n)[:1_000])
    around = np.maximum(tree.query(space[some], 33)[0], 1e-9)
    around = around[around[:, 1] > 1e-6]
    if not around.size:
        return
    # How fast rows become more with distance near a row, of that further away: as fast in a cloud, slower in chains.
    near, far = (np.log(b / a) / np.median(np.log(around[:, b] / around[:, a])) for a, b in ((1, 4), (8, 32)))
    if near > 0.6 * far:
        return
    away, nearest = tree.query(space, 17)
    close = away[:, 1:5] < 0.6 * away[:, [16]]
    codes = joined_by(np.repeat(np.arange(n), 4)[close.ravel()], nearest[:, 1:5][close], n)
    if np.bincount(codes).max() < 0.3 * n:  # a longer chain fills the space
        yield Candidate("follow each other closely in their numbers", by_appearance(codes))


def _shared(sample: Sample, candidate: Candidate, tests: int) -> tuple[float, float, bool] | None:
    """Return how far rows of one code agree in what the features leave, by what chance, and whether it costs.

    None unless they agree beyond the nearest rows of other codes, near by all features and by the candidate's own
    numbers. It costs, where these are several, if a small model loses .15 of what it leaves open when they are whole.
    """
    all_codes = several(candidate.codes)
    units = by_appearance(alone(all_codes))
    place = np.argsort(Stream(0, AUDITING, 12).permutation(int(units.max()) + 1))
    # Whole clusters and rows of none, drawn at random; of the last one those that have room.
    chosen = np.sort(np.argsort(place[units], kind="stable")[:4_000])
    small, codes = sample.take(chosen), all_codes[chosen]
    related = codes >= 0
    if related.sum() < max(LEAST_ROWS, LEAST_SHARE * codes.size) or np.unique(codes[related]).size < LEAST_CLUSTERS:
        return None
    columns = usable(small.feature_columns())
    mates = _mates(codes, alone(small.groups))
    use = mates >= 0
    if not columns or use.sum() < max(LEAST_ROWS, 0.6 * LEAST_SHARE * codes.size):
        return None
    units = by_appearance(alone(codes))
    left = _left_open(small, columns, units)
    alike = (left[use] * left[mates[use]]).sum(axis=1)
    agree, effect = float(alike.mean()), None
    clusters = np.unique(codes[use], return_inverse=True)[1]
    sizes = np.bincount(clusters)
    own = [column.take(chosen) for column in candidate.columns if column.kind != "category"]
    for near in (columns, own) if own else (columns,):
        strangers = _strangers(near, units)
        beyond = alike - (left[use] * left[strangers[use]].mean(axis=1)).sum(axis=1)
        mean = float(beyond.mean())
        error = float(np.sqrt(np.square(np.bincount(clusters, weights=beyond) - mean * sizes).sum())) / sizes.sum()
        chance = float(t.sf(mean / max(error, 1e-12), max(sizes.size - 1, 1))) * tests
        # So much less is said by a t test of few clusters of unequal sizes.
        if not (3.0 * chance < BY_CHANCE and min(agree, mean) > LEAST_EFFECT):
            return None
        effect = effect or (agree, chance)
    stake = at_stake(sample.subsample, KeepTogether(sample.units(all_codes))) if len(own) > 1 else None
    return effect and (*effect, stake is None or stake[1] - stake[2] >= 0.15 * (1.0 - stake[1]))


def _left_open(small: Sample, columns: list[Column], units: Codes) -> Array:
    """Return what a small model leaves of the targets out of fold, whole units in one; of spread 1."""
    blocks = Stream(0, AUDITING, 13).below(BLOCKS, int(units.max()) + 1)[units]
    outcomes = small.target.outcomes[:, :3]
    centred = outcomes - outcomes.mean(axis=0)
    predicted = predict_from_all(columns, outcomes, blocks) - outcomes.mean(axis=0)
    # As much of the prediction as is true: relatives share what is learnt of nothing, too.
    slope = np.clip((centred * predicted).sum(axis=0) / np.maximum(np.square(predicted).sum(axis=0), 1e-12), 0.0, 1.0)
    left = centred - slope * predicted
    return np.asarray(left / np.sqrt(np.square(left).sum(axis=1).mean()))


def _mates(codes: Codes, groups: Codes) -> Codes:
    """Return another row of each one's code, and of another named group; -1 where there is none."""
    order = np.lexsort((Stream(0, AUDITING, 14).permutation(codes.size), codes))
    mates = np.full(codes.size, -1, dtype=np.int64)
    for step in range(1, 8):  # the next rows of the cluster, in an order drawn at random
        here, there = order[:-step], order[step:]
        for one, other in ((here, there), (there, here)):
            fits = (codes[one] == codes[other]) & (codes[one] >= 0) & (groups[one] != groups[other]) & (mates[one] < 0)
            mates[one[fits]] = other[fits]
    return mates


def _strangers(columns: Sequence[Column], units: Codes) -> Codes:
    space = np.column_stack([3.0 * np.maximum(c.codes, 0) if c.kind == "category" else c.normal for c in columns])
    strangers = np.empty((units.size, STRANGERS), dtype=np.int64)
    norms = np.square(space).sum(axis=1)
    for start in range(0, units.size, 500):
        away = norms - 2.0 * space[(rows := slice(start, start + 500))] @ space.T
        away[units[rows, None] == units[None]] = np.inf
        strangers[rows] = np.argpartition(away, STRANGERS, axis=1)[:, :STRANGERS]
    return strangers


CHANCE = 1e-6  # of all candidates together


def unnamed_entities(timeless: Sample) -> CheckOutcome:
    """Look for levels (patients, devices, shops) that lie in several folds and share their target.

    Asked are columns, parts of the key, and pairs of columns that say little alone; rows of one level must agree as
    relatives do. An influence that other features tell is so no entity, nor are numbers along whose order the targets'
    means lie smoothly. O(columns x n log n).
    """
    few = [c for c in timeless.columns.values() if not c.fractional and 1 < c.n_levels <= c.values.size / 4]
    few = [c for c in few if level_effect(timeless.target.outcomes, c.codes).share < LEAST_EFFECT]
    pairs = combinations(sorted(few, key=lambda column: -column.n_levels)[:12], 2)  # as a site and a number
    tuples = (_agreeing(pair, "_".join(c.name for c in pair), 2 * LEAST_EFFECT) for pair in pairs)
    candidates = [each for each in [*_candidates(timeless), *tuples] if _is_shared(each.codes)]
    effects = {each: level_effect(timeless.target.outcomes, each.codes) for each in candidates}
    beyond_chance = (each for each in candidates if effects[each].chance * len(candidates) < CHANCE)
    # What tells nearly all is no entity, but the target in other words.
    likely = [each for each in beyond_chance if each.least <= effects[each].share < 0.95]
    likely.sort(key=lambda each: (-round(effects[each].share, 6), each.codes.max()))
    return _not_whole(timeless, likely[:4])


def _candidates(sample: Sample) -> Iterator[Candidate]:
    """Yield each column, each key column of several, and the parts of a text key that separators or digits set off."""
    # Texts come before numbers: where both tell the same rows apart, a name is the better group.
    for column in sorted(sample.columns.values(), key=lambda column: column.kind != "category"):
        if column.kind == "category" or (_is_shared(column.codes) and _is_no_quantity(column.codes, sample)):
            yield Candidate(f"agree in {column.name!r}", column.codes, column.name, columns=(column,))
    spec, keys = sample.joined.manifest.spec, sample.key_columns()
    for key in keys:
        if key.name in sample.joined.columns.grouped:
            continue
        if len(keys) > 1:
            yield Candidate(f"agree in the key's column {key.name!r}", key.codes, key.name)
        for words, taken, first, codes in parts_of(key):
            quoted = spec.key_encoding is None and not is_deployed()
            example = f" (as in {first!r} of {key.levels[0]!r})" if quoted else ""
            made_of = f"table[{key.name!r}].str.findall(r'{PIECES}').str{taken}"
            group = f"{key.name}_{words.replace(' ', '_').removeprefix('the_')}"
            yield Candidate(f"agree in {words} of the key {key.name!r}{example}", codes, group, made_of)


def _is_no_quantity(codes: Codes, sample: Sample) -> bool:
    """Return whether numbers have many values, whose order says little: squared steps are twice the variance then."""
    there = codes >= 0
    n_levels = int(codes.max(initial=-1)) + 1
    if n_levels < 20:  # as months and ratings have
        return False
    means = level_means(sample.target.outcomes[there], codes[there])
    # By chance they are less by 1.65 of their standard errors in one of twenty; half as much again is no order either.
    least = min(1.5, 2.0 - 3.3 / np.sqrt(n_levels)) * means.var(axis=0) * n_levels
    return bool((np.square(np.diff(means, axis=0)).sum(axis=0) > least).all())


def _is_shared(codes: Codes) -> bool:
    """Return whether there are many levels, none of most rows (as a measure's zero is), and most rows share theirs."""
    sizes, n = np.bincount(codes[codes >= 0], minlength=1), codes.size
    many = LEAST_LEVELS <= np.count_nonzero(sizes) <= n / 2
    return bool(many and sizes.max() <= 0.5 * n and sizes[sizes > 1].sum() >= 0.5 * n)

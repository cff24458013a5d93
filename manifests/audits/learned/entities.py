"""Entities that nobody named: columns and parts of the key whose levels cross folds and carry the target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests.audits.crossings import crossings
from evenfold.manifests.audits.findings import Found, KeepTogether, NotAsked, Outcome
from evenfold.manifests.tables.canonical import canonical_table, listed, verb
from evenfold.splitters.deployed import is_deployed

from .models import is_usable, predict_from_all
from .sample import Array, Codes, Column, Sample

PIECES = r"\d+|[^\W\d_]+"  # of a text key: what separators set off, and digits from letters
LEAST_LEVELS = 10
LEAST_NUMBERS = 20  # levels of a number; months and ratings have fewer
LEAST_WORDS, MOST_ROWS_A_WORD = 40, 100.0  # levels without a digit are mostly descriptions: states, makes, trades
LEAST_SHARED = 0.5  # share of rows that have another row of their level
LEAST_CROSSING = 0.5  # share of those levels that lie in several folds
CHANCE = 1e-6  # of all columns together
# Share of the target's variance that lies between levels (the intraclass correlation): of names, and of words, which
# may be descriptions, as states and trades are.
LEAST_EFFECT, LEAST_EFFECT_OF_WORDS = 0.1, 0.2
CHI_SQUARE_AT_TWO_THIRDS = 0.9364  # the quantile of one squared standard normal number
ROUGH = 1.0  # von Neumann's ratio of means in no order is 2, along a curve nearly 0
COUNTED = 0.5  # that ratio of the levels' rows, or their rank correlation: of names, rows do not go by their order
GIVES_IT_AWAY = 0.95  # of the variance: no entity, but the target in other words


@dataclass(frozen=True)
class Effect:
    """How far the levels of a column differ in their target beyond chance: F, its probability, and their share."""

    f: float
    chance: float
    share: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """What may name an entity: its words in a sentence, the ``group:`` line, and each row's code.

    ``made_of``: what is first to be written into a column of that name, as pandas writes it; empty where it is one.
    """

    name: str
    group: str
    codes: Codes
    ordered: bool
    made_of: str = ""

    @property
    def remedy(self) -> str:
        """What to do, for a specification and at a terminal."""
        column = self.group.removeprefix("group: ")
        recipe = f"in pandas table[{column!r}] = {self.made_of}"
        first = f"write a column {column!r} into the data ({recipe}) and " if self.made_of else ""
        return f"{first}split with `{self.group}` (--group {column})"


def unnamed_entities(sample: Sample) -> Outcome:
    """Look for levels (patients, devices, shops) that lie in several folds and share their target.

    A column counts if most rows share their level with another, most such levels cross folds, and the target's
    variance between levels is beyond chance (an F test with a probability of 1e-6 over all columns) and at least .1 of
    the whole; below .2 also of what the features leave of it. Whole numbers and times are compared with the next level
    only, which no smooth influence fools, and are no names where their frequency is smooth as that of counts is; levels
    without a digit are taken for descriptions unless there are 40, few rows each, and .2 of the variance between them.
    Where a group is named, its rows' mean is one observation. O(columns x n log n).
    """
    target, joined = sample.target, sample.joined
    if sample.why_not:
        return sample.why_not
    if "past_before_future" in joined.manifest.splitter.promises:
        return NotAsked("what is known of an entity from the past may be used in the future")
    sample = sample.take(np.flatnonzero(target.present))
    candidates = [candidate for candidate in _candidates(sample) if _may_be_an_entity(candidate, sample)]
    effects = {
        candidate: effect
        for candidate in candidates
        if (effect := _effect_beyond_chance(candidate, sample, len(candidates)))
    }
    crossing = {candidate: share for candidate in effects if (share := _crossing(candidate, sample)) >= LEAST_CROSSING}
    if not crossing:
        return None
    best = max(crossing, key=lambda each: (effects[each].share, -each.codes.max()))
    effect, levels = effects[best], int(np.unique(best.codes[best.codes >= 0]).size)
    others = [candidate.name for candidate in crossing if candidate is not best]
    also = f"; so {verb(len(others), 'does', 'do')} {listed(others, most=3)}" if others else ""
    message = (
        f"{best.name} looks like an entity, as a patient or a shop is, that the split does not keep whole: "
        f"{crossing[best]:.0%} of its {levels:,} values have rows in more than one fold, and {effect.share:.0%} of the "
        f"variance of {target.name!r} lies between them (F {effect.f:.1f}){sample.looked_at}{also}. If the model will "
        f"meet new ones, {best.remedy}."
    )
    figures = {
        candidate.name: {
            "levels_crossing": crossing[candidate],
            "share": effects[candidate].share,
            "group": candidate.group,
        }
        for candidate in crossing
    }
    return Found(len(crossing), message, {"entities": figures}, KeepTogether(sample.units(best.codes)))


def _candidates(sample: Sample) -> Iterator[Candidate]:
    """Yield each column, each key column of several, and the parts of a text key that separators or digits set off."""
    for column in sample.columns.values():
        yield Candidate(repr(column.name), f"group: {column.name}", column.codes, column.kind != "category")
    spec, keys = sample.joined.manifest.spec, sample.joined.keys
    if keys is None:
        return
    table = canonical_table(keys, spec.columns.key, sample.joined.manifest.types)
    for name in spec.columns.key:
        if name in sample.joined.columns.grouped:
            continue
        values = table.column(name).to_pylist()
        own = [values[row] for row in sample.rows]
        if len(spec.columns.key) > 1:
            yield Candidate(f"the key's column {name!r}", f"group: {name}", _numbered(own), False)
        if own and isinstance(own[0], str):
            yield from _text_parts(name, own, quoted=spec.key_encoding is None and not is_deployed())


def _text_parts(name: str, values: list[Any], quoted: bool) -> Iterator[Candidate]:
    pieces = [tuple(re.findall(PIECES, value or "")) for value in values]
    most = min(max(map(len, pieces)), 8)
    found = f"table[{name!r}].str.findall(r'{PIECES}').str"
    for place in range(most):
        part = [piece[place] if place < len(piece) else None for piece in pieces]
        description = f"part {place + 1} of the key {name!r}" + (
            f" (as in {part[0]!r} of {values[0]!r})" if quoted else ""
        )
        yield Candidate(description, f"group: {name}_part_{place + 1}", _numbered(part), False, f"{found}[{place}]")
    for end in range(2, most):
        start = ["".join(piece[:end]) for piece in pieces]
        description = f"the first {end} parts of the key {name!r}"
        description += f" (as in {start[0]!r} of {values[0]!r})" if quoted else ""
        yield Candidate(
            description, f"group: {name}_first_{end}_parts", _numbered(start), False, f"{found}[:{end}].str.join('')"
        )


def _numbered(values: list[Any]) -> Codes:
    codes: Codes = pd.factorize(np.array(values, dtype=object))[0]  # None is -1
    return codes


def _may_be_an_entity(candidate: Candidate, sample: Sample) -> bool:
    codes = candidate.codes
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    sizes = sizes[sizes > 0]
    n, several = codes.size, sizes[sizes > 1]
    if sizes.size < LEAST_LEVELS or several.sum() < LEAST_SHARED * n or sizes.size > n / 2:
        return False
    column = sample.columns.get(candidate.group.removeprefix("group: "))
    if column is None:
        return True
    if candidate.ordered:
        names = sizes.size >= LEAST_NUMBERS and not column.fractional and not _are_counts(sizes)
        return names and n <= MOST_ROWS_A_WORD * sizes.size
    return _is_coded(column) and (_has_digits(column) or n <= MOST_ROWS_A_WORD * sizes.size)


def _are_counts(sizes: Codes) -> bool:
    """Return whether levels have rows by their order, as quantities do: smoothly, or the more the smaller they are."""
    from scipy.stats import rankdata

    if np.ptp(sizes) == 0:
        return False
    logs, ranks = np.log(sizes), rankdata(sizes)
    smooth = np.square(np.diff(logs)).sum() < COUNTED * np.square(logs - logs.mean()).sum()
    falling = abs(np.corrcoef(np.arange(sizes.size), ranks)[0, 1]) >= COUNTED
    return bool(smooth or falling)


def _has_digits(column: Column) -> bool:
    return bool(np.mean([any(letter.isdigit() for letter in level) for level in column.levels]) >= 0.9)


def _is_coded(column: Column) -> bool:
    """Return whether levels may name things: numbers, levels with digits, or so many that they describe nothing."""
    return column.kind != "category" or _has_digits(column) or column.n_levels >= LEAST_WORDS


def _effect_beyond_chance(candidate: Candidate, sample: Sample, tests: int) -> Effect | None:
    outcomes, codes = _units(sample.target.outcomes, candidate.codes, sample.groups)
    effect = level_effect(outcomes, codes, candidate.ordered)
    column = sample.columns.get(candidate.group.removeprefix("group: "))
    words = column is not None and column.kind == "category" and not _has_digits(column)
    many = candidate.codes.size > MOST_ROWS_A_WORD * (int(candidate.codes.max()) + 1)
    least = LEAST_EFFECT_OF_WORDS if words or many else LEAST_EFFECT
    if effect.chance * tests >= CHANCE or not least <= effect.share < GIVES_IT_AWAY:
        return None
    if effect.share < LEAST_EFFECT_OF_WORDS and not _beyond_features(candidate, column, sample, tests):
        return None
    return effect


def _beyond_features(candidate: Candidate, column: Column | None, sample: Sample, tests: int) -> bool:
    """Return whether levels differ in what the features without them leave of the target, out of fold.

    Where a weak effect is that of what the features say of the levels anyway, a model learns nothing from their rows.
    """
    learned = sample.learned
    others = [other for other in learned.feature_columns() if column is None or other.name != column.name]
    if not is_usable(others):
        return True
    left = learned.target.outcomes - predict_from_all(others, learned.target.outcomes, learned.blocks)
    outcomes, codes = _units(left, candidate.codes[np.isin(sample.rows, learned.rows)], learned.groups)
    effect = level_effect(outcomes, codes, candidate.ordered)
    return effect.chance * tests < CHANCE and effect.share >= LEAST_EFFECT


def _units(outcomes: Array, codes: Codes, groups: Codes | None) -> tuple[Array, Codes]:
    """Return one observation for each level of each named group, or each row where it is of none."""
    if groups is None:
        return outcomes, codes
    groups = np.where(groups < 0, int(groups.max(initial=0)) + 1 + np.arange(groups.size), groups)
    # One number for a group and a level; levels are moved up by 1, so that -1 (none) is one of them.
    both = groups * (int(codes.max(initial=0)) + 2) + codes + 1
    _, first, units = np.unique(both, return_index=True, return_inverse=True)
    sizes = np.bincount(units)[:, None]
    sums = np.stack([np.bincount(units, weights=outcome) for outcome in outcomes.T], axis=1)
    return sums / sizes, codes[first]


def level_effect(outcomes: Array, codes: Codes, ordered: bool) -> Effect:
    """Return how far levels differ beyond chance: for ordered ones, how far each differs from the next.

    The F statistic of a one-way analysis of variance, of the outcome that shows most; for ordered levels the
    squares of successive differences of the levels' means (von Neumann 1941), at their upper third, take the place of
    the variance: a smooth influence or a threshold hardly moves them. The probability of
    several outcomes is multiplied by their number.
    """
    from scipy.stats import f as f_distribution

    present = codes >= 0
    levels = np.unique(codes[present], return_inverse=True)[1]
    outcomes, n, k = outcomes[present], int(np.count_nonzero(present)), int(levels.max(initial=-1)) + 1
    best = Effect(0.0, 1.0, 0.0)
    if k < 2 or n - k < LEAST_LEVELS:
        return best
    sizes = np.bincount(levels).astype(np.float64)
    for outcome in outcomes.T:
        means = np.bincount(levels, weights=outcome) / sizes
        within = float(np.square(outcome - means[levels]).sum()) / (n - k)
        spread = float(np.var(outcome))
        if spread <= 0:
            continue
        within = max(within, 1e-9 * spread)
        if ordered and np.square(np.diff(means)).sum() < ROUGH * np.square(means - means.mean()).sum():
            continue
        if ordered:
            scale = 1.0 / sizes[1:] + 1.0 / sizes[:-1]
            # The quantile, not the mean: a jump at one threshold is no entity.
            f = float(np.quantile(np.square(np.diff(means)) / scale, 2 / 3)) / CHI_SQUARE_AT_TWO_THIRDS / within
            freedom = (k - 1) / 3.0
            usual = float((2.0 / scale).mean())
        else:
            f = float((sizes * np.square(means - outcome.mean())).sum()) / (k - 1) / within
            freedom, usual = float(k - 1), (n - float(np.square(sizes).sum()) / n) / (k - 1)
        chance = float(f_distribution.sf(f, freedom, n - k)) * outcomes.shape[1]
        # E[F] = 1 + n0 ICC / (1 - ICC) with n0 the usual rows of a level, solved for the intraclass correlation.
        share = max(f - 1.0, 0.0) / (max(f - 1.0, 0.0) + usual)
        if share > best.share and chance < 1.0:
            best = Effect(f, chance, share)
    return best


def _crossing(candidate: Candidate, sample: Sample) -> float:
    """Return the share of the levels with several rows that lie on both sides of a split."""
    codes = candidate.codes
    several = np.bincount(codes[codes >= 0]) > 1
    rows = crossings(sample.joined, sample.units(codes)).rows[sample.rows]
    return np.unique(codes[rows & (codes >= 0)]).size / max(int(np.count_nonzero(several)), 1)

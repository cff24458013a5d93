"""Entities that nobody named: columns, pairs of them and parts of the key whose levels cross folds, targets alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from evenfold.manifests.audits.crossings import crossings
from evenfold.manifests.audits.findings import Found, KeepTogether, Outcome
from evenfold.manifests.tables.canonical import listed, verb
from evenfold.splitters.deployed import is_deployed

from .relatives import shared, why_not_kept
from .sample import Array, Codes, Sample
from .text import PIECES, parts_of

LEAST_LEVELS, LEAST_NUMBERS = 10, 20  # months and ratings have fewer
LEAST_SHARED = 0.5  # share of rows that have another row of their level
LEAST_CROSSING = 0.5  # share of those levels that lie in several folds
CHANCE = 1e-6  # of all candidates together
LEAST_EFFECT, GIVES_IT_AWAY = 0.1, 0.95  # of the variance; beyond it no entity, but the target in other words
MOST_PAIRED, MOST_ASKED = 12, 4  # columns whose pairs are looked at, and candidates that are asked what they share


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
    ``least``: the share of the variance that must lie between its levels.
    """

    name: str
    group: str
    codes: Codes
    made_of: str = ""
    least: float = LEAST_EFFECT

    @property
    def remedy(self) -> str:
        """What to do, for a specification and at a terminal."""
        recipe = f"in pandas table[{self.group!r}] = {self.made_of}"
        first = f"write a column {self.group!r} into the data ({recipe}) and " if self.made_of else ""
        return f"{first}split with `group: {self.group}` (--group {self.group})"


def unnamed_entities(sample: Sample) -> Outcome:
    """Look for levels (patients, devices, shops) that lie in several folds and share their target.

    Asked are whole numbers, times and texts, columns and parts of the key, and pairs of columns that say little
    alone. One counts if most rows share their level with another, most such levels cross folds, .1 of the target's
    variance (.2 of pairs) lies between them (an F test with a probability of 1e-6 over all), and rows of one level
    agree as relatives do: in what a model that saw no row of their level leaves, beyond the nearest rows of other
    levels. An influence that other features tell is so no entity, nor are numbers along whose order the targets' means
    lie smoothly. O(columns x n log n).
    """
    if why_not := why_not_kept(sample):
        return why_not
    sample = sample.labelled
    candidates = [*_candidates(sample)]
    candidates += _pairs(sample)
    tests, outcomes = len(candidates), sample.target.outcomes
    effects = {each: level_effect(outcomes, each.codes) for each in candidates if _is_shared(each.codes)}
    likely = [
        each
        for each, effect in effects.items()
        if effect.chance * tests < CHANCE and each.least <= effect.share < GIVES_IT_AWAY
    ]
    likely = sorted(likely, key=lambda each: (-effects[each].share, each.codes.max()))[:MOST_ASKED]
    crossing = {each: share for each in likely if (share := _crossing(each, sample)) >= LEAST_CROSSING}
    crossing = {each: share for each, share in crossing.items() if shared(sample, each.codes, len(likely))}
    if not crossing:
        return None
    best = next(iter(crossing))
    effect, levels = effects[best], int(np.unique(best.codes[best.codes >= 0]).size)
    others = [candidate.name for candidate in crossing if candidate is not best]
    also = f"; so {verb(len(others), 'does', 'do')} {listed(others, most=3)}" if others else ""
    message = (
        f"{best.name} looks like an entity, as a patient or a shop is, that the split does not keep whole: "
        f"{crossing[best]:.0%} of its {levels:,} values have rows in more than one fold, and {effect.share:.0%} of the "
        f"variance of {sample.target.name!r} lies between them (F {effect.f:.1f}){sample.looked_at}{also}. If the "
        f"model will meet new ones, {best.remedy}."
    )
    figures = {
        each.name: {"levels_crossing": share, "share": effects[each].share, "group": f"group: {each.group}"}
        for each, share in crossing.items()
    }
    return Found(len(crossing), message, {"entities": figures}, KeepTogether(sample.units(best.codes)))


def _candidates(sample: Sample) -> Iterator[Candidate]:
    """Yield each column, each key column of several, and the parts of a text key that separators or digits set off."""
    for column in sample.columns.values():
        if not column.fractional and (column.kind == "category" or _is_no_quantity(column.codes, sample)):
            yield Candidate(repr(column.name), column.name, column.codes)
    spec, keys = sample.joined.manifest.spec, sample.key_columns()
    for key in keys:
        if key.name in sample.joined.columns.grouped:
            continue
        if len(keys) > 1:
            yield Candidate(f"the key's column {key.name!r}", key.name, key.codes)
        for part in parts_of(key):
            quoted = spec.key_encoding is None and not is_deployed()
            example = f" (as in {part.example!r} of {key.levels[0]!r})" if quoted else ""
            made_of = f"table[{key.name!r}].str.findall(r'{PIECES}').str{part.taken}"
            group = f"{key.name}_{part.words.replace(' ', '_').removeprefix('the_')}"
            yield Candidate(f"{part.words} of the key {key.name!r}{example}", group, part.codes, made_of)


def _pairs(sample: Sample) -> Iterator[Candidate]:
    """Yield pairs of columns whose levels are entities together, as a site and a number in it are."""
    few = [c for c in sample.columns.values() if not c.fractional and 1 < c.n_levels <= c.values.size / 4]
    few = [c for c in few if level_effect(sample.target.outcomes, c.codes).share < LEAST_EFFECT]
    for a, b in combinations(sorted(few, key=lambda column: -column.n_levels)[:MOST_PAIRED], 2):
        codes = np.unique(a.codes * (b.n_levels + 1) + b.codes, return_inverse=True)[1]
        made_of = f"table.groupby([{a.name!r}, {b.name!r}], dropna=False).ngroup()"
        yield Candidate(f"{a.name!r} with {b.name!r}", f"{a.name}_{b.name}", codes, made_of, 2 * LEAST_EFFECT)


def _is_no_quantity(codes: Codes, sample: Sample) -> bool:
    """Return whether numbers have many values, whose order says little: squared steps are twice the variance then."""
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    sums = [np.bincount(codes[codes >= 0], weights=outcome[codes >= 0]) for outcome in sample.target.outcomes.T]
    means = np.stack(sums, axis=1) / sizes[:, None]
    return sizes.size >= LEAST_NUMBERS and bool(
        (means.std(axis=0) ** 2 * sizes.size < np.square(np.diff(means, axis=0)).sum(axis=0)).all()
    )


def _is_shared(codes: Codes) -> bool:
    """Return whether there are many levels, and most rows have another of theirs."""
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    n_levels, shared_rows = int(np.count_nonzero(sizes)), int(sizes[sizes > 1].sum())
    return LEAST_LEVELS <= n_levels <= codes.size / 2 and shared_rows >= LEAST_SHARED * codes.size


def level_effect(outcomes: Array, codes: Codes) -> Effect:
    """Return how far levels differ beyond chance, by the F of a one-way analysis of variance.

    It is that of the outcome that shows most; its probability is multiplied by the number of outcomes.
    """
    from scipy.stats import f as f_distribution

    present = codes >= 0
    levels = np.unique(codes[present], return_inverse=True)[1]
    outcomes, n, k = outcomes[present], int(np.count_nonzero(present)), int(levels.max(initial=-1)) + 1
    best = Effect(0.0, 1.0, 0.0)
    if k < 2 or n - k < LEAST_LEVELS:
        return best
    sizes = np.bincount(levels).astype(np.float64)
    usual = (n - float(np.square(sizes).sum()) / n) / (k - 1)
    for outcome in outcomes.T:
        spread = float(np.var(outcome))
        if spread <= 0:
            continue
        means = np.bincount(levels, weights=outcome) / sizes
        within = max(float(np.square(outcome - means[levels]).sum()) / (n - k), 1e-9 * spread)
        f = float((sizes * np.square(means - outcome.mean())).sum()) / (k - 1) / within
        chance = float(f_distribution.sf(f, k - 1, n - k)) * outcomes.shape[1]
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

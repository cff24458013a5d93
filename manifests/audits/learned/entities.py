"""Entities that nobody named: columns, pairs of them and parts of the key whose levels cross folds, targets alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from evenfold.manifests.audits.findings import Outcome
from evenfold.splitters.deployed import is_deployed

from .relatives import LEAST_EFFECT, Candidate, not_whole, together, why_not_kept
from .sample import Array, Codes, Sample
from .text import PIECES, parts_of

LEAST_LEVELS, LEAST_NUMBERS = 10, 20  # months and ratings have fewer
LEAST_SHARED, MOST_OF_ONE = 0.5, 0.5  # share of rows that have another row of their level, and that one level has
CHANCE = 1e-6  # of all candidates together
GIVES_IT_AWAY = 0.95  # of the variance: no entity, but the target in other words
MOST_PAIRED, MOST_ASKED = 12, 4  # columns whose pairs are looked at, and candidates that are asked what they share


@dataclass(frozen=True)
class Effect:
    """Return how far a column's levels differ in their target: the probability of chance and the share of variance.

    ``share`` is that between levels if each is a draw of many; ``within`` that of these rows, which few cannot have.
    """

    chance: float
    share: float
    within: float = 0.0


def unnamed_entities(sample: Sample) -> Outcome:
    """Look for levels (patients, devices, shops) that lie in several folds and share their target.

    Asked are numbers, times and texts, columns and parts of the key, and pairs of columns that say little alone. One
    counts if most rows share their level with another, a tenth of these rows are apart, .1 of the target's variance (.2
    of pairs) lies between levels (an F test with a probability of 1e-6 over all), and rows of one level agree as
    relatives do: in what a model that saw no row of their level leaves, beyond the nearest rows of other levels. An
    influence that other features tell is so no entity, nor are numbers along whose order the targets' means lie
    smoothly. O(columns x n log n).
    """
    if why_not := why_not_kept(sample):
        return why_not
    sample = sample.labelled
    candidates = [each for each in [*_candidates(sample), *_pairs(sample)] if _is_shared(each.codes)]
    effects = {each: level_effect(sample.target.outcomes, each.codes) for each in candidates}
    likely = [
        each
        for each, effect in effects.items()
        if effect.chance * len(candidates) < CHANCE and each.least <= effect.share < GIVES_IT_AWAY
    ]
    likely = sorted(likely, key=lambda each: (-effects[each].share, each.codes.max()))[:MOST_ASKED]
    return not_whole(sample, likely)


def _candidates(sample: Sample) -> Iterator[Candidate]:
    """Yield each column, each key column of several, and the parts of a text key that separators or digits set off."""
    for column in sample.columns.values():
        if column.kind == "category" or (_is_shared(column.codes) and _is_no_quantity(column.codes, sample)):
            yield Candidate(f"agree in {column.name!r}", column.codes, column.name, columns=(column,))
    spec, keys = sample.joined.manifest.spec, sample.key_columns()
    for key in keys:
        if key.name in sample.joined.columns.grouped:
            continue
        if len(keys) > 1:
            yield Candidate(f"agree in the key's column {key.name!r}", key.codes, key.name)
        for part in parts_of(key):
            quoted = spec.key_encoding is None and not is_deployed()
            example = f" (as in {part.example!r} of {key.levels[0]!r})" if quoted else ""
            made_of = f"table[{key.name!r}].str.findall(r'{PIECES}').str{part.taken}"
            group = f"{key.name}_{part.words.replace(' ', '_').removeprefix('the_')}"
            yield Candidate(f"agree in {part.words} of the key {key.name!r}{example}", part.codes, group, made_of)


def _pairs(sample: Sample) -> Iterator[Candidate]:
    """Yield pairs of columns whose levels are entities together, as a site and a number in it are."""
    few = [c for c in sample.columns.values() if not c.fractional and 1 < c.n_levels <= c.values.size / 4]
    few = [c for c in few if level_effect(sample.target.outcomes, c.codes).share < LEAST_EFFECT]
    for a, b in combinations(sorted(few, key=lambda column: -column.n_levels)[:MOST_PAIRED], 2):
        yield together((a, b), f"{a.name}_{b.name}", 2 * LEAST_EFFECT)


def _is_no_quantity(codes: Codes, sample: Sample) -> bool:
    """Return whether numbers have many values, whose order says little: squared steps are twice the variance then.

    By chance they are less by 1.65 of their standard errors in one of twenty; half as much again is no order either.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    if sizes.size < LEAST_NUMBERS:
        return False
    sums = [np.bincount(codes[codes >= 0], weights=outcome[codes >= 0]) for outcome in sample.target.outcomes.T]
    means = np.stack(sums, axis=1) / sizes[:, None]
    least = min(1.5, 2.0 - 3.3 / np.sqrt(sizes.size)) * means.var(axis=0) * sizes.size
    return bool((np.square(np.diff(means, axis=0)).sum(axis=0) > least).all())


def _is_shared(codes: Codes) -> bool:
    """Return whether there are many levels, none of most rows (as a measure's zero is), and most rows share theirs."""
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    n_levels, shared_rows = int(np.count_nonzero(sizes)), int(sizes[sizes > 1].sum())
    no_default = sizes.max() <= MOST_OF_ONE * codes.size
    return LEAST_LEVELS <= n_levels <= codes.size / 2 and shared_rows >= LEAST_SHARED * codes.size and no_default


def level_effect(outcomes: Array, codes: Codes) -> Effect:
    """Return how far levels differ beyond chance, by the F of a one-way analysis of variance.

    It is that of the outcome that shows most; its probability is multiplied by the number of outcomes.
    """
    from scipy.stats import f as f_distribution

    present = codes >= 0
    levels = (np.cumsum(np.bincount(codes[present]) > 0) - 1)[codes[present]]
    outcomes, n, k = outcomes[present], levels.size, int(levels.max(initial=-1)) + 1
    best = Effect(1.0, 0.0)
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
            best = Effect(chance, share, max(1.0 - within / spread, 0.0))
    return best

"""Features that carry rows' targets: rates over all rows, means that leave only the own row out, shifted targets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from evenfold.manifests.audits.findings import DropFeatures, Found, NotAsked, Outcome
from evenfold.manifests.tables.canonical import amount, listed, verb

from .sample import LEAST_ROWS, Array, Codes, Column, Sample
from .times import is_clock

LEAST_LEVELS = 8
TOO_WELL = 0.3  # of the scatter around the levels' mean targets that chance alone would bring
LEAST_SHARED = 0.3  # of the rows must share a level with another
LEFT_OVER = 0.2  # of the variance of the levels' means, at most
CHANCE = 1e-6
OWN_TARGET = 0.99  # within a level, how closely the feature follows the row's own target, downwards
NEIGHBOURS, EXPLAINED = 3, 0.995
MOST_ROWS = 100_000


def carried_targets(sample: Sample) -> Outcome:
    """Look for features into which targets went: those of other rows, which are on the other side of some split.

    Signs that targets made the feature. *Rates*: rows with one value of the feature (or one level of
    another column) have that value, up to a straight line, as their mean target, though chance alone would scatter
    such means around any honest feature; a warning needs less than .3 of that scatter and a chance of 1e-6. *Means
    without the own row*: inside a level the feature falls where the own target rises exactly (correlation below -.99).
    *Shifted or smoothed targets*: the targets
    of the three rows before and after, in order of the key or of a time,
    explain .995 of the feature, and the own one less. O(features x n log n) for at most 100,000 rows.
    """
    target = sample.target
    if target is None:
        return NotAsked("no target column is named")
    sample = sample.take(np.flatnonzero(target.present)[:MOST_ROWS])
    features = [column for column in sample.feature_columns() if column.kind == "number" and column.n_levels > 1]
    if sample.rows.size < LEAST_ROWS or not features:
        return NotAsked("no feature is a number")
    outcomes = sample.target.values[:, None] if target.numeric else sample.target.outcomes
    signs = {column.name: sign for column in features if (sign := _sign(column, sample, outcomes))}
    if not signs:
        return None
    shown = listed(f"{name} ({sign})" for name, sign in signs.items())
    message = (
        f"{amount(len(signs), 'feature')} {verb(len(signs), 'was', 'were')} computed with targets of tested rows: "
        f"{shown}{sample.looked_at}; compute {verb(len(signs), 'it', 'them')} from the training rows alone."
    )
    return Found(len(signs), message, {"features": signs}, DropFeatures(tuple(signs)))


def _sign(column: Column, sample: Sample, outcomes: Array) -> str | None:
    for outcome in outcomes.T:
        for codes, levels in _levels_of(column, sample) if column.fractional else ():
            ratio = rate_scatter(column.values, outcome, codes)
            if ratio is not None:
                return f"the mean target of {levels}, with {ratio:.0%} of the scatter that chance would bring"
            if _falls_with_own(column.values, outcome, codes):
                return f"the mean target of {levels} without the row's own"
        shift = _neighbours_explain(column.values, outcome, sample)
        if shift:
            return shift
    return None


def _levels_of(column: Column, sample: Sample) -> Iterator[tuple[Codes, str]]:
    yield column.codes, "the rows that share its value"
    for other in sample.columns.values():
        if other.name != column.name and LEAST_LEVELS <= other.n_levels <= column.values.size / 2:
            yield other.codes, f"the rows of one {other.name!r}"
    if sample.groups is not None:
        yield sample.groups, f"the rows of one {' or '.join(map(repr, sample.joined.columns.grouped))}"


def rate_scatter(values: Array, outcome: Array, codes: Codes) -> float | None:
    """Return the scatter of levels' mean outcomes around the feature, of that which chance alone brings.

    None unless it is below .3 with a probability of 1e-6, in at least eight levels of several rows, of values that are
    one inside each. The line through them may bend with the levels' sizes, as means that are drawn towards the overall
    mean do.
    """
    from scipy.stats import chi2

    known = (codes >= 0) & ~np.isnan(values)
    levels = np.unique(codes[known], return_inverse=True)[1]
    x, y = values[known], outcome[known]
    sizes = np.bincount(levels, minlength=1).astype(np.float64)
    several = sizes > 1
    if np.count_nonzero(several) < LEAST_LEVELS or sizes[several].sum() < LEAST_SHARED * values.size:
        return None
    means_x, means = (np.bincount(levels, weights=side) / sizes for side in (x, y))
    inner = float(np.square(x - means_x[levels]).mean())
    if inner > 1e-6 * float(np.var(x)) or np.ptp(means_x[several]) == 0:
        return None
    free = float((sizes - 1.0).sum())
    within = float(np.square(y - means[levels]).sum()) / free
    # Where every level has one outcome nothing is scattered by chance, and nothing can be concluded.
    if within <= 1e-9 * float(np.var(y)):
        return None
    m, v, w = sizes[several], means_x[several], np.sqrt(sizes[several])
    # A line, and what bends it with 1 / rows; these four terms are the 4 that is taken off the levels below.
    terms = np.column_stack([np.ones_like(v), v, 1.0 / m, v / m])
    fitted = terms @ np.linalg.lstsq(terms * w[:, None], means[several] * w, rcond=None)[0]
    scatter = float((m * np.square(means[several] - fitted)).sum()) / within
    # Levels of one outcome each scatter less than others by chance, and count as much less.
    own = np.bincount(levels, weights=np.square(y - means[levels]))[several] / (m - 1.0) / within
    freedom = (m.size - 4) * min(float(own.mean()), 1.0)
    # Means that are all alike are close to any line, and the feature then carries nothing.
    whole = float((m * np.square(means[several] - np.average(means[several], weights=m))).sum()) / within
    too_well = (
        whole > (m.size - 4) / 2.0 and freedom > 0 and scatter < TOO_WELL * freedom and scatter < LEFT_OVER * whole
    )
    return scatter / freedom if too_well and float(chi2.cdf(scatter, freedom)) < CHANCE else None


def _falls_with_own(values: Array, outcome: Array, codes: Codes) -> bool:
    """Return whether, inside the levels of several rows, the feature is the mean outcome of the other rows."""
    known = (codes >= 0) & ~np.isnan(values)
    levels = np.unique(codes[known], return_inverse=True)[1]
    sizes = np.bincount(levels, minlength=1)
    if np.count_nonzero(sizes > 1) < LEAST_LEVELS:
        return False
    x, y = values[known], outcome[known]
    others = np.maximum(sizes[levels] - 1, 1)
    # The mean target of the level's other rows: what a feature made without the own row would hold.
    rest = (np.bincount(levels, weights=y)[levels] - y) / others
    use = sizes[levels] > 1
    if np.count_nonzero(use) < LEAST_SHARED * values.size:
        return False
    inside = x[use] - (np.bincount(levels, weights=x) / sizes)[levels][use]
    moves = np.bincount(levels[use], weights=np.abs(inside)) > 1e-9 * float(np.abs(x).max() + 1e-300)
    if np.count_nonzero(moves) < LEAST_LEVELS:
        return False
    expected = rest[use] - (np.bincount(levels, weights=np.where(sizes[levels] > 1, rest, 0.0)) / sizes)[levels][use]
    scale = float(np.sqrt(np.square(inside).sum() * np.square(expected).sum()))
    return bool(scale > 0 and float((inside * expected).sum()) / scale > OWN_TARGET)


def _neighbours_explain(values: Array, outcome: Array, sample: Sample) -> str | None:
    """Say whether the targets around a row, in order of the key or of a time, make up the feature."""
    orders = {"the key": np.arange(values.size)}
    for column in sample.columns.values():
        if is_clock(column):
            orders[column.name] = np.argsort(column.values, kind="stable")
    if sample.groups is not None:
        orders = orders | {
            f"{name}, group by group": order[np.argsort(sample.groups[order], kind="stable")]
            for name, order in orders.items()
        }
    for name, order in orders.items():
        x, y = values[order], outcome[order]
        # roll() wraps round, so the rows at both ends are left out: their neighbours are from the other end.
        around = np.column_stack([np.roll(y, shift) for shift in range(-NEIGHBOURS, NEIGHBOURS + 1)])
        use = ~np.isnan(x)
        use[:NEIGHBOURS] = use[-NEIGHBOURS:] = False
        if np.count_nonzero(use) < LEAST_ROWS or np.var(x[use]) == 0:
            continue
        whole = _explained(x[use], around[use])
        own = _explained(x[use], around[use][:, NEIGHBOURS : NEIGHBOURS + 1])
        if whole >= EXPLAINED and own < EXPLAINED - 0.02:
            return f"made of the targets of the rows next to it in the order of {name}, R² {whole:.3f}"
    return None


def _explained(x: Array, terms: Array) -> float:
    design = np.column_stack([np.ones(x.size), terms])
    rest = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
    return 1.0 - float(np.square(rest).sum() / np.square(x - x.mean()).sum())

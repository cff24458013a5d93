"""Features that carry rows' targets: rates over all rows, means that leave only the own row out, shifted targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from evenfold.manifests.audits.features import correlation
from evenfold.manifests.audits.findings import DropFeatures, Found, NotAsked, Outcome
from evenfold.manifests.tables.canonical import amount, listed, verb
from evenfold.splitters import Stream
from evenfold.splitters.kernels import AUDITING
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import csr_array
from scipy.stats import binom, chi2, f as f_distribution, norm

from .sample import BLOCKS, BY_CHANCE, LEAST_ROWS, Array, Codes, Column, Sample
from .times import is_clock

LEAST_LEVELS = 8
TOO_WELL = 0.3  # of the scatter around the levels' mean targets that chance alone would bring
LEAST_SHARED = 0.3  # of the rows must share a level with another
LEFT_OVER = 0.2  # of the variance of the levels' means, at most
CHANCE = 1e-6
NEIGHBOURS, LONG, CALENDAR = 3, 12, (1, 4, 7, 12, 24, 52)
MOST_ROWS = 100_000
NOISE, ERRORS, DRAWS = 0.1, 3.0, 20
FIRST_OF_A_LEVEL, FIRST_ASKED, SIDE_BY_SIDE = 20, 1_000, 64  # rows that are asked first, and features at once
MONOTONE = 40  # of few levels all may lie in a row by chance
ALL_BUT_ONE, ALIKE, SPIKE = 0.98, 0.1, 0.55
ROUNDING = 1e-12  # of a sum of squares
# Rows' levels, in words, which features may hold rates of them, and how each outcome follows each feature inside them.
Levels = tuple[Codes, str, NDArray[Any], Array]
# An order: its name, the rows in it, the entity of each; the rows that have neighbours, and 1 and the targets of these.
Stretch = tuple[str, Codes, Codes, Codes, Array]


def carried_targets(targeted: Sample) -> Outcome:
    """Look for features into which targets went: those of other rows, which are on the other side of some split.

    Signs that targets made the feature. *Rates*: rows with one value of the feature (or one level of another column)
    have that value, up to a straight line, as their mean target, though chance alone would scatter such means around
    any honest feature; a warning needs less than .3 of that scatter and a chance of 1e-6. *Later targets*: of a number
    in order of time, within an entity, or of the key, the three targets after a row tell a third of what those before
    and its own past leave open in the feature, or two thirds of what those before do. O(features x n log n) for at most
    100,000 rows.
    """
    sample, target = targeted.labelled.take(np.arange(targeted.labelled.rows.size)[:MOST_ROWS]), targeted.target
    features = [column for column in sample.feature_columns() if column.kind == "number" and column.n_levels > 1]
    if sample.rows.size < LEAST_ROWS or not features:
        return NotAsked("no feature is a number")
    outcomes = sample.target.values[:, None] if target.numeric else sample.target.outcomes
    levels = [*_levels(sample, features, outcomes)]
    stretches = [*_stretches(sample, outcomes[:, 0])] if target.numeric else []
    pairs = ((c.name, _sign(c, i, outcomes, levels, stretches, len(features))) for i, c in enumerate(features))
    signs = {name: sign for name, sign in pairs if sign}
    if not signs:
        return None
    n, listing = len(signs), listed(f"{name} ({sign})" for name, sign in signs.items())
    cure = "the training rows alone"
    if any("later targets" in sign for sign in signs.values()):
        cure = "rows before its row alone (shift(1) of it in its entity, or by as much as it reaches ahead)"
    message = (
        f"{amount(n, 'feature')} {verb(n, 'was', 'were')} computed with targets of tested rows: {listing}"
        f"{sample.looked_at}; compute {verb(n, 'it', 'them')} from {cure}."
    )
    return Found(n, message, {"features": signs}, DropFeatures(tuple(signs)))


def _levels(sample: Sample, features: list[Column], outcomes: Array) -> Iterator[Levels]:
    """Yield what rows may share that a feature is a mean over: their value of a column, and their group."""
    values = [column.values - np.nanmean(column.values) for column in features]
    blocks = [np.stack(values[i : i + SIDE_BY_SIDE], axis=1) for i in range(0, len(values), SIDE_BY_SIDE)]
    spread = np.array([np.nanvar(column.values) for column in features])
    for c in sample.columns.values():
        if LEAST_LEVELS <= c.n_levels <= c.values.size / 2:
            yield c.codes, f"the rows of one {c.name!r}", *_inside(blocks, spread, outcomes, c.codes)
    if sample.groups.max() >= 0:
        words = f"the rows of one {' or '.join(map(repr, sample.joined.columns.grouped))}"
        yield sample.groups, words, *_inside(blocks, spread, outcomes, sample.groups)


def _sign(
    column: Column, number: int, outcomes: Array, levels: list[Levels], stretches: list[Stretch], tries: int
) -> str | None:
    own = (column.codes, "the rows that share its value", np.ones(tries), np.zeros((len(outcomes.T), tries)))
    levels = [own, *(each for each in levels if each[0] is not column.codes)]
    for i, outcome in enumerate(outcomes.T):
        for codes, words, rates, follows in levels:
            if rates[number] and (ratio := rate_scatter(column.values, outcome, codes)) is not None:
                return f"the mean target of {words}, with {ratio:.0%} of the scatter that chance would bring"
            if column.fractional and (alike := follows[i, number]) < -ALL_BUT_ONE:
                return f"the mean target of the others among {words}, correlation {alike:.3f} with the own there"
        if rows := _rows_of_their_own(column, outcome, tries):
            return f"on the target's own scale, and {rows:,} rows lie on their own target"
    return _knows_the_future(column, stretches, tries)


def _inside(blocks: list[Array], spread: Array, outcomes: Array, codes: Codes) -> tuple[NDArray[np.bool_], Array]:
    """Return which features may hold rates of these levels, and how closely each goes with its row's targets in them.

    Rates lie much closer inside a level than between levels, and means without the own row, times the others, on a
    falling line. ``blocks`` are the features, each of mean 0, side by side.
    """
    sizes = np.bincount(codes + 1)[1:]
    if sizes[sizes > 1].sum() < LEAST_ROWS:
        return np.ones(spread.size, dtype=np.bool_), np.zeros((len(outcomes.T), spread.size))
    rows = _drawn(codes, sizes)
    starts, others = np.flatnonzero(np.diff(codes[rows], prepend=-1)), sizes[codes[rows]] - 1.0
    levels = csr_array((np.ones(rows.size), np.arange(rows.size), np.append(starts, rows.size)))
    weights = np.stack([np.ones(rows.size), np.square(others)])
    first, y = others[starts, None], outcomes[rows] - outcomes.mean(axis=0)
    most = 1.5 * min(NOISE * codes.size / max(float((sizes - 1.0)[sizes > 1].sum()), 1.0), 0.5)
    scatter, follows, start = np.empty(spread.size), np.empty((len(y.T), spread.size)), 0
    x = squares = np.empty((0, 0))
    for block in blocks:
        here = slice(start, start := start + block.shape[1])
        if x.shape[1] != block.shape[1]:  # memory is taken once: taking it costs more than all the sums
            x, squares = np.empty((2, rows.size, block.shape[1]))
        np.take(block, rows, axis=0, out=x, mode="clip")
        there = ~np.isnan(x)
        there = there[:, :1] if there.all() else there  # one column stands for all
        np.copyto(x, 0.0, where=~there)
        counts, sums = levels @ there.astype(np.float64), levels @ x
        means = sums / np.maximum(counts, 1.0)
        # Sums of products around levels' means are those of all less those of the means, or else rounding.
        lost, (inner, own) = sums * means, weights @ np.square(x, out=squares)
        scatter[here] = (inner - lost.sum(axis=0)) / np.maximum((counts - 1.0).sum(axis=0), 1.0)
        x_x = own - np.square(first[:, 0]) @ lost
        for i, outcome in enumerate(y.T):
            sums_y, all_y = levels @ (outcome[:, None] * there), np.square(outcome) @ there
            y_y = all_y - (np.square(sums_y) / np.maximum(counts, 1.0)).sum(axis=0)
            x_y = (others * outcome) @ x - (first * sums_y * means).sum(axis=0)
            moving = (x_x > ROUNDING * own) & (y_y > ROUNDING * all_y)
            follows[i, here] = np.where(moving, x_y, 0.0) / np.sqrt(np.where(moving, x_x * y_y, 1.0))
    return scatter <= most * spread, follows


def _drawn(codes: Codes, sizes: Codes) -> Codes:
    """Return 1,000 rows of levels that are drawn at random and have several, 20 of one at most, level by level."""
    place = Stream(0, AUDITING, 16).permutation(sizes.size)
    total = np.cumsum(np.where(sizes > 1, np.minimum(sizes, FIRST_OF_A_LEVEL), 0)[np.argsort(place)])
    use = np.append((sizes > 1) & (place <= np.searchsorted(total, FIRST_ASKED)), False)
    rows = np.flatnonzero(use[codes])
    rows = rows[np.argsort(place[codes[rows]], kind="stable")]
    starts = np.flatnonzero(np.diff(codes[rows], prepend=-1))
    nth = np.arange(rows.size) - np.repeat(starts, np.diff(starts, append=rows.size))
    return rows[nth < FIRST_OF_A_LEVEL][:FIRST_ASKED]


def rate_scatter(values: Array, outcome: Array, codes: Codes) -> float | None:
    """Return the scatter of levels' mean outcomes around the feature, of that which chance alone brings.

    None unless it is below .3 with a probability of 1e-6, in at least eight levels of several rows. The means may
    follow the feature along a line that bends with the levels' sizes, as means that are drawn towards the overall mean
    do, or along any rising or falling one, as ranks, tiers and log odds do. Inside a level the feature may have noise;
    where it goes with the own target there, it is a feature of the row, or was computed without its fold.
    """
    present = (codes >= 0) & ~np.isnan(values)
    codes, x, y = codes[present], values[present], outcome[present]
    rows = np.bincount(codes)
    levels, sizes = (np.cumsum(rows > 0) - 1)[codes], rows[rows > 0].astype(np.float64)
    several = sizes > 1
    if np.count_nonzero(several) < LEAST_LEVELS or sizes[several].sum() < LEAST_SHARED * values.size:
        return None
    means_x, means = (np.bincount(levels, weights=side) / sizes for side in (x, y))
    inner = float(np.square(x - means_x[levels]).mean())
    if inner > NOISE * float(np.var(x)) or np.ptp(means_x[several]) == 0:
        return None
    against = correlation(x - means_x[levels], y - means[levels]) if inner > 1e-6 * float(np.var(x)) else 0.0
    if abs(against) * np.sqrt(x.size) > ERRORS:
        return None
    within = float(np.square(y - means[levels]).sum()) / float((sizes - 1.0).sum())
    # Where every level has one outcome nothing is scattered by chance, and nothing can be concluded.
    if within <= 1e-9 * float(np.var(y)):
        return None
    m, v, mean = sizes[several], means_x[several], means[several] / np.sqrt(within)
    # Levels of one outcome each scatter less than others by chance, and count as much less.
    own = np.bincount(levels, weights=np.square(y - means[levels]))[several] / (m - 1.0) / within
    chance, whole = (m.size - 4.0) * min(float(own.mean()), 1.0), _scatter(mean, np.average(mean, weights=m), m)
    # Means that are all alike are close to any line, and the feature then carries nothing.
    if whole <= (m.size - 4) / 2.0:
        return None
    for fit, least in ((_bent, 0.0), (_monotone, MONOTONE)):
        scatter = _scatter(mean, fit(v, mean, m), m)
        if scatter < min(TOO_WELL * chance, LEFT_OVER * whole):
            freedom = chance if fit is _bent else min(_monotone_scatter(v, mean, m, own), chance)
            if least < freedom and scatter < TOO_WELL * freedom and float(chi2.cdf(scatter, freedom)) < CHANCE:
                return scatter / freedom
    return None


def _scatter(means: Array, fitted: Any, m: Array) -> float:
    return float((m * np.square(means - fitted)).sum())


def _bent(v: Array, means: Array, m: Array) -> Array:
    """A line, and what bends it with 1 / rows; these are the 4 that is taken off the levels."""
    terms, w = np.column_stack([np.ones_like(v), v, 1.0 / m, v / m]), np.sqrt(m)
    return np.asarray(terms @ np.linalg.lstsq(terms * w[:, None], means * w, rcond=None)[0])


def _monotone(v: Array, means: Array, m: Array) -> Array:
    codes = np.unique(v, return_inverse=True)[1]
    weights, rises = np.bincount(codes, weights=m), bool(correlation(v, means) > 0)
    curve = isotonic_regression(np.bincount(codes, weights=m * means) / weights, weights=weights, increasing=rises)
    return np.asarray(curve.x[codes])


def _monotone_scatter(v: Array, means: Array, m: Array, own: Array) -> float:
    """Return the scatter that means of such variances have by chance around a monotone curve, if the curve is true."""
    true, stream = _monotone(v, means, m), Stream(0, AUDITING, 15)
    drawn = [true + norm.ppf(stream.uniform(m.size)) * np.sqrt(own / m) for _ in range(DRAWS)]
    return float(np.mean([_scatter(mean, _monotone(v, mean, m), m) for mean in drawn]))


def _rows_of_their_own(column: Column, outcome: Array, tries: int) -> int:
    """Return how many rows lie on their own target, where a mean of few rows with noise is on the target's scale."""
    x, y = column.values, outcome
    if not column.fractional or np.isnan(x).any() or abs(x.mean() - y.mean()) > ALIKE * y.std():
        return 0
    away, slope = np.abs(y - x) / max(float((y - x).std()), 1e-12), correlation(x, y) * y.std() / x.std()
    near, beside = away < ALIKE, (away >= 2 * ALIKE) & (away < 3 * ALIKE)
    if abs(slope - 1.0) > ALIKE or min(near.sum(), beside.sum()) < LEAST_LEVELS:
        return 0
    chance = float(binom.sf(near.sum() - 1, near.sum() + beside.sum(), SPIKE)) * tries
    # A mean of one row is as spread as the target is, and one of many rows less.
    return int(near.sum()) if chance < BY_CHANCE and x[near].std() > 1.25 * x[~near].std() else 0


def _stretches(sample: Sample, outcome: Array) -> Iterator[Stretch]:
    """Yield the orders in which targets may follow one another, with the targets around each row."""
    for name, order, entity in _orders(sample):
        y, e, sizes = outcome[order], entity[order], np.bincount(entity)
        y = y - (np.bincount(e, weights=y) / sizes)[e]
        rows = np.arange(NEIGHBOURS, y.size - NEIGHBOURS)
        rows = rows[(e[rows - NEIGHBOURS] == e[rows]) & (e[rows + NEIGHBOURS] == e[rows]) & (sizes[e[rows]] >= LONG)]
        if rows.size >= LEAST_ROWS:
            around = [y[rows - lag] for lag in (*range(NEIGHBOURS + 1), *range(-NEIGHBOURS, 0))]
            yield name, order, e, rows, np.column_stack([np.ones(rows.size), *around])


def _knows_the_future(column: Column, stretches: list[Stretch], tries: int) -> str | None:
    """Say whether later targets of an entity tell of a feature what past and present ones, and its own past, do not.

    Regressed on the targets of three rows before and the own, and on itself before; then on the three after as well.
    An honest leading indicator knows less than a third of what is open, on other entities or stretches of time. A mean
    of later targets is in its own past already; without that they may tell two thirds. Of entities of twelve rows.
    """
    for name, order, e, rows, around in stretches:
        x = column.values[order]
        x = x - (np.bincount(e, weights=np.nan_to_num(x)) / np.bincount(e))[e]
        use = np.isfinite(x[rows]) & np.isfinite(x[rows - 1])
        z, around = x[rows := rows[use]], around if use.all() else around[use]
        if rows.size < LEAST_ROWS or np.ptp(z) == 0:
            continue
        if any(np.mean(np.abs(x[lag:] - x[:-lag]) < 1e-9) > 0.8 for lag in CALENDAR if lag < x.size):
            continue  # what returns every week is known beforehand
        terms = np.column_stack([around, x[rows - 1], z])
        products, past, own = terms.T @ terms, [*range(NEIGHBOURS + 2)], around.shape[1]
        sides = e[rows] % BLOCKS if e.max() >= BLOCKS else np.arange(rows.size) * BLOCKS // rows.size
        for before, least in (([*past, own], 1 / 3), (past, 2 / 3)):
            both = [*before, *range(NEIGHBOURS + 2, own)]
            a, b = (_left(products, products, used) for used in (before, both))
            freedom = rows.size - len(both)
            chance = float(f_distribution.sf((a - b) / NEIGHBOURS / max(b / freedom, 1e-300), NEIGHBOURS, freedom))
            if chance * tries * 2 >= BY_CHANCE or a - b <= least * a:
                continue
            apart = np.zeros(2)
            for side in np.unique(sides):
                there = terms[sides == side]
                apart += [_left(products - there.T @ there, there.T @ there, used) for used in (before, both)]
            if (gain := 1.0 - apart[1] / max(apart[0], 1e-300)) > least:
                return f"later targets in the order of {name} tell {gain:.0%} of what earlier ones leave open in it"
    return None


def _orders(sample: Sample) -> Iterator[tuple[str, Codes, Codes]]:
    """Yield the orders in which targets may follow one another: by time, within an entity if need be, or by the key."""
    n, clock_name = sample.rows.size, sample.joined.columns.time
    clocks = [sample.clock(clock_name)] if clock_name else [c for c in sample.columns.values() if is_clock(c)]
    if not clock_name:
        yield "the key", np.arange(n), np.zeros(n, dtype=np.int64)
    for clock in clocks:
        entities = [("", np.zeros(n, dtype=np.int64))] if clock.n_levels > 0.99 * n else []
        entities += [(" in its group", np.maximum(sample.groups, 0))] * bool(sample.groups.max() >= 0)
        entities += [
            (f" in its {c.name!r}", np.maximum(c.codes, 0))
            for c in sample.columns.values()
            if c is not clock and not c.fractional and 2 <= c.n_levels <= n / 5
        ]
        for of_entity, codes in entities:
            codes = np.unique(codes, return_inverse=True)[1]
            together = codes * (clock.n_levels + 1) + clock.codes + 1
            if np.unique(together).size > 0.99 * n:  # one row of an entity at a time
                yield f"{clock.name!r}{of_entity}", np.lexsort((clock.codes, codes)), codes
                break


def _left(train: Array, test: Array, used: list[int]) -> float:
    """Return what least squares, learnt from the products of some rows' terms, leave of the last term of others."""
    scale = np.sqrt(np.maximum(np.diag(train)[used], 1e-300))
    inner = train[np.ix_(used, used)] / np.outer(scale, scale)
    weights = np.append(-np.linalg.lstsq(inner, train[used, -1] / scale, rcond=1e-12)[0] / scale, 1.0)
    left = weights @ test[np.ix_([*used, -1], [*used, -1])] @ weights
    return max(float(left), ROUNDING * float(test[-1, -1]))

"""Features that carry rows' targets: rates over all rows, means that leave only the own row out, shifted targets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests.tables.canonical import amount, listed, verb
from evenfold.splitters import Stream
from evenfold.splitters.numbers import AUDITING, by_appearance
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import binom, chi2, norm

from .columns import Array, Codes, Column, correlation, f_chance, level_means
from .findings import CheckOutcome, DropFeatures, Found, needed
from .sample import BLOCKS, BY_CHANCE, LEAST_ROWS, Sample
from .time_and_place import is_clock

LEAST_LEVELS = 8
TOO_WELL = 0.3  # of the scatter around the levels' mean targets that chance alone would bring
NEIGHBOURS, NOISE, ALIKE = 3, 0.1, 0.1
ROUNDING = 1e-12  # of a sum of squares
Signs = Iterator[tuple[str, str]]  # features and what gives them away


def carried_targets(sample: Sample) -> CheckOutcome:
    """Look for features into which targets went: those of other rows, which are on the other side of some split.

    *Rates*: rows with one value of the feature (or one level of another column) have that value, up to a curve, as
    their mean target, closer than chance allows. *Later targets*: in order of time, within an entity, or of the key,
    those after a row tell what those before leave open in the feature. O(features x n log n) for at most 100,000 rows.
    """
    sample = sample.labelled.take(np.arange(sample.labelled.rows.size)[:100_000])
    features = [column for column in sample.feature_columns() if column.kind == "number" and column.n_levels > 1]
    needed(sample.rows.size >= LEAST_ROWS and features, "no feature is a number")
    outcomes = sample.target.values[:, None] if sample.target.numeric else sample.target.outcomes
    pairs = [*_rates(sample, features, outcomes), *_rows_of_their_own(features, outcomes)]
    pairs += _later_targets(sample, features, outcomes[:, 0]) if sample.target.numeric else []
    first = dict(reversed(pairs))
    signs = {column.name: first[column.name] for column in features if column.name in first}
    n, listing = len(signs), listed(f"{name} ({sign})" for name, sign in signs.items())
    ahead = "rows before its row alone (shift(1) of it in its entity, or by as much as it reaches ahead)"
    cure = ahead if any("later targets" in sign for sign in signs.values()) else "the training rows alone"
    what = f"{amount(n, 'feature')} {verb(n, 'was', 'were')} computed with targets of tested rows: {listing}"
    message = f"{what}{sample.looked_at}; compute {verb(n, 'it', 'them')} from {cure}."
    return Found(n, message, {"features": signs}, DropFeatures(tuple(signs))) if signs else None


def _rates(sample: Sample, features: list[Column], outcomes: Array) -> Signs:
    """Yield features that are mean targets: of the rows of one value of theirs, of one of a column, or of a group."""
    for column in features:
        yield from _mean_target(column, outcomes, column.codes, "the rows that share its value")
    many = (c for c in sample.columns.values() if LEAST_LEVELS <= c.n_levels <= c.values.size / 2)
    groupings = {repr(column.name): column.codes for column in many}
    if sample.groups.max() >= 0:
        groupings[" or ".join(map(repr, sample.joined.columns.grouped))] = sample.groups
    spread = np.array([np.nanvar(column.values) for column in features])
    for name, codes in groupings.items():
        for column, is_close, alike in zip(features, *_inside(features, spread, outcomes, codes), strict=True):
            if is_close and column.codes is not codes:
                yield from _mean_target(column, outcomes, codes, f"the rows of one {name}")
            if column.fractional and column.codes is not codes and alike < -0.98:
                words = f"the mean target of the others among the rows of one {name}"
                yield column.name, f"{words}, correlation {alike:.3f} with the own there"


def _mean_target(column: Column, outcomes: Array, codes: Codes, words: str) -> Signs:
    for outcome in outcomes.T:
        if (ratio := _rate_scatter(column.values, outcome, codes)) is not None:
            yield column.name, f"the mean target of {words}, with {ratio:.0%} of the scatter that chance would bring"


def _inside(features: list[Column], spread: Array, outcomes: Array, codes: Codes) -> tuple[NDArray[np.bool_], Array]:
    """Return which features may hold rates of these levels, and how each goes with its row's targets in them at least.

    Rates lie closer inside a level than between levels, means without the own row on a falling line.
    """
    sizes = np.bincount(codes + 1)[1:]
    if sizes[sizes > 1].sum() < LEAST_ROWS:
        return np.ones(spread.size, dtype=np.bool_), np.zeros(spread.size)
    # 1,000 rows of levels that are drawn at random and have several, 20 of one at most, level by level.
    place, rows = Stream(0, AUDITING, 16).permutation(sizes.size), np.flatnonzero(np.append(sizes > 1, False)[codes])
    rows = rows[np.argsort(place[codes[rows]], kind="stable")]
    places = place[codes[rows]]
    rows = rows[np.arange(rows.size) - np.searchsorted(places, places) < 20][:1_000]
    level, others = codes[rows], sizes[codes[rows], None] - 1.0
    x = pd.DataFrame(np.stack([column.values[rows] for column in features], axis=1))
    x = x - x.mean()

    def inside(table: pd.DataFrame) -> Array:
        return (table - table.groupby(level).transform("mean")).fillna(0.0).to_numpy()

    within, follows = inside(x), list[Array]()
    scatter = np.square(within).sum(axis=0) / np.maximum((x.groupby(level).count() - 1.0).sum().to_numpy(), 1.0)
    own = within * others
    x_x, all_x = np.square(own).sum(axis=0), np.square(x * others).sum().to_numpy()
    for outcome in (outcomes[rows] - outcomes.mean(axis=0)).T:
        targets = inside(x * 0.0 + outcome[:, None])  # of the rows that have the feature
        y_y = np.square(targets).sum(axis=0)
        moving = (x_x > ROUNDING * all_x) & (y_y > ROUNDING * np.square(outcome).sum())
        alike = (targets * own).sum(axis=0) / np.sqrt(np.maximum(x_x * y_y, 1e-300))
        follows.append(np.where(moving, alike, 0.0))
    most = 1.5 * min(NOISE * codes.size / max(float((sizes - 1.0)[sizes > 1].sum()), 1.0), 0.5)
    return scatter <= most * spread, np.min(follows, axis=0)


def _rate_scatter(values: Array, outcome: Array, codes: Codes) -> float | None:
    """Return the scatter of levels' mean outcomes around the feature, of that which chance alone brings.

    None unless it is below .3 with a probability of 1e-6, in at least eight levels of several rows. The means may
    follow the feature along a line that bends with the levels' sizes, as means drawn towards the overall mean do, or
    along any rising or falling one, as ranks and tiers do.
    """
    present = (codes >= 0) & ~np.isnan(values)
    levels, x, y = by_appearance(codes[present]), values[present], outcome[present]
    sizes = np.bincount(levels).astype(np.float64)
    several = sizes > 1
    if np.count_nonzero(several) < LEAST_LEVELS or sizes[several].sum() < 0.3 * values.size:
        return None
    means_x, means = level_means(np.column_stack([x, y]), levels).T
    inside_x, inside_y = x - means_x[levels], y - means[levels]
    inner, spread = float(np.square(inside_x).mean()), float(np.var(x))
    if inner > NOISE * spread or np.ptp(means_x[several]) == 0:
        return None
    # Noise that goes with the own target inside a level: a feature of the row, or computed without its fold.
    if inner > 1e-6 * spread and abs(correlation(inside_x, inside_y)) * np.sqrt(x.size) > 3.0:
        return None
    within = float(np.square(inside_y).sum()) / float((sizes - 1.0).sum())
    # Where every level has one outcome nothing is scattered by chance, and nothing can be concluded.
    if within <= 1e-9 * float(np.var(y)):
        return None
    m, v, mean = sizes[several], means_x[several], means[several] / np.sqrt(within)
    # Levels of one outcome each scatter less than others by chance, and count as much less.
    own = np.bincount(levels, weights=np.square(inside_y))[several] / (m - 1.0) / within
    chance, whole = (m.size - 4.0) * min(float(own.mean()), 1.0), _scatter(mean, np.average(mean, weights=m), m)
    # Means that are all alike are close to any line, and the feature then carries nothing.
    if whole <= (m.size - 4) / 2.0:
        return None
    for fit, least in ((_bent, 0), (_monotone, 40)):  # few levels may all lie in a row by chance
        scatter = _scatter(mean, fit(v, mean, m), m)
        if scatter < min(TOO_WELL * chance, 0.2 * whole):
            freedom = chance if fit is _bent else min(_monotone_scatter(v, mean, m, own), chance)
            if least < freedom and scatter < TOO_WELL * freedom and float(chi2.cdf(scatter, freedom)) < 1e-6:
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
    drawn = [true + norm.ppf(stream.uniform(m.size)) * np.sqrt(own / m) for _ in range(20)]
    return float(np.mean([_scatter(mean, _monotone(v, mean, m), m) for mean in drawn]))


def _rows_of_their_own(features: list[Column], outcomes: Array) -> Signs:
    """Yield features on the target's scale that are means of few rows with noise: some rows lie on their own target."""
    for column, y in product(features, outcomes.T):
        x = column.values
        if not column.fractional or np.isnan(x).any() or abs(x.mean() - y.mean()) > ALIKE * y.std():
            continue
        away, slope = np.abs(y - x) / max(float((y - x).std()), 1e-12), correlation(x, y) * y.std() / x.std()
        near, beside = away < ALIKE, (away >= 2 * ALIKE) & (away < 3 * ALIKE)
        if abs(slope - 1.0) > ALIKE or min(near.sum(), beside.sum()) < LEAST_LEVELS:
            continue
        chance = float(binom.sf(near.sum() - 1, near.sum() + beside.sum(), 0.55)) * len(features)
        # A mean of one row is as spread as the target is, and one of many rows less.
        if chance < BY_CHANCE and x[near].std() > 1.25 * x[~near].std():
            yield column.name, f"on the target's own scale, and {near.sum():,} rows lie on their own target"


def _later_targets(sample: Sample, features: list[Column], outcome: Array) -> Signs:
    """Yield features of which an entity's later targets tell what past and present ones, and its own past, do not.

    An honest leading indicator knows less than a third of what is open, on other entities or stretches of time. A mean
    of later targets is in its own past already; without that they may tell two thirds. Of entities of twelve rows.
    """
    for name, order, entity in _orders(sample):
        y, e, sizes = outcome[order], entity[order], np.bincount(entity)
        y = y - (np.bincount(e, weights=y) / sizes)[e]
        rows = np.arange(NEIGHBOURS, y.size - NEIGHBOURS)
        rows = rows[(e[rows - NEIGHBOURS] == e[rows]) & (e[rows + NEIGHBOURS] == e[rows]) & (sizes[e[rows]] >= 12)]
        if rows.size < LEAST_ROWS:
            continue
        around = [np.ones(rows.size), *(y[rows - lag] for lag in (*range(NEIGHBOURS + 1), *range(-NEIGHBOURS, 0)))]
        for column in features:
            x = column.values[order]
            x = x - (np.bincount(e, weights=np.nan_to_num(x)) / sizes)[e]
            if any(np.mean(np.abs(x[lag:] - x[:-lag]) < 1e-9) > 0.8 for lag in (1, 4, 7, 12, 24, 52) if lag < x.size):
                continue  # what returns every week is known beforehand
            use = np.isfinite(x[rows]) & np.isfinite(x[rows - 1])
            terms = np.column_stack([*around, x[rows - 1], x[rows]])[use]
            if len(terms) >= LEAST_ROWS and np.ptp(terms[:, -1]) > 0:
                sides = e[rows[use]] if e.max() >= BLOCKS else np.arange(len(terms)) * BLOCKS // len(terms)
                if gain := _told_ahead(terms, sides % BLOCKS, 2 * len(features)):
                    what = f"later targets in the order of {name} tell {gain:.0%} of what earlier ones leave open in it"
                    yield column.name, what


def _told_ahead(terms: Array, sides: Codes, tries: int) -> float:
    """Return the share of what earlier terms leave of the last one that later targets tell, on other sides; 0 if few.

    ``terms``: 1, the own target and three before, three after, the last one a row before, and itself.
    """
    products, past, own = terms.T @ terms, [*range(NEIGHBOURS + 2)], terms.shape[1] - 2
    for before, least in (([*past, own], 1 / 3), (past, 2 / 3)):
        both = [*before, *range(NEIGHBOURS + 2, own)]
        a, b = (_left(products, products, used) for used in (before, both))
        if f_chance(a, b, NEIGHBOURS, len(terms) - len(both)) * tries >= BY_CHANCE or a - b <= least * a:
            continue
        apart = np.zeros(2)
        for side in np.unique(sides):
            there = terms[sides == side]
            apart += [_left(products - there.T @ there, there.T @ there, used) for used in (before, both)]
        if (gain := 1.0 - float(apart[1]) / max(float(apart[0]), 1e-300)) > least:
            return gain
    return 0.0


def _orders(sample: Sample) -> Iterator[tuple[str, Codes, Codes]]:
    """Yield the orders in which targets may follow one another: by time, within an entity if need be, or by the key."""
    n, clock_name = sample.rows.size, sample.joined.columns.time
    clocks = [sample.clock(clock_name)] if clock_name else [c for c in sample.columns.values() if is_clock(c)]
    if not clock_name:
        yield "the key", np.arange(n), np.zeros(n, dtype=np.int64)
    for clock in clocks:
        entities = {"": np.zeros(n, dtype=np.int64)} if clock.n_levels > 0.99 * n else {}
        entities |= {" in its group": sample.groups} if sample.groups.max() >= 0 else {}
        others = (c for c in sample.columns.values() if c is not clock and not c.fractional)
        entities |= {f" in its {c.name!r}": c.codes for c in others if 2 <= c.n_levels <= n / 5}
        for of_entity, of_row in entities.items():
            codes = np.unique(np.maximum(of_row, 0), return_inverse=True)[1]
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

"""Rows that repeat one another on both sides of a split: exactly, re-entered, rounded, measured again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.manifests.joined import Joined
from evenfold.manifests.tables.canonical import amount, listed, verb
from evenfold.splitters import Stream
from evenfold.splitters.kernels import joined_by
from evenfold.splitters.numbers import AUDITING, by_appearance
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import binom

from .columns import Array, Codes, Column, column_of, count_pairs, several, target_of
from .findings import CheckOutcome, Found, KeepTogether, needed
from .sample import BY_CHANCE, Sample, canonical_features, crossings

CURE = "drop the repeats, or keep them together as a group"
MOST_SAMPLED = 200_000
LEAST_SHARE = 0.003
NEIGHBOURS = 6  # the distance to the sixth nearest row is what is usual around a row
LEAST_COLUMNS, PROJECTED = 3, 6
MOST_SEARCHED = 20_000  # rows that are searched in up to 16 dimensions


@dataclass(frozen=True, eq=False)
class Features:
    """One 64-bit hash of each row's features, and the features of at most 200,000 rows drawn at random.

    Any two of n rows have one hash by chance with a probability of n^2 / 2^65: 0.03 for a thousand million.
    """

    joined: Joined
    hashes: NDArray[np.uint64]
    sample: pa.Table


def read_features(joined: Joined, names: list[str]) -> Features:
    """Return the hashes and the sample of features, in one pass with the memory of a block beside them."""
    rows = np.sort(Stream(0).permutation(joined.n)[:MOST_SAMPLED])
    hashes, blocks = np.empty(joined.n, dtype=np.uint64), []
    for here, block, inside in joined.source.blocks(names, rows):
        table = canonical_features(block, joined)
        hashes[here] = row_hashes(table)
        blocks.append(table.take(inside))
    return Features(joined, hashes, pa.concat_tables(blocks).combine_chunks())


def row_hashes(table: pa.Table) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row of a canonical table; missing values are equal to one another."""
    # Whole numbers stay whole beside a gap: as floats they would have another hash than in a block without one.
    whole = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = table.to_pandas(types_mapper=whole.get, date_as_object=False)
    return np.asarray(pd.util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def duplicate_rows(features: Features) -> CheckOutcome:
    """Look for rows whose features stand on the other side of a split too, target and key aside.

    Rows without any value repeat nothing. Repeats whose targets agree no more than those of any rows (of a number by
    tenths) flatter no score, and are a note; targets that agree less were mixed up.
    """
    joined, units = features.joined, several(by_appearance(features.hashes))
    nothing = pa.table({field.name: pa.nulls(1, field.type) for field in features.sample.schema})
    units[features.hashes == row_hashes(nothing)[0]] = -1
    n, places, where_they_are = crossings(joined, units)
    if not n:
        return None
    names, share = features.sample.column_names, n / joined.n
    have, figures = f"{amount(n, 'row')} ({share:.1%}) {verb(n, 'has', 'have')}", {"share": share, "folds": places}
    if _happen_by_chance([column_of(name, features.sample.column(name)) for name in names], features.hashes):
        why = "as many pairs of rows differ in a single feature, so features of so few values repeat by chance"
        return Found(0, f"{have} the features of another; {why}.", figures)
    what = f"{have} exactly the features of a row on the other side of a split ({listed(names, most=4)})"
    # So small a share of the rows costs little.
    harmless = joined.columns.target is not None and (share < 0.02 or not _targets_are_related(joined, units))
    return Found(n, f"{what}, in {where_they_are}; {CURE}.", figures, KeepTogether(units), harmless)


def _targets_are_related(joined: Joined, units: NDArray[np.int64]) -> bool:
    """Return whether the targets of rows of one unit are alike more often, or less, than chance has it."""
    name = str(joined.columns.target)
    target = target_of(name, joined.column(name))
    codes = np.floor(np.nan_to_num(target.outcomes[:, 0]) * 10) if target.numeric else target.values
    rows = np.flatnonzero((units >= 0) & target.present)
    rows = rows[np.argsort(units[rows], kind="stable")]
    pairs = units[rows[:-1]] == units[rows[1:]]
    counts = np.unique(codes[target.present], return_counts=True)[1]
    alike = np.count_nonzero(pairs & (codes[rows[:-1]] == codes[rows[1:]]))
    usual = binom(np.count_nonzero(pairs), np.square(counts / counts.sum()).sum())
    return bool(2.0 * min(usual.sf(alike - 1), usual.cdf(alike)) < BY_CHANCE)


def near_duplicates(sample: Sample) -> CheckOutcome:
    """Look for rows that are nearly another row on the other side of a split, target and key aside.

    By the ratio of the distances to the nearest and the sixth nearest row (Facco et al. 2017, Estimating the intrinsic
    dimension of datasets by a minimal neighborhood information). O(n log n): 2,000 rows are asked first.
    """
    columns = [column for column in sample.feature_columns() if column.n_levels > 1]
    enough = sum(map(_is_fine, columns)) >= LEAST_COLUMNS
    needed(enough, f"fewer than {LEAST_COLUMNS} numbers are fine enough to compare")
    pairs, n = _nearest_pairs(columns), sample.rows.size
    units = sample.units(np.where(np.isin(np.arange(n), pairs), joined_by(*pairs, n), -1))  # whom a chain joins is one
    apart, places, where = crossings(sample.joined, units)
    if apart < max(LEAST_SHARE * n, 6):
        return None
    what = f"{apart:,} rows ({apart / n:.1%}) nearly repeat a row on the other side of a split: they are much nearer to"
    message = f"{what} it than is usual around them, in {where}{sample.looked_at}; {CURE}."
    return Found(apart, message, {"folds": places}, KeepTogether(units))


def _is_fine(column: Column) -> bool:
    """Return whether a number has so many values that equal or close ones are no accident of its units."""
    return column.kind != "category" and column.n_levels >= max(30, min(column.values.size // 10, 300))


def _happen_by_chance(columns: list[Column], hashes: NDArray[np.uint64]) -> bool:
    """Return whether equal rows are what columns of so few values bring forth.

    Then at least as many pairs of rows differ in exactly one column as in none, or one combination of coarse values is
    that of a hundredth of the rows. Of one column nothing can be said. The columns may hold some of the rows, in which
    no equal pair may be left, so these are counted in the ``hashes`` of all, and the others in proportion.
    """
    if len(columns) == 1:
        return True
    # Pseudo-random numbers, the same for equal values.
    own_hashes = np.stack([Stream(0, AUDITING, 6, i).raw(c.n_levels + 1)[c.codes] for i, c in enumerate(columns)])
    total = own_hashes.sum(axis=0, dtype=np.uint64)
    if not any(map(_is_fine, columns)) and np.unique(total, return_counts=True)[1].max() >= 0.01 * total.size:
        return True
    equal = count_pairs(total)
    # Pairs that are equal without a column: those that differ in it alone, and the equal ones again.
    differ = sum(count_pairs(total - own) - equal for own in own_hashes)
    return bool(differ * (hashes.size / total.size) ** 2 >= count_pairs(hashes))


def _nearest_pairs(columns: list[Column]) -> tuple[Codes, Codes]:
    """Return the pairs of rows that are nearer to each other than chance puts rows of such a density."""
    axes: list[Array] = []
    for i, column in enumerate(columns):
        if column.kind != "category" and column.n_levels >= 10:  # fewer numbers are compared as categories are
            axes += _ranked(column)
        elif column.kind != "category" or column.n_levels <= column.values.size / 3:  # two levels lie about 1/2 apart
            places = Stream(0, AUDITING, 7, i).uniform(2 * (column.n_levels + 1)).reshape(-1, 2)
            axes.append(places[column.codes] * 0.9)
    seen = space = np.column_stack(axes)
    rows, dimensions = space.shape
    if dimensions > (16 if rows <= MOST_SEARCHED else PROJECTED):
        signs = 1.0 - 2.0 * Stream(0, AUDITING, 8).below(2, dimensions * PROJECTED)
        seen = space @ signs.reshape(dimensions, PROJECTED)
    tree, every = cKDTree(seen), np.arange(rows)
    some = np.sort(Stream(0, AUDITING, 5).permutation(len(space))[:2_000])
    _, near, limit = _twins(space, tree, some)
    if some.size < rows and np.count_nonzero(near > limit) < 2:
        return every[:0], every[:0]
    nearest, near, _ = _twins(space, tree, every)
    twins = every[near > limit]
    return twins, nearest[twins]


def _twins(space: Array, tree: Any, rows: Codes) -> tuple[Codes, Array, float]:
    """Return the nearest row of each, how much nearer than usual it is, as a logarithm, and what chance allows."""
    # One for the row itself and two for rows that are equal to it: none of these counts as near.
    _, row = tree.query(tree.data[rows], k=min(NEIGHBOURS + 2, len(space) - 1) + 1)
    distance = np.stack([np.sqrt(np.square(space[rows] - space[near]).sum(axis=1)) for near in row.T], axis=1)
    distance[(row == rows[:, None]) | (distance <= 1e-12)] = np.inf  # equal rows are another check's
    order = np.argsort(distance, axis=1, kind="stable")[:, :NEIGHBOURS]
    ordered, nearest = np.take_along_axis(distance, order, axis=1), row[np.arange(rows.size), order[:, 0]]
    first, usual = np.where(np.isfinite(ordered), ordered, 0.0)[:, [0, -1]].T
    fit = (usual > 0) & (first > 0)
    near = np.full(rows.size, -np.inf)
    near[fit] = np.log(usual[fit] / first[fit])
    if np.count_nonzero(fit) < 100:
        return nearest, near, np.inf
    # The largest of five exponential numbers of a rate has its median at rate * t = 2.045, which copies hardly move.
    rate = -np.log(1.0 - 0.5 ** (1.0 / (NEIGHBOURS - 1))) / max(float(np.median(near[fit])), 1e-9)
    # Half as far again, in the logarithm of distance, as chance takes a twentieth of the least share that is reported.
    return nearest, near, 1.5 * float(np.log((NEIGHBOURS - 1) / (0.05 * LEAST_SHARE))) / rate


def _ranked(column: Column) -> list[Array]:
    """Return the ranks of a number, those between every sixteenth mostly by value, and that some are missing."""
    # Ranks alone put each row a whole rank at least from its copy, and values alone heap numbers below an enormous one.
    missing, ranks = column.codes < 0, np.full(column.values.size, 0.5)
    codes = column.codes[~missing]
    ends, values = np.cumsum(np.bincount(codes)), np.empty(column.n_levels)
    values[codes] = column.values[~missing]
    places = (np.diff(ends, prepend=0) / -2.0 + ends) / codes.size  # of each level, as ``ranks_of`` has them
    knots = np.unique(np.searchsorted(ends, np.append(np.arange(0, codes.size, 16), codes.size - 1), side="right"))
    between = 0.8 * np.interp(values, values[knots], places[knots]) + 0.2 * places
    ranks[~missing] = between[codes]
    return [ranks] + ([0.5 * missing.astype(np.float64)] if missing.any() else [])

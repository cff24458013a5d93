"""Checks of single features: one that names rows, or one that gives the target away."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.joined import Joined
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.state import is_numeric_target
from evenfold.manifests.tables.canonical import amount, canonical_table, listed, require_columns, to_numpy, verb
from evenfold.manifests.tables.read import blocks_of, schema_of
from evenfold.splitters import Stream
from evenfold.splitters.kernels.order import stable_order
from numpy.typing import NDArray

from .findings import DropFeatures, Found, NotAsked, Outcome

MOST_SAMPLED = 200_000
_ODD, _MISSING = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, eq=False)
class Features:
    """One 64-bit hash of each row's features, and the features of at most 200,000 rows drawn at random.

    Two rows with other features have the same hash with a probability of n^2 / 2^65 for any pair of n rows: 0.03 for
    a thousand million rows.
    """

    joined: Joined
    hashes: NDArray[np.uint64]
    rows: NDArray[np.int64]
    sample: pa.Table

    @cached_property
    def target(self) -> Target:
        """The named target of the drawn rows."""
        return Target.of(self.joined.column(str(self.joined.columns.target)).take(pa.array(self.rows)))

    @cached_property
    def copies(self) -> dict[str, float]:
        """The features that order the rows as the target does, and how nearly."""
        likeness = {name: self.target.likeness(self.sample.column(name)) for name in self.sample.column_names}
        return {name: value for name, value in likeness.items() if value >= TARGET_LIKE}

    @property
    def looked_at(self) -> str:
        """A remark for sentences where not all rows are in the sample."""
        few = self.rows.size < self.hashes.size
        return f" (in {self.rows.size:,} of {self.hashes.size:,} rows, drawn at random)" if few else ""


def feature_names(joined: Joined, features: Sequence[str] | None, exclude: Collection[str]) -> list[str]:
    """Return the feature columns: as given, or every number, truth value and category that plays no other part.

    That is what a model of this project learns from unless told otherwise. Raises SplitError for a name that is no
    column.
    """
    schema = schema_of(joined.source)
    require_columns([*(features or []), *exclude], schema.names)
    if features is not None:
        return [name for name in features if name not in exclude]
    taken = {*joined.columns.roles(), *joined.manifest.spec.columns.roles(), *exclude}
    return [field.name for field in schema if field.name not in taken and _is_feature(field.type)]


def are_all_columns(features: Sequence[str], spec: SplitSpec, source: Any) -> bool:
    """Return whether ``features`` are every column without a role, as features are by default, in the same order.

    An audit of them is then the audit that names none: where text or times stand beside them, it looks at more.
    """
    fields = [field for field in schema_of(source) if field.name not in spec.columns.roles()]
    return [field.name for field in fields] == list(features) and all(_is_feature(field.type) for field in fields)


def _is_feature(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_dictionary)
    return any(test(kind) for test in tests)


def in_floats(block: pa.Table) -> pa.Table:
    """Return features with the nearest float of each decimal and of each unsigned integer of 64 bits."""
    for i, field in enumerate(block.schema):
        if pa.types.is_decimal(field.type) or pa.types.is_uint64(field.type):
            block = block.set_column(i, field.name, block.column(i).cast(pa.float64(), safe=False))
    return block


def read_features(joined: Joined, names: list[str]) -> Features:
    """Return the hashes and the sample of features, in one pass with the memory of a block beside them."""
    rows = np.sort(Stream(0).permutation(joined.n)[:MOST_SAMPLED])
    hashes, blocks, start = np.empty(joined.n, dtype=np.uint64), [], 0
    for block in blocks_of(joined.source, names):
        table = canonical_table(in_floats(block), names, joined.manifest.types)
        stop = start + table.num_rows
        hashes[start:stop] = row_hashes(table)
        # Both ascend, so the sampled rows of a block are one stretch.
        inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]
        blocks.append(table.take(inside - start))
        start = stop
    return Features(joined, hashes, rows, pa.concat_tables(blocks).combine_chunks())


def row_hashes(table: pa.Table) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row of a canonical table; missing values are equal to one another."""
    total = np.zeros(table.num_rows, dtype=np.uint64)
    for column in table.columns:
        # In turn, not summed up: two columns that change places make another hash.
        total *= _ODD
        total ^= _hashes(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))
        total ^= total >> np.uint64(32)
    return total


def hash_of_nothing(table: pa.Table) -> np.uint64:
    """Return the hash of a row in which every value is missing."""
    empty = pa.table({field.name: pa.nulls(1, field.type) for field in table.schema})
    return np.uint64(row_hashes(empty)[0])


def _hashes(array: pa.Array) -> NDArray[np.uint64]:
    # Not hash_pandas_object of a frame: a block with a gap would hold its whole numbers as floats, and hash as those.
    missing = pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_large_string(array.type):
        encoded = array.fill_null("").dictionary_encode()
        values = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False), dtype=object)
        hashes = pd.util.hash_array(values, categorize=False)[encoded.indices.to_numpy()]
    elif pa.types.is_floating(array.type):
        hashes = pd.util.hash_array(array.fill_null(0.0).to_numpy(zero_copy_only=False))
    else:
        narrow = pa.types.is_boolean(array.type) or pa.types.is_date32(array.type)
        whole = (array.cast(pa.int32()) if narrow else array.view(pa.int64())).fill_null(0)
        hashes = pd.util.hash_array(whole.to_numpy(zero_copy_only=False).astype(np.int64))
    return np.where(missing, _MISSING, hashes)


ID_LIKE, TARGET_LIKE = 0.99, 0.999
LEAST_ROWS = 50
MOST_CLASSES = 10
EXPECTED_REPEATS, LONG_NUMBERS = 10, 10**9
ROWS_A_VALUE = 5  # a category that stands in fewer rows follows the target by chance


def id_like_features(features: Features) -> Outcome:
    """Look for features, floats aside, of which nearly every row has its own value. All rows are counted.

    Whole numbers count where chance would repeat them: numbers in a narrow range, or of ten digits.
    """
    joined = features.joined
    if joined.n < LEAST_ROWS:
        return NotAsked(f"{joined.n} rows are too few to tell a name from a number")
    sample = features.sample
    likely = [name for name in sample.column_names if _distinct(sample.column(name)) >= ID_LIKE]
    shares = {name: _distinct(joined.column(name)) for name in likely}
    alike = {name: share for name, share in shares.items() if share >= ID_LIKE and _numbers_rows(joined.column(name))}
    if not alike:
        return None
    listing = listed(f"{name} ({share:.1%} distinct)" for name, share in alike.items())
    sentence = f"{amount(len(alike), 'feature')} {verb(len(alike), 'names', 'name')} rows: {listing}"
    them = verb(len(alike), "it", "them")
    message = f"{sentence}; leave {them} out, or use {them} as the key."
    return Found(len(alike), message, {"features": alike}, DropFeatures(tuple(alike)))


def _numbers_rows(column: pa.ChunkedArray) -> bool:
    """Return whether so few repeats are no accident: not of whole numbers in a wide range, as populations are.

    n numbers drawn from a range of R repeat one another about n^2 / 2R times.
    """
    if not pa.types.is_integer(column.type):
        return True
    least, most = pc.min_max(column).as_py().values()
    return bool(least >= LONG_NUMBERS or len(column) ** 2 >= 2 * EXPECTED_REPEATS * (most - least + 1))


def _distinct(column: pa.ChunkedArray) -> float:
    if pa.types.is_floating(column.type):
        return 0.0
    return float(pc.count_distinct(column).as_py()) / len(column)


def target_like_features(features: Features) -> Outcome:
    """Look for features that order the rows as the target does: |rank correlation| or AUC of at least 0.999.

    Of several classes the AUC is the mean over all pairs of the ten largest classes (Hand and Till, 2001, A simple
    generalisation of the area under the ROC curve). A category stands for the mean rank of the target of its other
    rows, the own row left out, so that a level of few rows follows nothing by chance; levels of one row tell nothing.
    That a value is missing counts as a feature of its own.
    """
    name = features.joined.columns.target
    if name is None:
        return NotAsked("no target column is named")
    target, n_present = features.target, int(np.count_nonzero(features.target.present))
    if n_present < LEAST_ROWS:
        return NotAsked(f"{n_present} rows with a target are too few to tell a copy of it from chance")
    alike = features.copies
    if not alike:
        return None
    listing = listed(f"{feature} ({target.measure} {value:.4f})" for feature, value in alike.items())
    sentence = f"{amount(len(alike), 'feature')} all but {verb(len(alike), 'gives', 'give')} {name!r} away: {listing}"
    they = verb(len(alike), "it is", "they are")
    remedy = f"leave {verb(len(alike), 'it', 'them')} out unless {they} known before the target is"
    return Found(
        len(alike), f"{sentence}{features.looked_at}; {remedy}.", {"features": alike}, DropFeatures(tuple(alike))
    )


class Target:
    """The target of the sampled rows, and how like it a feature is. Rows without a target are left out."""

    def __init__(self, ranks: NDArray[np.float64], classes: NDArray[np.int64] | None, present: NDArray[np.bool_]):
        self.ranks, self.classes, self.present = ranks, classes, present

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Target:
        """Return the target that a canonical column holds: a number, or classes by size."""
        if is_numeric_target(column):
            values = to_numpy(column).astype(np.float64)
            return cls(ranks_of(values), None, ~np.isnan(values))
        encoded = column.combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        sizes = np.bincount(codes[codes >= 0], minlength=1)
        by_size = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
        classes = np.where(codes >= 0, by_size[codes], -1)
        return cls(classes.astype(np.float64), classes, (classes >= 0) & (classes < MOST_CLASSES))

    @property
    def measure(self) -> str:
        """What likeness is called."""
        return "|rank correlation|" if self.classes is None else "AUC"

    def likeness(self, feature: pa.ChunkedArray) -> float:
        """Return how like the target a feature, or its being missing, is: 0 to 1."""
        missing = pc.is_null(feature, nan_is_null=True).to_numpy()
        use = self.present & ~missing
        best = 0.0
        if np.count_nonzero(use) >= LEAST_ROWS:
            category = pa.types.is_large_string(feature.type)
            best = self._of_levels(feature, use) if category else self._of(_numbers(feature), use)
        some = min(np.count_nonzero(missing), np.count_nonzero(~missing)) >= LEAST_ROWS
        return max(best, self._of(missing.astype(np.float64), self.present)) if some else best

    def _of(self, numbers: NDArray[np.float64], use: NDArray[np.bool_]) -> float:
        if self.classes is None:
            return abs(correlation(ranks_of(numbers[use]), ranks_of(self.ranks[use])))
        return mean_auc(numbers[use], self.classes[use])

    def _of_levels(self, feature: pa.ChunkedArray, use: NDArray[np.bool_]) -> float:
        encoded = feature.combine_chunks().dictionary_encode()
        levels = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)[use]
        rows = np.bincount(levels, minlength=len(encoded.dictionary))
        several = rows[levels] > 1
        if levels.size < ROWS_A_VALUE * rows.size or np.count_nonzero(several) < LEAST_ROWS:
            return 0.0
        sums = np.bincount(levels, weights=self.ranks[use])
        levels, ranks = levels[several], self.ranks[use][several]
        others = (sums[levels] - ranks) / (rows[levels] - 1)
        # The higher the own rank, the lower is what the others of the level are left with. So only what goes up with
        # the target counts: of sets with one case each, the others' mean tells the case, turned round.
        if self.classes is None:
            return max(correlation(ranks_of(others), ranks_of(ranks)), 0.0)
        return mean_auc(others, self.classes[use][several], levels)


def _numbers(feature: pa.ChunkedArray) -> NDArray[np.float64]:
    if pa.types.is_date32(feature.type):
        feature = feature.cast(pa.int32())
    elif pa.types.is_timestamp(feature.type):
        feature = feature.cast(pa.int64())
    return to_numpy(feature.fill_null(False) if pa.types.is_boolean(feature.type) else feature).astype(np.float64)


def ranks_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value, equal values at the middle of theirs; NaN where one is missing."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, nan_policy="omit")) - 0.5


def correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return how closely two columns follow one straight line, -1 to 1; 0 where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def mean_auc(
    numbers: NDArray[np.float64], classes: NDArray[np.int64], levels: NDArray[np.int64] | None = None
) -> float:
    """Return the mean over all pairs of classes of the AUC with which ``numbers`` tell the two apart, 0.5 to 1.

    Where the numbers are what the others of a row's level come to, for classes numbered from 0, higher numbers speak
    for the class of the higher number, 0 to 1; two rows of one level are a tie.
    """
    if np.unique(classes).size < 2:
        return 0.0
    order = stable_order(numbers)
    ranked = numbers[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), numbers.size - 1)
    present = np.unique(classes)
    below = np.stack([np.cumsum(classes[order] == level)[last] for level in present]).astype(np.float64)
    held = np.zeros((present.size, 1))
    if levels is not None:
        held = np.stack([np.bincount(levels[classes == level], minlength=levels.max() + 1) for level in present])
    areas: list[Any] = []
    for i in range(present.size):
        step = np.diff(below[i], prepend=0.0)
        for j in range(i):
            # Of the rows of class i at each value: all of class j below it, and half of those at it.
            wins = (step * (np.append(0.0, below[j][:-1]) + below[j]) / 2.0).sum()
            # In one level the row of the higher class is left with the lower number: all are lost, and half is due.
            wins = (wins + float(held[i] @ held[j]) / 2.0) / (below[i][-1] * below[j][-1])
            areas.append(max(wins, 1.0 - wins) if levels is None else wins)
    return float(np.mean(areas)) if areas else 0.0

"""Features that are compared row by row, those that name rows, and the rows that cross a split."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.joined import Joined
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.tables.canonical import amount, canonical_table, listed, require_columns, verb
from evenfold.splitters import Stream
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
    sample: pa.Table


def feature_names(joined: Joined, features: Sequence[str] | None, exclude: Collection[str]) -> list[str]:
    """Return the feature columns: as given, or every number, truth value and category that plays no other part.

    That is what a model of this project learns from unless told otherwise. Raises SplitError for a name that is no
    column.
    """
    schema = joined.source.schema
    require_columns([*(features or []), *exclude], schema.names)
    if features is not None:
        return [name for name in features if name not in exclude]
    taken = {*joined.columns.roles(), *joined.manifest.spec.columns.roles(), *exclude}
    return [field.name for field in schema if field.name not in taken and _is_feature(field.type)]


def are_all_columns(features: Sequence[str], spec: SplitSpec, schema: pa.Schema) -> bool:
    """Return whether ``features`` are every column without a role, as features are by default, in the same order.

    An audit of them is then the audit that names none: where text or times stand beside them, it looks at more.
    """
    fields = [field for field in schema if field.name not in spec.columns.roles()]
    return [field.name for field in fields] == list(features) and all(_is_feature(field.type) for field in fields)


def _is_feature(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


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
    for block in joined.source.batches(names):
        table = canonical_table(in_floats(block), names, joined.manifest.types)
        stop = start + table.num_rows
        hashes[start:stop] = row_hashes(table)
        # Both ascend, so the sampled rows of a block are one stretch.
        inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]
        blocks.append(table.take(inside - start))
        start = stop
    return Features(joined, hashes, pa.concat_tables(blocks).combine_chunks())


def row_hashes(table: pa.Table) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row of a canonical table; missing values are equal to one another."""
    total = np.zeros(table.num_rows, dtype=np.uint64)
    for column in table.columns:
        # In turn, not summed up: two columns that change places make another hash.
        total *= _ODD
        total ^= _hashes(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))
        total ^= total >> np.uint64(32)
    return total


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


ID_LIKE = 0.99
LEAST_ROWS = 50
EXPECTED_REPEATS, LONG_NUMBERS = 10, 10**9


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
    n, listing = len(alike), listed(f"{name} ({share:.1%} distinct)" for name, share in alike.items())
    sentence, them = f"{amount(n, 'feature')} {verb(n, 'names', 'name')} rows: {listing}", verb(n, "it", "them")
    message = f"{sentence}; leave {them} out, or use {them} as the key."
    return Found(n, message, {"features": alike}, DropFeatures(tuple(alike))) if alike else None


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


def ranks_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value, equal values at the middle of theirs; NaN where one is missing."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, nan_policy="omit")) - 0.5


def correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return how closely two columns follow one straight line, -1 to 1; 0 where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def where(places: Collection[str]) -> str:
    """Return in words where rows are, of the names of folds, splits and parts."""
    numbers, others = dict[str, list[str]](), []
    for place in places:
        noun, _, number = place.rpartition(" ")
        if noun and number.isdigit():
            numbers.setdefault(noun, []).append(number)
        else:
            others.append(place)
    listing = [f"{noun}{'s' if len(of) > 1 else ''} {listed(of, most=8)}" for noun, of in numbers.items()]
    return listed([*listing, *others])


def crossings(joined: Joined, units: NDArray[np.int64]) -> tuple[int, dict[str, int], str]:
    """Return how many rows cross, in each place and in words, for ``units`` that number what belongs together (or -1).

    Of labels two rows cross where their codes differ and both are trained on, tested or locked; of draws and pairs
    where one is in train and the other in test of the same split, or one is locked and the other is not.
    O(n x repeats), or O(n x splits).
    """
    rows, places = joined.crossing(units)
    return int(np.count_nonzero(rows)), places, where(places) + joined.looked_at

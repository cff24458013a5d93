"""Features that are compared row by row, those that name rows, and the rows that cross a split."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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

from .findings import DropFeatures, Found, Outcome, needed

MOST_SAMPLED = 200_000


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
    require_columns([*(features or []), *exclude], joined.source.schema.names)
    if features is not None:
        return [name for name in features if name not in exclude]
    return [field.name for field in columns_without_role(joined, exclude) if _is_feature(field.type)]


def columns_without_role(joined: Joined, exclude: Collection[str]) -> list[pa.Field]:
    """Return the columns that play no part, neither in the split nor in what is asked about it."""
    taken = {*joined.columns.roles(), *joined.manifest.spec.columns.roles(), *exclude}
    return [field for field in joined.source.schema if field.name not in taken]


def are_all_columns(features: Sequence[str], spec: SplitSpec, schema: pa.Schema) -> bool:
    """Return whether ``features`` are every column without a role, as features are by default, in the same order.

    An audit of them is then the audit that names none: where text or times stand beside them, it looks at more.
    """
    fields = [field for field in schema if field.name not in spec.columns.roles()]
    return [field.name for field in fields] == list(features) and all(_is_feature(field.type) for field in fields)


def _is_feature(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


def canonical_features(block: pa.Table, joined: Joined) -> pa.Table:
    """Return a block in canonical types, with the nearest float of each decimal and of each unsigned 64-bit integer."""
    for i, field in enumerate(block.schema):
        if pa.types.is_decimal(field.type) or pa.types.is_uint64(field.type):
            block = block.set_column(i, field.name, block.column(i).cast(pa.float64(), safe=False))
    return canonical_table(block, block.column_names, joined.manifest.types)


def blocks_and_rows(
    joined: Joined, names: list[str], rows: NDArray[np.int64]
) -> Iterator[tuple[slice, pa.Table, NDArray[np.int64]]]:
    """Yield where each block of the data lies, the block, and the places in it of those ascending ``rows`` it holds."""
    start = 0
    for block in joined.source.batches(names):
        here = slice(start, start := start + block.num_rows)
        inside = rows[np.searchsorted(rows, here.start) : np.searchsorted(rows, here.stop)]
        yield here, block, inside - here.start


def read_features(joined: Joined, names: list[str]) -> Features:
    """Return the hashes and the sample of features, in one pass with the memory of a block beside them."""
    rows = np.sort(Stream(0).permutation(joined.n)[:MOST_SAMPLED])
    hashes, blocks = np.empty(joined.n, dtype=np.uint64), []
    for here, block, inside in blocks_and_rows(joined, names, rows):
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


ID_LIKE = 0.99
LEAST_ROWS = 50
EXPECTED_REPEATS, LONG_NUMBERS = 10, 10**9


def id_like_features(features: Features) -> Outcome:
    """Look for features, floats aside, of which nearly every row has its own value. All rows are counted.

    Whole numbers count where chance would repeat them: numbers in a narrow range, or of ten digits.
    """
    joined, sample = features.joined, features.sample
    needed(joined.n >= LEAST_ROWS, f"{joined.n} rows are too few to tell a name from a number")
    likely = [name for name in sample.column_names if _distinct(sample.column(name)) >= ID_LIKE]
    shares = {name: _distinct(joined.column(name)) for name in likely}
    alike = {name: share for name, share in shares.items() if share >= ID_LIKE and _numbers_rows(joined.column(name))}
    if not alike:
        return None
    n, listing = len(alike), listed(f"{name} ({share:.1%} distinct)" for name, share in alike.items())
    sentence, them = f"{amount(n, 'feature')} {verb(n, 'names', 'name')} rows: {listing}", verb(n, "it", "them")
    message = f"{sentence}; leave {them} out, or use {them} as the key."
    return Found(n, message, {"features": alike}, DropFeatures(tuple(alike)))


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

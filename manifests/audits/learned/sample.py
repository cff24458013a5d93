"""The rows of the checks that learn, drawn once within a budget of cells: their folds, target, numbers and texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.audits.findings import needed
from evenfold.manifests.audits.statistics import Array, Codes, auc, ranks_of
from evenfold.manifests.joined import Joined, JoinedLabels
from evenfold.manifests.membership import NEVER_TESTED
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.store.state import is_numeric_target
from evenfold.manifests.tables.canonical import (
    amount,
    canonical_table,
    infer_type,
    listed,
    require_columns,
    to_numpy,
)
from evenfold.splitters import SplitError, Stream
from evenfold.splitters.kernels import AUDITING
from evenfold.splitters.numbers import by_appearance
from numpy.typing import NDArray

MOST_ROWS, MOST_CELLS = 1_000_000, 100_000_000  # a row's twin is found only where both are read
MOST_LEARNED = 8_000  # small models see no more with more rows
BY_CHANCE = 0.03 / 15  # of a detector over all that it tries: 3 % for the fifteen of a table
FEWEST_ROWS, LEAST_ROWS = 50, 100  # to find a copy of the target, and to learn anything else of it
MOST_CLASSES = 10
BLOCKS = 5
EXACT = 2**53  # beyond it a float holds only some whole numbers
LARGEST = 1e30  # trees hold numbers of half the size, and beyond this one is as large as another


@dataclass(frozen=True, eq=False)
class Column:
    """A column as numbers: its values, times as microseconds or days, or the code of its level; NaN where missing.

    ``whole`` are whole numbers to their last digit, where floats cannot hold them.
    """

    name: str
    kind: Literal["number", "time", "category"]
    values: Array
    levels: tuple[str, ...] = ()
    fractional: bool = False
    whole: Codes | None = None

    @cached_property
    def codes(self) -> Codes:
        """The place of each value among the distinct ones, ascending; -1 where it is missing."""
        codes = np.full(self.values.size, -1, dtype=np.int64)
        present = ~np.isnan(self.values)
        values = self.values if self.whole is None else self.whole
        codes[present] = np.unique(values[present], return_inverse=True)[1]
        return codes

    @cached_property
    def n_levels(self) -> int:
        """The number of distinct values."""
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def texts(self) -> list[str]:
        """The text of each distinct value of a category, in the order of ``codes``."""
        return [self.levels[int(code)] for code in np.unique(self.values[self.codes >= 0])]

    @cached_property
    def places(self) -> Array:
        """The rank of each value as a share of all, 0 to 1, equal ones at the middle of theirs; NaN where missing."""
        sizes = np.bincount(self.codes[self.codes >= 0])
        return self.by_level((np.cumsum(sizes) - sizes / 2.0) / max(sizes.sum(), 1))

    @cached_property
    def decimals(self) -> Codes:
        """The decimals of each value, those beyond six as nine; all are nine where most have over four."""
        digits = np.full(self.values.size, 9)
        for places in range(6, -1, -1):
            away = np.abs(self.values - np.round(self.values, places))
            digits[~(away > 1e-13 + 1e-14 * np.abs(self.values))] = places  # a gap has none
            if places == 4 and np.median(digits) > 4:
                return np.full(self.values.size, 9)
        return digits

    def by_level(self, values: Any, gap: float = np.nan) -> Array:
        """Return each row's value, of values for the levels that are present, ascending."""
        return np.asarray(np.append(np.asarray(values, dtype=np.float64), gap)[self.codes])

    def take(self, rows: NDArray[Any]) -> Column:
        """Return the column of some rows."""
        whole = None if self.whole is None else self.whole[rows]
        return Column(self.name, self.kind, self.values[rows], self.levels, self.fractional, whole)


@dataclass(frozen=True, eq=False)
class Target:
    """The target as one column of numbers a class (of two classes one), or as the rank of a number, 0 to 1.

    Rows without a target, and those of classes beyond the ten largest, are not ``present``.
    """

    name: str
    outcomes: Array
    present: NDArray[np.bool_]
    numeric: bool
    values: Array

    @property
    def measure(self) -> str:
        """The name of ``score``."""
        return "R² of ranks" if self.numeric else "AUC"

    def take(self, rows: NDArray[Any]) -> Target:
        """Return the target of some rows."""
        return Target(self.name, self.outcomes[rows], self.present[rows], self.numeric, self.values[rows])

    def score(self, predicted: Array) -> float:
        """Return how well predictions of every row fit: mean AUC over the classes, or R² of the ranks."""
        if self.numeric:
            spread = np.square(self.outcomes - self.outcomes.mean()).sum()
            return 1.0 - float(np.square(self.outcomes - predicted).sum() / spread) if spread else 0.0
        columns = zip(self.outcomes.T, predicted.T, strict=True)
        return float(np.mean([auc(guess, truth > 0) for truth, guess in columns]))


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that are looked at, drawn once and for all, with what the checks ask about them.

    ``rows`` are positions in the data, in key order. ``blocks`` are the manifest's folds, several to a block where
    there are over five, or five parts drawn at random (groups whole) where there are fewer than three or rows have
    none. Locked and excluded rows are not in it: an audit is no look at the holdout. ``drawn``: there were more rows.
    """

    joined: Joined
    rows: Codes
    blocks: Codes
    columns: dict[str, Column]
    features: tuple[str, ...]
    target: Any  # a Target; None where no column is named
    groups: Codes  # -1 where a row is of no group
    drawn: bool

    @property
    def looked_at(self) -> str:
        """A remark for sentences where not all rows are in the sample."""
        few = self.joined.n > self.rows.size + np.count_nonzero(self.joined.codes[:, 0] < NEVER_TESTED)
        how = "drawn at random" if self.drawn else "those with a target to learn from"
        return f" (in {self.rows.size:,} of {self.joined.n:,} rows, {how})" if few else ""

    @cached_property
    def labelled(self) -> Sample:
        """The rows that have a target; all where none is named."""
        return self if self.target is None else self.take(np.flatnonzero(self.target.present))

    @cached_property
    def learned(self) -> Sample:
        """At most 8,000 rows that have a target, for small models to learn from."""
        n = self.labelled.rows.size
        chosen = np.sort(Stream(0, AUDITING, 1).permutation(n)[:MOST_LEARNED])
        return replace(self.labelled.take(chosen), drawn=self.drawn or chosen.size < n)

    def take(self, positions: NDArray[Any]) -> Sample:
        """Return a part of the sample."""
        if positions.size == self.rows.size:
            return self
        columns = {name: column.take(positions) for name, column in self.columns.items()}
        rows, blocks, groups = (of[positions] for of in (self.rows, self.blocks, self.groups))
        target = self.target and self.target.take(positions)
        return replace(self, rows=rows, blocks=blocks, columns=columns, target=target, groups=groups)

    def feature_columns(self) -> list[Column]:
        """Return the columns that a model may see."""
        return [self.columns[name] for name in self.features if name in self.columns]

    def key_columns(self) -> list[Column]:
        """Return the columns of the key, where the manifest has them."""
        names, keys = self.joined.manifest.spec.columns.key, self.joined.keys
        if keys is None:
            return []
        table = canonical_table(keys, names, self.joined.manifest.types)
        return [column_of(name, table.column(name).take(pa.array(self.rows))) for name in names]

    def clock(self, name: str) -> Column:
        """Return a column that may play a part, as the named time does, and is then not among ``columns``."""
        if name in self.columns:
            return self.columns[name]
        return column_of(name, self.joined.column(name).take(pa.array(self.rows)))

    def units(self, codes: Codes) -> Codes:
        """Return codes of the sampled rows as codes of all rows of the data, -1 where a row is not in the sample."""
        everywhere = np.full(self.joined.n, -1, dtype=np.int64)
        everywhere[self.rows] = codes
        return everywhere


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


def sampled_columns(joined: Joined, exclude: Collection[str]) -> list[str]:
    """Return every column without a role whose type is known, text and times included."""
    names = list[str]()
    for field in columns_without_role(joined, exclude):
        with suppress(SplitError):  # for a type that is not read
            infer_type(field.type, field.name)
            names.append(field.name)
    return names


def read_sample(joined: Joined, features: Sequence[str] | None, exclude: Sequence[str]) -> Sample:
    """Return the sample, read in one pass; NotAsked where too few rows are in use.

    ``features`` None: every column without a role whose type is known, text and times included, is one.
    """
    names = sampled_columns(joined, exclude)
    usable = np.flatnonzero(joined.codes[:, 0] >= NEVER_TESTED)
    few = f"{amount(usable.size, 'row')} in use are too few to learn from; {FEWEST_ROWS} would do"
    needed(usable.size >= FEWEST_ROWS, few)
    usable = usable[np.argsort(joined.place[usable], kind="stable")]  # in key order, whatever the order of the file
    most = min(MOST_ROWS, MOST_CELLS // max(len(names), 1))
    rows = usable[np.sort(Stream(0, AUDITING).permutation(usable.size)[:most])]
    columns, in_file = dict[str, Column](), np.sort(rows)
    if names:
        blocks = blocks_and_rows(joined, names, in_file)
        table = pa.concat_tables(canonical_features(block.take(inside), joined) for _, block, inside in blocks)
        table = table.take(pa.array(np.searchsorted(in_file, rows))).combine_chunks()
        columns = {name: column_of(name, table.column(name)) for name in names}
    target, together = joined.columns.target, joined.together()
    groups = np.full(rows.size, -1) if together is None else together[rows]
    outcome = None if target is None else target_of(target, joined.column(target).take(pa.array(rows)))
    seen, drawn = tuple(names if features is None else features), rows.size < usable.size
    return Sample(joined, rows, _blocks(joined, rows, groups), columns, seen, outcome, groups, drawn)


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


def column_of(name: str, column: pa.ChunkedArray) -> Column:
    """Return a canonical column as numbers."""
    if pa.types.is_large_string(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        codes = encoded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return Column(name, "category", np.asarray(codes, dtype=np.float64), tuple(encoded.dictionary.to_pylist()))
    if pa.types.is_temporal(column.type):
        return Column(name, "time", _floats(column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())))
    values = _floats(column)
    beyond = pa.types.is_integer(column.type) and np.abs(values).max(initial=0, where=~np.isnan(values)) >= EXACT
    whole = to_numpy(column.fill_null(0)) if beyond else None
    return Column(name, "number", values, fractional=pa.types.is_floating(column.type), whole=whole)


def _floats(column: pa.ChunkedArray) -> Array:
    values = to_numpy(pc.cast(column, pa.float64(), safe=False))
    return np.clip(np.where(np.isfinite(values), values, np.nan), -LARGEST, LARGEST)


def target_of(name: str, column: pa.ChunkedArray) -> Target:
    """Return a canonical target column as ranks, or as one column of ones and zeros for each of its classes."""
    if is_numeric_target(column):
        values = _floats(column)
        present = ~np.isnan(values)
        ranks = ranks_of(values) / max(int(present.sum()), 1)
        return Target(name, ranks[:, None], present, True, values)
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    largest = np.argsort(-sizes, kind="stable")[:MOST_CLASSES]
    # Of two classes the rarer one alone: the other column would say the same.
    classes = largest[1:] if largest.size == 2 else largest
    outcomes = (codes[:, None] == classes).astype(np.float64)
    return Target(name, outcomes, np.isin(codes, largest), False, codes.astype(np.float64))


def alone(codes: Codes) -> Codes:
    """Return codes in which rows of none (-1) each have one of their own, beyond the others."""
    return np.where(codes < 0, codes.max(initial=0) + 1 + np.arange(codes.size), codes)


def several(codes: Codes) -> Codes:
    """Return the codes that more than one row has, -1 for the other rows."""
    sizes = np.bincount(codes + 1)[codes + 1]
    return np.where((sizes > 1) & (codes >= 0), codes, -1)


def _blocks(joined: Joined, rows: Codes, groups: Codes) -> Codes:
    folds, fold = np.unique(joined.codes[rows, 0], return_inverse=True)
    stream = Stream(0, AUDITING, 2)
    if isinstance(joined, JoinedLabels) and folds.size >= 3:
        return np.asarray(fold % BLOCKS, dtype=np.int64)
    if groups.max() < 0:
        return stream.below(BLOCKS, joined.manifest.n)[joined.place[rows]]
    numbers = by_appearance(alone(groups))  # in the order of the key, as the file's decides nothing
    return stream.below(BLOCKS, int(numbers.max()) + 1)[numbers]


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

"""The rows of the checks that learn, drawn once within a budget of cells, and the small models that learn of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.joined import Joined, JoinedLabels
from evenfold.manifests.membership import NEVER_TESTED
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.tables.canonical import amount, canonical_table, infer_type, listed, require_columns
from evenfold.splitters import SplitError, Stream
from evenfold.splitters.numbers import AUDITING, by_appearance, thread_pools
from numpy.typing import NDArray

from .columns import Array, Codes, Column, alone, column_of, correlation, target_of
from .findings import DropFeatures, KeepTogether, Remedy, SplitByTime, needed

MOST_ROWS, MOST_CELLS = 1_000_000, 100_000_000  # a row's twin is found only where both are read
BY_CHANCE = 0.03 / 15  # of a detector over all that it tries: 3 % for the fifteen of a table
FEWEST_ROWS, LEAST_ROWS = 50, 100  # to find a copy of the target, and to learn anything else of it
BLOCKS = 5
MOST_CATEGORIES, MOST_COLUMNS = 60, 100
PRIOR_ROWS = 5.0  # a level's mean counts this many rows of the overall mean


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that are looked at, drawn once and for all; no locked and excluded ones.

    ``rows`` are positions in the data, in key order. ``blocks`` are the manifest's folds, several to a block beyond
    five, or five parts drawn at random (groups whole) where there are under three, or none. ``drawn``: there were more.
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
        """The rows that have a target; NotAsked where none is named."""
        return self.take(np.flatnonzero(needed(self.target, "no target column is named").present))

    @cached_property
    def subsample(self) -> Sample:
        """At most 8,000 rows that have a target, for small models to learn from."""
        n = self.labelled.rows.size
        chosen = np.sort(Stream(0, AUDITING, 1).permutation(n)[:8_000])  # of more they see no more
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
        keys = self.joined.keys
        columns = [] if keys is None else zip(keys.column_names, keys.columns, strict=True)
        return [column_of(name, column.take(pa.array(self.rows))) for name, column in columns]

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
    """Return the features: as given, or numbers, truth values and categories; SplitError for a name of no column."""
    require_columns([*(features or []), *exclude], joined.source.schema.names)
    if features is not None:
        return [name for name in features if name not in exclude]
    return [field.name for field in _without_role(joined, exclude) if _is_feature(field.type)]


def _without_role(joined: Joined, exclude: Collection[str]) -> list[pa.Field]:
    """Return the columns that play no part, neither in the split nor in what is asked about it."""
    taken = {*joined.columns.roles(), *joined.manifest.spec.columns.roles(), *exclude}
    return [field for field in joined.source.schema if field.name not in taken]


def are_all_columns(features: Sequence[str], spec: SplitSpec, schema: pa.Schema) -> bool:
    """Return whether ``features`` are every column without a role, in the same order: the audit that names none."""
    fields = [field for field in schema if field.name not in spec.columns.roles()]
    return [field.name for field in fields] == list(features) and all(_is_feature(field.type) for field in fields)


def _is_feature(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


def types_in(fields: Iterable[pa.Field]) -> dict[str, str]:
    """Return the type of each column of which it is known: not of lists."""
    types = dict[str, str]()
    for field in fields:
        with suppress(SplitError):
            types[field.name] = infer_type(field.type, field.name)
    return types


def sampled_columns(joined: Joined, exclude: Collection[str]) -> list[str]:
    """Return every column without a role whose type is known, text and times included."""
    return [*types_in(_without_role(joined, exclude))]


def read_sample(joined: Joined, features: Sequence[str] | None, exclude: Sequence[str]) -> Sample:
    """Return the sample, read in one pass; NotAsked where too few rows are in use."""
    names = sampled_columns(joined, exclude)
    in_use = np.flatnonzero(joined.codes[:, 0] >= NEVER_TESTED)
    few = f"{amount(in_use.size, 'row')} in use are too few to learn from; {FEWEST_ROWS} would do"
    needed(in_use.size >= FEWEST_ROWS, few)
    # In key order, whatever the order of the file.
    in_use = in_use[np.argsort(joined.lookup.rank[in_use], kind="stable")]
    most = min(MOST_ROWS, MOST_CELLS // max(len(names), 1))
    rows = in_use[np.sort(Stream(0, AUDITING).permutation(in_use.size)[:most])]
    columns, in_file = dict[str, Column](), np.sort(rows)
    if names:
        parts = joined.source.blocks(names, in_file)
        table = pa.concat_tables(canonical_features(part.take(inside), joined) for _, part, inside in parts)
        table = table.take(pa.array(np.searchsorted(in_file, rows))).combine_chunks()
        columns = {name: column_of(name, table.column(name)) for name in names}
    target, together = joined.columns.target, joined.together()
    groups = np.full(rows.size, -1) if together is None else together[rows]
    outcome = None if target is None else target_of(target, joined.column(target).take(pa.array(rows)))
    folds, blocks = np.unique(joined.codes[rows, 0], return_inverse=True)
    if not isinstance(joined, JoinedLabels) or folds.size < 3:
        units, n = joined.lookup.rank[rows], joined.manifest.n
        if groups.max() >= 0:  # numbered in the order of the key, as the file's decides nothing
            units = by_appearance(alone(groups))
            n = int(units.max()) + 1
        blocks = Stream(0, AUDITING, 2).below(BLOCKS, n)[units]
    seen, drawn = tuple(names if features is None else features), rows.size < in_use.size
    return Sample(joined, rows, blocks % BLOCKS, columns, seen, outcome, groups, drawn)


def canonical_features(block: pa.Table, joined: Joined) -> pa.Table:
    """Return a block in canonical types, with the nearest float of each decimal and of each unsigned 64-bit integer."""
    for i, field in enumerate(block.schema):
        if pa.types.is_decimal(field.type) or pa.types.is_uint64(field.type):
            block = block.set_column(i, field.name, block.column(i).cast(pa.float64(), safe=False))
    return canonical_table(block, block.column_names, joined.manifest.types)


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

    O(n x repeats), or O(n x splits).
    """
    rows, places = joined.crossing(units)
    return int(np.count_nonzero(rows)), places, where(places) + joined.looked_at


def in_one_thread() -> AbstractContextManager[Any]:
    """Return a context in which small models learn in one thread: sums in parallel differ in their last bits."""
    import sklearn.ensemble  # noqa: F401, what starts threads must be loaded by then

    limited: AbstractContextManager[Any] = thread_pools().limit(limits=1)
    return limited


def _once(learn: Callable[..., Array]) -> Callable[..., Array]:
    """Return ``learn`` such that a process that asks the very same again has the answer at once.

    The audit of a split and that of a model's features learn mostly the same: the fits are nearly all of their time.
    """
    answers: dict[bytes, Array] = {}

    @wraps(learn)
    def run(*arguments: Any) -> Array:
        key = sha256(pickle.dumps(arguments)).digest()
        if (learnt := answers.get(key)) is None:
            for oldest in list(answers)[:-255]:  # of at most 8,000 rows each
                answers.pop(oldest, None)
            learnt = answers[key] = learn(*arguments)
        return learnt.copy()

    return run


def predict_from_one(column: Column, outcomes: Array, test: NDArray[np.bool_]) -> Array:
    """Return what a column tells of the ``test`` rows, learnt from others: a tree, or its levels' means. O(n log n)."""
    if column.kind == "category":
        codes, train = column.codes + 1, ~test  # missing values are level 0
        rows = np.bincount(codes[train], minlength=column.n_levels + 1)
        sums = [np.bincount(codes[train], weights=outcome[train], minlength=rows.size) for outcome in outcomes.T]
        means = np.stack(sums, axis=1) + PRIOR_ROWS * outcomes[train].mean(axis=0)
        return np.asarray((means / (rows + PRIOR_ROWS)[:, None])[codes[test]])
    return _grown(column.values[~test], outcomes[~test], column.values[test])


@_once
def _grown(values: Array, outcomes: Array, queries: Array) -> Array:
    from sklearn.tree import DecisionTreeRegressor

    least = max(5, values.size // 250)
    tree = DecisionTreeRegressor(max_leaf_nodes=64, min_samples_leaf=least, random_state=0)
    tree.fit(values[:, None], outcomes)
    return np.asarray(tree.predict(queries[:, None])).reshape(-1, outcomes.shape[1])


def predict_from_all(columns: Sequence[Column], outcomes: Array, blocks: Codes, past: bool = False) -> Array:
    """Return what the columns together tell of each row, learnt from the other blocks by gradient-boosted trees.

    ``past``: learnt from the blocks before its own alone, of which the first has none and is 0.
    """
    X, categorical = design(columns)
    predicted = np.zeros_like(outcomes)
    for block in np.unique(blocks)[int(past) :]:
        train, test = blocks < block if past else blocks != block, blocks == block
        for i, outcome in enumerate(outcomes.T):
            predicted[test, i] = predict_boosted(X[train], outcome[train], X[test], categorical)
    return predicted


@_once
def predict_boosted(train: Array, outcome: Array, queries: Array, categorical: list[bool], rounds: int = 40) -> Array:
    """Return what gradient-boosted trees, learnt from ``train`` and its outcome, say of other rows.

    Of more than 100 columns those that go closest with the outcome, by their values or their distance from the mean.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    varying = np.flatnonzero(np.fmax.reduce(train) > np.fmin.reduce(train)).tolist()
    if not varying:
        return np.full(queries.shape[0], outcome.mean())
    if len(varying) > MOST_COLUMNS:
        away = (np.nan_to_num(train[:, i] - np.nanmean(train[:, i])) for i in varying)
        strength = [-max(abs(correlation(side, outcome)) for side in (x, np.abs(x))) for x in away]
        varying = sorted(varying[i] for i in np.argsort(strength, kind="stable")[:MOST_COLUMNS])
    model = HistGradientBoostingRegressor(
        max_iter=rounds, max_leaf_nodes=12, min_samples_leaf=10, learning_rate=0.15, max_bins=63,
        categorical_features=[categorical[i] for i in varying], early_stopping=False, random_state=0,
    )  # fmt: skip
    return np.asarray(model.fit(train[:, varying], outcome).predict(queries[:, varying]))


def design(columns: Sequence[Column]) -> tuple[Array, list[bool]]:
    """Return columns side by side as trees read them, and which of them are categories."""
    used = usable(columns)
    coded = [c.by_level(np.arange(c.n_levels)) if c.kind == "category" else c.values for c in used]
    return np.column_stack(coded), [column.kind == "category" for column in used]


def usable(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that describe rows: those without categories of over 60 levels."""
    return [column for column in columns if column.kind != "category" or column.n_levels <= MOST_CATEGORIES]


def at_stake(sample: Sample, remedy: Remedy) -> tuple[str, float, float] | None:
    """Return the measure, the score as split and the mended one; None where there is nothing to learn or to compare.

    Both are of one small model and rows, out of fold: a lower bound of what a leak is worth. O(features x n log n).
    """
    target, columns, blocks = sample.target, sample.feature_columns(), sample.blocks
    if not usable(columns):
        return None
    learnt, rows = columns, np.arange(blocks.size)
    match remedy:
        case DropFeatures():
            learnt = [column for column in columns if column.name not in remedy.features]
        case KeepTogether():
            _, first, unit = np.unique(alone(remedy.units[sample.rows]), return_index=True, return_inverse=True)
            blocks = blocks[first[unit]]  # that of its unit's first row
        case SplitByTime():
            clock = sample.clock(remedy.column)
            places = clock.codes / max(clock.n_levels, 1)
            edges = np.quantile(places, np.arange(1, BLOCKS) / BLOCKS)
            blocks = np.searchsorted(edges, places, side="right")  # equal times are in one stretch
            rows = np.flatnonzero(blocks > blocks.min())  # the first stretch has no past
    if blocks is not sample.blocks and np.unique(blocks).size < 2:
        return None
    mended = np.broadcast_to(target.outcomes.mean(axis=0), target.outcomes.shape)
    if usable(learnt):
        mended = predict_from_all(learnt, target.outcomes, blocks, past=isinstance(remedy, SplitByTime))
    as_split, own = predict_from_all(columns, target.outcomes, sample.blocks), target.take(rows)
    return target.measure, own.score(as_split[rows]), own.score(mended[rows])

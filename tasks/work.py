"""A data set joined with its manifest, and what names each piece of work on it."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.estimates import Evidence, FoldScore, ModelSpec, Problem
from evenfold.estimates.models.fit import inner_pairs
from evenfold.estimates.results import MOST_FOLDS
from evenfold.manifests import Manifest, NoRoomError, SplitSpec, digest_json
from evenfold.manifests.balance import columns_of_folds, kept_together, levels_of
from evenfold.manifests.exchange.changes import split_parts
from evenfold.manifests.tables.keys import beside_keys, waiting_rows
from evenfold.manifests.tables.read import stamp
from evenfold.splitters import LabelSplitter, SplitError, Splitter
from evenfold.splitters.base import strategy_code
from evenfold.tasks.runtime.home import Settings
from numpy.typing import NDArray

from evenfold import estimates, manifests

from .outcomes import FitIndex, SplitRef
from .plans import table_of
from .store import Marks, Preimage

Pair = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Work:
    """A data set joined with its manifest, in key order, as a model sees it: loaded once per process.

    ``digests``: of every column that the model reads. ``place``: where each row of the manifest stands in the problem;
    -1 for one that the data lack. ``keys`` stand beside the predictions. ``attributes``: of each column to balance on
    each row's level, and the levels' names. ``roles``: the columns of the specification's roles. ``marks``: makes what
    tells later in how many rows a column has changed. ``code``: the user's, where it is not the code of now.
    """

    manifest: Manifest
    problem: Problem
    digests: Mapping[str, Any]
    place: NDArray[np.int64]
    keys: pa.Table | None
    attributes: dict[str, tuple[NDArray[np.int64], list[str]]]
    roles: pa.Table
    marks: Callable[[], Marks]
    code: dict[str, str] | None = None
    further: dict[str | int, list[Pair]] = field(default_factory=dict, init=False)  # see ``further_pairs``

    @cached_property
    def fingerprint(self) -> str:
        """Return the digest of the values that the model reads."""
        return digest_json(self.digests)

    @cached_property
    def keys_digest(self) -> str:
        """Return the digest of the keys, "positions" where there are none."""
        return "positions" if self.keys is None else digest_json(manifests.digests_of(self.keys))

    def without_metrics(self) -> Work:
        """Return the same with a recipe that names no metrics, by which nothing is learnt."""
        return replace(self, problem=replace(self.problem, model=self.problem.model.model_copy(update={"metrics": ()})))

    def pair(self, i: int) -> Pair:
        """Return split ``i`` as positions in the problem."""
        train, test = self.manifest.in_use.pair(i)
        return self.at_hand(train), self.at_hand(test)

    def at_hand(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rows of the manifest as positions in the problem, but for those that the data lack."""
        places = self.place[rows]
        return places[places >= 0]

    @property
    def n_drawn_from(self) -> int | None:
        """The number of rows that draws with replacement draw from; None where draws, or folds, are without."""
        drawn = "out_of_bag" in self.manifest.splitter.promises
        return self.at_hand(self.manifest.in_use.unlocked).size if drawn else None

    @cached_property
    def inner(self) -> Splitter | None:
        """The strategy of cross-validations inside the training rows: the split's own, where it can do that."""
        splitter = self.manifest.splitter
        needs = splitter.needs
        usable = isinstance(splitter, LabelSplitter) and not splitter.part_codes() and "exhaustive" in splitter.promises
        return splitter if usable and not (needs.key or needs.time or needs.fixed) else None

    @property
    def inner_name(self) -> str:
        """Return the name of that strategy, with its code where it is the user's own."""
        return f"{self.inner!r}{strategy_code(self.manifest.spec.strategy, self.manifest.spec.params)}"

    @property
    def in_time_order(self) -> bool:
        """Return whether the rows follow one another in time and are split in that order."""
        return "past_before_future" in self.manifest.splitter.promises

    @property
    def in_stretches(self) -> bool:
        """Return whether each fold is a stretch of time, whose rows depend on one another, in time order or purged."""
        return self.in_time_order or self.manifest.splitter.promises >= {"purged", "exhaustive"}

    def keyed(self, predictions: pd.DataFrame) -> pa.Table:
        """Return predictions with the key columns in front, so that any later run can be compared row by row."""
        # In Arrow from here on: frames that are joined and written take twice the time, which short fits feel.
        rows, table = predictions["row"].to_numpy(), pa.Table.from_pandas(predictions, preserve_index=False)
        if self.problem.groups is not None:
            table = table.append_column("group", pa.array(self.problem.groups[rows]))
        return table if self.keys is None else beside_keys(self.keys.take(pa.array(rows)), table)


# The last two, each by what it was loaded from: a recipe that the data completed (its task, its metrics) is the same
# work as the one that was given.
_LOADED: list[tuple[tuple[object, ...], tuple[ModelSpec, ModelSpec], Work]] = []
_LOADING = threading.Lock()


def work_of(split: SplitRef, model: Any = None) -> Work:
    """Return the loaded data of a split and model; the last two are kept in memory."""
    # A file that was written again is another table, and another manifest may lie where one was removed.
    data, recipe = table_of(split), ModelSpec.of(model)
    state = (*stamp(data), *recipe.code.items())
    place = (data, state, split.uri, split.staged, split.split_id, split.plan_id, split.rows)
    with _LOADING:  # folds that begin at once would each read the table, and hold it
        for number, (loaded, recipes, work) in enumerate(_LOADED):
            if loaded == place and recipe in recipes:
                _LOADED.append(_LOADED.pop(number))
                return work
        work = _work(split, data, recipe)
        _LOADED[:] = [*_LOADED[-1:], (place, (recipe, work.problem.model), work)]
    return work


def _work(split: SplitRef, data: str, recipe: ModelSpec) -> Work:
    manifest = split.manifest()
    if (manifest.split_id, manifest.plan_id) != (split.split_id, split.plan_id):
        now = f"split {manifest.split_id[:16]} of plan {manifest.plan_id[:16]}"
        raise SplitError(
            f"{manifest.name} {manifest.version} is another split than the one asked for, {now}; decide it or load it "
            "again."
        )
    table = _whole(data, manifest.spec, recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who asked for the known rows was told how many are left out
        positions = manifest.positions(table, split.rows)
    present = positions >= 0
    ordered = table.take(positions[present])
    folds = columns_of_folds(ordered, manifest, manifest.in_use.codes[present])
    problem = _problem(ordered, manifest.spec, recipe, folds)
    digests = manifests.digests_of(manifests.canonical_table(ordered, problem.columns_read, manifest.types))
    watched = manifests.canonical_table(ordered, manifest.spec.columns.balance_on, manifest.types)

    def marks() -> Marks:  # of the table read again: to hold it would take the room of a second one
        again = _whole(data, manifest.spec, recipe).take(positions[present])
        return Marks.of(manifests.canonical_table(again, problem.columns_read, manifest.types), work.keys_digest)

    work = Work(
        manifest, problem, digests,
        place=np.where(present, np.cumsum(present) - 1, -1),  # the problem holds the present rows alone
        keys=None if manifest.keys is None else manifest.keys.filter(present),
        attributes={name: levels_of(watched.column(name)) for name in watched.column_names},
        roles=ordered.select([name for name in manifest.spec.columns.roles() if name in ordered.column_names]),
        marks=marks,
    )  # fmt: skip
    return work


def _whole(data: str, spec: SplitSpec, model: ModelSpec) -> pa.Table:
    """Return all of a table, or where that takes too much what the model names alone; SplitError for want of room.

    It is read once for who checks it and who learns from it.
    """
    memory, names = Settings.here().memory, None
    try:
        manifests.require_room(data, memory)
    except NoRoomError:
        if model.features is None:
            raise
        columns = [*model.features, model.weights, *spec.columns.roles(), *spec.columns.balance_on]
        names = tuple(name for name in dict.fromkeys(columns) if name)
        manifests.require_room(data, memory, names)
    return _read(data, stamp(data), tuple(sorted(spec.types.items())), names)


@lru_cache(maxsize=1)
def _read(
    data: str, _stamp: tuple[object, ...], types: tuple[tuple[str, str], ...], names: tuple[str, ...] | None
) -> pa.Table:
    return manifests.read_table(data, None if names is None else list(names), types=dict(types))


def check_model(data: str, spec: SplitSpec, model: ModelSpec) -> Problem:
    """Return what ``model`` is to learn; SplitError or ModelError where it cannot from ``data``."""
    table = _whole(data, spec, model)
    table = table.filter(pa.array(~waiting_rows(table, spec, spec.types)))
    problem = _problem(table, spec, model)
    manifests.canonical_table(table, problem.columns_read, spec.types)
    return problem


def _problem(table: pa.Table, spec: SplitSpec, model: ModelSpec, folds: Sequence[str] = ()) -> Problem:
    columns = spec.columns
    if columns.target is None:
        raise SplitError("no target column is named, and a model predicts one; name it (columns.target, or --target).")
    manifests.require_columns([columns.target], table.column_names)
    frame = table.replace_schema_metadata(None).to_pandas()
    # Folds that were adopted may stand in no later table; any other role that is absent was refused by now.
    role_columns = [name for name in columns.kept_from_models(model.features) if name in frame]
    units = kept_together(table, spec)
    return Problem.of(frame, model, columns.target, role_columns, groups=units, times=columns.time, folds=folds)


def _number(i: object, most: int) -> bool:
    return isinstance(i, (int, np.integer)) and not isinstance(i, bool) and 0 <= int(i) <= most


@dataclass(frozen=True)
class Job:
    """A call of ``fit_fold``: its name, the digest of its rows, its fits with their results' names, if ``scored``."""

    name: str
    membership: str
    fits: Iterable[tuple[Pair, Any]]
    scored: bool = True


def job_of(work: Work, i: FitIndex, of: str | int = "folds") -> Job:
    """Return what ``fit_fold`` fits; raises SplitError for what there is not."""
    manifest = work.manifest
    n, title, membership = manifest.n_splits, f"{manifest.name} {manifest.version}", manifest.membership
    if of not in ("folds", "inside"):
        pairs = further_pairs(work, of)
        if not _number(i, len(pairs) - 1):
            raise SplitError(f"{of!r} asks for {len(pairs)} further fits, and {i!r} is the number of none of them.")
        train, test = pairs[i]  # type: ignore[index]
        name = f"{of if isinstance(of, str) else f'{of} repeats'}, further fit {i}"
        # -1 is no position: it parts the two sides, so that no other pair has the same bytes.
        digest = _digest(train, np.array([-1]), test)
        return Job(name, f"pair {digest}", [((train, test), {"name": name})], scored=False)
    if of == "folds" and i in ("all rows", "holdout"):
        rows = manifest.in_use.unlocked
        train, test = manifest.locked_pair() if i == "holdout" else (rows, rows)
        identity = manifest.split_id if i == "holdout" else _digest(rows)
        return Job(str(i), f"{i} {identity}", [((work.at_hand(train), work.at_hand(test)), {"name": i})])
    if of == "folds" and isinstance(i, (tuple, list)):
        if not (len(i) == 2 and all(_number(end, n) for end in i) and i[0] < i[1]):
            raise SplitError(f"{title} has no block {i!r}; give (first, last + 1) of its {n:,} splits, as (0, {n}).")
        name = f"{'draws' if manifest.kind == 'draws' else 'folds'} {i[0]}-{i[1] - 1}"
        digest = digest_json([_of_split(work, number) for number in range(*i)])
        return Job(name, digest, (_fit_of(work, number) for number in range(*i)))
    if isinstance(i, (str, tuple, list)) or not _number(i, n - 1):
        raise SplitError(f"{title} has no split {i!r}; its {n:,} are called 0 to {n - 1}.")
    name = membership.split_title(i)
    if of == "inside":
        rows_inside = f"inside {manifest.in_use.digest(i)} by {work.inner_name}"
        return Job(f"inside {name}", rows_inside, _inside(work, i), scored=False)
    return Job(name, _of_split(work, i), (_fit_of(work, number) for number in [i]))


def _of_split(work: Work, i: int) -> str:
    # The result bears the split's number and name: of two manifests that share a fold, each may call it otherwise.
    membership = work.manifest.membership
    return digest_json([work.manifest.in_use.digest(i), *membership.split_name(i), membership.split_title(i)])


def _fit_of(work: Work, i: int) -> tuple[Pair, Any]:
    (repeat, fold), name = work.manifest.membership.split_name(i), work.manifest.membership.split_title(i)
    return work.pair(i), {"name": name, "repeat": repeat, "fold": fold, "importance": i < MOST_FOLDS}


def _inside(work: Work, i: int) -> Iterator[tuple[Pair, Any]]:
    train, _ = work.pair(i)
    pairs = inner_pairs(work.problem, train, work.manifest.spec.seed, require_inner(work))
    for fold, (inside, out) in enumerate(pairs):
        name = f"inner fold {fold} of {work.manifest.membership.split_title(i)}"
        yield (train[inside], train[out]), {"name": name, "fold": fold}


def require_inner(work: Work) -> Splitter:
    """Return the strategy of the inner folds; raises SplitError where it cannot split some of the rows again."""
    if work.inner is None:
        name = type(work.manifest.splitter).__name__
        raise SplitError(
            f"{name} cannot split the training rows of a fold again, so nothing can be chosen inside them; "
            "tune without nested, or use folds such as KFold, StratifiedKFold or BalancedGroupKFold."
        )
    return work.inner


def _digest(*places: NDArray[np.int64]) -> str:
    return hashlib.sha256(b"".join(rows.astype("<i8").tobytes() for rows in places)).hexdigest()


def further_pairs(work: Work, purpose: str | int) -> list[Pair]:
    """Return the fits beyond those of the folds that an interval method asks for, or so many repeats of the folds.

    As positions in the problem, by the split, the seed and ``purpose`` alone; repeats follow those of the split.
    SplitError where its strategy has no other folds.
    """
    if purpose in work.further:
        return work.further[purpose]
    manifest, pairs = work.manifest, list[Pair]()
    if isinstance(purpose, int):
        rows = work.at_hand(manifest.in_use.unlocked)
        folds = manifests.further_folds(manifest, work.roles.take(pa.array(rows)), purpose)
        pairs = [
            (rows[folds[:, repeat] != fold], rows[folds[:, repeat] == fold])
            for repeat in range(folds.shape[1])
            for fold in range(manifest.n_splits // manifest.membership.n_repeats)
        ]
    elif manifest.kind != "draws" and purpose not in ("auto", "none"):
        frames, scores = [], []
        for i in range(manifest.n_splits):
            (repeat, fold), (train, test) = manifest.membership.split_name(i), work.pair(i)
            frames.append(pd.DataFrame({"row": test, "repeat": repeat, "fold": fold}))
            scores.append(FoldScore("", repeat, fold, {}, {}, train.size, test.size, 0.0, 0.0))
        tested, seed = pd.concat(frames, ignore_index=True), manifest.spec.seed
        for metric in map(estimates.metric_of, work.problem.model.metrics):  # the first that asks for some
            evidence = Evidence(metric, work.problem, scores, tested, ordered=work.in_stretches, seed=seed)
            if pairs := estimates.further_splits(evidence, purpose):
                break
    work.further[purpose] = pairs
    return pairs


def key_of_fit(work: Work, i: FitIndex, of: str | int = "folds") -> str:
    """Return the score key of what ``fit_fold`` fits: what a score depends on, and nothing else.

    Other splits, and columns that the model does not read, leave it alone. More draws leave finished blocks and the one
    fit on all rows alone; another locked part does not. Raises SplitError for what there is not.
    """
    rows, seed = f"{job_of(work, i, of).membership} of {work.keys_digest}", work.manifest.spec.seed
    model, values, inner = work.problem.model, work.fingerprint, _inner_of(work)
    return estimates.score_key(model, membership=rows, fingerprint=values, seed=seed, inner=inner, code=work.code)


def _inner_of(work: Work) -> dict[str, str] | None:
    tuned = work.problem.model.threshold == "tuned" and work.inner is not None
    return {"strategy": work.inner_name} if tuned else None


def preimage_of_fits(work: Work, interval: str | int | None, seconds: float = 0.0) -> Preimage:
    """Return what the fits of a model on a split depend on, and took; ``interval``: what asked for further ones."""
    seed, inner = work.manifest.spec.seed, _inner_of(work)
    parts = estimates.score_parts(work.problem.model, seed=seed, inner=inner, code=work.code)
    libraries = [f"scikit-learn=={parts.pop('scikit-learn')}", *str(parts.pop("estimator")).split(", ")]
    own = {"evenfold's fits": parts.pop("fit")}
    versions = dict(each.partition("==")[::2] for each in libraries if "==" in each)  # else its own code counts
    parts |= {"versions": versions | own, "interval": interval}
    parts |= split_parts(work.manifest) | dict(work.digests)
    n = max(work.pair(0)[0].size, 1)
    return Preimage(kind="fits", name=work.manifest.name, parts=parts, n_train=n, marks=work.marks, seconds=seconds)

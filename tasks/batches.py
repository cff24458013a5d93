"""Fits on a table that does not fit into memory: it is parted by its folds once, and read batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.estimates import FoldScore, ModelError, ModelSpec, Problem, fit_in_batches, score_key
from evenfold.estimates.models.batches import features_in, fitted_in_batches
from evenfold.manifests import Partitions, partition, require_room
from evenfold.manifests.anywhere.joining import PLACE
from evenfold.manifests.engines.sources import source_of
from evenfold.manifests.membership import fold_columns
from evenfold.manifests.tables.keys import names_beside
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from .outcomes import FoldResult, KeptFile, SplitRef
from .parameters import Memory, Model
from .runtime.files import parquet_bytes, write_aside
from .runtime.home import Home
from .runtime.limits import fair_threads, limited, peak_memory
from .runtime.locks import locked
from .runtime.settings import Settings
from .splits import files_digest
from .steps.step import step
from .work import Work

T = TypeVar("T")


def fit_one_by_batches(
    split: SplitRef, i: int, recipe: ModelSpec, memory: str | None, name: str
) -> tuple[FoldScore, pd.DataFrame, pd.DataFrame, ModelSpec]:
    """Fit on the training rows of split ``i`` batch by batch; return the score, predictions, their keys, the recipe."""
    stored = split.stored()
    target, key = stored.spec.columns.target, stored.spec.columns.key
    if recipe.features is None:
        raise SplitError("which columns a model of batches reads has to be said; name its features.")
    if target is None:
        raise SplitError("no target column is named, and a model predicts one; name it (columns.target, or --target).")
    stored.require_labels()
    repeats = len(fold_columns(stored.column_names))
    repeat, fold = divmod(i, stored.n_splits // repeats)
    parted = _parted(split, repeat, memory)
    names = [column for column in dict.fromkeys([*recipe.features, target, recipe.weights]) if column]
    require_room(parted.test_file(fold), memory, [*names, *key])
    test = parted.read(fold, "test", [*dict.fromkeys([*key, *names]), PLACE])
    problem = _problem(test, names, recipe, target, parted)
    read = (batch.to_pandas() for batch in parted.batches(fold, "train", names))
    with limited(fair_threads()):
        score, predictions = fit_in_batches(
            problem.model, problem, read, seed=stored.spec.seed, name=name, repeat=repeat, fold=fold
        )
    return score, predictions.assign(row=np.asarray(test.column(PLACE))), test.select(key).to_pandas(), problem.model


def _batches_key(split: SplitRef, i: int, model: Any = None, **_: Any) -> str:
    stored, recipe = split.stored(), ModelSpec.of(model)
    if recipe.estimator is None:
        raise ModelError(
            "no estimator is named; choose one that learns batch by batch, such as sklearn.linear_model:SGDRegressor."
        )
    read, membership = files_digest(stored, split.data), f"batches of split {i} of {split.split_id}"
    return f"score/{score_key(recipe, membership=membership, fingerprint=read, seed=stored.spec.seed)}"


@step(key_of=_batches_key, run_name=lambda split, i, **_: f"fit split {i} of {split.name} batch by batch")
def fit_batches(split: SplitRef, i: int, model: Model = None, *, memory: Memory = None) -> FoldResult:
    """Fit a model that has ``partial_fit`` on split ``i``, one pass over its training rows, and score its test rows.

    For a table that does not fit into memory: it is written once, parted by its folds, below the home, and each fit
    reads its own rows, and of these the columns of the model. Test rows have to fit into ``memory``. The result is
    kept while the table's files are not written again; the manifest is read as it lies. ``evaluate`` does so by itself
    where it has to. Raises EvaluationError, ModelError or SplitError.
    """
    given: Any = model
    score, predictions, keys, recipe = fit_one_by_batches(
        split, i, ModelSpec.of(given), Settings.memory_of(memory), f"split {i}"
    )
    keys = keys.set_axis(names_beside(keys.columns.tolist(), predictions.columns.tolist()), axis=1)
    made = keep_predictions(pd.concat([keys, predictions], axis=1), _batches_key(split, i, model).partition("/")[2])
    return FoldResult(
        score=score, predictions=made, peak_memory_mb=peak_memory(), split_id=split.split_id,
        fingerprint=files_digest(split.stored(), split.data), model=recipe,
    )  # fmt: skip


def feature_blocks(
    split: SplitRef, work: Work, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], pd.DataFrame]]:
    """Yield the features of some rows of the problem: which of ``rows`` a block has, and the block.

    All in one block, or of a table that does not fit into memory batch by batch in its own order.
    """
    if not work.by_batches:
        yield np.arange(rows.size), work.problem.X.iloc[rows]
        return
    features = work.problem.features
    for places, frame in _blocks(split, work, rows, features):
        yield places, features_in(frame, features)


def features_of(split: SplitRef, work: Work, rows: NDArray[np.int64]) -> pd.DataFrame:
    """Return the features of some rows of the problem, which have to fit into memory."""
    if not work.by_batches:
        return work.problem.X.iloc[rows]
    blocks, order = in_order(feature_blocks(split, work, rows))
    features: pd.DataFrame = pd.concat(blocks).iloc[order]
    return features


def in_order(blocks: Iterable[tuple[NDArray[np.int64], T]]) -> tuple[tuple[T, ...], NDArray[np.int64]]:
    """Return what there is of each block of rows, and the order in which all of them, put together, are the rows."""
    places, parts = zip(*blocks, strict=True)
    return parts, np.argsort(np.concatenate(places))


def typed_features(split: SplitRef, work: Work) -> pd.DataFrame:
    """Return features by which their types are known: all, or the first batch of a table that does not fit."""
    if not work.by_batches:
        return work.problem.X
    return next(feature_blocks(split, work, np.arange(work.problem.n)))[1]


def fitted_on_batches(split: SplitRef, work: Work, rows: NDArray[np.int64], name: str) -> Any:
    """Return the model fitted on some rows of the problem batch by batch, in the table's order."""
    problem = replace(work.problem, X=typed_features(split, work))
    blocks = _blocks(split, work, rows, [*problem.features, problem.target])
    read = (frame for _, frame in blocks)
    with limited(fair_threads()):
        return fitted_in_batches(problem.model, problem, read, seed=work.manifest.spec.seed, name=name)[0]


def _blocks(
    split: SplitRef, work: Work, rows: NDArray[np.int64], names: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], pd.DataFrame]]:
    assert work.lines is not None
    order = np.argsort(work.lines[rows], kind="stable")
    lines, start = work.lines[rows][order], 0
    for block in source_of(split.data, dict(work.manifest.spec.types)).batches(list(names)):
        first, last = np.searchsorted(lines, [start, start + block.num_rows])
        if first < last:
            yield order[first:last], block.take(pa.array(lines[first:last] - start)).to_pandas()
        start += block.num_rows


def keep_predictions(table: pd.DataFrame | pa.Table, key: str) -> KeptFile:
    """Write a table of predictions or scores below the home, under its key."""
    path = Home.here().scores / f"{key}.parquet"
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    # Few numbers come twice: a dictionary of them would take a quarter more room, and a third more time to write.
    words: Any = [column.name for column in arrow.schema if not pa.types.is_primitive(column.type)]
    content = parquet_bytes(arrow, use_dictionary=words)
    write_aside(path, lambda aside: aside.write_bytes(content))
    return KeptFile(path=str(path), sha256=hashlib.sha256(content).hexdigest())


def _parted(split: SplitRef, repeat: int, memory: str | None) -> Partitions:
    """Return the table parted by its folds, written now or before."""
    home = Home.here()
    place = home.shared / "parted" / f"{files_digest(split.stored(), split.data)[:32]}-{repeat}"
    with locked(home.locks, f"parted/{place.name}"):
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            partition(split.stored(), split.data, place, memory=memory, repeat=repeat)
    return Partitions(Path(place))


def _problem(test: pa.Table, names: list[str], recipe: ModelSpec, target: str, parted: Partitions) -> Problem:
    """Return the test rows as a problem that knows every class of the target, whichever rows have it."""
    problem = Problem.of(test.select(names).to_pandas(), recipe, target)
    if not problem.classes:
        return problem
    parts = [
        pc.unique(batch.column(target)) for role in ("train", "test") for batch in parted.batches(0, role, [target])
    ]
    classes = sorted(set(pa.concat_arrays([part.cast(parts[0].type) for part in parts]).drop_null().to_pylist()))
    return replace(problem, classes=tuple(classes))

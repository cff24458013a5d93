"""Fits on a table that does not fit into memory: it is parted by its folds once, and read batch by batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.estimates import ModelSpec, Problem, fit_in_batches
from evenfold.manifests import Partitions, digest_json, partition, require_room
from evenfold.manifests.anywhere.joining import PLACE
from evenfold.splitters import SplitError

from .fits import keep_predictions
from .outcomes import FoldResult, SplitRef
from .parameters import Memory, Model
from .runtime.home import Home
from .runtime.limits import fair_threads, limited, peak_memory
from .runtime.locks import locked
from .runtime.settings import Settings
from .runtime.step import step
from .splits import stamp


def _content(split: SplitRef) -> str:
    """Return what names the rows: the split, and the files of the table as long as they are not written again."""
    return digest_json([split.split_id, [list(map(str, each)) for each in stamp(split.data)]])


def _batches_key(split: SplitRef, i: int, model: Any = None, **_: Any) -> str:
    return f"score/{digest_json([_content(split), i, 'batches', ModelSpec.of(model).canonical()])}"


@step(key_of=_batches_key, run_name=lambda split, i, **_: f"fit split {i} of {split.name} batch by batch")
def fit_batches(split: SplitRef, i: int, model: Model = None, *, memory: Memory = None) -> FoldResult:
    """Fit a model that has ``partial_fit`` on split ``i``, one pass over its training rows, and score its test rows.

    For a table that does not fit into memory: it is written once, parted by its folds, below the home, and each fit
    reads its own rows, and of these the columns of the model. Test rows have to fit into ``memory``. The result is
    kept while the table's files are not written again. Raises EvaluationError, ModelError or SplitError.
    """
    given: Any = model
    recipe = ModelSpec.of(given)
    if recipe.features is None:
        raise SplitError("which columns a model of batches reads has to be said; name its features.")
    stored = split.stored()
    target, key = stored.spec.columns.target, stored.spec.columns.key
    if target is None:
        raise SplitError("no target column is named, and a model has to predict one; pass --target.")
    stored.require_labels()
    limit = memory or Settings.here().memory
    repeats = len([name for name in stored.column_names if name.startswith("fold")])
    repeat, fold = divmod(i, stored.n_splits // repeats)
    parted = _parted(split, repeat, limit)
    names = [name for name in dict.fromkeys([*recipe.features, target, recipe.weights]) if name]
    require_room(parted.test_file(fold), limit, [*names, *key])
    test = parted.read(fold, "test", [*dict.fromkeys([*key, *names]), PLACE])
    problem = _problem(test, names, recipe, target, parted)
    read = (batch.to_pandas() for batch in parted.batches(fold, "train", names))
    named = f"split {i}"
    with limited(fair_threads()):
        score, predictions = fit_in_batches(
            problem.model, problem, read, seed=stored.spec.seed, name=named, repeat=repeat, fold=fold
        )
    keys = test.select(key).to_pandas()
    taken = [name for name in keys if name in predictions]
    keys = keys.rename(columns={name: f"key_{name}" for name in taken})
    whole = pd.concat([keys, predictions.assign(row=np.asarray(test.column(PLACE)))], axis=1)
    made = keep_predictions(whole, _batches_key(split, i, model).partition("/")[2])
    return FoldResult(
        score=score, predictions=made, peak_memory_mb=peak_memory(), split_id=split.split_id,
        fingerprint=_content(split), model=problem.model,
    )  # fmt: skip


def _parted(split: SplitRef, repeat: int, memory: str | None) -> Partitions:
    """Return the table parted by its folds, written now or before."""
    home = Home.here()
    place = home.shared / "parted" / f"{_content(split)[:32]}-{repeat}"
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
    found = [
        pc.unique(batch.column(target)) for role in ("train", "test") for batch in parted.batches(0, role, [target])
    ]
    classes = sorted(set(pa.concat_arrays([each.cast(found[0].type) for each in found]).drop_null().to_pylist()))
    return replace(problem, classes=tuple(classes))

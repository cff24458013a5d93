"""The fit steps: one model on one split, or on a block of draws."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.estimates import EvaluationError, FoldScore, ModelSpec, Problem, fit_and_score, score_draws, score_key
from evenfold.manifests import (
    Manifest,
    SplitSpec,
    canonical_table,
    digest_json,
    fingerprint,
    read_manifest,
    read_table,
    require_columns,
)
from evenfold.splitters import LabelSplitter, SplitError, Splitter
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ._files import sha256, write_aside
from ._home import Home
from .split import stamp

BLOCK = 250


@dataclass(frozen=True)
class Work:
    """A data set joined with its manifest, in key order, as a model sees it: loaded once per process.

    ``place``: where each row of the manifest stands in the problem; -1 for a deleted row that the data lack.
    """

    manifest: Manifest
    problem: Problem
    fingerprint: str
    place: NDArray[np.int64]
    keys: pa.Table | None

    def pair(self, i: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return split ``i`` as positions in the problem."""
        train, test = self.manifest.pair(i)
        return self.place[train], self.place[test]

    @cached_property
    def inner(self) -> Splitter | None:
        """The strategy of cross-validations inside the training rows: the split's own, where it can do that."""
        made = self.manifest.splitter
        needs = made.needs
        usable = isinstance(made, LabelSplitter) and not made.part_codes() and "exhaustive" in made.promises
        return made if usable and not (needs.key or needs.time or needs.fixed) else None

    @cached_property
    def keys_digest(self) -> str:
        """What names the keys: they stand beside the predictions, so other keys are another result."""
        return "positions" if self.keys is None else fingerprint(self.keys)

    def keyed(self, predictions: pd.DataFrame) -> pd.DataFrame:
        """Return predictions with the key columns in front, so that any later run can be compared row by row.

        A key that is called as a column of the predictions, such as row or y, becomes key_row or key_y.
        """
        if self.keys is None:
            return predictions
        keys = self.keys.take(predictions["row"].to_numpy()).to_pandas()
        keys = keys.rename(columns=lambda name: f"key_{name}" if name in predictions else name)
        together: pd.DataFrame = pd.concat([keys, predictions.reset_index(drop=True)], axis=1)
        return together


def work_of(data: str, split: dict[str, Any], model: ModelSpec) -> Work:
    """Return the loaded data of a split and model; the last two are kept in memory."""
    return _work(data, stamp(data), split["uri"], json.dumps(model.model_dump(mode="json")))


@lru_cache(maxsize=2)
def _work(data: str, _stamp: tuple[Any, ...], uri: str, model: str) -> Work:
    manifest = read_manifest(uri)
    table = read_table(data, types=manifest.spec.types)
    positions = manifest.positions(table)
    present = positions >= 0
    ordered = table.take(positions[present])
    problem = _problem(ordered, manifest.spec, ModelSpec.of(json.loads(model)))
    read = fingerprint(canonical_table(ordered, problem.columns_read, manifest.types))
    place = np.where(present, np.cumsum(present) - 1, -1)
    keys = None if manifest.keys is None else manifest.keys.filter(present)
    return Work(manifest, problem, read, place, keys)


def check_model(data: str, spec: SplitSpec, model: ModelSpec) -> None:
    """Raise SplitError or ModelError where ``model`` cannot be trained on ``data``; rows are named by their place."""
    table = read_table(data, types=spec.types)
    canonical_table(table, _problem(table, spec, model).columns_read, spec.types)


def _problem(table: pa.Table, spec: SplitSpec, model: ModelSpec) -> Problem:
    columns = spec.columns
    if columns.target is None:
        raise SplitError("no target column is named, and a model has to predict one; pass --target.")
    require_columns([columns.target], table.column_names)
    frame = table.replace_schema_metadata(None).to_pandas()
    return Problem.of(frame, model, columns.target, columns.roles(), groups=columns.group)


def key_of_split(work: Work, i: int, seed: int) -> str:
    """Return the score key of split ``i``: other splits, and columns that the model does not read, leave it alone."""
    return _key(work, work.manifest.member_digest(i), seed)


def key_of_block(work: Work, first: int, last: int, seed: int, more: str = "") -> str:
    """Return the score key of the splits first..last-1: asking for more draws leaves finished blocks alone."""
    return _key(work, more + digest_json([work.manifest.member_digest(i) for i in range(first, last)]), seed)


def key_of_all(work: Work, seed: int) -> str:
    """Return the score key of the one fit on all rows."""
    return _key(work, f"all {work.manifest.n} rows", seed)


def _key(work: Work, membership: str, seed: int) -> str:
    tuned = work.problem.model.threshold == "tuned" and work.inner is not None
    inner = {"strategy": repr(work.inner)} if tuned else None
    model = work.problem.model
    membership = f"{membership} of {work.keys_digest}"
    return score_key(model, membership=membership, fingerprint=work.fingerprint, seed=seed, inner=inner)


def _require_unchanged(key: str, found: str) -> None:
    """Raise EvaluationError where the data are not those that ``key`` was made of: they were written in between."""
    if found != key:
        raise EvaluationError("the data changed while they were evaluated; run the evaluation again.")


def fit_fold(
    data: str, split: dict[str, Any], i: int, model: dict[str, Any], seed: int, threads: int, key: str, home: str
) -> dict[str, Any]:
    """Fit split ``i``, write its test predictions as Parquet, and return score, file and digest as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    _require_unchanged(key, key_of_split(work, i, seed))
    score, predictions = _fitted(work, i, seed, threads)
    return {"score": score.to_json(), **_keep(work.keyed(predictions), Home(Path(home)).scores / f"{key}.parquet")}


def _fitted(work: Work, i: int, seed: int, threads: int) -> tuple[FoldScore, pd.DataFrame]:
    repeat, fold = work.manifest.split_name(i)
    train, test = work.pair(i)
    # A part that is made for validating is also what an estimator that stops early may watch.
    validation = test if work.problem.model.eval_set else None
    with limited(threads):
        return fit_and_score(
            work.problem.model, work.problem, train, test, seed=seed, name=split_title(work.manifest, i),
            repeat=repeat, fold=fold, inner=work.inner, validation=validation,
        )  # fmt: skip


def fit_holdout(
    data: str, split: dict[str, Any], model: dict[str, Any], seed: int, threads: int, home: str
) -> dict[str, Any]:
    """Fit every row but the locked ones, score the locked ones, and return score and predictions' file as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    train, test = (work.place[rows] for rows in work.manifest.locked_pair())
    with limited(threads):
        score, predictions = fit_and_score(
            work.problem.model, work.problem, train, test, seed=seed, name="holdout", inner=work.inner
        )
    key = _key(work, f"holdout {work.manifest.split_id}", seed)
    return {"score": score.to_json(), **_keep(work.keyed(predictions), Home(Path(home)).scores / f"{key}.parquet")}


def fit_all(
    data: str, split: dict[str, Any], model: dict[str, Any], seed: int, threads: int, key: str, home: str
) -> dict[str, Any]:
    """Fit all rows that may be used and score the same rows: the apparent score, with its predictions in a file."""
    work = work_of(data, split, ModelSpec.of(model))
    _require_unchanged(key, key_of_all(work, seed))
    codes = work.manifest.codes_in_use.reshape(work.manifest.n, -1)[:, 0]
    rows = work.place[np.flatnonzero(codes >= -1)]
    with limited(threads):
        score, predictions = fit_and_score(
            work.problem.model, work.problem, rows, rows, seed=seed, name="all rows", inner=work.inner
        )
    return {"score": score.to_json(), **_keep(work.keyed(predictions), Home(Path(home)).scores / f"{key}.parquet")}


def fit_block(
    data: str,
    split: dict[str, Any],
    first: int,
    last: int,
    apparent: bool,
    model: dict[str, Any],
    seed: int,
    threads: int,
    key: str,
    home: str,
) -> dict[str, Any]:
    """Fit the draws first..last-1; write the table of their scores and the sums of losses per row; return the files."""
    work = work_of(data, split, ModelSpec.of(model))
    _require_unchanged(key, key_of_block(work, first, last, seed, "apparent " if apparent else ""))
    draws = ((i, work.pair(i)) for i in range(first, last))
    with limited(threads):
        scored = score_draws(work.problem.model, work.problem, draws, seed=seed, apparent=apparent, inner=work.inner)
    table, rows = scored.to_frames()
    place = Home(Path(home)).scores
    sums = _keep(rows, place / f"{key}-rows.parquet")
    return {**_keep(table, place / f"{key}.parquet"), "rows": sums}


def fit_folds(
    data: str,
    split: dict[str, Any],
    first: int,
    last: int,
    model: dict[str, Any],
    seed: int,
    threads: int,
    key: str,
    home: str,
) -> dict[str, Any]:
    """Fit the folds first..last-1 of very many, and write their predictions; scores come back as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    _require_unchanged(key, key_of_block(work, first, last, seed))
    fitted = [_fitted(work, i, seed, threads) for i in range(first, last)]
    predictions = work.keyed(pd.concat([each for _, each in fitted], ignore_index=True))
    file = _keep(predictions, Home(Path(home)).scores / f"{key}.parquet")
    return {"scores": [score.to_json() for score, _ in fitted], **file}


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, and draws are many


def limited(threads: int) -> AbstractContextManager[Any]:
    """Return a context in which a fit uses ``threads`` OpenMP threads and one BLAS thread.

    Parallel fits with a full set of threads each would wait for one another; and one BLAS thread gives the same
    rounding whatever else runs.
    """
    limits: AbstractContextManager[Any] = _pools().limit(limits={"openmp": threads, "blas": 1})
    return limits


def split_title(manifest: Manifest, i: int) -> str:
    """Return what people call split ``i``."""
    repeat, fold = manifest.split_name(i)
    if manifest.kind == "draws":
        return f"resample {i}"
    return f"repeat {repeat} fold {fold}" if manifest.codes.ndim == 2 else f"fold {fold}"


def _keep(table: pd.DataFrame, path: Path) -> dict[str, Any]:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    write_aside(path, lambda aside: pq.write_table(arrow, aside, compression="zstd"))
    return {"file": str(path), "sha256": sha256(path)}


def kept(result: dict[str, Any]) -> bool:
    """Return whether the file that a cached result names still lies there, undamaged."""
    files = [result, *([result["rows"]] if "rows" in result else [])]
    return all(Path(each["file"]).exists() and sha256(Path(each["file"])) == each["sha256"] for each in files)

"""The fit steps: one model on one split, or on a block of draws."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.estimates import FoldScore, ModelSpec, Problem, fit_and_score, score_key
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
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from ._files import from_anywhere, sha256, write_aside
from ._home import Home
from ._resources import limited, peak_memory
from .split import stamp

BLOCK = 250


@dataclass(frozen=True)
class Work:
    """A data set joined with its manifest, in key order, as a model sees it: loaded once per process."""

    manifest: Manifest
    problem: Problem
    fingerprint: str
    keys: pa.Table | None


def work_of(data: str, split: dict[str, Any], model: ModelSpec) -> Work:
    """Return the loaded data of a split and model; the last two are kept in memory."""
    data = from_anywhere(data)
    return _work(data, stamp(data), split["uri"], json.dumps(model.model_dump(mode="json")))


@lru_cache(maxsize=2)
def _work(data: str, _stamp: tuple[Any, ...], uri: str, model: str) -> Work:
    manifest = read_manifest(uri)
    table = read_table(data, types=manifest.spec.types)
    ordered = table.take(manifest.positions(table))
    problem = _problem(ordered, manifest.spec, ModelSpec.of(json.loads(model)))
    read = canonical_table(ordered, problem.columns_read, manifest.types)
    return Work(manifest, problem, fingerprint(read), manifest.keys)


def check_model(data: str, spec: SplitSpec, model: ModelSpec) -> None:
    """Raise SplitError or ModelError where ``model`` cannot be trained on ``data``; rows are named by their place."""
    _problem(read_table(data, types=spec.types), spec, model)


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


def key_of_block(work: Work, first: int, last: int, seed: int) -> str:
    """Return the score key of the draws first..last-1: asking for more draws leaves finished blocks alone."""
    return _key(work, digest_json([work.manifest.member_digest(i) for i in range(first, last)]), seed)


def key_of_all(work: Work, seed: int) -> str:
    """Return the score key of the one fit on all rows: more draws leave it alone, another locked part does not."""
    return _key(work, f"all rows {hashlib.sha256(training_rows(work).astype('<i8').tobytes()).hexdigest()}", seed)


def training_rows(work: Work) -> NDArray[np.int64]:
    """Return the rows that a model of all rows learns from: in use, and neither locked nor excluded."""
    return np.flatnonzero(work.manifest.codes_in_use.reshape(work.manifest.n, -1)[:, 0] >= -1)


def _key(work: Work, membership: str, seed: int) -> str:
    return score_key(work.problem.model, membership=membership, fingerprint=work.fingerprint, seed=seed)


def fit_fold(
    data: str, split: dict[str, Any], i: int, model: dict[str, Any], seed: int, threads: int, key: str, home: str
) -> dict[str, Any]:
    """Fit split ``i``, write its test predictions as Parquet, and return score, file and digest as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    repeat, fold = work.manifest.split_name(i)
    train, test = work.manifest.pair(i)
    title = split_title(work.manifest, i)
    with limited(threads):
        score, predictions = fit_and_score(
            work.problem.model, work.problem, train, test, seed=seed, name=title, repeat=repeat, fold=fold
        )
    file = _keep(_with_keys(work, predictions), Home(Path(home)).scores / f"{key}.parquet")
    return {"score": score.to_json(), **file, "peak_memory_mb": peak_memory()}


def fit_holdout(
    data: str, split: dict[str, Any], model: dict[str, Any], seed: int, threads: int, home: str
) -> dict[str, Any]:
    """Fit every row but the locked ones, score the locked ones, and return score and predictions' file as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    train, test = work.manifest.locked_pair()
    with limited(threads):
        score, predictions = fit_and_score(work.problem.model, work.problem, train, test, seed=seed, name="holdout")
    key = _key(work, f"holdout {work.manifest.split_id}", seed)
    return {
        "score": score.to_json(),
        **_keep(_with_keys(work, predictions), Home(Path(home)).scores / f"{key}.parquet"),
    }


def fit_all(data: str, split: dict[str, Any], model: dict[str, Any], seed: int, threads: int) -> dict[str, Any]:
    """Fit all rows that may be used, score the same rows, and return the apparent score as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    rows = training_rows(work)
    with limited(threads):
        score, _ = fit_and_score(work.problem.model, work.problem, rows, rows, seed=seed, name="all rows")
    return {"score": score.to_json()}


def fit_block(
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
    """Fit the draws first..last-1, write the table of their scores as Parquet, and return file and digest as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    scores = []
    for i in range(first, last):
        train, test = work.manifest.pair(i)
        title = split_title(work.manifest, i)
        with limited(threads):
            score, _ = fit_and_score(work.problem.model, work.problem, train, test, seed=seed, name=title, fold=i)
        scores.append(score)
    return _keep(scores_table(scores), Home(Path(home)).scores / f"{key}.parquet")


def split_title(manifest: Manifest, i: int) -> str:
    """Return what people call split ``i``."""
    repeat, fold = manifest.split_name(i)
    if manifest.kind == "draws":
        return f"resample {i}"
    return f"repeat {repeat} fold {fold}" if manifest.codes.ndim == 2 else f"fold {fold}"


def scores_table(scores: list[FoldScore]) -> pd.DataFrame:
    """Return one row per score: split, sizes, seconds, and every metric as test_<name> and apparent_<name>."""
    return pd.DataFrame(
        {
            "repeat": s.repeat,
            "fold": s.fold,
            "n_train": s.n_train,
            "n_test": s.n_test,
            "seconds_fit": s.seconds_fit,
            "seconds_score": s.seconds_score,
            **{f"test_{name}": value for name, value in s.test.items()},
            **{f"apparent_{name}": value for name, value in s.apparent.items()},
        }
        for s in scores
    )


def scores_in(table: pd.DataFrame) -> list[FoldScore]:
    """Return the scores that ``scores_table`` wrote."""

    def side(row: Mapping[Any, Any], prefix: str) -> dict[str, float]:
        return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}

    plain = ["repeat", "fold", "n_train", "n_test", "seconds_fit", "seconds_score"]
    return [
        FoldScore(
            name=f"resample {row['fold']}",
            test=side(row, "test_"),
            apparent=side(row, "apparent_"),
            **{name: row[name] for name in plain},
        )
        for row in table.to_dict("records")
    ]


def _with_keys(work: Work, predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions with the key columns in front, so that any later run can be compared row by row."""
    if work.keys is None:
        return predictions
    keys = work.keys.take(predictions["row"].to_numpy()).to_pandas()
    together: pd.DataFrame = pd.concat([keys, predictions.reset_index(drop=True)], axis=1)
    return together


def _keep(table: pd.DataFrame, path: Path) -> dict[str, Any]:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    write_aside(path, lambda aside: pq.write_table(arrow, aside, compression="zstd"))
    return {"file": str(path), "sha256": sha256(path)}


def kept(result: dict[str, Any]) -> bool:
    """Return whether the file that a cached result names still lies there, undamaged."""
    path = Path(result["file"])
    return path.exists() and sha256(path) == result["sha256"]

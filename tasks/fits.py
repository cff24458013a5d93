"""The fit steps: one model on one split, or on a block of draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import skops.io
from evenfold.estimates import FoldScore, ModelSpec, fit_and_score, fitted, score_draws
from evenfold.manifests import Manifest
from evenfold.tasks.results.files import sha256, write_aside
from evenfold.tasks.runtime.engine import limited, peak_memory
from evenfold.tasks.runtime.home import Home

from .work import Work, key_of, key_of_all, key_of_block, key_of_split, require_unchanged, training_rows, work_of

BLOCK = 250


def fit_fold(
    data: str, split: dict[str, Any], i: int, model: dict[str, Any], seed: int, threads: int, key: str, home: str
) -> dict[str, Any]:
    """Fit split ``i``, write its test predictions as Parquet, and return score, file and digest as JSON."""
    work = work_of(data, split, ModelSpec.of(model))
    require_unchanged(key, key_of_split(work, i, seed))
    score, predictions = _fitted(work, i, seed, threads)
    file = _keep(work.keyed(predictions), Home(Path(home)).scores / f"{key}.parquet")
    return {"score": score.to_json(), **file, "peak_memory_mb": peak_memory()}


def _fitted(work: Work, i: int, seed: int, threads: int) -> tuple[FoldScore, pd.DataFrame]:
    repeat, fold = work.manifest.membership.split_name(i)
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
    key = key_of(work, f"holdout {work.manifest.split_id}", seed)
    return {"score": score.to_json(), **_keep(work.keyed(predictions), Home(Path(home)).scores / f"{key}.parquet")}


def fit_all(
    data: str, split: dict[str, Any], model: dict[str, Any], seed: int, threads: int, key: str, home: str
) -> dict[str, Any]:
    """Fit all rows that may be used and score the same rows: the apparent score, with its predictions in a file."""
    work = work_of(data, split, ModelSpec.of(model))
    require_unchanged(key, key_of_all(work, seed))
    rows = work.place[training_rows(work)]
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
    require_unchanged(key, key_of_block(work, first, last, seed, "apparent " if apparent else ""))
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
    require_unchanged(key, key_of_block(work, first, last, seed))
    fitted = [_fitted(work, i, seed, threads) for i in range(first, last)]
    predictions = work.keyed(pd.concat([each for _, each in fitted], ignore_index=True))
    file = _keep(predictions, Home(Path(home)).scores / f"{key}.parquet")
    return {"scores": [score.to_json() for score, _ in fitted], **file}


def split_title(manifest: Manifest, i: int) -> str:
    """Return what people call split ``i``."""
    return manifest.membership.split_title(i)


def _keep(table: pd.DataFrame, path: Path) -> dict[str, Any]:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    write_aside(path, lambda aside: pq.write_table(arrow, aside, compression="zstd"))
    return {"file": str(path), "sha256": sha256(path)}


def kept(result: dict[str, Any]) -> bool:
    """Return whether the file that a cached result names still lies there, undamaged."""
    files = [result, *([result["rows"]] if "rows" in result else [])]
    return all(Path(each["file"]).exists() and sha256(Path(each["file"])) == each["sha256"] for each in files)


def fit_final(
    data: str,
    split: dict[str, Any],
    model: dict[str, Any],
    seed: int,
    threads: int,
    key: str,
    home: str,
    i: int | None = None,
) -> dict[str, Any]:
    """Fit all training rows, or those of split ``i``; keep the model as a skops file; return file, digest, rows."""
    work = work_of(data, split, ModelSpec.of(model))
    rows, test = (work.place[training_rows(work)], None) if i is None else work.pair(i)
    watched = test if work.problem.model.eval_set else None
    name = "the final model" if i is None else f"the model of split {i}"
    with limited(threads):
        made = fitted(
            work.problem.model, work.problem, rows, seed=seed, name=name, inner=work.inner, validation=watched
        )
    path = Home(Path(home)).shared / "models" / f"{key}.skops"
    write_aside(path, lambda aside: skops.io.dump(made, aside))
    return {"file": str(path), "sha256": sha256(path), "n_train": int(rows.size)}

"""The task that fits: one model on one split, on a block of them, on all rows; and the last one, which is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

import pandas as pd
import pyarrow as pa
from evenfold.estimates import EvaluationError, FoldScore, fit_and_score, fit_predictions, fitted, score_draws
from evenfold.estimates.results import hearing
from evenfold.manifests.tables.aside import parquet_bytes

from .outcomes import Block, FinalModel, FitIndex, FitResult, KeptFile, SplitRef, Trained
from .parameters import Model, TimeLimit
from .runtime.home import keep_file
from .runtime.limits import limited, within
from .runtime.progress import setting
from .runtime.signing import sign
from .steps import REFRESHING, Finished, finished_here, is_refreshing, step, tell
from .work import Work, job_of, key_of_fit, work_of


def _key(split: SplitRef, i: FitIndex, model: Any = None, of: str | int = "folds", **_: object) -> str | None:
    # A look at the locked rows is never taken from the cache.
    return None if i == "holdout" else f"score/{key_of_fit(work_of(split, model), i, of)}"


def _title(split: SplitRef, i: FitIndex, model: Any = None, of: str | int = "folds", **_: object) -> str:
    return f"fit {job_of(work_of(split, model), i, of).name}"


@step(key_of=_key, run_name=_title)
def fit_fold(
    split: SplitRef, i: FitIndex, model: Model = None, *, of: str | int = "folds", time_limit: TimeLimit = None
) -> FitResult:
    """Fit a model on split ``i``, keep its test predictions, and return its scores.

    ``i``: the number of a split; a block of them (first, last + 1), which makes one file of predictions, of draws one
    of scores; "all rows", which trains on, and scores, all that may be used; or "holdout", which tests the locked rows:
    record the look first, see ``record_look``. ``of``: "folds"; "inside" predicts the training rows of split ``i``
    over folds of its own strategy; an interval method, or so many repeats, makes its further fit ``i``
    (``further_pairs``). The latter two are not scored. What depends on the same rows, columns that the model reads,
    recipe, seed and versions of libraries is fitted once. Raises EvaluationError, ModelError or SplitError, as where a
    strategy cannot split some of the rows again.
    """
    name = "" if time_limit is None else job_of(work_of(split, model), i, of).name
    return within(time_limit, name, _fit, split, i, model, of)


def _fit(split: SplitRef, i: FitIndex, model: Any, of: str | int) -> FitResult:
    work = work_of(split, model)
    key, job, problem = key_of_fit(work, i, of), job_of(work, i, of), work.problem
    how: Any = {"seed": work.manifest.spec.seed, "inner": work.inner}
    scores: list[FoldScore] = []
    n_fits, losses = 1, None
    with limited(problem.X.size):
        if work.manifest.kind == "draws" and isinstance(i, (tuple, list)):
            draws = ((number, pair) for number, (pair, _) in zip(range(*i), job.fits, strict=True))
            scored = score_draws(problem, draws, **how)
            table, losses = scored.table, keep_predictions(scored.rows, f"{key}-rows")
        elif job.scored:
            fits = [fit_and_score(problem, train, test, **called, **how) for (train, test), called in job.fits]
            table = work.keyed(pd.concat([predicted for _, predicted in fits], ignore_index=True))
            scores = [score for score, _ in fits]
        else:
            frames = [fit_predictions(problem, train, test, **called, **how) for (train, test), called in job.fits]
            table, n_fits = pd.concat(frames, ignore_index=True), len(frames)
    number: Any = i if isinstance(i, str) else tuple(map(int, i)) if isinstance(i, (tuple, list)) else int(i)
    return FitResult(
        key=key, split_id=work.manifest.split_id, fingerprint=work.fingerprint, model=problem.model,
        i=number, of=of, scores=scores, predictions=keep_predictions(table, key), losses=losses, n_fits=n_fits,
    )  # fmt: skip


@step(
    run_name=lambda split, block, model=None, of="folds", **_: (
        f"fit {'folds' if of == 'folds' else 'further fits'} {block[0]}-{block[1] - 1}"
    ),
    retries=0,
)
def fit_short(
    split: SplitRef, block: Block, model: Model = None, *, of: str | int = "folds", apart: bool = False
) -> list[Finished[FitResult]]:
    """Do what ``fit_fold`` does for each number of a block (first, last + 1), in one task run: a run costs 50 ms.

    Each fit is locked, found and kept under its own score key: a kill loses only the one under way, and one that fails
    comes to nothing. ``apart``: in a process of their own.
    """
    limit = inf if apart else None
    return within(limit, f"fits {block[0]}-{block[1] - 1}", _fit_each, split, block, model, of, is_refreshing())


def _fit_each(split: SplitRef, block: Block, model: Any, of: str | int, refresh: bool) -> list[Finished[FitResult]]:
    with setting(REFRESHING, refresh):
        fits = [finished_here(fit_fold, split, i, model, of=of) for i in range(*block)]
    return [replace(fit, error=None) for fit in fits]  # which may be of a kind that no other process knows


def require_final(work: Work, model: FinalModel, name: str, of: Iterable[Trained]) -> None:
    """Raise EvaluationError where a kept model, given as ``name``, was not trained on rows that ``of`` names."""
    bare = work.without_metrics()
    if not any(model.key == key_of_fit(work, i) or model.learnt == key_of_fit(bare, i) for i in of):
        on = f"{work.manifest.name} {work.manifest.version}"
        raise EvaluationError(
            f"the model that is given as {name} is not {work.problem.model.title} on these rows of {on}, but of "
            "another recipe, split or rows; pass what fit_final(split, model) returns of the same."
        )


@step(
    key_of=lambda split, model=None, i="all rows": f"model/{key_of_fit(work_of(split, model), i)}",
    run_name=lambda split, model=None, i="all rows": f"fit the model of {job_of(work_of(split, model), i).name}",
)
def fit_final(split: SplitRef, model: Model = None, i: Trained = "all rows") -> FinalModel:
    """Fit all training rows, or those of split ``i``, and keep the model as a skops file; the log has its warnings."""
    work = work_of(split, model)
    key, job = key_of_fit(work, i), job_of(work, i)
    (rows, _), _ = next(iter(job.fits))
    name = f"the model of {job.name}"
    with limited(work.problem.X.size), hearing() as heard:
        trained = fitted(work.problem, rows, seed=work.manifest.spec.seed, name=name, inner=work.inner)
    tell(f"{name}: {sentence}" for sentence in heard)
    import skops.io  # half a second for whoever keeps no model

    file = _kept_file(f"models/{key}.skops", skops.io.dumps(trained))
    final = FinalModel(key=key, file=file, n_train=int(rows.size), learnt=key_of_fit(work.without_metrics(), i))
    return final.model_copy(update={"signature": sign("model", final.claim)})


def keep_predictions(table: pd.DataFrame | pa.Table, key: str) -> KeptFile:
    """Write a table of predictions or scores below the home, under its key."""
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    # Few numbers come twice: a dictionary of them would take a quarter more room, and a third more time to write.
    words: Any = [column.name for column in arrow.schema if not pa.types.is_primitive(column.type)]
    return _kept_file(f"scores/{key}.parquet", parquet_bytes(arrow, use_dictionary=words))


def _kept_file(name: str, content: bytes | memoryview) -> KeptFile:
    # Its digest is of these bytes: others may write over the file where results are shared.
    file = KeptFile(name=name, sha256=hashlib.sha256(content).hexdigest())
    keep_file(file.path, content)
    return file

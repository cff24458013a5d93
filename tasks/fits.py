"""The tasks that fit: one model on one split, on a block of splits, on all rows, and the last one, which is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.estimates import (
    EvaluationError,
    FoldScore,
    ModelSpec,
    fit_and_score,
    fit_predictions,
    fitted,
    score_draws,
)
from evenfold.estimates.models.fit import inner_pairs
from evenfold.estimates.models.importance import MOST_FOLDS
from evenfold.splitters import SplitError, Splitter
from numpy.typing import NDArray

from .outcomes import DrawsResult, FinalModel, FoldResult, FoldsResult, InnerResult, KeptFile, Refit, SplitRef
from .parameters import Apparent, Model, TimeLimit
from .runtime.files import parquet_bytes, write_aside
from .runtime.home import Home
from .runtime.limits import fair_threads, limited, peak_memory, within
from .runtime.signing import sign
from .steps.running import finished_here
from .steps.step import UNDER_KEY, refreshing, step
from .work import (
    Block,
    Work,
    further_pairs,
    key_of,
    key_of_all,
    key_of_block,
    key_of_inner,
    key_of_pair,
    key_of_split,
    training_rows,
    work_of,
)


def _fold_key(split: SplitRef, i: int, model: Any = None, **_: Any) -> str:
    return f"score/{key_of_split(work_of(split, model), i)}"


def _fold_title(split: SplitRef, i: int, model: Any = None, **_: Any) -> str:
    return f"fit {work_of(split, model).manifest.membership.split_title(i)}"


@step(key_of=_fold_key, run_name=_fold_title)
def fit_fold(split: SplitRef, i: int, model: Model = None, *, time_limit: TimeLimit = None) -> FoldResult:
    """Fit a model on split ``i``, keep its test predictions, and return its scores.

    A fit is computed once for what it depends on: the rows of this split, the columns that the model reads, the
    recipe, the seed and the versions of the libraries. Raises EvaluationError, ModelError or SplitError.
    """
    work = work_of(split, model)
    key = _unchanged(key_of_split(work, i))
    return within(time_limit, work.manifest.membership.split_title(i), _fit_fold, split, i, model, key)


def _fit_fold(split: SplitRef, i: int, model: Any, key: str) -> FoldResult:
    work = work_of(split, model)
    score, predictions = _scored(work, i)
    return _fold_result(work, score, predictions, key)


def _scored(work: Work, i: int) -> tuple[FoldScore, pd.DataFrame]:
    repeat, fold = work.manifest.membership.split_name(i)
    train, test = work.pair(i)
    with limited(fair_threads()):
        return fit_and_score(
            work.problem.model, work.problem, train, test, seed=work.manifest.spec.seed,
            name=work.manifest.membership.split_title(i), repeat=repeat, fold=fold, inner=work.inner,
            importance=i < MOST_FOLDS,
        )  # fmt: skip


def _fold_result(work: Work, score: FoldScore, predictions: pd.DataFrame, key: str) -> FoldResult:
    return FoldResult(
        score=score,
        predictions=keep_predictions(work.keyed(predictions), key),
        peak_memory_mb=peak_memory(),
        **_about(work),
    )


class _About(TypedDict):
    split_id: str
    fingerprint: str
    model: ModelSpec


def _about(work: Work) -> _About:
    """Return what every ``Fit`` says."""
    return {"split_id": work.manifest.split_id, "fingerprint": work.fingerprint, "model": work.problem.model}


def _resampled(apparent: str) -> bool:
    if apparent not in ("full", "resample"):
        raise SplitError(f"apparent={apparent!r} is unknown; choose full or resample.")
    return apparent == "resample"


def _block_key(split: SplitRef, block: Block, model: Any = None, apparent: str = "full", **_: Any) -> str:
    return f"score/{key_of_block(work_of(split, model), block, _resampled(apparent))}"


@step(
    key_of=_block_key,
    run_name=lambda split, block, **_: f"fit draws {block[0]}-{block[1] - 1}",
)
def fit_draws(
    split: SplitRef, block: Block, model: Model = None, *, apparent: Apparent = "full", time_limit: TimeLimit = None
) -> DrawsResult:
    """Fit a model on each draw of a block (first, last + 1); keep the table of scores and the losses per row.

    ``apparent="resample"`` scores each model on its own draw as well. Asking for more draws leaves finished blocks
    alone. Raises EvaluationError, ModelError or SplitError.
    """
    work = work_of(split, model)
    resampled = _resampled(apparent)
    key = _unchanged(key_of_block(work, block, resampled))
    name = f"draws {block[0]}-{block[1] - 1}"
    return within(time_limit, name, _fit_draws, split, block, model, resampled, key)


def _fit_draws(split: SplitRef, block: Block, model: Any, apparent: bool, key: str) -> DrawsResult:
    work = work_of(split, model)
    draws = ((i, work.pair(i)) for i in range(*block))
    with limited(fair_threads()):
        scored = score_draws(
            work.problem.model, work.problem, draws, seed=work.manifest.spec.seed, apparent=apparent, inner=work.inner
        )
    table, losses = scored.to_frames()
    scores, sums = keep_predictions(table, key), keep_predictions(losses, f"{key}-rows")
    return DrawsResult(first=block[0], last=block[1], scores=scores, losses=sums, **_about(work))


def _named(block: Block) -> str:
    first, last = block[0], block[1] - 1
    return f"fit fold {first}" if first == last else f"fit folds {first}-{last}"


@step(
    key_of=_block_key,
    run_name=lambda split, block, **_: _named(block),
)
def fit_folds(split: SplitRef, block: Block, model: Model = None, *, time_limit: TimeLimit = None) -> FoldsResult:
    """Fit a model on each fold of a block of very many, and keep their predictions in one file. Raises as fit_fold."""
    work = work_of(split, model)
    key = _unchanged(key_of_block(work, block))
    return within(time_limit, f"folds {block[0]}-{block[1] - 1}", _fit_folds, split, block, model, key)


def _fit_folds(split: SplitRef, block: Block, model: Any, key: str) -> FoldsResult:
    work = work_of(split, model)
    results = [_scored(work, i) for i in range(*block)]
    predictions = work.keyed(pd.concat([table for _, table in results], ignore_index=True))
    return FoldsResult(
        scores=[score for score, _ in results], predictions=keep_predictions(predictions, key), **_about(work)
    )


@step(run_name=lambda split, block, **_: _named(block), retries=0)
def fit_short_folds(
    split: SplitRef, block: Block, model: Model = None, *, refresh: bool = False
) -> list[tuple[FoldResult | None, bool]]:
    """Do what ``fit_fold`` does for each fold of a block (first, last + 1), in one task run: a run costs 50 ms.

    Each fold is locked, found and kept under its own score key, at once: whoever asks for single folds or other
    blocks finds it, and a kill loses only the fold that was under way. Returns for each fold its result, None where
    it failed, which stops no other, and whether it came from the cache; ``refresh`` computes again what that holds.
    """
    with refreshing(refresh):
        finished = [finished_here(fit_fold, split, i, model) for i in range(*block)]
    return [(None if fold.error else fold.value, fold.cached) for fold in finished]


def _refit_key(split: SplitRef, asked: str | int, i: int, model: Any = None, **_: Any) -> str:
    work = work_of(split, model)
    return f"score/{key_of_pair(work, *further_pairs(work, asked)[i])}"


def _asked(asked: str | int) -> str:
    return asked if isinstance(asked, str) else f"{asked} repeats"


@step(key_of=_refit_key, run_name=lambda asked, i, **_: f"{_asked(asked)}: further fit {i}")
def fit_further(
    split: SplitRef, asked: str | int, i: int, model: Model = None, *, time_limit: TimeLimit = None
) -> Refit:
    """Fit the further model ``i`` that an interval method asks for, or so many repeats, and keep its predictions.

    See ``further_pairs``. It is named by its rows: whatever asks for the same fit finds it. Raises as ``fit_fold``
    does.
    """
    work = work_of(split, model)
    key = _unchanged(key_of_pair(work, *further_pairs(work, asked)[i]))
    return within(time_limit, f"{_asked(asked)}, further fit {i}", _fit_further, split, asked, i, model, key)


def _fit_further(split: SplitRef, asked: str | int, i: int, model: Any, key: str) -> Refit:
    work = work_of(split, model)
    with limited(fair_threads()):
        predictions = fit_predictions(
            work.problem.model, work.problem, *further_pairs(work, asked)[i], seed=work.manifest.spec.seed,
            name=f"{_asked(asked)}, further fit {i}", inner=work.inner,
        )  # fmt: skip
    return Refit(predictions=keep_predictions(predictions, key), **_about(work))


@step(
    run_name=lambda asked, block, **_: f"{_asked(asked)}: further fits {block[0]}-{block[1] - 1}",
    retries=0,
)
def fit_short_further(
    split: SplitRef, asked: str | int, block: Block, model: Model = None, *, refresh: bool = False
) -> list[tuple[Refit | None, bool]]:
    """Do what ``fit_further`` does for each of a block (first, last + 1), in one task run; see ``fit_short_folds``."""
    with refreshing(refresh):
        finished = [finished_here(fit_further, split, asked, i, model) for i in range(*block)]
    return [(None if fit.error else fit.value, fit.cached) for fit in finished]


def _inner_key(split: SplitRef, i: int, model: Any = None, **_: Any) -> str:
    return f"score/{key_of_inner(work_of(split, model), i)}"


@step(key_of=_inner_key, run_name=lambda split, i, **_: f"{split.name}: inside split {i}")
def fit_inner(split: SplitRef, i: int, model: Model = None, *, time_limit: TimeLimit = None) -> InnerResult:
    """Fit a model on the inner folds of split ``i``: those of the split's own strategy on its training rows.

    Groups stay whole. What is kept are the predictions of the training rows by models that did not see them, by which a
    configuration is chosen without the rows that then judge it. Raises as ``fit_fold`` does, and SplitError where the
    strategy cannot be asked again about some of the rows.
    """
    work = work_of(split, model)
    key = _unchanged(key_of_inner(work, i))
    return within(time_limit, f"inside {work.manifest.membership.split_title(i)}", _fit_inner, split, i, model, key)


def _fit_inner(split: SplitRef, i: int, model: Any, key: str) -> InnerResult:
    work = work_of(split, model)
    problem, seed = work.problem, work.manifest.spec.seed
    train, _ = work.pair(i)
    pairs = inner_pairs(problem, train, seed, require_inner(work))
    with limited(fair_threads()):
        frames = [
            fit_predictions(
                problem.model, problem, train[inside], train[out], seed=seed, fold=fold, inner=work.inner,
                name=f"inner fold {fold} of {work.manifest.membership.split_title(i)}",
            )
            for fold, (inside, out) in enumerate(pairs)
        ]  # fmt: skip
    predictions = pd.concat(frames, ignore_index=True)
    return InnerResult(predictions=keep_predictions(predictions, key), n_fits=len(pairs), **_about(work))


def require_inner(work: Work) -> Splitter:
    """Return the strategy of the inner folds; raises SplitError where it cannot split some of the rows again."""
    if work.inner is None:
        name = type(work.manifest.splitter).__name__
        raise SplitError(
            f"{name} cannot split the training rows of a fold again, so nothing can be chosen inside them; "
            "tune without nested, or use folds such as KFold, StratifiedKFold or BalancedGroupKFold."
        )
    return work.inner


def _all_key(split: SplitRef, model: Any = None, **_: Any) -> str:
    return f"score/{key_of_all(work_of(split, model))}"


@step(key_of=_all_key, run_name=lambda split, **_: f"fit all rows of {split.name}")
def fit_all(split: SplitRef, model: Model = None, *, time_limit: TimeLimit = None) -> FoldResult:
    """Fit all rows that may be used and score the same rows: the apparent score, with its predictions."""
    work = work_of(split, model)
    key = _unchanged(key_of_all(work))
    return within(time_limit, "all rows", _fit_rows, split, model, "all rows", key)


@step(run_name=lambda split, **_: f"fit and score the holdout of {split.name}")
def fit_holdout(split: SplitRef, model: Model = None, *, time_limit: TimeLimit = None) -> FoldResult:
    """Fit every row but the locked ones, and score the locked ones. Record the look first: see ``record_look``."""
    work = work_of(split, model)
    key = key_of(work, f"holdout {work.manifest.split_id}")
    return within(time_limit, "holdout", _fit_rows, split, model, "holdout", key)


def _fit_rows(split: SplitRef, model: Any, name: str, key: str) -> FoldResult:
    work = work_of(split, model)
    rows = work.place[training_rows(work)]
    train, test = (rows, rows) if name == "all rows" else _locked(work)
    with limited(fair_threads()):
        score, predictions = fit_and_score(
            work.problem.model, work.problem, train, test, seed=work.manifest.spec.seed, name=name, inner=work.inner
        )
    return _fold_result(work, score, predictions, key)


def _locked(work: Work) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    train, test = work.manifest.locked_pair()
    return work.place[train], work.place[test]


def final_key(work: Work, i: int | None = None) -> str:
    """Return the key of the model of all rows, or of split ``i``."""
    return key_of_all(work) if i is None else key_of_split(work, i)


def require_final(work: Work, model: FinalModel, name: str, splits: Iterable[int | None]) -> None:
    """Raise EvaluationError where a kept model, given as ``name``, is of none of ``splits``; None is all rows.

    The metrics of its recipe may be others, for nothing is learnt from them.
    """
    bare = work.without_metrics()
    if not any(model.key == final_key(work, i) or model.learnt == final_key(bare, i) for i in splits):
        on = f"{work.manifest.name} {work.manifest.version}"
        raise EvaluationError(
            f"the model that is given as {name} is not {work.problem.model.title} on these rows of {on}, but of "
            "another recipe, split or rows; pass what fit_final(split, model) returns of the same."
        )


def _final_key(split: SplitRef, model: Any = None, i: int | None = None, **_: Any) -> str:
    return f"model/{final_key(work_of(split, model), i)}"


def _final_title(split: SplitRef, model: Any = None, i: int | None = None, **_: Any) -> str:
    name = "all rows" if i is None else work_of(split, model).manifest.membership.split_title(i)
    return f"fit the model of {name}"


@step(key_of=_final_key, run_name=_final_title)
def fit_final(split: SplitRef, model: Model = None, i: int | None = None) -> FinalModel:
    """Fit all training rows, or those of split ``i``, and keep the model as a skops file."""
    work = work_of(split, model)
    key = _unchanged(final_key(work, i))
    rows = work.place[training_rows(work)] if i is None else work.pair(i)[0]
    name = "the final model" if i is None else f"the model of split {i}"
    with limited(fair_threads()):
        trained = fitted(
            work.problem.model, work.problem, rows, seed=work.manifest.spec.seed, name=name, inner=work.inner
        )
    import skops.io  # half a second for whoever keeps no model

    path, content = Home.here().shared / "models" / f"{key}.skops", skops.io.dumps(trained)
    write_aside(path, lambda aside: aside.write_bytes(content))
    # Its digest is of these bytes: others may have written over the file where results are shared.
    file = KeptFile(path=str(path), sha256=hashlib.sha256(content).hexdigest())
    made = FinalModel(key=key, file=file, n_train=int(rows.size), learnt=final_key(work.without_metrics(), i))
    return made.model_copy(update={"signature": sign("model", made.claim)})


def keep_predictions(table: pd.DataFrame | pa.Table, key: str) -> KeptFile:
    """Write a table of predictions or scores below the home, under its key."""
    path = Home.here().scores / f"{key}.parquet"
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    # Few numbers come twice: a dictionary of them would take a quarter more room, and a third more time to write.
    words: Any = [column.name for column in arrow.schema if not pa.types.is_primitive(column.type)]
    content = parquet_bytes(arrow, use_dictionary=words)
    write_aside(path, lambda aside: aside.write_bytes(content))
    return KeptFile(path=str(path), sha256=hashlib.sha256(content).hexdigest())


def _unchanged(key: str) -> str:
    """Return the key; raises EvaluationError where the step's was made of data that were written since."""
    wanted = UNDER_KEY.get()
    if wanted is not None and wanted.partition("/")[2] != key:
        raise EvaluationError("the data changed while they were evaluated; run the evaluation again.")
    return key

"""The task that fits: one model on one split, on a block of them, on all rows; and the last one, which is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from math import inf
from typing import Any

import pandas as pd
import pyarrow as pa
from evenfold.estimates import EvaluationError, FoldScore, fit_and_score, fit_predictions, fitted, score_draws
from evenfold.estimates.models.fit import inner_pairs
from evenfold.estimates.results import MOST_FOLDS, hearing
from evenfold.splitters import SplitError, Splitter

from .outcomes import Block, FinalModel, FitResult, Fits, KeptFile, SplitRef
from .parameters import Model, TimeLimit
from .runtime.files import parquet_bytes, write_aside
from .runtime.home import Home
from .runtime.limits import limited, within
from .runtime.progress import setting
from .runtime.signing import sign
from .steps import REFRESHING, UNDER_KEY, finished_here, step, tell
from .work import Work, further_pairs, key_of_fit, work_of


def _key(split: SplitRef, i: Fits, model: Any = None, of: str | int = "folds", **_: object) -> str | None:
    # A look at the locked rows is never taken from the cache.
    return None if i == "holdout" else f"score/{key_of_fit(work_of(split, model), i, of)}"


def _name(work: Work, i: Fits, of: str | int) -> str:
    """Return what a fit is called, or a block of them."""
    numbers = f"{i[0]}-{i[1] - 1}" if isinstance(i, (tuple, list)) else i
    if of not in ("folds", "inside"):
        return f"{of if isinstance(of, str) else f'{of} repeats'}, further fit {numbers}"
    if isinstance(i, (tuple, list)):
        return f"{'draws' if work.manifest.kind == 'draws' else 'folds'} {numbers}"
    title = i if isinstance(i, str) else work.manifest.membership.split_title(i)
    return title if of == "folds" else f"inside {title}"


def _title(split: SplitRef, i: Fits, model: Any = None, of: str | int = "folds", **_: object) -> str:
    return f"fit {_name(work_of(split, model), i, of)}"


@step(key_of=_key, run_name=_title)
def fit_fold(
    split: SplitRef, i: Fits, model: Model = None, *, of: str | int = "folds", time_limit: TimeLimit = None
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
    work = work_of(split, model)
    key = _unchanged(key_of_fit(work, i, of))
    return within(time_limit, _name(work, i, of), _fit, split, i, model, of, key)


def _fit(split: SplitRef, i: Fits, model: Any, of: str | int, key: str) -> FitResult:
    work = work_of(split, model)
    scores: list[FoldScore] = []
    n_fits, losses = 1, None
    with limited(work.problem.X.size):
        if work.manifest.kind == "draws" and isinstance(i, (tuple, list)):
            draws = ((number, work.pair(number)) for number in range(*i))
            scored = score_draws(work.problem, draws, seed=work.manifest.spec.seed, inner=work.inner)
            table, sums = scored.to_frames()
            losses = keep_predictions(sums, f"{key}-rows")
        elif of == "folds":
            fits = list(_scored(work, i))
            table = work.keyed(pd.concat([each for _, each in fits], ignore_index=True))
            scores = [score for score, _ in fits]
        else:
            frames = list(_predicted(work, i, of))
            table, n_fits = pd.concat(frames, ignore_index=True), len(frames)
    which: Any = i if isinstance(i, str) else tuple(map(int, i)) if isinstance(i, (tuple, list)) else int(i)
    return FitResult(
        key=key, split_id=work.manifest.split_id, fingerprint=work.fingerprint, model=work.problem.model,
        i=which, of=of, scores=scores, predictions=keep_predictions(table, key), losses=losses, n_fits=n_fits,
    )  # fmt: skip


def _scored(work: Work, i: Fits) -> Iterator[tuple[FoldScore, pd.DataFrame]]:
    """Yield the scores and the predictions of each fit that is scored."""
    fit = partial(fit_and_score, work.problem, seed=work.manifest.spec.seed, inner=work.inner)
    if isinstance(i, str):
        rows = work.manifest.in_use.unlocked
        train, test = (rows, rows) if i == "all rows" else work.manifest.locked_pair()
        yield fit(work.at_hand(train), work.at_hand(test), name=i)
        return
    for number in range(*i) if isinstance(i, (tuple, list)) else [i]:
        (repeat, fold), name = work.manifest.membership.split_name(number), work.manifest.membership.split_title(number)
        yield fit(*work.pair(number), name=name, repeat=repeat, fold=fold, importance=number < MOST_FOLDS)


def _predicted(work: Work, i: Any, of: str | int) -> Iterator[pd.DataFrame]:
    """Yield the predictions of each fit that only predicts."""
    fit = partial(fit_predictions, work.problem, seed=work.manifest.spec.seed, inner=work.inner)
    if of != "inside":
        yield fit(*further_pairs(work, of)[i], name=_name(work, i, of))
        return
    train, _ = work.pair(i)
    pairs = inner_pairs(work.problem, train, work.manifest.spec.seed, require_inner(work))
    for fold, (inside, out) in enumerate(pairs):
        name = f"inner fold {fold} of {work.manifest.membership.split_title(i)}"
        yield fit(train[inside], train[out], name=name, fold=fold)


def require_inner(work: Work) -> Splitter:
    """Return the strategy of the inner folds; raises SplitError where it cannot split some of the rows again."""
    if work.inner is None:
        name = type(work.manifest.splitter).__name__
        raise SplitError(
            f"{name} cannot split the training rows of a fold again, so nothing can be chosen inside them; "
            "tune without nested, or use folds such as KFold, StratifiedKFold or BalancedGroupKFold."
        )
    return work.inner


@step(
    run_name=lambda split, block, model=None, of="folds", **_: _title(split, block, model, of),
    retries=0,
    message=lambda came: ", ".join(
        "failed" if fit is None else "cached" if cached else "fitted" for fit, cached in came
    ),
)
def fit_short(
    split: SplitRef, block: Block, model: Model = None, *, of: str | int = "folds", refresh: bool = False,
    apart: bool = False,
) -> list[tuple[FitResult | None, bool]]:  # fmt: skip
    """Do what ``fit_fold`` does for each number of a block (first, last + 1), in one task run: a run costs 50 ms.

    Each fit is locked, found and kept under its own score key: a kill loses only the one under way. Returns for each
    its result, None where it failed, which stops no other, and whether it came from the cache, as the run's state says;
    ``refresh`` computes again what that holds. ``apart``: in a process of their own.
    """
    return within(
        inf if apart else None, f"fits {block[0]}-{block[1] - 1}", _fit_each, split, block, model, of, refresh
    )


def _fit_each(
    split: SplitRef, block: Block, model: Any, of: str | int, refresh: bool
) -> list[tuple[FitResult | None, bool]]:
    with setting(REFRESHING, refresh):
        finished = [finished_here(fit_fold, split, i, model, of=of) for i in range(*block)]
    return [(None if fit.error else fit.value, fit.cached) for fit in finished]


def final_key(work: Work, i: int | None = None) -> str:
    """Return the key of the model of all rows, or of split ``i``."""
    return key_of_fit(work, "all rows" if i is None else i)


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


@step(
    key_of=lambda split, model=None, i=None: f"model/{final_key(work_of(split, model), i)}",
    run_name=lambda split, model=None, i=None: (
        f"fit the model of {_name(work_of(split, model), 'all rows' if i is None else i, 'folds')}"
    ),
)
def fit_final(split: SplitRef, model: Model = None, i: int | None = None) -> FinalModel:
    """Fit all training rows, or those of split ``i``, and keep the model as a skops file; the log has its warnings."""
    work = work_of(split, model)
    key = _unchanged(final_key(work, i))
    rows = work.at_hand(work.manifest.in_use.unlocked) if i is None else work.pair(i)[0]
    name = "the final model" if i is None else f"the model of split {i}"
    with limited(work.problem.X.size), hearing() as heard:
        trained = fitted(work.problem, rows, seed=work.manifest.spec.seed, name=name, inner=work.inner)
    tell(f"{name}: {sentence}" for sentence in heard)
    import skops.io  # half a second for whoever keeps no model

    path, content = Home.here().shared / "models" / f"{key}.skops", skops.io.dumps(trained)
    write_aside(path, lambda aside: aside.write_bytes(content))
    # Its digest is of these bytes: others may have written over the file where results are shared.
    file = KeptFile(path=str(path), sha256=hashlib.sha256(content).hexdigest())
    final = FinalModel(key=key, file=file, n_train=int(rows.size), learnt=final_key(work.without_metrics(), i))
    return final.model_copy(update={"signature": sign("model", final.claim)})


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

"""Which models are fitted, and what came of it: a step per fold, or per block of draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from evenfold.estimates import Estimate, EvaluationError, FoldScore, aggregate, bootstrap_aggregate
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks._files import from_anywhere
from evenfold.tasks.fit import (
    BLOCK,
    Work,
    fit_all,
    fit_block,
    fit_fold,
    kept,
    key_of_all,
    key_of_block,
    key_of_split,
    scores_in,
    split_title,
)

from ._requests import EvaluateRequest
from ._say import Say

MOST_SINGLE_FOLDS = 1_000


@dataclass
class Fits:
    """What came of the fits: scores in split order, files, how many were cached, and what went wrong."""

    scores: list[FoldScore]
    predictions: list[str]
    tables: list[str]
    errors: list[str]
    n_cached: int
    apparent: FoldScore | None = None
    peaks: dict[str, float] = field(default_factory=dict)

    def failure(self, n_splits: int) -> str:
        """Return why there is no estimate, in a sentence."""
        return f"{len(self.errors)} of {max(n_splits, len(self.errors))} fits failed: " + "; ".join(self.errors[:3])


def in_blocks(work: Work) -> bool:
    """Return whether splits are fitted in blocks: draws, and folds that are too many for a step each."""
    return work.manifest.kind == "draws" or work.manifest.n_splits > MOST_SINGLE_FOLDS


def fit_splits(engine: Engine, home: Home, request: EvaluateRequest, ref: dict[str, Any], work: Work, say: Say) -> Fits:
    seed = request.spec.seed
    shared = {
        "data": from_anywhere(request.data),
        "split": ref,
        "model": request.model.model_dump(mode="json"),
        "seed": seed,
        "threads": engine.threads,
    }
    calls = _blocks(work, shared, seed, home) if in_blocks(work) else _folds(work, shared, seed, home)
    fits = Fits([], [], [], [], 0)
    total, number = sum(call.size for call in calls), 0
    say("fitting models", 0, total)
    finished: dict[str, Any] = {}
    for done in engine.map(calls):
        number += done.call.size
        fits.n_cached += done.call.size if done.cached else 0
        if done.error is None:
            finished[done.call.name] = done.value
        else:
            fits.errors.append(_reason(done.error))
        say("fitting models", number, total)
    for call in calls:
        if call.name in finished:
            _collect(fits, call, finished[call.name])
    return fits


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, (EvaluationError, ValueError)) else f"{type(error).__name__}: {error}"


def _collect(fits: Fits, call: Call, value: dict[str, Any]) -> None:
    if call.step is fit_all:
        fits.apparent = FoldScore.from_json(value["score"])
    elif call.step is fit_block:
        fits.scores += scores_in(pd.read_parquet(value["file"]))
        fits.tables.append(value["file"])
    else:
        fits.scores.append(FoldScore.from_json(value["score"]))
        fits.predictions.append(value["file"])
        fits.peaks[fits.scores[-1].name] = value.get("peak_memory_mb", 0.0)


def _folds(work: Work, shared: dict[str, Any], seed: int, home: Home) -> list[Call]:
    calls = []
    for i in range(work.manifest.n_splits):
        key = key_of_split(work, i, seed)
        arguments = {**shared, "i": i, "key": key, "home": str(home.path)}
        calls.append(Call(fit_fold, arguments, split_title(work.manifest, i), key=f"score/{key}", intact=kept))
    return calls


def _blocks(work: Work, shared: dict[str, Any], seed: int, home: Home) -> list[Call]:
    n = work.manifest.n_splits
    calls = [Call(fit_all, shared, "all rows", key=f"score/{key_of_all(work, seed)}")]
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        key = key_of_block(work, first, last, seed)
        arguments = {**shared, "first": first, "last": last, "key": key, "home": str(home.path)}
        calls.append(
            Call(fit_block, arguments, f"draws {first}-{last - 1}", key=f"score/{key}", intact=kept, size=last - first)
        )
    return calls


def conclude(fits: Fits, work: Work) -> list[Estimate]:
    if fits.apparent is not None and "out_of_bag" in work.manifest.splitter.promises:
        return bootstrap_aggregate(fits.scores, fits.apparent)
    predictions = [pd.read_parquet(file) for file in fits.predictions]
    return aggregate(fits.scores, predictions, work.problem, work.problem.model)

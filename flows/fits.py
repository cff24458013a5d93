"""Which models are fitted, and what came of it: a step per fold, or per block of draws."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from evenfold.estimates import (
    DrawScores,
    Estimate,
    EvaluationError,
    FoldScore,
    aggregate,
    bootstrap_aggregate,
    resampled_aggregate,
)
from evenfold.manifests.membership import Draws
from evenfold.reports import evaluation_html
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.fits import BLOCK, fit_all, fit_block, fit_fold, fit_folds, kept, split_title
from evenfold.tasks.results.files import from_anywhere
from evenfold.tasks.work import Work, kept_study, key_of_all, key_of_block, key_of_split

from .requests import EvaluateRequest, Say

MOST_SINGLE_FOLDS = 1_000


@dataclass
class Fits:
    """What came of the fits: scores in split order, files, how many were cached, and what went wrong."""

    scores: list[FoldScore]
    predictions: list[str]
    tables: list[str]
    errors: list[str]
    sums: list[str] = field(default_factory=list)
    n_cached: int = 0
    n_fits: int = 0
    apparent: FoldScore | None = None
    apparent_file: str | None = None
    peaks: dict[str, float] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """Return all predictions together."""
        return pd.concat([pd.read_parquet(file) for file in self.predictions], ignore_index=True)

    def children(self) -> list[dict[str, Any]]:
        """Return what the run of each fold holds; draws have none."""
        known = self.scores if self.predictions else []
        return [score.to_json() | {"peak_memory_mb": self.peaks.get(score.name, 0.0)} for score in known]

    def failure(self, n_splits: int) -> str:
        """Return why there is no estimate, in a sentence."""
        kinds: dict[str, list[str]] = {}  # the same but for numbers is told once
        for each in self.errors:
            kinds.setdefault(re.sub(r"\d[\d,.]*", "0", each), []).append(each.removesuffix("."))
        told = [alike[0] + (f" ({len(alike) - 1} more alike)" if len(alike) > 1 else "") for alike in kinds.values()]
        return f"{len(self.errors)} of {max(n_splits, len(self.errors))} fits failed: {'; '.join(told[:3])}."

    def report(self, work: Work, estimates: list[Estimate], home: Home) -> str:
        """Return the page about what was evaluated, with the study of the number of folds where one was run."""
        title = f"Evaluation on {work.manifest.name} {work.manifest.version}"
        predictions = self.frame() if self.predictions else None
        scores, study = self.scores or self.drawn(work), kept_study(home, work.problem)
        return evaluation_html(work.problem, scores, estimates, predictions, title, study)

    def drawn(self, work: Work) -> list[FoldScore]:
        """Return the scores of draws, those that are defined, as scores of folds."""
        tables = [pd.read_parquet(file).to_dict("records") for file in self.tables]
        return [
            FoldScore(
                name=f"resample {row['draw']}",
                repeat=0,
                fold=row["draw"],
                test={metric: row[metric] for metric in work.problem.model.metrics},
                apparent={},
                **{name: row[name] for name in ("n_train", "n_test", "seconds_fit", "seconds_score")},
            )
            for table in tables
            for row in table
            if row["error"] is None
        ]


def in_blocks(work: Work) -> bool:
    """Return whether splits are fitted in blocks: draws, and folds that are too many for a step each."""
    return isinstance(work.manifest.membership, Draws) or work.manifest.n_splits > MOST_SINGLE_FOLDS


def fit_splits(engine: Engine, home: Home, request: EvaluateRequest, ref: dict[str, Any], work: Work, say: Say) -> Fits:
    """Fit every split; finished fits come from the cache, and one that fails does not stop the others."""
    calls = _calls(engine, home, request, ref, work)
    fits, finished = Fits([], [], [], []), {}
    total = sum(call.size for call in calls)
    say("fitting models", 0, total)
    for done in engine.map(calls):
        fits.n_fits += done.call.size
        fits.n_cached += done.call.size if done.cached else 0
        if done.error is None:
            finished[done.call.name] = done.value
        else:
            fits.errors.append(_reason(done.error))
        say("fitting models", fits.n_fits, total)
    for call in calls:
        if call.name in finished:
            _collect(fits, call, finished[call.name])
    return fits


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, (EvaluationError, ValueError)) else f"{type(error).__name__}: {error}"


def _collect(fits: Fits, call: Call, value: dict[str, Any]) -> None:
    if call.step is fit_all:
        fits.apparent = FoldScore.from_json(value["score"])
        fits.apparent_file = value["file"]
    elif call.step is fit_block:
        fits.tables.append(value["file"])
        fits.sums.append(value["rows"]["file"])
    else:
        fits.scores += [FoldScore.from_json(score) for score in value.get("scores", [value.get("score")])]
        fits.predictions.append(value["file"])
        fits.peaks[fits.scores[-1].name] = value.get("peak_memory_mb", 0.0)


def shared_arguments(engine: Engine, home: Home, request: EvaluateRequest, ref: dict[str, Any]) -> dict[str, Any]:
    """Return what every fit of a request is told."""
    return {
        "data": from_anywhere(request.data),
        "split": ref,
        "model": request.model.model_dump(mode="json"),
        "seed": request.spec.seed,
        "threads": engine.threads,
        "home": str(home.path),
    }


def _calls(engine: Engine, home: Home, request: EvaluateRequest, ref: dict[str, Any], work: Work) -> list[Call]:
    """Return a step per fold; per block of folds where there are over 1,000; per block of draws and one of all rows."""
    seed, n = request.spec.seed, work.manifest.n_splits
    shared = shared_arguments(engine, home, request, ref)

    def call(step: Any, name: str, key: str, size: int = 1, **more: Any) -> Call:
        asked = {**shared, **more, "key": key}
        return Call(step, asked, name, key=f"score/{key}", intact=kept, size=size, limit=request.time_limit)

    if not in_blocks(work):
        return [call(fit_fold, split_title(work.manifest, i), key_of_split(work, i, seed), i=i) for i in range(n)]
    drawn = isinstance(work.manifest.membership, Draws)
    step, what, apparent = (
        (fit_block, "draws", request.apparent == "resample") if drawn else (fit_folds, "folds", False)
    )
    more = {"apparent": apparent} if drawn else {}
    calls = [call(fit_all, "all rows", key_of_all(work, seed))] if drawn else []
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        key = key_of_block(work, first, last, seed, "apparent " if apparent else "")
        calls.append(call(step, f"{what} {first}-{last - 1}", key, last - first, first=first, last=last, **more))
    return calls


def conclude(fits: Fits, work: Work, seed: int) -> list[Estimate]:
    """Return what the fits say together: out-of-bag and .632+ for bootstraps, else cross-validation."""
    if not fits.tables:
        splitter = work.manifest.splitter
        return aggregate(
            fits.scores,
            fits.frame(),
            work.problem,
            work.problem.model,
            stratified=splitter.needs.y != "ignored",
            ordered="past_before_future" in splitter.promises,
            seed=seed,
        )
    blocks = [
        DrawScores.from_frames(pd.read_parquet(table), pd.read_parquet(rows))
        for table, rows in zip(fits.tables, fits.sums, strict=True)
    ]
    draws = DrawScores.merge(blocks)
    assert fits.apparent is not None
    assert fits.apparent_file is not None
    if "out_of_bag" in work.manifest.splitter.promises:
        on_all = pd.read_parquet(fits.apparent_file)
        return bootstrap_aggregate(draws, fits.apparent, on_all, work.problem, seed=seed)
    stratified = work.manifest.splitter.needs.y != "ignored"
    return resampled_aggregate(draws, fits.apparent, stratified=stratified)

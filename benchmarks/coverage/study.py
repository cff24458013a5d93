"""How often intervals hold the truth: methods x processes x metrics, by the library's own functions.

Two truths: the error of the very model (trained on all rows of the data set), and of the recipe (the mean over data
sets of that error).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import (
    Declined,
    Evidence,
    FoldScore,
    ModelSpec,
    Problem,
    further_splits,
    interval_for,
    metric_of,
)
from evenfold.estimates.metrics.record import Answered, replay
from evenfold.estimates.metrics.scoring import score

from .processes import POPULATION, Array, Process, Sample

METHODS = ("auto", "wald", "corrected_t", "nested")
LEVEL = 0.90


@dataclass(frozen=True)
class Covered:
    """How often a method's intervals held the truth, and how wide they were, over data sets.

    ``ideal``: the width of one that knows how far values are off, 2 x 1.645 x RMSE(value - the model's own error).
    """

    process: str
    metric: str
    method: str
    model: float
    recipe: float
    width: float
    ideal: float
    declined: float
    n: int

    def row(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {name: _rounded(value) for name, value in vars(self).items()}


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if np.isnan(value) else round(value, 4)


def study(process: Process, n_sets: int, methods: tuple[str, ...] = METHODS, first: int = 0) -> list[Covered]:
    """Return the coverage of each method for each metric of a process."""
    population = _population(process)
    ends: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    truths: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in range(first, first + n_sets):
        sample = process.draw(np.random.default_rng([number, 7]), process.n)
        evidence = _evidence(process, sample, number)
        if evidence is None:
            continue
        beta = process.fit(sample.X, sample.y)
        told = _frame(process, population, np.arange(POPULATION), beta, 0)
        refits: dict[str, list[pd.DataFrame]] = {}
        for metric in process.metrics:
            about = replace(evidence, metric=metric_of(metric))
            truths[metric].append((_score(metric, told, process), about.score(about.parts[0])))
            for method in methods:
                if method not in refits:
                    pairs = further_splits(evidence, method)
                    refits[method] = [_refit(process, sample, train, test) for train, test in pairs]
                made = interval_for(replace(about, refits=refits[method]), method, LEVEL)
                low_high = (np.nan, np.nan) if isinstance(made, Declined) else (made.low, made.high)
                ends[metric, method].append(low_high)
    return [_covered(process, metric, method, pairs, truths[metric]) for (metric, method), pairs in ends.items()]


def _covered(
    process: Process, metric: str, method: str, pairs: list[tuple[float, float]], truths: list[tuple[float, float]]
) -> Covered:
    low, high = np.array(pairs).T
    truth, value = np.array(truths).T
    there, ideal = ~np.isnan(low), 2 * 1.645 * float(np.sqrt(np.mean(np.square(value - truth))))
    own = (low <= truth) & (truth <= high)
    recipe = (low <= truth.mean()) & (truth.mean() <= high)
    if not there.any():
        return Covered(process.name, metric, method, float("nan"), float("nan"), float("nan"), ideal, 1.0, len(pairs))
    width = float(np.median((high - low)[there]))
    means = (float(own[there].mean()), float(recipe[there].mean()))
    return Covered(process.name, metric, method, *means, width, ideal, float(1 - there.mean()), len(pairs))


def _population(process: Process) -> Sample:
    return process.draw(np.random.default_rng(20_261_121), POPULATION)


def _evidence(process: Process, sample: Sample, seed: int) -> Evidence | None:
    frames, scores = [], []
    for fold, (train, test) in enumerate(process.splits(sample, seed)):
        beta = process.fit(sample.X[train], sample.y[train])
        frame = _frame(process, sample, test, beta, fold)
        if process.classes and frame["y"].nunique() < 2:
            return None  # a fold without a class: the evaluation would say so and stop
        test_scores = {metric: _score(metric, frame, process) for metric in process.metrics}
        own = _frame(process, sample, train, beta, fold)
        apparent = {metric: _score(metric, own, process) for metric in process.metrics}
        scores.append(FoldScore(f"fold {fold}", 0, fold, test_scores, apparent, train.size, test.size, 0.0, 0.0))
        frames.append(frame)
    return Evidence(
        metric_of(process.metrics[0]),
        _problem(process, sample),
        scores,
        pd.concat(frames, ignore_index=True),
        stratified=process.splitter == "stratified",
        ordered=process.splitter == "forward",
        seed=seed,
    )


def _refit(process: Process, sample: Sample, train: Any, test: Any) -> pd.DataFrame:
    return _frame(process, sample, test, process.fit(sample.X[train], sample.y[train]), 0)


def _problem(process: Process, sample: Sample) -> Problem:
    task = "classification" if process.classes else "regression"
    return Problem(
        X=pd.DataFrame(index=range(len(sample.y))), y=sample.y, task=task, classes=process.classes, model=ModelSpec(),
        target="y", features=(), encoded=(), left_out={}, columns_read=(), groups=sample.groups,
    )  # fmt: skip


def _frame(process: Process, sample: Sample, rows: Any, beta: Array, fold: int) -> pd.DataFrame:
    answers = process.answer(sample.X[rows], beta)
    columns = {"row": rows, "repeat": 0, "fold": fold}
    if not process.classes:
        return pd.DataFrame(columns | {"y": sample.y[rows], "prediction": answers})
    chances = {"proba_0": 1 - answers, "proba_1": answers}
    y = sample.y[rows].astype(np.int64)
    return pd.DataFrame(columns | {"y": y, "prediction": (answers > 0.5).astype(np.int64)} | chances)


def _score(metric: str, frame: pd.DataFrame, process: Process) -> float:
    return score(metric, Answered(replay(frame, process.classes), frame["y"].to_numpy()))

"""Studies of the split itself: how the number of folds, and stratifying, change what is estimated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.evidence import Evidence
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.fit import fit_and_score
from evenfold.estimates.models.problem import Problem
from evenfold.splitters import BalancedGroupKFold, KFold, SortedStratifiedKFold, StratifiedKFold
from evenfold.splitters.base import LabelSplitter, strategy_of
from evenfold.splitters.errors import ModelError, SplitError
from evenfold.splitters.strategies.parts import FractionalStratifiedSplit
from numpy.typing import NDArray
from scipy import stats

Way = Callable[[int, int], NDArray[Any]]  # the fold of each row, of a number of folds and a seed


def fold_counts(words: str) -> list[int]:
    """Return the numbers of folds in 5..100 (eight, evenly apart), 5:50:5 or 5,10,20; raises SplitError for none."""
    try:
        match re.split(r"(\.\.|:)", words):
            case [low, "..", high]:
                numbers = sorted({int(low) + (int(high) - int(low)) * step // 7 for step in range(8)})
            case [low, ":", high, ":", step]:
                numbers = list(range(int(low), int(high) + 1, int(step)))
            case _:
                numbers = [int(part) for part in words.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 2:
        write = "write 5..100, 5:100:5 (every fifth), or 5,10,20"
        raise SplitError(f"--k {words!r} names no numbers of folds, which are 2 or more; {write}.")
    return numbers


def fold_count_study(
    problem: Problem, counts: Sequence[int], *, seed: int = 0, strategy: str | None = None,
    say: Callable[[int, int], None] = lambda done, of: None,
) -> pd.DataFrame:  # fmt: skip
    """Return, per number of folds and metric, the mean and sample sd over folds and the pooled score.

    Folds are those of ``strategy``, by default random ones, of whole groups where the problem has groups. Mean and sd
    are of the folds that have the score, NaN where none has. ``say`` gets how many of how many models are fitted.
    Raises SplitError, before any fit, where rows or groups are too few.
    """
    rows, labels = [], [_folds(problem, strategy, k, seed) for k in counts]
    say(0, sum(counts))
    for number, k in enumerate(counts):
        rows += [{"n_splits": k, **row} for row in _figures(problem, labels[number], seed)]
        say(sum(counts[: number + 1]), sum(counts))
    return pd.DataFrame(rows).drop(columns="hold_out")


def stratification_study(
    problem: Problem, *, n_splits: int = 5, n_seeds: int = 20, seed: int = 0, strategy: str | None = None,
    say: Callable[[int, int], None] = lambda done, of: None,
) -> pd.DataFrame:  # fmt: skip
    """Return, per way of stratifying and metric, the variance over seeds of three estimates, as ratios to random's.

    ``hold_out``: the first fold's score; ``fold_mean``: the mean over folds; ``pooled``: all predictions together. A
    ratio below 1 means an estimate that is steadier between ``partitions``, not one nearer to the truth. Groups stay
    whole. ``strategy`` names one way more, of folds. ``say`` gets how many of how many models are fitted. Raises,
    before any fit, ModelError for fewer than 2 seeds, and SplitError for folds that a way cannot make.
    """
    if n_seeds < 2:
        raise ModelError(f"n_seeds={n_seeds}; choose at least 2, as a variance is of several partitions.")
    estimates = []
    every = _ways(problem) | ({strategy: partial(_folds, problem, strategy)} if strategy else {})
    for ways in every.values():
        ways(n_splits, seed)
    say(0, len(every) * n_seeds * n_splits)
    for number, (name, ways) in enumerate(every.items()):
        for turn in range(n_seeds):
            estimates += [{"way": name, **row} for row in _figures(problem, ways(n_splits, seed + turn), seed)]
            say((number * n_seeds + turn + 1) * n_splits, len(every) * n_seeds * n_splits)
    table = pd.DataFrame(estimates).rename(columns={"mean": "fold_mean"}).drop(columns="sd")
    spread = table.groupby(["metric", "way"], sort=False).var(ddof=1)
    random = spread.xs("random", level="way").reindex(spread.index.get_level_values("metric"))
    ratios: pd.DataFrame = spread.div(random.to_numpy()).reset_index()
    return ratios.assign(partitions=n_seeds)


def ratio_ends(ratio: float, partitions: int) -> tuple[float, float]:
    """Return the 95 % F interval of the ratio of two variances, each of so many normal and independent estimates."""
    if partitions < 2 or not np.isfinite(ratio):
        return float("nan"), float("nan")
    quantile = float(stats.f.ppf(0.975, partitions - 1, partitions - 1))
    return ratio / quantile, ratio * quantile


def _figures(problem: Problem, labels: NDArray[Any], seed: int) -> list[dict[str, object]]:
    """Return a row a metric: the first fold's score, mean and sd of the folds that have one, and the pooled score."""
    fits = []
    for fold in range(int(labels.max()) + 1):
        train, test = np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)
        fits.append(fit_and_score(problem, train, test, seed=seed, name=f"fold {fold}", fold=fold))
    predictions, rows = pd.concat([predictions for _, predictions in fits]), []
    for metric in problem.model.metrics:
        scores = pd.Series([score.test.get(metric, np.nan) for score, _ in fits])
        pooled = Evidence(metric_of(metric), problem, predictions=predictions).pooled
        row = {"metric": metric, "hold_out": scores[0], "mean": scores.mean(), "sd": scores.std(), "pooled": pooled}
        rows.append(row)
    return rows


def _folds(problem: Problem, strategy: str | None, k: int, seed: int) -> NDArray[Any]:
    if strategy is not None:
        splitter = strategy_of({"strategy": strategy, "params": {"n_splits": k}}, seed)
        if not isinstance(splitter, LabelSplitter):
            raise SplitError(f"{strategy} puts no row into one fold of {k}; name a strategy of folds, such as KFold.")
        return splitter.assign(y=problem.y, groups=problem.groups)
    if problem.groups is not None:
        return BalancedGroupKFold(k, random_state=seed).assign(groups=problem.groups)
    return KFold(k, random_state=seed).assign(problem.y)


def _ways(problem: Problem) -> dict[str, Way]:
    def by(splitter: type[LabelSplitter], y: Any) -> Way:
        return lambda k, seed: splitter(k, random_state=seed).assign(y=y)

    def fractional(k: int, seed: int) -> NDArray[Any]:
        parts = {"train": 1 / k, **{f"fold {fold}": 1 / k for fold in range(1, k)}}
        codes = FractionalStratifiedSplit(parts, random_state=seed).assign(y=problem.y)
        return np.where(codes < 0, 0, codes)

    if problem.groups is not None:  # rows of a group stay together, so the ways are ways of dealing whole groups
        groups, codes = np.unique(problem.groups, return_inverse=True)
        return {
            "random": lambda k, seed: KFold(k, random_state=seed).assign(groups)[codes],
            "balanced": lambda k, seed: BalancedGroupKFold(k, random_state=seed).assign(
                y=problem.y if problem.classes else None, groups=problem.groups
            ),
        }
    ways = {"random": by(KFold, problem.y)}
    if problem.classes:
        return ways | {"stratified": by(StratifiedKFold, problem.y)}
    binned = np.argsort(np.argsort(problem.y, kind="stable"), kind="stable") * 10 // problem.n
    return ways | {
        "binned": by(StratifiedKFold, binned), "sorted": by(SortedStratifiedKFold, problem.y), "fractional": fractional,
    }  # fmt: skip

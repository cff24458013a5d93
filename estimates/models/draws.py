"""Bootstraps and other draws by the thousand: scores in one table, losses in sums per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pandas as pd
from evenfold.estimates.errors import EvaluationError, ModelError
from evenfold.estimates.metrics.record import Answered, Floats, Responses
from evenfold.estimates.metrics.registry import metric_of, score_or_nan
from evenfold.estimates.metrics.scoring import method_of
from evenfold.estimates.results import hearing, warned
from evenfold.splitters import Splitter

from .fit import features_for, fitted, take
from .problem import IntArray, Problem

MOST_FAILED = 0.5
COUNT = "count_"  # of losses of a metric: the column's name begins so
Row = dict[str, float | str | None]  # of the table of scores
Drawn = tuple[int, tuple[IntArray, IntArray]]  # a draw's number, its rows to train on, which repeat, and those left out


@dataclass(frozen=True)
class DrawScores:
    """The scores of many draws; blocks of draws add up, and memory for losses does not grow with their number.

    ``table``: a row per draw with draw, n_train, n_test, seconds_fit, seconds_score, error (why the draw has no
    scores, or None), warned (the first line of each warning), and a column per metric (NaN where undefined).
    ``totals``: per metric that is a mean over rows, each row's sum of losses and their count.
    """

    table: pd.DataFrame
    totals: dict[str, RowTotals]

    @property
    def warned(self) -> list[str]:
        """Each warning of the fits once, with how many draws gave it."""
        if "warned" not in self.table:
            return []
        return warned([warnings.splitlines() for warnings in self.table["warned"].fillna("")])

    def lacking(self, metric: str) -> list[str]:
        """Return how many fits failed, with the first error, and in how many other draws a metric is undefined."""
        n, errors = len(self.table), self.table["error"].dropna().tolist() if "error" in self.table else []
        undefined = int(self.scores_of(metric).isna().sum()) - len(errors)
        failed = [f"{len(errors):,} of {n:,} fits failed (the first: {errors[0]})"] if errors else []
        return [*failed, *([f"{metric} is undefined in {undefined:,} of {n:,} draws"] if undefined else [])]

    def defined(self, metric: str) -> Floats:
        """Return the scores of the draws that have one; raises EvaluationError where more than half have none."""
        scores, n = self.scores_of(metric).dropna().to_numpy(dtype=np.float64), len(self.table)
        if n - scores.size > MOST_FAILED * n:
            what = f"{metric} has no score in {n - scores.size:,} of {n:,} draws: {'; '.join(self.lacking(metric))}"
            raise EvaluationError(f"{what}; use another metric, or draws that test more rows and keep every class.")
        return scores

    def scores_of(self, metric: str) -> pd.Series:
        """Return the score of each draw; all are NaN of a metric that is in no draw's scores."""
        return self.table[metric] if metric in self.table else pd.Series(np.nan, self.table.index)

    def to_frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the table of scores, and a frame of row and of each metric's sum of losses and count of them."""
        sums = {metric: totals.sums for metric, totals in self.totals.items()}
        counts = {f"{COUNT}{metric}": totals.counts for metric, totals in self.totals.items()}
        n = max((column.size for column in sums.values()), default=0)
        return self.table, pd.DataFrame({"row": np.arange(n), **sums, **counts})

    @classmethod
    def from_frames(cls, table: pd.DataFrame, rows: pd.DataFrame) -> DrawScores:
        """Return the scores that ``to_frames`` wrote."""
        metrics = [str(name).removeprefix(COUNT) for name in rows.columns if str(name).startswith(COUNT)]
        return cls(table, {name: RowTotals(rows[name].to_numpy(), rows[COUNT + name].to_numpy()) for name in metrics})

    @classmethod
    def merge(cls, blocks: Sequence[DrawScores]) -> DrawScores:
        """Return the draws of all blocks together, in the blocks' order."""
        totals = dict(blocks[0].totals)
        for block in blocks[1:]:
            for metric, further in block.totals.items():
                own = totals[metric]
                totals[metric] = RowTotals(own.sums + further.sums, own.counts + further.counts)
        return cls(pd.concat([block.table for block in blocks], ignore_index=True), totals)


def score_draws(problem: Problem, draws: Iterable[Drawn], *, seed: int, inner: Splitter | None = None) -> DrawScores:
    """Fit and score every draw of ``draws``: its number and its (train, test).

    A draw whose fit fails, or on which a metric is undefined, stays in the table without that score, adds no losses
    of it, and is counted by the estimates. A predicted label that is none of the problem's classes raises
    ModelError, as in ``fit_and_score``.
    """
    means = [metric for metric in problem.model.metrics if metric_of(metric).loss is not None]
    totals = {metric: RowTotals(np.zeros(problem.n), np.zeros(problem.n, dtype=np.int64)) for metric in means}
    rows = [_one(problem, draw, seed, totals, inner) for draw in draws]
    return DrawScores(pd.DataFrame(rows), totals)


def _one(problem: Problem, draw: Drawn, seed: int, totals: dict[str, RowTotals], inner: Splitter | None) -> Row:
    i, (train, test) = draw
    row: Row = {"draw": i, "n_train": train.size, "n_test": test.size}
    started = perf_counter()
    try:
        with hearing() as heard:
            estimator = fitted(problem, train, seed=seed, name=f"draw {i}", inner=inner, arrays=True)
    except EvaluationError as error:
        row |= {"seconds_fit": perf_counter() - started, "seconds_score": 0.0, "error": str(error)}
        return {**row, **dict.fromkeys(problem.model.metrics, float("nan"))}
    X = features_for(problem, estimator, arrays=True)
    between = perf_counter()
    try:
        answered = problem.answered(Responses(estimator, take(X, test)), test)
        scored, losses = scores_of_draw(problem.model.metrics, answered)
    except ModelError as error:
        raise ModelError(f"draw {i}: {error}") from None
    for metric, lost in losses.items():
        totals[metric].add(test, lost)
    times = {"seconds_fit": between - started, "seconds_score": perf_counter() - between, "error": None}
    row |= {"warned": "\n".join(heard)}
    return {**row, **times, **scored}


def scores_of_draw(metrics: Sequence[str], answered: Answered) -> tuple[dict[str, float], dict[str, Floats]]:
    """Return the score of each metric, NaN where it is undefined, and the losses of those that are means over rows."""
    scores = dict.fromkeys([metric_of(name).name for name in metrics], float("nan"))
    losses: dict[str, Floats] = {}
    if not answered.mass.any():
        return scores, losses
    for metric in map(metric_of, metrics):
        if metric.loss is not None:
            lost = metric.loss.of(answered)
            if np.all(np.isfinite(lost)):
                losses[metric.name] = lost
                scores[metric.name] = metric.loss.score(answered.mean(lost))
        elif metric.quick is not None and answered.weights is None:
            quick = metric.quick(answered)
            scores[metric.name] = quick if np.isfinite(quick) else float("nan")
        else:
            if answered.classes and method_of(metric.name) == ("predict",):
                _ = answered.predicted  # raises for labels that are no class, which would make a mean of them another
            scores[metric.name] = score_or_nan(metric, answered)
    return scores, losses


@dataclass
class RowTotals:
    """Sums of losses and counts per row, which many resamples add to."""

    sums: Floats
    counts: IntArray

    @property
    def means(self) -> Floats:
        """The mean loss of each row, NaN of one without any."""
        means: Floats = np.divide(self.sums, self.counts, out=np.full(self.sums.size, np.nan), where=self.counts > 0)
        return means

    def add(self, rows: IntArray, losses: Floats) -> None:
        """Add the losses of ``rows``; a row may occur more than once."""
        self.sums += np.bincount(rows, weights=losses, minlength=self.sums.size)
        self.counts += np.bincount(rows, minlength=self.sums.size)

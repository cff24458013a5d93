"""Bootstraps and other draws by the thousand: scores in one table, losses in sums per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Floats, Responses
from evenfold.estimates.metrics.registry import metric_of, score_or_nan
from evenfold.estimates.metrics.scoring import method_of
from evenfold.estimates.models.fit import features_for, fitted, take
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.estimates.results import FIGURES, FoldScore, hearing, warned
from evenfold.splitters import Splitter
from evenfold.splitters.errors import EvaluationError, ModelError
from numpy.typing import NDArray

MOST_FAILED = 0.5
COUNT = "count_"  # of losses of a metric: the column's name begins so
Row = dict[str, float | str | None]  # of the table of scores
Drawn = tuple[int, tuple[IntArray, IntArray]]  # a draw's number, its rows to train on, which repeat, and those left out


@dataclass(frozen=True)
class DrawScores:
    """The scores of many draws; blocks of draws add up, and memory for losses does not grow with their number.

    ``table``: a row per draw with draw, n_train, n_test, seconds_fit, seconds_score, error (why the draw has no
    scores, or None), warned (the first line of each warning), and a column per metric (NaN where undefined).
    ``rows``: per metric that is a mean over rows, each row's sum of losses, and their number as ``count_metric``.
    """

    table: pd.DataFrame
    rows: pd.DataFrame

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

    def losses(self, metric: str) -> Floats | None:
        """Return the mean loss of each row, NaN of one that no draw tested; None where the metric has none."""
        if metric not in self.rows:
            return None
        sums, counts = self.rows[metric].to_numpy(), self.rows[COUNT + metric].to_numpy()
        return np.asarray(np.divide(sums, counts, out=np.full(sums.size, np.nan), where=counts > 0))

    @classmethod
    def merge(cls, blocks: Sequence[DrawScores]) -> DrawScores:
        """Return the draws of all blocks together, in the blocks' order."""
        first, *others = (block.rows.drop(columns="row") for block in blocks)
        rows = pd.DataFrame({"row": blocks[0].rows["row"], **sum(others, first)})
        return cls(pd.concat([block.table for block in blocks], ignore_index=True), rows)


def scores_in(table: pd.DataFrame, metrics: Sequence[str]) -> list[FoldScore]:
    """Return the score of each draw in a table of draws, but of those whose fits failed."""
    return [
        FoldScore(f"resample {row['draw']}", 0, row["draw"], {name: row[name] for name in metrics}, {},
                  *(row[name] for name in FIGURES))
        for row in table.to_dict("records") if row["error"] is None
    ]  # fmt: skip


def score_draws(problem: Problem, draws: Iterable[Drawn], *, seed: int, inner: Splitter | None = None) -> DrawScores:
    """Fit and score every draw of ``draws``: its number and its (train, test).

    A draw whose fit fails, or on which a metric is undefined, stays in the table without that score, adds no losses of
    it, and is counted by the estimates. ModelError, as in ``fit_and_score``, for a predicted label that is no class.
    """
    means = [metric for metric in problem.model.metrics if metric_of(metric).loss is not None]
    rows: dict[str, NDArray[Any]] = {"row": np.arange(problem.n if means else 0)}
    rows |= {metric: np.zeros(problem.n) for metric in means}
    rows |= {COUNT + metric: np.zeros(problem.n, dtype=np.int64) for metric in means}
    return DrawScores(pd.DataFrame([_one(problem, draw, seed, rows, inner) for draw in draws]), pd.DataFrame(rows))


def _one(problem: Problem, draw: Drawn, seed: int, rows: dict[str, NDArray[Any]], inner: Splitter | None) -> Row:
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
        answered = problem.answered(Responses.of(estimator, take(X, test)), test)
        scored, losses = scores_of_draw(problem.model.metrics, answered)
    except ModelError as error:
        raise ModelError(f"draw {i}: {error}") from None
    for metric, lost in losses.items():  # of rows that may be tested more than once
        rows[metric] += np.bincount(test, weights=lost, minlength=problem.n)
        rows[COUNT + metric] += np.bincount(test, minlength=problem.n)
    times = {"seconds_fit": between - started, "seconds_score": perf_counter() - between, "error": None}
    return {**row, "warned": "\n".join(heard), **times, **scored}


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
        else:
            if answered.classes and method_of(metric.name) == ("predict",):
                _ = answered.predicted  # raises for labels that are no class, which would make a mean of them another
            scores[metric.name] = score_or_nan(metric, answered, quick=True)
    return scores, losses

"""The evidence that intervals are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Codes, Floats, Metric, RowLoss
from evenfold.estimates.metrics.registry import influence_of, score_or_nan
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.estimates.results import FoldScore
from evenfold.splitters.errors import ModelError

Pair = tuple[IntArray, IntArray]  # rows to train on and rows to test, as positions in the problem
MOST_BLOCKS = 200
ENOUGH = 10.0  # degrees of freedom


@dataclass(frozen=True)
class Evidence:
    """The evidence that an evaluation leaves behind of one metric.

    ``predictions``: of all tested rows (row, repeat, fold, y, prediction, …). ``scores``: of the splits.
    ``stratified``: on the target. ``ordered``: whether rows follow one another in time and are split in that order.
    ``refits``: predictions of ``further_splits``, in their order. ``held``: as of ``Answered``.
    """

    metric: Metric
    problem: Problem
    scores: Sequence[FoldScore] = ()
    predictions: pd.DataFrame | None = None
    stratified: bool = False
    ordered: bool = False
    refits: Sequence[pd.DataFrame] = ()
    seed: int = 0
    held: bool = False

    @cached_property
    def parts(self) -> list[pd.DataFrame]:
        """The predictions of each repeat, each in the order of the rows."""
        assert self.predictions is not None
        return [part.sort_values("row") for _, part in self.predictions.groupby("repeat", sort=True)]

    def answered(self, part: pd.DataFrame) -> Answered:
        """Return some predictions as the metrics read them."""
        return Answered.of(part, self.problem.classes, self.held)

    def score(self, part: pd.DataFrame) -> float:
        """Return the metric of some predictions; NaN where it is undefined."""
        return score_or_nan(self.metric, self.answered(part))

    @cached_property
    def pooled(self) -> float:
        """The metric of all predictions together, averaged over repeats; NaN where it is undefined."""
        return float(np.mean([self.score(part) for part in self.parts]))

    def score_drawn(self, at: IntArray) -> float:
        """Return the metric of rows ``at`` positions, which may repeat, each with all its tests; NaN if undefined."""
        scores = []
        for rows, lost, lines in zip(self._answers, self._losses, self.lines, strict=True):
            # The lines that hold the rows `at`: all of a row, each time that it is asked.
            counts = np.bincount(lines, minlength=self.rows.size)
            times = counts[at]
            # Each row's first line, then one further at a time.
            first = (np.cumsum(counts) - counts)[at] - (np.cumsum(times) - times)
            drawn = np.asarray(np.repeat(first, times) + np.arange(times.sum()))
            if not rows.mass[drawn].any():
                return float("nan")
            if self.metric.loss is not None and lost is not None:
                scores.append(self.metric.loss.score(float(np.average(lost[drawn], weights=rows.mass[drawn]))))
            else:
                scores.append(score_or_nan(self.metric, rows.drawn(drawn), quick=True))
        return float(np.mean(scores)) if np.all(np.isfinite(scores)) else float("nan")

    @cached_property
    def rows(self) -> IntArray:
        """The tested rows, sorted."""
        return np.unique(np.concatenate([part["row"].to_numpy() for part in self.parts]))

    @cached_property
    def lines(self) -> list[IntArray]:
        """The position in ``rows`` of each line of each of ``parts``; a row that is tested twice has two lines."""
        return [np.searchsorted(self.rows, part["row"].to_numpy()) for part in self.parts]

    @cached_property
    def _answers(self) -> list[Answered]:
        return [self.answered(part) for part in self.parts]

    @cached_property
    def _losses(self) -> list[Floats | None]:
        """The losses of the lines of each of ``parts``; None where some have none."""
        try:
            of_parts = [self.metric.loss.of(rows) if self.metric.loss else None for rows in self._answers]
        except (AttributeError, ModelError):  # no probabilities, or a class that is none: a scorer knows best
            of_parts = [None for _ in self.parts]
        return [losses if losses is not None and np.all(np.isfinite(losses)) else None for losses in of_parts]

    def lost(self, loss: RowLoss) -> tuple[Floats, Floats]:
        """Return the mean loss of each of ``rows`` over its tests, and how much it counts in the score of all."""
        shares = [rows.mass / rows.mass.mean() for rows in self._answers]
        mass = per_row(self.lines, shares, self.rows.size)
        losses = [share * loss.of(rows) for share, rows in zip(shares, self._answers, strict=True)]
        lost = per_row(self.lines, losses, self.rows.size)
        return np.divide(lost, mass, out=np.zeros_like(lost), where=mass > 0), mass

    @cached_property
    def units(self) -> Codes | None:
        """The group of each of ``rows``, as codes; None where each row stands for itself."""
        return self.problem.units(self.rows)

    @cached_property
    def influence(self) -> tuple[float, Floats, Codes | None] | None:
        """The pooled score, each of ``rows``' influence on it (of all its tests), and the units that err together.

        From the metric's own influence; else each of at most 200 blocks of units is left out once (the jackknife),
        and its rows share the effect. None where the metric is undefined without some block.
        """
        influences = [influence_of(self.metric.name, rows) for rows in self._answers]
        defined = [one for one in influences if one is not None]
        if len(defined) == len(influences):
            moves = per_row(self.lines, [one[1] for one in defined], self.rows.size)
            return float(np.mean([one[0] for one in defined])), moves, self.units
        units = np.arange(self.rows.size) if self.units is None else self.units
        n_units = int(units.max()) + 1
        n_blocks = min(n_units, MOST_BLOCKS)
        blocks = units * n_blocks // n_units  # neighbours together; rows are in no order that the folds know of
        moves = np.empty(self.rows.size)
        for block in range(n_blocks):
            inside = blocks == block
            without = self.score_drawn(np.flatnonzero(~inside))
            # In units such that standard_error over blocks is the jackknife's: (b - 1) / b sum (pooled - without)^2.
            moves[inside] = (n_blocks - 1) * (self.pooled - without) * self.rows.size / n_blocks / inside.sum()
        return (self.pooled, moves - moves.mean(), blocks) if np.all(np.isfinite(moves)) else None

    @cached_property
    def batches(self) -> Codes:
        """The fold of each of ``rows`` in the first repeat, as codes: stretches of time where the rows are ordered."""
        folds = np.zeros(self.rows.size, dtype=np.int64)
        folds[self.lines[0]] = self.parts[0]["fold"].to_numpy()
        return np.unique(folds, return_inverse=True)[1].reshape(-1)

    @cached_property
    def train_ratio(self) -> float:
        """n / n_train: how many times as many rows are tested in all as a model is trained on."""
        return self.rows.size / float(np.mean([score.n_train for score in self.scores]))

    @cached_property
    def apparent(self) -> float | None:
        """The folds' mean score on their training rows; None where no fold was scored on them."""
        seen = [score.apparent[self.metric.name] for score in self.scores if self.metric.name in score.apparent]
        return float(np.mean(seen)) if seen else None

    def inflation(self, value: float, df: float) -> float:
        """Return (variance of rows and training) / (variance of rows) of a score with ``df`` degrees of freedom."""
        return 1.0 + self.train_ratio * max(sqrt(overfitting(value, self.apparent, self.metric.high)), least_share(df))


def overfitting(value: float, apparent: float | None, best: float) -> float:
    """Return the share of the out-of-fold error that training rows do not show, 0 to 1; 1 where nothing says it."""
    if apparent is None or not isfinite(apparent + best):
        return 1.0
    return min(max(1 - (best - apparent) / (best - value), 0.0), 1.0) if value < best else 0.0


def least_share(df: float) -> float:
    """Return the least part of n/n_train that training counts for: all of it up to 10 degrees of freedom, then less."""
    return min(1.0, ENOUGH / df)


def per_row(lines: Sequence[IntArray], values: Sequence[Floats], n_rows: int) -> Floats:
    """Return each row's mean over repeats of the values of its ``lines``; repeats, and lines of each, count alike."""
    total = np.zeros(n_rows)
    for of_line, value in zip(lines, values, strict=True):
        total += np.bincount(of_line, weights=value, minlength=n_rows) * (n_rows / of_line.size)
    return total / len(lines)

"""Scores of the levels of an attribute: of women and of men, of each region, of each quarter of ages."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isfinite, sqrt

import numpy as np
import pandas as pd

from .intervals.evidence import Evidence
from .intervals.methods import SAME_SCORE, cancels, has_influence, standard_error, within_range
from .intervals.registry import RECIPE, interval_for
from .metrics.registry import metric_of
from .models.draws import DrawScores
from .models.problem import IntArray, Problem
from .results import Declined, FoldScore, Interval

Levels = tuple[IntArray, list[str]]  # a code for each row of the problem, and what the codes are called
Scored = tuple[int, float | None, Interval | None, str]  # how many rows, value, interval, and why there is none
LEAST_ROWS = 2
WEIGHTLESS = "its rows weigh nothing."


@dataclass(frozen=True)
class LevelScore:
    """The pooled score of one level's tested rows, higher is better; ``reason``: why there is no value or interval."""

    attribute: str
    level: str
    metric: str
    n_rows: int
    value: float | None
    interval: Interval | None = None
    reason: str = ""


def widest_gap(levels: Sequence[LevelScore], metric: str) -> tuple[float, LevelScore, LevelScore] | None:
    """Return the largest gap of levels whose intervals do not overlap, the better level first; None without one."""
    scored = [(level, level.value, level.interval) for level in levels
              if level.metric == metric and level.value is not None and level.interval is not None]  # fmt: skip
    apart = [(high - low, better, worse) for (better, high, above), (worse, low, below) in permutations(scored, 2)
             if better.attribute == worse.attribute and above.low > below.high]  # fmt: skip
    return max(apart, key=lambda pair: pair[0], default=None)


def level_scores(
    predictions: pd.DataFrame, scores: Sequence[FoldScore], problem: Problem, attributes: Mapping[str, Levels], *,
    level: float = 0.95, ordered: bool = False,
) -> list[LevelScore]:  # fmt: skip
    """Return the score of each metric on the tested rows of each level of each attribute. O(levels x rows).

    ``predictions``: of all tested rows. The interval is ``auto``'s of an evaluation of these rows alone.
    """
    rows = predictions["row"].to_numpy()
    return [
        LevelScore(name, levels[code], metric, *_score(of, level))
        for name, (codes, levels) in attributes.items()
        for code in np.unique(codes[rows]).tolist()
        for own in [predictions[codes[rows] == code]]
        for metric in problem.model.metrics
        for of in [Evidence(metric_of(metric), problem, scores, own, ordered=ordered)]
    ]


def _score(evidence: Evidence, level: float) -> Scored:
    n = evidence.rows.size
    if not evidence.problem.mass(evidence.rows).any():
        return n, None, None, WEIGHTLESS
    with warnings.catch_warnings(action="ignore"):  # a metric of rows of one class: said below, in a sentence
        value = evidence.pooled
    if not isfinite(value):
        of = f"these {n:,} rows, as where they are of one class"
        return n, None, None, f"{evidence.metric.title} is undefined on {of}."
    if n < LEAST_ROWS:
        return n, value, None, "one row says nothing of others."
    interval = interval_for(evidence, "auto", level)
    if isinstance(interval, Declined):
        return n, value, None, interval.reason
    return n, value, interval.holding(value), ""


def level_scores_of_draws(
    draws: DrawScores, problem: Problem, attributes: Mapping[str, Levels], *, level: float = 0.95
) -> list[LevelScore]:
    """Return the score of each metric on the rows of each level of each attribute, where splits are draws.

    Only means over rows have one: the mean over a level's rows of their mean loss in the draws that tested them. The
    interval takes rows, or groups, for independent, and adds the variance of training. O(levels x rows).
    """
    return [
        LevelScore(
            name, levels[code], metric, *_score_of_draws(metric, np.flatnonzero(codes == code), draws, problem, level)
        )
        for name, (codes, levels) in attributes.items()
        for code in np.unique(codes).tolist()
        for metric in problem.model.metrics
    ]


def _score_of_draws(name: str, rows: IntArray, draws: DrawScores, problem: Problem, level: float) -> Scored:
    metric, losses = metric_of(name), draws.losses(name)
    if metric.loss is None or losses is None:
        why = f"{metric.title} is not a mean over rows, and draws keep sums of losses alone; choose folds."
        return rows.size, None, None, why
    rows = rows[~np.isnan(losses[rows])]
    losses, mass, units = losses[rows], problem.mass(rows), problem.units(rows)
    if not mass.any():
        return rows.size, None, None, WEIGHTLESS if rows.size else "no draw tested a row of it."
    mean = float(np.average(losses, weights=mass))
    value = metric.loss.score(mean)
    n_units = rows.size if units is None else int(units.max()) + 1
    influence = (losses - mean) * mass * (rows.size / mass.sum())
    if n_units < LEAST_ROWS or not has_influence(influence, mean):
        why = "its rows are of one group." if n_units < LEAST_ROWS else "every row has the same loss."
        return rows.size, value, None, f"there is no interval: {why}"
    if cancels(influence, units, mean):
        return rows.size, value, None, SAME_SCORE
    se, df = standard_error(influence, units, tails=not metric.loss.share)
    training = 1.0 + rows.size / float(draws.table["n_train"].mean())
    low, high = within_range(metric, value, se * sqrt(training), df, level)
    interval = Interval(low, high, level, "means of rows over draws, corrected for training", of=RECIPE)
    return rows.size, value, interval.holding(value), ""

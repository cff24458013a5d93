"""Scores of the levels of an attribute: of women and of men, of each region, of each quarter of ages."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import isfinite, sqrt

import numpy as np
import pandas as pd

from .intervals.evidence import Evidence
from .intervals.methods import SAME_SCORE, cancels, moves, standard_error, within_range
from .intervals.registry import RECIPE, interval_for
from .metrics.registry import metric_of
from .models.draws import DrawScores
from .models.problem import IntArray, Problem
from .results import Declined, FoldScore, Interval

Levels = tuple[IntArray, list[str]]  # a code for each row of the problem, and what the codes are called
LEAST_ROWS = 2
WEIGHTLESS = "its rows weigh nothing."


@dataclass(frozen=True)
class LevelScore:
    """The pooled score of the tested rows of one level; higher is better, as in ``Estimate``.

    ``value`` is None where the metric is undefined on them, ``interval`` where nothing gives one; ``reason`` says
    why. Levels are different rows: overlapping intervals do not say that two levels are equal.
    """

    attribute: str
    level: str
    metric: str
    n_rows: int
    value: float | None
    interval: Interval | None = None
    reason: str = ""


def widest_gap(levels: Sequence[LevelScore], metric: str) -> tuple[float, LevelScore, LevelScore] | None:
    """Return the largest difference of a metric between two levels of an attribute, the better and the worse level.

    Only pairs whose intervals do not overlap count: small levels differ by chance. None where there is no such pair.
    """
    scored = [(level, level.value, level.interval) for level in levels
              if level.metric == metric and level.value is not None and level.interval is not None]  # fmt: skip
    apart = [(high - low, better, worse) for (better, high, above), (worse, low, below) in permutations(scored, 2)
             if better.attribute == worse.attribute and above.low > below.high]  # fmt: skip
    return max(apart, key=lambda pair: pair[0], default=None)


def level_scores(
    predictions: pd.DataFrame, scores: Sequence[FoldScore], problem: Problem, attributes: Mapping[str, Levels], *,
    level: float = 0.95, ordered: bool = False,
) -> list[LevelScore]:  # fmt: skip
    """Return the score of each metric on the tested rows of each level of each attribute, in that order.

    ``predictions``: of all tested rows (row, repeat, fold, y, prediction, ...). The interval is that of an
    evaluation of these rows alone by default: groups, weights and training included. O(levels x rows).
    """
    rows = predictions["row"].to_numpy()
    return [
        _score(name, levels[code], metric, own, scores, problem, level, ordered)
        for name, (codes, levels) in attributes.items()
        for code in np.unique(codes[rows]).tolist()
        for own in [predictions[codes[rows] == code]]
        for metric in problem.model.metrics
    ]


def _score(
    attribute: str, level_name: str, metric: str, own: pd.DataFrame, scores: Sequence[FoldScore], problem: Problem,
    level: float, ordered: bool,
) -> LevelScore:  # fmt: skip
    evidence = Evidence(metric_of(metric), problem, scores, own, ordered=ordered)
    scored = partial(LevelScore, attribute, level_name, metric, evidence.rows.size)
    if not problem.mass(evidence.rows).any():
        return scored(None, reason=WEIGHTLESS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a metric of rows of one class: said below, in a sentence
        value = evidence.pooled
    if not isfinite(value):
        of = f"these {evidence.rows.size:,} rows, as where they are of one class"
        return scored(None, reason=f"{evidence.metric.title} is undefined on {of}.")
    if evidence.rows.size < LEAST_ROWS:
        return scored(value, reason="one row says nothing of others.")
    interval = interval_for(evidence, "auto", level)
    if isinstance(interval, Declined):
        return scored(value, reason=interval.reason)
    return scored(value, interval.holding(value))


def level_scores_of_draws(
    draws: DrawScores, problem: Problem, attributes: Mapping[str, Levels], *, level: float = 0.95
) -> list[LevelScore]:
    """Return the score of each metric on the rows of each level of each attribute, where splits are draws.

    Draws keep sums of each row's losses, so only metrics that are means over rows have a score: the mean over a
    level's rows of their mean loss in the draws that tested them. The interval takes rows, or groups, for
    independent, and adds the variance of training as for folds. O(levels x rows).
    """
    return [
        _score_of_draws(name, levels[code], metric, np.flatnonzero(codes == code), draws, problem, level)
        for name, (codes, levels) in attributes.items()
        for code in np.unique(codes).tolist()
        for metric in problem.model.metrics
    ]


def _score_of_draws(
    attribute: str, level_name: str, name: str, rows: IntArray, draws: DrawScores, problem: Problem, level: float
) -> LevelScore:
    metric, totals = metric_of(name), draws.totals.get(name)
    scored = partial(LevelScore, attribute, level_name, name)
    if metric.loss is None or totals is None:
        why = f"{metric.title} is not a mean over rows, and draws keep sums of losses alone; choose folds."
        return scored(rows.size, None, reason=why)
    rows = rows[totals.counts[rows] > 0]
    losses, mass, units = totals.means[rows], problem.mass(rows), problem.units(rows)
    if not mass.any():
        return scored(rows.size, None, reason=WEIGHTLESS if rows.size else "no draw tested a row of it.")
    mean = float(np.average(losses, weights=mass))
    value = metric.loss.score(mean)
    n_units = rows.size if units is None else int(units.max()) + 1
    influence = (losses - mean) * mass * (rows.size / mass.sum())
    if n_units < LEAST_ROWS or not moves(influence, mean):
        why = "its rows are of one group." if n_units < LEAST_ROWS else "every row has the same loss."
        return scored(rows.size, value, reason=f"there is no interval: {why}")
    if cancels(influence, units, mean):
        return scored(rows.size, value, reason=SAME_SCORE)
    se, df = standard_error(influence, units, tails=not metric.loss.share)
    training = 1.0 + rows.size / float(draws.table["n_train"].mean())
    low, high = within_range(metric, value, se * sqrt(training), df, level)
    interval = Interval(low, high, level, "means of rows over draws, corrected for training", of=RECIPE)
    return scored(rows.size, value, interval.holding(value))

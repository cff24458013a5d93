"""Choosing among configurations: what the winner is worth without its luck, and the simplest that is as good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.evidence import Evidence
from evenfold.estimates.intervals.methods import corrected_resampled_t
from evenfold.estimates.intervals.registry import interval_for
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.draws import MOST_FAILED, DrawScores
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.models.spec import read_values
from evenfold.estimates.results import Declined, Estimate, FoldScore, Interval
from evenfold.splitters import Stream
from evenfold.splitters.errors import ModelError
from numpy.typing import ArrayLike, NDArray

# The purpose of the stream, so that these resamples share no numbers with any split.
SELECTION = 2018
Means = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # of configurations' losses, by how often units are drawn
TEST_ROWS_ALONE = (
    "What choosing flatters is measured draw by draw, by the test rows of one draw alone: it is taken off rather too "
    "much than too little. The interval is the corrected resampled t."
)


def grid_of(source: Any) -> dict[str, list[object]]:
    """Return lists of values by name, also of a YAML or JSON file or of such text; ModelError for anything else."""
    inline, is_text = str(source).lstrip().startswith("{"), isinstance(source, (str, Path))
    grid = read_values(source, "the grid", inline) if is_text else source
    values = grid.values() if isinstance(grid, Mapping) else ()
    lists = [isinstance(each, Sequence) and each and not isinstance(each, (str, bytes)) for each in values]
    if not lists or not all(lists):
        raise ModelError(f"the grid {grid!r} names no lists of values; write {{name: [value, value]}}.")
    return {name: list(each) for name, each in grid.items()}


def configurations(grid: Mapping[str, Sequence[object]], n_random: int | None, seed: int) -> list[dict[str, object]]:
    """Return the parameters to try: every combination of the grid, or ``n_random`` of them in random order."""
    every = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if n_random is None or n_random >= len(every):
        return every
    # The first of one random order (11: of choosing): asking for more keeps those that were tried.
    return [every[i] for i in Stream(seed, 11).permutation(len(every))[:n_random].tolist()]


@dataclass(frozen=True)
class BestOfMany:
    """The best of several configurations, by its position, and its worth.

    ``naive``: its own mean loss (or score). ``value``: the corrected one, with its ``interval`` from the resamples.
    ``chosen``: how often each configuration won a resample.
    """

    best: int
    naive: float
    value: float
    interval: Interval
    chosen: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bias(self) -> float:
        """The corrected value minus the winner's own."""
        return self.value - self.naive

    def scores(self, best: float) -> BestOfMany:
        """Return the same of scores ``best`` - loss."""
        return replace(self, naive=best - self.naive, value=best - self.value, interval=self.interval.scores(best))


def unit_means(
    oof_losses: ArrayLike, groups: ArrayLike | None = None, weights: ArrayLike | None = None
) -> tuple[Means, int]:
    """Return the mean of ``oof_losses`` (rows x configurations) by how often each unit is drawn, and how many units."""
    losses = np.asarray(oof_losses, dtype=np.float64)
    if losses.ndim != 2 or losses.shape[0] < 2 or not np.all(np.isfinite(losses)):
        raise ModelError(f"oof_losses has the shape {losses.shape}; pass finite losses of rows x configurations.")
    sizes = np.ones(losses.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    sums = losses * sizes[:, None]
    if groups is not None:
        codes = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
        sums = np.stack([np.bincount(codes, weights=column) for column in sums.T], axis=1)
        sizes = np.bincount(codes, weights=sizes).astype(np.float64)

    def means(times: NDArray[np.float64]) -> NDArray[np.float64]:
        # Added over the outer axis, which is in order: the same bytes on every machine.
        return np.asarray(np.add.reduce(times[:, None] * sums, axis=0) / np.add.reduce(times * sizes))

    return means, len(sizes)


def bias_corrected_best(
    means: Means, units: int, *, tolerance: float = 0.0, inflation: float = 1.0, n_resamples: int = 1_000,
    level: float = 0.95, seed: int = 0,
) -> BestOfMany:  # fmt: skip
    """Return the loss to expect of the winner among configurations, from their out-of-fold losses by ``unit_means``.

    Each resample draws units with replacement, takes the first configuration whose mean loss on them is at most
    ``tolerance`` above the smallest, and scores it on the units not drawn; the mean over resamples is the estimate.
    O(resamples x units x configurations), memory flat in the resamples. The interval is that of the resamples' scores,
    scaled by the 1.31 times that scores of .368 n rows spread more than those of n. ``inflation``: of its variance, for
    training (see ``corrected_wald``). Source: Tsamardinos, Greasidou and Borboudakis (2018), Bootstrapping the
    out-of-sample predictions for efficient and accurate cross-validation, whose percentiles are not scaled.
    """
    if units < 5:
        raise ModelError(f"a resample needs rows or groups left out, and there are {units}; 5 is the least.")
    plain, winners, worth = means(np.ones(units)), [], []
    for i in range(n_resamples):
        counts = np.bincount(Stream(seed, SELECTION, i).below(units, units), minlength=units)
        inside, outside = means(counts.astype(np.float64)), means((counts == 0).astype(np.float64))
        if np.all(np.isnan(inside)):
            continue
        winner = _first_near(inside, tolerance)
        if not np.isnan(outside[winner]):
            winners.append(winner)
            worth.append(float(outside[winner]))
    if not worth:
        raise ModelError(f"the metric is undefined in all {n_resamples} resamples; use another metric.")
    skipped, value, best = n_resamples - len(worth), float(np.mean(worth)), _first_near(plain, tolerance)
    undefined = f"The metric is undefined in {skipped:,} of {n_resamples:,} resamples, which are left out."
    left_out = (1 - 1 / units) ** units  # the share of rows that a resample does not draw
    # A share f of n rows that is drawn without repeats has a mean of variance s^2 / n (1/f - 1), not s^2 / (n f).
    scale = sqrt(inflation / (1 / left_out - 1))
    low, high = (value + scale * (np.quantile(worth, [0.5 - level / 2, 0.5 + level / 2]) - value)).tolist()
    interval = Interval(low, high, level, "bootstrap of the choice (BBC-CV)")
    chosen = tuple((np.bincount(winners, minlength=plain.size) / len(worth)).tolist())
    return BestOfMany(best, float(plain[best]), value, interval, chosen, (undefined,) if skipped else ())


def simplest_near_best(scores: ArrayLike, values: ArrayLike | None = None) -> tuple[int, float]:
    """Return the first configuration whose score is within one standard error of the best one's, and that error.

    ``scores``: configurations, from simple to complex, x splits. ``values``: the scores that are compared, by default
    the means. The error is the best one's sd/sqrt(splits), ddof=1. Source: Breiman et al. (1984), section 3.4.3.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2:
        raise ModelError(f"scores has the shape {table.shape}; pass configurations x splits, 2 splits or more.")
    means = table.mean(axis=1) if values is None else np.asarray(values, dtype=np.float64)
    if undefined := int(np.count_nonzero(~np.isfinite(np.column_stack([table, means])).all(axis=1))):
        raise ModelError(f"scores of {undefined:,} configurations are not finite; leave those configurations out.")
    best = int(np.argmax(means))
    error = float(np.std(table[best], ddof=1)) / sqrt(table.shape[1])
    return int(np.flatnonzero(means >= means[best] - error)[0]), error


def _first_near(means: NDArray[np.float64], tolerance: float) -> int:
    return int(np.flatnonzero(means <= np.nanmin(means) + tolerance)[0])


@dataclass(frozen=True)
class Choice:
    """The configuration that is chosen, and its worth. Higher is better.

    ``best``: of the best score. ``chosen``: the same, or the first (simplest) that is as good by the one-standard-error
    rule. ``naive``: the chosen one's own score. ``value``, ``low``, ``high``: the score to expect, with its interval.
    """

    best: int
    chosen: int
    naive: float
    value: float
    low: float
    high: float
    notes: tuple[str, ...] = ()
    level: float = 0.95

    def promised(self, estimates: Sequence[Estimate], metric: str) -> list[Estimate]:
        """Return what later rows are held against: by the metric that chose, what is expected without its luck."""
        whole = isfinite(self.low) and isfinite(self.high)
        interval = Interval(self.low, self.high, self.level, "corrected for the choice") if whole else None
        return [replace(one, value=self.value, interval=interval) if one.metric == metric else one for one in estimates]


@dataclass(frozen=True)
class NestedChoice:
    """A choice that was made anew in every fold: which configuration won in which split, and what that scores."""

    splits: list[int]
    chosen: list[int]
    estimates: list[Estimate]


@dataclass(frozen=True)
class Tried:
    """A configuration that was tried, and its estimates."""

    params: dict[str, object]
    estimates: list[Estimate]


def choose(
    metric: str, problem: Problem, predictions: Sequence[pd.DataFrame], scores: Sequence[Sequence[float]], *,
    one_standard_error: bool = False, level: float = 0.95, seed: int = 0, ordered: bool = False,
    fits: Sequence[Sequence[FoldScore]] = (),
) -> Choice:  # fmt: skip
    """Return the choice among configurations by ``metric``, from out-of-fold predictions of each on the same rows.

    ``scores``: test scores (configurations x splits), for the standard error. ``one_standard_error`` takes
    configurations as ordered from simple to complex. ``ordered``: the rows follow one another in time, and the folds
    are stretches of it. ``fits``: the scores of each one's folds; without them a fold learns from all other rows. Notes
    say where nothing can be corrected, or splits lack scores.
    """
    pairs = zip(predictions, fits or [()] * len(predictions), strict=True)
    evidences = [Evidence(metric_of(metric), problem, fit, frame, ordered=ordered) for frame, fit in pairs]
    values = _values(evidences)
    best = chosen = int(np.argmax(values))
    tolerance, table = 0.0, np.asarray(scores, dtype=np.float64)
    lacking = int(np.sum(~np.all(np.isfinite(table), axis=0))) if one_standard_error else 0
    if one_standard_error and table.shape[1] > 1 and not lacking:
        chosen, tolerance = simplest_near_best(table, values)
    value = float(values[chosen])
    try:
        worth = _worth(evidences, tolerance, level, seed)
    except ModelError as error:  # every configuration is fitted by now: the score of the best is told as it is
        note = f"The score is not corrected for having been chosen: {error!s}"
        worth = BestOfMany(0, value, value, Interval(value, value, level, "none"), notes=(note,))
    if ordered or worth.interval.method == "none":  # so few stretches of time can hardly be drawn: theirs, moved along
        own = interval_for(_with_sizes(evidences[chosen]), "auto", level)
        if isinstance(own, Declined):
            worth, own = replace(worth, notes=(*worth.notes, own.note)), Interval(value, value, level, "none")
        moved, within = worth.value - value, evidences[chosen].metric
        own = replace(own, low=own.low + moved, high=own.high + moved).holding(worth.value)
        worth = replace(worth, interval=own.within(within.low, within.high))
    none = f"{lacking:,} of {table.shape[1]:,} splits lack a score of some configuration: there is no standard error."
    notes = (*worth.notes, *([none] if lacking else ()), *_simpler(best, chosen, tolerance))
    ends = worth.interval.low, worth.interval.high
    return Choice(best, chosen, float(values[chosen]), worth.value, *ends, notes, level)


def _simpler(best: int, chosen: int, tolerance: float) -> tuple[str, ...]:
    near = f"is the first within one standard error ({tolerance:.3g}) of the best, {best + 1}"
    sentence = f"Configuration {chosen + 1} {near}; value and interval are what this rule is worth."
    return () if chosen == best else (sentence,)


def chosen_inside(
    metric: str, problem: Problem, predictions: Sequence[pd.DataFrame], *, one_standard_error: bool = False
) -> int:
    """Return the configuration that ``choose`` takes by predictions of some rows, in which its fold is named."""
    evidences = [Evidence(metric_of(metric), problem, predictions=frame) for frame in predictions]
    values = _values(evidences)
    folds = [[one.score(part) for _, part in one.parts[0].groupby("fold")] for one in evidences if one_standard_error]
    if not folds or len(folds[0]) < 2 or not np.all(np.isfinite(folds)):
        return int(np.argmax(values))
    return simplest_near_best(folds, values)[0]


def with_tested_past(pairs: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]], n: int) -> list[int]:
    """Return the splits, in time order, that train on rows which earlier ones test, and so can choose by something."""
    judged, tested = [], np.zeros(n, dtype=bool)
    for i, (train, test) in enumerate(pairs):
        if tested[train].any():  # of the rows inside a gap the targets are not known yet
            judged.append(i)
        tested[test] = True
    return judged


def _values(evidences: Sequence[Evidence]) -> NDArray[np.float64]:
    """Return the pooled score of each; raises ModelError where one is undefined."""
    values = np.array([one.pooled for one in evidences])
    if undefined := int(np.sum(~np.isfinite(values))):
        raise ModelError(f"{evidences[0].metric.name} is undefined for {undefined} configurations.")
    return values


def _worth(evidences: Sequence[Evidence], tolerance: float, level: float, seed: int) -> BestOfMany:
    """Return the worth of the rule's choice, as a score; a row that is drawn comes with all its tests."""
    first, loss = _with_sizes(evidences[0]), evidences[0].metric.loss
    inflation = 1.0 + first.train_ratio if len(first.scores) > 1 else 1.0
    together = first.batches if first.ordered else first.units
    units = np.arange(first.rows.size) if together is None else together

    def means(times: NDArray[np.float64]) -> NDArray[np.float64]:
        at = np.repeat(np.arange(units.size), times.astype(np.int64)[units])
        return np.array([-one.score_drawn(at) for one in evidences])

    how: tuple[Means, int] = means, int(units.max()) + 1
    if loss is not None:
        losses, masses = zip(*(one.lost(loss) for one in evidences), strict=True)
        how = unit_means(np.column_stack(losses), together, masses[0])
    n = 200 if loss is None else 1_000  # scorers are slow
    worth = bias_corrected_best(*how, tolerance=tolerance, inflation=inflation, n_resamples=n, level=level, seed=seed)
    scored = worth.scores(0.0 if loss is None else loss.best)
    return replace(scored, interval=scored.interval.within(first.metric.low, first.metric.high))


def _with_sizes(evidence: Evidence) -> Evidence:
    """Return the evidence and how many rows its folds test, and train on: all others, where nothing says it."""
    if evidence.scores:
        return evidence
    tested, n = evidence.parts[0].groupby("fold").size().tolist(), evidence.rows.size
    return replace(evidence, scores=[FoldScore("", 0, 0, {}, {}, n - size, size, 0.0, 0.0) for size in tested])


def choose_by_draws(
    metric: str, problem: Problem, draws: Sequence[DrawScores], *, one_standard_error: bool = False,
    level: float = 0.95, seed: int = 0, n_rows: int | None = None,
) -> Choice:  # fmt: skip
    """Return the choice among configurations by their mean score over the same draws: random splits or bootstraps.

    A metric that is a mean over rows is corrected by resampling rows' (whole groups') mean out-of-bag losses, as in
    ``bias_corrected_best``. Any other loses the mean difference between each draw's winner and the choice, rather too
    much (Tibshirani and Tibshirani, 2009). The error of ``one_standard_error`` is the corrected t's. ``n_rows``: for
    draws with replacement, the rows drawn from, as in ``compare_draws``. Draws that lack a configuration's score are
    left out and counted in a note; raises ModelError where they are more than half.
    """
    name = metric_of(metric).name
    table = np.stack([draw.scores_of(name).to_numpy(dtype=np.float64) for draw in draws])
    defined = np.all(np.isfinite(table), axis=0)
    undefined = int(np.sum(~defined))
    lacking = f"{name} has no score for some configuration in {undefined:,} of {defined.size:,} draws"
    if undefined > MOST_FAILED * defined.size:
        raise ModelError(f"{lacking}; use another metric, or draws that test more rows and keep every class.")
    table = table[:, defined]
    means = table.mean(axis=1)
    best = int(np.argmax(means))
    trained, tested = (draws[0].table[of].to_numpy(dtype=np.float64) for of in ("n_train", "n_test"))
    trained = trained if n_rows is None else n_rows - tested
    sizes, inflation = [trained[defined], tested[defined]], 1.0 + float(np.mean(tested / trained))
    spread = corrected_resampled_t(table[best], *sizes, level=level) if table.shape[1] > 1 else None
    tolerance = spread.se if one_standard_error and spread else 0.0
    chosen = int(np.flatnonzero(means >= means[best] - tolerance)[0]) if tolerance else best
    of_rows = _of_rows(name, problem, draws, tolerance=tolerance, inflation=inflation, level=level, seed=seed)
    bias, interval, note = of_rows or _of_draws(table, chosen, sizes, level)
    value = float(means[chosen]) + bias
    bounded = replace(interval, notes=()).holding(value).within(metric_of(metric).low, metric_of(metric).high)
    left_out = (f"{lacking}, which are left out.",) if undefined else ()
    notes = (*left_out, *((note,) if note else ()), *_simpler(best, chosen, tolerance))
    return Choice(best, chosen, float(means[chosen]), value, bounded.low, bounded.high, notes, level)


def _of_rows(
    name: str, problem: Problem, draws: Sequence[DrawScores], **how: Any
) -> tuple[float, Interval, str] | None:
    """Return the correction of the choice's score, the interval and a note, by losses; None where those are few."""
    loss = metric_of(name).loss
    of_draws = [lost for draw in draws if (lost := draw.losses(name)) is not None]
    if loss is None or len(of_draws) < len(draws):
        return None
    losses = np.column_stack(of_draws)
    seen = ~np.isnan(losses).any(axis=1)
    groups, weights = (None if of is None else of[seen] for of in (problem.groups, problem.weights))
    try:
        worth = bias_corrected_best(*unit_means(losses[seen], groups, weights), **how)
    except ModelError:  # too few rows or groups to leave some out
        return None
    return -worth.bias, worth.interval.scores(loss.best), ""


def _of_draws(
    table: NDArray[np.float64], chosen: int, sizes: Sequence[NDArray[np.float64]], level: float
) -> tuple[float, Interval, str]:
    """Return the same by the scores of draws (configurations x draws)."""
    bias = float(np.mean(table[chosen] - table.max(axis=0)))
    if table.shape[1] < 2:
        value = float(table[chosen, 0]) + bias
        return bias, Interval(value, value, level, "none"), "One draw has no interval; use more."
    own = corrected_resampled_t(table[chosen], *sizes, level=level).interval
    return bias, Interval(own.low + bias, own.high + bias, level, own.method), TEST_ROWS_ALONE

"""The bootstrap's estimates of error: apparent, leave-one-out, out-of-bag, .632 and .632+, with all ingredients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.folds import sample_sd, spread_note, with_baseline
from evenfold.estimates.intervals.methods import ALIKE, corrected_resampled_t, standard_error, within_range
from evenfold.estimates.intervals.registry import RECIPE
from evenfold.estimates.metrics.record import Answered, Codes, Floats, Metric
from evenfold.estimates.metrics.registry import metric_of, no_information_rate
from evenfold.estimates.models.draws import Drawn, DrawScores
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.estimates.results import Declined, Estimate, FoldScore, Interval
from evenfold.splitters.errors import ModelError

TRAINING = 2.0  # times the variance of the recipe's error makes that of the very model's
IN, OUT = 0.368, 0.632
SAME = 0.05  # of err1: .632 and .632+ that are nearer than this say the same
OF_ROWS = "needs predictions of every row, and draws keep their scores alone"


@dataclass(frozen=True)
class Multiplicities:
    """The counts of each unit (row or group) in each draw, and the share of the mass left out. O(draws x rows)."""

    times: Floats
    out: Floats
    numbers: IntArray

    @classmethod
    def of(cls, draws: Iterable[Drawn], rows: IntArray, units: Codes | None, mass: Floats) -> Multiplicities:
        """Return those of some draws; ``units`` and ``mass``: of each of ``rows``, the rows that may be drawn."""
        n = int(rows.max()) + 1
        first = np.arange(rows.size) if units is None else np.unique(units, return_index=True)[1]
        of_row = np.zeros(n)
        of_row[rows] = mass / mass.sum()
        times, out, numbers = [], [], []
        for number, (train, test) in draws:
            times.append(np.bincount(train, minlength=n)[rows[first]])
            out.append(of_row[test].sum())
            numbers.append(number)
        return cls(np.array(times, dtype=np.float64), np.array(out), np.array(numbers))


def spread_of_draws(
    per_row: Floats, mass: Floats, units: Codes | None, drawn: Multiplicities, means: Floats
) -> tuple[float, float]:
    """Return the standard error of the leave-one-out bootstrap's error, and its degrees of freedom.

    ``per_row``: each row's mean loss over the draws without it; ``means``: that of each draw, NaN where it has none.
    The delta method after the bootstrap: unit i moves the error by D_i = (2 + 1/(n-1)) (E_i - Err1)/n + (1 - 1/n)^-n
    mean over draws of (N_i - mean N_i) q, with q the sum of the losses left out, over n; the squares of D_i are summed,
    less what chance adds. Source: Efron and Tibshirani (1997), section 5; bias correction of Wager, Hastie and Efron
    (2014), Confidence intervals for random forests, section 4.1. Degrees of freedom: ``standard_error`` with tails.
    """
    codes = np.arange(per_row.size) if units is None else units
    n = int(codes.max()) + 1
    if n < 3:
        raise ModelError(f"a standard error needs 3 rows or groups, and there are {n}; use a finer grouping.")
    share = mass / mass.sum()
    own = np.bincount(codes, weights=share * (per_row - float(share @ per_row))).astype(np.float64)
    there = np.isfinite(means)
    q, times = means[there] * drawn.out[there], drawn.times[there]
    if q.size < 2:
        raise ModelError(f"a standard error needs 2 draws with a score, and there are {q.size}; draw more.")
    scale = (1 - 1 / n) ** -n
    moved = scale * np.mean((times - times.mean(axis=0)) * q[:, None], axis=0)
    chance = scale**2 * float(np.sum(times.var(axis=0))) * float(q.var(ddof=1)) / q.size
    raw = float(np.sum(np.square((2 + 1 / (n - 1)) * own + moved)))
    # The variance of the mean of these losses over n units; a difference of two noisy sums may fall below it.
    least = n / (n - 1) * float(np.sum(np.square(own)))
    return sqrt(max(raw - chance, least)), standard_error(own, None, tails=True)[1]


def interval_of_draws(
    metric: Metric, value: float, err1: float, spread: tuple[float, float], level: float, *, grouped: bool = False
) -> Interval | Declined:
    """Return the interval of an estimate of a bootstrap, from the ``spread`` of the leave-one-out error ``err1``.

    The standard error is the same share of .632 and .632+ as of err1 (Efron and Tibshirani 1997). It is that of the
    recipe's error; the very model's variance counts ``TRAINING`` times. ``grouped``: whether whole groups are drawn.
    """
    assert metric.loss is not None
    # score() is its own inverse, so of a score it makes the error.
    error = metric.loss.score(value)
    if not err1 > 0 or not metric.low < value < metric.high:
        return Declined("no draw made an error, so nothing says how far another sample would be off.")
    if spread[0] <= 1e-12 * err1:
        unit = "group" if grouped else "row"
        return Declined(f"every {unit} has the same loss, so draws say nothing of how far another sample would be off.")
    se = spread[0] * sqrt(TRAINING) * error / err1
    low, high = within_range(metric, value, se, spread[1], level)
    return Interval(low, high, level, "delta method after the bootstrap", of=RECIPE)


@dataclass(frozen=True)
class BootstrapEstimate:
    """The .632+ estimate and its ingredients: losses, lower is better, or after ``scores`` scores.

    ``err``: the apparent error, of the model fitted on all rows. ``err1``: the leave-one-out bootstrap, each row's mean
    loss over the resamples without it, averaged over rows. ``oob``: the mean of the resamples' out-of-bag means.
    ``gamma``: the no-information rate. ``relative_overfitting``: R', from 0 (none) to 1 (as bad as no information).
    ``weight``: of err1 in ``e632plus``, from .632 to 1. ``note``: a warning of .632, or "".
    """

    err: float
    err1: float
    oob: float
    gamma: float
    relative_overfitting: float
    weight: float
    e632: float
    e632plus: float
    note: str = ""

    def scores(self, best: float) -> BootstrapEstimate:
        """Return the estimate with every error e as the score ``best`` - e."""
        errors = ("err", "err1", "oob", "gamma", "e632", "e632plus")
        return replace(self, **{name: best - getattr(self, name) for name in errors})


def bootstrap_estimate(err: float, err1: float, oob: float, gamma: float) -> BootstrapEstimate:
    """Return .632 = .368 err + .632 err1 and .632+ = (1 - weight) err + weight err1', from errors, lower is better.

    Source: Efron and Tibshirani (1997), Improvements on cross-validation: the .632+ bootstrap method. R' is clipped
    to [0, 1], as it measures a share, and err1' = min(err1, gamma) goes with it. A gamma of NaN gives no .632+.
    """
    capped = min(err1, gamma) if gamma > err else err1
    rate = min(max((capped - err) / (gamma - err), 0.0), 1.0) if min(err1, gamma) > err else 0.0
    if isnan(gamma):
        rate = gamma
    weight = OUT / (1 - IN * rate)
    e632, e632plus = IN * err + OUT * err1, (1 - weight) * err + weight * capped
    by_heart = err < 0.5 * err1 and not abs(e632plus - e632) <= SAME * err1  # without .632+ nothing is alike
    advice = "the model nearly knows its training rows by heart, and .632 is then too optimistic; read .632+"
    note = f"The apparent error ({err:.3g}) is less than half of err1 ({err1:.3g}): {advice}."
    return BootstrapEstimate(err, err1, oob, gamma, rate, weight, e632, e632plus, note if by_heart else "")


def bootstrap_aggregate(
    draws: DrawScores, apparent: FoldScore, predictions: pd.DataFrame, problem: Problem, *,
    drawn: Multiplicities | None = None, interval: str = "auto", level: float = 0.95,
    baseline: tuple[str, pd.DataFrame] | None = None, seed: int = 0,
) -> list[Estimate]:  # fmt: skip
    """Return the bootstrap's estimates per metric: out-of-bag, .632 and .632+, the last the one to report.

    ``apparent`` and ``predictions``: of one extra fit on all rows, ``fit_and_score`` with all rows on both sides.
    Out-of-bag is ``err1`` of a mean over rows, else the mean over draws. ``drawn``: for intervals of means over rows.
    ``baseline``: of ``baseline_of_draws``; its out-of-bag score stands beside all of them, as a constant hardly learns
    rows by heart. Raises EvaluationError where more than half of the draws have no score.
    """
    estimates: list[Estimate] = []
    for name in apparent.test:
        defined = draws.defined(name)
        estimate, about = _ingredients(name, draws, apparent, predictions, problem, seed)
        notes = [spread_note(defined.size, "draws"), *(f"{fact}." for fact in draws.lacking(name))]
        of_632 = (*notes, *about, *filter(None, [estimate.note]))
        # err1, of which .632 is made, and not the mean over draws: what is printed adds up.
        values = {"out-of-bag": estimate.err1, ".632": estimate.e632, ".632+": estimate.e632plus}
        names = ("err", "err1", "oob", "gamma", "relative_overfitting", "weight")
        numbers = {name: value for name in names if not isnan(value := getattr(estimate, name))}
        of_metric = [
            Estimate(name, method, value, sd=sample_sd(defined.tolist()), se=None, n_splits=int(defined.size),
                     apparent=estimate.err, gap=estimate.err - value, ingredients=numbers,
                     notes=of_632 if method == ".632" else (*notes, *draws.warned, *about))
            for method, value in values.items() if not isnan(value)
        ]  # fmt: skip
        if drawn is not None and interval != "none":
            of_metric = _with_intervals(of_metric, draws, predictions, problem, drawn, interval, level)
        estimates += of_metric
    return [with_baseline(estimate, draws.table, baseline) for estimate in estimates]


def _with_intervals(
    estimates: list[Estimate], draws: DrawScores, predictions: pd.DataFrame, problem: Problem, drawn: Multiplicities,
    interval: str, level: float,
) -> list[Estimate]:  # fmt: skip
    """Return one metric's estimates with their intervals, or with the reason why there is none."""
    metric = metric_of(estimates[0].metric)
    losses = draws.losses(metric.name)
    if interval != "auto" or metric.loss is None or losses is None:
        of_a_mean = f"the bootstrap's standard error is that of a mean over rows, and {metric.title} is none"
        by_folds = f"{of_a_mean}; choose folds, whose intervals are for any metric."
        why = by_folds if interval == "auto" else f"{interval} {OF_ROWS}; choose auto."
        return [estimate.bounded(Declined(why)) for estimate in estimates]
    rows = predictions["row"].to_numpy()
    lost = losses[rows]
    never = np.isnan(lost)
    per_row, mass = np.where(never, 0.0, lost), np.where(never, 0.0, problem.mass(rows))
    scores = draws.table.set_index("draw")[metric.name].reindex(drawn.numbers).to_numpy(dtype=np.float64)
    err1, grouped = float(np.average(per_row, weights=mass)), problem.groups is not None
    spread = spread_of_draws(per_row, mass, problem.units(rows), drawn, metric.loss.best - scores)
    around = partial(interval_of_draws, metric, err1=err1, spread=spread, level=level, grouped=grouped)
    return [estimate.bounded(around(estimate.value)) for estimate in estimates]


def _ingredients(
    metric: str, draws: DrawScores, apparent: FoldScore, predictions: pd.DataFrame, problem: Problem, seed: int
) -> tuple[BootstrapEstimate, list[str]]:
    """Return the bootstrap's numbers in the metric's own units, and what is to be said of them."""
    answered, rows = Answered.of(predictions, problem.classes), predictions["row"].to_numpy()
    gamma = no_information_rate(metric, answered, seed=seed)
    loss, on_all, out = metric_of(metric).loss, apparent.test[metric], draws.defined(metric)
    if loss is None or (losses := draws.losses(metric)) is None:
        # As losses: 1 - s for scores whose best is 1, else -s. R' is the same for any such map.
        best = 1.0 if on_all > 0 else 0.0
        error = best - float(np.mean(out))
        note = "The metric is not a mean over rows: the out-of-bag mean over resamples stands for err1."
        return bootstrap_estimate(best - on_all, error, error, best - gamma).scores(best), [note]
    lost, weights = losses[rows], answered.weights
    seen = ~np.isnan(lost)
    err, oob = answered.mean(loss.of(answered)), float(np.mean(loss.best - out))
    err1 = float(np.average(lost[seen], weights=None if weights is None else weights[seen]))
    estimate = bootstrap_estimate(err, err1, oob, loss.score(gamma))
    never = int(np.sum(~seen))
    note = f"{never:,} of {seen.size:,} rows were never out of bag and are not in err1; draw more resamples."
    return estimate.scores(loss.best), [note] if never else []


def resampled_aggregate(
    draws: DrawScores, apparent: FoldScore, *, stratified: bool = False, interval: str = "auto", level: float = 0.95,
    baseline: tuple[str, pd.DataFrame] | None = None,
) -> list[Estimate]:  # fmt: skip
    """Return one Estimate per metric from random (train, test) draws that are no bootstrap.

    ``apparent``: the score of one extra fit on all rows. ``interval``: the corrected resampled t of Nadeau and Bengio
    (2003), Inference for the generalization error, which warns where draws are ``stratified`` on y; or "none".
    ``baseline``: of ``baseline_of_draws``. Raises EvaluationError where more than half of the draws have no score.
    """
    n_train, n_test = (float(draws.table[name].mean()) for name in ("n_train", "n_test"))
    estimates = []
    for metric, on_all in apparent.apparent.items():
        defined, reading = draws.defined(metric), metric_of(metric)
        mean, lacking = float(defined.mean()), (f"{fact}." for fact in draws.lacking(metric))
        outcome: Interval | Declined = Declined("")
        if interval not in ("auto", "corrected_t", "none"):
            outcome = Declined(f"{interval} {OF_ROWS}; choose corrected_t.")
        elif interval != "none" and defined.size > 1:
            outcome = Declined(ALIKE)
            if defined.min() < defined.max():
                test = corrected_resampled_t(defined, n_train, n_test, level=level, stratified=stratified)
                outcome = test.interval.within(reading.low, reading.high)
        estimate = Estimate(
            metric, "random splits", mean, sd=sample_sd(defined.tolist()), se=None, n_splits=defined.size,
            apparent=on_all, gap=on_all - mean,
            notes=(spread_note(defined.size, "draws"), *draws.warned, *lacking),
        ).bounded(outcome)  # fmt: skip
        sizes = {"n_train": n_train, "n_test": n_test, "level": level} if estimate.interval else {}
        estimates.append(with_baseline(estimate, draws.table, baseline, **sizes))
    return estimates

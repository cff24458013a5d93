"""Intervals of any metric from each row's influence on the pooled score, and those from the scores of splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from evenfold.estimates.intervals.evidence import Evidence
from evenfold.estimates.metrics.formulas import wrong
from evenfold.estimates.metrics.record import Codes, Floats, Metric, RowLoss
from evenfold.estimates.results import Declined, Interval
from evenfold.splitters.errors import ModelError
from numpy.typing import ArrayLike
from scipy import stats

LEAST_DF = 3.0  # of a variance of uneven groups
HEAVY, RESAMPLES, MOST_ROWS = 15.0, 999, 20_000  # few degrees of freedom of many rows: a heavy tail
SAME_SCORE = "every group or stretch of time has the same score, so nothing says how far another sample would be off."
LEAST_STRETCHES = 3
STRATIFIED = (
    "The splits are stratified on the target and so alike by design: their spread understates the uncertainty, and an "
    "interval made of it covered the truth in as little as .67 of the cases where it said .90."
)
ALIKE = "every split has the same score, so their spread says nothing of how far the value is from the truth."
Spread = tuple[float, float]  # a standard error and its degrees of freedom


def standard_error(influence: Floats, units: Codes | None, *, tails: bool = False) -> tuple[float, float]:
    """Return the standard error of a score whose rows have this influence, and its degrees of freedom. O(n).

    The square of a unit's sum counts 1/(1 - h) times, h its share of the rows: unbiased where units vary alike (CR2
    of a mean: Bell and McCaffrey 2002). Degrees of freedom are Satterthwaite's where all variance is between units, at
    least 3; ``tails`` keeps them to 2 n / (kurtosis - 1): units that hold most variance are few observations of it.
    """
    sums = influence if units is None else np.bincount(units, weights=influence).astype(np.float64)
    if sums.size < 2:
        needed = f"an interval needs 2 independent rows or groups, and there is {sums.size}"
        raise ModelError(f"{needed}; use a finer grouping.")
    share = np.full(sums.size, 1 / sums.size) if units is None else np.bincount(units) / influence.size
    squares = np.square(sums)
    se = sqrt(float(np.sum(squares / (1 - share)))) / influence.size
    df = sums.size - 1.0 if units is None else _satterthwaite(share)
    if tails and se > 0:
        kurtosis = sums.size * float(np.sum(np.square(squares))) / float(np.sum(squares)) ** 2
        df = min(df, 2 * sums.size / (kurtosis - 1)) if kurtosis > 1 else df
    return se, df if units is None else max(df, min(sums.size - 1.0, LEAST_DF))


def _satterthwaite(share: Floats) -> float:
    """Return tr(M)^2 / tr(M^2) of M = D diag(1/(1 - h)) D with D = diag(h) - h h', written out: O(units)."""
    own = share**2 / (1 - share)
    total, hh, uh, uu = (float(np.sum(each)) for each in (own, share**2, own * share, own**2))
    trace = total - 2 * uh + total * hh
    square = uu - 4 * float(np.sum(own**2 * share)) + 2 * total * float(np.sum(own * share**2))
    square += 2 * uu * hh + 2 * uh**2 - 4 * total * uh * hh + total**2 * hh**2
    return round(trace**2 / square, 9)  # equal units have a whole number of them


def within_range(metric: Metric, value: float, se: float, df: float, level: float) -> tuple[float, float]:
    """Return the interval of a score with this standard error, made on a scale on which the metric has no ends.

    Shares of rows: Wilson (1927), with as many rows as the standard error is worth. Scores with two ends: the logit.
    Scores below an end (errors, R2): the logarithm of the distance from it. Others: the score itself. So no interval
    leaves the metric's range. A score at an end has its own interval, cut off there.
    """
    quantile = float(stats.t.ppf(0.5 + level / 2, df))
    if not metric.low < value < metric.high:
        return max(value - quantile * se, metric.low), min(value + quantile * se, metric.high)
    if metric.loss is not None and metric.loss.share:
        return wilson(value, value * (1 - value) / se**2, quantile)
    if np.isfinite(metric.low) and np.isfinite(metric.high):
        width = metric.high - metric.low
        share = (value - metric.low) / width
        # The delta method: the logit's derivative is 1 / (share (1 - share)), the logarithm's below 1 / apart.
        half = quantile * se / width / (share * (1 - share))
        odds = share / (1 - share) * np.exp([-half, half])
        low, high = (metric.low + width * odds / (1 + odds)).tolist()
        return low, high
    if np.isfinite(metric.high):
        apart = metric.high - value
        half = quantile * se / apart
        return metric.high - apart * float(np.exp(half)), metric.high - apart * float(np.exp(-half))
    return value - quantile * se, value + quantile * se


def wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of n rows: never of zero width, and within 0 and 1."""
    shrink = 1 + quantile**2 / n
    centre = (share + quantile**2 / (2 * n)) / shrink
    half = quantile / shrink * sqrt(share * (1 - share) / n + quantile**2 / (4 * n**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def has_influence(influence: Floats, value: float) -> bool:
    """Return whether any row moves a score, beyond what sums in floating point do."""
    return bool(np.any(np.abs(influence) > 1e-12 * max(abs(value), 1.0)))


def scatter(values: Floats) -> bool:
    """Return whether some of 1 or more values differ, beyond what sums in floating point do."""
    return has_influence(values - values[0], values[0])


def cancels(influence: Floats, units: Codes | None, value: float) -> bool:
    """Return whether rows move a score and cancel out in every unit, beyond what sums in floating point do."""
    if units is None or not has_influence(influence, value):
        return False
    rounding = 1e-12 * np.abs(influence) + 1e-12 * max(abs(value), 1.0)
    return bool(np.all(np.abs(np.bincount(units, weights=influence)) <= np.bincount(units, weights=rounding)))


def _worth(mass: Floats, units: Codes | None) -> float:
    """Return how many rows, or units, of one weight tell as much as these: Kish (1965), Survey sampling."""
    masses = mass if units is None else np.bincount(units, weights=mass)
    return float(np.square(masses.sum()) / np.sum(np.square(masses)))


def _of_certain(
    evidence: Evidence, value: float, units: Codes | None, trained: bool, level: float
) -> Interval | Declined:
    """Return the interval where no row moves the score: all right (or all wrong), which is no proof of certainty."""
    metric = evidence.metric
    if not (np.isfinite(metric.low) and np.isfinite(metric.high)):
        return Declined(f"no row alone moves {metric.title}, so nothing says how far another sample would be off.")
    mass, y = evidence.problem.mass(evidence.rows), evidence.problem.y[evidence.rows]
    n = _worth(mass, units)
    if metric.needs == "every class":  # the score is as uncertain as its rarest class
        n = min(_worth(mass * (y == label), units) for label in np.unique(y[mass > 0]))
    share = (value - metric.low) / (metric.high - metric.low)
    n = n / evidence.inflation(value, n) if trained else n
    ends = wilson(share, n, float(stats.norm.ppf(0.5 + level / 2)))
    low, high = (metric.low + (metric.high - metric.low) * end for end in ends)
    return Interval(low, high, level, "Wilson, no errors" if share > 0.5 else "Wilson")


def _of_recalls(evidence: Evidence, trained: bool, level: float, name: str) -> Interval:
    """Return the interval of a mean of the classes' recalls: Wilson's of each, by MOVER (Zou and Donner 2008)."""
    metric, z = evidence.metric, float(stats.norm.ppf(0.5 + level / 2))
    lost, mass = evidence.lost(RowLoss(1.0, wrong))
    y, width, ends = evidence.problem.y[evidence.rows], metric.high - metric.low, []
    masses = [np.where(y == label, mass, 0.0) for label in np.unique(y[mass > 0])]
    recalls = [1 - float(np.average(lost, weights=own)) for own in masses]
    value = metric.low + width * float(np.mean(recalls))
    for recall, own in zip(recalls, masses, strict=True):
        n = _worth(own, None)
        low, high = wilson(recall, n / evidence.inflation(value, n) if trained else n, z)
        ends.append((recall - low, high - recall))
    below, above = width * np.sqrt(np.sum(np.square(ends), axis=0)) / len(ends)
    return Interval(max(value - below, metric.low), min(value + above, metric.high), level, name)


def _by_resampling(influence: Floats, apart: float, se: float, level: float, seed: int) -> tuple[float, float]:
    """Return the factors of a mean loss with a heavy tail: bootstrap-t on the log scale (Efron and Tibshirani 1993)."""
    draw, n, ratios = np.random.Generator(np.random.Philox(seed)), influence.size, []
    for _ in range(RESAMPLES):
        lost = apart - influence[draw.integers(n, size=n)]
        mean, sd = float(lost.mean()), float(lost.std())
        if mean > 0 and sd > 0:
            ratios.append(np.log(mean / apart) * mean / sd * sqrt(n))
    low, high = np.exp(-np.quantile(ratios, [(1 + level) / 2, (1 - level) / 2]) * se / apart)
    return float(low), float(high)


def _from_rows(
    evidence: Evidence, level: float, name: str, trained: bool = False, units: Codes | None = None
) -> Interval | Declined:
    """Return the interval of the pooled score; ``trained``: with the variance of training."""
    metric = evidence.metric
    if metric.of_single_rows:
        return Declined(metric.of_single_rows)
    if (pooled := evidence.influence) is None:
        return Declined(f"{metric.title} is undefined where some rows are left out; choose interval: bootstrap.")
    value, influence, of_row = pooled
    units = of_row if units is None else units
    n_units = influence.size if units is None else int(units.max()) + 1
    if n_units < 2:
        return Declined(f"an interval needs 2 independent rows or groups, and there is {n_units}; group finer.")
    if not has_influence(influence, value):
        return _of_certain(evidence, value, units, trained, level)
    if units is None and metric.of_recalls:
        return _of_recalls(evidence, trained, level, name)
    if cancels(influence, units, value):
        return Declined(SAME_SCORE)
    loss = metric.loss
    shares = loss is not None and loss.share  # Wilson knows how uncertain they are
    se, df = standard_error(influence, units, tails=not shares)
    se *= sqrt(evidence.inflation(value, df)) if trained else 1.0
    heavy = loss is not None and units is None and not shares and df < HEAVY and influence.size <= MOST_ROWS
    if heavy and not np.isfinite(metric.low) and value < metric.high:
        apart = metric.high - value
        less, more = _by_resampling(influence, apart, se, level, evidence.seed)
        low, high = metric.high - apart * more, metric.high - apart * less
    else:
        low, high = within_range(metric, value, se, df, level)
    alone = units is None or (evidence.units is None and units is of_row)  # or blocks of the jackknife, no clusters
    return Interval(low, high, level, name if alone else f"{name}, cluster-robust")


def wald(evidence: Evidence, level: float) -> Interval | Declined:
    """Return the interval of the pooled score that takes the fitted models as given."""
    return _from_rows(evidence, level, "pooled rows")


def corrected_wald(evidence: Evidence, level: float) -> Interval | Declined:
    """Return the interval of the pooled score of the recipe: other rows would have trained other models.

    The variance over rows counts 1 + c n/n_train times. c = 1 is the correction of Nadeau and Bengio (2003) with s^2
    of the rows, not of the folds: it holds for stratified folds, and repeats do not shrink it. Training moves a score
    less where models hardly overfit: c = max(sqrt(o), min(1, 10/df)), o the share of the out-of-fold error that
    training rows do not show, 1 where they have no scores. Models that learnt from n_train of n rows are worse than one
    of all n: the better end moves by half of (1 - n_train/n) (apparent - value), at most a quarter of its distance.
    """
    if len(evidence.scores) < 2:
        return wald(evidence, level)
    interval = _from_rows(evidence, level, "pooled rows, corrected for training", True)
    if isinstance(interval, Declined) or evidence.apparent is None or evidence.influence is None:
        return interval
    value = evidence.influence[0]
    # Of a level, of fewer rows than its models learnt from, nothing says how much better one of all rows would be.
    learnt = max(1 - 1 / evidence.train_ratio, 0.0) * (evidence.apparent - value) / 2
    further = max(min(learnt, (interval.high - value) / 4), 0.0)
    return replace(interval, high=min(interval.high + further, evidence.metric.high))


def too_few(n_stretches: int) -> str:
    """Return why so many stretches of time give no interval, and what would; "" where they are enough."""
    there = "1 stretch is" if n_stretches == 1 else f"{n_stretches} stretches are"
    few = f"rows of a time series depend on one another, and {there} too few to say how much"
    return "" if n_stretches >= LEAST_STRETCHES else f"{few}; use {LEAST_STRETCHES} splits or more."


def stretches(evidence: Evidence, level: float) -> Interval | Declined:
    """Return the interval for rows in time: each fold's stretch is one observation (batch means)."""
    if reason := too_few(int(evidence.batches.max()) + 1):
        return Declined(reason)
    return _from_rows(evidence, level, "stretches of time", True, evidence.batches)


def around(value: float, spread: Spread | None, level: float, method: str, of: str = "") -> Interval | None:
    """Return Student's t interval around a value; None where nothing says how far it is off."""
    if spread is None:
        return None
    half = float(stats.t.ppf(0.5 + level / 2, spread[1])) * spread[0]
    return Interval(value - half, value + half, level, method, of=of)


@dataclass(frozen=True)
class CorrectedT:
    """The mean of some differences, its corrected standard error, t with ``df`` degrees of freedom, p and interval."""

    mean: float
    se: float
    t: float
    df: int
    p: float
    interval: Interval


def corrected_resampled_t(
    differences: ArrayLike, n_train: ArrayLike, n_test: ArrayLike, *, level: float = 0.95, stratified: bool = False
) -> CorrectedT:
    """Return the test that the mean of J scores, or of J differences of scores, is 0.

    se^2 = s^2 (1/J + n_test/n_train), s^2 the sample variance, as splits share training rows. ``n_train``,
    ``n_test``: rows of each side, one number or one per split. ``stratified`` on the target is warned about. Source:
    Nadeau and Bengio (2003), Inference for the generalization error.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size < 2:
        raise ModelError(f"a t test needs 2 differences, and there is {values.size}; use more splits.")
    ratio = float(np.mean(np.asarray(n_test, dtype=np.float64) / np.asarray(n_train, dtype=np.float64)))
    mean, df = float(np.mean(values)), values.size - 1
    se = sqrt(float(np.var(values, ddof=1)) * (1 / values.size + ratio))
    t = mean / se if se > 0 else (0.0 if mean == 0 else float(np.copysign(np.inf, mean)))
    half = float(stats.t.ppf(0.5 + level / 2, df)) * se
    notes = (STRATIFIED,) if stratified else ()
    interval = Interval(mean - half, mean + half, level, "corrected resampled t", notes)
    return CorrectedT(mean, se, t, df, float(2 * stats.t.sf(abs(t), df)), interval)


def of_splits(evidence: Evidence, level: float) -> Interval | Declined:
    """Return the corrected t interval of the mean over splits."""
    if evidence.stratified:
        return Declined(f"{STRATIFIED} Choose auto, or random folds.")
    values = [score.test[evidence.metric.name] for score in evidence.scores if evidence.metric.name in score.test]
    if len(values) < 2:
        return Declined("the corrected t needs the scores of 2 splits, and there is 1; use more splits.")
    if min(values) == max(values):
        return Declined(f"{ALIKE} Choose auto.")
    sizes = ([score.n_train for score in evidence.scores], [score.n_test for score in evidence.scores])
    interval = corrected_resampled_t(values, *sizes, level=level).interval
    return interval.within(evidence.metric.low, evidence.metric.high)

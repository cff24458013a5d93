"""The interval methods by name, the three that a person may ask for beside auto and none, and the one of auto."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.evidence import Evidence, Pair
from evenfold.estimates.intervals.methods import corrected_wald, of_splits, stretches, wald
from evenfold.estimates.metrics.record import Floats
from evenfold.estimates.results import Declined, Interval, require_level
from evenfold.splitters.errors import ModelError
from numpy.typing import ArrayLike, NDArray
from scipy import stats

UNTESTED = -1  # in place of a fold
MOST_FITS = 1_000  # beyond the evaluation's own
Losses = tuple[Floats, Floats]  # and the weight of each


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], float], n: int, groups: ArrayLike | None = None, *,
    level: float = 0.95, n_resamples: int = 999, seed: int = 0,
) -> Interval | Declined:  # fmt: skip
    """Return the percentile interval of any metric of these models' predictions; whole groups are drawn where given.

    ``statistic``: the metric of the predictions at positions, which may repeat; resamples where it is NaN are left out.
    """
    codes = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    units = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    if len(units) < 2:
        return Declined(f"an interval needs 2 rows or groups, and there is {len(units)}; use a finer grouping.")
    drawn = stats.bootstrap(
        (np.arange(len(units)),),
        lambda chosen: statistic(chosen if groups is None else np.concatenate([units[i] for i in chosen])),
        vectorized=False, n_resamples=n_resamples, confidence_level=level, method="percentile",
        rng=np.random.Generator(np.random.Philox(seed)),
    )  # fmt: skip
    scores = drawn.bootstrap_distribution
    notes: tuple[str, ...] = ()
    low, high = float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)
    if undefined := int(np.isnan(scores).sum()):
        lacking = f"the metric is undefined in {undefined:,} of {scores.size:,} resamples"
        if undefined > scores.size / 2:
            return Declined(f"{lacking}; use more rows, another metric, or the interval from the rows' losses.")
        low, high = np.nanquantile(scores, [0.5 - level / 2, 0.5 + level / 2]).tolist()
        notes = (f"{lacking[0].upper()}{lacking[1:]}, which are left out.",)
    if low == high:
        return Declined("every resample has the same score; choose interval: auto.")
    return Interval(low, high, level, f"percentile bootstrap of {'rows' if groups is None else 'groups'}", notes)


def by_resampling(evidence: Evidence, level: float) -> Interval | Declined:
    """Return the bootstrap interval of the pooled score; a row is drawn with all its tests in all repeats."""
    if any(np.unique(lines).size != evidence.rows.size for lines in evidence.lines):
        return Declined("the repeats do not test the same rows, so that they cannot be drawn together.")
    return bootstrap_interval(evidence.score_drawn, evidence.rows.size, evidence.units, level=level, seed=evidence.seed)


def nested_interval(
    inner: Sequence[Losses], outer: Sequence[Losses], plain: Losses, n_splits: int, n: int, level: float = 0.95
) -> Interval:
    """Return the nested cross-validation interval for a mean loss, from each outer fold's losses and their weights.

    ``inner``: per outer fold of every repeat, the losses of models trained without it and one more fold, on that one;
    ``outer``: of the model trained without the fold, on it; ``plain``: the outer losses of all folds. For each fold a =
    mean(inner) - mean(outer) and b = var(outer)/size; se^2 = (k-1)/k of the mean of a^2 - b, kept between sd^2/n and k
    sd^2/n. The centre is Err_nested - (1 + (k-2)/k)(Err_nested - Err_cv). Source: Bates, Hastie and Tibshirani (2023),
    Cross-validation: what does it estimate and how well does it do it? (whose code has ((k-2)/k)^1.5).
    """
    inside, outside = ([_mean_and_variance(*losses) for losses in each] for each in (inner, outer))
    mean, variance = _mean_and_variance(*plain)
    errors = [(a - b) ** 2 - chance for (a, _), (b, chance) in zip(inside, outside, strict=True)]
    # As of n rows: repeats lose on the same rows again, and are no further ones.
    least = sqrt(variance * plain[0].size / n)
    se = sqrt(max(0.0, float(np.mean(errors))) * (n_splits - 1) / n_splits)
    se = min(max(se, least), sqrt(n_splits) * least)
    nested = float(np.mean([error for error, _ in inside]))
    centre = nested - (1 + (n_splits - 2) / n_splits) * (nested - mean)
    half = float(stats.norm.ppf(0.5 + level / 2)) * se
    return Interval(centre - half, centre + half, level, "nested cross-validation")


def _mean_and_variance(loss: Floats, weight: Floats) -> tuple[float, float]:
    """Return a weighted mean and its variance for independent rows."""
    mean = float(np.average(loss, weights=weight))
    share = weight / weight.sum()
    return mean, loss.size / max(loss.size - 1, 1) * float(np.sum(np.square(share * (loss - mean))))


def nested_splits(evidence: Evidence) -> list[Pair]:
    """Return the further fits of a nested cross-validation, which train without two folds and test both."""
    return [
        (np.flatnonzero(~np.isin(folds, (*pair, UNTESTED))), np.flatnonzero(np.isin(folds, pair)))
        for folds in _folds(evidence)
        for pair in combinations(np.unique(folds[folds != UNTESTED]).tolist(), 2)
    ]


def _folds(evidence: Evidence) -> Iterator[NDArray[np.int64]]:
    for part in evidence.parts:
        folds = np.full(evidence.problem.n, UNTESTED, dtype=np.int64)
        folds[part["row"].to_numpy()] = part["fold"].to_numpy()
        yield folds


def not_nestable(evidence: Evidence) -> str:
    """Return why a nested cross-validation is not for such evidence, and what would be."""
    if evidence.metric.loss is None:
        needed = f"a mean over rows, and {evidence.metric.title} is none"
        return f"nested cross-validation needs {needed}; choose auto or bootstrap."
    n, units = evidence.rows.size, evidence.units
    if units is not None and np.unique(units).size < n:
        together = f"the rows of each of {np.unique(units).size:,} groups err together"
        return f"nested cross-validation takes rows for independent, and {together}; choose auto."
    trained = any(score.n_train + score.n_test != n for score in evidence.scores)
    if trained or any(part.shape[0] != n for part in evidence.parts):
        return "nested cross-validation needs folds that test every row, and train on all others; choose auto."
    k = evidence.parts[0]["fold"].nunique()
    if k < 3:
        return f"nested cross-validation needs 3 folds, and has {k}; choose auto."
    if (fits := len(evidence.parts) * k * (k - 1) // 2) > MOST_FITS:
        what = f"of {k:,} folds asks for {fits:,} further fits, and {MOST_FITS:,} is the most"
        return f"nested cross-validation {what}; use fewer folds, or choose auto."
    return ""


def nested(evidence: Evidence, level: float) -> Interval | Declined:
    """Return the interval of a metric that is a mean over rows."""
    if reason := not_nestable(evidence):
        return Declined(reason)
    loss, k = evidence.metric.loss, evidence.parts[0]["fold"].nunique()
    assert loss is not None
    if not evidence.refits:
        return Declined("nested cross-validation needs further fits, which this evaluation does not have.")

    def lost(frame: pd.DataFrame) -> Losses:
        rows = evidence.answered(frame)
        return loss.of(rows), rows.mass

    # In the order in which nested_splits asked for them.
    refits = iter(evidence.refits)
    inner: list[Losses] = []
    outer: list[Losses] = []
    for part, of_row in zip(evidence.parts, _folds(evidence), strict=True):
        without: dict[int, list[pd.DataFrame]] = {fold: [] for fold in np.unique(of_row[of_row != UNTESTED]).tolist()}
        for i, j in combinations(without, 2):
            refit = next(refits)
            # Trained without i and j: with i as the outer fold, j is an inner one, and the other way round.
            tested = of_row[refit["row"].to_numpy()]
            without[i].append(refit[tested == j])
            without[j].append(refit[tested == i])
        inner += [lost(pd.concat(frames)) for frames in without.values()]
        outer += [lost(part[part["fold"] == fold]) for fold in without]
    if min(losses.size for losses, _ in outer) < 2:
        return Declined("nested cross-validation needs 2 rows a fold; use fewer folds.")
    interval = nested_interval(inner, outer, lost(pd.concat(evidence.parts)), k, evidence.rows.size, level)
    return interval.scores(loss.best).within(evidence.metric.low, evidence.metric.high)


MODELS = "these fitted models on new rows like these"
RECIPE = "a model trained on these rows, on new rows like them"
PAST = "a model trained on this past, on a future like the stretches tested"
RECIPES = "the recipe, trained on other rows like these, on new rows"


@dataclass(frozen=True)
class IntervalMethod:
    """A way to make an interval: a phrase ``of`` what lies in it, and the function that makes it, or says why not.

    ``follows_time``: whether rows may depend on those before them. ``only``, ``fits``: phrases for the docs.
    """

    of: str
    make: Callable[[Evidence, float], Interval | Declined]
    follows_time: bool = False
    only: str = ""
    fits: str = ""


METHODS: dict[str, IntervalMethod] = {
    "wald": IntervalMethod(MODELS, wald),
    "corrected_wald": IntervalMethod(RECIPE, corrected_wald),
    "stretches": IntervalMethod(PAST, stretches, follows_time=True),
    "bootstrap": IntervalMethod(MODELS, by_resampling),
    "corrected_t": IntervalMethod(RECIPES, of_splits, follows_time=True, only="folds that are not stratified"),
    "nested": IntervalMethod(RECIPE, nested, only="means over rows, without groups", fits="k(k - 1)/2 a repeat"),
}
# auto takes one of the others; wald is its peer in benchmarks.
INTERVALS = ("auto", "bootstrap", "corrected_t", "nested", "none")
DEPENDENT = (
    "Rows that follow one another in time depend on one another, and this interval takes them for independent: of a "
    "series such intervals held the truth in .38 to .60 of the cases where they said .90; choose auto."
)


def interval_for(evidence: Evidence, method: str = "auto", level: float = 0.95) -> Interval | Declined:
    """Return the interval of a metric's value by a method, or why there is none and what would give one.

    ``auto`` of folds: stretches of time where rows are ordered, else ``corrected_wald``, which costs no fit and holds
    for weights, groups and stratified folds; draws have intervals of their own (``bootstrap.py``). Raises ModelError
    for an unknown name or a level outside of (0, 1).
    """
    if method not in INTERVALS and method not in METHODS:
        raise ModelError(f"interval {method!r} is unknown; choose {', '.join(INTERVALS)}.")
    require_level(level)
    if method == "none":
        return Declined("")
    by_default = "stretches" if evidence.ordered else "corrected_wald"
    chosen = METHODS[by_default if method == "auto" else method]
    interval = chosen.make(evidence, level)
    if isinstance(interval, Declined):
        return interval
    notes = (DEPENDENT,) if evidence.ordered and not chosen.follows_time else ()
    return replace(interval, of=chosen.of, notes=(*interval.notes, *notes))


def further_splits(evidence: Evidence, method: str) -> list[Pair]:
    """Return the fits that a method asks for beyond the evaluation's own; their predictions are its ``refits``."""
    return nested_splits(evidence) if method == "nested" and not not_nestable(evidence) else []

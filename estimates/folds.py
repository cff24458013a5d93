"""Estimates from folds: fold scores in, conclusions with their name, method, caveat and baseline out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import floor, isfinite, log10, sqrt
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.evidence import Evidence
from evenfold.estimates.intervals.registry import interval_for
from evenfold.estimates.metrics.record import Answered
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.metrics.scoring import method_of
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.splitters.errors import EvaluationError, SplitError, shown
from numpy.typing import NDArray

from .intervals.methods import LEAST_STRETCHES, around, cancels, corrected_resampled_t, scatter, standard_error
from .models.draws import Drawn, scores_of_draw
from .results import Baseline, Declined, Estimate, FoldScore, rounded

MEAN, LAST, MOST_FREQUENT, SHARES = "the mean", "the last value", "the most frequent class", "the class shares"
Split = tuple[int, int, IntArray, IntArray]  # repeat, fold, rows to train on, rows to test
MOST_NAMED = 5  # of the classes that are never predicted
LEAST_SHIFT = 3.0  # standard errors
FEW_ROWS = 20  # of a fold, whose own score then means little
_DEPENDENT = "se = sd/sqrt({n}) takes the folds for independent; they share training rows, so it tends to be too small."
_REPEATED = "There is no se: repeats use the same rows again, and sd/sqrt(splits) would shrink without new information."
_NO_POOLED = "{metric} cannot be computed from the predictions of all folds together; the value is the mean over folds."
_ACROSS = "The value also ranks rows of different folds' models, which lowers it where their scales differ."
_ONE = "There is one split, so there is no spread."


def baseline_predictions(
    problem: Problem, splits: Iterable[Split], times: NDArray[Any] | None = None
) -> dict[str, pd.DataFrame]:
    """Return predictions without a model for the test rows of each split, by the name of the rule.

    Classes: the most frequent one of the training rows, with their shares as probabilities. Numbers: their mean and,
    given ``times``, the last value before the test rows. Rows count by their weights; nothing is predicted where a
    split's training rows weigh nothing. O(rows) a split.
    """
    frames: dict[str, list[pd.DataFrame]] = {}
    for repeat, fold, train, test in splits:
        weighing = train[problem.mass(train) > 0]
        if not weighing.size:
            return {}  # rather than scores of the other splits' rows alone
        place = {"repeat": np.int32(repeat), "fold": np.int32(fold)}
        about: dict[str, object] = {"row": test, **place, "y": problem.y[test]}
        if problem.weights is not None:
            about["weight"] = problem.weights[test]
        for name, predicted in _constant_answers(problem, weighing, times).items():
            frames.setdefault(name, []).append(pd.DataFrame(about | predicted))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def _constant_answers(problem: Problem, train: IntArray, times: NDArray[Any] | None) -> dict[str, dict[str, object]]:
    y = problem.y[train]
    weights = problem.mass(train)
    if problem.classes:
        shares = np.array([np.sum(weights[y == label]) for label in problem.classes]) / np.sum(weights)
        chances = {f"proba_{label}": share for label, share in zip(problem.classes, shares.tolist(), strict=True)}
        return {MOST_FREQUENT: {"prediction": problem.classes[int(np.argmax(shares))], **chances}}
    predictions: dict[str, dict[str, object]] = {MEAN: {"prediction": float(np.average(y, weights=weights))}}
    if times is not None:
        last = times[train] == times[train].max()
        predictions[LAST] = {"prediction": float(np.average(y[last], weights=weights[last]))}
    return predictions


def best_baseline(
    evidence: Evidence, predictions: Mapping[str, pd.DataFrame], value: float, level: float | None
) -> Baseline | None:
    """Return the best of the baselines beside a score; None where the metric is undefined for all of them.

    The interval is paired by rows, its variance times 1 + n/n_train, or by stretches of time. ``level``: None for none.
    """
    scores = [(_value(replace(evidence, predictions=frame)), name) for name, frame in predictions.items()]
    defined = [(score, name) for score, name in scores if np.isfinite(score)]
    if not defined:
        return None
    score, rule = max(defined)
    interval = None
    if level is not None:
        spread = _spread(evidence, replace(evidence, predictions=predictions[rule]))
        interval = around(value - score, spread, level, "paired rows, corrected for training")
    return Baseline(_rule(rule, evidence.metric.name), score, value - score, interval)


def _rule(rule: str, metric: str) -> str:
    """Return the name of the baseline of a metric; of one that scores probabilities it is the shares of all classes."""
    return SHARES if rule == MOST_FREQUENT and method_of(metric) == ("predict_proba",) else rule


def _value(evidence: Evidence) -> float:
    """Return a baseline's score; of a metric that ranks, the mean over folds, in each of which it ranks nothing."""
    with warnings.catch_warnings(action="ignore"):  # a class that is never predicted has no precision
        if not evidence.metric.ranks:
            return evidence.pooled
        assert evidence.predictions is not None
        folds = evidence.predictions.groupby(["repeat", "fold"])
        return float(np.nanmean([evidence.score(part) for _, part in folds]))


def _spread(ours: Evidence, other: Evidence) -> tuple[float, float] | None:
    mine = None if ours.metric.of_single_rows else ours.influence
    if mine is None:
        return None
    moves, units = mine[1], mine[2]
    if not ours.metric.ranks:  # what ranks nothing has the score of chance, whatever the rows
        with warnings.catch_warnings(action="ignore"):
            theirs = other.influence
        if theirs is None:
            return None
        moves = moves - theirs[1]
        units = theirs[2] if units is None else units
    # As for the score itself: neighbours in time depend on one another, so a stretch is one observation.
    units = ours.batches if ours.ordered else units
    n_units = moves.size if units is None else int(units.max()) + 1
    if n_units < (LEAST_STRETCHES if ours.ordered else 2) or cancels(moves, units, mine[0]):
        return None
    se, df = standard_error(moves, units, tails=True)
    return se * sqrt(1 + ours.train_ratio if len(ours.scores) > 1 else 1.0), df


def baseline_of_draws(problem: Problem, draws: Sequence[Drawn], metrics: Sequence[str]) -> tuple[str, pd.DataFrame]:
    """Return the baseline's name and scores on draws' test rows, by metric; NaN where training rows weigh nothing."""
    rows, name = [], MOST_FREQUENT if problem.classes else MEAN
    for i, (train, test) in draws:
        frames, scores = baseline_predictions(problem, [(0, i, train, test)]), dict.fromkeys(metrics, np.nan)
        if frames:
            scores, _ = scores_of_draw(metrics, Answered.of(frames[name], problem.classes))
        rows.append({"draw": i, **scores})
    return name, pd.DataFrame(rows)


def with_baseline(
    estimate: Estimate, table: pd.DataFrame, baseline: tuple[str, pd.DataFrame] | None, **test: Any
) -> Estimate:
    """Return the estimate beside the baseline's, warned where it is no better; ``test``: sizes and level of its t."""
    if baseline is None:
        return estimate
    (name, scores), columns, value = baseline, ["draw", estimate.metric], estimate.value
    both = table[columns].merge(scores[columns], on="draw", suffixes=("", "_without")).dropna()
    if not len(both):
        return estimate
    others = both[f"{estimate.metric}_without"]
    without, apart = float(others.mean()), (both[estimate.metric] - others).to_numpy()
    interval = corrected_resampled_t(apart, **test).interval if test and scatter(apart) else None
    # The test is of means over draws; its interval is moved to the difference that is shown, as that of .632+.
    if interval is not None:
        interval = replace(interval, low=interval.low + value - without - apart.mean(),
                           high=interval.high + value - without - apart.mean())  # fmt: skip
    beside = Baseline(_rule(name, estimate.metric), without, value - without, interval)
    sentence = no_better(estimate.metric, value, beside)
    return replace(estimate, baseline=beside, warnings=(sentence,) if sentence else ())


def estimate_of_one_model(
    method: str, metric: str, score: FoldScore, predictions: pd.DataFrame, problem: Problem,
    interval: str = "auto", level: float = 0.95, *, held: bool = False,
    beside: Mapping[str, pd.DataFrame] | None = None, ordered: bool = False,
) -> Estimate:  # fmt: skip
    """Return the estimate of one fitted model on rows that it was not trained on, called ``method``, with its interval.

    ``held``: whether a mean of classes in ``score`` is of those that the rows hold. ``beside``: predictions without a
    model, by the rule's name. ``ordered``: the rows follow one another in time; they are one stretch of it, so that the
    interval takes them for independent and says so. The estimate's note says why there is none.
    """
    value, apparent = score.test[metric], score.apparent.get(metric)
    evidence = Evidence(metric_of(metric), problem, [score], predictions, ordered=ordered, held=held)
    interval = "corrected_wald" if ordered and interval == "auto" else interval
    outcome = interval_for(evidence, interval, level)
    baseline = best_baseline(evidence, beside or {}, value, None if isinstance(outcome, Declined) else level)
    return Estimate(
        metric, method, value, sd=None, se=None, n_splits=1, apparent=apparent, baseline=baseline,
        gap=None if apparent is None else apparent - value,
        warnings=(words,) if (words := no_better(metric, value, baseline)) else (),
    ).bounded(outcome)  # fmt: skip


def no_better(metric: str, value: float, baseline: Baseline | None) -> str | None:
    """Return one sentence where a model does no better than the baseline, or cannot be shown to; else nothing."""
    # Of one class alone a constant finds all or nothing, which says nothing of a model.
    if baseline is None or metric_of(metric).one_sided:
        return None
    reading, interval = metric_of(metric), baseline.interval
    both = reading.shown(value), reading.shown(baseline.value)
    largest = max(map(abs, both))  # of which as many decimals are shown as give three digits
    decimals = min(max(2 - floor(log10(largest)), 0), 6) if isfinite(largest) and largest else 2
    texts = (f"{round(each, decimals) + 0.0:.{decimals}f}" for each in both)  # no "-0.00"
    scores = f"{reading.title} {' against '.join(texts)}"
    if baseline.difference <= 0:
        return f"The model does no better than predicting {baseline.name} for every row: {scores}."
    if interval is None or interval.low > 0:
        return None
    by = f"better by {rounded(baseline.difference, 2)}, {interval.said(2)}"
    unclear = "These rows do not show that the model is better than predicting"
    return f"{unclear} {baseline.name} for every row: {scores}; {by}."


def never_predicted(predictions: pd.DataFrame, problem: Problem) -> str | None:
    """Return one sentence where a classifier never predicts classes that there are; else nothing."""
    there, predicted = set(np.unique(predictions["y"])), set(np.unique(predictions["prediction"]))
    missed = [label for label in problem.classes if label in there - predicted]
    if not missed:
        return None
    share = float(np.mean(np.isin(predictions["y"].to_numpy(), np.asarray(missed))))
    listing = ", ".join(shown(str(label)) for label in missed[:MOST_NAMED])
    of = f"{len(missed)} of the {len(problem.classes)} classes ({listing}{' and more' if missed[MOST_NAMED:] else ''})"
    return f"The model never predicts {of}, which {'is' if len(missed) == 1 else 'are'} {share:.2g} of the rows."


def shifted(predictions: pd.DataFrame, problem: Problem) -> str | None:
    """Return one sentence where balancing or a transform of the target shifts mean predictions by 3 standard errors."""
    model, mass = problem.model, problem.mass(predictions["row"].to_numpy())
    n = predictions["row"].nunique() * mass.mean() ** 2 / np.mean(mass**2)  # rows of one weight that say as much
    mean_of = partial(np.average, axis=0, weights=mass)
    if model.balance is not None and problem.classes:
        names = [f"proba_{label}" for label in problem.classes]
        if not set(names) <= set(predictions):
            return None
        there = np.array([mean_of(predictions["y"] == label) for label in problem.classes])
        means = mean_of(predictions[names].to_numpy())
        worst = int(np.argmax(means - there))
        if (means - there)[worst] < LEAST_SHIFT * sqrt(there[worst] * (1 - there[worst]) / n):
            return None
        label, advice = shown(str(problem.classes[worst])), "leave balance out and set a threshold"
        what = f"{means[worst]:.3g} on average, and its share of the rows is {there[worst]:.3g}"
        return f"Balancing shifted the probabilities: that of {label} is {what}; where probabilities count, {advice}."
    if model.target_transform is None or problem.classes:
        return None
    said_mean, mean = float(mean_of(predictions["prediction"])), float(mean_of(predictions["y"]))
    if abs(said_mean - mean) < LEAST_SHIFT * float(predictions["y"].std(ddof=1)) / sqrt(n):
        return None
    advice = "where sums count, choose a model of means, such as loss: gamma, without a transform"
    means = f"they are {said_mean:.3g} on average, and {problem.target} is {mean:.3g}"
    return f"The transform of the target makes predictions medians: {means}; {advice}."


def aggregate(
    scores: Sequence[FoldScore], predictions: Sequence[pd.DataFrame] | pd.DataFrame, problem: Problem, *,
    interval: str = "auto", level: float = 0.95, stratified: bool = False, ordered: bool = False,
    refits: Sequence[pd.DataFrame] = (), baselines: Mapping[str, pd.DataFrame] | None = None, seed: int = 0,
    parts: Sequence[str] = (),
) -> list[Estimate]:  # fmt: skip
    """Return one Estimate per metric from the folds of a cross-validation, repeated or not.

    ``predictions``: the frames of ``fit_and_score`` in any order, or one frame of them all. The value is the score of
    all of them together; the mean over folds, another number wherever a fold lacks what the metric divides by, is
    ``fold_mean``. ``interval``, ``level``: see ``interval_for``; ``stratified``, ``ordered``, ``refits``: see
    ``Evidence``. ``baselines``: of ``baseline_predictions``. ``parts``: the tested parts' names, for the method's.
    """
    together = predictions if isinstance(predictions, pd.DataFrame) else pd.concat(list(predictions))
    never = [never_predicted(together, problem), shifted(together, problem)]
    estimates = []
    for name in problem.model.metrics:
        evidence = Evidence(metric_of(name), problem, scores, together, stratified, ordered, refits, seed)
        estimate = _over_folds(evidence, interval, level, parts)
        wanted_level = None if interval == "none" or estimate.pooled is None else level
        baseline = best_baseline(evidence, baselines or {}, estimate.value, wanted_level)
        words = (no_better(estimate.metric, estimate.value, baseline), *never)
        estimates.append(replace(estimate, baseline=baseline, warnings=tuple(word for word in words if word)))
    return estimates


def _over_folds(evidence: Evidence, method: str, level: float, parts: Sequence[str]) -> Estimate:
    metric, scores = evidence.metric, evidence.scores
    test = [score.test[metric.name] for score in scores if metric.name in score.test]
    mean, spread = float(np.mean(test)) if test else None, sample_sd(test)
    repeated = len({score.repeat for score in scores}) > 1
    name = "repeated cross-validation" if repeated else "one split" if len(scores) == 1 else "cross-validation"
    name = f"{' and '.join(parts)} part{'s' if len(parts) > 1 else ''}" if parts else name
    pooled = None if np.isnan(evidence.pooled) else evidence.pooled
    value = mean if pooled is None else pooled
    if value is None:
        what = f"{metric.title} is undefined in every fold and for all predictions together"
        raise EvaluationError(f"{what}; use another metric, such as neg_mean_absolute_error or accuracy.")
    of_spread = f"{spread_note(len(test), 'folds')} {_REPEATED if repeated else _DEPENDENT.format(n=len(test))}"
    notes = [
        (_ONE if len(test) == 1 else of_spread) if test else None,
        _NO_POOLED.format(metric=metric.name) if pooled is None else None,
        _ACROSS if metric.ranks and pooled is not None and len(scores) > 1 else None,
        _lacking(evidence, mean),
    ]
    estimate = Estimate(
        metric.name, name, value, sd=spread, n_splits=len(scores), pooled=pooled, fold_mean=mean,
        se=None if spread is None or repeated else spread / sqrt(len(test)), apparent=evidence.apparent,
        gap=None if evidence.apparent is None else evidence.apparent - value,
        notes=tuple(note for note in notes if note is not None),
    )  # fmt: skip
    return estimate.bounded(Declined("") if pooled is None else interval_for(evidence, method, level))


def _lacking(evidence: Evidence, mean: float | None) -> str | None:
    """Return a sentence where folds lack what the metric needs, so that their mean is another number."""
    need, problem = evidence.metric.needs, evidence.problem
    if need == "nothing" or evidence.predictions is None:
        return None
    title = evidence.metric.title
    if mean is None:
        return f"{title}: each fold tests one row, so the value is that of all rows' predictions together."
    folds = evidence.predictions.groupby(["repeat", "fold"])["y"]
    if need == "every class" and (poor := int((folds.nunique() < len(problem.classes)).sum())):
        what = f"{poor} of {folds.ngroups} folds lack a class"
    elif int(folds.size().min()) < FEW_ROWS:
        what = f"folds have as few as {int(folds.size().min())} rows"
    else:
        return None
    little = f"{title}: {what}, so that their own scores mean little (their mean is {mean:.3g})"
    return f"{little}; the value is the score of all folds' predictions together."


def spread_note(n: int, what: str) -> str:
    """Return the sentence that keeps a spread from being read as an interval."""
    return f"sd is the spread of {n:,} {what}' scores, not an interval: it does not say how far off the value is."


def sample_sd(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (ddof=1), or None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def one_for_each(
    scores: Mapping[str, Any] | pd.DataFrame | Sequence[float], n_splits: int, title: str
) -> dict[str, list[float]]:
    """Return a number per split of each metric, of a loop of the user's own; SplitError where there are others.

    ``title``: of the split. What ``cross_validate`` answers holds more than the test scores, which alone are taken.
    """
    columns = dict(scores) if isinstance(scores, (Mapping, pd.DataFrame)) else {"score": scores}
    of_tests = {name.removeprefix("test_"): column for name, column in columns.items() if name.startswith("test_")}
    numbers = {name: np.asarray(column, dtype=np.float64) for name, column in (of_tests or columns).items()}
    wrong = [name for name, each in numbers.items() if each.shape != (n_splits,) or not np.isfinite(each).all()]
    if wrong or n_splits < 2 or not numbers:
        raise SplitError(
            f"{title} has {n_splits:,} splits, and a score is one finite number for each, of at least two; "
            f"{', '.join(wrong) or 'what there is'} is not: give them in the order of as_cv."
        )
    return {name: each.tolist() for name, each in numbers.items()}

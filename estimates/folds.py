"""Estimates from folds: fold scores in, conclusions with their name, method and caveat out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.evidence import Declined, Evidence
from evenfold.estimates.intervals.registry import interval_for
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.problem import Problem

from .baselines import best_baseline, never_predicted, no_better, shifted
from .errors import EvaluationError
from .results import Estimate, FoldScore

FEW_ROWS = 20


def aggregate(
    scores: Sequence[FoldScore],
    predictions: Sequence[pd.DataFrame] | pd.DataFrame,
    problem: Problem,
    *,
    interval: str = "auto",
    level: float = 0.95,
    stratified: bool = False,
    ordered: bool = False,
    refits: Sequence[pd.DataFrame] = (),
    baselines: Mapping[str, pd.DataFrame] | None = None,
    seed: int = 0,
    parts: Sequence[str] = (),
) -> list[Estimate]:
    """Return one Estimate per metric from the folds of a cross-validation, repeated or not.

    ``predictions``: the frames of ``fit_and_score`` in any order, or one frame of them all. The value is the score
    of all of them together, as a mean over folds is another number wherever a fold lacks what the metric divides
    by; it stands beside it as ``fold_mean``. ``interval``, ``level``: see ``interval_for``; ``stratified``,
    ``ordered``, ``refits``: see ``Evidence``. ``baselines``: of ``baseline_predictions``; the best stands beside
    each score. ``parts``: the tested parts' names, which the method is then called by.
    """
    together = predictions if isinstance(predictions, pd.DataFrame) else pd.concat(list(predictions))
    about = partial(
        Evidence,
        problem=problem,
        scores=scores,
        predictions=together,
        stratified=stratified,
        ordered=ordered,
        refits=refits,
        seed=seed,
    )
    never = [never_predicted(together, problem), shifted(together, problem)]
    estimates = []
    for evidence in (about(metric_of(name)) for name in problem.model.metrics):
        estimate = _over_folds(evidence, interval, level, parts)
        wanted_level = None if interval == "none" or estimate.pooled is None else level
        baseline = best_baseline(evidence, baselines or {}, estimate.value, wanted_level)
        words = (no_better(estimate.metric, estimate.value, baseline), *never)
        estimates.append(replace(estimate, baseline=baseline, warnings=tuple(word for word in words if word)))
    return estimates


_DEPENDENT = "se = sd/sqrt({n}) takes the folds for independent; they share training rows, so it tends to be too small."
_REPEATED = "There is no se: repeats use the same rows again, and sd/sqrt(splits) would shrink without new information."
_NO_POOLED = "{metric} cannot be computed from the predictions of all folds together; the value is the mean over folds."
_ACROSS = "The value also ranks rows of different folds' models, which lowers it where their scales differ."
_ONE = "There is one split, so there is no spread."


def _called(scores: Sequence[FoldScore], parts: Sequence[str]) -> str:
    if parts:
        return f"{' and '.join(parts)} part{'s' if len(parts) > 1 else ''}"
    if len(scores) == 1:
        return "one split"
    return "repeated cross-validation" if len({score.repeat for score in scores}) > 1 else "cross-validation"


def _over_folds(evidence: Evidence, method: str, level: float, parts: Sequence[str]) -> Estimate:
    metric, scores = evidence.metric, evidence.scores
    test = [score.test[metric.name] for score in scores if metric.name in score.test]
    mean, spread = float(np.mean(test)) if test else None, sample_sd(test)
    repeated = len({score.repeat for score in scores}) > 1
    pooled = None if np.isnan(evidence.pooled) else evidence.pooled
    value = mean if pooled is None else pooled
    if value is None:
        raise EvaluationError(
            f"{metric.title} is undefined in every fold and for all predictions together; use another metric, such as "
            "neg_mean_absolute_error or accuracy."
        )
    interval = Declined("") if pooled is None else interval_for(evidence, method, level)
    apparent = evidence.apparent
    of_spread = f"{spread_note(len(test), 'folds')} {_REPEATED if repeated else _DEPENDENT.format(n=len(test))}"
    notes = [
        (_ONE if len(test) == 1 else of_spread) if test else None,
        _NO_POOLED.format(metric=metric.name) if pooled is None else None,
        _ACROSS if metric.ranks and pooled is not None and len(scores) > 1 else None,
        _lacking(evidence, mean),
        f"There is no interval: {interval.reason}" if isinstance(interval, Declined) and interval.reason else None,
    ]
    return Estimate(
        metric=metric.name,
        method=_called(scores, parts),
        value=value,
        sd=spread,
        se=None if spread is None or repeated else spread / sqrt(len(test)),
        n_splits=len(scores),
        pooled=pooled,
        apparent=apparent,
        gap=None if apparent is None else apparent - value,
        interval=None if isinstance(interval, Declined) else interval.holding(value),
        notes=tuple(note for note in notes if note is not None),
        fold_mean=mean,
    )


def _lacking(evidence: Evidence, mean: float | None) -> str | None:
    """Return a sentence where folds lack what the metric needs, so that their mean is another number."""
    need, problem = evidence.metric.needs, evidence.problem
    if need == "nothing" or evidence.predictions is None:
        return None
    if mean is None:
        return (
            f"{evidence.metric.title}: each fold tests one row, so the value is that of all rows' predictions together."
        )
    folds = evidence.predictions.groupby(["repeat", "fold"])["y"]
    if need == "every class" and (poor := int((folds.nunique() < len(problem.classes)).sum())):
        what = f"{poor} of {folds.ngroups} folds lack a class"
    elif int(folds.size().min()) < FEW_ROWS:
        what = f"folds have as few as {int(folds.size().min())} rows"
    else:
        return None
    return (
        f"{evidence.metric.title}: {what}, so that their own scores mean little (their mean is {mean:.3g}); the value "
        "is the score of all folds' predictions together."
    )


def spread_note(n: int, what: str) -> str:
    """Return the sentence that keeps a spread from being read as an interval."""
    return f"sd is the spread of {n:,} {what}' scores, not an interval: it does not say how far off the value is."


def sample_sd(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (ddof=1), or None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None

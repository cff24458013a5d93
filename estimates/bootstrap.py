"""The bootstrap's estimates of error: apparent, leave-one-out, out-of-bag, .632 and .632+, with all ingredients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.draws import OF_A_MEAN, Multiplicities, interval_of_draws, spread_of_draws
from evenfold.estimates.intervals.evidence import Declined, Made
from evenfold.estimates.intervals.splits import ALIKE, corrected_resampled_t
from evenfold.estimates.metrics.registry import losses_of, metric_of, no_information_rate, row_loss
from evenfold.estimates.metrics.responses import replay
from evenfold.estimates.models.problem import Problem
from numpy.typing import ArrayLike, NDArray

from .baselines import with_baseline
from .draws import DrawScores, RowTotals
from .errors import ModelError
from .folds import sample_sd, spread_note
from .results import Estimate, FoldScore

IN, OUT = 0.368, 0.632
SAME = 0.05  # of err1: .632 and .632+ that are nearer than this say the same
OF_ROWS = "needs predictions of every row, and draws keep their scores alone"


@dataclass(frozen=True)
class BootstrapEstimate:
    """The .632+ estimate and everything it is made of, all in the units of what was passed in.

    ``err``: the apparent error, of the model fitted on all rows, on those rows. ``err1``: the leave-one-out bootstrap:
    each row's mean loss over the resamples without it, averaged over rows. ``oob``: the mean over resamples of their
    out-of-bag means. ``gamma``: the no-information rate, the error if features said nothing of the target.
    ``relative_overfitting``: R', from 0 (none) to 1 (as bad as no information). ``weight``: of err1 in ``e632plus``,
    from .632 to 1. ``e632`` = .368 err + .632 err1. ``e632plus`` = (1 - weight) err + weight err1'.
    ``notes``: what a reader must know of these numbers.
    """

    err: float
    err1: float
    oob: float
    gamma: float
    relative_overfitting: float
    weight: float
    e632: float
    e632plus: float
    n_resamples: int = 0
    rows_never_out: int = 0
    notes: tuple[str, ...] = ()


def bootstrap_estimate(
    apparent_losses: ArrayLike,
    resamples: Iterable[tuple[ArrayLike, ArrayLike]],
    no_information: float,
) -> BootstrapEstimate:
    """Return the bootstrap's estimates from losses of rows, lower is better.

    ``apparent_losses``: a loss per row, of one model fitted on all rows. ``resamples``: for each resample the rows it
    left out and the losses of its model on them; read once, so any number fits in memory. ``no_information``: gamma.

    Rows that no resample leaves out are dropped from ``err1``, and resamples that leave out no row from both means;
    notes say how many. O(n) memory; O(n) a resample. Source: Efron and Tibshirani (1997), Improvements on
    cross-validation: the .632+ bootstrap method. There R' may leave [0, 1] in the formula as printed; its stated
    purpose is to measure a share, so it is clipped, and err1' = min(err1, gamma) goes with it.
    Raises ModelError where lengths differ, positions are out of range, or no row is ever out of bag.
    """
    apparent = np.asarray(apparent_losses, dtype=np.float64)
    if not apparent.size or not np.all(np.isfinite(apparent)):
        raise ModelError(f"apparent_losses holds {apparent.size:,} values; pass one finite loss per row, 2 or more.")
    totals = RowTotals.empty(apparent.size)
    means: list[float] = []
    empty = 0
    for rows, losses in resamples:
        out, lost = np.asarray(rows, dtype=np.int64), np.asarray(losses, dtype=np.float64)
        totals.add(out, lost)
        if out.size:
            means.append(float(lost.mean()))
        else:
            empty += 1
    return from_totals(apparent, totals, means, no_information, empty)


def from_totals(
    apparent: NDArray[np.float64],
    totals: RowTotals,
    means: Iterable[float],
    no_information: float,
    empty: int = 0,
    weights: NDArray[np.float64] | None = None,
) -> BootstrapEstimate:
    """Return the same from sums and counts per row and the resamples' out-of-bag means; rows may have weights."""
    out_of_bag = list(means)
    if not out_of_bag:
        raise ModelError(f"no row is out of bag in any of {empty} resamples; draw more resamples.")
    seen = totals.counts > 0
    per_row = totals.sums[seen] / totals.counts[seen]
    err1 = float(np.average(per_row, weights=None if weights is None else weights[seen]))
    never = int(np.sum(~seen))
    notes = []
    if never:
        notes.append(f"{never:,} of {seen.size:,} rows were never out of bag and are not in err1; draw more resamples.")
    if empty:
        notes.append(f"{empty:,} of {empty + len(out_of_bag):,} resamples left no row out and were skipped.")
    return _combined(
        err=float(np.average(apparent, weights=weights)),
        err1=err1,
        oob=float(np.mean(out_of_bag)),
        gamma=float(no_information),
        n_resamples=len(out_of_bag) + empty,
        rows_never_out=never,
        notes=notes,
    )


def bootstrap_score_estimate(
    apparent: float,
    oob_scores: ArrayLike,
    no_information: float,
    greater_is_better: bool,
) -> BootstrapEstimate:
    """Return the bootstrap's estimates of a metric that is no mean of row losses, such as AUC or R2.

    ``apparent``: the score of the model fitted on all rows, on those rows. ``oob_scores``: a score per resample; NaN
    where it is undefined (one class out of bag). Such a metric has no leave-one-out form per row, so the mean over
    resamples stands for ``err1``, and the notes say so. All fields are in the metric's own units and direction.
    Raises ModelError where no resample has a score.
    """
    scores = np.asarray(oob_scores, dtype=np.float64)
    defined = scores[~np.isnan(scores)]
    if not defined.size:
        raise ModelError(f"the metric is undefined in all {scores.size} resamples; choose another metric.")
    notes = ["The metric is not a mean over rows: the out-of-bag mean over resamples stands for err1."]
    if defined.size < scores.size:
        undefined = scores.size - defined.size
        notes.append(f"The metric is undefined in {undefined:,} of {scores.size:,} resamples, which are left out.")
    # As losses: 1 - s for scores whose best is 1, else -s. R' is the same for any such map.
    sign, offset = (-1.0, 1.0 if apparent > 0 else 0.0) if greater_is_better else (1.0, 0.0)
    loss = offset + sign * float(np.mean(defined))
    estimate = _combined(
        err=offset + sign * float(apparent),
        err1=loss,
        oob=loss,
        gamma=offset + sign * float(no_information),
        n_resamples=scores.size,
        rows_never_out=0,
        notes=notes,
    )
    return in_units(estimate, -sign * offset, sign)


def in_units(estimate: BootstrapEstimate, offset: float, sign: float) -> BootstrapEstimate:
    """Return the estimate with every error e as ``offset + sign * e``: of losses as of scores."""
    errors = ("err", "err1", "oob", "gamma", "e632", "e632plus")
    mapped = {name: offset + sign * getattr(estimate, name) for name in errors}
    return BootstrapEstimate(**{**vars(estimate), **mapped})


def _combined(*, err: float, err1: float, gamma: float, notes: list[str], **more: Any) -> BootstrapEstimate:
    capped = min(err1, gamma) if gamma > err else err1
    overfits = min(err1, gamma) > err
    rate = min(max((capped - err) / (gamma - err), 0.0), 1.0) if overfits else 0.0
    if isnan(gamma):  # nothing says what no information scores: there is no .632+
        rate = gamma
    weight = OUT / (1 - IN * rate)
    e632, e632plus = IN * err + OUT * err1, (1 - weight) * err + weight * capped
    if err < 0.5 * err1 and not abs(e632plus - e632) <= SAME * err1:  # where there is no .632+, nothing is alike
        notes = [
            *notes,
            f"The apparent error ({err:.3g}) is less than half of err1 ({err1:.3g}): the model nearly knows its "
            "training rows by heart, and .632 is then too optimistic; read .632+.",
        ]
    return BootstrapEstimate(
        err=err,
        err1=err1,
        gamma=gamma,
        relative_overfitting=rate,
        weight=weight,
        e632=e632,
        e632plus=e632plus,
        notes=tuple(notes),
        **more,
    )


def bootstrap_aggregate(
    scores: DrawScores | Sequence[FoldScore],
    apparent: FoldScore,
    predictions: pd.DataFrame | None = None,
    problem: Problem | None = None,
    *,
    drawn: Multiplicities | None = None,
    interval: str = "auto",
    level: float = 0.95,
    baseline: tuple[str, pd.DataFrame] | None = None,
    seed: int = 0,
) -> list[Estimate]:
    """Return the bootstrap's estimates per metric: out-of-bag, .632 and .632+, the last the one to report.

    ``apparent`` and ``predictions``: of one extra fit on all rows, ``fit_and_score`` with all rows on both sides.
    Without predictions and problem there is no no-information rate, and so no .632+.
    Out-of-bag is the leave-one-out error, ``err1``: of ``DrawScores`` the mean over rows where the metric is one;
    otherwise, and from ``FoldScore``s, the mean over draws stands for it (among the ingredients always, as ``oob``).
    Where draws were scored on their own training rows, the textbook's variant is added as ``.632 per resample``.
    ``drawn``: how often each row was drawn, for intervals of metrics that are means over rows.
    ``baseline``: of ``baseline_of_draws``; a constant hardly learns its
    rows by heart, so its out-of-bag score stands beside all of them.
    Raises EvaluationError where more than half of the draws have no score.
    """
    draws = scores if isinstance(scores, DrawScores) else _of_fold_scores(scores)
    estimates: list[Estimate] = []
    for metric in apparent.test:
        of_metric = _of_metric(metric, draws, apparent, predictions, problem, seed)
        if drawn is not None and predictions is not None and problem is not None and interval != "none":
            of_metric = _with_intervals(of_metric, draws, predictions, problem, drawn, interval, level)
        estimates += of_metric
    return [with_baseline(estimate, draws.table, baseline) for estimate in estimates]


def _of_fold_scores(scores: Sequence[FoldScore]) -> DrawScores:
    rows = [
        {"draw": score.fold, "error": None, **score.test, **{f"apparent_{k}": v for k, v in score.apparent.items()}}
        for score in scores
    ]
    return DrawScores(pd.DataFrame(rows), {})


def _of_metric(
    metric: str,
    draws: DrawScores,
    apparent: FoldScore,
    predictions: pd.DataFrame | None,
    problem: Problem | None,
    seed: int,
) -> list[Estimate]:
    defined = draws.defined(metric)
    estimate = _ingredients(metric, draws, defined, apparent, predictions, problem, seed)
    spread = spread_note(defined.size, "draws")
    lacking = [f"{fact}." for fact in draws.lacking(metric)]
    notes = (spread, *lacking, *draws.warned, *(note for note in estimate.notes if "read .632+" not in note))
    estimated = partial(Estimate, metric, sd=sample_sd(defined.tolist()), se=None, n_splits=int(defined.size))
    # err1, of which .632 is made, and not the mean over draws: what is printed adds up.
    values = {"out-of-bag": (estimate.err1, notes), ".632": (estimate.e632, (spread, *lacking, *estimate.notes))}
    if not np.isnan(estimate.gamma):
        values[".632+"] = (estimate.e632plus, notes)
    names = ("err", "err1", "oob", "gamma", "relative_overfitting", "weight")
    numbers = {name: value for name in names if not np.isnan(value := getattr(estimate, name))}
    estimates = [
        estimated(method, value, apparent=estimate.err, gap=estimate.err - value, notes=notes, ingredients=numbers)
        for method, (value, notes) in values.items()
    ]
    return estimates + _per_resample(metric, draws.table)


def _with_intervals(
    estimates: list[Estimate],
    draws: DrawScores,
    predictions: pd.DataFrame,
    problem: Problem,
    drawn: Multiplicities,
    interval: str,
    level: float,
) -> list[Estimate]:
    """Return one metric's estimates with their intervals, or with the reason why there is none."""
    metric = metric_of(estimates[0].metric)
    if interval != "auto":
        return [_with_interval(estimate, Declined(f"{interval} {OF_ROWS}; choose auto.")) for estimate in estimates]
    if metric.name not in draws.totals:
        return [_with_interval(estimate, Declined(OF_A_MEAN.format(metric.title))) for estimate in estimates]
    assert metric.loss is not None
    rows, totals = predictions["row"].to_numpy(), draws.totals[metric.name]
    seen = totals.counts[rows] > 0
    per_row = np.divide(totals.sums[rows], totals.counts[rows], out=np.zeros(rows.size), where=seen)
    mass = np.where(seen, problem.mass(rows), 0.0)
    scores = draws.table.set_index("draw")[metric.name].reindex(drawn.numbers).to_numpy(dtype=np.float64)
    err1 = float(np.average(per_row, weights=mass))
    spread = spread_of_draws(per_row, mass, problem.units(rows), drawn, metric.loss.best - scores)
    grouped = problem.groups is not None
    return [
        _with_interval(estimate, interval_of_draws(metric, estimate.value, err1, spread, level, grouped=grouped))
        if estimate.ingredients
        else estimate
        for estimate in estimates
    ]


def _with_interval(estimate: Estimate, interval: Made) -> Estimate:
    if isinstance(interval, Declined):
        return replace(estimate, notes=(*estimate.notes, f"There is no interval: {interval.reason}"))
    return replace(estimate, interval=interval)


def _ingredients(
    metric: str,
    draws: DrawScores,
    out: NDArray[np.float64],
    apparent: FoldScore,
    predictions: pd.DataFrame | None,
    problem: Problem | None,
    seed: int,
) -> BootstrapEstimate:
    """Return the bootstrap's numbers in the metric's own units; gamma is NaN where nothing says it."""
    if predictions is None or problem is None:
        return bootstrap_score_estimate(apparent.test[metric], out, float("nan"), greater_is_better=True)
    answers, y = replay(predictions, problem.classes), predictions["y"].to_numpy()
    weights = None if problem.weights is None else problem.weights[predictions["row"].to_numpy()]
    gamma = no_information_rate(metric, answers, y, problem.classes, weights=weights, seed=seed)
    if metric not in draws.totals:
        return bootstrap_score_estimate(apparent.test[metric], out, gamma, greater_is_better=True)
    loss, rows = row_loss(metric), predictions["row"].to_numpy()
    totals = RowTotals(draws.totals[metric].sums[rows], draws.totals[metric].counts[rows])
    means = loss.best - out
    losses = losses_of(metric, answers, y, problem.classes)
    estimate = from_totals(losses, totals, means.tolist(), loss.score(gamma), weights=weights)
    return in_units(estimate, loss.best, -1.0)


def _per_resample(metric: str, table: pd.DataFrame) -> list[Estimate]:
    if f"apparent_{metric}" not in table or table[f"apparent_{metric}"].isna().all():
        return []
    both = table[[metric, f"apparent_{metric}"]].dropna()
    mixed = 0.632 * both[metric] + 0.368 * both[f"apparent_{metric}"]
    value, apparent = float(mixed.mean()), float(both[f"apparent_{metric}"].mean())
    notes = (
        spread_note(len(mixed), "draws"),
        "Each draw's apparent score is on its own training rows, some of which are repeated, so this variant is more "
        "optimistic than .632 with one fit on all rows; quantiles of the draws are a spread too, no interval.",
    )
    return [
        Estimate(
            metric, ".632 per resample", value, sample_sd(mixed.tolist()), None, len(mixed), None, apparent,
            apparent - value, notes=notes,
        )
    ]  # fmt: skip


def resampled_aggregate(
    draws: DrawScores,
    apparent: FoldScore,
    *,
    stratified: bool = False,
    interval: str = "auto",
    level: float = 0.95,
    baseline: tuple[str, pd.DataFrame] | None = None,
) -> list[Estimate]:
    """Return one Estimate per metric from random (train, test) draws that are no bootstrap.

    ``apparent``: the score of one extra fit on all rows. The interval is the corrected resampled t of Nadeau and
    Bengio (2003), Inference for the generalization error, which warns where the draws are ``stratified`` on y; it is
    the only ``interval`` of draws (or "none"). ``baseline``: of ``baseline_of_draws``.
    Raises EvaluationError where more than half of the draws have no score.
    """
    n_train, n_test = (float(draws.table[name].mean()) for name in ("n_train", "n_test"))
    estimates = []
    for metric, on_all in apparent.apparent.items():
        defined = draws.defined(metric)
        mean, notes = float(defined.mean()), [spread_note(defined.size, "draws"), *draws.warned]
        notes += [f"{fact}." for fact in draws.lacking(metric)]
        test = None
        if interval not in ("auto", "corrected_t", "none"):
            notes.append(f"There is no interval: {interval} {OF_ROWS}; choose corrected_t.")
        elif interval != "none" and defined.size > 1 and defined.min() == defined.max():
            notes.append(f"There is no interval: {ALIKE}")
        elif interval != "none" and defined.size > 1:
            test = corrected_resampled_t(defined, n_train, n_test, level=level, stratified=stratified)
        reading = metric_of(metric)
        made = (
            Estimate(
                metric, "random splits", mean, sd=sample_sd(defined.tolist()), se=None, n_splits=defined.size,
                apparent=on_all, gap=on_all - mean, notes=tuple(notes),
                interval=test.interval.within(reading.low, reading.high) if test else None,
            )
        )  # fmt: skip
        sizes = {"n_train": n_train, "n_test": n_test, "level": level} if test else {}
        estimates.append(with_baseline(made, draws.table, baseline, **sizes))
    return estimates

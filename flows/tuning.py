"""Choosing a configuration: every one on every fold, the winner without its luck."""

from __future__ import annotations

from dataclasses import asdict
from math import nan
from typing import Any

import pandas as pd
from evenfold.estimates import Choice, EvaluationError, choose, choose_by_draws, chosen_inside
from evenfold.estimates.selection import NestedChoice, Tried, configurations, with_tested_past
from evenfold.manifests.tables.aside import frame_of
from evenfold.splitters import SplitError
from evenfold.tasks import Evaluated, SplitRef, fit_fold
from evenfold.tasks.record.studies import record_tuning
from evenfold.tasks.runtime.progress import SAY, say, saying, setting
from evenfold.tasks.scores import aggregate_chosen, scores_of_draws
from evenfold.tasks.steps import finished_each, run
from evenfold.tasks.work import Work, require_inner, work_of

from . import definitions
from .evaluation import Fits, fit_splits, look_at_holdout, require_level_gap
from .flow import flow
from .outcomes import Tuning
from .requests import Request, checked
from .splitting import split_of


def check_tuning(request: Request) -> str:
    """Raise SplitError or ModelError for bad input; return what the split is called."""
    (first,) = configurations(request.grid, 1, 0)
    name, recipe = checked(request)
    recipe.with_params(first).build(0)  # which takes them, or says what it takes
    return name


@flow(definitions.tune, check_tuning)
def tune(request: Request) -> Tuning:
    """Fit every configuration on every fold, choose, correct the winner for having been chosen, and record."""
    split = split_of(request)
    ref, simplest, how = split.split, request.one_standard_error, {"interval": request.interval, "level": request.level}
    work = work_of(ref, request.recipe)
    judged = _judged_inside(ref, work) if request.nested else []
    tried = configurations(request.grid, request.n_random, work.manifest.spec.seed)
    recipe, metric = work.problem.judged_by(request.metric)
    trials: list[Fits] = []  # of each configuration, on every fold
    outcomes: list[Evaluated] = []
    for number, params in enumerate(tried, start=1):
        with saying(f"configuration {number} of {len(tried)}"), setting(SAY, lambda *_: None):
            fits = fit_splits(ref, recipe.with_params(params), interval=request.interval, time_limit=request.time_limit)
        if fits.errors:
            raise EvaluationError(f"configuration {params!r}: {fits.errors[0]}")
        trials.append(fits)
        outcomes.append(fits.evaluated(**how))
    choice = _chosen(work, outcomes, metric, one_standard_error=simplest, level=request.level)
    inside = _nested(trials, outcomes, judged, metric, request) if request.nested else None
    results = [Tried(params=params, estimates=each.estimates) for params, each in zip(tried, outcomes, strict=True)]
    run_id = run(record_tuning, ref, split.run_id, outcomes[0].model, results, choice, metric, simplest, inside, **how)
    winner = trials[choice.chosen].model
    require_level_gap(ref, outcomes[choice.chosen].levels, metric, f"the tuning, run {run_id[:8]},")
    look = look_at_holdout(split, winner, request) if request.on == "holdout" else None
    of_metric = [next(score for score in each.estimates if score.metric == metric) for each in outcomes]
    states = [state for fits in trials for state in fits.states]
    return Tuning(
        **asdict(choice), split=ref, metric=metric, run_id=run_id, look=look, nested=inside, model=winner,
        configurations=tried, scores=[score.value for score in of_metric], spreads=[score.sd for score in of_metric],
        n_fits=len(states), n_cached=states.count("cached"),
    )  # fmt: skip


def _chosen(work: Work, outcomes: list[Evaluated], metric: str, **how: Any) -> Choice:
    """Return the choice by the predictions of all folds, or by the scores of all draws, which keep no predictions."""
    problem, how = work.problem, how | {"seed": work.manifest.spec.seed}
    if work.manifest.kind == "draws":
        draws = [scores_of_draws(each) for each in outcomes]
        return choose_by_draws(metric, problem, draws, n_rows=work.n_drawn_from, **how)
    predictions = [frame_of(each.predictions) for each in outcomes]
    scores = [[score.test.get(metric, nan) for score in each.scores] for each in outcomes]
    how |= {"ordered": work.in_stretches, "fits": [each.scores for each in outcomes]}
    return choose(metric, problem, predictions, scores, **how)


def _nested(
    trials: list[Fits], outcomes: list[Evaluated], judged: list[int], metric: str, request: Request
) -> NestedChoice:
    """Choose anew for each split of ``judged`` by what its training rows say; score the choice on its test rows."""
    split = trials[0].split
    work, n, simplest = work_of(split, trials[0].model), split.n_splits, request.one_standard_error
    if work.in_time_order:  # by predictions of the training rows that were made when those were the future
        inside = {}
        for i in judged:
            frames = [frame_of(each.predictions[:i]) for each in outcomes]
            inside[i] = [frame[frame["row"].isin(work.pair(i)[0])] for frame in frames]
    else:  # by predictions of the training rows by models that did not see them
        calls = [(split, i, fits.model) for fits in trials for i in judged]
        rows: dict[int, pd.DataFrame] = {}
        say("choosing inside the folds", 0, len(calls))
        for number, done in finished_each(fit_fold, calls, of="inside", time_limit=request.time_limit):
            fits, (_, i, recipe) = trials[number // n], calls[number]
            if done.error is not None:
                raise EvaluationError(f"inside split {i}, configuration {recipe.params!r}: {done.error}")
            rows[number] = pd.read_parquet(done.value.predictions.path)
            fits.states += ["cached" if done.cached else "fitted"] * done.value.n_fits
            say("choosing inside the folds", len(rows), len(calls))
        inside = {i: [rows[t * n + i] for t in range(len(trials))] for i in judged}
    chosen = [chosen_inside(metric, work.problem, inside[i], one_standard_error=simplest) for i in judged]
    results = [outcomes[winner].fits[i] for i, winner in zip(judged, chosen, strict=True)]
    estimates = run(aggregate_chosen, split, results, interval=request.interval, level=request.level)
    return NestedChoice(splits=judged, chosen=chosen, estimates=estimates)


def _judged_inside(split: SplitRef, work: Work) -> list[int]:
    """Return the splits inside which a choice can be made; SplitError, before anything is fitted, where none can."""
    if split.kind != "draws" and split.in_blocks:
        raise SplitError(f"nested tuning chooses in every fold, and there are {split.n_splits:,}; use 1,000 at most.")
    if not work.in_time_order:
        require_inner(work)
        return split.splits()
    judged = with_tested_past(map(work.pair, split.splits()), work.problem.n)
    if not judged:
        what = f"no split trains on a row that an earlier one tests ({split.n_splits:,} splits), so there is nothing to"
        raise SplitError(f"{what} choose by inside them; use a shorter gap, or more or longer splits.")
    return judged

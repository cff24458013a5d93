"""Choosing a configuration: every one on every fold, the winner without its luck."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

from evenfold.estimates import Choice, Estimate, EvaluationError, ModelError, ModelSpec, choose
from evenfold.splitters import SplitError, Stream
from evenfold.tasks.outcomes import Evaluated, SplitRef, Tried
from evenfold.tasks.record.looks import record_tuning
from evenfold.tasks.runtime.running import run, saying
from evenfold.tasks.scores import frame_of
from evenfold.tasks.work import work_of

from .evaluation import check_evaluation
from .fits import Fits, fit_splits
from .holdout import look_at_holdout
from .outcomes import Tuning
from .splitting import recorded, split_given, split_of

CHOOSING = 11  # what the random stream is for


def configurations(grid: dict[str, list[Any]], n_random: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the parameters to try: every combination of the grid, or ``n_random`` of them in random order."""
    if not grid or not all(isinstance(values, list) and values for values in grid.values()):
        raise ModelError(f"the grid {grid!r} names no values; write name: [value, value] for each parameter.")
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if n_random is None or n_random >= len(every):
        return every
    return [every[i] for i in Stream(seed, CHOOSING).permutation(len(every))[:n_random].tolist()]


@dataclass(frozen=True)
class Trial:
    """One configuration on every fold."""

    params: dict[str, Any]
    recipe: ModelSpec
    fits: Fits
    evaluated: Evaluated

    def of(self, metric: str) -> Estimate:
        """Return the estimate of one metric."""
        return next(estimate for estimate in self.evaluated.estimates if estimate.metric == metric)


def check_tuning(**asked: Any) -> str:
    """Raise SplitError or ModelError for bad input; return what the split is called."""
    configurations(asked["grid"], asked.get("n_random"), 0)
    return check_evaluation(**asked)


def run_tuning(
    data: str,
    spec: Any,
    recipe: ModelSpec,
    grid: Any,
    *,
    manifest: str | Path | None,
    n_random: int | None,
    metric: str | None,
    one_standard_error: bool,
    interval: Any,
    level: float,
    on: str,
    reason: str,
    time_limit: float | None,
) -> Tuning:
    """Fit every configuration on every fold, choose, correct the winner for having been chosen, and record."""
    split = split_given(manifest, data) if manifest else split_of(data, spec)
    if split.ref.kind == "draws":
        raise SplitError(f"tuning needs out-of-fold predictions of every row, and {split.ref.strategy} makes draws.")
    split_run_id = recorded(split)
    work = work_of(split.ref, recipe)
    seed = work.manifest.spec.seed
    trials = _trials(split.ref, recipe, configurations(grid, n_random, seed), time_limit, level)
    metric = metric or trials[0].evaluated.model.metrics[0]
    choice = choose(
        metric,
        work.problem,
        [frame_of(trial.evaluated.predictions) for trial in trials],
        [[score.test.get(metric, nan) for score in trial.evaluated.scores] for trial in trials],
        one_standard_error=one_standard_error,
        level=level,
        seed=seed,
    )
    tried = [Tried(params=trial.params, estimates=trial.evaluated.estimates) for trial in trials]
    run_id = run(
        record_tuning, split.ref, split_run_id, trials[0].evaluated.model, tried, choice, metric, one_standard_error
    )
    winner = trials[choice.chosen]
    look = None
    if on == "holdout":
        look = look_at_holdout(split, split_run_id, winner.recipe, reason, time_limit, interval, level)
    return _tuning(split.ref, metric, trials, choice).model_copy(update={"run_id": run_id, "look": look})


def _tuning(split: SplitRef, metric: str, trials: list[Trial], choice: Choice) -> Tuning:
    return Tuning(
        **choice.to_json(),
        split=split,
        metric=metric,
        run_id="",
        configurations=[trial.params for trial in trials],
        scores=[trial.of(metric).value for trial in trials],
        spreads=[trial.of(metric).sd for trial in trials],
        model=trials[choice.chosen].recipe,
        n_fits=sum(trial.fits.n_fits for trial in trials),
        n_cached=sum(trial.fits.n_cached for trial in trials),
    )


def _trials(
    split: SplitRef, recipe: ModelSpec, tried: list[dict[str, Any]], time_limit: float | None, level: float
) -> list[Trial]:
    trials = []
    for number, params in enumerate(tried, start=1):
        model = recipe.model_copy(update={"params": {**recipe.params, **params}})
        with saying(f"configuration {number} of {len(tried)}"):
            fits = fit_splits(split, model, time_limit=time_limit, quiet=True)
        if fits.errors:
            raise EvaluationError(f"configuration {params!r}: {fits.errors[0]}")
        trials.append(Trial(params, model, fits, fits.evaluated(level=level)))
    return trials

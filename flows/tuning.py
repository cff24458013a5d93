"""Choosing a configuration: every one on every fold, the winner without its luck."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from evenfold.estimates import Choice, Estimate, EvaluationError, ModelError, ModelSpec, choose
from evenfold.splitters import SplitError, Stream
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.work import Work, work_of

from .fits import Fits, conclude, fit_splits
from .holdout import look_at_holdout
from .requests import EvaluateRequest, Say, TuneRequest, Tuning, silent
from .splitting import record_split_of, split_of

CHOOSING = 11  # what the random stream is for


def configurations(grid: dict[str, list[Any]], n_random: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the parameters to try: every combination of the grid, or ``n_random`` of them in random order."""
    if not grid or not all(isinstance(values, list) and values for values in grid.values()):
        raise ModelError(f"the grid {grid!r} names no values; write name: [value, value] for each parameter.")
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if n_random is None or n_random >= len(every):
        return every
    return [every[i] for i in Stream(seed, CHOOSING).permutation(len(every))[:n_random].tolist()]


def read_grid(path: str | Path) -> dict[str, list[Any]]:
    """Return the grid in a YAML or JSON file."""
    try:
        grid = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ModelError(f"the grid {str(path)!r} cannot be read: {error}") from None
    if not isinstance(grid, dict):
        raise ModelError(f"the grid {str(path)!r} holds no parameters; write name: [value, value] for each.")
    return grid


@dataclass(frozen=True)
class Trial:
    """One configuration on every fold."""

    params: dict[str, Any]
    model: ModelSpec
    work: Work
    fits: Fits
    estimates: list[Estimate]

    def of(self, metric: str) -> Estimate:
        """Return the estimate of one metric."""
        return next(each for each in self.estimates if each.metric == metric)


def tune_body(engine: Engine, home: Home, request: TuneRequest, say: Say = silent) -> Tuning:
    """Fit every configuration on every fold, choose, correct the winner for having been chosen, and record."""
    split = split_of(engine, home, request, say)
    if split.ref["kind"] == "draws":
        raise SplitError(f"tuning needs out-of-fold predictions of every row, and {split.ref['strategy']} makes draws.")
    split_run_id = record_split_of(engine, home, request.data, split, say)
    trials = _trials(engine, home, request, split.ref, say)
    metric = request.metric or trials[0].work.problem.model.metrics[0]
    choice = choose(
        metric,
        trials[0].work.problem,
        [trial.fits.frame() for trial in trials],
        [[score.test[metric] for score in trial.fits.scores] for trial in trials],
        one_standard_error=request.one_standard_error,
        seed=request.spec.seed,
    )
    run_id = _recorded(engine, home, request, split.ref, split_run_id, trials, choice, metric)
    winner = trials[choice.chosen]
    look = None
    if request.on == "holdout":
        final = request.model_copy(update={"model": winner.model})
        look = look_at_holdout(engine, home, final, split, split_run_id, winner.work)
    return Tuning(
        **(choice.to_json() | {"look": look, "split": split.ref, "metric": metric, "run_id": run_id}),
        configurations=[trial.params for trial in trials],
        scores=[trial.of(metric).value for trial in trials],
        spreads=[trial.of(metric).sd for trial in trials],
        model=winner.model,
        n_fits=sum(trial.fits.n_fits for trial in trials),
        n_cached=sum(trial.fits.n_cached for trial in trials),
    )


def _trials(engine: Engine, home: Home, request: TuneRequest, ref: dict[str, Any], say: Say) -> list[Trial]:
    trials = []
    tried = configurations(request.grid, request.n_random, request.spec.seed)
    for number, params in enumerate(tried, start=1):
        model = request.model.model_copy(update={"params": {**request.model.params, **params}})
        work = work_of(request.data, ref, model)
        say(f"configuration {number} of {len(tried)}", 0, 1)
        asked = EvaluateRequest(data=request.data, spec=request.spec, model=model, time_limit=request.time_limit)
        fits = fit_splits(engine, home, asked, ref, work, silent)
        say(f"configuration {number} of {len(tried)}", 1, 1)
        if fits.errors:
            raise EvaluationError(f"configuration {params!r}: {fits.errors[0]}")
        trials.append(Trial(params, model, work, fits, conclude(fits, work, request.spec.seed)))
    return trials


def _recorded(
    engine: Engine,
    home: Home,
    request: TuneRequest,
    ref: dict[str, Any],
    split_run_id: str,
    trials: list[Trial],
    choice: Choice,
    metric: str,
) -> str:
    from evenfold.tasks.record.looks import record_tuning

    arguments = {
        "split": ref,
        "split_run_id": split_run_id,
        "model": trials[0].work.problem.model.canonical(),
        "tried": [{"params": t.params, "estimates": [each.to_json() for each in t.estimates]} for t in trials],
        "choice": choice.to_json(),
        "metric": metric,
        "one_standard_error": request.one_standard_error,
        "tags": engine.tags(),
        "home": str(home.path),
    }
    return str(engine.run(Call(record_tuning, arguments, "record the tuning", retries=2)).value)

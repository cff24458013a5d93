"""Choosing a configuration: every one on every fold, the winner without its luck."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import yaml
from evenfold.estimates import ModelError, choose
from evenfold.splitters import Stream
from evenfold.tasks import Engine, Home
from evenfold.tasks.work import work_of

from ._bodies import record_split_of, split_of
from ._fits import conclude, fit_splits
from ._look import look_at_holdout
from ._requests import EvaluateRequest, TuneRequest, Tuning
from ._say import Say, silent

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


def tune_body(engine: Engine, home: Home, request: TuneRequest, say: Say = silent) -> Tuning:
    """Fit every configuration on every fold, choose, correct the winner for having been chosen, and record."""
    from evenfold.tasks.tuning import record_tuning

    split = split_of(engine, home, request, say)
    split_run_id = record_split_of(engine, home, request.data, split, say)
    tried = configurations(request.grid, request.n_random, request.spec.seed)
    models = [request.model.model_copy(update={"params": {**request.model.params, **each}}) for each in tried]
    everything, works = [], []
    for number, model in enumerate(models, start=1):
        asked = EvaluateRequest(data=request.data, spec=request.spec, model=model)
        works.append(work_of(request.data, split.ref, model))
        say(f"configuration {number} of {len(models)}", 0, 1)
        fits = fit_splits(engine, home, asked, split.ref, works[-1], silent)
        say(f"configuration {number} of {len(models)}", 1, 1)
        if fits.errors:
            raise ModelError(f"configuration {tried[number - 1]!r}: {fits.errors[0]}")
        everything.append(fits)
    estimates = [conclude(fits, work, request.spec.seed) for fits, work in zip(everything, works, strict=True)]
    metric = request.metric or works[0].problem.model.metrics[0]
    chosen = choose(
        metric,
        works[0].problem,
        [fits.frame() for fits in everything],
        [[score.test[metric] for score in fits.scores] for fits in everything],
        one_standard_error=request.one_standard_error,
        seed=request.spec.seed,
    )
    told = [
        {"params": params, "estimates": [each.to_json() for each in found]}
        for params, found in zip(tried, estimates, strict=True)
    ]
    run_id = record_tuning(
        split.ref,
        split_run_id,
        works[0].problem.model.canonical(),
        told,
        chosen.to_json(),
        engine.tags(),
        str(home.path),
    )
    look = None
    if request.on == "holdout":
        final = request.model_copy(update={"model": models[chosen.chosen]})
        look = look_at_holdout(engine, home, final, split, split_run_id, works[chosen.chosen])
    return Tuning(
        look=look,
        split=split.ref,
        metric=metric,
        configurations=tried,
        scores=[next(e.value for e in found if e.metric == metric) for found in estimates],
        spreads=[next(e.sd for e in found if e.metric == metric) for found in estimates],
        chosen=chosen.chosen,
        best=chosen.best,
        naive=chosen.naive,
        value=chosen.value,
        low=chosen.low,
        high=chosen.high,
        notes=list(chosen.notes),
        model=models[chosen.chosen],
        n_fits=sum(fits.n_fits for fits in everything),
        n_cached=sum(fits.n_cached for fits in everything),
        run_id=run_id,
    )

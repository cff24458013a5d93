"""Two recipes on the same folds, from what their evaluations have kept."""

from __future__ import annotations

from typing import Any

import pandas as pd
from evenfold.estimates import ModelSpec
from evenfold.estimates.comparison import compare_draws, compare_predictions
from evenfold.tasks import Home
from evenfold.tasks.fits import BLOCK
from evenfold.tasks.work import Work, key_of_block, key_of_split

from ._fits import in_blocks


def with_metric(recipe: ModelSpec, metric: str) -> ModelSpec:
    """Return the recipe, scored by ``metric`` as well."""
    return recipe if metric in recipe.metrics else recipe.model_copy(update={"metrics": (*recipe.metrics, metric)})


def compared(home: Home, work: Work, champion: Work, metric: str) -> dict[str, Any]:
    """Return the scores of ``work`` minus the champion's, on the same folds or draws."""
    before, after = kept_scores(home, champion), kept_scores(home, work)
    if work.manifest.kind == "draws":
        return compare_draws(before, after, metric)
    stratified = "even_classes" in work.manifest.splitter.promises
    on = list(work.keys.column_names) if work.keys is not None else ["row"]
    return compare_predictions(before, after, metric, on, stratified)


def kept_scores(home: Home, work: Work) -> pd.DataFrame:
    """Return the predictions of every fold, or the scores of every draw, that an evaluation has kept."""
    n, seed = work.manifest.n_splits, work.manifest.spec.seed
    if in_blocks(work):
        keys = [key_of_block(work, first, min(first + BLOCK, n), seed) for first in range(0, n, BLOCK)]
    else:
        keys = [key_of_split(work, i, seed) for i in range(n)]
    files = [home.scores / f"{key}.parquet" for key in keys]
    return pd.concat([pd.read_parquet(file) for file in files if file.exists()], ignore_index=True)

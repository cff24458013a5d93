"""A kept fit is given to whoever asks for that very fit, and to nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.tasks import Home, SplitRef, aggregate, fit_fold, split
from evenfold.tasks.runtime.running import Finished, finished_here

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "features": ["x"], "metrics": ["r2"]}


@pytest.fixture
def path(home: Home, tmp_path: Path) -> Path:
    """Return a file of 60 rows in four groups of different sizes, and two columns of folds that share one fold."""
    draw, n = np.random.default_rng(0), 60
    frame = pd.DataFrame({"id": range(n), "x": draw.normal(size=n), "g": np.repeat(range(4), [6, 24, 18, 12])})
    frame = frame.assign(y=frame["x"] + draw.normal(size=n))
    frame = frame.assign(first=np.repeat([0, 1, 2], 20), second=np.r_[np.repeat(2, 20), np.tile([0, 1], 20)])
    frame.to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def decided(path: Path, strategy: str, name: str = "", params: Any = None, **columns: str) -> SplitRef:
    spec = {"columns": {"key": ["id"], "target": "y", **columns}, "strategy": strategy, "params": params or {}}
    return split.fn(str(path), {**spec, "name": name or strategy})


def fitted(made: SplitRef, model: Any = RIDGE) -> list[Finished[Any]]:
    return [finished_here(fit_fold, made, i, model) for i in made.splits()]


def test_a_fold_that_two_splits_share_has_the_number_and_name_that_each_gives_it(path: Path) -> None:
    """In the score, in the predictions and so in the estimate."""
    for strategy, params in {"BalancedGroupKFold": {"n_splits": 4}, "LeaveOneGroupOut": {}}.items():
        scores = [fold.value.score for fold in fitted(decided(path, strategy, params=params, group="g"))]
        assert [(score.fold, score.name) for score in scores] == [(i, f"fold {i}") for i in range(4)]
    for column in ("first", "second"):
        made = decided(path, "Predefined", column, fold=column)
        folds = [each.value for each in fitted(made)]
        assert [set(pd.read_parquet(fold.predictions.path)["fold"]) for fold in folds] == [{0}, {1}, {2}]
        assert finished_here(aggregate, made, folds).value.estimates

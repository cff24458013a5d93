"""A kept fit is given to whoever asks for that very fit, and to nobody else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, aggregate, fit_fold, fit_folds, split
from evenfold.tasks.runtime.running import Finished, finished_here
from evenfold.tasks.work import work_of

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "features": ["x"], "metrics": ["r2"]}


@pytest.fixture
def path(home: Home, tmp_path: Path) -> Path:
    """Return a file of 600 rows in four groups of different sizes, and two columns of folds that share one fold."""
    draw, n = np.random.default_rng(0), 600
    frame = pd.DataFrame({"id": range(n), "x": draw.normal(size=n), "g": np.repeat(range(4), [60, 240, 180, 120])})
    frame = frame.assign(y=frame["x"] + draw.normal(size=n))
    frame = frame.assign(first=np.repeat([0, 1, 2], 200), second=np.r_[np.repeat(2, 200), np.tile([0, 1], 200)])
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


def test_rows_that_stop_a_fit_belong_to_what_it_is(path: Path) -> None:
    """Parts of the same training and test rows, and other validation rows: another fit, alone and in a block."""
    learns = {**RIDGE, "estimator": "sklearn.ensemble:HistGradientBoostingRegressor", "eval_set": "validation"}
    stopped = {**learns, "params": {"early_stopping": True, "n_iter_no_change": 1}}
    folds, blocks = [], []
    for name, parts in {"many": {"validation": 0.4}, "few": {"validation": 0.02, "calibration": 0.38}}.items():
        made = decided(path, "HashSplit", name, {"parts": {"train": 0.4, "eval": 0.2, **parts}})
        folds.append(finished_here(fit_fold, made, 0, stopped))
        blocks.append(finished_here(fit_folds, made, (0, 1), stopped))
    assert [each.value.score.name for each in folds] == ["eval part"] * 2
    assert [each.cached for each in (*folds, *blocks)] == [False] * 4
    assert blocks[1].value.scores[0].test == folds[1].value.score.test != folds[0].value.score.test


def test_a_split_that_takes_the_place_of_another_is_not_taken_for_it(path: Path, home: Home) -> None:
    """Its folds, and its target, whatever of the one before is still in memory; a reference to that is refused."""
    gone = decided(path, "KFold", "rows", {"n_splits": 5})
    assert len(fitted(gone)) == 5
    shutil.rmtree(home.splits)
    made = decided(path, "KFold", "rows", {"n_splits": 3})
    assert made.uri == gone.uri
    assert [fold.value.score.n_test for fold in fitted(made)] == [200] * 3
    with pytest.raises(SplitError, match=r"^rows 1\.0 is another split than the one asked for"):
        work_of(gone, RIDGE | {"metrics": ["max_error"]})
    parted = decided(path, "HashSplit", "parted")
    work_of(parted, RIDGE)
    shutil.rmtree(home.splits)
    other = split.fn(str(path), key="id", target="g", strategy="HashSplit", name="parted")
    assert (other.uri, other.split_id) == (parted.uri, parted.split_id)
    assert work_of(other, RIDGE).problem.target == "g"

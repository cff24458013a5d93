"""A kept fit is given to whoever asks for that very one, and to nobody else."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, aggregate, fit_fold, split
from evenfold.tasks.steps import Finished, finished_here
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


def decided(path: Path, strategy: str, name: str = "", params: Any = None, **columns: Any) -> SplitRef:
    spec = {"columns": {"key": ["id"], "target": "y", **columns}, "strategy": strategy, "params": params or {}}
    return split.fn(str(path), {**spec, "name": name or strategy})


def fitted(made: SplitRef, model: Any = RIDGE) -> list[Finished[Any]]:
    return [finished_here(fit_fold, made, i, model) for i in made.splits()]


def test_a_fold_that_two_splits_share_has_the_number_and_name_that_each_gives_it(path: Path) -> None:
    for strategy, params in {"BalancedGroupKFold": {"n_splits": 4}, "LeaveOneGroupOut": {}}.items():
        scores = [fold.value.score for fold in fitted(decided(path, strategy, params=params, group="g"))]
        assert [(score.fold, score.name) for score in scores] == [(i, f"fold {i}") for i in range(4)]
    for column in ("first", "second"):
        made = decided(path, "Predefined", column, fold=column)
        folds = [each.value for each in fitted(made)]
        assert [set(pd.read_parquet(fold.predictions.path)["fold"]) for fold in folds] == [{0}, {1}, {2}]
        assert finished_here(aggregate, made, folds).value.estimates


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


def test_results_of_another_split_are_not_aggregated(path: Path) -> None:
    """Of folds, blocks of them, draws and further fits; those that both splits share are."""
    drawn = [decided(path, "Bootstrap", name, {"n_splits": n}) for name, n in {"few": 6, "many": 8}.items()]
    other = split.fn(str(path), key="id", target="y", strategy="Bootstrap", n_splits=6, seed=1, name="other")
    draws = [finished_here(fit_fold, each, (0, each.n_splits), RIDGE).value for each in (*drawn, other)]
    whole = finished_here(fit_fold, drawn[0], "all rows", RIDGE).value
    first = finished_here(fit_fold, drawn[1], (0, 6), RIDGE)
    assert first.cached
    assert finished_here(aggregate, drawn[0], [first.value], apparent=whole).value.estimates
    for foreign in draws[1:]:
        with pytest.raises(EvaluationError, match="of several models or splits"):
            assert finished_here(aggregate, drawn[0], [foreign], apparent=whole).value
    ours, theirs = (decided(path, "KFold", f"k{n}", {"n_splits": n}) for n in (3, 4))
    mean = RIDGE | {"metrics": ["neg_mean_absolute_error"]}
    folds = [fold.value for fold in fitted(ours, mean)]
    block = finished_here(fit_fold, theirs, (0, 4), mean).value
    further = finished_here(fit_fold, theirs, 0, mean, of="nested").value
    for results, refits in (([block], []), (folds, [further])):
        with pytest.raises(EvaluationError, match="of several models or splits"):
            assert finished_here(aggregate, ours, results, refits=refits, interval="nested").value


def test_a_result_that_comes_twice_is_refused(path: Path) -> None:
    made = decided(path, "KFold", params={"n_splits": 3})
    folds = [fold.value for fold in fitted(made)]
    with pytest.raises(EvaluationError, match=r"^fold 0 is given 3 times; give each result once\."):
        assert finished_here(aggregate, made, [folds[0]] * 3).value
    block = finished_here(fit_fold, made, (0, 2), RIDGE).value
    with pytest.raises(EvaluationError, match=r"^fold 1 is given 2 times"):
        assert finished_here(aggregate, made, [block, *folds[1:]]).value
    drawn = decided(path, "Bootstrap", params={"n_splits": 6})
    blocks = [finished_here(fit_fold, drawn, block, RIDGE).value for block in ((0, 4), (3, 6))]
    whole = finished_here(fit_fold, drawn, "all rows", RIDGE).value
    with pytest.raises(EvaluationError, match=r"^resample 3 is given 2 times"):
        assert finished_here(aggregate, drawn, blocks, apparent=whole).value

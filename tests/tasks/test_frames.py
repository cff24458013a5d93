"""A frame that a task is given becomes a file once, and none where the task is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, extend, split
from evenfold.tasks.runtime.files import data_reference
from prefect import flow, task
from prefect.filesystems import LocalFileSystem
from prefect.task_runners import ProcessPoolTaskRunner
from small import small

from evenfold import flows

FOLDS: dict[str, Any] = {"key": "id", "strategy": "KFold", "n_splits": 3}
TOO_MANY = FOLDS | {"n_splits": 100}


@flow
def called(frame: pd.DataFrame, target: str) -> Any:
    return split(frame, target=target, **FOLDS)


@flow
def submitted(frame: pd.DataFrame, target: str) -> Any:
    return split.submit(frame, target=target, **FOLDS).result()


def test_a_frame_that_was_changed_is_another(prefect_home: Home) -> None:
    """Though it is the same object, within one flow."""

    @flow
    def mine() -> set[str]:
        frame = small(60)
        first = split(frame, target="y", **FOLDS)
        frame["a"] = 0.0
        return {first.data, split(frame, target="y", **FOLDS).data}

    assert len(mine()) == 2


@pytest.mark.parametrize("mine", [called, submitted], ids=lambda mine: mine.name)
def test_a_refused_task_leaves_nothing_of_a_frame(mine: Any, prefect_home: Home) -> None:
    """As a flow that is refused does."""
    state = mine(small(60), "nope", return_state=True)
    assert isinstance(state.result(raise_on_failure=False), SplitError)
    assert not list(prefect_home.data.glob("*"))


@flow
def in_many_folds(frame: pd.DataFrame) -> Any:
    return split(frame, target="y", **TOO_MANY)


LATE = [in_many_folds, lambda frame: split.fn(frame, target="y", **TOO_MANY)]


@pytest.mark.parametrize("mine", LATE, ids=["called", "fn"])
def test_a_split_that_fails_after_it_was_planned_leaves_nothing_of_a_frame(mine: Any, prefect_home: Home) -> None:
    """What was there before stays, with a frame that somebody named by its content."""
    with pytest.raises(SplitError, match="n_splits=100 with 60 rows"):
        mine(small(60))
    assert not list(prefect_home.data.glob("*"))
    theirs = data_reference(small(60), prefect_home)
    with pytest.raises(SplitError, match="n_splits=100 with 60 rows"):
        mine(small(60))
    assert [str(file) for file in prefect_home.data.iterdir()] == [theirs]


@task
def loaded() -> pd.DataFrame:
    return small(60)


@flow(task_runner=ProcessPoolTaskRunner(max_workers=1))
def in_a_pool() -> list[Any]:
    return [
        split.submit(small(60), target="y", **TOO_MANY),
        split.submit(loaded.submit(), target="y", **TOO_MANY),  # type: ignore[arg-type]
    ]


@pytest.mark.soak
def test_a_submitted_split_that_fails_leaves_nothing_of_a_frame_however_it_got_it(prefect_home: Home) -> None:
    for state in in_a_pool(return_state=True).result(raise_on_failure=False):
        assert isinstance(state.result(raise_on_failure=False), SplitError)
    assert not list(prefect_home.data.glob("*"))


def test_a_split_that_fails_leaves_nothing_of_a_frame_where_results_lie_in_a_storage_of_the_users(
    prefect_home: Home, tmp_path: Path
) -> None:
    """It was taken for one whose result lies there."""
    LocalFileSystem(basepath=str(tmp_path / "mine")).save("mine", overwrite=True)  # type: ignore[unused-coroutine]
    elsewhere = split.with_options(result_storage=LocalFileSystem.load("mine"))

    @flow
    def mine(n_splits: int) -> Any:
        return elsewhere(small(60), target="y", key="id", strategy="KFold", n_splits=n_splits)

    with pytest.raises(SplitError, match="n_splits=100 with 60 rows"):
        mine(100)
    assert not list(prefect_home.data.glob("*"))
    assert [Path(mine(3).data).exists() for _ in "ab"] == [True, True]


def test_a_split_that_was_made_keeps_its_frame_though_the_flow_failed_later(prefect_home: Home) -> None:
    """Its manifest is kept, recorded and found again, and names the file."""
    model = {"estimator": "sklearn.svm:SVR", "params": {"C": -1.0}}

    @flow
    def mine() -> Any:
        return flows.evaluate(small(60), target="y", **FOLDS, model=model, return_state=True)

    assert mine(return_state=True).is_failed()
    assert len(list(prefect_home.splits.glob("*/1.0"))) == len(list(prefect_home.data.glob("*"))) == 1


def test_a_refused_extension_leaves_nothing_of_a_frame(home: Home, tmp_path: Path) -> None:
    """Its manifest stays as it was, too."""
    small(60).to_parquet(tmp_path / "rows.parquet")
    made = split.fn(str(tmp_path / "rows.parquet"), target="y", **FOLDS)
    with pytest.raises(SplitError, match="id"):
        extend.fn(made, small(60).drop(columns="id"))
    assert not list(home.data.glob("*"))
    assert [folder.name for folder in Path(made.uri).parent.iterdir()] == ["1.0"]

"""A task of ours whose upstream task failed is not run, and a flow that ends in it does not complete."""

from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home, SplitRef, aggregate, fit_fold, read_champion, record_evaluation, split
from prefect import flow, unmapped
from small import RIDGE, small


@pytest.fixture
def folds(prefect_home: Home, tmp_path: Path) -> SplitRef:
    small(60).to_parquet(tmp_path / "rows.parquet")
    return split.fn(str(tmp_path / "rows.parquet"), key="id", target="y", strategy="KFold", n_splits=3)


def scores(folds: SplitRef) -> Any:
    return fit_fold.map(unmapped(folds), [0, 1, 7], unmapped(RIDGE))


@flow
def asked_for(folds: SplitRef) -> Any:
    return aggregate(folds, scores(folds).result())


@flow
def returned(folds: SplitRef) -> Any:
    return record_evaluation.submit(folds, aggregate.submit(folds, scores(folds)))


@pytest.mark.parametrize("mine", [asked_for, returned], ids=lambda mine: mine.name)
def test_a_flow_whose_fit_failed_does_not_complete(mine: Any, folds: SplitRef) -> None:
    """Where it asks for the results, with the fold's own sentence; where it returns a future, as Prefect has it."""
    state = mine(folds, return_state=True)
    assert not state.is_completed(), state
    if mine is asked_for:
        assert "rows 1.0 has no split 7" in str(state.result(raise_on_failure=False))


def test_a_task_that_may_find_nothing_answers_none(folds: SplitRef) -> None:
    assert flow(lambda: read_champion(folds), name="asks", persist_result=False)() is None

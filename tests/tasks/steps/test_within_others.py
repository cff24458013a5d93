"""A task of ours inside a task or transaction of somebody's own: its lock is held no longer."""

from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home, SplitRef, fit_fold, split
from prefect import flow, task
from prefect.states import State
from prefect.transactions import transaction
from small import RIDGE, small


@pytest.fixture
def folds(prefect_home: Home, tmp_path: Path) -> SplitRef:
    small(60).to_parquet(tmp_path / "rows.parquet")
    return split.fn(str(tmp_path / "rows.parquet"), key="id", target="y", strategy="KFold", n_splits=3)


def fitted(folds: SplitRef) -> State:
    """Return what the first fold's fit came to; a lock that is held by this very thread fails it at once."""
    return fit_fold.with_options(retries=0)(folds, 0, RIDGE, return_state=True)


def test_what_a_task_of_ours_made_is_there_for_the_next_one_in_the_same_task(folds: SplitRef) -> None:
    """Prefect would write it, and let others have the lock, only when the task around it has ended."""
    around = task(lambda: [fitted(folds), fitted(folds)], name="twice", persist_result=False)
    states = flow(lambda: around(), name="mine")()
    assert [state.name for state in states] == ["Completed", "Cached"]


def test_what_a_task_of_ours_made_outlasts_what_fails_around_it(folds: SplitRef) -> None:
    """By its content it is right whatever becomes of a transaction; one with hooks to undo it stays part of it."""

    @flow
    def mine() -> State:
        with transaction():
            fitted(folds)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mine()
    assert flow(lambda: fitted(folds), name="asks")().name == "Cached"
    undone: list[Any] = []
    told = fit_fold.with_options(refresh_cache=True)
    told.on_rollback(undone.append)

    @flow
    def hooked() -> None:
        with transaction():
            told(folds, 0, RIDGE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hooked()
    assert len(undone) == 1

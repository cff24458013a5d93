"""A task of ours inside a task or transaction of somebody's own, or out of time: its lock is held no longer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home, SplitRef, fit_fold, split
from prefect import flow, task
from prefect.filesystems import LocalFileSystem
from prefect.states import State
from prefect.transactions import transaction
from small import RIDGE, small


@pytest.fixture
def folds(prefect_home: Home, tmp_path: Path) -> SplitRef:
    """Return three folds of 60 rows."""
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


READ: list[str] = []


class Slow(LocalFileSystem):
    """A place for results that takes a minute when it is asked a second time."""

    _block_type_name, _block_type_slug = "Slow", "slow-file-system"

    def read_path(self, path: str, _sync: bool = True) -> bytes:
        """Find nothing, sooner or later."""
        READ.append(path)
        time.sleep(60 * (len(READ) - 1))
        raise FileNotFoundError(path)


def test_a_task_whose_time_is_over_as_its_transaction_opens_leaves_no_lock(folds: SplitRef, tmp_path: Path) -> None:
    """Prefect takes the lock, is interrupted, and nobody would release it while this process lives."""
    READ.clear()
    Slow(basepath=str(tmp_path / "slow")).save("slow", overwrite=True)  # type: ignore[unused-coroutine]
    slow = fit_fold.with_options(result_storage=Slow.load("slow"), timeout_seconds=5, retries=0)
    asks = fit_fold.with_options(timeout_seconds=30, retries=0)

    @flow
    def mine() -> list[State]:
        return [slow(folds, 0, RIDGE, return_state=True), asks(folds, 0, RIDGE, return_state=True)]

    assert [state.name for state in mine()] == ["TimedOut", "Completed"]
    assert len(READ) == 2  # once for the key, and once with the lock held

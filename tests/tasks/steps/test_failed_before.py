"""A task of ours whose upstream task failed: it says so, and no flow that ends in it completes with nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home, SplitRef, aggregate, fit_fold, read_champion, record_evaluation, split
from evenfold.tasks.fits import fit_short_folds
from prefect import flow, unmapped
from small import RIDGE, small


@pytest.fixture
def folds(prefect_home: Home, tmp_path: Path) -> SplitRef:
    """Return three folds of 60 rows."""
    small(60).to_parquet(tmp_path / "rows.parquet")
    return split.fn(str(tmp_path / "rows.parquet"), key="id", target="y", strategy="KFold", n_splits=3)


def scores(folds: SplitRef) -> Any:
    """Return the futures of the fits of three folds, of which there is no third one."""
    return fit_fold.map(unmapped(folds), [0, 1, 7], unmapped(RIDGE))


@flow
def combined(folds: SplitRef) -> Any:
    return aggregate(folds, scores(folds))


@flow
def recorded(folds: SplitRef) -> Any:
    return record_evaluation(folds, aggregate.submit(folds, scores(folds)))


@flow
def ordered(folds: SplitRef) -> Any:
    return fit_fold(folds, 0, RIDGE, wait_for=[fit_fold.submit(folds, 7, RIDGE)])


@flow
def asked_for(folds: SplitRef) -> Any:
    return aggregate(folds, scores(folds).result())


@flow
def in_short(folds: SplitRef) -> Any:
    """What it returns holds None for folds that failed; it is never None itself."""
    return fit_short_folds(folds, (0, 1), RIDGE, wait_for=[fit_fold.submit(folds, 7, RIDGE)])


TOLD = {
    combined: "`aggregate` did not run",
    recorded: "`record_evaluation` did not run",
    ordered: "`fit_fold` did not run",
    in_short: "`fit_short_folds` did not run",
    asked_for: "rows 1.0 has no split 7",
}


@pytest.mark.parametrize("mine", TOLD, ids=lambda mine: mine.name)
def test_a_task_whose_upstream_failed_fails_its_flow_with_a_sentence(mine: Any, folds: SplitRef) -> None:
    """Prefect answers None there, with which a flow completes; of ``result()`` the sentence is the fold's own."""
    state = mine(folds, return_state=True)
    assert state.is_failed(), state
    assert TOLD[mine] in str(state.result(raise_on_failure=False))


def test_a_task_that_may_find_nothing_answers_none(folds: SplitRef) -> None:
    """There is no champion yet, which is no failure."""
    assert flow(lambda: read_champion(folds), name="asks", persist_result=False)() is None

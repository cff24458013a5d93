"""A task of ours in flows of others: with options of their own, inside their tasks, after what failed."""

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home, SplitRef, aggregate, fit_fold, read_champion, record_evaluation, split
from evenfold.tasks.steps import ByContent, finished_here, run, running, step
from prefect import Task, flow, task, unmapped
from prefect.cache_policies import INPUTS, NO_CACHE
from prefect.serializers import JSONSerializer
from prefect.states import State
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


@step()
def thread() -> int:
    return threading.get_ident()


@step()
def twice(number: int) -> int:
    return 2 * number


def test_what_runs_once_runs_where_its_flow_does(prefect_home: Home) -> None:
    """A worker elsewhere does not know the flow's tracking server, and would record where nobody looks."""
    assert flow(lambda: run(thread), name="asks", persist_result=False)() == threading.get_ident()


OPTIONS: list[dict[str, Any]] = [{"cache_policy": INPUTS}, {"result_storage_key": "fold/{parameters[i]}"}]
ANEW: list[dict[str, Any]] = [
    {"refresh_cache": True},
    {"cache_policy": NO_CACHE},
    {"persist_result": False},
    {"cache_expiration": timedelta(microseconds=1)},
]


def states(step: Task[..., Any], folds: SplitRef) -> list[State]:
    @flow
    def mine() -> list[State]:
        return [step(folds, 0, RIDGE, return_state=True) for _ in range(2)]

    return mine()


def test_a_key_of_the_users_own_is_not_taken_for_ours(folds: SplitRef) -> None:
    """It does not say which data it was made of, so nothing is said of them either."""
    for options in OPTIONS:
        first, second = states(fit_fold.with_options(**options), folds)
        assert first.is_completed(), (options, first.message)
        assert (second.name, second.result().score) == ("Cached", first.result().score), options


def test_our_policy_on_a_task_of_anothers_says_that_it_keeps_nothing(
    prefect_home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    mine = task(lambda: 1, name="mine", cache_policy=ByContent())
    assert flow(lambda: mine(), name="asks", persist_result=False)() == 1
    assert "ByContent finds no key for mine" in caplog.text


def test_what_prefect_is_told_of_its_cache_holds_for_what_the_store_keeps(folds: SplitRef) -> None:
    """A fit that was made without Prefect is a hit of Prefect's; where an option asks for it anew, it is none."""
    assert not finished_here(fit_fold, folds, 0, RIDGE).cached
    assert [state.name for state in states(fit_fold, folds)] == ["Cached", "Cached"]
    for options in ANEW:
        again = states(fit_fold.with_options(**options), folds)
        assert [state.name for state in again] == ["Completed", "Completed"], options


def test_what_a_run_has_computed_is_read_back_elsewhere(folds: SplitRef) -> None:
    """As of any task whose result is persisted: where the state that Prefect's server holds says."""
    for fit in (fit_fold, fit_fold.with_options(refresh_cache=True)):
        first, _ = states(fit, folds)
        assert first.name == "Completed"
        persisted = json.loads(Path(first.data.metadata.storage_key).read_text())
        assert JSONSerializer().loads(persisted["result"].encode()) == first.result()


def test_a_policy_of_the_users_own_holds_for_a_step_without_a_key(prefect_home: Home) -> None:
    cached = twice.with_options(cache_policy=INPUTS)
    again = flow(lambda: [cached(3, return_state=True).name for _ in range(2)], name="asks")
    assert again() == ["Completed", "Cached"]


def test_in_a_task_of_the_users_what_is_asked_of_us_says_whether_to_refresh(folds: SplitRef) -> None:
    def is_cached(refresh: bool) -> bool:
        with running("plain", refresh):
            return finished_here(fit_fold, folds, 0, RIDGE).cached

    mine = flow(lambda: [is_cached(False), task(is_cached)(True), task(is_cached, refresh_cache=True)(False)], name="a")
    assert mine() == [False, False, True]

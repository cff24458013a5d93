"""A task of ours with options of a user's own: another cache policy, another key, another place for its results."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home, SplitRef, fit_fold, split
from evenfold.tasks.steps.running import finished_here
from prefect import Task, flow
from prefect.cache_policies import INPUTS, NO_CACHE, RUN_ID
from prefect.settings import PREFECT_TASKS_REFRESH_CACHE, temporary_settings
from prefect.states import State
from small import small

RIDGE: dict[str, Any] = {"estimator": "sklearn.linear_model:Ridge", "features": ["a", "b"], "metrics": ["r2"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "a policy of Prefect's": {"cache_policy": INPUTS},
    "ours and another": {"cache_policy": fit_fold.cache_policy + RUN_ID},
    "a function": {"cache_key_fn": lambda *_: "of/mine"},
    "a key in words": {"result_storage_key": "fold/{parameters[i]}"},
}


ANEW: dict[str, dict[str, Any]] = {
    "refresh_cache": {"refresh_cache": True},
    "no cache": {"cache_policy": NO_CACHE},
    "nothing persisted": {"persist_result": False},
    "out of date": {"cache_expiration": timedelta(microseconds=1)},
    "a setting": {},
}


@pytest.fixture
def path(prefect_home: Home, tmp_path: Path) -> str:
    small(60).to_parquet(tmp_path / "rows.parquet")
    return str(tmp_path / "rows.parquet")


def folds(path: str) -> SplitRef:
    return split.fn(path, key="id", target="y", strategy="KFold", n_splits=3)


def states(step: Task[..., Any], path: str) -> list[State]:
    @flow
    def mine() -> list[State]:
        made = folds(path)
        return [step(made, 0, RIDGE, return_state=True) for _ in range(2)]

    return mine()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_key_of_the_users_own_is_not_taken_for_ours(options: dict[str, Any], path: str) -> None:
    """It does not say which data it was made of, so nothing is said of them either."""
    first, second = states(fit_fold.with_options(**options), path)
    assert first.is_completed(), first.message
    assert (second.name, second.result().score) == ("Cached", first.result().score)


def test_a_chosen_storage_is_kept_and_what_lies_in_it_is_checked(path: str, tmp_path: Path, prefect_home: Home) -> None:
    """Whatever other option follows; a result whose predictions are gone is computed again."""
    chosen = fit_fold.with_options(result_storage=tmp_path / "mine")
    again = chosen.with_options(retries=0)
    assert again.result_storage == tmp_path / "mine"
    assert again.with_options(result_storage=None).result_storage != tmp_path / "mine"
    first, second = states(again, path)
    assert (first.name, second.name) == ("Completed", "Cached")
    assert list((tmp_path / "mine" / "score").iterdir())
    assert not (prefect_home.results / "score").exists()
    Path(first.result().predictions.path).unlink()
    first, second = states(again, path)
    assert (first.name, second.name) == ("Completed", "Cached")
    assert second.result().intact()


@pytest.mark.parametrize("name", ANEW)
def test_what_prefect_is_told_of_its_cache_holds_for_what_the_store_keeps(name: str, path: str) -> None:
    """A fit that was made without Prefect is a hit of Prefect's; where an option asks for it anew, it is none."""
    assert not finished_here(fit_fold, folds(path), 0, RIDGE).cached
    assert [state.name for state in states(fit_fold, path)] == ["Cached", "Cached"]
    with temporary_settings({PREFECT_TASKS_REFRESH_CACHE: name == "a setting"}):
        told = states(fit_fold.with_options(**ANEW[name]), path)
    assert [state.name for state in told] == ["Completed", "Completed"]

"""Guests in somebody else's flow and process: our tasks need no adapter, what the user sets stays the user's."""

import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from servers import ROOT, wait_until
from sklearn.linear_model import Ridge
from small import evaluated, small


def task_runs(state: Any) -> dict[str, str]:
    """Return the states of a flow's task runs by their names, once the server has written down what has ended."""
    wanted = FlowRunFilter.model_validate({"id": {"any_": [state.state_details.flow_run_id]}})
    with get_client(sync_client=True) as client:

        def ended() -> Any:
            runs = client.read_task_runs(flow_run_filter=wanted)
            return len(runs) >= 8 and all(run.state and run.state.is_final() for run in runs) and runs

        return {run.name: run.state.name for run in wait_until(ended, "the end of every task run")}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("prefect_home")
def test_a_foreign_flow_uses_our_tasks_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run of the example finds split and fits in the cache; names say strategy and version."""
    pd.read_parquet(ROOT / "examples" / "flights.parquet")[::50].to_parquet(tmp_path / "flights.parquet")
    monkeypatch.syspath_prepend(ROOT / "examples" / "consumer")
    nightly = import_module("flows.nightly").nightly
    for name in ("flows", "flows.nightly", "tasks", "tasks.tables"):  # called as rooms of ours
        del sys.modules[name]
    states = [
        nightly(*map(str, (tmp_path / "flights.parquet", tmp_path / "table.parquet")), return_state=True) for _ in "ab"
    ]
    first, second = map(task_runs, states)
    (split,) = (name for name in first if name.startswith("decide folds of table (BalancedGroupKFold v"))
    steps = [split, *(f"fit fold {i}" for i in range(5))]
    assert {first[name] for name in steps} == {"Completed"}
    assert {second[name] for name in steps} == {"Cached"}
    assert states[0].result().run_id == states[1].result().run_id


ROWS = small(40)


@pytest.fixture
def logged(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turn MLflow's autologging on, with a store of the user's; return what counts its runs."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{shutil.copy(empty_store, tmp_path / 'users.db')}")
    os.environ.pop("MLFLOW_TRACKING_URI")  # a home of its own
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True)
    try:
        yield lambda: len(MlflowClient(f"sqlite:///{tmp_path / 'users.db'}").search_runs(["0"]))
    finally:
        mlflow.sklearn.autolog(disable=True, silent=True)
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # back to what the environment says


@pytest.mark.usefixtures("home")
def test_fits_of_ours_are_not_in_the_users_runs(logged: Any) -> None:
    """Neither those of folds nor of all rows; what the user fits is, but for where logging is off."""
    from mlflow.utils.autologging_utils import disable_autologging

    with disable_autologging():
        evaluated(ROWS)
        Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 0
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 1
    evaluated(ROWS, log_models="final")
    assert logged() == 1
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 2

"""Guests in somebody else's flow and process: our tasks need no adapter, what the user sets stays the user's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient
from servers import ROOT, environment
from sklearn.linear_model import Ridge
from small import evaluated, small

CONSUMER = ROOT / "examples" / "consumer"
STATES = """
import json, sys, time
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from flows.nightly import nightly
for state in [nightly(*sys.argv[1:3], return_state=True) for _ in "ab"]:
    with get_client(sync_client=True) as client:
        flow_run = state.state_details.flow_run_id
        until = time.monotonic() + 180
        while True:  # the server writes down a while after what has ended
            runs = client.read_task_runs(flow_run_filter=FlowRunFilter(id={"any_": [flow_run]}))
            if len(runs) >= 8 and all(run.state and run.state.is_final() for run in runs) or time.monotonic() > until:
                break
            time.sleep(0.5)
    told = {"run_id": state.result().run_id}
    print(json.dumps(told | {"tasks": {run.name: run.state.name for run in runs}}))
"""


def test_a_foreign_flow_uses_our_tasks_on_a_server(home: Home, prefect_server: str, tmp_path: Path) -> None:
    """The second run of the example finds split and fits in the cache; names say strategy and version."""
    env = environment(tmp_path, {"EVENFOLD_HOME": str(home.path), "PREFECT_API_URL": prefect_server})
    pd.read_parquet(ROOT / "examples" / "flights.parquet")[::50].to_parquet(tmp_path / "flights.parquet")
    command = [sys.executable, "-c", STATES, str(tmp_path / "flights.parquet"), str(tmp_path / "table.parquet")]
    done = subprocess.run(command, env=env, cwd=CONSUMER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (json.loads(line) for line in done.stdout.strip().splitlines()[-2:])
    (split,) = (name for name in first["tasks"] if name.startswith("decide folds of table (BalancedGroupKFold v"))
    steps = [split, *(f"fit fold {i}" for i in range(5))]
    assert {first["tasks"][name] for name in steps} == {"Completed"}
    assert {second["tasks"][name] for name in steps} == {"Cached"}
    assert first["run_id"] == second["run_id"]


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
    """Neither those of folds nor of all rows; what the user fits before and afterwards is."""
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 1
    evaluated(ROWS, log_models="final")
    assert logged() == 1
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 2


@pytest.mark.usefixtures("home")
def test_where_the_user_turned_logging_off_it_stays_off(logged: Any) -> None:
    """In a block of MLflow's own a fit of ours changes nothing for those that follow it, and nothing after it."""
    from mlflow.utils.autologging_utils import disable_autologging

    with disable_autologging():
        evaluated(ROWS)
        Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 0
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 1

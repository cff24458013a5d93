"""Our tasks in somebody else's flow: no adapter, computed once, locked, recorded."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from prefect import Task
from servers import ROOT, environment

CONSUMER = ROOT / "examples" / "consumer"
STATES = """
import json, sys, time
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from flows.nightly import nightly
for state in [nightly(*sys.argv[1:3], return_state=True) for _ in "ab"]:
    with get_client(sync_client=True) as client:
        flow_run = state.state_details.flow_run_id
        until = time.monotonic() + 60
        while True:  # the server writes down a while after what has ended
            runs = client.read_task_runs(flow_run_filter=FlowRunFilter(id={"any_": [flow_run]}))
            if len(runs) >= 8 and all(run.state and run.state.is_final() for run in runs) or time.monotonic() > until:
                break
            time.sleep(0.5)
    told = {"run_id": state.result().run_id}
    print(json.dumps(told | {"tasks": {run.name: run.state.name for run in runs}}))
"""


def nightly(folder: Path, more: dict[str, str], store: Path) -> list[dict[str, object]]:
    (folder / "home").mkdir()
    shutil.copy(store, folder / "home")
    env = environment(folder, {"EVENFOLD_HOME": str(folder / "home"), "PYTHONUNBUFFERED": "1", **more})
    env |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    pd.read_parquet(ROOT / "examples" / "flights.parquet")[::50].to_parquet(folder / "flights.parquet")
    command = [sys.executable, "-c", STATES, str(folder / "flights.parquet"), str(folder / "table.parquet")]
    done = subprocess.run(command, env=env, cwd=CONSUMER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.strip().splitlines()[-2:]]


FITS = {f"fit fold {i}" for i in range(5)}


def check_runs(first: dict[str, object], second: dict[str, object]) -> None:
    """Assert that the first run computed everything once and the second nothing, and that both recorded one run."""
    tasks, again = first["tasks"], second["tasks"]
    assert isinstance(tasks, dict)
    assert isinstance(again, dict)
    (split,) = (name for name in tasks if name.startswith("decide folds "))
    assert split.startswith("decide folds of table (BalancedGroupKFold v")
    assert set(tasks) >= {split, *FITS}
    assert {tasks[name] for name in (split, *FITS)} == {"Completed"}
    assert {again[name] for name in (split, *FITS)} == {"Cached"}
    assert first["run_id"] == second["run_id"]


def test_a_foreign_flow_uses_our_tasks_on_a_server(prefect_server: str, tmp_path: Path, empty_store: Path) -> None:
    """The second run of the example finds split and fits in the cache; names say strategy and version."""
    check_runs(*nightly(tmp_path, {"PREFECT_API_URL": prefect_server}, empty_store))


@pytest.mark.soak
def test_a_foreign_flow_uses_our_tasks_on_an_embedded_server(tmp_path: Path, empty_store: Path) -> None:
    check_runs(*nightly(tmp_path, {}, empty_store))


def test_what_the_room_offers_are_tasks_that_work_without_prefect_too(tmp_path: Path) -> None:
    """Each is a Task; its function alone splits, fits and aggregates."""
    from evenfold import tasks

    names = "split extend audit_split load_split fit_fold fit_final aggregate record_split"
    for name in [*names.split(), "record_evaluation", "register_model"]:
        assert isinstance(getattr(tasks, name), Task), name
    data = tmp_path / "rows.parquet"
    pd.DataFrame({"id": range(40), "x": range(40), "y": [i * 2 % 7 for i in range(40)]}).to_parquet(data)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
        folds = tasks.split.fn(str(data), key="id", target="y", strategy="KFold", n_splits=4)
        assert len(folds.model_dump_json()) < 1_000
        assert tasks.split.fn(str(data), key="id", target="y", strategy="KFold", n_splits=4).reused
        fits = [tasks.fit_fold.fn(folds, i, "sklearn.linear_model:Ridge") for i in folds.splits()]
        evaluated = tasks.aggregate.fn(folds, fits)
    assert [estimate.n_splits for estimate in evaluated.estimates] == [4] * len(evaluated.estimates)
    assert type(folds).model_validate_json(folds.model_dump_json()) == folds
    assert type(evaluated).model_validate_json(evaluated.model_dump_json()).scores == evaluated.scores

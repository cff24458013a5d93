"""Guests in somebody else's flow and process: our tasks need no adapter, what the user sets stays the user's."""

import json
import logging
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.flows.flow import _quiet
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.runtime.files import data_reference
from evenfold.tasks.runtime.limits import limited
from evenfold.tasks.runtime.settings import CONSOLE
from mlflow.tracking import MlflowClient
from prefect import Task
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_LOGGING_LEVEL, temporary_settings
from servers import ROOT, environment
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

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


ROWS = pd.DataFrame({"id": range(40), "a": [float(i % 7) for i in range(40)], "y": [float(i) for i in range(40)]})
SPLIT: Any = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 2, "name": "rows", "engine": "plain"}


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turn MLflow's autologging on, with a store of the user's; return what counts its runs."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'users.db'}")
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
    evaluate(ROWS, model="sklearn.linear_model:Ridge", log_models="final", **SPLIT)
    assert logged() == 1
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 2


def test_of_two_fits_at_once_the_first_to_end_logs_nothing_of_the_other(logged: Any) -> None:
    """Nor does it end the user's own block in which nothing is logged."""
    from mlflow.utils.autologging_utils import disable_autologging

    first, second = limited(1), limited(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    DecisionTreeRegressor().fit(ROWS[["a"]], ROWS["y"])
    second.__exit__(None, None, None)
    with disable_autologging():
        with limited(1):
            pass
        DecisionTreeRegressor().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_right_that_is_missing_below_the_home_is_a_sentence_or_no_hindrance() -> None:
    def name() -> None:
        if os.geteuid() == 0:  # who has every right
            os.setuid(65_534)
        try:
            os._exit(Path(data_reference(ROWS, home)) != named)
        except SplitError as error:
            os._exit(2 if "cannot be written (Permission denied); set EVENFOLD_HOME" in str(error) else 3)

    def ended() -> int | None:
        process = multiprocessing.get_context("fork").Process(target=name)
        process.start()
        process.join()
        return process.exitcode

    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        home = Home(Path(place) / "home")
        named = Path(data_reference(ROWS, home))
        home.path.chmod(0o755)
        named.chmod(0)
        assert ended() == 0  # what reads it says that it cannot
        home.path.chmod(0)
        assert ended() == 2
        home.path.chmod(0o755)


def test_logging_is_as_it_was_after_the_last_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last of flows that overlap has ended Prefect's console is silent, but where a level is asked."""
    for name in ("PREFECT_LOGGING_LEVEL", CONSOLE):
        monkeypatch.delenv(name, raising=False)
    handler, theirs = PrefectConsoleHandler(level="INFO"), logging.StreamHandler()
    for each in (handler, theirs):
        logging.getLogger().addHandler(each)
    try:
        first, second = _quiet(), _quiet()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert (handler.level, theirs.level, os.environ[CONSOLE]) == (logging.CRITICAL, logging.NOTSET, "CRITICAL")
        second.__exit__(None, None, None)
        assert handler.level == logging.INFO
        assert CONSOLE not in os.environ
        with temporary_settings({PREFECT_LOGGING_LEVEL: "DEBUG"}), _quiet():
            assert handler.level == logging.INFO
    finally:
        for each in (handler, theirs):
            logging.getLogger().removeHandler(each)

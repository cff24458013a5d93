"""Kills in every phase of a retraining, and servers that are gone for minutes: it completes, and nothing doubles."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import verify
from servers import ROOT, end, environment, free_port, mlflow_server, prefect_server, wait_until
from test_resume import states

pytestmark = pytest.mark.soak
SEED = 20261122
KILLS = int(os.environ.get("EVENFOLD_SOAK_PHASE_KILLS", "5"))  # of each phase
AWAY_SECONDS = float(os.environ.get("EVENFOLD_SOAK_AWAY_SECONDS", "120"))
N_SPLITS = 5
CLI = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]


def n_fits(home: Path) -> int:
    return len(list((home / "results" / "score").glob("*")))


def is_recorded(store: Path) -> bool:
    """Return whether the run of an evaluation, which names its model, is open in MLflow's store."""
    return any(" @ " in name for name in states(store, "runs", "name"))


# When a phase has begun, by what lies in the home and in MLflow's store.
PHASES: dict[str, Callable[[Path, Path], bool]] = {
    "split": lambda home, store: (home / "locks").exists(),
    "fit": lambda home, store: n_fits(home) >= 1,
    "aggregate": lambda home, store: n_fits(home) >= N_SPLITS,
    "record": lambda home, store: n_fits(home) >= N_SPLITS and is_recorded(store),
    "register": lambda home, store: any((home / "results" / "model").glob("*")),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(3_000), **{f"x{i}": draw.normal(size=3_000) for i in range(4)}})
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    frame.assign(y=frame["x0"] + draw.normal(size=3_000)).to_parquet(path)
    return path


def retrain(table: Path) -> list[str]:
    model = table.with_name("model.json")
    params = {"n_estimators": 30, "n_jobs": 1}
    model.write_text(json.dumps({"estimator": "sklearn.ensemble:RandomForestRegressor", "params": params}))
    asked = ["--target", "y", "--key", "id", "--name", "rows", "--strategy", "KFold", "-k", str(N_SPLITS)]
    return [*CLI, "retrain", str(table), *asked, "--model", str(model), "--json"]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("servers")
    with prefect_server(folder) as api, mlflow_server(folder, f"sqlite:///{folder / 'mlflow.db'}") as tracking:
        yield {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": tracking, "STORE": str(folder / "mlflow.db")}


@pytest.mark.parametrize("servers", ["embedded", "real"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_in_any_phase_loses_and_doubles_nothing(
    servers: str, phase: str, table: Path, tmp_path: Path, request: Any, found: Callable[..., None]
) -> None:
    """Kill -9, up to half a second after the phase begins; then the same command completes, and the record is whole."""
    draw, hit, again = random.Random(f"{SEED} {servers} {phase}"), 0, 0
    more = request.getfixturevalue("real") if servers == "real" else {}
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        env = environment(folder, {**more, "EVENFOLD_HOME": str(folder / "home"), "EVENFOLD_WORKERS": "2"})
        env |= {"MLFLOW_EXPERIMENT_NAME": "unused"}
        if servers == "embedded":
            del env["PREFECT_HOME"]
        command = [*retrain(table), "--name", f"rows{kill}{phase}"]
        store = Path(more.get("STORE", folder / "home" / "mlflow.db"))
        hit += killed(command, env, folder, partial(PHASES[phase], folder / "home", store), draw.uniform(0, 0.5))
        kept = n_fits(folder / "home")
        last = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        assert last.returncode == 0, last.stderr
        outcome = json.loads(last.stdout)
        again += N_SPLITS - kept if not outcome["reused"] else 0
        whole(folder / "home", more.get("STORE"), f"rows{kill}{phase}", outcome)
    found(kills=KILLS, hit_under_way=hit, seed=SEED, fits_after_the_kills=again)


def killed(command: list[str], env: dict[str, str], folder: Path, ready: Callable[[], bool], delay: float) -> bool:
    """Kill a command within a phase, and return whether it was still under way then."""
    folder.mkdir()
    log = folder / "stderr.txt"
    with log.open("w") as err:
        process = subprocess.Popen(
            command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
        )
    while process.poll() is None and not ready():
        time.sleep(0.01)
    time.sleep(delay)
    under_way = process.poll() is None
    process.kill()
    process.wait()
    return under_way


def whole(home: Path, store: str | None, name: str, outcome: dict[str, Any]) -> None:
    """Assert that each run is there once and FINISHED, one version is registered, and the manifest is what it was."""
    import sqlite3

    with closing(sqlite3.connect(store or home / "mlflow.db")) as database:
        runs = database.execute(
            "select r.name, r.status from runs r join experiments e using (experiment_id) where e.name = ?", (name,)
        ).fetchall()
        versions = database.execute("select count(*) from model_versions where name = ?", (name,)).fetchone()[0]
        aliases = database.execute("select alias from registered_model_aliases where name = ?", (name,)).fetchall()
    assert {status for _, status in runs} == {"FINISHED"}, runs
    assert len(runs) == len({run for run, _ in runs}) == 3 + N_SPLITS, runs  # split, evaluation, retraining, folds
    assert versions == 1
    assert aliases == [("champion",)]
    assert verify(outcome["split"]["uri"]).intact
    assert [path.name for path in (home / "splits" / name).iterdir()] == ["1.0"]


DEPLOY = """
import json, sys
from prefect import get_client
with get_client(sync_client=True) as client:
    flow = client.create_flow_from_name("retrain")
    made = client.create_deployment(
        flow, "soak", path=sys.argv[1], entrypoint="evenfold.flows.retrain", tags=["evenfold"]
    )
    print(json.dumps(str(client.create_flow_run_from_deployment(made, parameters=json.loads(sys.argv[2])).id)))
"""
STATE = """
import json, sys
from prefect import get_client
with get_client(sync_client=True) as client:
    print(json.dumps(client.read_flow_run(sys.argv[1]).state.type.value))
"""


def told(script: str, env: dict[str, str], *arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-c", script, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("phase", PHASES)
def test_a_deployed_run_outlasts_an_mlflow_that_is_gone(
    phase: str, table: Path, tmp_path: Path, found: Callable[..., None]
) -> None:
    """MLflow is killed in a phase and is back two minutes later: the run completes by itself, its record is whole."""
    port, store = free_port(), tmp_path / "mlflow.db"
    model = {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_estimators": 30, "n_jobs": 1}}
    request = {"data": str(table), "key": ["id"], "target": "y", "name": "rows", "strategy": "KFold",
               "n_splits": N_SPLITS, "model": model}  # fmt: skip
    home = tmp_path / "home"
    with ExitStack() as stack:
        api = stack.enter_context(prefect_server(tmp_path))
        first = stack.enter_context(ExitStack())
        tracking = first.enter_context(mlflow_server(tmp_path, f"sqlite:///{store}", port=port))
        more = {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": tracking, "EVENFOLD_HOME": str(home)}
        env = environment(tmp_path, more | {"EVENFOLD_WORKERS": "2", "EVENFOLD_DATA_ROOTS": str(table.parent)})
        run = told(DEPLOY, env, str(tmp_path), json.dumps(request))
        log = tmp_path / "run.log"
        command = [sys.executable, "-m", "prefect", "flow-run", "execute", run]
        with log.open("w") as out:
            worker = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=out, stderr=out, start_new_session=True)
        try:
            ready = PHASES[phase]
            wait_until(lambda: worker.poll() is not None or ready(home, store), phase, 600)
            first.close()
            time.sleep(AWAY_SECONDS)
            stack.enter_context(mlflow_server(tmp_path, f"sqlite:///{store}", port=port))
            worker.wait(1_800)
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGTERM)
                end(worker)
        assert told(STATE, env, run) == "COMPLETED", log.read_text()[-3000:]
        uri = json.loads((home / "splits" / "rows" / "1.0" / "manifest.json").read_text())
        assert uri
        whole(home, str(store), "rows", {"split": {"uri": str(home / "splits" / "rows" / "1.0")}})
    found(away_seconds=AWAY_SECONDS, waited="a server is out of reach" in log.read_text())

"""A flow that is killed goes on where it stopped: nothing is lost, doubled or left behind."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import evenfold
from servers import ROOT, environment, wait_until

CLI = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]
N_SPLITS = 6


FOREST = {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_estimators": 60, "n_jobs": 1}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rows_in(tmp_path_factory.mktemp("data"), 6_000)


# What is killed has to be under way for long enough, which costs nothing where it sleeps.
UNHURRIED = """
import time
from sklearn.linear_model import Ridge

class Unhurried(Ridge):
    def fit(self, X, y):
        time.sleep(2)  # longer than the fits that share a task run
        return super().fit(X, y)
"""


@pytest.fixture
def unhurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "unhurried.py").write_text(UNHURRIED)
    monkeypatch.syspath_prepend(tmp_path)
    return evaluate(rows_in(tmp_path, 120), {"estimator": "unhurried:Unhurried"})


def rows_in(folder: Path, n: int) -> Path:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(n), **{f"x{i}": draw.normal(size=n) for i in range(6)}})
    frame.assign(y=frame["x0"] * frame["x1"] + draw.normal(size=n)).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def evaluate(data: Path, model: dict[str, Any] = FOREST) -> list[str]:
    recipe = data.with_name("model.json")
    recipe.write_text(json.dumps(model))
    columns = ["--target", "y", "--key", "id", "--name", "rows", "--strategy", "KFold"]
    return [*CLI, "evaluate", str(data), *columns, "-k", str(N_SPLITS), "--model", str(recipe), "--json"]


def kill_when(command: list[str], env: dict[str, str], ready: Callable[[], bool], how: signal.Signals) -> None:
    log = Path(env["EVENFOLD_HOME"]).with_name("stderr.txt")
    with log.open("w") as err:
        process = subprocess.Popen(
            command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
        )
    while process.poll() is None:
        if ready():
            process.send_signal(how)
            process.wait()
            return
        time.sleep(0.02)
    raise AssertionError(f"the flow ended before it could be killed: {log.read_text()}")


def tree(home: Path) -> dict[str, Any]:
    """Return the names and states of the runs in a home's MLflow store, and the most points that a metric has."""
    with sqlite3.connect(home / "mlflow.db") as store:
        runs = store.execute("select name, status from runs where lifecycle_stage = 'active' order by name").fetchall()
        points = store.execute(
            "select max(n) from (select count(*) n from metrics group by run_uuid, key, step)"
        ).fetchone()
    return {"runs": runs, "points": points[0]}


WHOLE = {
    "runs": sorted(
        [("rows 1.0 split", "FINISHED"), ("RandomForestRegressor @ rows 1.0", "FINISHED")]
        + [(f"RandomForestRegressor fold {i}", "FINISHED") for i in range(N_SPLITS)]
    ),
    "points": 1,
}


def n_finished(home: Path) -> int:
    return len([path for path in (home / "results" / "score").glob("*") if path.is_file()])


def is_recording(home: Path) -> bool:
    return n_finished(home) >= N_SPLITS and "RUNNING" in states(home / "mlflow.db", "runs", "status")


def states(database: Path, table: str, column: str) -> list[str]:
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
            return [state for (state,) in store.execute(f"select {column} from {table}")]
    except sqlite3.OperationalError:
        return []


def kill_and_look(how: signal.Signals, command: list[str], folder: Path, more: dict[str, str] | None = None) -> None:
    """Kill a flow with an embedded server while it fits, and assert that every process it started ends."""
    home = folder / "home"
    env = environment(folder, {"EVENFOLD_HOME": str(home), "TEST_MARK": str(folder), **(more or {})})
    env |= {"PYTHONPATH": str(folder)}
    del env["PREFECT_HOME"]
    kill_when(command, env, lambda: n_finished(home) >= 1, how)
    wait_until(lambda: not marked(folder), "the end of every process")


def marked(folder: Path) -> list[str]:
    alive = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TEST_MARK={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                alive.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return alive


SAID = "what is finished is kept, and the same command goes on from there."
MOMENTS: dict[str, Callable[[Path], bool]] = {
    "splitting": lambda home: "RUNNING" in states(home / "prefect" / "prefect.db", "flow_run", "state_type"),
    "fitting": lambda home: n_finished(home) >= 2,
    "recording": is_recording,
}


def heard(number: signal.Signals, command: list[str], env: dict[str, str], ready: Callable[[], bool]) -> list[str]:
    """Send a signal to a command's whole process group when it is time; return what it says from then on."""
    log = Path(env["EVENFOLD_HOME"]).with_name("stderr.txt")
    with log.open("w") as err:
        process = subprocess.Popen(
            command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )  # fmt: skip
    while not ready():
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    before = len(log.read_text().splitlines())
    os.killpg(process.pid, number)
    assert process.wait(180) == 128 + number, log.read_text()
    return log.read_text().splitlines()[before:]


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        pytest.param(number, name, marks=[] if (number.name, name) == ("SIGINT", "fitting") else pytest.mark.soak)
        for number in (signal.SIGINT, signal.SIGTERM)
        for name in MOMENTS
    ],
)
def test_a_signal_to_the_whole_group_ends_a_flow_in_order(
    number: signal.Signals, moment: str, unhurried: list[str], tmp_path: Path, prefect_folder: Path
) -> None:
    """The embedded server outlives the flow long enough to write down what ended; the next run completes it.

    Nothing that the flow started is alive afterwards.
    """
    home = prefect_folder.parent
    env = environment(tmp_path, {"EVENFOLD_HOME": str(home), "EVENFOLD_WORKERS": "2", "PYTHONPATH": str(tmp_path)})
    del env["PREFECT_HOME"]
    env["TEST_MARK"] = str(tmp_path)
    said = heard(number, unhurried, env, lambda: MOMENTS[moment](home))
    assert len([line for line in said if SAID in line]) == 1, said
    assert not [line for line in said if "Traceback" in line], said
    history = home / "prefect" / "prefect.db"
    wait_until(lambda: states(history, "flow_run", "state_type") == ["CRASHED"], "the end of the flow run")
    wait_until(lambda: not marked(tmp_path), "the end of every process")
    last = evenfold(ROOT, *unhurried[len(CLI) :], "--engine", "plain", EVENFOLD_HOME=str(home))
    assert last.returncode == 0, last.stderr
    kept = json.loads(last.stdout)["n_cached"]
    assert kept == N_SPLITS if moment == "recording" else kept >= 2 * (moment == "fitting")
    assert set(states(home / "mlflow.db", "runs", "status")) == {"FINISHED"}


COMPUTING = """
import numpy as np
from evenfold.tasks.runtime.progress import ENDINGS, ending_at_signals
ENDINGS.extend([lambda: print("ended", flush=True), lambda: 1 / 0, lambda: __import__("time").sleep(600)])
with ending_at_signals():
    print("begun", flush=True)
    for _ in range(100):
        np.sort(np.random.default_rng(0).random(30_000_000))
"""


def test_what_computes_is_stopped_too_and_no_ending_holds_it_up() -> None:
    """Signals reach a process that computes without a pause; an ending that fails or hangs is left behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMPUTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.terminate()
    out, err = process.communicate(timeout=180)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "ended\n")
    assert err.count("\n") == 1
    assert SAID in err

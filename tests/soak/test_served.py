"""A flow of ours that is served and run with another task runner, as any flow of Prefect's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from servers import environment, started, wait_until

pytestmark = pytest.mark.soak
SERVE = "from evenfold.flows import evaluate; evaluate.serve(name='nightly')"
ASKED = """
import sys
from prefect.deployments import run_deployment
given = {"data": sys.argv[1], "key": ["id"], "target": "y", "strategy": "KFold", "n_splits": 3}
given["model"] = {"estimator": sys.argv[2]}
state = run_deployment("evaluate/nightly", parameters=given, timeout=600).state
print(state.name, state.message)
"""
ON_DASK = """
import sys
from evenfold.flows import evaluate
from prefect_dask import DaskTaskRunner
if __name__ == "__main__":
    runner = DaskTaskRunner(cluster_kwargs={"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None})
    mine = evaluate.with_options(task_runner=runner)
    made = mine(sys.argv[1], key="id", target="y", strategy="KFold", n_splits=3, model=sys.argv[2])
    plain = evaluate(
        sys.argv[1], key="id", target="y", strategy="KFold", n_splits=3, model=sys.argv[2], engine="plain", refresh=True
    )
    print(made.n_fits, made.n_cached, [score.test for score in made.scores] == [score.test for score in plain.scores])
"""
RIDGE = "sklearn.linear_model:Ridge"


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"id": range(60), "x": range(60), "y": [i * 5 % 11 for i in range(60)]}).to_parquet(path)
    return str(path)


def test_a_served_flow_runs_when_it_is_asked_for(prefect_server: str, data: str, tmp_path: Path) -> None:
    """On a real server, in a process of its own, to the end; what it came to lies in the home of who serves."""
    env = environment(tmp_path, {"PREFECT_API_URL": prefect_server, "EVENFOLD_HOME": str(tmp_path / "home")})
    log = tmp_path / "serve.log"
    with started([sys.executable, "-c", SERVE], env, log, cwd=tmp_path):
        wait_until(lambda: "polling for scheduled runs" in log.read_text(), "serving", 300)
        command = [sys.executable, "-c", ASKED, data, RIDGE]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("Completed"), done.stdout + done.stderr + log.read_text()[-3000:]
    assert len(list((tmp_path / "home" / "scores").glob("*.parquet"))) == 3


def test_a_flow_takes_the_dask_runner_that_it_is_given(prefect_server: str, data: str, tmp_path: Path) -> None:
    """``with_options(task_runner=DaskTaskRunner(...))``: its worker fits, and the scores are the same."""
    pytest.importorskip("prefect_dask", reason="prefect-dask is not installed; make soak installs it")
    (tmp_path / "script.py").write_text(ON_DASK)
    env = environment(tmp_path, {"PREFECT_API_URL": prefect_server, "EVENFOLD_HOME": str(tmp_path / "home")})
    command = [sys.executable, "script.py", data, RIDGE]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["3", "0", "True"]

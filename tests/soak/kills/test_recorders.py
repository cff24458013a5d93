"""Eight processes record at once, and a Prefect server dies while a run holds its slot."""

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from servers import environment, install_postgres, mlflow_server, postgres, wait_until

pytestmark = pytest.mark.soak
RECORDERS, N_SPLITS = 8, 5
SCRIPT = """
import pathlib, sys, time
from evenfold.flows import evaluate
data, ready, own = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
(ready / own).touch()
while not (ready / "go").exists():
    time.sleep(0.01)
spec = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold"}
for label in ("of all", own):
    model = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
    evaluate(data, engine="plain", spec=spec, model=model, run_label=label)
"""


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "SQLite":
        yield f"sqlite:///{tmp_path / 'mlflow.db'}"
        return
    why = install_postgres()
    if why:
        pytest.skip(why)
    pytest.importorskip("psycopg2", reason="MLflow on PostgreSQL needs psycopg2; make soak installs it")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(postgres(tmp_path))
        database = f"postgresql+psycopg2://evenfold@127.0.0.1:{port}/mlflow"
        yield stack.enter_context(mlflow_server(tmp_path, database))


def test_eight_recorders_at_once_lose_and_double_nothing(
    store: str, tmp_path: Path, found: Callable[..., None]
) -> None:
    """All record one evaluation, and each one of its own: every run once, FINISHED, with each metric once."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(200), "a": draw.normal(size=200)})
    data, ready = tmp_path / "rows.parquet", tmp_path / "ready"
    frame.assign(y=frame["a"] + draw.normal(size=200)).to_parquet(data)
    ready.mkdir()
    env = environment(tmp_path, {"EVENFOLD_HOME": str(tmp_path / "home"), "MLFLOW_TRACKING_URI": store})
    all_of_them = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(data), str(ready), f"own {number}"],
            env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        )
        for number in range(RECORDERS)
    ]  # fmt: skip
    wait_until(lambda: len(list(ready.iterdir())) == RECORDERS, "every recorder's start", 180)
    (ready / "go").touch()
    for each in all_of_them:
        _, told = each.communicate(timeout=300)
        assert each.returncode == 0, told
    kept = read_store(store)
    evaluations = RECORDERS + 1
    expected = Counter({"rows 1.0 split": 1, "Ridge @ rows 1.0": evaluations})
    expected.update({f"Ridge fold {fold}": evaluations for fold in range(N_SPLITS)})
    assert Counter(name for name, *_ in kept["runs"]) == expected
    assert {status for _, status, *_ in kept["runs"]} == {"FINISHED"}
    children = Counter(parent for name, _, parent in kept["runs"] if " fold " in name)
    assert set(children.values()) == {N_SPLITS}
    assert len(children) == evaluations
    assert kept["points"] == 1
    assert all({"predictions.parquet", "estimates.json", "report.html"} <= set(files) for files in kept["files"])
    found(recorders=RECORDERS, runs=len(kept["runs"]))


def read_store(store: str) -> dict[str, Any]:
    """Return every run with status and parent, the most points that a metric has, and the files of evaluations."""
    client = MlflowClient(store)
    runs = client.search_runs([client.get_experiment_by_name("rows").experiment_id], max_results=1000)
    series = [client.get_metric_history(run.info.run_id, name) for run in runs for name in run.data.metrics]
    points = max(count for points in series for count in Counter(each.step for each in points).values())
    evaluations = [run for run in runs if run.info.run_name.startswith("Ridge @")]
    files = [[each.path for each in client.list_artifacts(run.info.run_id)] for run in evaluations]
    rows = [(run.info.run_name, run.info.status, run.data.tags.get("mlflow.parentRunId")) for run in runs]
    return {"runs": rows, "points": points, "files": files}

"""Each example ends in one picture and three sentences, and what it says is so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from evenfold.flows import split
from evenfold.manifests import read_manifest
from servers import environment, prefect_server, started, wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def ran(command: list[str], folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    picture, *sentences = done.stdout.splitlines()
    assert Path(picture).read_bytes()[:4] == b"\x89PNG"
    assert len(sentences) == 3
    assert all(sentence.endswith(".") for sentence in sentences)
    return sentences


@pytest.mark.soak
def test_flights_leak_by_date_and_grow_without_moving(tmp_path: Path) -> None:
    leak, even, growth = ran([str(EXAMPLES / "flights_growth.py"), str(tmp_path)], ROOT)
    promised, honest = (float(each) for each in re.findall(r"\d\.\d\d", leak))
    assert promised > 2 * honest
    sorted_ks, random_ks = (float(each) for each in re.findall(r"0\.\d+", even))
    assert sorted_ks < random_ks / 20
    assert "appends 0 rows moved" in growth


@pytest.mark.soak
def test_632_is_too_good_where_a_model_learns_by_heart(tmp_path: Path) -> None:
    """Of a coin .632 knows too much; .632+ and cross-validation do not."""
    _, by_heart, honest = ran([str(EXAMPLES / "breast_cancer.py"), str(tmp_path), "5"], ROOT)
    assert float(re.findall(r"says (0\.\d+)", by_heart)[0]) < 0.4
    assert min(float(each) for each in re.findall(r"0\.\d+", honest)) > 0.42


@pytest.mark.soak
def test_single_students_promise_more_than_next_year_gives(tmp_path: Path) -> None:
    mixed, whole, _ = ran([str(EXAMPLES / "students.py"), str(tmp_path), "4"], ROOT)
    promised, came = (float(each) for each in re.findall(r"0\.\d\d", mixed))
    assert promised > came + 0.03
    grouped, both, grouped_came, both_came = (float(each) for each in re.findall(r"0\.\d\d", whole))
    assert max(grouped - grouped_came, both - both_came) < promised - came


SHARED = """
import sys
from evenfold.tasks import aggregate, fit_fold, load_split
from prefect import flow, unmapped
@flow
def retrain(data):
    folds = load_split("flights@1.0", data=data)
    fits = fit_fold.map(unmapped(folds), folds.splits(), unmapped("sklearn.linear_model:Ridge"))
    return folds, aggregate(folds, fits)
folds, evaluated = retrain(sys.argv[1])
print(folds.split_id, folds.uri, len(evaluated.scores))
"""
SERVE = "from evenfold.flows import split; split.serve(name='evenfold')"
ASKED = """
import sys
from prefect.deployments import run_deployment
given = {"data": sys.argv[1], "name": "flights", "key": ["flight_id"], "target": "arr_delay", "group": "date"}
run = run_deployment("split/evenfold", parameters=given, timeout=600)
assert run.state.is_completed(), run.state
"""


def alone(script: str, *arguments: str, folder: Path, **more: str) -> str:
    env = environment(folder, {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300", **more})
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.soak
def test_another_project_trains_on_a_shared_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with its own tasks and flows finds the split by its name and gets the very same folds."""
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "publisher"))
    data = str(EXAMPLES / "flights.parquet")
    made = split(data, name="flights", key="flight_id", target="arr_delay", group="date", engine="plain")
    store = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/publisher/mlflow.db"}
    told = alone(SHARED, data, folder=tmp_path, EVENFOLD_HOME=str(tmp_path / "consumer"), **store)
    split_id, folder, n_fits = told.strip().splitlines()[-1].split()
    assert (split_id, n_fits) == (made.split.split_id, "5")
    assert Path(folder).is_relative_to(tmp_path / "consumer")


@pytest.mark.soak
def test_another_project_asks_a_served_deployment_for_a_split(tmp_path: Path) -> None:
    """A real server, a process that serves the flow, and a project that asks twice and gets one split."""
    data, store = str(EXAMPLES / "flights.parquet"), f"sqlite:///{tmp_path}/mlflow.db"
    with prefect_server(tmp_path) as api:
        shared = {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": store}
        publisher = environment(tmp_path, {**shared, "EVENFOLD_HOME": str(tmp_path / "publisher")})
        serving = tmp_path / "serve.log"
        with started([sys.executable, "-c", SERVE], publisher, serving):
            wait_until(lambda: "polling for scheduled runs" in serving.read_text(), "serving")
            for _ in range(2):
                alone(ASKED, data, folder=tmp_path, EVENFOLD_HOME=str(tmp_path / "consumer"), **shared)
    (made,) = (tmp_path / "publisher" / "splits" / "flights").iterdir()
    assert len(read_manifest(made).split_id) == 64
    assert not (tmp_path / "consumer" / "splits").exists()

"""Each example ends in one picture and three sentences, and what it says is so."""

from __future__ import annotations

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
    """Run an example, and return its sentences; the picture is there."""
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
    """Random folds promise more than whole dates give; eleven appends move nothing."""
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
    """Splits of whole classes do not."""
    mixed, whole, _ = ran([str(EXAMPLES / "students.py"), str(tmp_path), "4"], ROOT)
    promised, came = (float(each) for each in re.findall(r"0\.\d\d", mixed))
    assert promised > came + 0.03
    grouped, both, grouped_came, both_came = (float(each) for each in re.findall(r"0\.\d\d", whole))
    assert max(grouped - grouped_came, both - both_came) < promised - came


@pytest.mark.soak
def test_another_project_trains_on_a_shared_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with its own tasks and flows finds the split by its tags and gets the very same folds."""
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "publisher"))
    data = str(EXAMPLES / "flights.parquet")
    columns = {"key": "flight_id", "target": "arr_delay", "group": "date"}
    made = split(data, spec={"name": "flights", "columns": columns}, engine="plain")
    found, error, _ = ran(
        ["-m", "flows.retrain", data, "flights@1.0", str(tmp_path / "consumer.png")],
        EXAMPLES / "consumer",
        MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/publisher/mlflow.db",
        EVENFOLD_HOME=str(tmp_path / "consumer"),
        PREFECT_HOME=str(tmp_path / "prefect"),
        PREFECT_SERVER_ALLOW_EPHEMERAL_MODE="true",
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="300",
        PREFECT_LOGGING_LEVEL="ERROR",
    )
    assert made.split.split_id[:16] in found
    assert 15 < float(re.findall(r"\d+\.\d", error)[0]) < 40


@pytest.mark.soak
def test_another_project_asks_a_served_deployment_for_a_split(tmp_path: Path) -> None:
    """A real server, a process that serves the deployments, and a project that asks twice and gets one split."""
    data, store = str(EXAMPLES / "flights.parquet"), f"sqlite:///{tmp_path}/mlflow.db"
    with prefect_server(tmp_path) as api:
        shared = {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": store}
        publisher = environment(tmp_path, {**shared, "EVENFOLD_HOME": str(tmp_path / "publisher")})
        serving = tmp_path / "serve.log"
        with started([sys.executable, "-m", "evenfold.deployments.serve"], publisher, serving):
            wait_until(lambda: "polling for scheduled runs" in serving.read_text(), "serving")
            asked = [
                ran(["-m", "flows.retrain", data, "flights", str(tmp_path / "consumer.png"), "split/evenfold"],
                    EXAMPLES / "consumer", **shared, EVENFOLD_HOME=str(tmp_path / "consumer"),
                    PREFECT_HOME=str(tmp_path / "consumer-prefect"), PREFECT_LOGGING_LEVEL="ERROR")
                for _ in range(2)
            ]  # fmt: skip
    assert asked[0] == asked[1]
    assert "came from split/evenfold" in asked[0][0]
    (made,) = (tmp_path / "publisher" / "splits" / "flights").iterdir()
    assert read_manifest(made).split_id[:16] in asked[0][0]
    assert not (tmp_path / "consumer" / "splits").exists()

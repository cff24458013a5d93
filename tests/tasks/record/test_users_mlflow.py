"""The user's own MLflow: the experiment they set, the run that is active, and the split that a run of theirs uses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.manifests import decide
from evenfold.tasks import Home
from evenfold.tasks.record.models.committing import withdraw
from evenfold.tasks.record.reading import leaderboard
from evenfold.tasks.record.split_source import SplitSource
from mlflow.tracking import MlflowClient

ROWS = pd.DataFrame({"id": range(40), "a": [float(i % 7) for i in range(40)], "y": [float(i) for i in range(40)]})
ASKED: Any = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 2, "name": "rows", "engine": "plain"}
SPEC = {"name": "rows", "columns": {"key": "id"}, "strategy": "KFold"}


@pytest.fixture
def users(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowClient]:
    """A store of the user's, which MLflow and evenfold are both told of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())  # where MLflow looks if nobody says where
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "")  # set_experiment writes it
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID")
    monkeypatch.setattr("mlflow.tracking.fluent._active_experiment_id", None)
    yield MlflowClient(store)
    while mlflow.active_run():
        mlflow.end_run()


def set_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "team/mine")


def started(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.start_run(experiment_id=mlflow.create_experiment("team/mine"))


def started_where_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    started(monkeypatch)


def in_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")  # the experiment's number is of another store than the home's
    mlflow.create_experiment("another")
    mlflow.set_experiment("team/mine")


@pytest.mark.parametrize("choose", [set_by_name, started, started_where_nobody_says, in_a_home])
def test_what_is_recorded_goes_where_the_user_records(
    choose: Callable[[pytest.MonkeyPatch], object], users: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the experiment that is set, below the run that is active; and it is found there again, by every reader."""
    choose(monkeypatch)
    made = evaluate(ROWS, model="sklearn.linear_model:Ridge", **ASKED)
    assert evaluate(ROWS, model="sklearn.linear_model:Ridge", **ASKED).run_id == made.run_id
    client, active = MlflowClient(Home.here().tracking_store), mlflow.active_run()
    assert client.get_experiment_by_name("rows") is None
    experiment = client.get_experiment_by_name("team/mine")
    runs = {run.info.run_id: run for run in client.search_runs([experiment.experiment_id])}
    assert len(runs) == (5 if active else 4)  # a split, an evaluation of two folds, and the user's own
    for run_id in (made.run_id, made.split_run_id):
        assert runs[run_id].data.tags.get("mlflow.parentRunId") == (active.info.run_id if active else None)
    assert leaderboard("rows").judgements[0].run_id == made.run_id
    assert f"experiments/{experiment.experiment_id}/" in runs[made.run_id].data.tags["mlflow.note.content"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", Home.here().tracking_store)
    assert SplitSource("evenfold://rows/1.0").load().split_id == made.split.split_id
    withdraw.fn("rows@1.0", reason="a trial")
    assert client.get_run(made.split_run_id).data.tags["evenfold.record"] == "withdrawn split"


@pytest.mark.parametrize("use", [lambda m: m.as_cv(ROWS), lambda m: m.fold_of(ROWS), lambda m: list(m.split(ROWS))])
def test_a_run_has_the_split_that_is_used_while_it_is_active(use: Callable[[Any], object], users: MlflowClient) -> None:
    """And no other run has it: neither one before, nor one that begins afterwards."""
    manifest = decide(SPEC, ROWS)
    use(manifest)
    with mlflow.start_run() as before:
        pass
    with mlflow.start_run() as mine:
        use(manifest)
    with mlflow.start_run() as afterwards:
        pass
    tags = [users.get_run(run.info.run_id).data.tags for run in (before, mine, afterwards)]
    assert [each.get("split") for each in tags] == [None, manifest.split_id[:12], None]
    assert (tags[1]["spec"], tags[1]["evenfold.split_id"]) == ("rows@1.0", manifest.split_id)


def test_pairs_that_are_made_in_a_run_count_and_a_column_of_folds_is_named(
    users: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``as_cv`` may be called before the run; of code that reads a column of folds, EVENFOLD_SPLIT says the split."""
    manifest = decide(SPEC, ROWS)
    cv = manifest.as_cv(ROWS)
    with mlflow.start_run() as mine:
        assert np.concatenate([test for _, test in cv.split()]).size == len(ROWS)
    monkeypatch.setenv("EVENFOLD_SPLIT", "flights@1.0")
    with mlflow.start_run() as column:
        pass
    found = [users.get_run(run.info.run_id).data.tags["spec"] for run in (mine, column)]
    assert found == ["rows@1.0", "flights@1.0"]

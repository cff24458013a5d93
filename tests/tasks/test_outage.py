"""An MLflow server that is down, and one that another project shares."""

import resource
import shutil
from pathlib import Path

import httpx
import pytest
import requests
from evenfold.estimates import EvaluationError
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry
from evenfold.tasks.record.splits import read_split
from evenfold.tasks.record.tracker import Tracker, tracker_of
from evenfold.tasks.runtime.home import SILENT
from evenfold.tasks.runtime.progress import unreachable
from mlflow.tracking import MlflowClient
from prefect.exceptions import PrefectHTTPStatusError
from servers import free_port, mlflow_server
from small import SPEC, evaluated, small

from evenfold import flows


def test_a_server_that_is_down_loses_nothing(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The evaluation ends with a sentence; the same command, once the server is back, records what was fitted, once.

    MLflow's client, which prints where each run's page on a server is, prints none of ours, nor bars.
    """
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for name in SILENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("evenfold.tasks.runtime.progress.SOON_SECONDS", (0.1,))
    shutil.copy(empty_store, tmp_path)
    away = f"http://127.0.0.1:{free_port()}"
    with mlflow_server(tmp_path, f"sqlite:///{tmp_path / 'mlflow.db'}") as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        with monkeypatch.context() as out:
            out.setattr("evenfold.flows.evaluation.fit_more", lambda *_: out.setenv("MLFLOW_TRACKING_URI", away))
            with pytest.raises(EvaluationError, match=r"out of reach .*; what is finished is kept: run it again"):
                evaluated(small())
        there = evaluated(small())
        assert (there.n_cached, len(there.scores)) == (3, 3)
        assert capsys.readouterr().out == ""
        client = MlflowClient(url)
        experiment = client.get_experiment_by_name("small").experiment_id
        runs = client.search_runs([experiment])
        parents = [run for run in runs if run.info.run_name == "Ridge @ small 1.0"]
        splits = [run for run in runs if run.info.run_name == "small 1.0 split"]
        assert (len(splits), len(parents)) == (1, 1)
        assert {run.info.status for run in runs} == {"FINISHED"}
        assert {run.data.tags["evenfold.split_run_id"] for run in parents} == {there.split_run_id}
        assert len(runs) == 1 + 1 + 3

        monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "other project"))
        for name in ("small@1.0", there.split.plan_id):
            found = read_split(name)
            assert found.split_id == there.split.split_id
        assert str(found.uri).startswith(str(tmp_path / "other project"))
        assert "Downloading" not in capsys.readouterr().err
        again = evaluated(small(), spec=None, manifest=found.uri)
        assert again.split_run_id == there.split_run_id
        with pytest.raises(SplitError, match=r"there is no split 'small@7\.0'"):
            read_split("small@7.0")


def test_only_a_server_out_of_reach_is_waited_for() -> None:
    """A refused connection is an outage however it is wrapped, and so is a server without its database.

    A wrong argument, a refused request or a full disk is none.
    """

    def answered(status: int) -> Exception:
        request = httpx.Request("POST", "http://127.0.0.1/api/v2/concurrency_limits/increment-with-lease")
        response = httpx.Response(status, json={"exception_message": "an answer"}, request=request)
        return PrefectHTTPStatusError.from_httpx_error(httpx.HTTPStatusError("", request=request, response=response))

    def wrapped(error: Exception, how: str) -> Exception:
        outer = RuntimeError("it failed")
        setattr(outer, how, error)
        return outer

    away = [requests.exceptions.ConnectionError("refused"), ConnectionRefusedError(), answered(500), answered(503)]
    there = [answered(404), answered(422), OSError(28, "No space left on device"), ValueError("a wrong argument")]
    for how in ("__cause__", "__context__"):
        assert [unreachable(wrapped(each, how)) for each in away] == [True] * 4
        assert [unreachable(wrapped(each, how)) for each in there] == [False] * 4


def test_an_outage_hides_no_reason_of_a_retraining_that_failed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    made = flows.split(small(), SPEC, engine="plain")
    tracker = Tracker(home, "small")
    run = tracker.begin(Entry(key="one", name="retrain/small")).info.run_id
    with monkeypatch.context() as out:
        out.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        out.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
        tracker_of(made.split).fail(run, "no rows")
    assert tracker.client.get_run(run).info.status == "RUNNING"
    tracker_of(made.split).fail(run, "no rows")
    assert tracker.client.get_run(run).info.status == "FAILED"
    assert tracker.client.get_run(run).data.tags["evenfold.failure"] == "no rows"


def test_a_disk_that_takes_no_store_is_a_sentence_and_leaves_none(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk; with room the same home goes on."""
    home = Home(tmp_path / "new")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(EvaluationError, match="no space is left, or the disk refuses to write"):
            Tracker(home, "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(home.path.glob("mlflow.db*"))
    assert Tracker(home, "x").experiment_id

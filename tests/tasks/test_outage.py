"""An MLflow server that is down, and one that another project shares."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record import recorders  # noqa: F401, that a record names; with Prefect, which sets up logging
from evenfold.tasks.record.runs import every_run
from evenfold.tasks.results.spool import unreachable, waiting
from servers import free_port, mlflow_server

from evenfold import flows

MODEL = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
SPEC = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold", "params": {"n_splits": 3}}


def rows() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame({"id": range(90), "a": draw.normal(size=90), "y": draw.normal(size=90)})


def evaluate(**fields: Any) -> Any:
    return flows.evaluate(rows(), engine="plain", model=MODEL, **({"spec": SPEC} | fields))


def test_a_server_that_is_down_loses_nothing(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The evaluation ends with its scores and says where the records wait; the next run sends them, in order.

    MLflow's client, which prints where each run's page on a server is, prints none of ours.
    """
    from evenfold.tasks.record.reading import read_split
    from mlflow.tracking import MlflowClient

    port = free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", raising=False)
    monkeypatch.setattr("evenfold.tasks.results.spool.WAIT_SECONDS", (0.1,))
    home = Home.here()
    lost = evaluate()
    assert len(lost.scores) == 3
    assert "the next run sends it" in lost.run_id
    assert len(waiting(home)) == 2
    shutil.copy(empty_store, tmp_path)
    with mlflow_server(tmp_path, f"sqlite:///{tmp_path / 'mlflow.db'}", port=port) as url:
        there = evaluate(run_label="again")
        assert waiting(home) == []
        assert capsys.readouterr().out == ""
        client = MlflowClient(url)
        experiment = client.get_experiment_by_name("rows").experiment_id
        runs = client.search_runs([experiment])
        parents = [run for run in runs if run.info.run_name == "Ridge @ rows 1.0"]
        splits = [run for run in runs if run.info.run_name == "rows 1.0 split"]
        assert len(splits) == 1
        assert len(parents) == 2
        assert {run.info.status for run in runs} == {"FINISHED"}
        assert {run.data.tags["evenfold.split_run_id"] for run in parents} == {there.split_run_id}
        assert len(runs) == 1 + 2 * (1 + 3)

        monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "other project"))
        for name in ("rows@1.0", "rows", there.split.split_id, there.split.plan_id):
            found = read_split(name)
            assert found.split_id == there.split.split_id
        assert str(found.uri).startswith(str(tmp_path / "other project"))
        again = evaluate(spec=None, manifest=found.uri)
        assert again.split_run_id == there.split_run_id
        with pytest.raises(SplitError, match=r"there is no split 'rows@7\.0'"):
            read_split("rows@7.0")


def test_only_a_server_out_of_reach_is_waited_for() -> None:
    """A refused connection is an outage however it is wrapped, and so is a server without its database.

    A wrong argument, a refused request or a full disk is none.
    """
    import httpx
    import requests
    from prefect.exceptions import PrefectHTTPStatusError

    def answered(status: int) -> Exception:
        request = httpx.Request("POST", "http://127.0.0.1/api/v2/concurrency_limits/increment-with-lease")
        response = httpx.Response(status, json={"exception_message": "an answer"}, request=request)
        return PrefectHTTPStatusError.from_httpx_error(httpx.HTTPStatusError("", request=request, response=response))

    def wrapped(error: Exception) -> Exception:
        try:
            try:
                raise error
            except Exception as cause:
                raise RuntimeError("it failed") from cause
        except RuntimeError as raised:
            return raised

    assert unreachable(wrapped(requests.exceptions.ConnectionError("refused")))
    assert unreachable(wrapped(ConnectionRefusedError()))
    meanwhile = RuntimeError("it failed")
    meanwhile.__context__ = ConnectionRefusedError()
    assert unreachable(meanwhile)
    assert unreachable(wrapped(answered(500)))
    assert unreachable(wrapped(answered(503)))
    assert not unreachable(wrapped(answered(404)))
    assert not unreachable(wrapped(answered(422)))
    assert not unreachable(wrapped(OSError(28, "No space left on device")))
    assert not unreachable(wrapped(ValueError("a wrong argument")))


def test_a_record_of_an_earlier_version_is_still_taken(home: Home) -> None:
    """It named table and home apart from the split; the run that it makes is the one that is made today."""
    from evenfold.tasks.results.spool import replay
    from mlflow.tracking import MlflowClient

    made = flows.split(rows(), key="id", target="y", name="rows", strategy="KFold", engine="plain")
    split = made.split.model_dump(exclude={"data", "reused"})
    arguments = {
        "split": split, "report": made.balance.model_dump(mode="json"), "data": made.split.data,
        "fingerprint": "0" * 64, "tags": {"evenfold.note": "late"}, "home": str(home.path),
    }  # fmt: skip
    home.spool.mkdir(parents=True)
    record = json.dumps({"step": "record_split", "arguments": arguments})
    (home.spool / "1-1-record_split.json").write_text(record)
    assert replay(home) == 1
    assert waiting(home) == []
    run = MlflowClient(home.tracking_uri).get_run(made.run_id)
    assert (run.info.status, run.data.tags["evenfold.note"]) == ("FINISHED", "late")


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"step": "os.system", "arguments": {"command": "id"}}'])
def test_a_record_that_is_none_is_put_aside(text: str, home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """It stops neither the run that finds it nor the records behind it, and is kept for whoever wants to look."""
    from evenfold.tasks.results.spool import replay

    home.spool.mkdir(parents=True)
    (home.spool / "1-1-record_split.json").write_text(text)
    assert replay(home) == 0
    assert waiting(home) == []
    assert (home.spool / "unreadable-1-1-record_split.json").read_text() == text
    assert "put aside" in caplog.text


def test_a_record_that_can_never_be_sent_stops_none_behind_it(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """It is put aside with its reason, doctor names it, and it is sent once it is given its name back."""
    from evenfold.tasks.doctor import examine
    from evenfold.tasks.results.clean import clean
    from evenfold.tasks.results.spool import replay
    from mlflow.tracking import MlflowClient

    made = flows.split(rows(), key="id", target="y", name="rows", strategy="KFold", engine="plain")
    split, away = made.split.model_dump(mode="json"), home.path / "away"
    report = made.balance.model_dump(mode="json")
    home.spool.mkdir(parents=True)
    for number, uri in enumerate([str(away), made.split.uri], start=1):
        tags = {"evenfold.note": f"late {number}"}
        arguments = {"split": split | {"uri": uri}, "report": report, "fingerprint": "0" * 64, "tags": tags}
        record = json.dumps({"step": "record_split", "arguments": arguments})
        (home.spool / f"{number}-1-record_split.json").write_text(record)
    aside = home.spool / "unsendable-1-1-record_split.json"
    assert replay(home) == 1
    assert MlflowClient(home.tracking_uri).get_run(made.run_id).data.tags["evenfold.note"] == "late 2"
    assert (waiting(home), list(home.spool.iterdir())) == ([], [aside])
    assert f"could not be sent and was put aside as {aside}: {away} holds no manifest.json" in caplog.text
    assert clean(home, 86_400, dry_run=True).files == 0
    (said,) = [each for each in examine(home) if each.check == "records that wait"]
    assert (said.ok, said.message) == (False, f"none, and 1 put aside in {home.spool}")
    assert "give it its name back without unsendable-" in said.fix
    Path(made.split.uri).rename(away)
    aside.rename(home.spool / "1-1-record_split.json")
    assert (replay(home), list(home.spool.iterdir())) == (1, [])


def test_a_comparison_that_waits_is_sent_by_whoever_records_next(home: Home, tmp_path: Path) -> None:
    """Also by a process that compares nothing itself, and so never loaded what compares."""
    from evenfold.tasks.record.tracker import Tracker

    arguments = {
        "experiment": "rows", "name": "A and B @ rows 1.0", "kind": "comparison", "about": {"run_a": "a", "run_b": "b"},
        "page": "<p>A page</p>", "note": "A note", "tables": {}, "tags": {}, "metrics": {"difference/r2": 0.25},
    }  # fmt: skip
    home.spool.mkdir(parents=True)
    record = json.dumps({"step": "record_finding", "arguments": arguments})
    (home.spool / "1-1-record_finding.json").write_text(record)
    rows().to_csv(tmp_path / "rows.csv", index=False)
    code = "import sys; from evenfold import flows; flows.split(sys.argv[1], key='id', name='rows', engine='plain')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "rows.csv")], check=True)
    assert list(home.spool.iterdir()) == []
    (run,) = Tracker(home, "rows").runs_named("A and B @ rows 1.0")
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"difference/r2": 0.25})


def test_a_record_waits_for_the_server_that_it_was_meant_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another store records meanwhile does not send it there, and doctor says what it waits for."""
    from evenfold.tasks.doctor import examine
    from evenfold.tasks.record.tracker import Tracker

    def split(name: str) -> Any:
        return flows.split(rows(), key="id", target="y", name=name, strategy="KFold", engine="plain")

    team = f"http://127.0.0.1:{free_port()}"
    with monkeypatch.context() as out:
        out.setenv("MLFLOW_TRACKING_URI", team)
        out.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        out.setattr("evenfold.tasks.results.spool.WAIT_SECONDS", (0.1,))
        split("team")
        (kept,) = waiting(home)
    split("mine")
    assert waiting(home) == [kept]
    assert {run.info.run_name for run in every_run(Tracker(home, ""))} == {"mine 1.0 split"}
    (said,) = [each for each in examine(home) if each.check == "records that wait"]
    assert (said.ok, said.message) == (False, f"1 in {home.spool} for {team}")
    assert "Where it has moved, write its address as store into the files" in said.fix


@pytest.mark.parametrize(("meant", "reached"), [("", "/"), ("/", "")])
def test_a_server_written_with_a_slash_is_the_same(
    meant: str, reached: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it is tried, whichever way its address is written, and it is shown in one."""
    from evenfold.tasks.results.spool import put_aside, replay, stores_waited_for

    home.spool.mkdir()
    record = {"step": "record_split", "store": f"http://127.0.0.1:9{meant}", "arguments": {}}
    (home.spool / "1-1-record_split.json").write_text(json.dumps(record))
    assert stores_waited_for(home) == ["http://127.0.0.1:9"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:9{reached}")
    assert (replay(home), waiting(home), len(put_aside(home))) == (0, [], 1)  # tried: it has no arguments


def test_what_waits_for_the_own_store_goes_with_a_home_that_moves(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record names no place: the home's own store takes it wherever it lies, and no server does meanwhile."""
    from evenfold.tasks.results.spool import replay, stores_waited_for, survives_outage

    down, sent = [True], []

    def note(text: str) -> str:
        if down:
            raise ConnectionError
        sent.append(text)
        return ""

    monkeypatch.setattr("evenfold.tasks.results.spool.WAIT_SECONDS", ())
    monkeypatch.setattr("evenfold.tasks.results.spool._RECORDERS", {})
    survives_outage(note)("kept")
    down.clear()
    monkeypatch.setenv("EVENFOLD_HOME", str(home.path.rename(tmp_path / "moved")))
    moved = Home.here()
    own = moved.tracking_uri
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        assert (replay(moved), stores_waited_for(moved)) == (0, [own])
    assert (replay(moved), sent, waiting(moved)) == (1, ["kept"], [])


def test_where_the_first_finds_nobody_the_others_wait_for_another_day(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that is down is not asked again for each of a thousand records.

    One process at a time asks, or a record would be sent twice, and no password of an address is logged.
    """
    from evenfold.tasks.results.spool import replay, survives_outage
    from evenfold.tasks.runtime.locks import FileLocks

    asked, alone = [], []

    def note(text: str) -> str:
        asked.append(text)
        alone.append(FileLocks(home.path / "locks").is_locked("spool"))
        raise ConnectionError("no answer of http://ann:pass-word@host")

    monkeypatch.setattr("evenfold.tasks.results.spool.WAIT_SECONDS", ())
    monkeypatch.setattr("evenfold.tasks.results.spool._RECORDERS", {})
    for text in ("first", "second"):
        survives_outage(note)(text)
    kept = waiting(home)
    assert (replay(home), waiting(home), asked) == (0, kept, ["first", "second", "first"])
    assert alone == [False, False, True]
    assert "no answer of http://ann:***@host" in caplog.text
    assert "pass-word" not in caplog.text


def test_a_run_whose_process_is_no_more_is_ended(home: Home) -> None:
    """By the next command of the split, or by doctor; what another machine or a living process began is left alone."""
    from evenfold.tasks.doctor import examine
    from evenfold.tasks.record.entries import Entry
    from evenfold.tasks.record.tracker import LOST, PROCESS, Tracker
    from evenfold.tasks.runtime.orphans import has_ended, process_mark

    code = "from evenfold.tasks.runtime.orphans import process_mark; print(process_mark())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    machine, boot, number, _ = dead.split("-")
    assert has_ended(dead)
    assert has_ended(process_mark().replace(boot, "before the machine was started"))
    others = [process_mark(), f"0{machine[1:]}x-{boot}-{number}-1", "", "x", f"{machine}-{boot}-x-1"]
    assert not any(map(has_ended, others))
    tracker = Tracker(home, "rows")

    def begun(name: str, mark: str) -> str:
        run = tracker.begin(Entry(key=name, name=f"retrain/{name}", tags={}, params={}, metrics={}))
        tracker.client.set_tag(run, PROCESS, mark)
        return run

    def states(runs: list[str]) -> list[str]:
        return [tracker.client.get_run(run).info.status for run in runs]

    runs = [begun(f"kept {number}", mark) for number, mark in enumerate(others)]
    lost = begun("lost", dead)
    child = tracker.begin(Entry(key="child", name="fold 0", tags={}, params={}, metrics={}), parent=lost)
    made = flows.split(rows(), key="id", target="y", name="rows", strategy="KFold", engine="plain")
    assert states([lost, child, made.run_id]) == ["KILLED", "KILLED", "FINISHED"]
    assert tracker.client.get_run(lost).data.tags["evenfold.failure"] == LOST
    again = begun("lost", dead)
    assert again == lost
    (said,) = [each for each in examine(home) if each.check == "MLflow runs"]
    assert said.ok
    assert "1 RUNNING whose process has ended, now KILLED: retrain/lost" in said.message
    assert states([lost, *runs]) == ["KILLED", *["RUNNING"] * len(others)]


def test_the_failure_of_a_retraining_is_recorded_when_the_server_is_back(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage leaves no run RUNNING for ever; one that was begun anew meanwhile is not marked by what comes late."""
    from evenfold.tasks.record.entries import Entry
    from evenfold.tasks.record.models.registry import fail_retraining
    from evenfold.tasks.record.models.tags import OPENED
    from evenfold.tasks.record.tracker import Tracker
    from evenfold.tasks.results.spool import replay
    from evenfold.tasks.retrained import Opened

    made = flows.split(rows(), key="id", target="y", name="rows", strategy="KFold", engine="plain")
    tracker = Tracker(home, "rows")
    runs = [
        tracker.begin(Entry(key=key, name="retrain/rows", tags={OPENED: key}, params={}, metrics={}))
        for key in ("one", "two")
    ]
    with monkeypatch.context() as out:
        out.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
        out.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        out.setattr("evenfold.tasks.results.spool.WAIT_SECONDS", (0.1,))
        for run_id, opened in zip(runs, ("one", "an earlier time"), strict=True):
            fail_retraining.fn(made.split, Opened(run_id=run_id, opened=opened), "MLflow is out of reach")
    assert len(waiting(home)) == 2
    for path in waiting(home):  # as where the server has moved
        path.write_text(json.dumps(json.loads(path.read_text()) | {"store": home.tracking_uri}))
    assert [tracker.client.get_run(run_id).info.status for run_id in runs] == ["RUNNING", "RUNNING"]
    assert replay(home) == 2
    assert [tracker.client.get_run(run_id).info.status for run_id in runs] == ["FAILED", "RUNNING"]
    assert tracker.client.get_run(runs[0]).data.tags["evenfold.failure"] == "MLflow is out of reach"

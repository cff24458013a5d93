"""A deployed retraining that asks: suspended by a real server, answered through its API, it goes on elsewhere."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from evenfold.flows import Retraining
from evenfold.flows.cli import app
from evenfold.tasks import Home
from prefect import get_client
from prefect.events.filters import EventFilter
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from servers import wait_until
from small import BAD, GOOD, called, champion, registry, retrain
from tables import rows
from typer.testing import CliRunner

from evenfold import flows


def executed(flow_run: Any) -> Any:
    """Run a flow run as a worker's process does, and return its state then."""
    with get_client(sync_client=True) as client, pytest.MonkeyPatch.context() as worker:
        worker.setenv("PREFECT__FLOW_RUN_ID", str(flow_run.id))
        with contextlib.suppress(Pause):
            run_flow(flows.retrain, flow_run=client.read_flow_run(flow_run.id), return_type="state")
        return client.read_flow_run(flow_run.id).state


def events(name: str, split: str = "asked") -> list[Any]:
    wanted = EventFilter.model_validate({"event": {"name": [name]}, "resource": {"id": [f"evenfold.split.{split}"]}})
    with get_client(sync_client=True) as client:
        return list(client.read_events(filter=wanted, limit=50).events)


@pytest.fixture
def due(prefect_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a run of a deployment whose candidate is better by more than is promoted unasked."""
    monkeypatch.setenv("EVENFOLD_DATA_ROOTS", str(tmp_path))
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", "of a team, and long enough to sign with")
    retrain("asked", rows(60), BAD)
    rows(80).to_parquet(tmp_path / "rows.parquet")
    spec = {"name": "asked", "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold", "params": {"n_splits": 2}}
    about = {"data": str(tmp_path / "rows.parquet"), "spec": spec, "model": GOOD, "on_unclear": "ask", "ask_above": 0.1}
    with get_client(sync_client=True) as client:
        flow = client.create_flow(flows.retrain)
        made = client.create_deployment(flow, tmp_path.name, entrypoint="evenfold.flows.retrain", path=".")
        yield lambda **more: client.create_flow_run_from_deployment(made, parameters=about | more)
        client.delete_deployment(made)


def test_a_suspended_run_goes_on_on_another_machine_after_a_yes(
    due: Any, prefect_home: Home, prefect_server: str, tmp_path: Path
) -> None:
    """Its form shows what is asked, an event tells it once, nothing is promoted before, and a false form is refused.

    The other machine has an empty home, the table, MLflow's store and the team's key.
    """
    flow_run = due()
    state = executed(flow_run)
    assert (state.name, champion(prefect_home, "asked")) == ("Suspended", "1"), state
    (told,) = wait_until(lambda: events("evenfold.retrain.asked"), "the event")  # type: ignore[misc]
    assert "asked on asked 1.1 asks before it makes the candidate's recipe the champion" in told.payload["words"]
    with get_client(sync_client=True) as client:
        keys = state.state_details.run_input_keyset
        assert "asks before it" in client.read_flow_run_input(flow_run.id, keys["description"])
        yes = {"answer": "approve", "reason": "a new sensor", "name": "ada"}
        for wrong in ({}, yes | {"answer": "maybe"}, yes | {"reason": "x" * 1_001}, yes | {"version": "7"}):
            assert client.resume_flow_run(flow_run.id, run_input=wrong).status.value == "REJECT", wrong
        client.resume_flow_run(flow_run.id, run_input=yes)
    elsewhere = {"EVENFOLD_HOME": str(tmp_path / "other"), "MLFLOW_TRACKING_URI": prefect_home.tracking_uri}
    elsewhere |= {"PREFECT_API_URL": prefect_server, "PREFECT__FLOW_RUN_ID": str(flow_run.id)}
    command = [sys.executable, "-m", "prefect.engine"]
    done = subprocess.run(command, env={**os.environ, **elsewhere}, capture_output=True, text=True)
    assert (done.returncode, champion(prefect_home, "asked")) == (0, "2"), done.stderr
    answer = registry(prefect_home).get_model_version("asked", "2").tags["evenfold.answer"]
    assert re.fullmatch(r"Approved by ada on 20\d\d-\d\d-\d\d: a new sensor", answer)
    (promoted,) = wait_until(lambda: events("evenfold.champion.promoted"), "the event")  # type: ignore[misc]
    assert promoted.payload["version"] == "2"
    assert len(events("evenfold.retrain.asked")) == 1


def test_an_answer_at_a_terminal_resumes_the_run_and_silence_fails_it(due: Any, prefect_home: Home) -> None:
    """The terminal's no ends the run as Failed with its sentence; after the stated time a form is too late."""
    late = due(answer_within=6 / 3600, run_label="late")
    assert executed(late).name == "Suspended"
    time.sleep(6)
    with get_client(sync_client=True) as client:
        client.resume_flow_run(late.id, run_input={"answer": "approve", "reason": "late", "name": "ada"})
        state = client.read_flow_run(late.id).state
    assert state is not None
    assert state.is_failed(), state
    flow_run = due()
    assert executed(flow_run).name == "Suspended"
    done = CliRunner().invoke(app, ["answer", "asked", "--refuse", "--reason", "too good", "--name", "eve"])
    assert "too good; the suspended run goes on." in done.output, done
    state = executed(flow_run)
    assert state.is_failed()
    assert state.message is not None
    assert re.match(r"Refused by eve on [\d-]+: too good\. asked on asked 1\.1 asks before", state.message)
    assert champion(prefect_home, "asked") == "1"


def test_a_deployed_run_audits_a_build_that_its_list_names_and_no_other(
    due: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def build(frame):\n    return frame.assign(mean=frame['y'].mean())[['mean']]\n"
    (tmp_path / "month_features.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for listed, words in (("sklearn", "may not be imported"), ("sklearn, month_features:build", "features move with")):
        monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", listed)
        state = executed(due(build="month_features:build"))
        assert (state.is_failed(), "month_features:build" in state.message) == (True, True), state
        assert words in state.message


def test_a_champion_is_told_once_however_often_its_run_is_taken_up(
    prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that are one version told it twice, as did one that broke off behind its event."""

    def month() -> Retraining:
        spec = {"name": "told", "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold"}
        return flows.retrain(rows(60), spec=spec, n_splits=2, model=GOOD)

    with monkeypatch.context() as patched:
        patched.setattr(*called("retraining", "close_retraining"), lambda *_, **__: [][0])
        with pytest.raises(IndexError):
            month()
    registered = month().registered
    assert registered is not None
    wait_until(lambda: events("evenfold.champion.promoted", "told"), "the event")
    time.sleep(3)  # for a second one
    (event,) = events("evenfold.champion.promoted", "told")
    assert event.id == UUID(registered.run_id)

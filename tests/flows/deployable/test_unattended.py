"""Deployed runs that nobody watches: outages, crashes, runs that wait, and what automations are told."""

import sqlite3
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import prefect
import pytest
import yaml
from evenfold.estimates import EvaluationError
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.runtime import progress
from prefect import get_client
from prefect.events.filters import EventFilter
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import SignatureMismatchError
from prefect.flow_engine import run_flow
from servers import ROOT, wait_until

from evenfold import flows

TRIED: list[str] = []


@prefect.flow
def outage(times: int = 1) -> Any:
    def work() -> str:
        TRIED.append("once")
        if len(TRIED) <= times:
            raise ConnectionRefusedError("nobody is there")
        return "done"

    return progress.through_outages(work)


@pytest.fixture
def deployment(prefect_server: None) -> Any:
    TRIED.clear()
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("outage")
        made = client.create_deployment(flow, f"unattended {time.time_ns()}", tags=["evenfold"])
        yield made
        client.delete_deployment(made)


def due(deployment: Any, **parameters: Any) -> Any:
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(deployment, parameters=parameters)
        return client.read_flow_run(run.id)


def ended(run: Any) -> Any:
    return run_flow(outage, flow_run=run, parameters=run.parameters, return_type="state")


def test_a_deployed_run_waits_through_an_outage(deployment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done again, three times at most, and the run completes; what stays out of reach ends it with a sentence."""
    monkeypatch.setattr(progress, "AGAIN_SECONDS", (0.0, 0.0, 0.0))
    assert ended(due(deployment, times=2)).is_completed()
    assert len(TRIED) == 3
    TRIED.clear()
    state = ended(due(deployment, times=9))
    assert state.is_failed()
    assert len(TRIED) == 4
    assert "out of reach (nobody is there); what is finished is kept: run it again" in state.message


def test_at_a_terminal_an_outage_is_a_sentence_and_bad_input_is_never_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits there but a few seconds; and what is not an outage is raised as it is."""
    monkeypatch.setattr(progress, "SOON_SECONDS", (0.0, 0.0))
    tried = []

    def fails(error: Exception) -> Any:
        def work() -> None:
            tried.append(error)
            raise error

        return work

    with pytest.raises(EvaluationError, match="out of reach"):
        progress.through_outages(fails(ConnectionResetError("gone")))
    with pytest.raises(SplitError, match="no rows"):
        progress.through_outages(fails(SplitError("no rows")))
    assert len(tried) == 4


def events(name: str, resource: str) -> Any:
    wanted = EventFilter.model_validate({"event": {"name": [name]}, "resource": {"id": [resource]}})
    with get_client(sync_client=True) as client:
        return client.read_events(filter=wanted, limit=50).events


def test_a_retraining_that_failed_for_good_is_told_once(deployment: Any, prefect_home: Home) -> None:
    """With its sentence, after every retry, as its specification calls it, also where there is no split yet."""
    run = due(deployment, data="missing.parquet", spec={"name": "unfit"}, level=7)
    policy = run.empirical_policy.model_copy(update={"retries": 1, "retry_delay": 0})
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, empirical_policy=policy)
        run_flow(flows.retrain, flow_run=client.read_flow_run(run.id), return_type="state")
        ended = client.read_flow_run(run.id)
    assert ended.state.is_failed()
    assert ended.state.message == "the request does not fit: level: input should be less than 1."
    assert ended.run_count == 2
    resource = "evenfold.split.unfit"
    wait_until(lambda: events("evenfold.retrain.failed", resource), "the event")
    time.sleep(3)  # for a second one
    (told,) = events("evenfold.retrain.failed", resource)
    assert told.payload["words"] == ended.state.message


def test_a_run_of_unknown_parameters_fails_in_a_sentence(deployment: Any, prefect_home: Home) -> None:
    """Prefect's API takes them, and crashes before the flow begins: it would be started again for nothing."""
    run = due(deployment, data="missing.parquet", name="mistaken", nosuch=1)
    with pytest.raises(SignatureMismatchError):
        run_flow(flows.retrain, flow_run=run)
    for hook in flows.retrain.on_crashed_hooks:  # which the process that started the run's calls then
        hook(flows.retrain, run, prefect.states.Crashed())
    with get_client(sync_client=True) as client:
        ended = client.read_flow_run(run.id)
    assert ended.state.is_failed()
    assert ended.state.message.startswith("retrain has no parameter nosuch; it takes data, spec, model, ")


FILE = ROOT / "deployments" / "automations.yaml"
SHIPPED: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["automations"]


@pytest.mark.parametrize("each", SHIPPED, ids=lambda each: each["name"])
def test_shipped_automations_are_what_a_server_takes(each: dict[str, Any], prefect_server: None) -> None:
    """Prefect's own models read them, without a field that they do not know, and a server keeps them."""
    automation = AutomationCore.model_validate(each)
    told = automation.model_dump(mode="json", exclude_unset=True)
    assert set(each["trigger"]) == set(told["trigger"])
    assert [set(action) for action in each["actions"]] == [set(action) for action in told["actions"]]
    if automation.enabled:  # one that names somebody's block is theirs to complete
        with get_client(sync_client=True) as client:
            client.delete_automation(client.create_automation(automation))


def test_the_automations_listen_to_what_happens() -> None:
    """A run with our tag that crashes or fails, and a new champion; a crash late, for its second report takes 13 s."""
    from prefect.server.events.schemas.automations import AutomationCore as Served
    from prefect.server.events.schemas.events import ReceivedEvent

    _, again, enough, failure, champion = (Served.model_validate(each).trigger for each in SHIPPED)

    def hears(trigger: Any, name: str, tag: str = "evenfold", of: str = "prefect.flow-run.1") -> bool:
        related = [{"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"}]
        about = {"event": name, "resource": {"prefect.resource.id": of}, "related": related}
        event = ReceivedEvent.model_validate(about | {"occurred": "2026-11-22T00:00:00Z", "id": str(UUID(int=1))})
        return bool(trigger.covers(event) and trigger.expects(event.event))

    assert again.starts_after("prefect.flow-run.Crashed")
    assert again.within.total_seconds() >= 20
    assert all(hears(again, f"prefect.flow-run.{name}") for name in ("Failed", "Completed", "Pending", "Running"))
    for trigger, name in ((enough, "prefect.flow-run.Crashed"), (failure, "prefect.flow-run.Failed")):
        assert hears(trigger, name)
        assert not hears(trigger, name, "theirs")
        assert not hears(trigger, "prefect.flow-run.Completed")
    for name in ("evenfold.champion.promoted", "evenfold.retrain.asked"):
        assert hears(champion, name, of="evenfold.split.flights")


def test_a_split_that_grows_says_so_to_prefect(prefect_home: Home, tmp_path: Path) -> None:
    """The event names the split, holds the numbers, and a sentence for whoever is told."""
    rows = pd.DataFrame({"id": range(60), "y": [0, 1] * 30})
    rows.head(40).to_parquet(tmp_path / "grown.parquet")
    made = flows.split(tmp_path / "grown.parquet", key="id", target="y", strategy="StratifiedKFold")
    rows.to_parquet(tmp_path / "grown.parquet")
    flows.extend(made.split.uri, tmp_path / "grown.parquet")

    (event,) = wait_until(lambda: events("evenfold.split.extended", "evenfold.split.grown"), "the event")  # type: ignore[misc]
    assert event.payload["added"] == 20
    assert event.payload["words"] == "grown is 1.1 now: 20 added, 0 deleted, 0 quarantined."
    assert "flow-run" in {related.role for related in event.related}


def test_a_store_that_another_process_holds_is_out_of_reach(tmp_path: Path) -> None:
    """As a server that does not answer is, in one sentence; what is no outage stays what it is."""
    holder, other = (sqlite3.connect(tmp_path / "mlflow.db", timeout=0) for _ in range(2))
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError) as told:
        other.execute("SELECT * FROM sqlite_master")
    assert str(progress.outage_of(told.value)).endswith("(database is locked); what is finished is kept: run it again.")
    with pytest.raises(KeyError):
        progress.outage_of(KeyError("y"))

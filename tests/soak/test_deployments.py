"""The deployments on real servers: PostgreSQL, Prefect, MLflow behind a password, and a process worker."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from evenfold.manifests import decide
from house import House, lived_in, shipped
from servers import ROOT, wait_until

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with lived_in(tmp_path_factory.mktemp("house"), every_minute) as made:
        yield made


def every_minute() -> dict[str, Any]:
    """Return the shipped prefect.yaml, with the nightly evaluation every minute, the weekly retraining, fewer trees."""
    described = shipped()
    nightly = described["deployments"][1]
    nightly["schedules"][0] |= {"cron": "* * * * *", "active": True}
    described["deployments"][2]["schedules"][0] |= {"active": True}
    described = yaml.safe_load(json.dumps(described))
    for each in described["deployments"][1:]:
        each["parameters"]["model_params"] = {"max_iter": 5}
    return dict(described)


def scheduled(house: House) -> list[dict[str, Any]]:
    return [run for run in house.runs() if run["auto_scheduled"]]


def test_a_scheduled_run_fires_by_itself_and_completes(house: House, found: Callable[..., None]) -> None:
    """A Scheduled run exists within 70 s of deploying, and the worker brings it to Completed unasked."""
    begun = time.monotonic()
    wait_until(lambda: [run for run in scheduled(house) if run["flow"] == "evaluate"], "a scheduled run", 70)
    seen = time.monotonic() - begun

    def finished() -> Any:
        runs = [run for run in scheduled(house) if run["flow"] == "evaluate"]
        failed = [run for run in runs if run["state_type"] in ("FAILED", "CRASHED")]
        assert not failed, (failed, (house.folder / "worker.log").read_text()[-3000:])
        return [run for run in runs if run["state_type"] == "COMPLETED"]

    done = wait_until(finished, "the scheduled run's end", 300)
    assert isinstance(done, list)
    assert done[0]["name"] == "evaluate flights"
    found(seconds_until_scheduled=round(seen, 1), seconds_until_completed=round(time.monotonic() - begun, 1))


def test_a_schedule_keeps_its_own_zone(house: House) -> None:
    """Every weekly retraining is due on a Monday at 4 in Berlin, where the clocks of all machines are Auckland's."""
    wait_until(lambda: [run for run in scheduled(house) if run["flow"] == "retrain"], "a weekly run", 120)
    due = [datetime.fromisoformat(run["expected_start_time"]) for run in scheduled(house) if run["flow"] == "retrain"]
    here = {each.astimezone(ZoneInfo("Europe/Berlin")).strftime("%A %H:%M") for each in due}
    assert here == {"Monday 04:00"}
    house.prefect("deployment", "schedule", "pause", "--all")


def test_the_record_of_a_scheduled_run_is_complete_behind_a_password(house: House) -> None:
    """Parent and folds are FINISHED, artifacts came through the server; the split is what is decided in this zone."""
    told = house.python(
        """
import json, mlflow
client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("flights")
runs = client.search_runs([experiment.experiment_id])
parents = [r for r in runs if r.data.tags.get('evenfold.record') == 'evaluation']
folds = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parents[0].info.run_id]
files = [f.path for f in client.list_artifacts(parents[0].info.run_id)]
print(json.dumps(dict(parents=[r.info.status for r in parents], folds=[r.info.status for r in folds], files=files,
    place=experiment.artifact_location, tags=parents[0].data.tags)))
"""
    )
    assert told["parents"] == ["FINISHED"]
    assert told["folds"] == ["FINISHED"] * 5
    assert {"predictions.parquet", "estimates.json", "features.json"} <= set(told["files"])
    assert told["place"].startswith("mlflow-artifacts:")
    assert told["tags"]["prefect.flow_run_id"]
    decided = decide(SPEC, ROOT / "examples" / "flights.parquet")
    assert told["tags"]["evenfold.split_id"] == decided.split_id


SPEC = {"name": "flights", "columns": {"key": ["flight_id"], "target": "arr_delay", "group": "date"}}
AUTOMATION = """
import json
from prefect import get_client
from prefect.automations import Automation
from prefect.events.actions import RunDeployment
from prefect.events.schemas.automations import EventTrigger, Posture
with get_client(sync_client=True) as client:
    source = client.read_deployment_by_name("split/evenfold").id
trigger = EventTrigger(expect={"evenfold.champion.promoted"}, match={"prefect.resource.id": "evenfold.split.*"},
                       posture=Posture.Reactive, threshold=1, within=0)
action = RunDeployment(deployment_id=source, parameters={"name": "told-of-a-champion"})
print(json.dumps(str(Automation(name="split after a champion", trigger=trigger, actions=[action]).create().id)))
"""


def test_a_retraining_registers_a_champion_that_loads(house: House) -> None:
    """The deployed retraining completes, and models:/flights@champion loads from another process and predicts.

    An automation that listens for new champions starts the deployment that it names.
    """
    house.python(AUTOMATION)
    ran = house.triggered("retrain/evenfold")
    assert ran["state"] == "Completed", ran
    made = house.folder / "home" / "splits" / "told-of-a-champion" / "1.0" / "manifest.json"
    wait_until(made.exists, "what the automation starts", 180)
    told = house.python(
        """
import json, mlflow, pandas as pd
model = mlflow.sklearn.load_model("models:/flights@champion")
frame = pd.read_parquet("examples/flights.parquet")[list(model.feature_names_in_)]
print(json.dumps(len(model.predict(frame.head(50)))))
"""
    )
    assert told == 50


def test_a_form_cannot_import_what_is_not_on_the_list(house: House) -> None:
    """A deployment run that names subprocess fails with the sentence, and nothing of it ran."""
    mark = house.folder / "owned"
    model = {"estimator": "subprocess:run", "params": {"args": ["touch", str(mark)]}}
    ran = house.triggered("evaluate/evenfold", model=model, model_params=None)
    assert ran["state"] == "Failed"
    assert "lies in Python's standard library" in ran["message"]
    assert not mark.exists()


def test_a_bad_request_ends_with_its_sentence(house: House) -> None:
    """Once, without a second try, and no cell of the data stands in the message or in the worker's log."""
    table = house.folder / "home" / "private.csv"
    table.write_text("id,y\n1,2.5\n2,hunter2\n3,1.5\n")
    asked = {"name": "private", "columns": {"key": ["id"], "target": "y"}, "types": {"y": "float"}, "strategy": "KFold"}
    own = dict.fromkeys(("key", "target", "group"))
    ran = house.triggered("split/evenfold", data=str(table), spec=asked, **own)
    assert (ran["state"], ran["starts"]) == ("Failed", 1)
    assert "private.csv" in ran["message"]
    assert "hunter2" not in ran["message"] + (house.folder / "worker.log").read_text()
    assert "Traceback" not in ran["message"]


def test_a_split_of_another_project_is_the_same_split(house: House) -> None:
    """The deployed split step gives a second caller the split that the evaluation made, from the cache."""
    ran = house.triggered("split/evenfold")
    assert ran["state"] == "Completed", ran
    versions = sorted(path.name for path in (house.folder / "home" / "splits" / "flights").iterdir())
    assert versions == ["1.0"]


def test_a_run_that_is_cancelled_leaves_nothing_and_can_run_again(house: House) -> None:
    """Cancelled in the middle of its fits: no process of it lives, its slot is free, and the next run completes."""
    model = {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_jobs": 1}, "exclude": ["dep_delay"]}
    results = house.folder / "home" / "results" / "score"
    before = len(list(results.glob("*")))
    run = str(house.triggered("evaluate/evenfold", timeout=0, model=model, model_params=None)["id"])
    wait_until(lambda: len(list(results.glob("*"))) > before, "the first fold", 180)
    house.prefect("flow-run", "cancel", run)
    wait_until(
        lambda: [each for each in house.runs() if each["id"] == run and each["state_type"] == "CANCELLED"], "the end"
    )
    wait_until(lambda: not of_run(run), "the end of its processes", 30)
    ran = house.triggered("evaluate/evenfold", model=model, model_params=None)
    assert ran["state"] == "Completed", ran


@pytest.fixture(scope="module")
def automations(house: House) -> None:
    house.prefect("deployment", "schedule", "pause", "--all")
    house.prefect("automation", "create", "--from-file", str(ROOT / "deployments" / "automations.yaml"))


@pytest.mark.usefixtures("automations")
def test_a_run_that_crashes_is_started_again(house: House, found: Callable[..., None]) -> None:
    """Kill -9 of a deployed run's process: the worker calls it crashed, the shipped automation starts it, it ends."""
    model = {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_jobs": 1}, "exclude": ["dep_delay"]}
    results = house.folder / "home" / "results" / "score"
    before = len(list(results.glob("*")))
    told = house.triggered("evaluate/evenfold", timeout=0, model=model, model_params=None, seed=7, run_label="crashed")
    run = str(told["id"])
    wait_until(lambda: len(list(results.glob("*"))) > before, "the first fold", 300)
    for process in of_run(run):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)

    def ended() -> bool:
        assert house.state(run) not in ("FAILED", "CANCELLED")
        return house.state(run) == "COMPLETED"

    begun = time.monotonic()
    assert wait_until(ended, "the end of the run that crashed", 600)
    found(seconds_until_completed=round(time.monotonic() - begun, 1))


def of_run(run: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"PREFECT__FLOW_RUN_ID={run}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
    return found

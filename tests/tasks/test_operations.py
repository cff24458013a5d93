"""What keeps a machine in order: the doctor and the clean-up."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from commands import evenfold
from evenfold.splitters import SplitError
from evenfold.splitters.times import age_of
from evenfold.tasks import Home
from evenfold.tasks.doctor import Diagnosis, deployed, examine
from evenfold.tasks.store import clean
from prefect import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Crashed, Failed, Scheduled
from servers import prefect_server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
    for name in ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", "EVENFOLD_RESULTS"):
        monkeypatch.delenv(name, raising=False)
    return Home.here()


def told(home: Home) -> dict[str, Diagnosis]:
    return {each.check: each for each in examine(home)}


def test_a_machine_in_order_has_no_fixes(home: Home) -> None:
    found = told(home)
    assert {"prefect", "mlflow", "home"} <= set(found)
    assert not [each for each in found.values() if not each.ok or each.fix or not each.message]


@pytest.mark.soak
def test_a_schedule_that_is_silent_and_runs_that_nobody_takes_are_named(
    home: Home, prefect_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose scheduler does not work looks healthy; the doctor names the deployments, and what to look at."""
    off = {"PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false"}
    seen = []
    with (
        prefect_server(prefect_folder.parent, more=off) as api,
        temporary_settings({PREFECT_API_URL: api}),
        get_client(sync_client=True) as client,
    ):
        monkeypatch.setenv("PREFECT_API_URL", api)
        flow = client.create_flow_from_name("evaluate")
        cron = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 3 * * *", timezone="UTC"), active=True)
        made = client.create_deployment(flow, "nightly", schedules=[cron], tags=["evenfold"])
        for wait in (None, 60, -600):
            if wait:
                when = datetime.now(UTC) + timedelta(seconds=wait)
                client.create_flow_run_from_deployment(made, state=Scheduled(scheduled_time=when))
            seen.append(told(home)["nightly"])
    silent, coming, late = seen
    assert not silent.ok
    assert "whenever>=0.11" in silent.fix
    assert coming.ok
    assert not late.ok
    assert "prefect worker start" in late.fix


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = told(Home(tmp_path / "file" / "home"))
    assert not found["home"].ok
    assert str(tmp_path / "file" / "home") in found["home"].message


def test_a_home_that_is_not_there_yet_is_not_made_by_looking(tmp_path: Path) -> None:
    """What is asked is whether it can be made, and so what is next to it is asked."""
    found = told(Home(tmp_path / "new" / "home"))["home"]
    assert found.ok
    assert f"{tmp_path / 'new' / 'home'} can be made, " in found.message
    assert not list(tmp_path.iterdir())


def test_doctor_speaks_json_and_fails_by_its_exit_code(home: Home) -> None:
    """For a script: a list of findings, and exit code 1 where one is not ok."""
    nowhere = {"EVENFOLD_HOME": str(home.path), "MLFLOW_TRACKING_URI": "sqlite:////proc/nowhere/a.db"}
    done = evenfold(home.path.parent, "doctor", "--json", **nowhere)
    assert done.returncode == 1, done.stderr
    bad = [each for each in json.loads(done.stdout) if not each["ok"]]
    assert [each["check"] for each in bad] == ["MLflow store"]
    assert bad[0]["fix"]


def test_clean_looks_wherever_results_lie_and_takes_what_was_half_written_a_day_ago(home: Home) -> None:
    """Old results, scores, models and data, and no manifest; what a kill left half-written waits for no month."""
    for hours, place in ((40 * 24, home.results), (40 * 24, home.scores), (40 * 24, home.shared / "models"),
                         (40 * 24, home.data), (40 * 24, home.splits), (25, home.results / "score"),
                         (25, home.shared / "snapshots"), (23, home.results / "audit"),
                         (41, home.scores / "new")):  # fmt: skip
        place.mkdir(parents=True, exist_ok=True)
        file = place / (".writing-1" if hours < 40 else "file")
        file.write_bytes(b"1234")
        os.utime(file, (time.time() - hours * 3_600,) * 2)
    assert clean(home, age_of("30d"), dry_run=True) == clean(home, age_of("30d")) == [4] * 6
    assert {file.parent.name for file in home.shared.rglob("*") if file.is_file()} == {"audit", "new", "splits"}


def test_an_age_is_a_number_of_one_unit() -> None:
    ages = {"30s": 30, "30m": 1_800, "12h": 43_200, "2d": 172_800, "4w": 2_419_200}
    assert {age: age_of(age) for age in ages} == ages
    for age in ("30", "30 days", "-1d", ""):
        with pytest.raises(SplitError, match="such as 30d"):
            age_of(age)


def test_projects_share_results_by_one_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests, scores, results and locks move together; records and data stay in each home; a bucket has a mirror."""
    monkeypatch.setenv("EVENFOLD_RESULTS", str(tmp_path / "shared"))
    one, other = Home(tmp_path / "one"), Home(tmp_path / "other")
    for name in ("splits", "scores", "results", "locks"):
        assert getattr(one, name) == getattr(other, name) == tmp_path / "shared" / name
    assert one.data != other.data
    monkeypatch.setenv("EVENFOLD_RESULTS", "s3://bucket/results")
    assert one.results.is_relative_to(one.path)
    assert one.results.relative_to(one.path) == other.results.relative_to(other.path)


def test_what_broke_off_since_the_last_success_is_named(prefect_server: None) -> None:
    """Failed and crashed runs, and how old the last success is; a success clears what was."""
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("retrain")
        of_ours: Any = {"tags": ["evenfold"], "entrypoint": "evenfold.flows.retrain"}
        cron = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 * * * *", timezone="UTC"), active=True)
        name = f"weekly {time.time_ns()}"
        made = client.create_deployment(flow, name, schedules=[cron], **of_ours)

        def ended(state: Any) -> None:
            run = client.create_flow_run_from_deployment(made)
            client.set_flow_run_state(run.id, state, force=True)

        def found(hours: float = 0.0) -> Diagnosis:
            later = datetime.now(UTC) + timedelta(hours=hours)
            return next(each for each in deployed(client, later) if each.check == name)

        for hours in (1, 2):
            when = datetime.now(UTC) + timedelta(hours=hours)
            client.create_flow_run_from_deployment(made, state=Scheduled(scheduled_time=when))
        ended(Completed())
        assert found().ok
        assert found().message.endswith("it is due every 60 min")
        ended(Failed(message="the host died"))
        ended(Crashed(message="MLflow is out of reach\nand more"))
        broken = found()
        assert not broken.ok
        assert broken.message == "2 runs broke off since the last success, the last as CRASHED: MLflow is out of reach"
        late = found(2.8)
        assert "no worker has taken its run for 120 s" in late.message
        assert "3 h ago; it is due every 60 min" in late.message
        client.delete_deployment(made)

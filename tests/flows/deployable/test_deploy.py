"""One command makes a deployment of a specification and a model, and updates it; its pool names its passwords."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from evenfold.flows import cli
from evenfold.flows.commands.deploying import PATIENT, deploy, job_variables
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from prefect import get_client
from prefect.blocks.system import Secret
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker
from typer.testing import CliRunner

SPEC = "name: trial\ncolumns: {key: id, target: y}\nstrategy: KFold\nparams: {n_splits: 3}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trial.yaml").write_text(SPEC)
    (tmp_path / "model.yaml").write_text("estimator: sklearn.linear_model:Ridge\nparams: {alpha: 2.0}\n")
    return tmp_path


def test_one_command_makes_a_deployment_and_updates_it(prefect_home: Home, folder: Path) -> None:
    """The specification and the model are its parameters, the schedule is on, and one run goes at a time."""
    asked = ["deploy", "trial.yaml", "--data", "rows.parquet", "--model", "model.yaml", "--json"]
    told = []
    for cron in ("0 4 * * 1", "30 5 * * *"):
        done = CliRunner().invoke(cli.app, [*asked, "--cron", cron, "--timezone", "Europe/Berlin"])
        assert done.exit_code == 0, done.output
        told.append(json.loads(done.stdout))
    assert [each["what"] for each in told] == ["made", "updated"]
    assert told[0]["id"] == told[1]["id"]
    with get_client(sync_client=True) as client:
        made = client.read_deployment_by_name("retrain/trial")
        assert client.read_work_pool("evenfold").type == "process"
    assert made.entrypoint == "evenfold.flows.retrain"
    assert made.parameters["model"] == {"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": 2.0}}
    assert made.parameters["spec"]["columns"]["target"] == "y"
    assert [(each.schedule.cron, each.schedule.timezone, each.active) for each in made.schedules] == [
        ("30 5 * * *", "Europe/Berlin", True)
    ]
    assert {"evenfold", "retrain", "split:trial"} == set(made.tags)
    assert made.job_variables["working_dir"] == str(folder)
    assert made.job_variables["env"]["EVENFOLD_HOME"] == str(prefect_home.path)
    # A run that finds the slot taken waits for it: cancelled, the only run of a week would be lost.
    assert made.global_concurrency_limit.limit == 1
    assert made.concurrency_options.collision_strategy == "ENQUEUE"


def test_an_update_keeps_a_pause_and_says_what_it_changes(prefect_home: Home, folder: Path) -> None:
    """Of the schedule and of the deployment; queue, tags, registered name and retries can be said, too."""
    asked = ["deploy", "trial.yaml", "--data", "rows.parquet", "--name", "paused", "--cron"]
    assert CliRunner().invoke(cli.app, [*asked, "0 4 * * 1"]).exit_code == 0
    with get_client(sync_client=True) as client:
        made = client.read_deployment_by_name("retrain/paused")
        daily = IntervalSchedule(interval=timedelta(days=1))
        client.update_deployment_schedule(made.id, made.schedules[0].id, active=False, schedule=daily)
        client.pause_deployment(made.id)
    more = ["--queue", "night", "--registered-name", "shop", "--json"]
    done = CliRunner().invoke(cli.app, [*asked, "0 5 * * 1", *more])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["paused"]
    (before,), after = told["changes"].pop("schedules")
    assert ("days=1" in before, after) == (True, ["0 5 * * 1 (UTC)"])
    assert told["changes"] == {"parameters.registered_name": [None, "shop"], "queue": ["default", "night"]}
    with get_client(sync_client=True) as client:
        made = client.read_deployment_by_name("retrain/paused")
    assert (made.paused, made.schedules[0].active) == (True, False)


def test_what_cannot_be_deployed_is_refused_first(
    prefect_home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that Prefect would keep, a pool of another kind: a sentence, and nothing is made."""

    def asked(data: str = "rows.parquet", **more: Any) -> Any:
        fields: dict[str, Any] = {"cron": None, "timezone": "UTC", "pool": "evenfold", "image": "", "name": "refused"}
        fields |= {"model": None, "flow": "evaluate"} | more
        return deploy(folder / "trial.yaml", data, **fields)

    with pytest.raises(SplitError, match=r"^https://127\.0\.0\.1/a\.pq is given with a secret"):
        asked("https://127.0.0.1/a.pq?token=geheim")  # Prefect would keep it among the parameters
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="elsewhere", type="ecs"))
        with pytest.raises(SplitError, match="of type ecs; choose one of type process, docker, kubernetes"):
            asked(pool="elsewhere")
        with pytest.raises(SplitError, match=r"^--cron '0 4 \* \* 1' in Nowhere/Land is not a time"):
            asked(cron="0 4 * * 1", timezone="Nowhere/Land")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ada:geheim@mlflow.example")
        with pytest.raises(SplitError, match=r"^MLFLOW_TRACKING_URI holds a password, which Prefect would keep; "):
            asked()
        assert "refused" not in {each.name for each in client.read_deployments()}


@pytest.mark.parametrize(("kind", "package", "worker"), [
    ("docker", "prefect_docker.worker", "DockerWorker"),
    ("kubernetes", "prefect_kubernetes.worker", "KubernetesWorker"),
])  # fmt: skip
def test_each_variable_is_one_that_the_pools_worker_knows(kind: str, package: str, worker: str) -> None:
    """Prefect leaves out, without a word, what a pool's type does not declare."""
    reason = f"{package} is not installed; make partners installs it"
    known = getattr(pytest.importorskip(package, reason=reason), worker).get_default_base_job_template()
    assert set(job_variables(kind, "us/evenfold:1")) <= set(known["variables"]["properties"])


def test_a_pool_names_the_passwords_of_its_runs(prefect_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As secret blocks of Prefect's, which a worker looks up for each run, beside what the deployment takes along."""
    Secret(value="geheim").save("mlflow-password", overwrite=True)
    pool = ProcessWorker.get_default_base_job_template()
    named = {"MLFLOW_TRACKING_PASSWORD": "{{ prefect.blocks.secret.mlflow-password }}"}
    pool["variables"]["properties"]["env"]["default"] = named
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    along = job_variables("process", "")
    given = asyncio.run(ProcessJobConfiguration.from_template_and_values(pool, along)).env
    taken = PATIENT | {"MLFLOW_TRACKING_URI": "http://mlflow:5000", "EVENFOLD_HOME": str(prefect_home.path)}
    assert given == taken | {"MLFLOW_TRACKING_PASSWORD": "geheim"}

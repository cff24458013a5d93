"""For a machine without workers: one process that holds the deployments and runs them.

``python -m evenfold.deployments.serve`` reads the same prefect.yaml. A run is a process of its own and costs about
seven seconds of start. When this process is stopped, its schedules pause, and go on when it starts again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from evenfold.flows.commands.deploying import PATIENT
from evenfold.tasks.runtime.settings import Settings
from prefect import serve
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.client.schemas.schedules import CronSchedule
from prefect.flows import load_flow_from_entrypoint
from prefect.types.entrypoint import EntrypointType

FILE = Path(__file__).with_name("prefect.yaml")


def deployments(file: Path = FILE) -> list[Any]:
    """Return the deployments that a prefect.yaml describes, for this process to serve."""
    described = yaml.safe_load(file.read_text(encoding="utf-8"))["deployments"]
    return [_deployment(each) for each in described]


def _deployment(described: dict[str, Any]) -> Any:
    return load_flow_from_entrypoint(described["entrypoint"], use_placeholder_flow=False).to_deployment(
        name=described["name"],
        description=described["description"],
        tags=described["tags"],
        parameters=described["parameters"],
        concurrency_limit=ConcurrencyLimitConfig(**described["concurrency_limit"]),
        enforce_parameter_schema=described["enforce_parameter_schema"],
        schedules=[_schedule(schedule) for schedule in described.get("schedules", [])],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def _schedule(described: dict[str, Any]) -> Any:
    cron = CronSchedule(cron=described["cron"], timezone=described["timezone"])
    return DeploymentScheduleCreate(schedule=cron, active=described["active"], slug=described["slug"])


def main() -> None:
    """Serve prefect.yaml, or EVENFOLD_DEPLOYMENTS; paths of data are relative to EVENFOLD_PROJECT."""
    settings = Settings.here()
    os.chdir(settings.project)
    os.environ.update(PATIENT | os.environ)  # of the runs, which begin with this environment
    serve(*deployments(settings.deployments or FILE), pause_on_shutdown=True)


if __name__ == "__main__":
    main()

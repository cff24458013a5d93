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
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.settings import Settings
from evenfold.tasks.runtime.signing import require_team_key
from prefect import serve
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.flows import load_flow_from_entrypoint
from prefect.types.entrypoint import EntrypointType

FILE = Path(__file__).with_name("prefect.yaml")
_AS_THEY_ARE = ("name", "description", "tags", "parameters", "version", "enforce_parameter_schema")
_WHEN = ("cron", "day_or", "interval", "anchor_date", "rrule", "timezone")


def deployments(file: Path = FILE) -> list[Any]:
    """Return the deployments that a prefect.yaml describes, for this process to serve.

    Whatever Prefect lets one leave out may be left out; schedules are by cron, interval or rrule.
    """
    described = yaml.safe_load(file.read_text(encoding="utf-8"))["deployments"]
    return [_deployment(each) for each in described]


def _deployment(described: dict[str, Any]) -> Any:
    given = {name: described[name] for name in _AS_THEY_ARE if name in described}
    limit = described.get("concurrency_limit")
    return load_flow_from_entrypoint(described["entrypoint"], use_placeholder_flow=False).to_deployment(
        **given,
        concurrency_limit=ConcurrencyLimitConfig(**limit) if isinstance(limit, dict) else limit,
        schedules=[_schedule(schedule) for schedule in described.get("schedules") or []],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def _schedule(described: dict[str, Any]) -> Any:
    when = {name: value for name, value in described.items() if name in _WHEN}
    how = {name: value for name, value in described.items() if name not in _WHEN}
    return DeploymentScheduleCreate.model_validate({"schedule": when} | how)


def main() -> None:
    """Serve prefect.yaml, or EVENFOLD_DEPLOYMENTS; paths of data are relative to EVENFOLD_PROJECT."""
    settings = Settings.here()
    require_team_key(Home.here(), unattended=True)
    os.chdir(settings.project)
    os.environ.update(PATIENT | os.environ)  # of the runs, which begin with this environment
    serve(*deployments(settings.deployments or FILE), pause_on_shutdown=True)


if __name__ == "__main__":
    main()

"""A deployment of a specification and a model, made or updated on a Prefect server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from evenfold.manifests import SplitSpec
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import is_address, require_no_password
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.server import kept_server
from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron, Schedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import BaseModel

from evenfold import flows

PROCESS, DOCKER, KUBERNETES = "process", "docker", "kubernetes"
HOME_IN_A_CONTAINER, PROJECT_IN_A_CONTAINER = "/evenfold", "/project"


def template(kind: str, env: dict[str, str], project: Path, image: str) -> Mapping[str, object]:
    """Return what a run is told (job variables), by the type of the pool that it goes to: one of ``KINDS``."""
    if kind == PROCESS:
        return {"env": env, "working_dir": str(project)}
    inside = env | {"EVENFOLD_HOME": HOME_IN_A_CONTAINER, "EVENFOLD_DATA_ROOTS": PROJECT_IN_A_CONTAINER}
    job = {"image": image, "env": inside, "image_pull_policy": "IfNotPresent"}
    if kind == KUBERNETES:
        return job
    volumes = [f"evenfold:{HOME_IN_A_CONTAINER}", f"{project}:{PROJECT_IN_A_CONTAINER}:ro"]
    return job | {"volumes": volumes, "container_create_kwargs": {"working_dir": PROJECT_IN_A_CONTAINER}}


KINDS = (PROCESS, DOCKER, KUBERNETES)
# A run outlasts minutes without Prefect's server, which answers 500 while its database is away.
PATIENT = {"PREFECT_CLIENT_MAX_RETRIES": "8", "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504"}
# Where results and records lie is for every run of a home the same; a password is for the worker or its pool (secrets).
TAKEN_ALONG = ("EVENFOLD_RESULTS", "EVENFOLD_ALLOWED_MODULES", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME")


class Deployed(TypedDict):
    """A deployment, whether it was made or updated, what an update changed, and the pool that it runs in."""

    deployment: str
    id: str
    what: str
    pool: str
    type: str
    paused: bool
    changes: dict[str, tuple[object, object]]


def deployed(
    home: Home, spec: Path, data: str, model: str | None, flow: str, cron: str | None, timezone: str, pool: str,
    image: str, name: str | None, *, queue: str | None = None, tags: Sequence[str] = (),
    registered_name: str | None = None, retries: int | None = None,
) -> Deployed:  # fmt: skip
    """Make or update the deployment and return what became of it; raises SplitError or ModelError before it does.

    One run at a time: of two that record the same evaluation at once each might make a run of it. The other waits.
    """
    published = getattr(flows, flow)
    specification, parameters = _checked(published, data, spec=spec, model=model, registered_name=registered_name)
    name = name or specification.name
    schedule = _schedule(cron, timezone)
    with _server(home), get_client(sync_client=True) as client:
        kind, earlier = _pool(client, pool), None
        with contextlib.suppress(ObjectNotFound):
            earlier = client.read_deployment_by_name(f"{flow}/{name}")
        if schedule and earlier and earlier.schedules and not any(each.active for each in earlier.schedules):
            schedule = replace(schedule, active=False)
        again = {} if retries is None else {"PREFECT_FLOWS_DEFAULT_RETRIES": str(retries)}
        deployment = published.to_deployment(
            name,
            parameters=parameters,
            tags=["evenfold", flow, f"split:{specification.name}", *tags],
            paused=earlier.paused if earlier else False,
            description=f"evenfold: {flow} {specification.name}.",
            work_pool_name=pool,
            work_queue_name=queue,
            job_variables=template(kind, _environment(home, kind) | again, Path.cwd(), image),
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
            **({"schedule": schedule} if schedule else {}),
        )
        current = client.read_deployment(deployment.apply())
    before, after = _facts(earlier) if earlier else {}, _facts(current)
    differing = [what for what in sorted(before | after) if before.get(what) != after.get(what)] if earlier else []
    idle = bool(current.schedules) and not any(each.active for each in current.schedules)
    return Deployed(
        deployment=f"{flow}/{name}", id=str(current.id), what="updated" if earlier else "made", pool=pool, type=kind,
        paused=current.paused or idle, changes={what: (before.get(what), after.get(what)) for what in differing},
    )  # fmt: skip


def _schedule(cron: str | None, timezone: str) -> Schedule | None:
    """Return when a deployment runs by itself; raises SplitError for what is no time."""
    try:
        return None if cron is None else Cron(cron, timezone=timezone)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise SplitError(
            f"--cron {cron!r} in {timezone} is not a time ({reason}); write '0 4 * * 1', Europe/Berlin."
        ) from None


def _checked(published: Any, data: str, **declared: object) -> tuple[SplitSpec, dict[str, object]]:
    """Return the specification, and the parameters as Prefect keeps them; SplitError or ModelError for bad ones."""
    if is_address(data):
        require_no_password(data)  # Prefect keeps what it calls a flow with
    fields = {name: value for name, value in declared.items() if value is not None}
    request = published.asked.read({"data": data, **fields})
    if request.spec.strategy is not None:
        request.spec.splitter()  # a strategy or parameter that there is not is refused here, not on Monday at four
    parameters: dict[str, object] = {"data": data}
    for name in fields:
        value = getattr(request, name)
        parameters[name] = value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else value
    return request.spec, parameters


def _facts(deployment: Any) -> dict[str, object]:
    """Return what a deployment says of its runs, each value under a name of its own."""
    facts: dict[str, object] = {
        "pool": deployment.work_pool_name, "queue": deployment.work_queue_name, "tags": sorted(deployment.tags),
        "schedules": [f"{each.schedule.cron} ({each.schedule.timezone})" for each in deployment.schedules],
    }  # fmt: skip
    waiting = [("", {"parameters": deployment.parameters, "job": deployment.job_variables})]
    for place, values in waiting:
        for name, value in values.items():
            if isinstance(value, dict):
                waiting.append((f"{place}{name}.", value))
            else:
                facts[place + name] = value
    return facts


def _environment(home: Home, kind: str) -> dict[str, str]:
    """Return the variables that a run is started with: what waits for servers, and what is set here."""
    variables = PATIENT | {name: os.environ[name] for name in (*PATIENT, *TAKEN_ALONG) if os.environ.get(name)}
    return variables | ({"EVENFOLD_HOME": str(home.path)} if kind == PROCESS else {})


def _server(home: Any) -> Any:
    """Return a context in which the server that deployments go to is the one that is set, or kept for the home."""
    if PREFECT_API_URL.value():
        return contextlib.nullcontext()
    server = kept_server(home)
    if server is None:
        raise SplitError("a deployment lives on a Prefect server; set PREFECT_API_URL, or start one with evenfold up.")
    return temporary_settings({PREFECT_API_URL: server.api})


def _pool(client: Any, name: str) -> str:
    """Return the type of a work pool, made for processes where there is none."""
    try:
        kind = client.read_work_pool(name).type
    except ObjectNotFound:
        kind = client.create_work_pool(WorkPoolCreate(name=name, type=PROCESS)).type
    if kind not in KINDS:
        raise SplitError(f"pool {name} is of type {kind}; choose one of type {', '.join(KINDS)}.")
    return str(kind)

"""The command that makes a deployment of a specification and a model on a Prefect server, or updates it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from evenfold.splitters.deployed import is_address, require_no_password
from evenfold.splitters.errors import SplitError

from evenfold import flows

from .flags import Answer, busy

if TYPE_CHECKING:
    from evenfold.manifests import SplitSpec
    from evenfold.tasks.runtime.home import Home
    from prefect.schedules import Schedule

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


def deploy(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="YAML or JSON file of the specification.")],
    data: Annotated[str, typer.Option(help="The table, as the worker finds it; relative to this folder.")],
    model: Annotated[str | None, typer.Option(help="Import path of an estimator, or a YAML or JSON file.")] = None,
    flow: Annotated[Literal["retrain", "evaluate", "split"], typer.Option(help="What a run does.")] = "retrain",
    cron: Annotated[str | None, typer.Option(help="When it runs: '0 4 * * 1' is Mondays at four.")] = None,
    timezone: Annotated[str, typer.Option(help="Of which place that is the time, such as Europe/Berlin.")] = "UTC",
    pool: Annotated[str, typer.Option(help="Work pool: process, docker or kubernetes; made if none.")] = "evenfold",
    image: Annotated[str, typer.Option(help="Image of a docker or kubernetes pool.")] = "evenfold:latest",
    queue: Annotated[str | None, typer.Option(help="Work queue of that pool; by default the pool's own.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the deployment; by default the specification's.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Beside those that say what it is; several times.")] = None,
    registered_name: Annotated[str | None, typer.Option(help="Of the model that a retraining registers.")] = None,
    retries: Annotated[int | None, typer.Option(min=0, help="How often a failed run is tried again.")] = None,
) -> Answer:
    """Make a deployment of a specification on the Prefect server, or update it.

    An update says what it changes, and leaves a deployment or a schedule that is paused as it is.

    Example: evenfold deploy flights.yaml --data examples/flights.parquet --cron "0 4 * * 1"
    """
    published = getattr(flows, flow)
    with busy(f"deploying {flow} of {spec}") as home:
        request, parameters = _checked(published, data, spec=spec, model=model, registered_name=registered_name)
        name, tags = name or request.name, ["evenfold", flow, f"split:{request.name}", *(tag or ())]
        kind, earlier, current = _applied(
            home, published, name, _schedule(cron, timezone), pool, image, retries, parameters=parameters, tags=tags,
            description=f"evenfold: {flow} {request.name}.", work_queue_name=queue,
        )  # fmt: skip
    what = "updated" if earlier else "made"
    when = f"runs at {cron} ({timezone})" if cron else "runs when it is asked to"
    paused, changes = current.paused or _is_idle(current), _changes(earlier, current) if earlier else {}
    words = [
        f"{flow}/{name}: {what}; {when}, in pool {pool} ({kind})",
        *(["  it is paused, and stays so: prefect deployment schedule resume ..."] if paused else []),
        *(f"  {fact}: {before} -> {after}" for fact, (before, after) in changes.items()),
        f"  a worker takes its runs: prefect worker start --pool {pool}",
    ]
    came = {"deployment": f"{flow}/{name}", "id": str(current.id), "what": what, "pool": pool, "type": kind}
    return Answer(came | {"paused": paused, "changes": changes}, "\n".join(words))


def _applied(
    home: Home, published: Any, name: str, schedule: Schedule | None, pool: str, image: str, retries: int | None,
    **options: object,
) -> tuple[str, Any, Any]:  # fmt: skip
    """Make or update a deployment; return the type of its pool, what was there before, and what is there now.

    One run at a time: of two that record the same evaluation at once each might make a run of it. The other waits.
    """
    from prefect import get_client
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.exceptions import ObjectNotFound

    variables = PATIENT | {each: os.environ[each] for each in (*PATIENT, *TAKEN_ALONG) if os.environ.get(each)}
    if retries is not None:
        variables["PREFECT_FLOWS_DEFAULT_RETRIES"] = str(retries)
    with _server(home), get_client(sync_client=True) as client:
        kind, earlier = _pool(client, pool), None
        with contextlib.suppress(ObjectNotFound):
            earlier = client.read_deployment_by_name(f"{published.name}/{name}")
        if schedule and earlier and _is_idle(earlier):
            schedule = replace(schedule, active=False)
        if kind == PROCESS:
            variables["EVENFOLD_HOME"] = str(home.path)
        deployment = published.to_deployment(
            name,
            **options,
            paused=earlier.paused if earlier else False,
            work_pool_name=pool,
            job_variables=template(kind, variables, Path.cwd(), image),
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
            **({"schedule": schedule} if schedule else {}),
        )
        return kind, earlier, client.read_deployment(deployment.apply())


def _is_idle(deployment: Any) -> bool:
    """Return whether a deployment has schedules, and all are off."""
    return bool(deployment.schedules) and not any(each.active for each in deployment.schedules)


def _schedule(cron: str | None, timezone: str) -> Schedule | None:
    """Return when a deployment runs by itself; raises SplitError for what is no time."""
    from prefect.schedules import Cron

    try:
        return None if cron is None else Cron(cron, timezone=timezone)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise SplitError(
            f"--cron {cron!r} in {timezone} is not a time ({reason}); write '0 4 * * 1', Europe/Berlin."
        ) from None


def _checked(published: Any, data: str, **declared: object) -> tuple[SplitSpec, dict[str, object]]:
    """Return the specification, and the parameters as Prefect keeps them; SplitError or ModelError for bad ones."""
    from pydantic import BaseModel

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


def _changes(earlier: Any, current: Any) -> dict[str, tuple[object, object]]:
    """Return what an update of a deployment changed: before, and after."""
    from evenfold.manifests.exchange.diff import flat

    before, after = (dict(flat(_facts(deployment))) for deployment in (earlier, current))
    pairs = {what: (before.get(what), after.get(what)) for what in sorted(before | after)}
    return {what: (was, now) for what, (was, now) in pairs.items() if was != now}


def _facts(deployment: Any) -> dict[str, object]:
    """Return what a deployment says of its runs."""
    return {
        "pool": deployment.work_pool_name, "queue": deployment.work_queue_name, "tags": sorted(deployment.tags),
        "schedules": [f"{each.schedule.cron} ({each.schedule.timezone})" for each in deployment.schedules],
        "parameters": deployment.parameters, "job": deployment.job_variables,
    }  # fmt: skip


def _server(home: Any) -> Any:
    """Return a context in which the server that deployments go to is the one that is set, or kept for the home."""
    from evenfold.tasks.runtime.server import kept_server
    from prefect.settings import PREFECT_API_URL, temporary_settings

    if PREFECT_API_URL.value():
        return contextlib.nullcontext()
    server = kept_server(home)
    if server is None:
        raise SplitError("a deployment lives on a Prefect server; set PREFECT_API_URL, or start one with evenfold up.")
    return temporary_settings({PREFECT_API_URL: server.api})


def _pool(client: Any, name: str) -> str:
    """Return the type of a work pool, made for processes where there is none."""
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound

    try:
        kind = client.read_work_pool(name).type
    except ObjectNotFound:
        kind = client.create_work_pool(WorkPoolCreate(name=name, type=PROCESS)).type
    if kind not in KINDS:
        raise SplitError(f"pool {name} is of type {kind}; choose one of type {', '.join(KINDS)}.")
    return str(kind)

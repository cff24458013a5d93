"""The command that makes a deployment of a specification and a model, or updates it, on a Prefect server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import typer

from .busy import answer, busy
from .flags import Json

if TYPE_CHECKING:
    from evenfold.tasks import Home

FlowName = Literal["retrain", "evaluate", "split"]
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
    flow: Annotated[FlowName, typer.Option(help="What a run does.")] = "retrain",
    cron: Annotated[str | None, typer.Option(help="When it runs: '0 4 * * 1' is Mondays at four.")] = None,
    timezone: Annotated[str, typer.Option(help="Of which place that is the time, such as Europe/Berlin.")] = "UTC",
    pool: Annotated[
        str, typer.Option(help="Work pool: process, docker or kubernetes; made if there is none.")
    ] = "evenfold",
    image: Annotated[str, typer.Option(help="Image of a docker or kubernetes pool.")] = "evenfold:latest",
    queue: Annotated[str | None, typer.Option(help="Work queue of that pool; by default the pool's own.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the deployment; by default the specification's.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Beside those that say what it is; several times.")] = None,
    registered_name: Annotated[str | None, typer.Option(help="Of the model that a retraining registers.")] = None,
    retries: Annotated[int | None, typer.Option(min=0, help="How often a failed run is tried again.")] = None,
    as_json: Json = False,
) -> None:
    """Make a deployment of a specification on the Prefect server, or update it.

    An update says what it changes, and leaves a deployment or a schedule that is paused as it is.

    Example: evenfold deploy flights.yaml --data examples/flights.parquet --cron "0 4 * * 1"
    """
    with busy(f"deploying {flow} of {spec}") as home:
        outcome = deployed(
            home, spec, data, model, flow, cron, timezone, pool, image, name, queue=queue, tags=tag or (),
            registered_name=registered_name, retries=retries,
        )  # fmt: skip
    when = f"runs at {cron} ({timezone})" if cron else "runs when it is asked to"
    paused = ["  it is paused, and stays so: prefect deployment schedule resume ..."] if outcome["paused"] else []
    words = [
        f"{outcome['deployment']}: {outcome['what']}; {when}, in pool {pool} ({outcome['type']})", *paused,
        *(f"  {what}: {before} -> {after}" for what, (before, after) in outcome["changes"].items()),
        f"  a worker takes its runs: prefect worker start --pool {pool}",
    ]  # fmt: skip
    answer(outcome, as_json, "\n".join(words))


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
    home: Home, spec: Path, data: str, model: str | None, flow: FlowName, cron: str | None, timezone: str, pool: str,
    image: str, name: str | None, *, queue: str | None = None, tags: Sequence[str] = (),
    registered_name: str | None = None, retries: int | None = None,
) -> Deployed:  # fmt: skip
    """Make or update the deployment and return what became of it; raises SplitError or ModelError before it does.

    One run at a time: of two that record the same evaluation at once each might make a run of it. The other waits.
    """
    from evenfold.manifests.tables.addresses import is_address, require_no_password
    from evenfold.splitters import SplitError
    from prefect import get_client
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.schedules import Cron

    from evenfold import flows

    if is_address(data):
        require_no_password(data)  # Prefect keeps what it calls a flow with
    published = getattr(flows, flow)
    wanted = {"spec": spec, "model": model, "registered_name": registered_name}
    read = published.asked.read(
        {"data": data} | {name: value for name, value in wanted.items() if value is not None}
    ).parameters
    specification = read["spec"]
    if specification.strategy is not None:
        specification.splitter()  # a strategy or parameter that there is not is refused here, not on Monday at four
    declared = {name: read[name] for name in ("spec", "model") if read.get(name) is not None}
    parameters = {name: value.model_dump(mode="json", exclude_unset=True) for name, value in declared.items()}
    parameters |= {} if registered_name is None else {"registered_name": registered_name}
    name = name or specification.name
    try:
        schedule = None if cron is None else Cron(cron, timezone=timezone)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise SplitError(
            f"--cron {cron!r} in {timezone} is not a time ({reason}); write '0 4 * * 1', Europe/Berlin."
        ) from None
    with _server(home), get_client(sync_client=True) as client:
        kind, earlier = _pool(client, pool), _known(client, f"{flow}/{name}")
        if schedule and earlier and earlier.schedules and not any(each.active for each in earlier.schedules):
            schedule = replace(schedule, active=False)
        again = {} if retries is None else {"PREFECT_FLOWS_DEFAULT_RETRIES": str(retries)}
        deployment = published.to_deployment(
            name,
            parameters=parameters | {"data": data},
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
    import contextlib

    from evenfold.splitters import SplitError
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
    from evenfold.splitters import SplitError
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound

    try:
        kind = client.read_work_pool(name).type
    except ObjectNotFound:
        kind = client.create_work_pool(WorkPoolCreate(name=name, type=PROCESS)).type
    if kind not in KINDS:
        raise SplitError(f"pool {name} is of type {kind}; choose one of type {', '.join(KINDS)}.")
    return str(kind)


def _known(client: Any, deployment: str) -> Any:
    """Return the deployment of a name, or None."""
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(deployment)
    except ObjectNotFound:
        return None

"""The command that makes a deployment of a specification and a model, or updates it, on a Prefect server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import typer

from .busy import busy
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
# Where results and records lie is for every run of a home the same; a password is for the worker, or for a block.
TAKEN_ALONG = ("EVENFOLD_RESULTS", "EVENFOLD_STORE", "EVENFOLD_ALLOWED_MODULES", "MLFLOW_TRACKING_URI")


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
    name: Annotated[str | None, typer.Option(help="Of the deployment; by default the specification's.")] = None,
    as_json: Json = False,
) -> None:
    """Make a deployment of a specification and a model on the Prefect server, or update it.

    Example: evenfold deploy flights.yaml --data examples/flights.parquet --cron "0 4 * * 1"
    """
    from evenfold.tasks.runtime.home import prepared_home

    home = prepared_home()
    from .console import consoles

    with busy(f"deploying {flow} of {spec}"):
        made = deployed(home, spec, data, model, flow, cron, timezone, pool, image, name)
    out, _ = consoles()
    if as_json:
        out.print_json(data=made)
        return
    when = f"runs at {cron} ({timezone})" if cron else "runs when it is asked to"
    out.print(f"{made['deployment']}: {made['what']}; {when}, in pool {pool} ({made['type']})")
    out.print(f"  a worker takes its runs: prefect worker start --pool {pool}")


class Deployed(TypedDict):
    """A deployment, whether it was made or updated, and the pool that it runs in with its type."""

    deployment: str
    id: str
    what: str
    pool: str
    type: str


def deployed(
    home: Home, spec: Path, data: str, model: str | None, flow: FlowName, cron: str | None, timezone: str, pool: str,
    image: str, name: str | None,
) -> Deployed:  # fmt: skip
    """Make or update the deployment and return its name, id and pool; raises SplitError or ModelError before it does.

    One run at a time: of two that record the same evaluation at once each might make a run of it. The other waits.
    """
    from evenfold.manifests.tables.addresses import is_address
    from evenfold.manifests.tables.passwords import require_no_password
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.schedules import Cron

    from evenfold import flows

    if is_address(data):
        require_no_password(data)  # Prefect keeps what it calls a flow with
    published = getattr(flows, flow)
    read = published.read({"data": data, "spec": spec} | ({} if model is None else {"model": model}))
    asked = read["spec"]
    if asked.strategy is not None:
        asked.splitter()  # a strategy or parameter that there is not is refused here, not on Monday at four
    given = {name: read[name] for name in ("spec", "model") if read.get(name) is not None}
    parameters = {name: value.model_dump(mode="json", exclude_unset=True) for name, value in given.items()}
    schedule, name = _checked(cron, timezone, Cron), name or asked.name
    with _server(home):
        kind, known = _pool(pool, f"{flow}/{name}")
        deployment = published.to_deployment(
            name,
            parameters=parameters | {"data": data},
            tags=["evenfold", flow, f"split:{asked.name}"],
            description=f"evenfold: {flow} {asked.name}.",
            work_pool_name=pool,
            job_variables=template(kind, _environment(home, kind), Path.cwd(), image),
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
            **({"schedule": schedule} if schedule else {}),
        )
        made = str(deployment.apply())
    return Deployed(deployment=f"{flow}/{name}", id=made, what="updated" if known else "made", pool=pool, type=kind)


def _environment(home: Home, kind: str) -> dict[str, str]:
    """Return the variables that a run is started with: what waits for servers, and what is set here."""
    variables = PATIENT | {name: os.environ[name] for name in (*PATIENT, *TAKEN_ALONG) if os.environ.get(name)}
    return variables | ({"EVENFOLD_HOME": str(home.path)} if kind == PROCESS else {})


def _checked(cron: str | None, timezone: str, schedule: Any) -> Any:
    from evenfold.splitters import SplitError

    if cron is None:
        return None
    try:
        return schedule(cron, timezone=timezone)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise SplitError(
            f"--cron {cron!r} in {timezone} is not a time ({reason}); write '0 4 * * 1', Europe/Berlin."
        ) from None


def _server(home: Any) -> Any:
    """Return a context in which the server that deployments go to is the one that is set, or kept for the home."""
    import contextlib

    from evenfold.splitters import SplitError
    from evenfold.tasks.runtime.server import kept_server
    from prefect.settings import PREFECT_API_URL, temporary_settings

    if PREFECT_API_URL.value():
        return contextlib.nullcontext()
    kept = kept_server(home)
    if kept is None:
        raise SplitError("a deployment lives on a Prefect server; set PREFECT_API_URL, or start one with evenfold up.")
    return temporary_settings({PREFECT_API_URL: kept.api})


def _pool(name: str, deployment: str) -> tuple[str, bool]:
    """Return the type of a work pool, made for processes where there is none, and whether the deployment is there."""
    from evenfold.splitters import SplitError
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            kind = client.read_work_pool(name).type
        except ObjectNotFound:
            kind = client.create_work_pool(WorkPoolCreate(name=name, type=PROCESS)).type
        if kind not in KINDS:
            raise SplitError(f"pool {name} is of type {kind}; choose one of type {', '.join(KINDS)}.")
        try:
            client.read_deployment_by_name(deployment)
        except ObjectNotFound:
            return kind, False
    return kind, True

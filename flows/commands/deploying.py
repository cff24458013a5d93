"""The command that makes a deployment of a specification and a model on a Prefect server, or updates it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from evenfold.splitters.errors import SplitError, is_address, redacted, require_no_password
from evenfold.tasks import Home

from evenfold import flows

from .terminal import Output, option

KINDS = PROCESS, DOCKER, KUBERNETES = "process", "docker", "kubernetes"
HOME_IN_A_CONTAINER, PROJECT_IN_A_CONTAINER = "/evenfold", "/project"
# A run outlasts minutes without Prefect's server, which answers 500 while its database is away.
PATIENT = {"PREFECT_CLIENT_MAX_RETRIES": "8", "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504"}
# Where results and records lie is for every run of a home the same; a password is for the worker or its pool (secrets).
TAKEN_ALONG = ("EVENFOLD_RESULTS", "EVENFOLD_ALLOWED_MODULES", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME")


def job_variables(kind: str, image: str, retries: int | None = None) -> Mapping[str, object]:
    """Return what a run of this folder is told, by the type of the pool that it goes to: one of ``KINDS``."""
    env = PATIENT | {each: os.environ[each] for each in (*PATIENT, *TAKEN_ALONG) if os.environ.get(each)}
    env |= {} if retries is None else {"PREFECT_FLOWS_DEFAULT_RETRIES": str(retries)}
    project = str(Path.cwd())
    if kind == PROCESS:
        return {"env": env | {"EVENFOLD_HOME": str(Home.here().path)}, "working_dir": project}
    inside = env | {"EVENFOLD_HOME": HOME_IN_A_CONTAINER, "EVENFOLD_DATA_ROOTS": PROJECT_IN_A_CONTAINER}
    job = {"image": image, "env": inside, "image_pull_policy": "IfNotPresent"}
    if kind == KUBERNETES:
        return job
    volumes = [f"evenfold:{HOME_IN_A_CONTAINER}", f"{project}:{PROJECT_IN_A_CONTAINER}:ro"]
    return job | {"volumes": volumes, "container_create_kwargs": {"working_dir": PROJECT_IN_A_CONTAINER}}


def deploy(
    spec: Annotated[Path, option("YAML or JSON file of the specification.", argument="SPEC")],
    data: Annotated[str, option("The table, as the worker finds it; relative to this folder.")],
    model: Annotated[str | None, option("Import path of an estimator, or a YAML or JSON file.")] = None,
    flow: Annotated[Literal["retrain", "evaluate", "split"], option("What a run does.")] = "retrain",
    cron: Annotated[str | None, option("When it runs: '0 4 * * 1' is Mondays at four.")] = None,
    timezone: Annotated[str, option("Of which place that is the time, such as Europe/Berlin.")] = "UTC",
    pool: Annotated[str, option("Work pool: process, docker or kubernetes; made if none.")] = "evenfold",
    image: Annotated[str, option("Image of a docker or kubernetes pool.")] = "evenfold:latest",
    queue: Annotated[str | None, option("Work queue of that pool; by default the pool's own.")] = None,
    name: Annotated[str | None, option("Of the deployment; by default the specification's.")] = None,
    tag: Annotated[Sequence[str] | None, option("Beside those that say what it is; several times.")] = None,
    registered_name: Annotated[str | None, option("Of the model that a retraining registers.")] = None,
    retries: Annotated[int | None, option("How often a failed run is tried again.", least=0)] = None,
) -> Output:
    """Make a deployment of a specification on the Prefect server, or update it.

    An update says what it changes, and leaves a deployment or a schedule that is paused as it is.

    Example: evenfold deploy flights.yaml --data examples/flights.parquet --cron "0 4 * * 1"
    """
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.exceptions import ObjectNotFound

    if is_address(data):
        require_no_password(data)  # Prefect keeps what it calls a flow with
    for variable in TAKEN_ALONG:
        if redacted(value := os.environ.get(variable, "")) != value:
            raise SplitError(f"{variable} holds a password, which Prefect would keep; give it to the pool or worker.")
    options = {"data": data, "spec": spec, "model": model, "registered_name": registered_name}
    published, earlier = getattr(flows, flow), None
    request = published.request_type.read({name: value for name, value in options.items() if value is not None})
    if request.spec.strategy is not None:
        request.spec.splitter()  # a strategy or parameter that there is not is refused here, not on Monday at four
    title = request.spec.name
    name, tags = name or title, ["evenfold", flow, f"split:{title}", *(tag or ())]
    with server_client() as client:
        with contextlib.suppress(ObjectNotFound):
            earlier = client.read_deployment_by_name(f"{flow}/{name}")
        schedule = None if cron is None else _schedule(cron, timezone, active=not _is_idle(earlier))
        kind = _pool(client, pool)
        deployment = published.to_deployment(
            name, parameters=request.model_dump(mode="json", exclude_unset=True), tags=tags,
            description=f"evenfold: {flow} {title}.", work_pool_name=pool, work_queue_name=queue, schedule=schedule,
            paused=bool(earlier and earlier.paused), job_variables=job_variables(kind, image, retries),
            # Of two runs that record the same evaluation at once each might make a run of it, so the other waits.
            concurrency_limit=ConcurrencyLimitConfig.model_validate({"limit": 1, "collision_strategy": "ENQUEUE"}),
        )  # fmt: skip
        current = client.read_deployment(deployment.apply())
    return _answer(f"{flow}/{name}", f"{cron} ({timezone})" if cron else "", pool, kind, earlier, current)


def _schedule(cron: str, timezone: str, active: bool) -> Any:
    """Return when a deployment runs by itself; raises SplitError for what is no time."""
    from prefect.schedules import Cron

    try:
        ZoneInfo(timezone)  # of which Prefect asks only when it makes the schedule
        return Cron(cron, timezone=timezone, active=active)
    except Exception as error:
        why = f"{cron!r} in {timezone} is not a time ({' '.join(str(error).split())[:200]})"
        raise SplitError(f"--cron {why}; say --cron '0 4 * * 1' --timezone Europe/Berlin.") from None


def _answer(title: str, when: str, pool: str, kind: str, earlier: Any, current: Any) -> Output:
    """Return what came of a deployment, and its words; ``when``: the time of its schedule, "" without one."""
    from evenfold.manifests.exchange.diff import flat

    before, after = (dict(flat({
        "pool": each.work_pool_name, "queue": each.work_queue_name, "tags": sorted(each.tags),
        "schedules": [f"{getattr(at.schedule, 'cron', at.schedule)} ({at.schedule.timezone})" for at in each.schedules],
        "parameters": each.parameters, "job": each.job_variables,
    })) for each in (earlier or current, current))  # fmt: skip
    pairs = {fact: (before.get(fact), after.get(fact)) for fact in sorted(before | after)}
    changes = {fact: (was, now) for fact, (was, now) in pairs.items() if was != now}
    what, paused = "updated" if earlier else "made", current.paused or _is_idle(current)
    words = [
        f"{title}: {what}; {f'runs at {when}' if when else 'runs when it is asked to'}, in pool {pool} ({kind})",
        *([f"  it is paused, and stays so: prefect deployment schedule resume {title} --all"] if paused else []),
        *(f"  {fact}: {was} -> {now}" for fact, (was, now) in changes.items()),
        f"  a worker takes its runs: prefect worker start --pool {pool}",
    ]
    facts = {"deployment": title, "id": str(current.id), "what": what, "pool": pool, "type": kind, "paused": paused}
    return Output(facts | {"changes": changes}, "\n".join(words))


def _is_idle(deployment: Any) -> bool:
    """Return whether there is a deployment that has schedules, and all are off."""
    return bool(deployment and deployment.schedules) and not any(each.active for each in deployment.schedules)


@contextlib.contextmanager
def server_client() -> Iterator[Any]:
    """Yield a client of the server of deployments, which Prefect uses then: the one that is set, or a home's."""
    from evenfold.tasks.runtime.server import kept_server
    from prefect import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    server = None if PREFECT_API_URL.value() else kept_server(Home.here())
    if not (api := server.api if server else PREFECT_API_URL.value()):
        raise SplitError("a deployment lives on a Prefect server; set PREFECT_API_URL, or start one with evenfold up.")
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        yield client


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

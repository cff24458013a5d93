"""Faults of this machine, its servers and its home, and their cures."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import takewhile
from typing import Any

from evenfold.estimates import EvaluationError
from evenfold.splitters import SplitError
from evenfold.tasks.results.store import bucket_of
from evenfold.tasks.runtime.home import Home, redacted

LATE_SECONDS = 120
MOST_RUNS = 50
FEWEST_CRASHES = 2
PARTNERS = ("prefect", "mlflow")
OURS = "evenfold"  # the tag of every deployment in prefect.yaml
FEWEST_FREE_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found and, where it is not ok, what to do."""

    check: str
    ok: bool
    message: str
    fix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redacted(self.message))


def examine(home: Home) -> list[Finding]:
    """Return a finding per check; a check that itself fails is a finding too.

    Nothing is changed, but a bucket that this home has not used yet is tried as its first use would. A home that is not
    there is made only where a bucket, or a store of MLflow's elsewhere, is asked.
    """
    findings: list[Finding] = []
    for check in (_versions, _home, _bucket, _prefect, _mlflow):
        try:
            findings.extend(check(home))
        except Exception as error:
            what = f"could not be looked at: {type(error).__name__}: {error}"
            findings.append(Finding(check.__name__.strip("_").replace("_", " "), False, what, "See there."))
    return findings


def _versions(home: Home) -> Iterator[Finding]:
    from packaging.requirements import Requirement

    wanted = {line.name: line for line in map(Requirement, requires("evenfold") or ()) if line.name in PARTNERS}
    for name in PARTNERS:
        try:
            have = version(name)
        except PackageNotFoundError:
            yield Finding(name, False, "it is not installed", f"pip install '{wanted[name]}'")
            continue
        fits = wanted[name].specifier.contains(have)
        words, fix = (have, "") if fits else (f"{have}: this version was not tested", f"pip install '{wanted[name]}'")
        yield Finding(name, fits, words, fix)


def _home(home: Home) -> Iterator[Finding]:
    places = {home.path: "home"}
    places.setdefault(home.shared, "mirror of shared results" if home.bucket else "shared results")
    for path, name in places.items():
        # What may not be looked at is not there, and its nearest folder that may is asked; a link to nowhere is there.
        there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
        try:
            tempfile.TemporaryFile(dir=there).close()
        except OSError as error:
            yield Finding(name, False, f"{path} cannot be written: {error.strerror}", f"Make {there} writable.")
            continue
        free = shutil.disk_usage(there).free
        roomy = free >= FEWEST_FREE_BYTES
        fix = "" if roomy else "Free some space: evenfold clean --older-than 30d."
        what = "is writable" if there == path else "can be made"
        yield Finding(name, roomy, f"{path} {what}, {free / 1e9:.1f} GB are free", fix)


def _bucket(home: Home) -> Iterator[Finding]:
    if not home.bucket:
        return
    try:
        home.make()
        if bucket := bucket_of(home):
            bucket.result("asked-by-the-doctor")
    except (SplitError, EvaluationError) as error:
        message, _, fix = str(error).rpartition("; ")
        yield Finding("shared results", False, message, fix)
    else:
        yield Finding("shared results", True, f"{home.bucket} answers")


def _prefect(home: Home) -> Iterator[Finding]:
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        words = f"none is set; every flow starts an embedded one, which keeps its history below {home.path / 'prefect'}"
        yield Finding("Prefect server", True, words)
        return
    server = _server("Prefect server", f"{url}/health", "prefect server start", "PREFECT_API_URL")
    yield server
    if not server.ok:
        return
    silent = [deployment.name for deployment in _scheduled() if not _runs(["SCHEDULED"], 1, of=deployment)]
    fix = "Look at the server's log; with whenever 0.10 the scheduler fails in silence: pip install 'whenever>=0.11'."
    fine = "every one has its next"
    yield _named("Prefect schedules", silent, "active schedules without a scheduled run", fix, fine)
    due = {"before_": datetime.fromtimestamp(time.time() - LATE_SECONDS, UTC)}
    late = [of.name for of in _scheduled() if _runs(["SCHEDULED"], 1, of=of, expected_start_time=due)]
    fix = "Start a worker for their pool (prefect worker start --pool ...), or look at its log."
    yield _named("Prefect workers", late, f"no run was taken for {LATE_SECONDS} s of", fix, "no run waits for one")
    yield from _since_success()
    yield from _stuck()
    yield from _retrainings()


def _named(check: str, names: list[str], what: str, fix: str, fine: str = "none") -> Finding:
    """Return the finding of a check that looks for what is not in order, which it names."""
    return Finding(check, not names, f"{what}: {', '.join(names[:5])}" if names else fine, fix if names else "")


def _deployments() -> list[Any]:
    from prefect import get_client

    with get_client(sync_client=True) as client:
        return [deployment for deployment in client.read_deployments() if not deployment.paused]


def _scheduled() -> list[Any]:
    return [deployment for deployment in _deployments() if any(schedule.active for schedule in deployment.schedules)]


def _runs(
    states: list[str], most: int = MOST_RUNS, order: str = "EXPECTED_START_TIME_DESC", of: Any = None, **more: Any
) -> list[Any]:
    """Return runs in some states, of a deployment or all of ours; ``more``: what else a filter of Prefect's asks."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    whose = {"tags": {"all_": [OURS]}} if of is None else {"deployment_id": {"any_": [of.id]}}
    wanted = FlowRunFilter.model_validate({"state": {"type": {"any_": states}}} | whose | more)
    with get_client(sync_client=True) as client:
        return list(client.read_flow_runs(flow_run_filter=wanted, sort=FlowRunSort(order), limit=most))


def _since_success() -> Iterator[Finding]:
    """Yield what broke off since the last run that completed."""
    broken = []
    for deployment in (each for each in _deployments() if OURS in each.tags):
        runs = _runs(["COMPLETED", "FAILED", "CRASHED", "CANCELLED"], of=deployment)
        for run in takewhile(lambda run: not run.state.is_completed(), runs):
            why = str(run.state.message).partition("\n")[0][:120]
            broken.append(f"{run.name} ({run.state.name.upper()}: {why})")
    fix = "Look at their logs. The next one goes on where they stopped: prefect deployment run ..."
    what = f"{len(broken)} since the last that completed"
    yield _named("Prefect runs", broken, what, fix, "none broke off since the last success")


def _stuck() -> Iterator[Finding]:
    """Yield deployed runs that loop, do not end or wait for a slot, and tasks that outlive their flow."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter

    since = datetime.fromtimestamp(time.time() - LATE_SECONDS, UTC)

    def told(check: str, runs: list[Any], what: str, fix: str) -> Finding:
        return _named(check, [f"{run.name} ({run.id})" for run in runs], f"{len(runs)} {what}", fix)

    under_way = _runs(["SCHEDULED", "PENDING", "RUNNING", "CRASHED"], order="ID_DESC")
    again = [run for run in under_way if run.state.name not in ("Scheduled", "Late")]
    # A crash leaves what it was at.
    ended = FlowRunFilter.model_validate(
        {"tags": {"all_": [OURS]}, "state": {"type": {"any_": ["COMPLETED", "FAILED", "CANCELLED"]}}}
    )
    running = TaskRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING"]}}})
    with get_client(sync_client=True) as client:
        crashes = {run.id: [state.is_crashed() for state in client.read_flow_run_states(run.id)] for run in again}
        left = client.read_task_runs(flow_run_filter=ended, task_run_filter=running, limit=MOST_RUNS)
    loops = [run for run in again if sum(crashes[run.id]) >= FEWEST_CRASHES]
    yield told("loops", loops, f"crashed {FEWEST_CRASHES} times or more", "Look at the worker's log; cancel them.")
    halting = [run for run in _runs(["CANCELLING"]) if run.state.timestamp < since]
    fix = "No worker ends them: prefect flow-run delete ..., or start a worker for their pool."
    yield told("cancelling", halting, f"Cancelling for more than {LATE_SECONDS} s", fix)
    busy = {run.deployment_id for run in under_way if run.state.is_pending() or run.state.is_running()}
    queue = _runs([], state={"name": {"any_": ["AwaitingConcurrencySlot"]}})
    waiting = [run for run in queue if run.expected_start_time < since]
    lost = [run for run in waiting if run.deployment_id not in busy]
    fix = "Nothing holds it: a lease that its holder did not give back ends by itself within minutes."
    behind = f"{', '.join(run.name for run in waiting[:5])}: waiting for the run before"
    yield Finding("slots", True, behind) if waiting and not lost else told("slots", lost, "waiting for a slot", fix)
    fix = "Nothing runs there any more; they go with their flow run: prefect flow-run delete ..."
    yield told("task runs", list(left), "RUNNING though their flow has ended", fix)


def _retrainings() -> Iterator[Finding]:
    """Yield how old the last successful retraining of each schedule is, against how often it is due."""
    for deployment in _scheduled():
        if not (deployment.entrypoint or "").endswith("retrain"):
            continue
        coming = _runs(["SCHEDULED"], 3, "EXPECTED_START_TIME_ASC", deployment)
        if len(coming) < 2:
            continue
        due = [run.expected_start_time.timestamp() for run in coming]
        apart = due[-1] - due[-2]
        done = _runs(["COMPLETED"], 1, "END_TIME_DESC", deployment)
        since = done[0].end_time if done else deployment.created
        age = time.time() - since.timestamp()
        late = age > 1.5 * apart
        message = f"{deployment.name}: {'the last one succeeded' if done else 'none has succeeded; it was deployed'} "
        fix = "Look at the findings about runs and workers; start one: prefect deployment run ..." if late else ""
        yield Finding("retraining", not late, f"{message}{_span(age)} ago; it is due every {_span(apart)}", fix)


def _span(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _mlflow(home: Home) -> Iterator[Finding]:
    uri = home.tracking_uri
    if uri.startswith("http"):
        yield _server("MLflow server", f"{uri}/health", "mlflow server", "MLFLOW_TRACKING_URI")
    elif home.tracks_here and not (home.path / "mlflow.db").exists():
        yield Finding("MLflow store", True, f"{uri} will be made by the first run")
        return
    from evenfold.tasks.record.tracker import Tracker
    from sqlalchemy.engine import make_url

    try:
        # Where nobody answers at the address of a database MLflow would try again for 100 s.
        if "://" in uri and not uri.startswith("http") and (url := make_url(uri)).host and url.port:
            socket.create_connection((url.host, url.port), timeout=10).close()
        Tracker(home).client.search_experiments(max_results=1)
    except Exception as error:
        fix = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or correct MLFLOW_TRACKING_URI."
        yield Finding("MLflow store", False, f"{uri} does not answer: {str(error).splitlines()[0][:300]}", fix)
    else:
        yield Finding("MLflow store", True, f"{uri} answers")


def _server(name: str, url: str, command: str, setting: str) -> Finding:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # it answers, if not to everybody
    except OSError as error:
        return Finding(name, False, f"{url} does not answer: {error}", f"Start it ({command}) or correct {setting}.")
    return Finding(name, True, f"{url} answers")

"""Faults of this machine, its servers and its home, and their cures."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import requires, version
from itertools import takewhile
from typing import Any

from evenfold.splitters import EvenfoldError
from evenfold.tasks.results.store import bucket_of
from evenfold.tasks.runtime.home import Home, redacted

LATE = timedelta(seconds=120)
MOST_RUNS = 50
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
    for name, (check, cure) in CHECKS.items():
        try:
            findings.extend(check(home))
        except EvenfoldError as error:
            message, _, fix = str(error).rpartition("; ")
            findings.append(Finding(name, False, message, fix))
        except Exception as error:
            what = f"does not answer: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            findings.append(Finding(name, False, what, cure))
    return findings


def _versions(home: Home) -> Iterator[Finding]:
    from packaging.requirements import Requirement

    for wanted in map(Requirement, requires("evenfold") or ()):
        if wanted.name in PARTNERS:
            have = version(wanted.name)
            fits = wanted.specifier.contains(have)
            words, fix = (have, "") if fits else (f"{have}: this version was not tested", f"pip install '{wanted}'")
            yield Finding(wanted.name, fits, words, fix)


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
    if home.bucket:
        home.make()
        if bucket := bucket_of(home):
            bucket.result("asked-by-the-doctor")
        yield Finding("shared results", True, f"{home.bucket} answers")


def _mlflow(home: Home) -> Iterator[Finding]:
    uri = home.tracking_uri
    if home.tracks_here and not (home.path / "mlflow.db").exists():
        yield Finding("MLflow store", True, f"{uri} will be made by the first run")
        return
    from evenfold.tasks.record.tracker import Tracker
    from sqlalchemy.engine import make_url

    # Where nobody answers MLflow would try again for 100 s.
    if uri.startswith("http"):
        _ask(f"{uri}/health")
    elif "://" in uri and (url := make_url(uri)).host and url.port:
        socket.create_connection((url.host, url.port), timeout=10).close()
    Tracker(home).client.search_experiments(max_results=1)
    yield Finding("MLflow store", True, f"{uri} answers")


def _ask(url: str) -> None:
    """Raise OSError where nobody answers at an address; who refuses to answer everybody is there."""
    with suppress(urllib.error.HTTPError):
        urllib.request.urlopen(url, timeout=10).close()


def _prefect(home: Home) -> Iterator[Finding]:
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        words = f"none is set; every flow starts an embedded one, which keeps its history below {home.path / 'prefect'}"
        yield Finding("Prefect server", True, words)
        return
    from prefect import get_client

    _ask(f"{url}/health")
    yield Finding("Prefect server", True, f"{url} answers")
    with get_client(sync_client=True) as client:
        yield from deployed(client, datetime.now(UTC))


def deployed(client: Any, now: datetime) -> Iterator[Finding]:
    """Yield what is wrong with deployments: none coming, none taken, what broke off, and the age of each success."""
    silent, late, broken, ages = [], [], [], []
    for deployment in (each for each in client.read_deployments() if not each.paused):
        coming: list[Any] = []
        if any(schedule.active for schedule in deployment.schedules):
            coming = _runs(client, deployment, ["SCHEDULED"], "EXPECTED_START_TIME_ASC")
            silent += [] if coming else [deployment.name]
            late += [deployment.name] if coming and coming[0].expected_start_time < now - LATE else []
        ours, retrains = OURS in deployment.tags, (deployment.entrypoint or "").endswith("retrain")
        ended: list[Any] = []
        if ours or retrains:
            ended = _runs(client, deployment, ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"], "END_TIME_DESC")
        for run in takewhile(lambda run: not run.state.is_completed(), ended if ours else ()):
            why = str(run.state.message).partition("\n")[0][:120]
            broken.append(f"{run.name} ({run.state.name.upper()}: {why})")
        if retrains and len(coming) > 1:
            ages.append(_age(deployment, ended, coming, now))
    yield _named(
        "Prefect schedules", silent, "active schedules without a scheduled run", "every one has its next",
        "Look at the server's log; with whenever 0.10 the scheduler fails in silence: pip install 'whenever>=0.11'.",
    )  # fmt: skip
    yield _named(
        "Prefect workers", late, f"no run was taken for {LATE.seconds} s of", "no run waits for one",
        "Start a worker for their pool (prefect worker start --pool ...), or look at its log.",
    )  # fmt: skip
    yield _named(
        "Prefect runs", broken, f"{len(broken)} since the last that completed", "none broke off since the last success",
        "Look at their logs. The next one goes on where they stopped: prefect deployment run ...",
    )  # fmt: skip
    yield from ages


def _named(check: str, names: list[str], what: str, fine: str, fix: str) -> Finding:
    """Return the finding of a check that looks for what is not in order, which it names."""
    return Finding(check, not names, f"{what}: {', '.join(names[:5])}" if names else fine, fix if names else "")


def _runs(client: Any, deployment: Any, states: list[str], order: str) -> list[Any]:
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    wanted = {"deployment_id": {"any_": [deployment.id]}, "state": {"type": {"any_": states}}}
    runs = FlowRunFilter.model_validate(wanted)
    return list(client.read_flow_runs(flow_run_filter=runs, sort=FlowRunSort(order), limit=MOST_RUNS))


def _age(deployment: Any, ended: list[Any], coming: list[Any], now: datetime) -> Finding:
    """Return how old the last successful run of a schedule is, against how often it is due."""
    done = next((run for run in ended if run.state.is_completed()), None)
    apart = coming[-1].expected_start_time - coming[-2].expected_start_time
    age = now - (done.end_time if done else deployment.created)
    late = age > 1.5 * apart
    message = f"{deployment.name}: {'the last one succeeded' if done else 'none has succeeded; it was deployed'} "
    fix = "Look at the findings about runs and workers; start one: prefect deployment run ..." if late else ""
    return Finding("retraining", not late, f"{message}{_span(age)} ago; it is due every {_span(apart)}", fix)


def _span(time: timedelta) -> str:
    seconds = time.total_seconds()
    sizes = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
    return next(f"{seconds / size:.0f} {name}" for name, size in sizes.items() if seconds >= 1.5 * size or size == 1)


LOGIN = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
CHECKS: dict[str, tuple[Callable[[Home], Iterator[Finding]], str]] = {
    "versions": (_versions, "Install evenfold anew."),
    "home": (_home, "Set EVENFOLD_HOME to a folder that can be written."),
    "shared results": (_bucket, "Correct EVENFOLD_RESULTS."),
    "Prefect server": (_prefect, "Start it (prefect server start) or correct PREFECT_API_URL."),
    "MLflow store": (_mlflow, f"Start it (mlflow server), correct MLFLOW_TRACKING_URI, or set {LOGIN}."),
}

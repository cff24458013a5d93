"""Faults of this machine, its servers and its home, and their cures."""

from __future__ import annotations

import os
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import requires, version
from itertools import pairwise, takewhile
from typing import Any

from evenfold.splitters.errors import EvenfoldError, redacted
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.store import bucket_of

LATE = timedelta(seconds=120)


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at: what was found and, where it is not ok, what to do."""

    check: str
    ok: bool
    message: str
    fix: str = ""


def examine(home: Home) -> list[Diagnosis]:
    """Return a finding per check, also of one that itself fails; nothing changes but by a first use of a bucket."""
    findings: list[Diagnosis] = []
    for name, (check, cure) in CHECKS.items():
        try:
            findings.extend(check(home))
        except Exception as error:
            words = " ".join(str(error).split())
            what = words if isinstance(error, EvenfoldError) else f"does not answer: {type(error).__name__}: {words}"
            findings.append(Diagnosis(name, False, what[:400], cure))
    return [replace(finding, message=redacted(finding.message)) for finding in findings]


def _versions(home: Home) -> Iterator[Diagnosis]:
    from packaging.requirements import Requirement

    for wanted in map(Requirement, requires("evenfold") or ()):
        if wanted.name in ("prefect", "mlflow"):
            have = version(wanted.name)
            fits = wanted.specifier.contains(have)
            words, fix = (have, "") if fits else (f"{have}: this version was not tested", f"pip install '{wanted}'")
            yield Diagnosis(wanted.name, fits, words, fix)


def _home(home: Home) -> Iterator[Diagnosis]:
    for path, name in {home.shared: "shared results", home.path: "home"}.items():
        there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
        words, fix = f"{path} cannot be written", f"Make {there} a folder that can be written."
        if there.is_dir() and os.access(there, os.W_OK):
            free, what = shutil.disk_usage(there).free, "is writable" if there == path else "can be made"
            words = f"{path} {what}, {free / 1e9:.1f} GB are free"
            fix = "" if free >= 1e9 else "Free some space: evenfold clean --older-than 30d."
        yield Diagnosis(name, not fix, words, fix)


def _bucket(home: Home) -> Iterator[Diagnosis]:
    if home.bucket:
        home.make()
        if bucket := bucket_of(home):
            bucket.get("results/asked-by-the-doctor.json")
        yield Diagnosis("shared results", True, f"{home.bucket} answers")


def _mlflow(home: Home) -> Iterator[Diagnosis]:
    uri = home.tracking_uri
    if home.tracks_here and not (home.path / "mlflow.db").exists():
        yield Diagnosis("MLflow store", True, f"{uri} will be made by the first run")
        return
    from evenfold.tasks.record.tracker import Tracker
    from sqlalchemy.engine import make_url

    # Where nobody answers MLflow would try again for 100 s.
    if uri.startswith("http"):
        _ask(f"{uri}/health")
    elif "://" in uri and (url := make_url(uri)).host and url.port:
        socket.create_connection((url.host, url.port), timeout=10).close()
    Tracker(home).client.search_experiments(max_results=1)
    yield Diagnosis("MLflow store", True, f"{uri} answers")


def _ask(url: str) -> None:
    """Raise OSError where nobody answers at an address; who refuses to answer everybody is there."""
    with suppress(urllib.error.HTTPError):
        urllib.request.urlopen(url, timeout=10).close()


def _prefect(home: Home) -> Iterator[Diagnosis]:
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        words = f"none is set; every flow starts an embedded one, which keeps its history below {home.path / 'prefect'}"
        yield Diagnosis("Prefect server", True, words)
        return
    from prefect import get_client

    _ask(f"{url}/health")
    yield Diagnosis("Prefect server", True, f"{url} answers")
    with get_client(sync_client=True) as client:
        yield from deployed(client, datetime.now(UTC))


def deployed(client: Any, now: datetime) -> Iterator[Diagnosis]:
    """Yield a finding for each deployment of evenfold's that is not paused: its faults, or its last success."""
    for deployment in client.read_deployments():
        if deployment.paused or "evenfold" not in deployment.tags:  # which every deployment in prefect.yaml has
            continue
        scheduled = any(schedule.active for schedule in deployment.schedules)
        coming = _runs(client, deployment, ["SCHEDULED"], "EXPECTED_START_TIME_ASC") if scheduled else []
        ended = _runs(client, deployment, ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"], "END_TIME_DESC")
        broken = list(takewhile(lambda run: not run.state.is_completed(), ended))
        faults: dict[str, str] = {}  # each with what to do about it
        if scheduled and not coming:
            faults["its active schedule has no next run"] = SILENT
        elif coming and coming[0].expected_start_time < now - LATE:
            faults[f"no worker has taken its run for {LATE.seconds} s"] = IDLE
        if broken:
            why = str(broken[0].state.message).partition("\n")[0][:120]
            words = f"{len(broken)} runs broke off since the last success, the last as {broken[0].state.name.upper()}"
            faults[f"{words}: {why}"] = BROKEN
        done = next((run for run in ended if run.state.is_completed()), None)
        age = now - (done.end_time if done else deployment.created)
        what = "the last run succeeded" if done else "no run has succeeded since it was deployed"
        success = f"{what} {_span(age)} ago"
        if len(coming) > 1:
            gaps = [later.expected_start_time - run.expected_start_time for run, later in pairwise(coming)]
            success += f"; it is due every {_span(gaps[-1])}"
            if age > 1.5 * max(gaps):  # of weekdays the weekend is one
                faults[success] = "Start one: prefect deployment run ..."
        yield Diagnosis(deployment.name, not faults, ", ".join(faults) or success, " ".join(faults.values()))


SILENT = "Look at the server's log; with whenever 0.10 the scheduler fails in silence: pip install 'whenever>=0.11'."
IDLE = "Start a worker for its pool (prefect worker start --pool ...), or look at its log."
BROKEN = "Look at their logs; the next one goes on where they stopped: prefect deployment run ..."


def _runs(client: Any, deployment: Any, states: list[str], order: str) -> list[Any]:
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    wanted = {"deployment_id": {"any_": [deployment.id]}, "state": {"type": {"any_": states}}}
    runs = FlowRunFilter.model_validate(wanted)
    return list(client.read_flow_runs(flow_run_filter=runs, sort=FlowRunSort(order), limit=50))


def _span(time: timedelta) -> str:
    seconds = time.total_seconds()
    sizes = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
    return next(f"{seconds / size:.0f} {name}" for name, size in sizes.items() if seconds >= 1.5 * size or size == 1)


LOGIN = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
CHECKS: dict[str, tuple[Callable[[Home], Iterator[Diagnosis]], str]] = {
    "versions": (_versions, "Install evenfold anew."),
    "home": (_home, "Set EVENFOLD_HOME to a folder that can be written."),
    "shared results": (_bucket, "Correct EVENFOLD_RESULTS."),
    "Prefect server": (_prefect, "Start it (prefect server start) or correct PREFECT_API_URL."),
    "MLflow store": (_mlflow, f"Start it (mlflow server), correct MLFLOW_TRACKING_URI, or set {LOGIN}."),
}

"""The flows that deployments name: ``evenfold.flows.deployed.split`` and its neighbours.

Each takes one request, which Prefect's pages show as a form, and runs the same steps as the command line. Names in it
are imported by ``evenfold.splitters.importing`` alone, which takes only what the worker lists
(``EVENFOLD_ALLOWED_MODULES``). Files are found from the deployment's working directory, everything that is kept lies
below ``EVENFOLD_HOME``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from evenfold.reports.markdown import split_report
from evenfold.tasks import Home, prepare_environment, room
from evenfold.tasks.runtime.prefect import PrefectEngine, log, task_runner
from prefect import flow
from prefect.artifacts import create_markdown_artifact

from .evaluation import evaluate_body
from .requests import EvaluateRequest, ExtendRequest, RetrainRequest, Say, SplitRequest
from .retraining import retrain_body
from .splitting import check, extend_body, split_body


@flow(name="split", flow_run_name="split {request.spec.name}", task_runner=task_runner())
def split(request: SplitRequest) -> dict[str, Any]:
    """Split data once, record the manifest, and return what names it; the same data and rules are split only once."""
    outcome = _started(request, split_body)
    _publish(f"split-{outcome.split['name']}", split_report(outcome.split, outcome.balance))
    return dict(outcome.split)


@flow(name="evaluate", flow_run_name="evaluate {request.spec.name}", task_runner=task_runner())
def evaluate(request: EvaluateRequest) -> dict[str, Any]:
    """Split data, train a model per fold or draw, record the estimate, and return it with the runs that hold it."""
    outcome = _started(request, evaluate_body)
    _publish(f"evaluate-{outcome.split['name']}", split_report(outcome.split, outcome.balance, outcome.estimates))
    return {
        "split": outcome.split,
        "run_id": outcome.run_id,
        "split_run_id": outcome.split_run_id,
        "estimates": [each.to_json() for each in outcome.estimates],
        "n_cached": outcome.n_cached,
    }


@flow(name="retrain", flow_run_name="retrain {request.spec.name}", task_runner=task_runner())
def retrain(request: RetrainRequest) -> dict[str, Any]:
    """Let new rows join the split, compare the candidate with the champion, register the winner, and return it all."""
    outcome = _started(request, retrain_body)
    _publish(f"retrain-{outcome.split['name']}", outcome.report)
    return dict(outcome.model_dump(mode="json", exclude={"report", "audit"}))


@flow(name="extend", flow_run_name="extend {request.manifest}", task_runner=task_runner())
def extend(request: ExtendRequest) -> dict[str, Any]:
    """Let new rows join a manifest; no row changes its fold."""
    home = _home()
    return dict(extend_body(PrefectEngine(home), home, request, _saying()).split)


def _started(request: Any, body: Callable[[Any, Home, Any, Say], Any]) -> Any:
    home = _home()
    check(request)
    with room(home):
        return body(PrefectEngine(home, refresh=request.refresh), home, request, _saying())


def _home() -> Home:
    home = Home.here()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")  # here the pages show the log
    prepare_environment(home)
    return home


def _saying() -> Say:
    """Return what says in the flow's log what is under way: every change of work, and every tenth of it."""

    def say(what: str, done: int, of: int) -> None:
        if done in (0, of) or done % max(1, of // 10) == 0:
            log(what, done=done, of=of)

    return say


def _publish(name: str, markdown: str) -> None:
    key = "".join(letter if letter.isalnum() else "-" for letter in name.lower()).strip("-")
    create_markdown_artifact(markdown, key=f"evenfold-{key}", description="What the newest run came to.")

"""The flows that deployments name: ``evenfold.flows.deployed.split`` and its neighbours.

Each takes one request, which Prefect's pages show as a form, and runs the same steps as the command line. What a
request asks to import must be on the worker's list (``EVENFOLD_ALLOWED_MODULES``). Files are found from the
deployment's working directory, everything that is kept lies below ``EVENFOLD_HOME``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

from evenfold.reports.markdown import split_report
from evenfold.splitters import SplitError, import_named
from evenfold.tasks import Home, prepare_environment, room
from evenfold.tasks.runtime.prefect import PrefectEngine, log, task_runner
from prefect import flow
from prefect.artifacts import create_markdown_artifact

from .evaluation import evaluate_body
from .requests import EvaluateRequest, ExtendRequest, RetrainRequest, Say, SplitRequest
from .retraining import retrain_body
from .splitting import check, extend_body, split_body

ALWAYS = "evenfold"
DEFAULT = "sklearn"


def allowed_modules() -> tuple[str, ...]:
    """Return the packages in ``EVENFOLD_ALLOWED_MODULES`` (comma-separated, by default sklearn), and evenfold."""
    given = os.environ.get("EVENFOLD_ALLOWED_MODULES", DEFAULT)
    return (ALWAYS, *(name.strip() for name in given.split(",") if name.strip()))


def require_allowed(request: SplitRequest) -> None:
    """Raise SplitError that names the first import path in ``request`` which is not allowed.

    Nothing is imported before its module is found on the list. What is imported must be defined in an allowed module
    too (a module also holds what it imported itself), and must be a class that fits or splits: scikit-learn has
    functions that delete folders. Functions are allowed from packages that the list names beyond the default.
    """
    for path in import_paths(request):
        _require(path)


def import_paths(request: SplitRequest) -> Iterator[str]:
    """Yield every import path that the request holds."""
    yield from filter(_looks_importable, [request.spec.strategy or ""])
    yield from _in_params(request.spec.params)
    if isinstance(request, EvaluateRequest):
        model = request.model
        yield from filter(None, [model.estimator, *_in_params(model.params)])
        if model.target_transform is not None:
            yield model.target_transform.transformer
            yield from _in_params(model.target_transform.params)


def _in_params(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _in_params(each, str(key))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _in_params(each)
    elif isinstance(value, str) and (name == "splitter" or _looks_importable(value)):
        yield value


def _looks_importable(value: str) -> bool:
    module, colon, name = value.partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _require(path: str) -> None:
    allowed = allowed_modules()
    if not _within(path.partition(":")[0], allowed):
        raise SplitError(
            f"{path!r} may not be imported in a deployment run; allowed are {', '.join(allowed)}. "
            "Add its package to EVENFOLD_ALLOWED_MODULES where the worker runs."
        )
    found = import_named(path)
    home = getattr(found, "__module__", "") or ""
    if not _within(home, allowed):
        raise SplitError(f"{path!r} is defined in {home or 'no module'!r}, which a deployment run may not import.")
    works = inspect.isclass(found) and (hasattr(found, "fit") or hasattr(found, "split"))
    if not works and not (inspect.isfunction(found) and not _within(home, (DEFAULT,))):
        raise SplitError(f"{path!r} is no class that fits or splits; a deployment run may name nothing else of it.")


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


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
    require_allowed(request)
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

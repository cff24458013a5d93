"""How a flow is started: with Prefect or without, from a request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from evenfold.manifests import Manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, PlainEngine, data_reference, prepare_environment

from ._bodies import check, evaluate_body, extend_body, split_body
from ._requests import EvaluateRequest, Evaluation, ExtendOutcome, ExtendRequest, SplitOutcome, SplitRequest
from ._retrain import retrain_body
from ._retrain_request import Retraining, RetrainRequest
from ._say import Say, silent

EngineName = Literal["prefect", "plain"]
Outcome = TypeVar("Outcome")


def split(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> SplitOutcome:
    """Split ``data`` (a file or a frame) and record the manifest in MLflow.

    ``fields`` are those of SplitRequest: spec, refresh. The same rows and the same specification are split once: the
    second call says ``cached``. Raises SplitError where the data or the specification do not allow it.
    """
    home = _home()
    request = SplitRequest(data=data_reference(data, home), **fields)
    return _started("split", engine, home, request, split_body, say)


def evaluate(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> Evaluation:
    """Split ``data`` (a file or a frame), train one model per fold or draw, and record the estimate in MLflow.

    ``fields`` are those of EvaluateRequest: spec, model, run_label, refresh, allow_partial. Finished folds come from
    the cache, so a run that died goes on where it stopped. Raises SplitError or ModelError for bad input and
    EvaluationError where a fold could not be evaluated; the split and the finished folds are then kept.
    """
    home = _home()
    request = EvaluateRequest(data=data_reference(data, home), **fields)
    return _started("evaluate", engine, home, request, evaluate_body, say)


def extend(
    manifest: str | Path, data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any
) -> ExtendOutcome:
    """Extend the manifest in a folder by the new rows of ``data``, write the next version beside it, and record it.

    ``fields`` are those of ExtendRequest: batch, merged. No assigned row or group changes its fold. Raises SplitError.
    """
    home = _home()
    request = ExtendRequest(manifest=str(manifest), data=data_reference(data, home), **fields)
    return _started("extend", engine, home, request, extend_body, say)


def retrain(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> Retraining:
    """Let new rows join the split, compare the candidate with the champion, and register the winner in MLflow.

    ``fields`` are those of RetrainRequest: those of ``evaluate``, registered_name, metric, gates, merged. The rule of
    promotion is in the outcome. Raises GateError where a gate of the audit fails, and what ``evaluate`` raises.
    """
    home = _home()
    request = RetrainRequest(data=data_reference(data, home), **fields)
    return _started("retrain", engine, home, request, retrain_body, say)


def load_split(reference: str) -> Manifest:
    """Return the manifest that ``name@1.1``, a name, a split_id or a plan_id names, from MLflow where it is not here.

    Raises SplitError where there is none.
    """
    _home()
    from evenfold.tasks.load import load_split as load

    return load(reference)


def _home() -> Home:
    home = Home.here()
    prepare_environment(home)
    return home


def _started(
    name: str,
    engine: EngineName,
    home: Home,
    request: Any,
    body: Callable[[Any, Home, Any, Say], Outcome],
    say: Say,
) -> Outcome:
    if isinstance(request, SplitRequest):
        check(request)
    if engine == "plain":
        return body(PlainEngine(), home, request, say)
    if engine != "prefect":
        raise SplitError(f"there is no engine {engine!r}; choose 'prefect' or 'plain'.")
    if not os.environ.get("PREFECT_API_URL"):
        say("starting Prefect's embedded server, which takes 10 to 20 s (--engine plain does without)", 0, 1)
    from evenfold.tasks._prefect import run_as_flow

    subject = Path(request.manifest).parent.name if getattr(request, "manifest", None) else request.spec.name
    outcome: Outcome = run_as_flow(lambda made: body(made, home, request, say), home, name, subject, request)
    return outcome

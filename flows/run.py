"""How a flow is started: with Prefect or without, from a request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from evenfold.manifests import Manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, PlainEngine, asking, prepare_environment, room

from .evaluation import evaluate_body
from .requests import (
    EvaluateRequest,
    Evaluation,
    ExtendOutcome,
    ExtendRequest,
    Retraining,
    RetrainRequest,
    Say,
    SplitOutcome,
    SplitRequest,
    TuneRequest,
    Tuning,
    silent,
)
from .retraining import retrain_body
from .splitting import check, extend_body, split_body
from .tuning import tune_body

EngineName = Literal["prefect", "plain"]
Outcome = TypeVar("Outcome")


def split(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> SplitOutcome:
    """Split ``data`` (a file or a frame) and record the manifest in MLflow.

    ``fields`` are those of SplitRequest: spec, refresh. The same rows and the same specification are split once: the
    second call says ``cached``. Raises SplitError where the data or the specification do not allow it.
    """
    return _run("split", SplitRequest, split_body, data, engine, say, fields)


def evaluate(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> Evaluation:
    """Split ``data`` (a file or a frame), train one model per fold or draw, and record the estimate in MLflow.

    ``fields`` are those of EvaluateRequest: spec, model, run_label, refresh, allow_partial. Finished folds come from
    the cache, so a run that died goes on where it stopped. Raises SplitError or ModelError for bad input and
    EvaluationError where a fold could not be evaluated; the split and the finished folds are then kept.
    """
    return _run("evaluate", EvaluateRequest, evaluate_body, data, engine, say, fields)


def extend(
    manifest: str | Path, data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any
) -> ExtendOutcome:
    """Extend the manifest in a folder by the new rows of ``data``, write the next version beside it, and record it.

    ``fields`` are those of ExtendRequest: batch, merged. No assigned row or group changes its fold. Raises SplitError.
    """
    return _run("extend", ExtendRequest, extend_body, data, engine, say, fields | {"manifest": str(manifest)})


def tune(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> Tuning:
    """Try every configuration of a grid on every fold of ``data``, choose one, and say what the winner is worth.

    ``fields`` are those of TuneRequest: spec, model, grid, n_random, metric, one_standard_error; with on="holdout" and
    a reason, the winner is fitted on all rows but the locked ones and scored on those, once. Each fit of each
    configuration is cached on its own. Raises as ``evaluate`` does.
    """
    return _run("tune", TuneRequest, tune_body, data, engine, say, fields)


def retrain(data: Any, *, engine: EngineName = "prefect", say: Say = silent, **fields: Any) -> Retraining:
    """Let new rows join the split, compare the candidate with the champion, and register the winner in MLflow.

    ``fields`` are those of RetrainRequest: those of ``evaluate``, registered_name, metric, gates, merged. The rule of
    promotion is in the outcome. Raises GateError where a gate of the audit fails, and what ``evaluate`` raises.
    """
    return _run("retrain", RetrainRequest, retrain_body, data, engine, say, fields)


def load_split(reference: str) -> Manifest:
    """Return the manifest that ``name@1.1``, a name, a split_id or a plan_id names, from MLflow where it is not here.

    Raises SplitError where there is none.
    """
    prepare_environment(Home.here())
    from evenfold.tasks.record.reading import load_split as load

    return load(reference)


def _run(
    name: str,
    asked: type[Any],
    body: Callable[[Any, Home, Any, Say], Outcome],
    data: Any,
    engine: EngineName,
    say: Say,
    fields: dict[str, Any],
) -> Outcome:
    """Check what is asked, then start it; bad input leaves nothing behind."""
    home = Home.here()
    prepare_environment(home)
    with asking(data, home) as path:
        request = asked(data=path, **fields)
        if engine not in ("prefect", "plain"):
            raise SplitError(f"there is no engine {engine!r}; choose 'prefect' or 'plain'.")
        check(request)
    home.make()
    with room(home):
        return _started(name, body, home, request, engine, say)


def _started(
    name: str, body: Callable[[Any, Home, Any, Say], Outcome], home: Home, request: Any, engine: EngineName, say: Say
) -> Outcome:
    if engine == "plain":
        return body(PlainEngine(), home, request, say)
    if not os.environ.get("PREFECT_API_URL"):
        say("starting Prefect's embedded server, which takes 10 to 20 s (--engine plain does without)", 0, 1)
    from evenfold.tasks.runtime.prefect import run_as_flow

    subject = Path(request.manifest).parent.name if getattr(request, "manifest", None) else request.spec.name
    outcome: Outcome = run_as_flow(lambda made: body(made, home, request, say), home, name, subject, request)
    return outcome

"""What a store holds: its runs, each by its id or the first digits of it, and its registered models."""

from __future__ import annotations

import ast
from contextlib import suppress
from datetime import datetime
from typing import Any

from evenfold.manifests.tables.canonical import listed
from evenfold.splitters import SplitError
from evenfold.tasks.references import SHORT_ID, Listed
from evenfold.tasks.retrained import Retraining
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.redaction import redacted

from .models.signatures import require_signed_version
from .models.tags import EVALUATION
from .tracker import Tracker


def _evaluated_by(tracker: Tracker, name: str, at: str, which: str) -> str:
    """Return the run that evaluated a registered model, of which ``which`` is an alias (``at`` is "@") or a version.

    Raises SplitError where the registry has no such model or it names none, UntrustedNameError where it is not signed.
    """
    look = tracker.client.get_model_version_by_alias if at == "@" else tracker.client.get_model_version
    try:
        version = look(name, which)
    except Exception:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no registered model {f'models:/{name}{at}{which}'!a} in {tracker.home.tracking_uri}; write "
            "models:/NAME@champion or models:/NAME/2, as evenfold list shows them."
        ) from None
    require_signed_version(version)
    if EVALUATION not in version.tags:
        raise SplitError(
            f"version {version.version} of {name} names no evaluation, whose recipe and split stand for its model; "
            "retrain, and take the version that makes."
        )
    return str(version.tags[EVALUATION])


def is_registered(reference: Any) -> bool:
    """Return whether ``run_named`` looks into the registry for it."""
    return isinstance(reference, Retraining) or str(reference).startswith("models:/")


def run_named(tracker: Tracker, reference: Any) -> Any:
    """Return the MLflow run of an id, of its first four digits or more, or of what a flow returned.

    ``models:/NAME@champion`` and ``models:/NAME/2`` stand for the run that evaluated the recipe, a retraining for the
    version that serves. Raises SplitError where there is none, several begin so, or the store cannot be asked.
    """
    run_id = getattr(reference, "run_id", reference)
    if isinstance(reference, Retraining) and (served := reference.served):
        run_id = _evaluated_by(tracker, served.name, "/", served.version)
    if not isinstance(run_id, str):
        raise SplitError(
            f"a value of type {type(reference).__name__} is no run; pass its id, or what the flow returned."
        )
    if run_id.startswith("models:/"):
        address = run_id.removeprefix("models:/")
        of_version = address.rpartition("/")[2].isdecimal()  # a name may hold @, and none holds /
        run_id = _evaluated_by(tracker, *address.rpartition("/" if of_version else "@"))

    digits = SHORT_ID.fullmatch(run_id)
    try:
        if len(run_id) == 32:
            return tracker.client.get_run(run_id)
        runs = [run for run in tracker.runs() if run.info.run_id.startswith(run_id)] if digits else []
    except Exception as error:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no run {run_id!r} in {tracker.home.tracking_uri} ({redacted(str(error))})."
        ) from None
    if len(runs) == 1:
        return runs[0]
    if not runs:
        evaluations = () if digits else tracker.runs("tags.`evenfold.record` = 'evaluation'")
        alike = [run.info.run_id[:8] for run in evaluations if run.info.run_name.partition(" @ ")[0] == run_id]
        hint = "" if digits else "; a registered model is models:/NAME@champion"
        hint = f"; runs of {run_id} are {listed(alike[:3])}" if alike else hint
        raise SplitError(
            f"there is no run {run_id!r} in {tracker.home.tracking_uri}; evenfold list shows those that are{hint}."
        )
    names = ", ".join(f"{run.info.run_id[: len(run_id) + 4]} ({run.info.run_name})" for run in runs[:3])
    raise SplitError(f"{len(runs)} runs begin with {run_id!r}: {names}; write more digits.")


def recorded_runs(home: Home, kind: str) -> list[Listed]:
    """Return run, model, split, score and time of every finished record of a kind in the store, the newest first.

    Of a tuning also the parameters that were chosen, and the score is what these are worth; of an evaluation those in
    which it differs from another of the same model on the same split; of later rows the strategy of the split that the
    model was judged on, and the score that it promised: how well each way of validating foretold them.
    """
    rows: list[Listed] = []
    alike: dict[tuple[Any, Any], list[tuple[Listed, dict[str, Any]]]] = {}
    tracker = Tracker(home, "")
    for run in tracker.runs(f"tags.`evenfold.record` = '{kind}' AND attributes.status = 'FINISHED'"):
        params = run.data.params
        row: Listed = {"run": run.info.run_id, "model": run.info.run_name.partition(" @ ")[0]}
        row["on"] = run.data.tags.get("evenfold.spec") or run.data.tags.get("spec", "")
        if kind == "tuning":
            chosen = {name.removeprefix("chosen."): params[name] for name in sorted(params) if "chosen." in name[:7]}
            row["chosen"] = ", ".join(f"{name}={value}" for name, value in chosen.items())
            row["score"] = _score(*_headline(run))
        elif kind == "later rows":
            metric, promise, half = _headline(_run_of(tracker, params.get("run", "")))
            row |= {"strategy": run.data.tags.get("strategy", ""), "data": run.info.run_name.rpartition(" on ")[2]}
            row |= {"promised": _score(metric, promise, half)}
            row["score"] = _score(metric, run.data.metrics.get(f"later/{metric}"), half)
        else:
            own = _literal(params, "model.params", dict) or {}
            alike.setdefault((row["model"], row["on"]), []).append((row, own))
            row["params"] = ""  # until all are read
            row["score"] = _score(*_headline(run))
        row["when"] = _when(run.info.start_time)
        rows.append(row)
    for pairs in alike.values():
        for row, own in pairs:
            differing = (k for k in own if any(k not in each or each[k] != own[k] for _, each in pairs))
            row["params"] = ", ".join(f"{name}={own[name]}" for name in differing)
    return rows


def _run_of(tracker: Tracker, run_id: str) -> Any:
    """Return a run; None where there is none any more."""
    with suppress(Exception):  # MLflow has a kind of error of its own per store
        return tracker.client.get_run(run_id)
    return None


def _headline(run: Any) -> tuple[str | None, float | None, float | None]:
    """Return the first metric of an evaluation or tuning, its score, and half of its interval's width, where known."""
    if run is None:
        return None, None, None
    values = run.data.metrics
    if metric := next((name.removeprefix("tried/") for name in values if name.startswith("tried/")), None):
        return metric, values.get("choice/value"), None
    metric = next((name for name in metrics_in(run.data.params) or [] if f"value/{name}" in values), None)
    return metric, values.get(f"value/{metric}"), values.get(f"resolution/{metric}")


def _when(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="seconds")


def _score(metric: str | None, value: float | None, half_width: float | None = None) -> str:
    """Return the score by a metric as people read it; of a metric that is unknown here, as it was recorded."""
    from evenfold.estimates import ModelError
    from evenfold.estimates.metrics.registry import metric_of
    from evenfold.reports.evaluations.words import written

    if metric is None or value is None:
        return ""
    try:
        reading = metric_of(metric)
    except ModelError:
        return f"{metric} {written(value, half_width)}"
    return f"{reading.title} {written(reading.shown(value), half_width)}"


def recorded_models(home: Home) -> list[Listed]:
    """Return name, versions, champion and time of every registered model."""
    tracker = Tracker(home, "")
    return [
        {"model": model.name, "newest": max((int(each.version) for each in model.latest_versions), default=0),
         "champion": dict(model.aliases).get("champion", "none"), "uri": f"models:/{model.name}@champion",
         "when": _when(model.last_updated_timestamp)}
        for model in tracker.every(tracker.client.search_registered_models)
    ]  # fmt: skip


def metrics_in(params: dict[str, str]) -> list[str] | None:
    """Return the metrics that the parameters of a run name; None where they name none that can be read."""
    metrics = _literal(params, "model.metrics", list)
    return metrics if metrics is not None and all(isinstance(name, str) for name in metrics) else None


def _literal(params: dict[str, str], name: str, kind: type) -> Any:
    """Return what a parameter of a run holds; empty where there is none, None where it cannot be read as of a kind."""
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = ast.literal_eval(params.get(name, str(kind())))
        return kind(value) if isinstance(value, (kind, tuple)) else None
    return None

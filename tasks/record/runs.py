"""What a store holds: its runs, each by its id or the first digits of it, and its registered models."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

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


def is_registered(given: Any) -> bool:
    """Return whether ``run_named`` looks into the registry for it."""
    return isinstance(given, Retraining) or str(given).startswith("models:/")


def run_named(tracker: Tracker, given: Any) -> Any:
    """Return the MLflow run of an id, of its first four digits or more, or of what a flow returned.

    Of ``models:/NAME@champion`` and ``models:/NAME/2`` it is the run that evaluated the recipe; a retraining stands
    for the version that it registered, or for the champion that stays.
    Raises SplitError where there is none, where several begin so, and where the store cannot be asked.
    """
    asked, served = given, given.served if isinstance(given, Retraining) else None
    given = _evaluated_by(tracker, served.name, "/", served.version) if served else getattr(given, "run_id", given)
    if not isinstance(given, str):
        raise SplitError(f"a value of type {type(asked).__name__} is no run; pass its id, or what the flow returned.")
    if given.startswith("models:/"):
        address = given.removeprefix("models:/")
        of_version = address.rpartition("/")[2].isdecimal()  # a name may hold @, and none holds /
        given = _evaluated_by(tracker, *address.rpartition("/" if of_version else "@"))

    try:
        runs = [tracker.client.get_run(given)] if len(given) == 32 else list(_runs_beginning(tracker, given))
    except Exception as error:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no run {given!r} in {tracker.home.tracking_uri} ({redacted(str(error))})."
        ) from None
    if len(runs) == 1:
        return runs[0]
    if not runs:
        named = "" if SHORT_ID.fullmatch(given) else "; a registered model is models:/NAME@champion"
        raise SplitError(
            f"there is no run {given!r} in {tracker.home.tracking_uri}; evenfold list shows those that are{named}."
        )
    names = ", ".join(f"{run.info.run_id[: len(given) + 4]} ({run.info.run_name})" for run in runs[:3])
    raise SplitError(f"{len(runs)} runs begin with {given!r}: {names}; write more digits.")


def _runs_beginning(tracker: Tracker, digits: str) -> Iterator[Any]:
    if not SHORT_ID.fullmatch(digits):
        return
    for run in every_run(tracker):
        if run.info.run_id.startswith(digits):
            yield run


def every_run(tracker: Tracker, filter_string: str = "") -> Iterator[Any]:
    """Yield every run of the store, the newest first."""
    if ids := tracker.experiments():
        yield from tracker.every(partial(tracker.client.search_runs, ids, filter_string, max_results=1_000))


def recorded_evaluations(home: Home) -> list[Listed]:
    """Return run, model, split, score and time of every finished evaluation in the store, the newest first."""
    rows: list[Listed] = []
    for run in _finished(home, "evaluation"):
        metric = next((name for name in metrics_in(run.data.params) or [] if f"value/{name}" in run.data.metrics), None)
        score = _score(metric, run.data.metrics.get(f"value/{metric}"), run.data.metrics.get(f"resolution/{metric}"))
        rows.append({**_named(run), "score": score, "when": _begun(run)})
    return rows


def recorded_tunings(home: Home) -> list[Listed]:
    """Return run, model, split, the parameters that were chosen, what they are worth and time of every tuning."""
    rows: list[Listed] = []
    for run in _finished(home, "tuning"):
        metric = next((name.removeprefix("tried/") for name in run.data.metrics if name.startswith("tried/")), None)
        params = {name: value for name, value in run.data.params.items() if name.startswith("chosen.")}
        chosen = ", ".join(f"{name.removeprefix('chosen.')}={value}" for name, value in sorted(params.items()))
        score = _score(metric, run.data.metrics.get("choice/value"))
        rows.append({**_named(run), "chosen": chosen, "score": score, "when": _begun(run)})
    return rows


def _finished(home: Home, record: str) -> Iterator[Any]:
    return every_run(Tracker(home, ""), f"tags.`evenfold.record` = '{record}' AND attributes.status = 'FINISHED'")


def _named(run: Any) -> dict[str, str]:
    model = run.info.run_name.partition(" @ ")[0]
    return {"run": run.info.run_id, "model": model, "on": run.data.tags.get("evenfold.spec", "")}


def _begun(run: Any) -> str:
    return datetime.fromtimestamp(run.info.start_time / 1000).astimezone().isoformat(timespec="seconds")


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
    rows: list[Listed] = []
    tracker = Tracker(home, "")
    for model in tracker.every(tracker.client.search_registered_models):
        when = datetime.fromtimestamp(model.last_updated_timestamp / 1000).astimezone()
        newest = max((int(version.version) for version in model.latest_versions), default=0)
        champion = dict(model.aliases).get("champion", "none")
        rows.append({
            "model": model.name, "newest": newest, "champion": champion, "uri": f"models:/{model.name}@champion",
            "when": when.isoformat(timespec="seconds"),
        })  # fmt: skip
    return rows


def metrics_in(params: dict[str, str]) -> list[str] | None:
    """Return the metrics that the parameters of a run name; None where they name none that can be read."""
    try:
        metrics: Any = ast.literal_eval(params.get("model.metrics", "[]"))
        known = isinstance(metrics, (list, tuple)) and all(isinstance(name, str) for name in metrics)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return list(metrics) if known else None

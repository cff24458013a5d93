"""The registry of models: which version is the champion, and how another becomes it. Idempotent by the run's key."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from evenfold.estimates import ModelSpec
from evenfold.estimates.promotion import Decision
from evenfold.tasks.outcomes import Champion, FinalModel, Opened, Registered, Retraining, SplitRef
from evenfold.tasks.runtime.step import flow_run_tags, step
from evenfold.tasks.work import work_of
from pydantic import ValidationError

from .entries import Entry, run_key, split_tags
from .tracker import RUN_KEY, Tracker, load_final, requirements, tracker_of

MODEL, DECISION, OUTCOME = "evenfold.model", "evenfold.decision", "retrain.json"
CHAMPION, CHALLENGER = "champion", "challenger"


@step(run_name=lambda split, name="", **_: f"champion of {name or split.name}")
def read_champion(split: SplitRef, name: str = "") -> Champion | None:
    """Return the version, recipe and tags of the model that is champion, or None where there is none."""
    tracker, name = tracker_of(split), name or split.name
    models = [model for model in tracker.client.search_registered_models(f"name = '{name}'") if model.name == name]
    if not models or CHAMPION not in models[0].aliases:
        return None
    version = tracker.client.get_model_version_by_alias(name, CHAMPION)
    recipe = ModelSpec.model_validate_json(version.tags[MODEL]) if MODEL in version.tags else None
    tags = dict(version.tags)
    return Champion(name=name, version=str(version.version), model=recipe, tags=tags, run_id=version.run_id)


@step(run_name=lambda split, name="", **_: f"open retrain {name or split.name}")
def open_retraining(split: SplitRef, model: Any, name: str, metric: str, label: str = "") -> Opened:
    """Find or create the run of a retraining; return its id, the decision made before, and the outcome if FINISHED."""
    tracker, work = tracker_of(split), work_of(split, model)
    recipe, seed = work.problem.model.canonical(), work.manifest.spec.seed
    about: dict[str, Any] = {"model": recipe, "seed": seed, "label": label}
    key = run_key(kind="retrain", name=name, split_id=split.split_id, fingerprint=work.fingerprint, **about)
    known = tracker.find(key)
    if known is not None and tracker.client.get_run(known).info.status == "FINISHED":
        outcome = _outcome(tracker, known)
        if outcome is not None:
            return Opened(run_id=known, outcome=outcome)
    params = {f"candidate.{field}": value for field, value in recipe.items()} | {"metric": metric}
    tags = split_tags(split) | flow_run_tags()
    run_id = tracker.begin(Entry(key=key, name=f"retrain/{name}", tags=tags, params=params, metrics={}))
    decided = tracker.client.get_run(run_id).data.tags.get(DECISION)
    return Opened(run_id=run_id, decision=Decision(**json.loads(decided)) if decided else None)


def _outcome(tracker: Tracker, run_id: str) -> Retraining | None:
    """Return what a finished retraining came to; None where an earlier version wrote it, and it is run again."""
    try:
        return Retraining.model_validate_json(tracker.text(run_id, OUTCOME))
    except ValidationError:
        return None


@step(run_name=lambda split, **_: f"record the decision on {split.name}")
def record_decision(split: SplitRef, run_id: str, decision: Decision) -> Decision:
    """Keep a decision before it is acted on: a retraining that was killed goes on with it."""
    tracker_of(split).client.set_tag(run_id, DECISION, json.dumps(asdict(decision)))
    return decision


@step(run_name=lambda split, name="", **_: f"earlier comparisons of {name or split.name}")
def read_spending(split: SplitRef, name: str = "") -> list[tuple[str, float]]:
    """Return the day of each earlier comparison of a name and the error that it has spent."""
    runs = tracker_of(split).runs_named(f"retrain/{name or split.name}")
    decided = [(run, json.loads(run.data.tags[DECISION])) for run in runs if DECISION in run.data.tags]
    days = (datetime.fromtimestamp(run.info.start_time / 1000, UTC).date().isoformat() for run, _ in decided)
    return [(day, decision["spent"]) for day, (_, decision) in zip(days, decided, strict=True) if decision.get("spent")]


@step(run_name=lambda split, name="", **_: f"register {name or split.name}")
def register_model(
    split: SplitRef, model: Any, final: FinalModel, *, run_id: str, name: str = "", promote: bool = False
) -> Registered:
    """Log a model of ``fit_final``, make it a version and the challenger, and the champion where it is promoted.

    One run registers one version, however often it is tried.
    """
    tracker, name, work = tracker_of(split), name or split.name, work_of(split, model)
    client, key = tracker.client, tracker.client.get_run(run_id).data.tags.get(RUN_KEY, run_id)
    if not any(each.name == name for each in client.search_registered_models(f"name = '{name}'")):
        client.create_registered_model(name, description="Retrained by evenfold.")
    known = [each for each in client.search_model_versions(f"name = '{name}'") if each.tags.get(RUN_KEY) == key]
    recipe = work.problem.model.model_dump(mode="json", exclude_defaults=True)
    tags = split_tags(split) | flow_run_tags() | {RUN_KEY: key, MODEL: json.dumps(recipe)}
    tags |= {"evenfold.values": work.fingerprint, "evenfold.n_train": str(final.n_train)}
    made = str(known[0].version) if known else _new_version(tracker, run_id, name, recipe["estimator"], final, tags)
    client.set_registered_model_alias(name, CHALLENGER, made)
    if promote:
        client.set_registered_model_alias(name, CHAMPION, made)
    return Registered(name=name, version=made, uri=f"models:/{name}/{made}", champion=promote)


def _new_version(
    tracker: Tracker, run_id: str, name: str, estimator: str, final: FinalModel, tags: dict[str, str]
) -> str:
    model, types = load_final(final.file.path)
    uri = tracker.keep_model(run_id, model, types, requirements(estimator))
    # A server checks that the source belongs to the run, or to the logged model that the URI names.
    source = {"run_id": run_id, "model_id": uri.rpartition("/")[2], "tags": tags}
    with tracker.process_wide():
        return str(tracker.client.create_model_version(name, uri, **source).version)


@step(run_name=lambda split, **_: f"record retrain {split.name}")
def close_retraining(split: SplitRef, outcome: Retraining, metrics: dict[str, float]) -> Retraining:
    """Log report and outcome, and set the run FINISHED last."""
    tracker, run_id = tracker_of(split), outcome.run_id
    tracker.measured(run_id, metrics)
    tracker.client.log_text(run_id, outcome.report, "retrain.md")
    tracker.keep(run_id, "report.html", outcome.page().html())
    tracker.client.set_tag(run_id, "mlflow.note.content", outcome.report[:5000])
    tracker.keep(run_id, OUTCOME, outcome.model_dump(mode="json"))
    tracker.finish(run_id)
    return outcome


@step(run_name=lambda split, **_: f"record the failure of {split.name}")
def fail_retraining(split: SplitRef, run_id: str, reason: str) -> str:
    """Mark a retraining as failed, with the reason where people look for it."""
    tracker_of(split).fail(run_id, reason)
    return reason

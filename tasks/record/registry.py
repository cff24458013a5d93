"""The registry of models: which version is the champion, and how another becomes it. Idempotent by the run's key."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenfold.tasks.runtime.home import Home

from .entries import Entry, split_tags
from .tracker import RUN_KEY, Tracker, load_final, requirements

MODEL, DECISION, OUTCOME = "evenfold.model", "evenfold.decision", "retrain.json"
CHAMPION, CHALLENGER = "champion", "challenger"


def read_champion(split: dict[str, Any], name: str, home: str) -> dict[str, Any] | None:
    """Return the version, recipe and tags of the model that is champion, or None where there is none."""
    tracker = Tracker(Home(Path(home)), split["name"])
    found = [each for each in tracker.client.search_registered_models(f"name = '{name}'") if each.name == name]
    if not found or CHAMPION not in found[0].aliases:
        return None
    made = tracker.client.get_model_version_by_alias(name, CHAMPION)
    model = json.loads(made.tags[MODEL]) if MODEL in made.tags else None
    return {"version": str(made.version), "model": model, "tags": dict(made.tags), "run_id": made.run_id}


def open_retraining(
    split: dict[str, Any], key: str, name: str, tags: dict[str, str], params: dict[str, Any], home: str
) -> dict[str, Any]:
    """Find or create the run of a retraining; return its id, the decision made before, and the outcome if FINISHED."""
    tracker = Tracker(Home(Path(home)), split["name"])
    known = tracker.find(key)
    finished = known is not None and tracker.client.get_run(known).info.status == "FINISHED"
    outcome = json.loads(tracker.text(known, OUTCOME)) if known and finished else None
    if known is not None and finished:
        return {"run_id": known, "decision": None, "outcome": outcome}
    entry = Entry(key=key, name=f"retrain/{name}", tags=split_tags(split) | tags, params=params, metrics={})
    run_id = tracker.begin(entry)
    decided = tracker.client.get_run(run_id).data.tags.get(DECISION)
    return {"run_id": run_id, "decision": json.loads(decided) if decided else None, "outcome": None}


def record_decision(split: dict[str, Any], run_id: str, decision: dict[str, Any], home: str) -> None:
    """Keep a decision before it is acted on: a retraining that was killed goes on with it."""
    tracker = Tracker(Home(Path(home)), split["name"])
    tracker.client.set_tag(run_id, DECISION, json.dumps(decision))


def read_spending(split: dict[str, Any], name: str, home: str) -> list[tuple[str, float]]:
    """Return the day of each earlier comparison of a name and the error that it has spent."""
    tracker = Tracker(Home(Path(home)), split["name"])
    runs = tracker.runs_named(f"retrain/{name}")
    decided = [(run, json.loads(run.data.tags[DECISION])) for run in runs if DECISION in run.data.tags]
    days = (datetime.fromtimestamp(run.info.start_time / 1000, UTC).date().isoformat() for run, _ in decided)
    return [(day, decision["spent"]) for day, (_, decision) in zip(days, decided, strict=True) if decision.get("spent")]


def register(
    split: dict[str, Any],
    run_id: str,
    key: str,
    name: str,
    model: dict[str, Any],
    file: str,
    promote: bool,
    tags: dict[str, str],
    home: str,
) -> dict[str, Any]:
    """Log the final model, make it a version and the challenger, and the champion where it was promoted.

    The same key registers one version, however often it is tried.
    """
    tracker = Tracker(Home(Path(home)), split["name"])
    client = tracker.client
    if not any(each.name == name for each in client.search_registered_models(f"name = '{name}'")):
        client.create_registered_model(name, description="Retrained by evenfold.")
    made = [each for each in client.search_model_versions(f"name = '{name}'") if each.tags.get(RUN_KEY) == key]
    version = str(made[0].version) if made else _new_version(tracker, run_id, key, name, model, file, split, tags)
    client.set_registered_model_alias(name, CHALLENGER, version)
    if promote:
        client.set_registered_model_alias(name, CHAMPION, version)
    return {"name": name, "version": version, "uri": f"models:/{name}/{version}", "champion": promote}


def _new_version(
    tracker: Tracker,
    run_id: str,
    key: str,
    name: str,
    model: dict[str, Any],
    file: str,
    split: dict[str, Any],
    tags: dict[str, str],
) -> str:
    made, types = load_final(file)
    uri = tracker.keep_model(run_id, made, types, requirements(model["estimator"]))
    about = split_tags(split) | tags | {RUN_KEY: key, MODEL: json.dumps(model)}
    # A server checks that the source belongs to the run, or to the logged model that the URI names.
    made_of = {"run_id": run_id, "model_id": uri.rpartition("/")[2], "tags": about}
    with tracker.process_wide():
        return str(tracker.client.create_model_version(name, uri, **made_of).version)


def close_retraining(
    split: dict[str, Any],
    run_id: str,
    outcome: dict[str, Any],
    report: str,
    metrics: dict[str, float],
    home: str,
) -> str:
    """Log report and outcome, and set the run FINISHED last."""
    tracker = Tracker(Home(Path(home)), split["name"])
    tracker.measured(run_id, metrics)
    tracker.client.log_text(run_id, report, "retrain.md")
    tracker.client.set_tag(run_id, "mlflow.note.content", report[:5000])
    tracker.keep(run_id, OUTCOME, outcome)
    tracker.client.set_terminated(run_id, "FINISHED")
    return run_id


def fail_retraining(split: dict[str, Any], run_id: str, reason: str, home: str) -> None:
    """Mark a retraining as failed, with the reason where people look for it."""
    Tracker(Home(Path(home)), split["name"]).fail(run_id, reason)

"""The record of looks at the locked part. Never kept for later: where a look cannot be recorded, nobody looks."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any

from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import locked

from .entries import Entry, estimate_metrics, run_key, split_tags
from .tracker import Tracker


def record_look(
    split: dict[str, Any], model: dict[str, Any], reason: str, data: str, tags: dict[str, str], home: str
) -> dict[str, Any]:
    """Record that somebody is about to look at the locked part, and return the run and the number of the look.

    The look is recorded before the rows are touched: where it cannot be recorded, nobody looks.
    """
    tracker = Tracker(Home(Path(home)), split["name"])
    with locked(tracker.home.locks, f"look/{tracker.home.tracking_uri}/{split['name']}"):
        before = tracker.client.search_runs([tracker.experiment_id], "tags.`evenfold.look` != ''", max_results=1000)
        number = len(before) + 1
        entry = Entry(
            key=run_key(kind="look", split_id=split["split_id"], number=number),
            name=f"look {number}/{model['estimator'].rpartition(':')[2]}",
            tags=split_tags(split)
            | {"evenfold.look": str(number), "evenfold.look_reason": reason, "evenfold.look_by": _who()}
            | tags,
            params={f"model.{name}": value for name, value in model.items()},
            metrics={},
        )
        with tracker.run(entry) as run_id:
            tracker.reads(run_id, Path(data).name, data, split["split_id"])
    return {"run_id": run_id, "look": number}


def record_look_scores(name: str, run_id: str, score: dict[str, Any], file: str, home: str) -> None:
    """Record what a look at the locked part showed, in the run that announced it."""
    tracker = Tracker(Home(Path(home)), name)
    tracker.measured(run_id, {f"holdout/{metric}": value for metric, value in score["test"].items()})
    tracker.keep(run_id, "predictions", Path(file))


def _who() -> str:
    return os.environ.get("EVENFOLD_USER") or getpass.getuser()


def record_tuning(
    split: dict[str, Any],
    split_run_id: str,
    model: dict[str, Any],
    tried: list[dict[str, Any]],
    choice: dict[str, Any],
    metric: str,
    one_standard_error: bool,
    tags: dict[str, str],
    home: str,
) -> str:
    """Record what was tried and chosen as a run ``tune/<model>`` with a child per configuration; return its id."""
    tracker = Tracker(Home(Path(home)), split["name"])
    shared = split_tags(split) | {"evenfold.split_run_id": split_run_id} | tags
    asked = {"model": model, "tried": [each["params"] for each in tried], "metric": metric}
    key = run_key(kind="tune", split_id=split["split_id"], one_standard_error=one_standard_error, **asked)
    figures = {f"choice/{name}": choice[name] for name in ("best", "chosen", "naive", "value", "low", "high")}
    name = f"tune/{model['estimator'].rpartition(':')[2]}"
    chosen = {f"chosen.{name}": value for name, value in tried[choice["chosen"]]["params"].items()}
    with tracker.run(Entry(key, name, shared, chosen, figures)) as run_id:
        for number, each in enumerate(tried):
            child = Entry(
                key=run_key(kind="configuration", parent=key, number=number),
                name=f"configuration {number}",
                tags=shared,
                params=each["params"],
                metrics=estimate_metrics(each["estimates"]),
            )
            with tracker.run(child, parent=run_id):
                pass
        tracker.keep(run_id, "tuning.json", {"tried": tried, "choice": choice})
    return run_id

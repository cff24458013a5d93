"""The record of looks at a locked part: announced before, completed after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._figures import Entry, run_key, split_tags, who
from ._home import Home
from ._locks import locked
from .record import Tracker


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
            | {"evenfold.look": str(number), "evenfold.look_reason": reason, "evenfold.look_by": who()}
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

"""The record of a tuning: a parent, and a child per configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._figures import Entry, estimate_metrics, run_key, split_tags
from ._home import Home
from .record import Tracker


def record_tuning(
    split: dict[str, Any],
    split_run_id: str,
    model: dict[str, Any],
    tried: list[dict[str, Any]],
    choice: dict[str, Any],
    tags: dict[str, str],
    home: str,
) -> str:
    """Record what was tried and chosen as a run ``tune/<model>`` with a child per configuration; return its id."""
    tracker = Tracker(Home(Path(home)), split["name"])
    shared = split_tags(split) | {"evenfold.split_run_id": split_run_id} | tags
    key = run_key(kind="tune", split_id=split["split_id"], model=model, tried=[each["params"] for each in tried])
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

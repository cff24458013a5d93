"""Which records there are, and were complete when the home's own store was last looked at: MLflow need not be asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.results.preimages import Preimage
from evenfold.tasks.runtime.files import write_aside
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.work import Work

from .entries import run_key, unless_usual, with_code
from .tracker import RUN_KEY, Tracker, tracker_of, users_experiment

SEEN = "recorded.json"


def record_parts(work: Work, label: str, interval: str, level: float) -> dict[str, Any]:
    """Return what the run of an evaluation is about, whatever the user's code."""
    return {
        "kind": "evaluate", "model": work.problem.model.canonical(), "seed": work.manifest.spec.seed,
        "split_id": work.manifest.split_id, "fingerprint": work.fingerprint, "label": label,
        **unless_usual(interval, level),
    }  # fmt: skip


def preimage_of_record(work: Work, label: str, interval: str, level: float) -> Preimage:
    """Return what the record of an evaluation depends on."""
    parts = record_parts(work, label, interval, level) | {"interval": interval, "level": level}
    return Preimage(kind="record", name=work.manifest.name, parts=parts)


def finished_record(home: Home, work: Work, label: str, interval: str, level: float) -> str | None:
    """Return the finished run of an evaluation, None where there is none; looking makes no store."""
    if not home.is_recorded:
        return None
    key = with_code(run_key(**record_parts(work, label, interval, level)), work.problem.model.code)
    if run_id := seen_complete(home, key):
        return run_id
    runs = Tracker(home, work.manifest.name).runs(f"tags.`{RUN_KEY}` = '{key}'")
    return next((str(run.info.run_id) for run in runs if run.info.status == "FINISHED"), None)


def seen_complete(home: Home, content: str, again: bool = False) -> str | None:
    """Return the run that holds a record of ``content``, complete with its files; None where MLflow is to be asked.

    It need not be asked about the home's own store where nothing has been written there since it was seen: a person
    who evaluates the same again waits two seconds less, for MLflow is not even imported. ``again``: it is, anyway.
    """
    store, records = _seen(home)
    run_id, *files = records.get(content, [""])
    usual = home.tracks_here and not again and not users_experiment()
    fresh = usual and store and store == _state_of_store(home)
    return run_id if fresh and run_id and all((home.path / file).is_file() for file in files) else None


def see_complete(
    split: SplitRef, contents: Iterable[str], run_id: str, files: Iterable[str], split_run: str = ""
) -> None:
    """Remember that a run which was just written or looked at is complete, and the split's run that it rests on."""
    home = Home.here()
    if not home.tracks_here:
        return
    store, place = _state_of_store(home), f"mlartifacts/{split.name}/{run_id}/artifacts"
    held = [run_id, *(f"{place}/{file}" for file in files)]
    records = {content: held for content in contents}
    # Somebody may have deleted it while models were fitted: it is looked at again, after the state was taken.
    run = tracker_of(split).client.get_run(split_run).info if split_run else None
    if run is not None and (run.status, run.lifecycle_stage) == ("FINISHED", "active"):
        records |= {key: seen for key, seen in _seen(home)[1].items() if seen[0] == split_run}
    write_aside(home.path / SEEN, lambda aside: aside.write_text(json.dumps([store, records]), encoding="utf-8"))


def _seen(home: Home) -> tuple[list[int], dict[str, list[str]]]:
    """Return the state of the home's store when it was last looked at, and the records that were complete then."""
    with suppress(OSError, ValueError):
        store, records = json.loads((home.path / SEEN).read_bytes())
        return list(store), dict(records)
    return [], {}


def _state_of_store(home: Home) -> list[int]:
    """Return what changes with whatever is written to the home's own store, and beside it while that is under way."""
    with suppress(OSError):  # of a journal that is gone by now
        states = [file.stat() for file in sorted(home.path.glob("mlflow.db*"))]
        return [number for state in states for number in (state.st_ctime_ns, state.st_size)]
    return []

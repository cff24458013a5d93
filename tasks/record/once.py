"""Records that are made once: what is complete, and made of the same, is neither written nor asked for again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.record.entries import run_key, unless_usual, with_code
from evenfold.tasks.record.tracker import RUN_KEY, Tracker, tracker_of, users_experiment
from evenfold.tasks.results.preimages import Preimage
from evenfold.tasks.runtime.files import write_aside
from evenfold.tasks.runtime.home import Home, locked

if TYPE_CHECKING:
    from evenfold.tasks.work import Work
    from mlflow.entities import Run

SEEN = "recorded.json"  # the complete records, and the home's own store as it was when the last of them was seen


def made_once(
    split: SplitRef, key: str, content: str, files: Collection[str], tags: Mapping[str, str],
    write: Callable[[Tracker, Run | None], str], again: bool = False,
) -> tuple[str, bool]:  # fmt: skip
    """Return the run that ``key`` names, and whether it was written now: complete and of the same ``content`` it stays.

    ``write`` fills the run that there is, or None; ``tags`` are told of one that stays, and ``again`` lets none stay.
    Complete is what has ended well and holds the ``files``; no content is never.
    """
    home = Home.here()
    seen = complete_records(home)
    if content and not again and key in seen and seen[key][1] == content:
        return seen[key][0], False
    tracker = tracker_of(split)
    with locked(home.locks, f"once/{home.tracking_uri}/{key}"):  # of two at once, the second finds what the first made
        existing = tracker.find(key)
        stays = not again and tracker.is_complete(existing, content, files)
        run_id = str(existing.info.run_id) if existing and stays else write(tracker, existing)
    if stays:
        tracker.tell(run_id, tags)
    if content and home.tracks_here:
        place = f"mlartifacts/{split.name}/{run_id}/artifacts"
        seen[key] = [run_id, content, *(f"{place}/{file}" for file in files)]
        records = json.dumps([_state_of_store(home), seen])
        write_aside(home.path / SEEN, lambda aside: aside.write_text(records, encoding="utf-8"))
    return run_id, not stays


def complete_records(home: Home) -> dict[str, list[str]]:
    """Return run, content and files of each complete record by its key; none where MLflow is to be asked.

    It need not be asked about the home's own store where nothing has been written there since: a person who evaluates
    the same again waits two seconds less, for MLflow is not even imported.
    """
    if home.tracks_here and not users_experiment():
        with suppress(OSError, ValueError):
            store, records = json.loads((home.path / SEEN).read_bytes())
            if store and store == _state_of_store(home):
                return {key: held for key, held in records.items() if all((home.path / n).is_file() for n in held[2:])}
    return {}


def _state_of_store(home: Home) -> list[int]:
    """Return what changes with whatever is written to the home's own store, and beside it while that is under way."""
    with suppress(OSError):  # of a journal that is gone by now
        states = [file.stat() for file in sorted(home.path.glob("mlflow.db*"))]
        return [number for state in states for number in (state.st_ctime_ns, state.st_size)]
    return []


def preimage_of_record(work: Work, label: str, interval: str, level: float) -> Preimage:
    """Return what the record of an evaluation depends on."""
    parts = _parts(work, label, interval, level) | {"interval": interval, "level": level}
    return Preimage(kind="record", name=work.manifest.name, parts=parts)


def key_of_record(work: Work, label: str, interval: str, level: float) -> str:
    """Return the key of the run of an evaluation, whatever the user's code."""
    return run_key(**_parts(work, label, interval, level))


def _parts(work: Work, label: str, interval: str, level: float) -> dict[str, object]:
    return {
        "kind": "evaluate", "model": work.problem.model.canonical(), "seed": work.manifest.spec.seed,
        "split_id": work.manifest.split_id, "fingerprint": work.fingerprint, "label": label,
        **unless_usual(interval, level),
    }  # fmt: skip


def finished_record(home: Home, work: Work, label: str, interval: str, level: float) -> str | None:
    """Return the finished run of an evaluation, None where there is none; looking makes no store."""
    if not home.is_recorded:
        return None
    key = with_code(key_of_record(work, label, interval, level), work.problem.model.code)
    if held := complete_records(home).get(key):
        return held[0]
    runs = Tracker(home, work.manifest.name).runs(f"tags.`{RUN_KEY}` = '{key}'")
    return next((str(run.info.run_id) for run in runs if run.info.status == "FINISHED"), None)

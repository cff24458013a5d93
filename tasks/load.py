"""A split that another project made, found in MLflow by any of its names."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from evenfold.manifests import Manifest, read_manifest
from evenfold.splitters import SplitError

from ._home import Home
from .record import Tracker

HEX = re.compile(r"[0-9a-f]{64}")


def load_split(reference: str, home: Home | None = None) -> Manifest:
    """Return the manifest that ``reference`` names: ``name@1.1``, ``name`` for its newest, a split_id or a plan_id.

    It is looked for below the home first, then by its tags in MLflow, whose artifacts are downloaded to the home.
    The identity is made anew from the files and must be the recorded one. Raises SplitError where there is none.
    """
    home = home or Home.here()
    tracker = Tracker(home, "")
    if not HEX.fullmatch(reference):
        name, _, version = reference.partition("@")
        here = home.splits / name / version
        if version and (here / "manifest.json").exists():
            return read_manifest(here)
    run = _found(tracker, reference)
    tags = run.data.tags
    name, _, version = tags["evenfold.spec"].partition("@")
    here = home.splits / name / version
    if not _is(here, tags["evenfold.split_id"]):
        here = _downloaded(tracker, run.info.run_id, home.path / "fetched" / tags["evenfold.split_id"] / name / version)
    if not _is(here, tags["evenfold.split_id"]):
        raise SplitError(
            f"what MLflow keeps as {reference} is not the split {tags['evenfold.split_id'][:16]} that it was recorded "
            "as; its artifacts were changed."
        )
    return read_manifest(here)


def _found(tracker: Tracker, reference: str) -> Any:
    experiments = [each.experiment_id for each in tracker.client.search_experiments()]
    names = ["split_id", "plan_id"] if HEX.fullmatch(reference) else ["spec"]
    wanted = "=" if HEX.fullmatch(reference) or "@" in reference else "LIKE"
    value = reference if wanted == "=" else f"{reference}@%"
    runs: list[Any] = []
    for name in names:
        asked = f"tags.`evenfold.{name}` {wanted} '{value}' AND attributes.run_name LIKE 'split/%'"
        runs += tracker.client.search_runs(experiments, asked) if experiments and "'" not in value else []
    if not runs:
        raise SplitError(
            f"there is no split {reference!r} in {tracker.home.tracking_uri} or below {tracker.home.splits}."
        )
    return max(runs, key=lambda run: _order(run.data.tags["evenfold.spec"]))


def _order(spec: str) -> tuple[int, ...]:
    return tuple(int(part) for part in spec.rpartition("@")[2].split("."))


def _is(folder: Path, split_id: str) -> bool:
    try:
        return bool(read_manifest(folder).split_id == split_id)
    except (ValueError, OSError):
        return False


def _downloaded(tracker: Tracker, run_id: str, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        fetched = tracker.fetch(run_id, "split", Path(folder))
        if not place.exists():
            fetched.rename(place)
    return place

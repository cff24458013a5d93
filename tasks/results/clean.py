"""Old results are removed; manifests, models in the registry and records never are."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Home

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
HALF_WRITTEN_SECONDS = SECONDS["d"]


@dataclass(frozen=True)
class Cleaned:
    """How many files were, or would be, removed, and how many bytes they held."""

    files: int
    bytes: int


def age_of(text: str) -> int:
    """Return the seconds in ``30s``, ``30m``, ``12h``, ``30d`` or ``4w``; raises SplitError for anything else."""
    age = re.fullmatch(r"(\d+)([smhdw])", text.strip())
    if not age:
        raise SplitError(f"{text!r} is not an age; write a number and s, m, h, d or w, such as 30d.")
    return int(age[1]) * SECONDS[age[2]]


def clean(home: Home, older_than: int, dry_run: bool = False) -> Cleaned:
    """Remove cached results, scores, data and model files that nobody wrote or read for ``older_than`` seconds.

    They are made again when they are needed. Manifests are not touched.
    """
    limits = {True: min(older_than, HALF_WRITTEN_SECONDS), False: older_than}  # by whether a kill left it half written
    old = [path for path in _files(home) if _idle(path) > limits[path.name.startswith(".writing-")]]
    size = sum(path.stat().st_size for path in old)
    if not dry_run:
        for path in old:
            path.unlink(missing_ok=True)
    return Cleaned(len(old), size)


def _files(home: Home) -> list[Path]:
    storage = home.path / "prefect" / "storage"  # what Prefect keeps of the same results
    places = (home.results, home.scores, home.shared / "models", home.data, storage)
    left = (home.path.glob(".writing-*"), (home.shared / "snapshots").glob(".writing-*"))  # but what a kill left there
    return [path for paths in (*(place.rglob("*") for place in places), *left) for path in paths if path.is_file()]


def _idle(path: Path) -> float:
    status = path.stat()
    # Some systems do not note when files are read; then the time of writing is all there is.
    return time.time() - max(status.st_mtime, status.st_atime)

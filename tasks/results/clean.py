"""Old results are removed; manifests, models in the registry and records never are."""

from __future__ import annotations

import re
import time
from itertools import chain

from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Home

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
HALF_WRITTEN_SECONDS = SECONDS["d"]


def age_of(text: str) -> int:
    """Return the seconds in ``30s``, ``30m``, ``12h``, ``30d`` or ``4w``; raises SplitError for anything else."""
    age = re.fullmatch(r"(\d+)([smhdw])", text.strip())
    if not age:
        raise SplitError(f"{text!r} is not an age; write a number and s, m, h, d or w, such as 30d.")
    return int(age[1]) * SECONDS[age[2]]


def clean(home: Home, older_than: int, dry_run: bool = False) -> list[int]:
    """Remove cached results, scores, data and model files that nobody wrote or read for ``older_than`` seconds.

    They are made again when they are needed. Manifests are not touched. Returns the bytes of each file that was
    removed, or with ``dry_run`` would be.
    """
    limits = {True: min(older_than, HALF_WRITTEN_SECONDS), False: older_than}  # by whether a kill left it half written
    storage = home.path / "prefect" / "storage"  # what Prefect keeps of the same results
    places = (home.results, home.scores, home.shared / "models", home.data, storage)
    left = (home.path.glob(".writing-*"), (home.shared / "snapshots").glob(".writing-*"))  # but what a kill left there
    sizes = []
    for path in [each for each in chain(*(place.rglob("*") for place in places), *left) if each.is_file()]:
        status = path.stat()
        # Some systems do not note when files are read; then the time of writing is all there is.
        idle = time.time() - max(status.st_mtime, status.st_atime)
        if idle > limits[path.name.startswith(".writing-")]:
            sizes.append(status.st_size)
            if not dry_run:
                path.unlink(missing_ok=True)
    return sizes

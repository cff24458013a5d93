"""The rows of the data that one split trains on or tests."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
from evenfold.splitters import SplitError

from ._manifest import Manifest
from ._read import read_table


def join_rows(manifest: Manifest, data: Any, fold: int, role: Literal["train", "test"], repeat: int = 0) -> pa.Table:
    """Return the rows of ``data`` (a file or a frame) that ``fold`` trains on or tests, in key order.

    ``fold`` counts from 0, as do draws and pairs; of parts there is a fold for each part that is tested (validation,
    or test beside train alone). A row that a bootstrap draws twice is there twice. Locked rows are in neither role.
    Raises SplitError for a fold, role or repeat that there is not, and where the data are not those of the manifest.
    """
    table = read_table(data, types=manifest.spec.types)
    train, test = manifest.pair(_split(manifest, fold, role, repeat))
    return table.take(pa.array(manifest.positions(table)[train if role == "train" else test]))


def _split(manifest: Manifest, fold: int, role: str, repeat: int) -> int:
    if role not in ("train", "test"):
        raise SplitError(f"there is no role {role!r}; choose 'train' or 'test'.")
    repeats = manifest.codes.shape[1] if manifest.codes.ndim == 2 else 1
    folds = manifest.n_splits // repeats
    for what, given, count in (("repeat", repeat, repeats), ("fold", fold, folds)):
        if not 0 <= given < count:
            choice = f"choose 0 to {count - 1}" if count > 1 else "choose 0"
            raise SplitError(f"there is no {what} {given} in {manifest.name} {manifest.version}; {choice}.")
    return repeat * folds + fold

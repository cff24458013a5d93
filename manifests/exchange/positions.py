"""Splits as positions of a frame's rows, both ways: the lists that PyTorch, Lightning and Hugging Face index with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.tables.canonical import amount, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import Pair, SplitError

from .kept import require_data


def for_torch(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return a list of {"train": positions, "val": positions} as JSON, and what is lost."""
    require_data(data, "torch")
    apart = manifest.spec.calibration is not None
    cv = manifest.as_cv(read_table(data, types=manifest.spec.types), calibration=apart)
    splits = [{"train": np.sort(train).tolist(), "val": np.sort(test).tolist()} for train, test in cv.split()]
    for i in range(len(splits) if apart else 0):
        splits[i]["calibration"] = np.sort(cv.calibration(i)).tolist()
    n = manifest.in_use.locked.size
    lock = f", and the lock of {amount(n, 'row')}, which {verb(n, 'is', 'are')} on no side" if n else ""
    lost = f"Lost: keys, strategy and seed{lock}; the positions hold for this order of rows alone."
    return json.dumps(splits), f"Subset(dataset, split['train']) takes them, in Lightning's data modules too. {lost}"


def pairs_in(splits: Any, n: int) -> list[Pair]:
    """Return the (train, test) of each split of ``n`` rows; SplitError for what is none, and positions that lack."""
    try:
        pairs = [(_side(pair, ("train",), 0), _side(pair, ("val", "validation", "test"), 1)) for pair in splits]
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise SplitError("the splits are no list of (train, test) positions; give one.") from None
    if not pairs:
        raise SplitError("there are 0 splits; at least 1 is needed.")
    for i, pair in enumerate(pairs):
        _require_positions(pair, n, i)
    return pairs


def _side(pair: Any, names: Sequence[str], place: int) -> Any:
    sides = [name for name in names if name in pair] if isinstance(pair, Mapping) else [place]
    side = np.asarray(pair[sides[0]])
    if side.ndim != 1 or (side.size and side.dtype.kind not in "iu"):
        raise ValueError("no positions")
    return side.astype(np.int64)


def _require_positions(pair: Pair, n: int, i: int) -> None:
    for rows in pair:
        outside = rows[(rows < 0) | (rows >= n)]
        if outside.size:
            raise SplitError(
                f"split {i} names {amount(outside.size, 'row')} that the data lack (position {outside[0]:,} of {n:,} "
                "rows); pass the data whose rows they are, in their order."
            )
    # On the training side a row may be drawn several times; tested twice it would count as two.
    places, times = np.unique(pair[1], return_counts=True)
    if (times > 1).any():
        raise SplitError(f"split {i} tests row {places[times > 1][0]:,} {times.max()} times; name each test row once.")

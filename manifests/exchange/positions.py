"""Splits as positions of a frame's rows, both ways: the lists that PyTorch, Lightning and Hugging Face index with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.plan import Plan
from evenfold.manifests.tables.canonical import amount, is_pseudonym, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import Pair, SplitError, Stream
from evenfold.splitters.kernels.random import CALIBRATION, IntArray
from evenfold.splitters.strategies.holdout import check_fraction, locked_rows

from .kept import require_data


def calibrating(manifest: Manifest, frame: Any, positions: IntArray) -> Callable[[int], Pair]:
    """Return what parts the ranks that a split trains on: those to learn from, and those set apart to calibrate by.

    The share of the specification, drawn from the training rows as a holdout is from all: groups whole, the latest
    where the strategy sees time, else classes or the order of numbers in their share. Nothing is stored: the rows
    follow from the seed, the split and the columns of ``frame``. Copies of a row in a draw are on one side.
    """
    share, splitter = manifest.spec.calibration, manifest.splitter
    if share is None:
        raise SplitError(f"{manifest.name}: nothing is set apart to calibrate by; name a share (calibration: 0.2).")
    held = np.flatnonzero(positions >= 0)
    types = {name: kind for name, kind in manifest.types.items() if not is_pseudonym(kind)}
    again = {"types": manifest.spec.types | types, "on_immature": "use", "missing_target": "stop"}
    table = read_table(frame, manifest.spec.columns.roles() or None, manifest.spec.types).take(positions[held])
    rows = Plan(manifest.spec.model_copy(update=again), table).rows()

    def parted(i: int) -> Pair:
        ranks = manifest.pair(i)[0]
        train = np.searchsorted(held, ranks[positions[ranks] >= 0])
        among = np.unique(train)
        check_fraction(share, of := rows.take(among))
        apart = among[locked_rows(of, share, Stream(manifest.spec.seed, CALIBRATION, i))]
        left = splitter.trainable(rows, np.setdiff1d(among, apart), apart)
        return held[train[np.isin(train, left)]], held[apart]

    return parted


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

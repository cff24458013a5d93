"""Splits as positions of a frame's rows, both ways: the lists that PyTorch, Lightning and Hugging Face index with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from evenfold.manifests.fields import Columns
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.tables.canonical import amount, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import Pair, SplitError

from .kept import require_data
from .load_folds import in_key_order, manifest_of_pairs


def for_torch(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return a list of {"train": positions, "val": positions} as JSON, and what is lost."""
    require_data(data, "torch")
    pairs = manifest.as_cv(read_table(data, types=manifest.spec.types)).split()
    splits = [{"train": np.sort(train).tolist(), "val": np.sort(test).tolist()} for train, test in pairs]
    n = manifest.in_use.locked.size
    lock = f", and the lock of {amount(n, 'row')}, which {verb(n, 'is', 'are')} on no side" if n else ""
    lost = f"Lost: keys, strategy and seed{lock}; the positions hold for this order of rows alone."
    return json.dumps(splits), f"Subset(dataset, split['train']) takes them, in Lightning's data modules too. {lost}"


def import_positions(
    splits: Any, data: Any, key: str | list[str] | None = None, *, name: str = "imported", target: str | None = None
) -> Manifest:
    """Return a manifest of splits that name the rows of ``data`` (a file or a frame) by position, from 0.

    ``splits`` is a list of (train, test) pairs as scikit-learn has them or of {"train": ..., "val": ...}, or a .json
    file of either. With ``key`` rows are known by it from then on. Folds of one repeat that train on all other rows
    become ``Predefined`` (and keep the split_id that they had); anything else, such as several repeats, is kept as it
    is, as ``PredefinedPairs``. Raises SplitError for another shape, for positions that the data lack, and for a row on
    both sides.
    """
    pairs = _pairs(_read(splits) if isinstance(splits, (str, Path)) else splits)
    table = read_table(data)
    for i, pair in enumerate(pairs):
        _require_positions(pair, table.num_rows, i)
    columns = Columns.model_validate({"key": key, "target": target})
    ordered, _, ranks = in_key_order(table, columns)
    return manifest_of_pairs(
        [(np.sort(ranks[train]), np.sort(ranks[test])) for train, test in pairs], ordered, columns, name
    )


def _read(path: str | Path) -> Any:
    file = Path(path)
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SplitError(f"{file} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise SplitError(f"{file} holds no splits ({type(error).__name__}: {error}); correct it.") from None


def _pairs(splits: Any) -> list[Pair]:
    """Return (train, test) of each split."""
    try:
        pairs = [(_side(pair, ("train",), 0), _side(pair, ("val", "validation", "test"), 1)) for pair in splits]
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise SplitError("the splits are no list of (train, test) positions; give one.") from None
    if not pairs:
        raise SplitError("there are 0 splits; at least 1 is needed.")
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

"""Splits as positions of a frame's rows, both ways: data-foundry and TabArena, OpenML's ARFF, PyTorch's lists."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from evenfold.manifests.fields import Columns
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.tables.canonical import amount, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import Pair, SplitError

from .kept import require_data
from .load_folds import in_key_order, manifest_of_pairs

ARFF_HEADER = """@RELATION {name}_splits
@ATTRIBUTE type {{TRAIN,TEST}}
@ATTRIBUTE rowid NUMERIC
@ATTRIBUTE repeat NUMERIC
@ATTRIBUTE fold NUMERIC
@DATA
"""


def for_data_foundry(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return data-foundry's metadata of splits, {repeat: {fold: (train, test)}}, as JSON, and what is lost."""
    splits: dict[int, dict[int, list[list[int]]]] = {}
    for of, fold, (train, test) in _numbered(manifest, data, "data-foundry"):
        splits.setdefault(of, {})[fold] = [train.tolist(), test.tolist()]
    comment = f"{manifest.name} {manifest.version} by {manifest.algorithm['name']}, split_id {manifest.split_id}"
    content = {"splits_comment": comment, "splits": splits, "type_adapter_id": "predictive-ml-splits-mold-v1"}
    taken = "PredictiveMLSplitsMetadata(**json.load(...)) of data-foundry takes it."
    return json.dumps(content), f"{taken} {_lost(manifest)}"


def for_openml(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return OpenML's ARFF of splits (type, rowid, repeat, fold), and what is lost."""
    text = io.StringIO()
    text.write(ARFF_HEADER.format(name=manifest.name))
    for of, fold, pair in _numbered(manifest, data, "openml"):
        for kind, side in zip(("TRAIN", "TEST"), pair, strict=True):
            text.writelines(f"{kind},{row},{of},{fold}\n" for row in side.tolist())
    return text.getvalue(), f"OpenML's columns type, rowid, repeat, fold; rowid counts from 0. {_lost(manifest)}"


def for_torch(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return a list of {"train": positions, "val": positions} as JSON, and what is lost."""
    splits = [
        {"train": train.tolist(), "val": test.tolist()} for _, _, (train, test) in _numbered(manifest, data, "torch")
    ]
    taken = "Subset(dataset, split['train']) takes them, in Lightning's data modules too."
    return json.dumps(splits), f"{taken} {_lost(manifest)}"


def _lost(manifest: Manifest) -> str:
    n = manifest.in_use.locked.size
    lock = f", and the lock of {amount(n, 'row')}, which {verb(n, 'is', 'are')} on no side" if n else ""
    return f"Lost: keys, strategy and seed{lock}; the positions hold for this order of rows alone."


def _numbered(manifest: Manifest, data: Any, to: str) -> Iterator[tuple[int, int, Pair]]:
    """Yield repeat, fold and the ascending positions of both sides, of every split."""
    require_data(data, to)
    splits = manifest.as_cv(read_table(data, types=manifest.spec.types)).split()
    for i, (train, test) in enumerate(splits):
        yield *manifest.membership.split_name(i), (np.sort(train), np.sort(test))


def import_positions(
    splits: Any, data: Any, key: str | list[str] | None = None, *, name: str = "imported", target: str | None = None
) -> Manifest:
    """Return a manifest of splits that name the rows of ``data`` (a file or a frame) by position, from 0.

    ``splits`` is {repeat: {fold: (train, test)}} as in data-foundry and TabArena, a list of (train, test) pairs or of
    {"train": ..., "val": ...} as PyTorch and scikit-learn have them, a .json file of any of these, or OpenML's .arff.
    With ``key`` rows are known by it from then on. Folds of one repeat that train on all other rows become
    ``Predefined`` (and keep the split_id that they had); anything else, such as several repeats, is kept as it is, as
    ``PredefinedPairs``. Raises SplitError for another shape, for positions that the data lack, and for a row on both
    sides.
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
        text = file.read_text(encoding="utf-8")
        return _arff_splits(text) if file.suffix == ".arff" else json.loads(text)
    except OSError as error:
        raise SplitError(f"{file} cannot be read ({error.strerror}).") from None
    except (ValueError, KeyError) as error:
        raise SplitError(f"{file} holds no splits ({type(error).__name__}: {error}); correct it.") from None


def _arff_splits(text: str) -> dict[int, dict[int, Pair]]:
    """Return {repeat: {fold: (train, test)}} of an ARFF file of splits; its attributes may come in any order."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("%")]
    start = next((i for i, line in enumerate(lines) if line.lower() == "@data"), None)
    if start is None:
        raise ValueError("no line reads @data")
    names = [line.split()[1].strip("'\"").lower() for line in lines[:start] if line.lower().startswith("@attribute")]
    if any(line.count(",") != len(names) - 1 for line in lines[start + 1 :]):
        raise ValueError(f"a line has not one value for each of its {len(names)} attributes")
    text = "\n".join(lines[start + 1 :])
    rows = pd.read_csv(io.StringIO(text), names=names, skipinitialspace=True)
    rows["type"] = rows["type"].astype(str).str.strip(" '\"").str.upper()
    if odd := sorted(set(rows["type"]) - {"TRAIN", "TEST"}):
        raise ValueError(f"a row is neither of TRAIN nor of TEST, but of {odd[0]}")
    for column in ("rowid", "repeat", "fold"):
        if rows[column].dtype.kind not in "iu":
            raise ValueError(f"{column} holds what is not a whole number")
    splits: dict[int, dict[int, Pair]] = {}
    for number, of in rows.groupby(["repeat", "fold"]):
        repeat, fold = map(int, cast(tuple[int, int], number))
        sides = (of.loc[of["type"] == kind, "rowid"].to_numpy(dtype=np.int64) for kind in ("TRAIN", "TEST"))
        splits.setdefault(repeat, {})[fold] = (next(sides), next(sides))
    return splits


def _pairs(splits: Any) -> list[Pair]:
    """Return (train, test) of each split, repeat after repeat."""
    if isinstance(splits, Mapping):
        repeats = _in_order(splits.get("splits", splits))
        splits = [pair for folds in repeats for pair in _in_order(folds)]
    try:
        pairs = [(_side(pair, ("train",), 0), _side(pair, ("val", "validation", "test"), 1)) for pair in splits]
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise SplitError(
            "the splits are neither {repeat: {fold: (train, test)}} nor a list of (train, test) positions; give either."
        ) from None
    if not pairs:
        raise SplitError("there are 0 splits; at least 1 is needed.")
    return pairs


def _in_order(numbered: Any) -> list[Any]:
    """Return the values of {number: value} in the order of the numbers, which JSON has as text."""
    if not isinstance(numbered, Mapping) or not all(str(key).isdigit() for key in numbered):
        raise SplitError("the splits are no {repeat: {fold: (train, test)}} with numbers as keys; give them so.")
    return [numbered[key] for key in sorted(numbered, key=int)]


def _side(pair: Any, names: Sequence[str], place: int) -> Any:
    named = [name for name in names if name in pair] if isinstance(pair, Mapping) else [place]
    side = np.asarray(pair[named[0]])
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

"""Columns that are looked at and decide nothing: how their levels are shared out, and what their levels are called."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.tables.canonical import to_numpy
from numpy.typing import NDArray

from .state import is_numeric_target

if TYPE_CHECKING:
    from .manifest import Manifest

PARTS = ("train", "validation", "test")
# What each calls the three. BigQuery takes words where it tunes, and else a column of truth values.
WORDS: dict[str, tuple[str, str, str]] = {
    "vertex": ("training", "validation", "test"),
    "databricks": ("train", "validate", "test"),
    "bigquery": ("TRAIN", "EVAL", "TEST"),
}
OFTEN = [("train", "valid", "test"), ("train", "val", "test"), ("train", "dev", "test")]
PART_OF = {word.lower(): part for words in [*WORDS.values(), *OFTEN] for word, part in zip(words, PARTS, strict=True)}
MOST_LEVELS = 20
QUARTERS = 4  # of a number
MISSING, OTHERS = "missing", "others"
LEAST_SPARE = 30  # rows, or groups, beyond one a fold: fewer may be dealt like another column by chance


def columns_of_folds(table: pa.Table, manifest: Manifest, codes: NDArray[Any]) -> list[str]:
    """Return the columns that give the fold of each row, as files for other tools do: 0 to k-1 or 1 to k, in any order.

    ``codes``: of the rows of ``table``, a column for each repeat. There are no such numbers where folds are by design
    what a column says (times, places, folds decided elsewhere, a group each), and where chance could have done it.
    Words for several parts, such as TRAIN and TEST, are of some split, whichever this one is.
    """
    words = [name for name in table.column_names if _are_parts(table.column(name))]
    needs = manifest.splitter.needs
    dealt = manifest.n if manifest.group_table is None else manifest.group_table.num_rows
    by_design = needs.time or needs.fixed or needs.coordinates or manifest.kind != "labels"
    if by_design or dealt < manifest.n_splits // codes.shape[1] + LEAST_SPARE:
        return words
    numbers = [name for name in table.column_names if any(_are_folds(table.column(name), each) for each in codes.T)]
    return [*words, *numbers]


def _are_parts(column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    if len(column.slice(0, 1_000).unique()) > len(PARTS):
        return False
    parts = {PART_OF.get(word.lower()) for word in column.unique().to_pylist() if word is not None}
    return len(parts) > 1 and None not in parts


def _are_folds(column: pa.ChunkedArray, codes: NDArray[Any]) -> bool:
    kind, (folds, of_row) = column.type, np.unique(codes, return_inverse=True)
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numeric or column.null_count or pc.count_distinct(column.slice(0, 1_000)).as_py() > folds.size:
        return False
    levels, places = np.unique(to_numpy(column), return_inverse=True)
    runs = folds, np.arange(folds.size), 1 + np.arange(folds.size)
    plain = any(np.array_equal(levels, numbers) for numbers in runs)
    return plain and np.unique(places * folds.size + of_row).size == folds.size > 1


def levels_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """Return a code for each row of a canonical column, and the names of the codes; every row has one.

    Classes are named as they read, in order of their names; beyond 20 the rarest are "others". A number is cut at its
    quartiles, of which equal ones are one. Missing values are a level of their own, the last. No two levels have one
    name: where a class is called "missing" or "others", what is not that class is "(missing)" or "(others)".
    O(n log n).
    """
    numeric = is_numeric_target(column)
    codes, names = _quarters(to_numpy(column).astype(np.float64)) if numeric else _classes(column)
    if (codes < 0).any():
        codes, names = np.where(codes < 0, len(names), codes), [*names, _apart(MISSING, names)]
    return codes, names


def _apart(name: str, names: list[str]) -> str:
    return _apart(f"({name})", names) if name in names else name


def _quarters(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    present = np.sort(values[~np.isnan(values)])
    if not present.size:
        return np.full(values.size, -1, dtype=np.int64), []
    edges = np.unique(present[[(part * present.size) // QUARTERS for part in range(1, QUARTERS)]])
    codes = np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right"))
    quarters, numbered = np.unique(codes[codes >= 0], return_inverse=True)
    codes[codes >= 0] = numbered
    written = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(6, 18))
    texts = next(each for each in written if len(set(each)) == edges.size)  # 17 digits tell any two apart
    names = [f"below {texts[0]}", *(f"{a} to {b}" for a, b in pairwise(texts)), f"{texts[-1]} up"]
    return codes.astype(np.int64), [names[code] for code in quarters]


def _classes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = [str(level) for level in encoded.dictionary.to_pylist()]
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    frequent = sorted(range(len(names)), key=lambda code: (-counts[code], names[code]))[:MOST_LEVELS]
    chosen = sorted(frequent if len(names) <= MOST_LEVELS else frequent[:-1], key=lambda code: names[code])
    place = np.full(len(names) + 1, len(chosen), dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    place[-1] = -1  # of missing values, whose code is -1
    labels = [names[code] for code in chosen]
    return place[codes], [*labels, _apart(OTHERS, labels)] if len(chosen) < len(names) else labels

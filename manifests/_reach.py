"""How even a grouped split is beside how even whole groups could be."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from evenfold.splitters import GroupPacker, Rows
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ._columns import canonical_table, to_numpy
from ._decide import balanced_columns
from ._manifest import Manifest
from ._read import read_table


class Reach(BaseModel):
    """The cost of a grouped split, and a cost that no assignment of the same whole groups is below.

    ``cost`` = ``size_term`` + ``class_term`` + ``missing``, as the strategy weighs them: sizes, class shares, and how
    many times a fold lacks a class that enough groups have. ``gap`` = cost - lower_bound, and ``optimal`` only where
    that is proved to be nothing. Of a grown split the bound is that of all groups dealt out anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cost: float
    size_term: float
    class_term: float
    missing: int
    lower_bound: float
    gap: float
    optimal: bool


def reach_of(manifest: Manifest, data: Any) -> Reach | None:
    """Return how even a grouped split is and could be; None for other strategies, and where a group lies in two folds.

    O(n) and the bound's search: up to a few seconds where groups are few enough for a proof.
    """
    splitter, columns = manifest.splitter, manifest.spec.columns
    if not isinstance(splitter, GroupPacker) or data is None or columns.group is None:
        return None
    codes = manifest.codes_in_use
    kept = np.isin(codes, list(splitter.part_codes().values()) or np.arange(manifest.n_splits))
    balanced: list[str | None] = [*columns.stratify] or [columns.target]
    used = list(dict.fromkeys(name for name in [*balanced, columns.group] if name))
    table = canonical_table(read_table(data, used), used, manifest.types).take(manifest.positions(data)[kept])
    groups = to_numpy(table.column(columns.group))
    if _torn(groups, codes[kept]):
        return None
    y = balanced_columns(table, columns)
    rows = Rows.of(np.empty((table.num_rows, 0)), y, groups, needs=splitter.needs, asked_by=type(splitter).__name__)
    return Reach(**asdict(splitter.judge(rows, codes[kept])))


def _torn(groups: NDArray[Any], codes: NDArray[Any]) -> bool:
    """Return whether a group has rows of two codes, as merged groups have."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return bool((codes[first][numbers] != codes).any())


def least_size_deviation(n: int, n_splits: int, largest: int = 1) -> float:
    """Return the largest relative deviation from equal test sizes that no split of n rows can do without.

    Whole rows cannot be shared out more evenly, and the fold of the largest group holds at least that group.
    """
    mean = n / n_splits
    fewest, most = n // n_splits, -(-n // n_splits)
    return max(mean - fewest, max(most, largest) - mean) / mean

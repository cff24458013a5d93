"""Parts of any shares in which each class has its share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from evenfold.splitters.base import PartSplitter, label_type, part_sizes
from evenfold.splitters.kernels.random import IntArray, Stream
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from .kfold import check_classes

TRAIN_VALIDATION_TEST = {"train": 0.6, "validation": 0.2, "test": 0.2}


class StratifiedSplit(PartSplitter):
    """Parts of any shares (80 %, 10 % and 10 %) in which each of two or more classes has its share.

    Each class's rows are shared out by the parts' sizes: whole rows first, then the rest, each part's and each class's
    rounded up or down such that all of them come out (controlled rounding), the largest remainders first. Which rows of
    a class go where is random.

    Promises: every row is in one part; each part's size is within 1 row of its share of n (largest remainders), and
    each class's rows in a part within 1 row of the class's share of that part. A class with fewer rows than parts is a
    SplitError, unless ``rare="spread"``: then some parts have none of it, which the balance report says.

    O(n log n), and O((classes x parts)^2) at worst for the rounding.
    """

    needs = Needs(y="classes")
    promises = PartSplitter.promises | {"exact_parts", "exact_class_parts"}
    in_memory_because = ""

    def __init__(
        self,
        parts: Mapping[str, float] = TRAIN_VALIDATION_TEST,
        *,
        rare: Literal["error", "spread"] = "error",
        random_state: int = 0,
    ) -> None:
        self.parts = parts
        self.rare = rare
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the code of each row's part."""
        assert rows.y is not None
        sizes = part_sizes(self.parts, rows.n)
        table = rounded(rows.class_counts().astype(np.int64), sizes)
        codes = np.array(list(self.part_codes().values()), dtype=label_type(sizes.size))
        labels = np.empty(rows.n, dtype=codes.dtype)
        labels[stream.shuffled_by(rows.y, len(rows.levels))] = np.repeat(np.tile(codes, len(table)), table.reshape(-1))
        return labels

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        check_classes(rows, len(self.parts), self.rare, of=f"the {len(self.parts)} parts")


def rounded(counts: IntArray, sizes: IntArray) -> IntArray:
    """Return the whole rows of each class (a row) in each part: counts x sizes / n, each rounded up or down.

    Rows of the table sum to ``counts`` and columns to ``sizes``, which have the same sum n. Such a rounding exists
    (Bacharach 1966, Matrix rounding problems). Integers alone, so the same everywhere.
    """
    whole, rest = np.divmod(np.outer(counts, sizes), counts.sum())
    up = np.zeros(whole.shape, dtype=np.bool_)
    lacking = sizes - whole.sum(axis=0)
    for row in range(len(counts)):
        for _ in range(int(counts[row] - whole[row].sum())):
            _round_up_one(row, rest, up, lacking)
    table: IntArray = whole + up
    return table


def _round_up_one(row: int, rest: IntArray, up: NDArray[np.bool_], lacking: IntArray) -> None:
    """Round up one more cell of a row, moving those of other rows where a column has enough: an augmenting path."""
    came: dict[int, tuple[int, int]] = {}  # of each column: the row it was reached from, and that row's own column
    waiting, reached_by = [row], {row: -1}
    while waiting:
        at = waiting.pop(0)
        for column in np.argsort(-rest[at], kind="stable").tolist():
            if column in came or up[at, column] or rest[at, column] == 0:
                continue
            came[column] = (at, reached_by[at])
            if lacking[column] > 0:
                lacking[column] -= 1
                _flip(column, came, up)
                return
            for other in np.flatnonzero(up[:, column]).tolist():
                if other not in reached_by:
                    reached_by[other] = column
                    waiting.append(other)


def _flip(column: int, came: dict[int, tuple[int, int]], up: NDArray[np.bool_]) -> None:
    """Round the path's cells the other way, from the column that had room back to the row that began."""
    while column >= 0:
        at, before = came[column]
        up[at, column] = True
        if before >= 0:
            up[at, before] = False
        column = before

"""Grouped parts: train, validation, test, ... of whole groups, with the same shares of rows and classes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._cost import FloatArray
from ._grouped import GroupPacker, Optimiser
from ._pack import DEFAULT_EFFORT, Effort
from ._parts import PartSplitter
from ._random import Stream
from ._rows import Rows

TRAIN_VALIDATION_TEST: Mapping[str, float] = MappingProxyType({"train": 0.8, "validation": 0.1, "test": 0.1})


class BalancedGroupSplit(GroupPacker, PartSplitter):
    """Parts of any shares that keep every group whole and have the same class shares.

    y, ``size_weight``, ``effort`` and ``optimiser`` are as in BalancedGroupKFold; a part's size counts relative to its
    own share, so that a small part is as exact as a large one.

    Promises: every row is in one part, no group in two, and no part is empty. How close sizes and classes come to
    their shares depends on the groups; ``report`` says how close they are, and how close they could be.

    O(n) for the table of groups x classes, then the pack kernel.
    """

    promises = PartSplitter.promises | {"groups_whole"}

    def __init__(
        self,
        parts: Mapping[str, float] = TRAIN_VALIDATION_TEST,
        *,
        size_weight: float | Literal["relative"] = "relative",
        effort: Effort = DEFAULT_EFFORT,
        optimiser: Optimiser = "evenfold",
        random_state: int = 0,
    ) -> None:
        self.parts = parts
        self.size_weight = size_weight
        self.effort = effort
        self.optimiser = optimiser
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the code of each row's part."""
        return np.array(list(self.part_codes().values()))[self._bins_of_rows(rows)]

    def _shares(self) -> FloatArray:
        return np.array(list(self.parts.values()), dtype=np.float64)

    def _check(self, rows: Rows) -> None:
        PartSplitter._check(self, rows)
        self._check_packing(rows, f"{len(self.parts)} parts", len(self.parts))

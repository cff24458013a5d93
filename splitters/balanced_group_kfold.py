"""Grouped k-fold: groups whole, sizes and class shares as even as they can be."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._base import LabelSplitter
from ._errors import SplitError
from ._pack import DEFAULT_EFFORT, Effort, pack
from ._random import PACKING, Stream
from ._rows import Needs, Rows
from ._table import table_to_pack


class BalancedGroupKFold(LabelSplitter):
    """Folds that keep every group whole and share out rows and classes evenly.

    y may be classes, numbers (then 10 quantile bins stand for the distribution), several columns (each column's
    classes count), or absent (then sizes alone count).

    Promises: test sets are disjoint and hold every row once; no group is in two folds; no fold is empty. How even
    sizes and classes can be depends on the groups; ``report`` says how even they are.

    ``size_weight`` weighs sizes against classes: 1.0 is the published cost, sum_f (n_f/n - 1/k)^2 + sum_f sum_c
    (n_fc/n_f - n_c/n)^2; "relative" measures a fold's size relative to what it should be, (k n_f/n - 1)^2, because
    the published one makes folds half as large again as soon as one group is giant.
    ``effort`` counts rounds of exchanges, never seconds; "max" searches on. Otherwise, where groups are few and many
    packings are good, each seed gives another one whose unevenness is at most half of what chance would make.

    O(n) for the table of groups x classes, then the pack kernel. The idea of packing groups by their class counts,
    and the cost: Figueira (2022), Stratified k-fold cross-validation on grouped datasets.
    """

    needs = Needs(y="any", groups=True)
    promises = LabelSplitter.promises | {"groups_whole", "no_empty_fold"}
    version = 2

    def __init__(
        self,
        n_splits: int = 5,
        *,
        size_weight: float | Literal["relative"] = "relative",
        effort: Effort = DEFAULT_EFFORT,
        random_state: int = 0,
    ) -> None:
        self.n_splits = n_splits
        self.size_weight = size_weight
        self.effort = effort
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        assert rows.groups is not None
        sizes, table, weights = table_to_pack(rows)
        shares = np.full(self.n_splits, 1.0 / self.n_splits)
        bins = pack(
            table,
            shares,
            self._stream(PACKING),
            sizes=sizes,
            weights=weights,
            size_weight=self.size_weight,
            effort=self.effort,
        )
        return bins[rows.groups]

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.n_groups < 2:
            raise SplitError(f"all {rows.n:,} rows are one group; use KFold, or a finer group column.")
        if self.n_splits > rows.n_groups:
            raise SplitError(f"n_splits={self.n_splits} with {rows.n_groups} groups; choose {_range(rows.n_groups)}.")


def _range(most: int) -> str:
    return "2" if most == 2 else f"2 or {most}" if most == 3 else f"2 to {most}"

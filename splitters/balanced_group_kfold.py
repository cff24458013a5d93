"""Grouped k-fold: groups whole, sizes and class shares as even as they can be."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import NDArray

from ._base import LabelSplitter
from ._cost import FloatArray
from ._grouped import GroupPacker, Optimiser, equal_shares
from ._pack import DEFAULT_EFFORT, Effort
from ._random import Stream
from ._rows import Rows


class BalancedGroupKFold(GroupPacker):
    """Folds that keep every group whole and share out rows and classes evenly.

    y may be classes, numbers (then 10 quantile bins stand for the distribution), several columns (each column's
    classes count), or absent (then sizes alone count).

    Promises: test sets are disjoint and hold every row once; no group is in two folds; no fold is empty. How even
    sizes and classes can be depends on the groups; ``report`` says how even they are, and how even they could be.

    ``size_weight`` weighs sizes against classes: 1.0 is the published cost, sum_f (n_f/n - 1/k)^2 + sum_f sum_c
    (n_fc/n_f - n_c/n)^2; "relative" measures a fold's size relative to what it should be, (k n_f/n - 1)^2, because
    the published one makes folds half as large again as soon as one group is giant. A fold without a class that at
    least k groups have costs 1 more.
    ``effort`` counts rounds of exchanges, never seconds; "max" searches on, and to the proved optimum where groups
    are few. Otherwise, where groups are few and many assignments are good, each seed gives another one, of at most a
    third of the cost that rows drawn one by one would have.
    ``optimiser="published"`` is the search of the source, for comparison; its parameters are given as
    ``{"name": "published", "start": "greedy", "min_cost": 1e-5, "max_retries": 100}``.

    O(n) for the table of groups x classes, then the pack kernel. The idea of packing groups by their class counts,
    and the cost: Figueira (2022), Stratified k-fold cross-validation on grouped datasets.
    """

    promises = LabelSplitter.promises | {"groups_whole", "no_empty_fold"}
    version = 2

    def __init__(
        self,
        n_splits: int = 5,
        *,
        size_weight: float | Literal["relative"] = "relative",
        effort: Effort = DEFAULT_EFFORT,
        optimiser: Optimiser = "evenfold",
        random_state: int = 0,
    ) -> None:
        self.n_splits = n_splits
        self.size_weight = size_weight
        self.effort = effort
        self.optimiser = optimiser
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        return self._bins_of_rows(rows)

    def _shares(self) -> FloatArray:
        return equal_shares(self.n_splits)

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        self._check_packing(rows, f"n_splits={self.n_splits}", self.n_splits)

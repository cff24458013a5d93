"""K-fold with several stratify columns at once, or many labels per row."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ._base import LabelSplitter
from ._grouped import check_effort, equal_shares
from ._pack import DEFAULT_EFFORT, Effort, pack
from ._random import PACKING, Stream
from ._rows import Needs, Rows
from ._table import table_to_pack


class BalancedKFold(LabelSplitter):
    """Folds in which every class of every column of y has its share: for several columns, and for many labels a row.

    y may be several columns (n, columns), classes, numbers (then 10 quantile bins stand for the distribution) or
    absent. Each row goes to a fold on its own; rows that belong together need BalancedGroupKFold.

    Promises: test sets are disjoint and hold every row once; sizes differ by at most 1. How even the classes of many
    columns can be at once depends on the rows.

    Rows that are alike are dealt out together, the others one by one, then exchanged while that makes the folds more
    even: O(n x (n_splits + columns)). The task, with another rule that looks at one rare label at a time and ends
    with uneven sizes: Sechidis, Tsoumakas, Vlahavas (2011), On the stratification of multi-label data.
    """

    needs = Needs(y="any")
    promises = LabelSplitter.promises | {"even_sizes"}

    def __init__(self, n_splits: int = 5, *, effort: Effort = DEFAULT_EFFORT, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.effort = effort
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row."""
        sizes, table, weights = table_to_pack(rows)
        return pack(
            table,
            equal_shares(self.n_splits),
            self._stream(PACKING),
            sizes=sizes,
            weights=weights,
            size_weight="exact",
            effort=self.effort,
        )

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        check_effort(self.effort)

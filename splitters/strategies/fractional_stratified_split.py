"""Fractional stratification: parts of any proportions with nearly the same target distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from evenfold.splitters.base import TRAIN_AND_TEST, PartSplitter, check_count, label_type, part_sizes
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.order import stable_order
from evenfold.splitters.kernels.random import IntArray, Stream
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

UNDECIDED = -9


class FractionalStratifiedSplit(PartSplitter):
    """Parts of any shares (89 % and 11 %, or three and more) with the same distribution of a numeric target.

    Rows are sorted by y and cut into ``precision`` blocks. Of each block of Q rows, part i gets floor(s_i Q) at
    random. The rows that this leaves undecided go through the same again with half as many blocks and with
    s_i = (rows that part i still lacks) / (rows undecided), until one block is left, which the parts' missing
    rows fill exactly. ``precision`` is at first ``max(1, floor(n x smallest share / 2))``: blocks large enough
    that every part gets at least one row of each.

    Promises: every row is in one part; each part's size is within 1 row of its share of n (largest remainders).

    O(n log n): one sort, then at most log2(precision) vectorised rounds over what is left. Source: Lowe (2016),
    Stratified validation splits for regression problems. Corrected here: n / precision need not be whole (blocks
    differ by at most 1 row); shares are counted in whole rows, so they stay at 0 or above and sum to 1 exactly;
    and the last rows fill the parts' exact sizes instead of falling with probabilities, which missed the sizes by
    1.8 rows and more.
    """

    needs = Needs(y="numbers")
    promises = PartSplitter.promises | {"exact_parts"}
    in_memory_because = ""

    def __init__(
        self,
        parts: Mapping[str, float] = TRAIN_AND_TEST,
        *,
        precision: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.parts = parts
        self.precision = precision
        self.random_state = random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the code of each row's part."""
        assert rows.y is not None
        sizes = part_sizes(self.parts, rows.n)
        labels = np.full(rows.n, UNDECIDED, dtype=label_type(sizes.size))
        codes = np.array(list(self.part_codes().values()), dtype=labels.dtype)
        undecided, lacking, n_blocks = stable_order(rows.y), sizes, self._precision(rows.n)
        while undecided.size:
            lacking = _share_out(labels, undecided, min(n_blocks, undecided.size), lacking, codes, stream)
            undecided = undecided[labels[undecided] == UNDECIDED]
            n_blocks //= 2
        return labels

    def _precision(self, n: int) -> int:
        return self.precision or max(1, int(n * min(self.parts.values()) / 2))

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if self.precision is not None:
            check_count("precision", self.precision, least=1)
            if self.precision > rows.n:
                raise SplitError(f"precision={self.precision:,} blocks of {rows.n:,} rows; choose 1 to {rows.n:,}.")


def _share_out(
    labels: NDArray[Any], rows: IntArray, n_blocks: int, lacking: IntArray, codes: NDArray[Any], stream: Stream
) -> IntArray:
    """Give each block of ``rows`` (in order of y) its whole shares, write them to ``labels``; return what still lacks.

    Part i's share of a block of Q rows is floor(lacking_i x Q / rows), in integers. Blocks have one of two lengths,
    so all blocks of a length are dealt at once.
    """
    starts = np.arange(n_blocks + 1) * rows.size // n_blocks
    lengths = np.diff(starts)
    left = lacking
    for length in (rows.size // n_blocks, rows.size // n_blocks + 1):
        blocks = starts[:-1][lengths == length]
        share = lacking * length // rows.size
        slots = np.full(length, UNDECIDED, dtype=labels.dtype)
        slots[: int(share.sum())] = np.repeat(codes, share)
        places = rows[blocks[:, None] + np.arange(length)]
        labels[places] = slots[stream.shuffled_rows(blocks.size, length)]
        left = left - share * blocks.size
    return left

"""Named parts, train, validation and test: their codes, shares and sizes; at random, or with the shares of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import Any, Literal

import numpy as np
from evenfold.splitters.base import LabelSplitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import merged_folds, rows_of_share, shares_of_parts, trained_part
from evenfold.splitters.numbers import IntArray, Stream, check_count, is_real, label_type
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from .kfold import check_classes

# A splitter's default; read, never written.
TRAIN_AND_TEST: Mapping[str, float] = {"train": 0.8, "test": 0.2}


class PartSplitter(LabelSplitter):
    """A strategy that gives each row one of the named ``parts``: shares that sum to 1, or whole numbers of folds.

    ``{"train": 89, "test": 11}`` are 89 and 11 folds of a hundred, merged (``shares_of_parts``).

    Codes: train -1, validation 0, test -2, further parts 1, 2, ... in the given order; with no more than train and
    test, test is 0. Where none is called train, the one with the largest share is trained on (``trained_part``).
    ``assign`` returns the codes; ``split`` yields (train, part) for each part of code 0 and above, so a test part that
    stands beside a validation part is kept for the end.

    Promises: every row is in one part; not that every row is tested.
    """

    promises = frozenset({"disjoint", "parts"})
    parts: Mapping[str, float]

    def _laid(self, order: IntArray, sizes: IntArray) -> NDArray[Any]:
        """Return the code of each row, where those in ``order`` are laid out to the parts by ``sizes``, run by run."""
        codes = np.array(list(self.part_codes().values()), dtype=label_type(len(self.parts)))
        labels = np.empty(order.size, dtype=codes.dtype)
        labels[order] = np.repeat(np.resize(codes, sizes.size), sizes.reshape(-1))
        return labels

    def _check(self, rows: Rows) -> None:
        check_parts(self.parts, rows.n)


def part_sizes(parts: Mapping[str, float], n: int) -> IntArray:
    """Return how many of ``n`` rows each part gets: within 1 of share x n, n in all, rounded by ``rows_of_share``.

    Parts that are not trained on are served by their remainders, equal ones in the given order. Elementwise
    arithmetic, so the same on every machine.
    """
    trained = list(parts).index(trained_part(parts))
    shares = np.array(list(parts.values()), dtype=np.float64) / fsum(parts.values())
    tested = rows_of_share(fsum(np.delete(shares, trained)), n)
    sizes: IntArray = np.floor(shares * n + 1e-9).astype(np.int64)
    rest = shares * n - sizes
    rest[trained], sizes[trained] = -1.0, n - tested
    sizes[np.argsort(-rest, kind="stable")[: n - int(sizes.sum())]] += 1
    return sizes


def check_parts(parts: Any, n: int) -> None:
    """Raise SplitError unless ``parts`` are shares above 0 that sum to 1, one to train on, each worth a row of n.

    Whole numbers of folds are shares of their sum.
    """
    if not isinstance(parts, Mapping) or len(parts) < 2:
        raise SplitError(f"parts={parts!r}; name two or more with their shares, such as {TRAIN_AND_TEST}.")
    parts = shares_of_parts(parts) if merged_folds(parts) else parts
    unfit = {name: share for name, share in parts.items() if not (is_real(share) and 0 < share < 1)}
    if unfit:
        raise SplitError(f"parts={parts!r}: {unfit!r} is not a share; choose numbers above 0 and below 1.")
    total = fsum(parts.values())
    if abs(total - 1.0) > 1e-9:
        raise SplitError(f"parts={parts!r} sum to {total:.10g}; choose shares that sum to 1, such as {TRAIN_AND_TEST}.")
    trained_part(parts)
    name, least = min(parts.items(), key=lambda item: item[1])
    if least * n < 1.0 - 1e-9:
        cure = f"choose a share of at least {1 / n:.2g}, or pass at least {int(np.ceil(1 / least)):,} rows"
        raise SplitError(f"part {name!r} would get {least * n:.2g} of {n:,} rows; {cure}.")


TRAIN_VALIDATION_TEST = {"train": 0.6, "validation": 0.2, "test": 0.2}
UNDECIDED = -9


class RandomSplit(PartSplitter):
    """Random parts of any shares and of exact sizes: ``{"train": 0.8, "validation": 0.1, "test": 0.1}``.

    Promises: every row is in one part; each part's size is within 1 row of its share of n (train rounded down); every
    partition into parts of these sizes is equally likely. Nothing is read of the rows but how many there are.

    O(n log n). Source: simple random sampling without replacement; Cochran (1977), Sampling techniques.

    When not to use it: there are classes (StratifiedSplit), numbers (FractionalStratifiedSplit) or groups
    (BalancedGroupSplit) to keep even or whole.
    """

    needs = Needs(y="ignored")
    promises = PartSplitter.promises | {"exact_parts"}

    def __init__(self, parts: Mapping[str, float] = TRAIN_AND_TEST, *, random_state: int = 0) -> None:
        self.parts, self.random_state = parts, random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        return self._laid(stream.permutation(rows.n), part_sizes(self.parts, rows.n))


class StratifiedSplit(PartSplitter):
    """Parts of any shares (80 %, 10 % and 10 %) in which each of two or more classes has its share.

    Each class's rows are shared out by the parts' sizes, rounded up or down such that parts and classes come out
    (controlled rounding), the largest remainders first. Which rows of a class go where is random.

    Promises: every row is in one part; each part's size is within 1 row of its share of n (train rounded down), and
    each class's rows in a part within 1 row of the class's share of that part. A class with fewer rows than parts is a
    SplitError, unless ``rare="spread"``: then some parts have none of it, which the balance report says.

    O(n log n), and O((classes x parts)^2) at worst for the rounding.
    """

    needs = Needs(y="classes")
    promises = PartSplitter.promises | {"exact_parts", "exact_class_parts"}
    version = 2

    def __init__(
        self, parts: Mapping[str, float] = TRAIN_VALIDATION_TEST, *, rare: Literal["error", "spread"] = "error",
        random_state: int = 0,
    ) -> None:  # fmt: skip
        self.parts, self.rare, self.random_state = parts, rare, random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        # Rows class by class, and of each class as many of each part as its row of the table has.
        table = rounded(rows.class_counts().astype(np.int64), part_sizes(self.parts, rows.n))
        return self._laid(stream.shuffled_by(rows.y, len(rows.levels)), table)

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
    return np.asarray(whole + up)


def _round_up_one(row: int, rest: IntArray, up: NDArray[np.bool_], lacking: IntArray) -> None:
    """Round up one more cell of a row, moving those of other rows where a column has enough: an augmenting path."""
    came: dict[int, tuple[int, int]] = {}  # of each column: the row it was reached from, and that row's own column
    waiting, reached_by = [row], {row: -1}
    while waiting:
        at = waiting.pop(0)
        for column in np.argsort(-rest[at], kind="stable").tolist():
            # A share that is whole is not rounded: with one row more it would be off by 1.
            if column in came or up[at, column] or rest[at, column] == 0:
                continue
            came[column] = (at, reached_by[at])
            if lacking[column] > 0:
                lacking[column] -= 1
                # The path's cells are rounded the other way, from here back to the row that began.
                while column >= 0:
                    at, before = came[column]
                    up[at, column] = True
                    if before >= 0:
                        up[at, before] = False
                    column = before
                return
            for other in np.flatnonzero(up[:, column]).tolist():
                if other not in reached_by:
                    reached_by[other] = column
                    waiting.append(other)


class FractionalStratifiedSplit(PartSplitter):
    """Parts of any shares (89 % and 11 %, or three and more) with the same distribution of a numeric target.

    Rows are sorted by y and cut into ``precision`` blocks. Of each block of Q rows, part i gets floor(s_i Q) at
    random. The rows that this leaves undecided go through the same again with half as many blocks and with
    s_i = (rows that part i still lacks) / (rows undecided), until one block is left, which the parts' missing
    rows fill exactly. ``precision`` is at first ``max(1, floor(n x smallest share / 2))``: blocks large enough
    that every part gets at least one row of each. Whole numbers are folds of SortedStratifiedKFold that are merged:
    with ``{"train": 89, "test": 11}`` a block is 100 rows, of which 11 are tested, and left-over rows keep the sizes.

    Promises: every row is in one part; each part's size is within 1 row of its share of n (train rounded down).

    O(n log n): one sort, then at most log2(precision) vectorised rounds over what is left. Source: Lowe (2016),
    Stratified validation splits for regression problems. Corrected here: n / precision need not be whole (blocks
    differ by at most 1 row); shares are counted in whole rows, so they stay at 0 or above and sum to 1 exactly;
    and the last rows fill the parts' exact sizes instead of falling with probabilities.
    """

    needs = Needs(y="numbers")
    promises = PartSplitter.promises | {"exact_parts"}
    version = 2

    def __init__(
        self, parts: Mapping[str, float] = TRAIN_AND_TEST, *, precision: int | None = None, random_state: int = 0
    ) -> None:
        self.parts, self.precision, self.random_state = parts, precision, random_state

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        sizes = part_sizes(self.parts, rows.n)
        labels = np.full(rows.n, UNDECIDED, dtype=label_type(sizes.size))
        codes = np.array(list(self.part_codes().values()), dtype=labels.dtype)
        undecided, lacking, n_blocks = rows.ranked, sizes, self._precision(rows.n)
        # With one block the shares are exactly what lacks, and every row is decided: the loop ends there at the latest.
        while undecided.size:
            n, count, wanted = undecided.size, min(n_blocks, undecided.size), lacking
            starts = np.arange(count + 1) * n // count
            # Blocks have one of two lengths, so all blocks of a length are dealt at once.
            for length in (n // count, n // count + 1):
                blocks, share = starts[:-1][np.diff(starts) == length], wanted * length // n
                slots = np.full(length, UNDECIDED, dtype=labels.dtype)
                slots[: int(share.sum())] = np.repeat(codes, share)
                places = undecided[blocks[:, None] + np.arange(length)]
                labels[places] = slots[stream.shuffled_rows(blocks.size, length)]
                lacking = lacking - share * blocks.size
            undecided, n_blocks = undecided[labels[undecided] == UNDECIDED], n_blocks // 2
        return labels

    def _precision(self, n: int) -> int:
        folds = merged_folds(self.parts)
        return self.precision or max(1, n // folds if folds else int(n * min(self.parts.values()) / 2))

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if self.precision is not None:
            check_count("precision", self.precision, least=1, most=rows.n, among=f"{rows.n:,} rows")

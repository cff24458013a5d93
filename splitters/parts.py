"""Strategies of named parts, train, validation and test: their codes, their shares, and how many rows these are."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, gcd
from typing import Any

import numpy as np
from evenfold.splitters.base import LabelSplitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import IntArray, rows_of_share
from evenfold.splitters.numbers import is_real, is_whole
from evenfold.splitters.rows import Rows

# A splitter's default; read, never written.
TRAIN_AND_TEST: Mapping[str, float] = {"train": 0.8, "test": 0.2}


class PartSplitter(LabelSplitter):
    """A strategy that gives each row one of the named ``parts``: shares that sum to 1, or whole numbers of folds.

    ``{"train": 89, "test": 11}`` are 89 and 11 folds of a hundred, merged (``shares_of_parts``).

    Codes: train -1, validation 0, test -2, further parts 1, 2, ... in the given order; with no more than train and
    test, test is 0. Where none is called train, the one with the largest share is trained on (``trained_part``).
    ``assign`` returns the codes; ``split`` yields (train, part) for each part of code 0 and above, so a test part that
    stands beside a validation part is kept for the end.

    Promises: no row is in both sides of a pair; every row is in one part. Not that every row is tested.
    """

    promises = frozenset({"disjoint", "parts"})
    parts: Mapping[str, float]

    def part_codes(self) -> dict[str, int]:
        """Return the code of each part, in the given order."""
        return codes_of(self.parts)

    def _n_splits(self, rows: Rows) -> int:
        return self.get_n_splits()

    def _check(self, rows: Rows) -> None:
        check_parts(self.parts, rows.n)


def trained_part(parts: Mapping[str, float]) -> str:
    """Return the part that is trained on: train, or the largest of those that are not called validation or test.

    Raises SplitError where two are the largest, or all are called validation and test.
    """
    if "train" in parts:
        return "train"
    able = {name: share for name, share in parts.items() if name not in ("validation", "test")}
    largest = [name for name, share in able.items() if share == max(able.values())]
    if len(largest) != 1:
        why = f"{' and '.join(map(repr, largest))} are as large" if largest else "each is for judging by its name"
        raise SplitError(f"parts={dict(parts)!r} do not say which is trained on ({why}); call that one 'train'.")
    return largest[0]


def codes_of(parts: Mapping[str, float]) -> dict[str, int]:
    """Return the code of each part: the trained one -1, validation 0, test -2 (0 beside that alone), others 1, …"""
    train = trained_part(parts)
    codes = {train: -1, "validation": 0, "test": 0 if len(parts) == 2 else -2}
    others = [name for name in parts if name not in codes]
    return {name: codes[name] if name in codes else 1 + others.index(name) for name in parts}


def shares_of_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each part: as it is given, or its part of all where whole numbers count folds to merge."""
    whole = fsum(parts.values()) if merged_folds(parts) else 1.0
    return {name: share / whole for name, share in parts.items()}


def merged_folds(parts: Mapping[str, float]) -> int:
    """Return how many folds are merged to parts, by the least whole numbers of the same shares; 0 for fractions."""
    counts = [int(count) for count in parts.values() if is_whole(count) and count >= 1]
    return sum(counts) // gcd(*counts) if len(counts) == len(parts) else 0


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
        raise SplitError(f"parts={parts!r}; name two or more with their shares, such as {_EXAMPLE}.")
    parts = shares_of_parts(parts) if merged_folds(parts) else parts
    unfit = {name: share for name, share in parts.items() if not (is_real(share) and 0 < share < 1)}
    if unfit:
        raise SplitError(f"parts={parts!r}: {unfit!r} is not a share; choose numbers above 0 and below 1.")
    total = fsum(parts.values())
    if abs(total - 1.0) > 1e-9:
        raise SplitError(f"parts={parts!r} sum to {total:.10g}; choose shares that sum to 1, such as {_EXAMPLE}.")
    trained_part(parts)
    name, least = min(parts.items(), key=lambda item: item[1])
    if least * n < 1.0 - 1e-9:
        raise SplitError(
            f"part {name!r} would get {least * n:.2g} of {n:,} rows; choose a share of at least {1 / n:.2g}, "
            f"or pass at least {int(np.ceil(1 / least)):,} rows."
        )


_EXAMPLE = "{'train': 0.8, 'test': 0.2}"

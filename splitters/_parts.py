"""Named parts of given shares (train, validation, test, ...) instead of folds."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import Any

import numpy as np

from ._base import LabelSplitter, is_real
from ._errors import SplitError
from ._random import IntArray
from ._rows import Rows

# A splitter's default; read, never written.
TRAIN_AND_TEST: Mapping[str, float] = {"train": 0.8, "test": 0.2}


class PartSplitter(LabelSplitter):
    """A strategy that gives each row one of the named ``parts``, whose shares sum to 1.

    Codes: train -1, validation 0, test -2, further parts 1, 2, ... in the given order; with no more than train and
    test, test is 0. ``assign`` returns the codes; ``split`` yields (train, part) for each part of code 0 and above,
    so a test part that stands beside a validation part is kept for the end.

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


def codes_of(parts: Mapping[str, float]) -> dict[str, int]:
    """Return the code of each part: train -1, validation 0, test -2 (0 beside train alone), others 1, 2, ..."""
    named = {"train": -1, "validation": 0, "test": 0 if len(parts) == 2 and "train" in parts else -2}
    others = [name for name in parts if name not in named]
    return {name: named[name] if name in named else 1 + others.index(name) for name in parts}


def part_sizes(parts: Mapping[str, float], n: int) -> IntArray:
    """Return how many of ``n`` rows each part gets: within 1 of share x n, n in all (largest remainders).

    Equal remainders are served in the given order. Elementwise arithmetic, so the same on every machine.
    """
    wanted = np.array(list(parts.values()), dtype=np.float64) / fsum(parts.values()) * n
    sizes = np.floor(wanted).astype(np.int64)
    served = np.argsort(-(wanted - sizes), kind="stable")[: n - int(sizes.sum())]
    sizes[served] += 1
    return sizes


def check_parts(parts: Any, n: int) -> None:
    """Raise SplitError unless ``parts`` are shares above 0 that sum to 1, train among them, each worth a row of n."""
    if not isinstance(parts, Mapping) or len(parts) < 2 or "train" not in parts:
        raise SplitError(f"parts={parts!r}; name two or more with their shares, train among them, such as {_EXAMPLE}.")
    unfit = {name: share for name, share in parts.items() if not (is_real(share) and 0 < share < 1)}
    if unfit:
        raise SplitError(f"parts={parts!r}: {unfit!r} is no share; choose numbers above 0 and below 1.")
    total = fsum(parts.values())
    if abs(total - 1.0) > 1e-9:
        raise SplitError(f"parts={parts!r} sum to {total:.10g}; choose shares that sum to 1, such as {_EXAMPLE}.")
    name, least = min(parts.items(), key=lambda item: item[1])
    if least * n < 1.0 - 1e-9:
        raise SplitError(
            f"part {name!r} would get {least * n:.2g} of {n:,} rows; choose a share of at least {1 / n:.2g}, "
            f"or pass at least {int(np.ceil(1 / least)):,} rows."
        )


_EXAMPLE = "{'train': 0.8, 'test': 0.2}"

"""Folds or parts by a hash of the key: any engine can decide them, a row at a time, for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import ceil
from typing import Any

import numpy as np
from evenfold.splitters.base import LabelSplitter, refines
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import Stream, hashed, scaled
from evenfold.splitters.numbers import present
from evenfold.splitters.rows import Needs, Rows
from evenfold.splitters.strategies.parts import PartSplitter, check_parts, codes_of, shares_of_parts
from numpy.typing import NDArray


class HashSplit(LabelSplitter):
    """Folds, or parts of given shares, that follow from the key alone.

    u = (first 13 hexadecimal digits of SHA-256(salt + "|" + key)) / 2^52, and the fold is floor(u x n_splits),
    computed in whole numbers. With ``parts`` (then ``n_splits`` is not read) a row is in the first part whose
    cumulative share is above u. The same folds in SQL, here DuckDB's with salt 'trial' and five folds::

        (('0x' || left(sha256('trial' || '|' || id), 13))::HUGEINT * 5) >> 52

    Promises: no row is in both sides of a pair; folds hold every row once; a row's label depends on its key and on
    nothing else, so rows may come, go and change order and none moves. Sizes are as even as chance makes them:
    a share s of n rows is off by about sqrt(n s (1 - s)) rows, and neither groups nor classes are looked at. To keep
    groups whole, pass the group as the key. Few rows may leave a fold empty, which is a SplitError.

    O(n), about a microsecond a row.
    """

    needs = Needs(y="ignored", key=True)

    def __init__(self, n_splits: int = 5, *, parts: Mapping[str, float] | None = None, salt: str = "") -> None:
        self.n_splits = n_splits
        self.parts = parts
        self.salt = salt

    @refines(LabelSplitter.promises | {"by_key_alone"})
    def promises(self) -> frozenset[str]:
        """Return the promises of folds, or parts; and that a row's label follows from its key."""
        return (PartSplitter if self.parts else LabelSplitter).promises | {"by_key_alone"}

    def part_codes(self) -> dict[str, int]:
        """Return the code of each part, none for folds."""
        return codes_of(self.parts) if self.parts else {}

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part, none for folds."""
        return shares_of_parts(self.parts) if self.parts else {}

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold or part of each row."""
        return self.labels_of(rows.key)

    def labels_of(self, key: Any) -> NDArray[Any]:
        """Return the fold or part of each key alone: for rows that arrive one by one, and never an empty-fold error."""
        key = present(key, "key")
        if not self.parts:
            return scaled(hashed(key, self.salt), self.n_splits)
        return np.array(list(self.part_codes().values()))[share_of_key(key, self.shares.values(), self.salt)]

    def _check(self, rows: Rows) -> None:
        if self.parts:
            check_parts(self.parts, rows.n)
        else:
            super()._check(rows)
        if not isinstance(self.salt, str):
            raise SplitError(f"salt={self.salt!r}; choose a text.")
        if rows.key is None or self.fills(rows.n):  # no key is at hand where the parameters alone are checked
            return
        wanted = set(self.part_codes().values()) if self.parts else set(range(self.n_splits))
        empty = sorted(wanted - set(self.labels_of(rows.key).tolist()))
        if empty:
            raise SplitError(
                f"the hashes of these {rows.n:,} keys leave {len(empty)} of {len(wanted)} labels without rows; "
                "pass more rows, choose fewer folds or another salt, or use KFold."
            )

    def fills(self, n: int) -> bool:
        """Return whether ``n`` keys leave any one label without rows once in e^64 times at most, whatever they are."""
        return n * (min(self.shares.values()) if self.parts else 1 / self.n_splits) > 64


def share_of_key(key: Any, shares: Iterable[float], salt: str) -> NDArray[np.int64]:
    """Return the number of the share, of those that sum to 1, into which each key falls."""
    # A share times 2^52 is exact, so comparing whole numbers here is comparing u with the share elsewhere.
    # The last edge is left out: shares may add up to a little less than 1, and the last part ends where u does.
    edges = [ceil(share * 2.0**52) for share in accumulate(shares)][:-1]
    return np.searchsorted(np.array(edges, dtype=np.uint64), hashed(key, salt) >> np.uint64(12), side="right")

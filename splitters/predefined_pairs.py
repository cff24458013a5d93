"""Pairs that were decided elsewhere, as lists of positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ._base import Pair, PairSplitter
from ._errors import SplitError
from ._given import valid_pair
from ._rows import Needs, Rows


class PredefinedPairs(PairSplitter):
    """(train, test) pairs as given, each side a list of positions or a mask of booleans.

    For splits that no column of labels can say: a row that is trained on in some pairs only, or tested twice.

    Promises: positions are valid, both sides hold rows and share none; anything else is a SplitError.
    O(size of the pairs).
    """

    needs = Needs(y="ignored")

    def __init__(self, given_pairs: Sequence[tuple[Any, Any]]) -> None:
        self.given_pairs = given_pairs

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the given pairs as int64 positions."""
        return (valid_pair(*pair, rows.n, f"pair {i}") for i, pair in enumerate(self.given_pairs))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of given pairs."""
        return len(self.given_pairs)

    def _check(self, rows: Rows) -> None:
        if not len(self.given_pairs) or any(len(pair) != 2 for pair in self.given_pairs):
            raise SplitError("given_pairs holds no pairs of (train, test) positions; pass at least one.")
        for i, (train, test) in enumerate(self.pairs(rows)):
            if not (train.size and test.size):
                raise SplitError(f"pair {i} has {train.size:,} rows to train on and {test.size:,} to test; give both.")

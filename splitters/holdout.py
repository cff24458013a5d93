"""A locked test part first, any strategy on the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._base import Pair, Splitter
from ._locked import check_fraction, locked_rows
from ._named import strategy_of
from ._random import HOLDOUT, IntArray, Stream
from ._rows import Needs, Rows


class Holdout(Splitter):
    """Any strategy on the rows that are left when a test part is locked away.

    The Python form of a specification's ``holdout``. ``strategy`` is an instance or a mapping, as for ``Repeated``.
    The locked part is drawn first, from a stream of its own, by what the strategy needs: groups whole, classes or the
    order of numbers in their share. ``locked(X, y, groups)`` returns its positions.

    Promises: no row is in both sides of a pair; no locked row is in any pair; the locked rows depend on
    ``random_state`` and the fraction, not on the strategy's own parameters. O(n log n) more than the strategy.
    """

    kind = "pairs"
    promises = frozenset({"disjoint", "locked_apart"})

    def __init__(self, strategy: Splitter | Mapping[str, Any], fraction: float = 0.2, *, random_state: int = 0) -> None:
        self.strategy = strategy
        self.fraction = fraction
        self.random_state = random_state

    def inner(self) -> Splitter:
        """Return the strategy that splits the rest."""
        return strategy_of(self.strategy, self.random_state)

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """What the strategy needs."""
        return self.inner().needs

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the strategy's pairs of the rows that are not locked."""
        rest = np.setdiff1d(np.arange(rows.n), self.locked_of(rows))
        return ((rest[train], rest[test]) for train, test in self.inner().pairs(rows.take(rest)))

    def locked(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> IntArray:
        """Return the positions of the locked rows, ascending."""
        return self.locked_of(self.rows(X, y, groups, **roles))

    def locked_of(self, rows: Rows) -> IntArray:
        """Return the positions of the locked rows among checked rows, ascending."""
        return locked_rows(rows, self.fraction, Stream(int(self.random_state), HOLDOUT))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return how many pairs the strategy yields."""
        return self.inner().get_n_splits(X, y, groups, **roles)

    def _check(self, rows: Rows) -> None:
        check_fraction(self.fraction, rows)
        self.inner().check(rows.take(np.setdiff1d(np.arange(rows.n), self.locked_of(rows))))

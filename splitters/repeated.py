"""Any strategy that labels rows, several times over with different random numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ._base import LabelSplitter, check_count
from ._encode import encode
from ._errors import SplitError
from ._named import strategy_of
from ._random import REPEATS, Stream
from ._rows import Needs, Rows

TRIES = 20


class Repeated(LabelSplitter):
    """Repeats of a strategy: k-fold, grouped k-fold, parts, or a strategy of your own.

    ``strategy`` is an instance, or ``{"strategy": "KFold", "params": {"n_splits": 5}}`` as JSON holds it; a named
    one takes this ``random_state`` unless its parameters have their own. Repeat 0 is the strategy itself; every
    further repeat gets a seed spawned from ``random_state``. ``assign`` returns a column per repeat (rows by
    repeats); ``split`` yields all pairs of repeat 0, then those of repeat 1, and so on.

    Promises: what the strategy promises, in every repeat, so that k-fold tests each row exactly ``n_repeats`` times;
    and no two repeats are the same partition under other labels. A repeat that comes out like an earlier one is
    tried again with another seed; where the rows allow too few different partitions, that is a SplitError. A strategy
    without a random_state, or with a part that is kept for the end, cannot be repeated.

    The strategy's cost times ``n_repeats``, and O(n) a repeat to compare partitions.
    """

    def __init__(
        self, strategy: LabelSplitter | Mapping[str, Any], n_repeats: int = 10, *, random_state: int = 0
    ) -> None:
        self.strategy = strategy
        self.n_repeats = n_repeats
        self.random_state = random_state

    def repeated(self) -> LabelSplitter:
        """Return the strategy itself; raises SplitError where it is not known or cannot be repeated."""
        strategy = strategy_of(self.strategy, self.random_state)
        if not isinstance(strategy, LabelSplitter) or "random_state" not in strategy.get_params(deep=False):
            raise SplitError(
                f"{strategy!r} has nothing to repeat: it gives rows no labels, or has no random_state to change; "
                "repeat a k-fold strategy such as KFold(5)."
            )
        if -2 in strategy.part_codes().values():
            raise SplitError(
                f"{strategy!r} keeps a test part for the end, and a repeat would train on it; "
                "repeat train and validation only."
            )
        return strategy

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """What the strategy needs."""
        return self.repeated().needs

    @property
    def promises(self) -> frozenset[str]:  # type: ignore[override]
        """What the strategy promises, and that repeats differ."""
        return self.repeated().promises | {"repeats_differ"}

    @property
    def version(self) -> str:  # type: ignore[override]
        """The version of repeating and that of the strategy."""
        return f"1/{self.repeated().version}"

    @property
    def portable(self) -> bool:  # type: ignore[override]
        """Whether the strategy is the same on every machine."""
        return self.repeated().portable

    def part_codes(self) -> dict[str, int]:
        """Return the code of each of the strategy's named parts."""
        return self.repeated().part_codes()

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row in each repeat (rows by repeats)."""
        strategy = self.repeated()
        first = strategy.decide(rows)
        seen = {_partition(first)}
        others = [self._another(strategy, rows, repeat, seen) for repeat in range(1, self.n_repeats)]
        return np.stack([first, *others]).T

    def _another(self, strategy: LabelSplitter, rows: Rows, repeat: int, seen: set[bytes]) -> NDArray[Any]:
        for attempt in range(TRIES):
            seed = int(Stream(self.random_state, REPEATS, repeat, attempt).raw(1)[0])
            labels = clone(strategy).set_params(random_state=seed).decide(rows)
            partition = _partition(labels)
            if partition not in seen:
                seen.add(partition)
                return np.asarray(labels)
        raise SplitError(
            f"n_repeats={self.n_repeats}, and {TRIES} tries at repeat {repeat} all came out like an earlier one: these "
            f"{rows.n:,} rows allow {strategy!r} too few different partitions; choose n_repeats of 1 to {repeat}."
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of folds of all repeats together."""
        return self.n_repeats * self.repeated().get_n_splits(X, y, groups, **roles)

    def _n_splits(self, rows: Rows) -> int:
        return self.repeated()._n_splits(rows)

    def _check(self, rows: Rows) -> None:
        check_count("n_repeats", self.n_repeats, least=1)
        strategy = self.repeated()
        strategy._check_seed()
        strategy._check(rows)


def _partition(labels: NDArray[Any]) -> bytes:
    """Return a digest of the partition that ``labels`` make, whatever its folds are called."""
    return hashlib.sha256(encode(labels, "fold")[0].tobytes()).digest()

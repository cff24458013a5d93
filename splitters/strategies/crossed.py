"""Several entities that are not joined: rows whose entities would be on two sides are left out, as few as can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from evenfold.splitters.base import LabelSplitter, follows, strategy_of
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import CROSSING, HOLDOUT, IntArray, Stream
from evenfold.splitters.numbers import components_of
from evenfold.splitters.packing.cost import table_to_pack
from evenfold.splitters.packing.crossing import Crossing, bins_of_levels
from evenfold.splitters.rows import Needs, Rows
from numpy.typing import NDArray

from .grouped import GroupPacker
from .holdout import check_fraction, locked_rows

LEFT_OUT, LOCKED = -3, -2


@follows("inner", "version")
class Crossed(LabelSplitter):
    """A strategy that packs groups, of rows with several entities each, such as a patient and a device.

    The Python form of a specification's ``group_mode: cross``. ``groups`` are several columns; in one nothing crosses.
    Elsewhere such columns are joined: rows that share a patient or a device, and what those share in turn, are one
    group, and where that is nearly all rows no split is left. Here every patient and every device gets a fold, and a
    row whose patient and device have different ones is in none: its label is -3. ``strategy`` is BalancedGroupKFold or
    BalancedGroupSplit, as an instance or a mapping; it shares out what is left, sizes and classes evenly.

    Promises: no level of any column is on both sides of a split; a row is left out only where its entities are in
    different folds. Few rows are left out, though not the fewest there could be: that is a balanced cut of a graph,
    which nobody can find fast. Where levels meet at random many are, up to nearly 1 - 1/k of them with k folds.

    When not to use it: what the columns join is small; then joining keeps every row. The same where one column lies
    within the other, as patients in hospitals.

    O(visits x rows of a level) for a search whose visits are limited, then the pack kernel.
    """

    promises = frozenset({"disjoint", "entities_apart", "leaves_out_crossing_alone"})
    needs = Needs(y="any", groups=True)

    def __init__(self, strategy: LabelSplitter | Mapping[str, Any], *, random_state: int = 0) -> None:
        self.strategy = strategy
        self.random_state = random_state

    def inner(self) -> GroupPacker:
        """Return the strategy that shares out what is left; raises SplitError where it packs no groups."""
        strategy = strategy_of(self.strategy, self.random_state)
        if isinstance(strategy, GroupPacker):
            return strategy
        raise SplitError(
            f"{type(strategy).__name__} does not pack groups into folds of given shares, so it cannot cross entities; "
            "choose BalancedGroupKFold or BalancedGroupSplit, or join the entities (group_mode: merge)."
        )

    @property
    def parts(self) -> Mapping[str, float]:
        """The shares of the strategy's parts; AttributeError where it has folds."""
        shares: Mapping[str, float] = getattr(self.inner(), "parts")  # noqa: B009 - only some have it
        return shares

    def part_codes(self) -> dict[str, int]:
        """Return the code of each of the strategy's named parts."""
        return self.inner().part_codes()

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of folds, or of parts that are tested."""
        return self.inner().get_n_splits()

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row, -3 for a row of entities of two folds."""
        return self.codes(rows)

    def codes(self, rows: Rows, locked: float = 0.0, seed: int = 0) -> NDArray[Any]:
        """Return the labels where a share ``locked`` of the rows is kept for the end: -2, drawn first by ``seed``."""
        entities, strategy = np.stack(rows.together(), axis=1), self.inner()
        usable = np.arange(rows.n) if rows.entities is None else np.flatnonzero(self._kept(rows, locked))
        left = rows.take(usable)
        groups = components_of(np.stack(left.together(), axis=1))  # what the entities of the rows that are kept join
        levels = tuple(range(int(groups.max(initial=-1)) + 1))
        left = replace(left, groups=groups, group_levels=levels, entities=None)
        rest = np.arange(usable.size)
        if locked:
            check_fraction(locked, left)
            rest = np.setdiff1d(rest, locked_rows(left, locked, Stream(seed, HOLDOUT)))
        strategy.check(left.take(rest))
        decided = strategy.decide(left.take(rest))
        among = np.full(usable.size, LOCKED, dtype=decided.dtype)
        among[rest] = decided
        codes = np.full(rows.n, LEFT_OUT, dtype=decided.dtype)
        codes[usable] = among
        return _with_all_that_fit(entities, codes)

    def _kept(self, rows: Rows, locked: float) -> NDArray[np.bool_]:
        """Return which rows have entities of one bin, of bins for all levels."""
        assert rows.entities is not None
        sizes = rows.entities.codes.max(axis=0) + 1
        levels = rows.entities.codes + np.concatenate([[0], np.cumsum(sizes)[:-1]])
        # The search sees rows that have the same levels once, with their count.
        alike, number = np.unique(levels, axis=0, return_inverse=True)
        number = number.reshape(-1)
        count, table, weights = table_to_pack(replace(rows, groups=number, group_levels=tuple(range(alike.shape[0]))))
        shares = self.inner().bin_shares() * (1.0 - locked)
        shares = np.append(shares, locked) if locked else shares
        crossing = Crossing(alike, np.vstack([count, table.T]), shares, np.sqrt(weights))
        bins = bins_of_levels(crossing, Stream(int(self.random_state), CROSSING))
        return np.asarray(crossing.bin_of_rows(bins) >= 0)[number]

    def _n_splits(self, rows: Rows) -> int:
        return self.inner()._n_splits(rows)

    def _check(self, rows: Rows) -> None:
        self.inner()


def _with_all_that_fit(entities: IntArray, codes: NDArray[Any]) -> NDArray[Any]:
    """Return the codes with every row that is left out although its entities are in one fold, in that fold."""
    of_rows = []
    for column in entities.T:
        of_level = np.full(int(column.max()) + 1, LEFT_OUT, dtype=codes.dtype)
        # All kept rows of a level were joined and have one code; -3 is below every code, so the maximum is that one.
        np.maximum.at(of_level, column, codes)
        of_rows.append(of_level[column])
    agreed = np.logical_and.reduce([row == of_rows[0] for row in of_rows])
    return np.where(agreed, of_rows[0], codes)

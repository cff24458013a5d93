"""The folds of new rows of several entities: where their entities lie, or none where these lie in two folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from evenfold.manifests.membership import EXCLUDED, LOCKED, fold_columns
from evenfold.manifests.state import group_table_of, levels_of
from evenfold.manifests.tables.keys import positions_in
from evenfold.splitters.numbers import components_of
from numpy.typing import NDArray

Ints = NDArray[np.int64]
# From the rows of new groups, the number of each row's group, and the groups' names, to the folds of each group.
Pack = Callable[[Ints, Ints, pa.Array], Ints]


@dataclass(frozen=True, eq=False)
class EntityGrowth:
    """The rows that arrive, as the levels of their entities, beside what is known of those.

    ``known``: the manifest's table of levels. ``arriving``: the entity columns of the data. ``codes`` (rows, repeats)
    are those of rows in use; ``new`` says which rows have none yet, ``in_use`` which have one that counts.

    Known levels keep their folds. New levels that hang together, by rows that arrive, go where most of these rows have
    a known level or a fold; where none has, they are packed as one group. A row whose levels lie in two folds is a
    bridge: it joins none. O(rows x entities).
    """

    known: pa.Table
    arriving: pa.Table
    codes: Ints
    new: NDArray[np.bool_]
    in_use: NDArray[np.bool_]

    @cached_property
    def _levels(self) -> tuple[Ints, pa.Table]:
        """The levels of each row (rows, columns), known ones first, and the table of new levels."""
        of_row, levels = levels_of(self.arriving)
        place = positions_in(self.known.select(["entity", "group"]), levels)
        fresh = np.flatnonzero(place < 0)
        number = place.copy()
        number[fresh] = self.known.num_rows + np.arange(fresh.size)
        return number[of_row], levels.take(pa.array(fresh))

    def placed(self, pack: Pack, generation: int, accept: bool) -> tuple[Ints, pa.Table, Ints]:
        """Return the codes of the new rows (rows, repeats), the table of levels with new ones, and the bridges.

        A new row that is a bridge gets -3, or with ``accept`` the fold of its first entity.
        """
        of_row, fresh = self._levels
        folds = self._folds(pack)
        agreed = (folds[of_row] == folds[of_row[:, :1]]).all(axis=(1, 2))
        mine = (folds[of_row[:, 0]] == self.codes).all(axis=1)
        bridges = np.flatnonzero((self.new & ~agreed) | (self.in_use & ~(agreed & mine)))
        codes = np.where((agreed | accept)[:, None], folds[of_row[:, 0]], EXCLUDED)[self.new]
        of_fresh = folds[self.known.num_rows :]
        used = np.flatnonzero((of_fresh >= LOCKED).all(axis=1))  # not those of deleted and quarantined rows alone
        names = {name: fresh.column(name).take(pa.array(used)) for name in fresh.column_names}
        joined = group_table_of(names, of_fresh[used], None, generation)
        return codes, pa.concat_tables([self.known, joined.cast(self.known.schema)]).combine_chunks(), bridges

    def _folds(self, pack: Pack) -> Ints:
        """Return the folds of each level (levels, repeats), of known and new ones; -3 where no row decides it."""
        of_row, fresh = self._levels
        columns = [self.known.column(name).to_numpy() for name in fold_columns(self.known.column_names)]
        known_folds = np.column_stack(columns).astype(np.int64)
        # The combinations of folds over the repeats, and which of them each known level has.
        distinct = np.unique(np.vstack([known_folds, self.codes[self.in_use]]), axis=0)
        of_known = _rows_in(distinct, known_folds)
        of_known[(known_folds < LOCKED).any(axis=1)] = -1  # levels of excluded rows alone are free, like new ones
        of_level = np.concatenate([of_known, np.full(fresh.num_rows, -1)])
        own = np.where(self.in_use, _rows_in(distinct, self.codes), -1)
        group, where = self._together(of_row, of_level, np.column_stack([of_level[of_row], own]))
        folds = np.full((of_level.size, distinct.shape[1]), EXCLUDED, dtype=np.int64)
        folds[of_level >= 0] = distinct[of_level[of_level >= 0]]
        folds[where >= 0] = distinct[where[where >= 0]]
        loose = (group >= 0) & (where < 0)
        if loose.any():  # what hangs on nothing known is packed
            numbers = np.full(of_level.size, -1)
            _, numbers[loose] = np.unique(group[loose], return_inverse=True)
            rows = np.flatnonzero(self.new & (numbers[of_row] >= 0).any(axis=1))
            # A row's loose levels are of one group and its others are -1, so the largest is that group.
            # Rows in use are anchors of their own, so a loose group has new rows alone.
            packed = pack(rows, numbers[of_row[rows]].max(axis=1), self._names(numbers))
            folds[loose] = packed[numbers[loose]]
        return folds

    def _together(self, of_row: Ints, of_level: Ints, anchors: Ints) -> tuple[Ints, Ints]:
        """Return the group that each level without a fold is in, -1 for others, and where most of its rows belong."""
        free = of_level < 0
        rows = np.flatnonzero((self.new | self.in_use) & free[of_row].any(axis=1))
        # A level that has a fold is masked out, or it would join all that is new beside it into one group.
        open_levels = np.where(free[of_row[rows]], of_row[rows], -1)
        component = components_of(open_levels)
        group = np.full(of_level.size, -1)
        for column in open_levels.T:
            group[column[column >= 0]] = component[column >= 0]
        n_groups, n_places = int(component.max(initial=-1)) + 1, int(anchors.max(initial=-1)) + 1
        votes = np.zeros((n_groups, max(n_places, 1)), dtype=np.int64)
        for column in anchors[rows].T:
            np.add.at(votes, (component[column >= 0], column[column >= 0]), 1)
        # Of equal votes the least place: `distinct` is sorted, so the order of rows decides nothing.
        best = np.where(votes.sum(axis=1) > 0, votes.argmax(axis=1), -1)
        return group, np.where(group >= 0, best[np.maximum(group, 0)] if n_groups else -1, -1)

    def _names(self, numbers: Ints) -> pa.Array:
        """Return a name for each group of new levels: the least of its levels, so that their order does not matter."""
        levels = pa.concat_tables([self.known.select(["entity", "group"]), self._levels[1]])
        texts = [f"{entity}={level}" for entity, level in zip(*levels.to_pydict().values(), strict=True)]
        least: dict[int, str] = {}
        for number, text in zip(numbers.tolist(), texts, strict=True):
            if number >= 0:
                least[number] = min(least.get(number, text), text)
        return pa.array([least[number] for number in range(len(least))], pa.large_string())


def _rows_in(distinct: Ints, rows: Ints) -> Ints:
    """Return the place of each of ``rows`` among ``distinct`` ones; of a row that is not there any place."""
    places = np.zeros(rows.shape[0], dtype=np.int64)
    for place, combination in enumerate(distinct):
        places[(rows == combination).all(axis=1)] = place
    return places

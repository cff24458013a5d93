"""Which fold a new row gets: it follows its group, fills what its class lacks, or goes by hash."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, UNKNOWN, codes_in
from evenfold.manifests.store.state import State, bins_of, cell_counts, group_table_of, levels_of, shares_of, to_balance
from evenfold.manifests.tables.canonical import amount, numbered, verb
from evenfold.manifests.tables.keys import key_values, positions_in
from evenfold.splitters import HashSplit, SplitError, Stream
from evenfold.splitters.deployed import shown
from evenfold.splitters.kernels import EXTENDING, fill
from evenfold.splitters.numbers import components_of
from evenfold.splitters.packing.pack import pack_into
from evenfold.splitters.strategies.given import share_of_key
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .extend import Arrival


Merged = Literal["quarantine", "accept"]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Growth:
    """The codes of the new rows (rows by repeats), in key order, and what else grew; ``quarantined``: keys of rows."""

    codes: NDArray[Any]
    notes: tuple[str, ...] = ()
    groups: pa.Table | None = None
    state: State | None = None
    quarantined: pa.Table | None = None


def grow(manifest: Manifest, arrival: Arrival, merged: Merged) -> Growth:
    """Return a code for each new row of a manifest of labels. Nothing that has a code is looked at again."""
    dealing = _Dealing(manifest, arrival)
    notes, groups, quarantined = dealing.drift(), None, None
    if manifest.group_table is not None and manifest.spec.columns.entities:
        placed, groups, bridges = EntityGrowth(dealing).placed(accept=merged == "accept")
        if bridges.size:
            quarantined = None if merged == "accept" else arrival.keys.take(bridges)
            n, names = bridges.size, " and ".join(manifest.spec.columns.entities)
            fate = "accepted as asked, so these leak" if merged == "accept" else "quarantined"
            notes += (f"{amount(n, 'row')} {verb(n, 'has', 'have')} {names} of two folds; {fate}.",)
    elif manifest.group_table is not None:
        group = str(manifest.spec.columns.group)
        folds, groups = _by_group(dealing, group)
        placed = folds[arrival.new]
        quarantined, torn = _torn(arrival, group, folds, groups, merged)
        notes += torn
    else:
        keys, strata = arrival.keys.take(arrival.new), dealing.strata[arrival.new]
        placed = np.column_stack([dealing.by_rule(keys, strata, repeat) for repeat in range(dealing.n_repeats)])
    return Growth(placed, notes, groups, dealing.state_with(placed), quarantined)


class _Dealing:
    """The bins that new rows are dealt to, their shares, and what they hold of each stratum."""

    def __init__(self, manifest: Manifest, arrival: Arrival) -> None:
        self.manifest, self.arrival = manifest, arrival
        state, locked = manifest.state or State(), manifest.spec.locked_share
        self.n_repeats = manifest.membership.n_repeats
        self.of_code = state.shares or shares_of(manifest.splitter, manifest.membership.n_bins, locked)
        self.bin_codes = np.array(list(self.of_code))
        self.shares = np.array(list(self.of_code.values()))
        ignored = manifest.splitter.needs.y == "ignored"
        y = None if ignored else to_balance(arrival.table, manifest.spec.columns)
        self.strata, self.state = state.strata(y, arrival.table.num_rows)
        self.n_strata = self.state.n_strata

    def stream(self, repeat: int) -> Stream:
        """Return the random stream of this generation and repeat."""
        return Stream(self.manifest.spec.seed, EXTENDING, self.manifest.generation + 1, repeat)

    def held(self, repeat: int) -> NDArray[np.int64]:
        """Return what each bin holds of each stratum: counted in the data, or remembered where only a batch came."""
        if self.arrival.batch:
            if self.state.counts is None:
                raise SplitError(
                    f"{self.manifest.name} {self.manifest.version} does not remember what its {self.bin_codes.size:,} "
                    f"folds hold of {self.n_strata:,} classes, so a batch alone cannot be shared out; pass the whole "
                    "table, without batch."
                )
            counts = np.array(self.state.counts[repeat], dtype=np.int64).reshape(self.bin_codes.size, -1)
            # Classes that no row had before are the last strata, and no bin holds any of them.
            return np.pad(counts, ((0, 0), (0, self.n_strata - counts.shape[1])))
        codes = np.where(self.arrival.active(), self.arrival.codes()[:, repeat], UNKNOWN)
        return cell_counts(bins_of(codes, self.of_code), self.strata, self.bin_codes.size, self.n_strata)

    def packed(self, rows: Ints, of_group: Ints, names: pa.Array) -> NDArray[np.int64]:
        """Return the codes (groups, repeats) of new groups: ``rows`` of the data are of group ``of_group``."""
        groups, n_groups = pa.table({"group": names}), len(names)
        codes = np.empty((n_groups, self.n_repeats), dtype=np.int64)
        if not n_groups:
            return codes
        table = cell_counts(of_group, self.strata[rows], n_groups, self.n_strata)
        order = np.argsort(pc.rank(groups.column(0)).to_numpy()) if n_groups > 1 else np.arange(1)
        for repeat in range(self.n_repeats):
            if self.manifest.spec.on_new_rows != "fill":  # hashing and freezing look at no stratum
                codes[:, repeat] = self.by_rule(groups, np.zeros(n_groups, dtype=np.int64), repeat)
                continue
            # In the order of their names, so that the order in which groups arrive does not matter.
            bins = pack_into(self.held(repeat), table[order], self.shares, self.stream(repeat))
            codes[order, repeat] = self.bin_codes[bins]
        return codes

    def by_rule(self, keys: pa.Table, strata: Ints, repeat: int) -> NDArray[np.int64]:
        """Return codes by the specification's rule for new rows: fill, hash or freeze."""
        rule, splitter = self.manifest.spec.on_new_rows, self.manifest.splitter
        if rule == "freeze":
            return np.full(keys.num_rows, EXCLUDED)
        if isinstance(splitter, HashSplit):
            return np.asarray(splitter.labels_of(key_values(keys)), dtype=np.int64)
        if rule == "hash":
            salt = f"{self.manifest.spec.seed}|{repeat}"
            return np.asarray(self.bin_codes[share_of_key(key_values(keys), self.shares.tolist(), salt)])
        return self.bin_codes[fill(strata, self.held(repeat), self.shares, self.stream(repeat))]

    def state_with(self, placed: NDArray[np.int64]) -> State | None:
        """Return the state that the next extension starts from."""
        if self.arrival.batch and self.state.counts is None:
            return self.manifest.state
        counts = []
        for repeat in range(self.n_repeats):
            bins = bins_of(placed[:, repeat], self.of_code)
            added = cell_counts(bins, self.strata[self.arrival.new], self.bin_codes.size, self.n_strata)
            counts.append((self.held(repeat) + added).tolist())
        return replace(self.state, counts=counts)

    def drift(self) -> tuple[str, ...]:
        """Return a sentence where new numbers lie beyond the frozen edges more often than the old ones did."""
        new = self.arrival.new
        if not new.size or len(self.state.edges or ()) < 2:
            return ()
        outer = (self.strata[new] == 0) | (self.strata[new] == self.n_strata - 1)
        expected, measured = 2 / self.n_strata, float(outer.mean())
        if measured <= 2 * expected or outer.sum() < 10:
            return ()
        return (
            f"{measured:.0%} of the new rows lie in the outermost target bins, which held {expected:.0%} when the "
            "edges were frozen: the target has drifted, and a new major version would follow it.",
        )


def _by_group(dealing: _Dealing, group: str) -> tuple[Ints, pa.Table]:
    """Return each row's fold (rows by repeats), and the table of groups: known ones keep theirs, new are packed."""
    manifest, arrival, older = dealing.manifest, dealing.arrival, dealing.manifest.group_table
    assert older is not None
    column = arrival.table.column(group)
    place = positions_in(older.select(["group"]), pa.table({"group": column})).copy()
    old, theirs = arrival.known >= 0, arrival.codes()
    stays = old & column.is_null().to_numpy()
    fresh = np.flatnonzero((place < 0) & ~stays)
    codes, groups = numbered(column.take(fresh))
    packed = dealing.packed(fresh, codes.astype(np.int64), groups)
    if manifest.spec.missing_group == "alone":  # a group that is named late follows its rows
        packed[codes[old[fresh]]] = theirs[fresh[old[fresh]]]
    place[fresh] = older.num_rows + codes
    # Of the known rows as well, whose codes _torn() compares with it.
    folds = np.where(stays[:, None], theirs, np.vstack([codes_in(older).astype(np.int64), packed])[place])
    joined = group_table_of({"group": groups}, packed, None, manifest.generation + 1)
    joined = joined.cast(pa.schema([older.schema.field(name) for name in joined.column_names]))
    return folds, pa.concat_tables([older, joined], promote_options="default").combine_chunks()


def _torn(
    arrival: Arrival, group: str, folds: Ints, groups: pa.Table, policy: Merged
) -> tuple[pa.Table | None, tuple[str, ...]]:
    """Return the keys of rows to quarantine, and what is to be said: groups whose rows lie in several folds."""
    stray = (arrival.known >= 0) & np.any(arrival.codes() != folds, axis=1)
    n_stray, column = int(stray.sum()), arrival.table.column(group)
    if not n_stray:
        return None, ()
    places = np.unique(positions_in(groups.select(["group"]), pa.table({"group": column.filter(pa.array(stray))})))
    values, n = groups.column("group").take(places).combine_chunks(), places.size
    quarantined = (arrival.known >= 0) & ~arrival.active()
    rows = arrival.keys.filter(pc.and_not(pc.is_in(column, value_set=values), pa.array(quarantined)))
    if not rows.num_rows:
        return None, ()
    reason = (
        f"{amount(n, 'group')} ({', '.join(map(shown, values[:3].to_pylist()))}) {verb(n, 'holds', 'hold')} "
        f"{amount(n_stray, 'row')} that {verb(n_stray, 'was', 'were')} assigned to another fold with another group"
    )
    if policy == "accept":
        return None, (f"{reason}; accepted as asked, so {verb(n, 'it leaks', 'they leak')}.",)
    fate = f"{verb(n, 'its', 'their')} {amount(rows.num_rows, 'row')} {verb(rows.num_rows, 'is', 'are')} quarantined"
    return rows, (f"{reason}; {fate}.",)


class EntityGrowth:
    """The rows that arrive, as the levels of their entities, beside what is known of those.

    Known levels keep their folds. New levels that hang together, by rows that arrive, go where most of these rows have
    a known level or a fold; where none has, they are packed as one group. A row whose levels lie in two folds is a
    bridge: it joins none. O(rows x entities).
    """

    def __init__(self, dealing: _Dealing) -> None:
        arrival, older, entities = dealing.arrival, dealing.manifest.group_table, dealing.manifest.spec.columns.entities
        assert older is not None
        self.dealing, self.known, self.codes, self.new = dealing, older, arrival.codes(), arrival.known < 0
        self.in_use = arrival.active() & (self.codes >= LOCKED).all(axis=1)
        # The levels of each row (rows, columns), known ones first, and the table of new levels.
        of_row, levels = levels_of(arrival.table.select(entities))
        place = positions_in(older.select(["entity", "group"]), levels)
        fresh = np.flatnonzero(place < 0)
        number = place.copy()
        number[fresh] = older.num_rows + np.arange(fresh.size)
        self.of_row, self.fresh = number[of_row], levels.take(pa.array(fresh))

    def placed(self, accept: bool) -> tuple[Ints, pa.Table, Ints]:
        """Return the codes of the new rows (rows, repeats), the table of levels with new ones, and the bridges.

        A new row that is a bridge gets -3, or with ``accept`` the fold of its first entity.
        """
        of_row, fresh, folds = self.of_row, self.fresh, self._folds()
        agreed = (folds[of_row] == folds[of_row[:, :1]]).all(axis=(1, 2))
        mine = (folds[of_row[:, 0]] == self.codes).all(axis=1)
        bridges = np.flatnonzero((self.new & ~agreed) | (self.in_use & ~(agreed & mine)))
        codes = np.where((agreed | accept)[:, None], folds[of_row[:, 0]], EXCLUDED)[self.new]
        of_fresh = folds[self.known.num_rows :]
        used = np.flatnonzero((of_fresh >= LOCKED).all(axis=1))  # not those of deleted and quarantined rows alone
        names = {name: fresh.column(name).take(pa.array(used)) for name in fresh.column_names}
        joined = group_table_of(names, of_fresh[used], None, self.dealing.manifest.generation + 1)
        return codes, pa.concat_tables([self.known, joined.cast(self.known.schema)]).combine_chunks(), bridges

    def _folds(self) -> Ints:
        """Return the folds of each level (levels, repeats), of known and new ones; -3 where no row decides it."""
        of_row, fresh = self.of_row, self.fresh
        known_folds = codes_in(self.known).astype(np.int64)
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
            packed = self.dealing.packed(rows, numbers[of_row[rows]].max(axis=1), self._names(numbers))
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
        levels = pa.concat_tables([self.known.select(["entity", "group"]), self.fresh])
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

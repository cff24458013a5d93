"""Which fold a new row gets: it follows its group, fills what its class lacks, or goes by hash."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.manifest import DELETED, QUARANTINED, Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, UNKNOWN, codes_in
from evenfold.manifests.plan import in_key_order, used_columns
from evenfold.manifests.store.state import (
    MOST_CELLS,
    State,
    cell_counts,
    group_table_of,
    held_of,
    levels_of,
    shares_of,
    to_balance,
)
from evenfold.manifests.tables.canonical import amount, numbered, verb
from evenfold.manifests.tables.keys import key_values, positions_in
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import HashSplit, SplitError, Stream
from evenfold.splitters.errors import shown
from evenfold.splitters.kernels import components_of, fill
from evenfold.splitters.numbers import EXTENDING
from evenfold.splitters.packing.pack import pack_into
from evenfold.splitters.strategies.given import share_of_key
from numpy.typing import NDArray

Merged = Literal["quarantine", "accept"]
Ints = NDArray[np.int64]
NEW = -1  # the status of a row that the manifest does not know


class Arrival:
    """The used columns of the data in key order, each row beside the manifest.

    ``known`` is each row's place in the manifest, ``status`` its status there, ``codes`` its codes (rows by repeats):
    -1, NEW and -4 of new rows. ``gone`` are rows of the manifest that the data lack now, ``back`` deleted ones that
    they hold again, ``waiting`` the keys of rows that are left out, because their targets are not known yet. Raises
    SplitError for missing values and repeated keys.
    """

    def __init__(self, manifest: Manifest, data: Any, batch: bool) -> None:
        assert manifest.keys is not None
        self.batch, spec = batch, manifest.spec
        used = used_columns(spec, replace(manifest.splitter.needs, fixed=False))  # nobody gives new rows a fold
        if batch and spec.may_wait:
            why = "a batch alone does not say which targets are known by now"
            raise SplitError(f"{why}; pass the whole table, without batch.")
        read = read_table(data, used, spec.types)
        _, _, self.table, self.waiting = in_key_order(read, used, spec, manifest.types, manifest.keys)
        self.keys = self.table.select(spec.key_names)
        self.known = positions_in(manifest.keys, self.keys)
        is_new = self.known < 0
        places = np.maximum(self.known, 0)  # new rows read row 0 here and are masked below
        self.status = np.where(is_new, NEW, manifest.status[places])
        self.codes = np.where(is_new[:, None], UNKNOWN, manifest.membership.codes[places].astype(np.int64))
        self.new, older = np.flatnonzero(is_new), self.known[~is_new]
        if batch and older.size:
            key = ", ".join(map(shown, self.keys.slice(int(np.argmin(is_new)), 1).to_pylist()[0].values()))
            what = f"{older.size:,} of {amount(is_new.size, 'row')} of the batch {verb(older.size, 'is', 'are')} in the"
            cure = "pass new rows only, or the whole table without batch"
            raise SplitError(f"{what} manifest already (first key {key}); {cure}.")
        absent = manifest.status != DELETED
        absent[older] = False
        self.gone = np.flatnonzero(absent & (not batch))
        self.back = self.known[self.status == DELETED]
        # A row that was deleted and stands in the data again is in use: extending sets its status back.
        self.in_use = ~np.isin(self.status, (NEW, QUARANTINED))


@dataclass(frozen=True)
class Assignment:
    """The codes of the new rows (rows by repeats), and what grew; ``torn``: rows whose group lies in two folds."""

    codes: NDArray[Any]
    torn: Ints
    notes: tuple[str, ...] = ()
    groups: pa.Table | None = None
    state: State | None = None


def grow(manifest: Manifest, arrival: Arrival, merged: Merged) -> Assignment:
    """Return a code for each new row of a manifest of labels. Nothing that has a code is looked at again."""
    dealing = _Dealing(manifest, arrival)
    if manifest.group_table is None:
        keys, strata = arrival.keys.take(arrival.new), dealing.strata[arrival.new]
        placed = np.column_stack([dealing.by_rule(keys, strata, repeat) for repeat in range(dealing.n_repeats)])
        growth = Assignment(placed, torn=np.empty(0, dtype=np.int64))
    elif manifest.spec.columns.entities:
        growth = EntityGrowth(dealing, manifest.group_table).growth(accept=merged == "accept")
    else:
        growth = _by_group(dealing, manifest.group_table, str(manifest.spec.columns.group), merged)
    notes = tuple(filter(None, (dealing.drift(), *growth.notes)))
    return replace(growth, notes=notes, state=dealing.state_with(growth.codes))


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

    def stream(self, repeat: int) -> Stream:
        """Return the random stream of this generation and repeat."""
        return Stream(self.manifest.spec.seed, EXTENDING, self.manifest.generation + 1, repeat)

    @cached_property
    def held(self) -> NDArray[np.int64]:
        """The rows of each stratum in each bin of each repeat: counted, or remembered where only a batch came."""
        if not self.arrival.batch:
            codes = np.where(self.arrival.in_use[:, None], self.arrival.codes, UNKNOWN)
            return held_of(self.of_code, codes, self.strata, self.state.n_strata)
        if self.state.counts is None:
            hold = f"its {self.bin_codes.size:,} folds hold of {self.state.n_strata:,} classes"
            why = f"{self.manifest.name} {self.manifest.version} does not remember what {hold}"
            raise SplitError(f"{why}, so a batch alone cannot be shared out; pass the whole table, without batch.")
        counts = np.array(self.state.counts, dtype=np.int64).reshape(self.n_repeats, self.bin_codes.size, -1)
        # Classes that no row had before are the last strata, and no bin holds any of them.
        return np.pad(counts, ((0, 0), (0, 0), (0, self.state.n_strata - counts.shape[2])))

    def packed(self, rows: Ints, of_group: Ints, names: pa.Array) -> NDArray[np.int64]:
        """Return the codes (groups, repeats) of new groups: ``rows`` of the data are of group ``of_group``."""
        groups, n_groups = pa.table({"group": names}), len(names)
        codes = np.empty((n_groups, self.n_repeats), dtype=np.int64)
        if not n_groups:
            return codes
        table = cell_counts(of_group, self.strata[rows], n_groups, self.state.n_strata)
        # In the order of their names, so that the order in which groups arrive does not matter.
        order = np.argsort(pc.rank(names).to_numpy()) if n_groups > 1 else np.arange(1)
        for repeat in range(self.n_repeats):
            if self.manifest.spec.on_new_rows != "fill":  # hashing and freezing look at no stratum
                codes[:, repeat] = self.by_rule(groups, np.zeros(n_groups, dtype=np.int64), repeat)
            else:
                bins = pack_into(self.held[repeat], table[order], self.shares, self.stream(repeat))
                codes[order, repeat] = self.bin_codes[bins]
        return codes

    def by_rule(self, keys: pa.Table, strata: NDArray[Any], repeat: int) -> NDArray[np.int64]:
        """Return codes by the specification's rule for new rows: fill, hash or freeze."""
        rule, splitter = self.manifest.spec.on_new_rows, self.manifest.splitter
        if rule == "freeze":
            return np.full(keys.num_rows, EXCLUDED)
        if isinstance(splitter, HashSplit):
            return np.asarray(splitter.labels_of(key_values(keys)), dtype=np.int64)
        if rule == "hash":
            salt = f"{self.manifest.spec.seed}|{repeat}"
            return np.asarray(self.bin_codes[share_of_key(key_values(keys), self.shares.tolist(), salt)])
        return self.bin_codes[fill(strata, self.held[repeat], self.shares, self.stream(repeat))]

    def state_with(self, placed: NDArray[np.int64]) -> State | None:
        """Return the state that the next extension starts from."""
        if self.arrival.batch and self.state.counts is None:
            return self.manifest.state
        added = held_of(self.of_code, placed, self.strata[self.arrival.new], self.state.n_strata)
        if added.size > MOST_CELLS:  # a new split remembers none of so many either
            return self.manifest.state
        return replace(self.state, counts=(self.held + added).tolist())

    def drift(self) -> str:
        """Return a sentence where new numbers lie beyond the frozen edges more often than the old ones did."""
        strata, n = self.strata[self.arrival.new], self.state.n_strata
        beyond = np.count_nonzero((strata == 0) | (strata == n - 1)) if len(self.state.edges or ()) > 1 else 0
        if beyond < 10 or beyond <= 4 / n * strata.size:  # twice the share that two of n bins held
            return ""
        what = f"{beyond / strata.size:.0%} of the new rows lie in the outermost target bins, which held {2 / n:.0%}"
        return f"{what} when the edges were frozen: the target has drifted, and a new major version would follow it."


def _grown_table(older: pa.Table, names: dict[str, pa.Array], codes: Ints, generation: int) -> pa.Table:
    """Return the table of groups with the new ones below; how many rows of each class these have is not told."""
    joined = group_table_of(names, codes, None, generation)
    joined = joined.cast(pa.schema([older.schema.field(name) for name in joined.column_names]))
    return pa.concat_tables([older, joined], promote_options="default").combine_chunks()


def _by_group(dealing: _Dealing, older: pa.Table, group: str, merged: Merged) -> Assignment:
    """Return the codes of new rows by their groups: known ones keep their folds, new ones are packed.

    ``torn`` are all rows of a group of which some were assigned to another fold, with another group.
    """
    manifest, arrival = dealing.manifest, dealing.arrival
    column, old = arrival.table.column(group), arrival.known >= 0
    place = positions_in(older.select(["group"]), pa.table({"group": column})).copy()
    stays = old & column.is_null().to_numpy()
    fresh = np.flatnonzero((place < 0) & ~stays)
    codes, groups = numbered(column.take(fresh))
    packed = dealing.packed(fresh, codes.astype(np.int64), groups)
    if manifest.spec.missing_group == "alone":  # a group that is named late follows its rows
        late = old[fresh]
        packed[codes[late]] = arrival.codes[fresh[late]]
    place[fresh] = older.num_rows + codes
    of_group = np.vstack([codes_in(older).astype(np.int64), packed])
    folds = np.where(stays[:, None], arrival.codes, of_group[place])
    stray = old & np.any(arrival.codes != folds, axis=1)
    merging, first = np.unique(place[stray], return_index=True)
    torn = np.flatnonzero(np.isin(place, merging) & (arrival.status != QUARANTINED))
    n, n_stray, names = merging.size, int(stray.sum()), column.take(np.flatnonzero(stray)[first[:3]]).to_pylist()
    fate = f"{verb(n, 'its', 'their')} {amount(torn.size, 'row')} {verb(torn.size, 'is', 'are')} quarantined"
    fate = f"accepted as asked, so {verb(n, 'it leaks', 'they leak')}" if merged == "accept" else fate
    what = f"{amount(n, 'group')} ({', '.join(map(shown, names))}) {verb(n, 'holds', 'hold')} {amount(n_stray, 'row')}"
    note = f"{what} that {verb(n_stray, 'was', 'were')} assigned to another fold with another group; {fate}."
    table = _grown_table(older, {"group": groups}, packed, manifest.generation + 1)
    return Assignment(folds[arrival.new], torn, (note,) if torn.size else (), table)


class EntityGrowth:
    """The rows that arrive, as the levels of their entities, beside what is known of those.

    Known levels keep their folds. New levels that hang together, by rows that arrive, go where most of these rows have
    a known level or a fold; where none has, they are packed as one group. A row whose levels lie in two folds is a
    bridge: it joins none. O(rows x entities).
    """

    def __init__(self, dealing: _Dealing, older: pa.Table) -> None:
        arrival = dealing.arrival
        self.dealing, self.known, self.codes, self.new = dealing, older, arrival.codes, arrival.known < 0
        self.in_use = arrival.in_use & (self.codes >= LOCKED).all(axis=1)
        # The levels of each row (rows, columns), known ones first, and the table of new levels.
        of_row, levels = levels_of(arrival.table.select(dealing.manifest.spec.columns.entities))
        number = positions_in(older.select(["entity", "group"]), levels).copy()
        fresh = np.flatnonzero(number < 0)
        number[fresh] = older.num_rows + np.arange(fresh.size)
        self.of_row, self.fresh = number[of_row], levels.take(pa.array(fresh))

    def growth(self, accept: bool) -> Assignment:
        """Return the codes of the new rows and the table of levels with new ones; what is torn are bridges.

        A new row that is a bridge gets -3, or with ``accept`` the fold of its first entity.
        """
        of_row, folds = self.of_row, self._folds()
        agreed = (folds[of_row] == folds[of_row[:, :1]]).all(axis=(1, 2))
        mine = (folds[of_row[:, 0]] == self.codes).all(axis=1)
        bridges = np.flatnonzero((self.new & ~agreed) | (self.in_use & ~(agreed & mine)))
        codes = np.where((agreed | accept)[:, None], folds[of_row[:, 0]], EXCLUDED)[self.new]
        of_fresh = folds[self.known.num_rows :]
        used = np.flatnonzero((of_fresh >= LOCKED).all(axis=1))  # not those of deleted and quarantined rows alone
        names = dict(zip(self.fresh.column_names, self.fresh.take(pa.array(used)).columns, strict=True))
        table = _grown_table(self.known, names, of_fresh[used], self.dealing.manifest.generation + 1)
        n, entities = bridges.size, " and ".join(self.dealing.manifest.spec.columns.entities)
        fate = "accepted as asked, so these leak" if accept else "quarantined"
        note = f"{amount(n, 'row')} {verb(n, 'has', 'have')} {entities} of two folds; {fate}." if n else ""
        return Assignment(codes, bridges, (note,), table)

    def _folds(self) -> Ints:
        """Return the folds of each level (levels, repeats), of known and new ones; -3 where no row decides it."""
        known_folds, n_levels = codes_in(self.known).astype(np.int64), self.known.num_rows + self.fresh.num_rows
        # A place is one combination of folds over the repeats: of each known level, and of each row in use.
        distinct, places = np.unique(np.vstack([known_folds, self.codes]), axis=0, return_inverse=True)
        of_level, (of_known, of_rows) = np.full(n_levels, -1), np.split(places.reshape(-1), [len(known_folds)])
        # Levels of excluded rows alone are free, like new ones.
        of_level[: len(of_known)] = np.where((known_folds < LOCKED).any(axis=1), -1, of_known)
        anchors = np.column_stack([of_level[self.of_row], np.where(self.in_use, of_rows, -1)])
        group, where = self._together(of_level < 0, anchors, len(distinct))
        of_level = np.where(group >= 0, where[group], of_level)
        folds = np.where((of_level >= 0)[:, None], distinct[of_level], EXCLUDED)
        loose = (group >= 0) & (of_level < 0)
        if loose.any():  # what hangs on nothing known is packed
            numbers = np.full(n_levels, -1)
            _, numbers[loose] = np.unique(group[loose], return_inverse=True)
            rows = np.flatnonzero(self.new)
            # A row's loose levels are of one group and its others are -1, so the largest is that group, or none.
            # Rows in use are anchors of their own, so a loose group has new rows alone.
            levels = pa.concat_tables([self.known.select(["entity", "group"]), self.fresh])
            texts = pc.binary_join_element_wise(*levels.columns, pa.scalar("=", pa.large_string()))
            of_groups = pa.table({"number": numbers, "text": texts}).filter(pa.array(numbers >= 0))
            # A group is called as the least of its levels, so that their order does not matter.
            least = of_groups.group_by("number").aggregate([("text", "min")]).sort_by("number")
            names = least.column("text_min").combine_chunks()
            folds[loose] = self.dealing.packed(rows, numbers[self.of_row[rows]].max(axis=1), names)[numbers[loose]]
        return folds

    def _together(self, free: NDArray[np.bool_], anchors: Ints, n_places: int) -> tuple[Ints, Ints]:
        """Return the group that each free level is in, -1 for others, and where most rows of each group belong.

        The place of a group that hangs on nothing is -1, and so is the last, which stands for no group.
        """
        rows = np.flatnonzero((self.new | self.in_use) & free[self.of_row].any(axis=1))
        # A level that has a fold is masked out, or it would join all that is new beside it into one group.
        open_levels = np.where(free[self.of_row[rows]], self.of_row[rows], -1)
        component, group = components_of(open_levels), np.full(free.size, -1)
        where = np.full(int(component.max(initial=-1)) + 2, -1)
        for levels in open_levels.T:
            group[levels[levels >= 0]] = component[levels >= 0]
        # By the groups and places that there are, for a table of all of them would take groups x places.
        votes = [(component[of >= 0] % where.size) * n_places + of[of >= 0] for of in anchors[rows].T]
        cells, n = np.unique(np.concatenate(votes), return_counts=True)
        of_group, places = np.divmod(cells, n_places)
        # Of equal votes the least place: places are sorted, so the order of rows decides nothing. The last one counts.
        by_votes = np.lexsort((-places, n, of_group))
        where[of_group[by_votes]] = places[by_votes]
        return group, where

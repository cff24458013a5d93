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
from evenfold.manifests.plan import used_columns
from evenfold.manifests.state import State, bins_of, cell_counts, group_table_of, shares_of, to_balance
from evenfold.manifests.tables.canonical import amount, canonical_table, key_order, numbered, verb
from evenfold.manifests.tables.keys import key_values, positions_in, with_keys
from evenfold.manifests.tables.maturity import matured, waiting_keys
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import HashSplit, SplitError, Stream
from evenfold.splitters.deployed import shown
from evenfold.splitters.kernels import EXTENDING, fill
from evenfold.splitters.packing.pack import pack_into
from evenfold.splitters.strategies.given import share_of_key
from numpy.typing import NDArray

from .entities import EntityGrowth

GROWING_VERSION = 2  # raised whenever new rows would get other folds than before; part of a grown plan_id


@dataclass(frozen=True, eq=False)
class Arrival:
    """The used columns of the data in key order; ``known`` is each row's place in the manifest, -1 for a new row.

    ``waiting``: the keys of the rows that are left out, because their targets are not known yet.
    """

    manifest: Manifest
    table: pa.Table
    known: NDArray[np.int64]
    batch: bool
    waiting: pa.Table | None = None

    @classmethod
    def of(cls, manifest: Manifest, data: Any, batch: bool) -> Arrival:
        """Return the data as they stand to ``manifest``; raises SplitError for missing values and repeated keys."""
        assert manifest.keys is not None
        spec = manifest.spec
        used = used_columns(spec, replace(manifest.splitter.needs, fixed=False))  # nobody gives new rows a fold
        if batch and spec.may_wait:
            raise SplitError(
                "a batch alone does not say which targets are known by now; pass the whole table, without batch."
            )
        read, waiting = matured(read_table(data, used, spec.types), spec, manifest.types, manifest.keys)
        table = canonical_table(read, used, {**manifest.types, **spec.types})
        for name in used:
            if name not in spec.columns.key:
                spec.require_complete(table.column(name), name)
        table = with_keys(table, spec, manifest.types)
        order = key_order(table, manifest.keys.column_names)
        table = table if order is None else table.take(order)
        positions = positions_in(manifest.keys, table.select(manifest.keys.column_names))
        left_out = waiting_keys(waiting, spec, manifest.types, table.select(manifest.keys.column_names))
        arrival = cls(manifest, table, positions, batch, left_out)
        repeated = np.flatnonzero(positions >= 0)
        if batch and repeated.size:
            key = ", ".join(map(shown, arrival.keys.slice(int(repeated[0]), 1).to_pylist()[0].values()))
            raise SplitError(
                f"{repeated.size:,} of {amount(table.num_rows, 'row')} of the batch {verb(repeated.size, 'is', 'are')} "
                f"in the manifest already (first key {key}); pass new rows only, or the whole table without batch."
            )
        return arrival

    @property
    def keys(self) -> pa.Table:
        """The key columns."""
        assert self.manifest.keys is not None
        return self.table.select(self.manifest.keys.column_names)

    @cached_property
    def new(self) -> NDArray[np.int64]:
        """The rows of the data that the manifest does not know."""
        return np.flatnonzero(self.known < 0)

    @cached_property
    def gone(self) -> NDArray[np.int64]:
        """The rows of the manifest that the data lack, and that were not deleted before."""
        if self.batch:
            return np.empty(0, dtype=np.int64)
        present = np.zeros(self.manifest.n, dtype=np.bool_)
        present[self.known[self.known >= 0]] = True
        return np.flatnonzero(~present & (self.manifest.status != DELETED))

    @cached_property
    def back(self) -> NDArray[np.int64]:
        """The rows of the manifest that were deleted and stand in the data again."""
        positions = self.known[self.known >= 0]
        return np.asarray(positions[self.manifest.status[positions] == DELETED])

    def active(self) -> NDArray[np.bool_]:
        """Return which rows of the data are in the manifest and in use."""
        # A row that was deleted and stands in the data again is in use: extending sets its status back.
        return np.asarray((self.known >= 0) & (self.manifest.status[np.maximum(self.known, 0)] != QUARANTINED))

    def codes(self) -> NDArray[Any]:
        """Return the manifest's codes of the rows of the data (rows by repeats); -4 for new rows."""
        # A new row reads row 0 here; its code is set to UNKNOWN next.
        codes = self.manifest.membership.codes[np.maximum(self.known, 0)].astype(np.int64)
        codes[self.known < 0] = UNKNOWN
        return codes


Merged = Literal["quarantine", "accept"]
Bins = NDArray[np.int64]


@dataclass(frozen=True)
class Growth:
    """The codes of the new rows (rows by repeats), in key order, and what else grew.

    ``quarantined`` are keys of rows of the arriving data.
    """

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
        codes = arrival.codes()
        in_use = arrival.active() & (codes >= LOCKED).all(axis=1)
        arriving = arrival.table.select(manifest.spec.columns.entities)
        growth = EntityGrowth(manifest.group_table, arriving, codes, arrival.known < 0, in_use)
        placed, groups, bridges = growth.placed(dealing.packed, manifest.generation + 1, accept=merged == "accept")
        if bridges.size:
            quarantined = None if merged == "accept" else arrival.keys.take(bridges)
            n, names = bridges.size, " and ".join(manifest.spec.columns.entities)
            fate = "accepted as asked, so these leak" if merged == "accept" else "quarantined"
            notes += (f"{amount(n, 'row')} {verb(n, 'has', 'have')} {names} of two folds; {fate}.",)
    elif manifest.group_table is not None:
        grouped = _Groups(dealing)
        placed, groups = grouped.codes(), grouped.table
        quarantined, merge_notes = grouped.merged(merged)
        notes += merge_notes
    else:
        placed = np.column_stack([dealing.rows(repeat) for repeat in range(dealing.n_repeats)])
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

    def packed(self, rows: Bins, of_group: Bins, names: pa.Array) -> NDArray[np.int64]:
        """Return the codes (groups, repeats) of new groups: ``rows`` of the data are of group ``of_group``."""
        groups = pa.table({"group": names})
        return np.column_stack([self.packed_once(rows, of_group, groups, r) for r in range(self.n_repeats)])

    def packed_once(self, rows: Bins, of_group: Bins, groups: pa.Table, repeat: int) -> NDArray[np.int64]:
        """Return the code of each new group in one repeat."""
        n_groups = groups.num_rows
        if not n_groups:
            return np.empty(0, dtype=np.int64)
        if self.manifest.spec.on_new_rows != "fill":
            # Hashing and freezing look at no stratum.
            return self.by_rule(groups, np.zeros(n_groups, dtype=np.int64), repeat)
        table = cell_counts(of_group, self.strata[rows], n_groups, self.n_strata)
        order = np.argsort(pc.rank(groups.column(0)).to_numpy()) if n_groups > 1 else np.arange(1)
        bins = np.empty(n_groups, dtype=np.int64)
        # In the order of their names, so that the order in which groups arrive does not matter.
        bins[order] = pack_into(self.held(repeat), table[order], self.shares, self.stream(repeat))
        return self.bin_codes[bins]

    def rows(self, repeat: int) -> NDArray[np.int64]:
        """Return the code of each new row that has no group."""
        new = self.arrival.new
        return self.by_rule(self.arrival.keys.take(new), self.strata[new], repeat)

    def by_rule(self, keys: pa.Table, strata: Bins, repeat: int) -> NDArray[np.int64]:
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


class _Groups:
    """The groups among the arriving rows: known ones keep their fold, new ones are packed."""

    def __init__(self, dealing: _Dealing) -> None:
        self.dealing, self.arrival = dealing, dealing.arrival
        table = dealing.manifest.group_table
        assert table is not None
        assert dealing.manifest.spec.columns.group is not None
        self.known = table
        self.column = dealing.arrival.table.select([dealing.manifest.spec.columns.group]).rename_columns(["group"])
        self.place = positions_in(table.select(["group"]), self.column)
        self.table: pa.Table = table

    def codes(self) -> NDArray[np.int64]:
        """Return the code of each new row (rows by repeats), and let ``table`` grow by the new groups."""
        old, theirs = self.arrival.known >= 0, self.arrival.codes()
        stays = old & self.column.column(0).is_null().to_numpy()
        fresh = np.flatnonzero((self.place < 0) & ~stays)
        codes, groups = numbered(self.column.column(0).take(fresh))
        folds, generation = codes_in(self.known).astype(np.int64), self.dealing.manifest.generation + 1
        packed = self.dealing.packed(fresh, codes.astype(np.int64), groups)
        if self.dealing.manifest.spec.missing_group == "alone":  # a group that is named late follows its rows
            packed[codes[old[fresh]]] = theirs[fresh[old[fresh]]]
        all_folds = np.vstack([folds, packed])
        joined = group_table_of({"group": groups}, packed, None, generation)
        joined = joined.cast(pa.schema([self.known.schema.field(name) for name in joined.column_names]))
        self.table = pa.concat_tables([self.known, joined], promote_options="default").combine_chunks()
        place = self.place.copy()
        place[fresh] = self.known.num_rows + codes
        # Of the known rows as well: merged() compares it with the codes that these have.
        self._fold_of_row = np.where(stays[:, None], theirs, all_folds[place])
        return self._fold_of_row[self.arrival.new]

    def merged(self, policy: Merged) -> tuple[pa.Table | None, tuple[str, ...]]:
        """Return the keys of rows to quarantine, and what is to be said: groups whose rows lie in several folds."""
        stray = (self.arrival.known >= 0) & np.any(self.arrival.codes() != self._fold_of_row, axis=1)
        n_stray = int(stray.sum())
        if not n_stray:
            return None, ()
        groups = np.unique(positions_in(self.table.select(["group"]), self.column.filter(stray)))
        values = self.table.column("group").take(groups).combine_chunks()
        quarantined = (self.arrival.known >= 0) & ~self.arrival.active()
        torn = pc.and_not(pc.is_in(self.column.column(0), value_set=values), pa.array(quarantined))
        rows = self.arrival.keys.filter(torn)
        listing = ", ".join(shown(value) for value in values[:3].to_pylist())
        if not rows.num_rows:
            return None, ()
        reason = (
            f"{amount(groups.size, 'group')} ({listing}) {verb(groups.size, 'holds', 'hold')} "
            f"{amount(n_stray, 'row')} that {verb(n_stray, 'was', 'were')} assigned to another fold with another group"
        )
        if policy == "accept":
            return None, (f"{reason}; accepted as asked, so {verb(groups.size, 'it leaks', 'they leak')}.",)
        fate = f"{verb(groups.size, 'its', 'their')} {amount(rows.num_rows, 'row')} {verb(rows.num_rows, 'is', 'are')}"
        return rows, (f"{reason}; {fate} quarantined.",)

"""New rows join a manifest of any size: rows that it knows are counted as they pass, and only new ones are held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.engines.engine import DuckDB, bytes_of_memory, ordered_by
from evenfold.manifests.engines.groups import is_numeric
from evenfold.manifests.engines.ordered import Canonical, Ordered
from evenfold.manifests.engines.sources import source_of
from evenfold.manifests.engines.stored import StoredManifest, room_beside
from evenfold.manifests.growth.assign import Arrival, Growth, Merged, grow
from evenfold.manifests.growth.extend import (
    NOTHING_NEW,
    Extension,
    outgrown,
    require_growable,
    require_present,
    require_used,
)
from evenfold.manifests.manifest import DELETED, QUARANTINED, Manifest
from evenfold.manifests.membership import UNKNOWN, Labels, fold_columns
from evenfold.manifests.plan import balanced_columns, used_columns
from evenfold.manifests.state import State
from evenfold.manifests.store.load import outline
from evenfold.manifests.store.rows import assigned_codes, digested
from evenfold.manifests.store.tables import write_parquet
from evenfold.manifests.store.write import appear, described, linked, write_described
from evenfold.manifests.tables.keys import key_names, positions_in
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from .beside import Beside, Fit, IntArray
from .counted import Cells

HELD_BYTES = 200  # of a row that is to be placed: its columns, codes and what dealing takes


@dataclass(frozen=True, eq=False, kw_only=True)
class Passed(Arrival):
    """What one reading of the data beside a manifest came to.

    ``table`` has the rows that are to be placed: new ones, and those whose group nobody knows; ``of_table`` and
    ``strata_of_table`` are their codes and strata. ``counts``: of each repeat, codes and strata of the rows in use.
    """

    beside: Beside
    of_table: IntArray
    strata_of_table: IntArray
    grown_state: State
    counts: list[Cells]
    torn_groups: IntArray
    n_torn: int

    @property
    def keys(self) -> pa.Table:
        """The key columns of the rows that are to be placed."""
        return self.table.select(self.beside.ordered.key)

    def strata(self, state: State) -> tuple[IntArray, State]:
        """Return the stratum of each row of ``table``, and the state after all rows."""
        return self.strata_of_table, self.grown_state

    def cells(self, repeat: int, strata: IntArray) -> tuple[IntArray, IntArray, Any]:
        """Return codes and strata of the rows in use, and how many rows have them."""
        return self.counts[repeat].triples

    def codes(self) -> IntArray:
        """Return the codes of the rows of ``table``; -4 for new ones."""
        return self.of_table

    def torn(self) -> tuple[IntArray, int]:
        """Return the known groups with rows in another fold than theirs, and how many rows these are."""
        return self.torn_groups, self.n_torn

    def keys_in(self, groups: pa.Array, column: pa.ChunkedArray) -> pa.Table:
        """Return the keys of the rows of some groups that are not quarantined yet. One reading."""
        name, key = str(self.beside.spec.columns.group), list(self.beside.ordered.key)
        torn = []
        for _, status, part in self.beside.assigned(list(dict.fromkeys([*key, name]))):
            asked = pc.and_(pc.is_in(part.column(name), value_set=groups), pa.array(status != QUARANTINED))
            torn.append(part.filter(asked).select(key))
        return pa.concat_tables(torn).combine_chunks()


def extended(
    manifest: StoredManifest,
    data: Any,
    batch: bool,
    merged: Merged,
    max_missing: float,
    memory: str | int | None,
    staged: Path | None = None,
) -> Extension[StoredManifest]:
    """Extend a manifest on disk by the new rows of ``data``, and write the next version beside it.

    The folds, the split_id and the plan_id are those of ``extend`` in memory. The data are sorted out of core; rows
    that are new, absent, back or quarantined are held in memory, and no others. O(n log n).
    """
    manifest.prove()  # the older generations' files are taken over as they are, so no row of theirs can move
    limit, repeats = bytes_of_memory(memory), len(fold_columns(manifest.column_names))
    known = outline(manifest.folder, manifest.header, manifest.n_splits // repeats - 1, repeats)
    require_growable(known)
    with room_beside(manifest.folder.parent.parent) as folder:
        ordered = _ordered(manifest, data, limit, folder)
        fit = Fit(all_absent=not batch)
        rows = Beside(manifest, ordered, manifest.spec.columns, limit, folder)
        arrival, back = _passed(rows, known, batch, fit)
        gone = rows.as_they_are(fit.missing)
        n_gone = 0 if batch else fit.absent
        require_present(known, n_gone, manifest.n - fit.deleted, max_missing)
        growth = grow(known, arrival, merged)
        changes = _changes(ordered, None if batch else gone, back, growth)
        if not arrival.new.size and changes is None:
            return Extension(manifest, 0, 0, 0, 0, 0, growth.notes or (NOTHING_NEW,))
        child = outgrown(known, growth, manifest.split_id, ordered.fingerprint(ordered.digests()))
        tables = _tables(child, arrival, growth, changes)
        counted: list[int] = []
        final = manifest.folder.parent / child.version
        made = appear(final, lambda aside: _fill(manifest, child, tables, aside, counted), staged)
        return Extension(
            manifest=StoredManifest(made),
            added=int(arrival.new.size),
            deleted=n_gone,
            returned=back.num_rows,
            quarantined=counted[0] - fit.quarantined,
            moved=0,
            notes=growth.notes,
        )


def _ordered(manifest: StoredManifest, data: Any, memory: int, folder: Path) -> Ordered:
    """Return the used columns of the data in key order; SplitError for holes and repeated keys."""
    spec, types = manifest.spec, manifest.types
    source = source_of(data, dict(spec.types))
    used = used_columns(spec, manifest.splitter.needs)
    declared = {name: kind for name, kind in {**types, **spec.types}.items() if name in used}
    canonical = Canonical(spec, tuple(used), tuple(declared.items()), tuple(types.items()))
    ordered = ordered_by(DuckDB(memory), source, canonical, key_names(spec), folder)
    ordered.check(spec.columns.grouped)
    return ordered


def _passed(rows: Beside, known: Manifest, batch: bool, fit: Fit) -> tuple[Passed, pa.Table]:
    """Return what one reading comes to, and the keys of the rows that were deleted and are back."""
    key, group = list(rows.ordered.key), known.spec.columns.group if known.group_table is not None else None
    state, counts = known.state or State(), [Cells(rows.memory) for _ in range(rows.n_repeats)]
    nothing = rows.ordered.schema.empty_table()
    none, no_codes = np.zeros(0, dtype=np.int64), np.zeros((0, rows.n_repeats), dtype=np.int64)
    held, back, codes, strata = [nothing], [nothing.select(key)], [no_codes], [none]
    torn, n_torn, n_held = [none], 0, 0
    folds = None if known.group_table is None else assigned_codes(known.group_table)
    for part, stratum, after in _stratified(rows, known, state, fit):
        state, here = after, part.codes[:, 0] == UNKNOWN
        if batch and not here.all():
            _refuse_known(part, ~here, key)
        back.append(part.table.filter(pa.array(part.status == DELETED)).select(key))
        active = ~here & (part.status != QUARANTINED)
        for repeat, cells in enumerate(counts):
            cells.add(part.codes[active, repeat], stratum[active])
        wanted = here
        if group is not None and known.group_table is not None and folds is not None:
            column = part.table.select([group]).rename_columns(["group"])
            place = positions_in(known.group_table.select(["group"]), column)
            stray = ~here & (place >= 0) & (part.codes != folds[place]).any(axis=1)
            torn.append(np.unique(place[stray]))
            n_torn += int(np.count_nonzero(stray))
            # A known row may have a group that is not: growth packs that group, and has to see if the row is elsewhere.
            wanted = here | (place < 0)
        held.append(part.table.filter(pa.array(wanted)))
        codes.append(part.codes[wanted])
        strata.append(stratum[wanted])
        n_held += int(np.count_nonzero(wanted))
        _require_room(rows, n_held + (fit.absent if fit.all_absent else 0))
    of_table = np.vstack(codes)
    arrival = Passed(
        manifest=known, table=pa.concat_tables(held).combine_chunks(), batch=batch, beside=rows,
        # Only whether it is below 0 is asked of `known` here; what Arrival looks up by it is overridden in Passed.
        known=np.where(of_table[:, 0] == UNKNOWN, -1, 0), of_table=of_table, strata_of_table=np.concatenate(strata),
        grown_state=state, counts=counts, torn_groups=np.unique(np.concatenate(torn)), n_torn=n_torn,
    )  # fmt: skip
    return arrival, pa.concat_tables(back).combine_chunks()


@dataclass(frozen=True)
class _Part:
    """A stretch of the data, with the codes and status that the manifest has of its rows."""

    codes: IntArray
    status: NDArray[np.int8]
    table: pa.Table


def _stratified(rows: Beside, known: Manifest, state: State, fit: Fit) -> Iterator[tuple[_Part, IntArray, State]]:
    """Yield the data in key order with each row's stratum, and the state that knows all classes so far."""
    columns, ordered = known.spec.columns, rows.ordered
    named = columns.shared_out
    balanced = known.splitter.needs.y != "ignored" and bool(named)
    numeric = (
        balanced and len(named) == 1 and is_numeric(ordered.scan(named), named[0], ordered.schema.field(named[0]).type)
    )
    for codes, status, table in rows.assigned(list(ordered.types), fit):
        y = balanced_columns(table, columns, numeric) if balanced else None
        strata, state = state.strata(y, table.num_rows)
        yield _Part(codes, status, table), strata, state


def _refuse_known(part: _Part, known: NDArray[np.bool_], key: list[str]) -> None:
    first = part.table.select(key).filter(pa.array(known)).slice(0, 1)
    named = ", ".join(str(value) for value in first.to_pylist()[0].values())
    raise SplitError(
        f"rows of the batch are in the manifest already (first key {named}); pass new rows only, or the whole table "
        "without batch."
    )


def _require_room(rows: Beside, held: int) -> None:
    if held * HELD_BYTES > rows.memory:
        raise SplitError(
            f"{held:,} rows that are new or absent take about {held * HELD_BYTES / 2**30:.3g} GB to be placed, and "
            f"{rows.memory / 2**30:.3g} GB are allowed; allow more memory, or extend by a part of them at a time."
        )


def _changes(ordered: Ordered, gone: pa.Table | None, back: pa.Table, growth: Growth) -> pa.Table | None:
    """Return whose status changes, and to what, as a table; None where nothing does."""
    sides = [(gone, DELETED), (back, 0), (growth.quarantined, QUARANTINED)]
    known = [
        keys.select(ordered.key).append_column("status", pa.array(np.full(keys.num_rows, status, dtype=np.int8)))
        for keys, status in sides
        if keys is not None
    ]
    return pa.concat_tables(known).combine_chunks() if any(part.num_rows for part in known) else None


def _tables(child: Manifest, arrival: Passed, growth: Growth, changes: pa.Table | None) -> dict[str, pa.Table]:
    """Return the files of the new generation, by name."""
    number, keys = f"{child.generation:04d}", arrival.keys.take(arrival.new)
    kind = arrival.beside.manifest.fold_type
    labels = Labels.of(child.membership.codes, child.splitter)
    columns = replace(labels, codes=growth.codes.astype(kind)).columns(slice(None))
    tables = {f"assignments-{number}.parquet": pa.table({n: keys.column(n) for n in keys.column_names} | columns)}
    if child.group_table is not None:
        born = child.group_table.column("generation").to_numpy() == child.generation
        tables[f"groups-{number}.parquet"] = child.group_table.filter(pa.array(born))
    return tables if changes is None else tables | {f"status-{number}.parquet": changes}


def _fill(
    before: StoredManifest, child: Manifest, tables: dict[str, pa.Table], aside: Path, quarantined: list[int]
) -> None:
    """Write the next version; what its rows come to is read from the disk before the header names it."""
    files = linked(before.folder, aside)
    for name, table in tables.items():
        write_parquet(table, aside / name)
    rows = digested(aside, [*(entry["path"] for entry in files), *tables], key_names(child.spec))
    require_used(f"{before.name} {before.version}", rows.counts)
    quarantined.append(rows.statuses.get(QUARANTINED, 0))
    description = described(child, rows)
    write_described(aside, description, files, tables.items())

"""From a specification and data to a manifest: what is asked, the rows in key order, and the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
from evenfold.splitters import Crossed, DrawSplitter, HashSplit, LabelSplitter, Needs, Rows, SplitError
from evenfold.splitters.base import strategy_code
from evenfold.splitters.numbers import CLASSES_VERSION, HOLDOUT, Stream, label_type
from evenfold.splitters.packing.cost import GroupRows
from evenfold.splitters.strategies.wrappers import LOCKING_VERSION, locked_rows, rest_of
from numpy.typing import NDArray

from .fields import Algorithm, EngineName
from .manifest import Manifest
from .membership import EXCLUDED, LOCKED, Draws, Labels, Membership, Pairs, require_one_fold
from .spec import Columns, SplitSpec, name_of, read_spec, require_roles
from .spill import require_room_to_decide, spilled
from .store.state import GroupTable, State, first_entity_table, first_state, is_numeric_target, to_balance
from .store.stored import StoredManifest, is_intact, written
from .store.versions import versions_below
from .tables.canonical import canonical_table, coded, column_types, digests_of, fingerprint, key_order, require_columns
from .tables.frames import NO_ONE_TYPE
from .tables.keys import key_table, key_values, label_ends, matured, waiting_rows, with_keys
from .tables.read import bytes_of_memory, fits_in_memory, source_of
from .tables.source import Source, slices

Parted = tuple[NDArray[np.int64], NDArray[np.int64]]  # the positions of the locked rows or groups, and of those left
Ordered = tuple[SplitSpec, dict[str, str], pa.Table, pa.Table | None]

CLUSTERS: dict[str, EngineName] = {"dask": "dask", "pyspark": "spark"}  # by the package of a frame that lies there


@overload
def decide(spec: Any = None, data: Any = None, *, to: str | Path, **fields: Any) -> StoredManifest: ...
@overload
def decide(spec: Any = None, data: Any = None, **fields: Any) -> Manifest: ...
def decide(
    spec: Any = None, data: Any = None, *, engine: EngineName = "auto", memory: str | int | None = None,
    to: str | Path | None = None, **fields: Any,
) -> Manifest:  # fmt: skip
    """Return the manifest that ``spec`` (a SplitSpec, mapping or file) asks for on ``data`` (a file or frame).

    Fields are put over it, or stand in its place: ``decide(frame, key="id", target="y", n_splits=10)``.

    Promises: the same rows give the same folds in any container and row order (with a key column), on any machine and
    engine. Raises SplitError where the data or the specification do not allow it; nothing is written then. O(n log n).

    With ``to`` the manifest is written below that folder, and ``data`` may be larger than memory: see ``source_of`` for
    what they may lie in. ``engine="auto"`` sorts with DuckDB, out of core, where the split would take more than a
    quarter of the memory that is free, and with Dask or Spark where the data are theirs. ``memory`` ("2GB") is what
    this process may take; a quarter of what is free where it is None.
    """
    if data is None or isinstance(data, (SplitSpec, Mapping)):  # decide(df, key=...) names the data first
        spec, data = data, spec
    if fields or spec is None:
        spec = specification(data, spec, **fields)
    if to is None:
        if engine not in ("auto", "memory"):
            raise SplitError(f"engine={engine!r} writes the manifest as it reads the rows; pass the folder as to=.")
        return Plan(spec, data).decide()
    return written(planned(spec, data, engine=engine, memory=memory, to=to).decide(), to)


def specification(data: Any, spec: Any = None, **fields: Any) -> SplitSpec:
    """Return ``spec`` with what is given beside it put over it; without a name it is called as the data's file."""
    overrides: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if not overrides and isinstance(spec, SplitSpec) and "name" in spec.model_fields_set:
        return spec
    base = {} if spec is None else read_spec(spec).model_dump(exclude_unset=True)
    columns = {role: value for role in Columns.model_fields if (value := overrides.pop(role, None))}
    counted = {name: overrides.pop(name) for name in ("n_splits", "parts") if name in overrides}
    params = overrides.pop("params", {})
    if "holdout" in overrides:
        overrides["holdout"] = {**(base.get("holdout") or {}), "fraction": overrides["holdout"]}
    merged = base | overrides | {"name": overrides.get("name") or base.get("name") or name_of(data)}
    # What is no mapping is refused with the rest of the specification.
    merged["params"] = {**base.get("params", {}), **params, **counted} if isinstance(params, Mapping) else params
    # One group that is given takes the place of several that the specification names.
    before = base.get("columns", {}).items()
    merged["columns"] = {role: name for role, name in before if role != "entities" or "group" not in columns} | columns
    return read_spec(merged)


def planned(
    spec: Any, data: Any, *, engine: EngineName = "auto", memory: str | int | None = None, to: str | Path
) -> Plan:
    """Return the plan of a split, its columns in memory or, while it is held, sorted on the disk of ``to``."""
    request = read_spec(spec)
    source = source_of(data, dict(request.types))
    require_columns([*request.columns.roles(), *request.types], source.names)
    names = used_columns(request, request.splitter().needs) if request.strategy else request.columns.roles()
    if engine == "auto":
        theirs = CLUSTERS.get(type(source.native).__module__.partition(".")[0])
        engine = theirs or ("memory" if fits_in_memory(source, names or source.names[:1], memory) else "duckdb")
    if engine == "memory":
        return Plan(request, source)
    if not names:  # then rows are nothing but their numbers
        n = source.n_rows or sum(part.num_rows for part in source.batches(source.names[:1]))
        return Plan(request, pa.table({"row": np.arange(n)}), in_order=True)
    table = spilled(source, names, request.types, request.columns.key, engine, bytes_of_memory(memory), Path(to))
    try:
        plan = Plan(request, table, in_order=True)
    except SplitError as error:
        # The places that it names are those of sorted rows.
        where = " Rows are counted in key order." if "first at" in str(error) else ""
        raise type(error)(f"{error}{where}") from None
    require_room_to_decide(plan, memory)
    return plan


def check_columns(data: str, spec: SplitSpec) -> None:
    """Raise SplitError where a named column is absent, or the target or group column has holes, read or not."""
    source = source_of(data, spec.types).settled()
    require_columns([*spec.columns.roles(), *spec.types], source.names)
    names = list(dict.fromkeys(name for name in (spec.columns.target, *spec.columns.grouped) if name))
    blocks = source.batches(names) if names else iter(())
    if names and spec.may_wait:  # whether a row does may follow from the latest time of all
        times = [name for name in (spec.columns.time, spec.columns.label_end) if name and spec.says_when_known]
        table = source.table([*names, *times])
        blocks = iter([table.filter(pa.array(~waiting_rows(table, spec, spec.types)))])
    for block in blocks:
        canonical = canonical_table(block, names, spec.types)
        if not spec.may_wait and any(column.null_count for column in canonical.columns):
            # All rows once more, so that the error counts the holes of the column and not of this block.
            canonical = canonical_table(source.table(names), names, spec.types)
        spec.require_complete(canonical)


def in_key_order(
    read: pa.Table, used: list[str], spec: SplitSpec, types: Mapping[str, str], keys: pa.Table | None = None,
    is_canonical: bool = False,
) -> Ordered:  # fmt: skip
    """Return specification, types, the ``used`` columns of rows to split in key order, and the keys of those that wait.

    ``types`` are of the manifest that the rows join, and ``keys`` are its own; empty where one is decided now.
    Canonical columns stay where they lie on disk. SplitError for missing values and keys that repeat.
    """
    rows, waiting = matured(read, spec, {**types, **spec.types}, keys) if spec.may_wait else (read, None)
    table = rows.select(used) if is_canonical else canonical_table(rows, used, {**types, **spec.types})
    spec.require_complete(table.drop_columns(spec.columns.key))
    kinds, key = dict(types) or column_types(table), spec.key_names
    if spec.key_encoding:
        spec, kinds, table = with_keys(table, spec, types)
    try:
        order = key_order(table, key) if key else None
    except SplitError:
        if spec.columns.fold in used:  # of rows of one key in several folds the folds are wrong, not the key
            require_one_fold(table, key, str(spec.columns.fold))
        raise
    table = table if order is None else table.take(order)
    if waiting is not None:
        waiting = key_table(waiting, spec, kinds)
        order = key_order(waiting, key)
        key_order(pa.concat_tables([table.select(key), waiting]), key)  # unique among all
        waiting = waiting if order is None else waiting.take(order)
    return spec, kinds, table, waiting


class Plan:
    """A specification resolved against data: used columns in key order, and ``plan_id``, the key of the split cache."""

    def __init__(self, spec: Any, data: Any, *, in_order: bool = False) -> None:
        """Read and check the used columns of ``data``; ``in_order``: they are canonical already, and in key order."""
        self.spec = read_spec(spec)
        self.spec, self.types, self.table, self.waiting = self._ordered(source_of(data, self.spec.types), in_order)
        self.key, self.n = self.spec.key_names, int(self.table.num_rows)
        self.digests = digests_of(self.table)
        self.fingerprint = fingerprint(self.digests, self.waiting)
        self.algorithm: Algorithm = {"name": str(self.spec.strategy), "version": self.splitter.version}
        if code := strategy_code(self.spec.strategy, self.spec.params):
            self.algorithm["version"] = f"{self.splitter.version}{code}"
        if self.spec.holdout or self.spec.calibration:
            self.algorithm["locking"] = LOCKING_VERSION
        shared = self.spec.columns.shared_out if self.splitter.needs.y == "any" else []
        if len(shared) == 1 and self.types[shared[0]] == "float" and not is_numeric_target(self.table[shared[0]]):
            self.algorithm["classes"] = CLASSES_VERSION  # whole floats were numbers to such a strategy
        self.plan_id = self.spec.plan_id(self.types, self.fingerprint, self.algorithm)

    def _ordered(self, source: Source, in_order: bool) -> Ordered:
        """Choose a strategy where none is named, and return what ``in_key_order`` does of the columns that it needs."""
        types, roles = dict(self.spec.types), self.spec.columns.roles()
        if not in_order:  # there are the used ones alone
            require_columns([*roles, *types], source.names)
        # What chooses a strategy is read together with what it will need, and once.
        table = source.table(roles) if roles and not self.spec.strategy else None
        if not self.spec.strategy:
            plain = pa.Table.select if in_order else partial(canonical_table, types=types)
            chosen = default_strategy(self.spec, lambda name: is_numeric_target(plain(table, [name]).column(0)))
            self.spec = self.spec.model_copy(update={"strategy": chosen})
        self.splitter = self.spec.splitter()
        self.packs_groups = bool(self.splitter.by_group_table and self.spec.columns.group)
        require_roles(self.spec, self.splitter.needs)
        has_test_part, has_holdout = LOCKED in self.splitter.part_codes().values(), self.spec.holdout is not None
        if has_holdout and has_test_part:
            raise SplitError("the parts keep a test part for the end already; leave the holdout out.")
        self.locks = has_holdout or has_test_part
        used = used_columns(self.spec, self.splitter.needs)
        if not used:  # of a plain k-fold without a key the number of rows alone has to be known
            n = source.n_rows or source.table(source.names[:1]).num_rows
            return self.spec, {"row": "int"}, pa.table({"row": np.arange(n)}), None
        table = source.table(used) if table is None else table
        for field in table.select(used).schema:
            if field.name not in types and NO_ONE_TYPE in (field.metadata or {}):
                raise SplitError(field.metadata[NO_ONE_TYPE].decode())
        return in_key_order(table, used, self.spec, {}, is_canonical=in_order)

    def rows(self) -> Rows:
        """Return the rows as the strategy may see them."""
        needs, columns, column = self.splitter.needs, self.spec.columns, self.table.column
        y = to_balance(self.table, columns) if needs.y != "ignored" else None
        group = coded(self.table.select(columns.grouped)) if needs.groups and columns.grouped else None
        places = self.table.select(columns.coordinates).columns if needs.coordinates else []
        roles = {
            "key": key_values(self.table.select(self.key)) if needs.key and self.key else None,
            "time": column(columns.time).to_numpy() if needs.time and columns.time else None,
            "fixed": column(columns.fold).to_numpy() if needs.fixed and columns.fold else None,
            "label_end": label_ends(self.spec, column) if needs.label_end else None,
            "coordinates": np.column_stack([place.to_numpy() for place in places]) if places else None,
        }
        names = {} if columns.stratify else {"y": f"target {columns.target!r}"}
        return self.splitter.rows(
            np.empty((self.table.num_rows, 0)), y, group, names=names | {"time": repr(columns.time)}, **roles
        )

    def decide(self) -> Manifest:
        """Return the decision. Pure: the same plan gives the same manifest on every machine."""
        keys = self.table.select(self.key) if self.key else None
        if self.packs_groups:
            parted, rest = self._groups_to_pack()
            assert isinstance(self.splitter, LabelSplitter)
            codes = _among_all(self.splitter.assign(rest), parted, len(self.grouped.values))
            membership: Membership = Labels.of(codes[self.grouped.groups], self.splitter)
            groups: pa.Table | None = self.grouped.group_table(codes.reshape(codes.shape[0], -1))
            state = first_state(self.splitter, self.grouped, membership, self.spec.locked_share)
        else:
            membership, groups, state = self._by_rows(keys)
        return Manifest(
            spec=self.spec, types=self.types, fingerprint=self.fingerprint, plan_id=self.plan_id,
            algorithm=self.algorithm, membership=membership, keys=keys, group_table=groups, state=state,
            waiting=self.waiting,
        )  # fmt: skip

    def _by_rows(self, keys: pa.Table | None) -> tuple[Membership, pa.Table | None, State | None]:
        splitter, locked = self.splitter, self.spec.locked_share
        if isinstance(splitter, HashSplit) and keys is not None and not locked:
            n, kind = keys.num_rows, label_type(splitter.get_n_splits())
            splitter.check(Rows(n=n))
            if not splitter.fills(n):  # else the keys need not be looked at twice
                splitter.check(Rows(n=n, key=key_values(keys)))
            # In parts, for texts take several times the room as values of Python.
            codes = [splitter.labels_of(key_values(part)).astype(kind) for part in slices(keys)]
            labels = Labels.of(np.concatenate(codes), splitter)
            return labels, None, first_state(splitter, Rows(n=n), labels, locked)
        rows, columns, groups = self.rows(), self.spec.columns, None
        membership = self._membership(rows, keys)
        if isinstance(membership, Labels) and rows.groups is not None:
            if columns.group:
                first = np.unique(self.grouped.groups, return_index=True)[1]
                groups = self.grouped.group_table(membership.codes[first])
            else:
                groups = first_entity_table(self.table.select(columns.entities), membership.codes)
        pairs = isinstance(membership, Pairs)
        return membership, groups, None if pairs else first_state(splitter, rows, membership, locked)

    @cached_property
    def grouped(self) -> GroupTable:
        """The rows of each class in each group, counted once for a check and the decision."""
        return GroupTable(self.table, self.spec.columns, self.splitter.needs)

    def versions(self, root: Path, name: str = "*") -> Iterator[Path]:
        """Yield the folder of each version of a name below ``root``, or of all, that this very plan has decided."""
        order = [*self.splitter.part_codes()]  # rows are dealt to parts in it, and a plan's key does not tell it
        for folder, header in versions_below(root, name, self.plan_id):
            # What is damaged has no order that could be read: it is made anew in its place.
            if header["plan_id"] == self.plan_id and (
                not order or not is_intact(folder) or [*StoredManifest(folder).spec.splitter().part_codes()] == order
            ):
                yield folder

    def check(self) -> None:
        """Raise SplitError where the rows cannot be split as asked; nothing is decided yet."""
        if self.packs_groups:
            self._groups_to_pack()
        elif isinstance(self.splitter, Crossed):  # what is left to split is known once rows are left out
            self._membership(self.rows(), None)
        else:
            self._parted(self.rows())

    def _groups_to_pack(self) -> tuple[Parted | None, GroupRows]:
        """Return which groups are locked and left (None where none is locked), and what is left."""
        rows = self.grouped.rows()
        self.splitter.check(rows)
        if (holdout := self.spec.holdout) is None:
            return None, rows
        locked = locked_rows(rows, holdout.fraction, Stream(holdout.seed, HOLDOUT))
        mask = np.isin(np.arange(rows.n_groups), locked, invert=True)
        left = self.table.filter(pa.array(mask[self.grouped.groups]))
        rest = GroupTable(left, self.spec.columns, self.splitter.needs, self.grouped.edges is not None).rows()
        self.splitter.check(rest)
        return (locked, np.flatnonzero(mask)), rest

    def _parted(self, rows: Rows) -> Parted | None:
        """Return the positions of the locked rows, and of those left to split; None where nothing is locked."""
        if (holdout := self.spec.holdout) is None:
            return None
        locked = locked_rows(rows, holdout.fraction, Stream(holdout.seed, HOLDOUT))
        # Not all others: what time or groups keep from being learnt from beside the locked rows is in neither.
        rest = rest_of(self.splitter, rows, locked)
        self.splitter.check(rows.take(rest))
        return locked, rest

    _codes: NDArray[Any] | None = None  # of crossed entities, once they are checked

    def _membership(self, rows: Rows, keys: pa.Table | None) -> Membership:
        if isinstance(self.splitter, Crossed):
            if self._codes is None:
                seed = self.spec.holdout.seed if self.spec.holdout else 0
                self._codes = self.splitter.codes(rows, self.spec.locked_share, seed)
            return Labels.of(self._codes, self.splitter)
        parted = self._parted(rows)
        places = np.arange(rows.n) if parted is None else parted[1]
        left = rows if parted is None else rows.take(places)
        if isinstance(self.splitter, LabelSplitter):
            return Labels.of(_among_all(self.splitter.assign(left), parted, rows.n), self.splitter)
        codes = _among_all(np.zeros(left.n, dtype=np.int16), parted, rows.n)
        if isinstance(self.splitter, DrawSplitter):
            drawn = Draws(codes, self.splitter, keys, rows.y, rows.groups)
            return replace(drawn, recorded=drawn.resamples)
        return Pairs(codes, tuple((places[train], places[test]) for train, test in self.splitter.pairs(left)))


def _among_all(codes: NDArray[Any], parted: Parted | None, n: int) -> NDArray[Any]:
    """Return the codes of all rows: locked, as given for those left to split, and excluded for any others."""
    if parted is None:
        return codes
    among = np.full((n, *codes.shape[1:]), EXCLUDED, dtype=codes.dtype)
    among[parted[0]] = LOCKED
    among[parted[1]] = codes
    return among


def used_columns(spec: SplitSpec, needs: Needs) -> list[str]:
    """Return the columns that decide the split: the key, and what the strategy needs. No others are read."""
    columns = spec.columns
    used: list[str | None] = [*columns.key, *(columns.shared_out if needs.y != "ignored" else [])]
    used += [*(columns.grouped if needs.groups else []), columns.time if needs.time else None]
    used += [columns.fold if needs.fixed else None, *(columns.coordinates if needs.coordinates else [])]
    used += [columns.time, columns.label_end] if spec.says_when_known else []
    used += [columns.target] if spec.missing_target == "wait" else []
    return list(dict.fromkeys(filter(None, used)))


def default_strategy(spec: SplitSpec, numeric: Callable[[str], bool]) -> str:
    """Return the strategy where none is named; ``numeric``: whether a column holds numbers to predict."""
    columns, balanced = spec.columns, spec.columns.shared_out
    if columns.fold or columns.coordinates:
        return "Predefined" if columns.fold else "SpatialBlockKFold"
    if columns.time:
        of_parts, of_folds = "TimeSplit", "ForwardChaining"
    elif columns.grouped:
        of_parts, of_folds = "BalancedGroupSplit", "BalancedGroupKFold"
    elif not balanced:
        of_parts, of_folds = "RandomSplit", "KFold"
    elif len(balanced) == 1 and numeric(balanced[0]):
        of_parts, of_folds = "FractionalStratifiedSplit", "SortedStratifiedKFold"
    else:
        of_parts, of_folds = "StratifiedSplit", "BalancedKFold" if len(balanced) > 1 else "StratifiedKFold"
    return of_parts if "parts" in spec.params else of_folds

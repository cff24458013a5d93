"""A split of a table of any size: sorted by an engine, decided on what a strategy looks at, written as it is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.fields import Columns
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import LOCKED, Labels, Membership
from evenfold.manifests.plan import Plan
from evenfold.manifests.state import (
    State,
    bins_of,
    first_group_table,
    first_state,
    group_table_of,
    plain,
    shares_of,
    uncounted,
)
from evenfold.manifests.tables.canonical import ARROW_TYPES, canonical_table, column_types
from evenfold.manifests.tables.keys import key_values, type_names, with_key_types
from evenfold.manifests.tables.source import Source
from evenfold.splitters import LabelSplitter, Needs, Rows, SplitError, Stream, all_strategies
from evenfold.splitters.kernels.random import HOLDOUT
from evenfold.splitters.numbers import label_type
from evenfold.splitters.rows import GroupRows
from evenfold.splitters.strategies.holdout import check_fraction, locked_rows
from numpy.typing import NDArray

from .engine import Engine, ordered_by
from .groups import (
    Classes,
    Combinations,
    Edges,
    Groups,
    distinct_values,
    first_classes,
    group_codes,
    is_numeric,
    quantiles,
    rows_by_group,
)
from .ordered import Canonical


@dataclass(frozen=True)
class Decision:
    """What was decided, and how the codes of any stretch of rows follow from it.

    ``manifest`` has the header's fields and a membership of as few rows as say it: of groups, or of all rows.
    ``columns(shard, rows, keys)`` returns the columns of assignments of a shard, which holds ``rows`` of all.
    """

    manifest: Manifest
    columns: Callable[[Path, slice, pa.Table | None], dict[str, pa.Array]]
    counting: Callable[[dict[int, int]], State | None] | None = None


class StreamedPlan(Plan):
    """A plan whose rows lie in key order on disk, sorted there by an engine; the same identities as ``Plan`` has."""

    def __init__(self, spec: Any, source: Source, engine: Engine, folder: Path, memory: int) -> None:
        self.engine, self.memory = engine, memory

        def numeric(name: str) -> bool:
            parts = (canonical_table(part, [name], self.spec.types) for part in source.batches([name]))
            kind = canonical_table(_nothing(source.schema), [name], self.spec.types).schema.field(name).type
            return is_numeric(parts, name, kind)

        used = self._resolve(spec, source.schema.names, numeric)
        require_any_engine(self.splitter, str(self.spec.strategy))
        if self.spec.columns.entities:
            raise SplitError("what several entities join is found in memory only; use engine='memory', or one group.")
        if self.spec.may_wait:
            why = "on_immature: use" if self.spec.missing_target == "stop" else "missing_target: stop"
            raise SplitError(
                f"rows that wait for their targets are told apart in memory only; use engine='memory', or say {why}."
            )
        if not used:
            used, source = ["row"], _numbered(source)
        nothing = canonical_table(_nothing(source.schema), self.spec.columns.key, self.spec.types)
        self.spec = with_key_types(self.spec, column_types(nothing))
        canonical = Canonical(self.spec, tuple(used), tuple(self.spec.types.items() if used != ["row"] else ()))
        self.ordered = ordered_by(engine, source, canonical, self.key, folder)
        self.ordered.check(self.spec.columns.grouped)
        self.digests = self.ordered.digests()
        empty = pa.table({name: pa.array([], ARROW_TYPES[kind]) for name, kind in self.ordered.types.items()})
        self._identify(type_names(empty, self.spec), self.ordered.fingerprint(self.digests))

    room: ExitStack  # closes where the rows are spilled

    def _is_numeric(self, name: str) -> bool:
        return is_numeric(self.ordered.scan([name]), name, self.ordered.schema.field(name).type)

    @property
    def cleared(self) -> bool:
        """Whether the rows in key order are gone: then only the identities are known, and nothing can be written."""
        return not all(shard.exists() for shard in self.ordered.shards)

    def check(self) -> None:
        """Raise SplitError where the rows cannot be split as asked: the decision is made, and kept."""
        assert self.decided

    @cached_property
    def decided(self) -> Decision:
        """The decision: on the table of groups, on each key alone, or on the used columns in memory."""
        if self.splitter.by_group_table and self.spec.columns.group:
            return self._by_groups(self.spec.columns.group)
        keyed = isinstance(self.splitter, LabelSplitter) and "by_key_alone" in self.splitter.promises
        return self._by_key() if keyed and self.spec.holdout is None else self._by_rows()

    def _outline(self, membership: Membership, **fields: Any) -> Manifest:
        return Manifest(
            spec=self.spec,
            types=self.types,
            fingerprint=self.fingerprint,
            plan_id=self.plan_id,
            algorithm=self.algorithm,
            membership=membership,
            keys=None,
            **fields,
        )

    @property
    def _locked(self) -> float:
        return self.spec.holdout.fraction if self.spec.holdout else 0.0

    def _by_rows(self) -> Decision:
        """Decide on what the strategy sees of all rows, a few bytes a row; keys stay on disk where it sees none."""
        needs, n = self.splitter.needs, self.ordered.n
        names = [name for name in self.ordered.types if needs.key or name not in self.key]
        needed = n * (32 + sum(8 if self.ordered.types[name] != "text" else 40 for name in names))
        if needed > self.memory:
            raise SplitError(
                f"{self.spec.strategy} looks at {n:,} rows at once, which takes about {needed / 2**30:.1f} GB, and "
                f"{self.memory / 2**30:.1f} GB are allowed; allow more memory, or use HashSplit, or groups."
            )
        self.table = self.ordered.columns(names) if names else pa.table({"row": np.arange(n)})
        rows = self.rows()
        membership = self._membership(rows, self.table.select(self.key) if needs.key and self.key else None)
        labelled = isinstance(membership, Labels)
        group = self.spec.columns.group if labelled and rows.groups is not None else None
        outline = self._outline(
            membership,
            group_table=first_group_table(rows, self.table.column(group), membership) if group else None,
            state=first_state(self.splitter, rows, membership, self._locked) if membership.kind != "pairs" else None,
        )
        return Decision(outline, lambda _, rows, __: membership.columns(rows))

    def _by_key(self) -> Decision:
        splitter: Any = self.splitter
        n = self.ordered.n
        splitter.check(Rows(n=n))
        if not splitter.fills(n):  # else the keys need not be looked at twice
            splitter.check(Rows(n=n, key=key_values(self.ordered.columns(self.key))))
        parts = splitter.part_codes()
        codes = np.array([*parts.values()] or range(splitter.get_n_splits()), label_type(splitter.get_n_splits()))
        membership = Labels.of(codes, splitter)
        shares = shares_of(splitter, membership.n_bins, 0.0)

        def columns(shard: Path, rows: slice, keys: pa.Table | None) -> dict[str, pa.Array]:
            assert keys is not None
            labels = splitter.labels_of(key_values(keys)).astype(codes.dtype)
            return replace(membership, codes=labels[:, None]).columns(slice(None))

        def counting(counts: dict[int, int]) -> State | None:
            state, countable = uncounted(shares, 1, None, None)
            if state is None or not countable:
                return state
            return replace(state, counts=[[[counts.get(code, 0)] for code in shares]])

        return Decision(self._outline(membership), columns, counting)

    def _by_groups(self, name: str) -> Decision:
        splitter = self.splitter
        assert isinstance(splitter, LabelSplitter)
        groups = Groups.of(self.ordered, name, self.engine)
        strata = strata_of(groups, self.spec.columns, self.splitter.needs)
        tables = groups.tables(self.engine, strata)
        sizes = tables[0].sum(axis=1)
        rows = rows_by_group(self.ordered.n, sizes, tables if strata else [], len(tables) == 1)
        splitter.check(rows)
        kept = self._unlocked_groups(rows)
        rest = rows if kept is None else rows_of_kept(groups, strata, tables, kept, self.engine)
        if kept is not None:
            splitter.check(rest)
        codes = splitter.decide(rest)
        if kept is not None:
            decided, codes = codes, np.full((sizes.size, *codes.shape[1:]), LOCKED, dtype=codes.dtype)
            # `splitter` saw the kept groups alone and numbered them anew.
            codes[kept] = decided
        membership = Labels.of(codes, splitter)
        classes = strata if isinstance(strata, Classes) and len(strata.names) == 1 else None
        levels, cells = (classes.values(0), tables[0]) if classes else ((), None)
        outline = self._outline(
            membership,
            group_table=group_table_of(groups.values, membership.codes, sizes, levels, cells),
            state=self._state(groups, membership, strata),
        )

        def columns(shard: Path, rows: slice, keys: pa.Table | None) -> dict[str, pa.Array]:
            return replace(membership, codes=membership.codes[group_codes(shard)]).columns(slice(None))

        return Decision(outline, columns)

    def _unlocked_groups(self, rows: GroupRows) -> NDArray[np.bool_] | None:
        """Return which groups are left when the locked part is drawn; None where nothing is locked."""
        if self.spec.holdout is None:
            return None
        check_fraction(self.spec.holdout.fraction, rows)
        self._require_no_second_lock()
        kept = np.ones(rows.n_groups, dtype=np.bool_)
        kept[locked_rows(rows, self.spec.holdout.fraction, Stream(self.spec.holdout.seed, HOLDOUT))] = False
        return kept

    def _state(self, groups: Groups, labels: Labels, strata: Classes | Edges | None) -> State | None:
        """Return the first state, as ``first_state`` does of rows in memory."""
        shares = shares_of(self.splitter, labels.n_bins, self._locked)
        counted: Classes | Edges | Combinations | None = None
        edges: list[float] | None = None
        classes: list[Any] | None = None
        if isinstance(strata, Edges):
            counted, edges = strata, strata.edges.tolist()
        elif strata is not None and len(strata.names) > 1:
            counted = Combinations.of(self.ordered, strata)
            classes = [[plain(value) for value in row] for row in counted.values()]
        elif strata is not None:
            counted, classes = strata, [plain(value) for value in strata.values(0)]
        state, countable = uncounted(shares, labels.n_repeats, edges, classes)
        if state is None or not countable:
            return state
        into = [bins_of(codes, shares) for codes in labels.codes.T]
        # A table ends with the last bin that has a group; the header has a row for every code.
        tables = [_padded(groups.tables(self.engine, counted, bins)[0], len(shares)) for bins in into]
        return replace(state, counts=[table.tolist() for table in tables])


def strata_of(groups: Groups, columns: Columns, needs: Needs) -> Classes | Edges | None:
    """Return what is shared out among folds of whole groups: classes of columns, bins of a number, or nothing."""
    ordered, names = groups.ordered, columns.shared_out
    if needs.y == "ignored" or not names:
        return None
    if len(names) == 1 and is_numeric(ordered.scan(names), names[0], ordered.schema.field(names[0]).type):
        return quantiles(groups, names[0])
    return Classes(tuple(names), tuple(distinct_values(ordered.scan([name]), name) for name in names))


def rows_of_kept(
    groups: Groups,
    strata: Classes | Edges | None,
    tables: list[NDArray[Any]],
    kept: NDArray[np.bool_],
    engine: Engine,
) -> GroupRows:
    """Return the rows of the groups that are kept, their classes and quantiles counted among them.

    ``tables`` are those of all groups.
    """
    sizes = tables[0].sum(axis=1)[kept]
    if isinstance(strata, Classes):
        orders = first_classes(groups, strata, kept)
        tables = [table[kept][:, order] for table, order in zip(tables, orders, strict=True)]
    elif strata is not None:
        # The kept groups are numbered anew, and rows of locked ones are counted nowhere.
        into = np.where(kept, np.cumsum(kept) - 1, -1)
        tables = groups.tables(engine, quantiles(groups, strata.names[0], kept), into)
    return rows_by_group(int(sizes.sum()), sizes, tables if strata else [], len(tables) == 1)


def _padded(table: NDArray[Any], height: int) -> NDArray[Any]:
    """Return a table with rows of nothing below: bins that no group is in."""
    return np.vstack([table, np.zeros((height - table.shape[0], table.shape[1]), dtype=table.dtype)])


def require_any_engine(splitter: Any, name: str) -> None:
    """Raise SplitError where a strategy is decided in memory only, and name those of its kind that are not."""
    if not splitter.in_memory_because:
        return
    alike = [
        other
        for other, strategy in all_strategies().items()
        if strategy.kind == splitter.kind and not strategy.in_memory_because and strategy.needs.fixed is False
    ]
    raise SplitError(
        f"{name} is decided in memory only, because {splitter.in_memory_because}; use {', '.join(alike)}, "
        "or engine='memory'."
    )


def _nothing(schema: pa.Schema) -> pa.Table:
    return pa.table({field.name: pa.array([], field.type) for field in schema})


def _numbered(source: Source) -> Source:
    """Return the rows as nothing but their numbers."""

    def batches(columns: list[str]) -> Any:
        start = 0
        for part in source.batches(source.schema.names[:1]):
            yield pa.table({"row": np.arange(start, start + part.num_rows)})
            start += part.num_rows

    return Source(pa.schema([("row", pa.int64())]), batches, source.n_rows, None)

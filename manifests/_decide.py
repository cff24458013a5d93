"""From a specification and data to a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.splitters import (
    DrawSplitter,
    LabelSplitter,
    Needs,
    Rows,
    SplitError,
    Splitter,
    label_type,
    strategies,
)
from numpy.typing import NDArray

from ._columns import canonical_table, column_types, key_order, require_columns, require_complete, to_numpy
from ._identity import digest_resample, fingerprint, plan_id, resample_counts
from ._manifest import Manifest, Resample
from ._read import column_names, read_table
from ._spec import Columns, SplitSpec, read_spec


class Plan:
    """A specification resolved against data: the used columns in key order, and the identity of what is asked.

    Made before anything random happens; ``plan_id`` is the key of the split cache.
    """

    def __init__(self, spec: Any, data: Any) -> None:
        asked = read_spec(spec)
        table = read_table(data, types=asked.types) if asked.strategy is None else None
        self.spec = asked if table is None else asked.model_copy(update={"strategy": _choose(asked, table)})
        self.splitter = self.spec.splitter()
        _refuse_ignored_groups(self.spec, self.splitter)
        used = used_columns(self.spec, self.splitter.needs)
        canonical = canonical_table(*_read_used(data if table is None else table, used, self.spec))
        for name in canonical.column_names:
            if name not in self.spec.columns.key:
                require_complete(canonical.column(name), name)
        self.table = _in_key_order(canonical, self.spec.columns.key)
        self.types = column_types(self.table)
        self.algorithm = {"name": self.spec.strategy, "version": self.splitter.version}
        self.fingerprint = fingerprint(self.table)
        self.plan_id = plan_id(self.spec.decision(self.types), self.fingerprint, self.algorithm)

    def rows(self) -> Rows:
        """Return the rows as the strategy may see them."""
        table, needs = self.table, self.splitter.needs
        columns = self.spec.columns

        y = _balanced(table, columns.stratify or [columns.target]) if needs.y != "ignored" else None
        roles = {
            "key": _joined_key(table, columns.key) if needs.key and columns.key else None,
            "time": to_numpy(table.column(columns.time)) if needs.time and columns.time else None,
        }
        group = columns.group if needs.groups else None
        return self.splitter.rows(
            np.empty((table.num_rows, 0)), y, None if group is None else to_numpy(table.column(group)), **roles
        )

    def decide(self) -> Manifest:
        """Return the decision. Pure: the same plan gives the same manifest on every machine."""
        rows = self.rows()
        shared: dict[str, Any] = {
            "spec": self.spec,
            "types": self.types,
            "fingerprint": self.fingerprint,
            "plan_id": self.plan_id,
            "algorithm": self.algorithm,
            "keys": self.table.select(self.spec.columns.key) if self.spec.columns.key else None,
        }
        if isinstance(self.splitter, LabelSplitter):
            codes = self.splitter.decide(rows)
            n_splits = self.splitter.get_n_splits(np.empty((rows.n, 0)), rows.y, rows.groups)
            return Manifest(
                kind="labels", codes=codes, n_splits=n_splits, group_table=_group_table(rows, codes), **shared
            )
        eligible = np.zeros(rows.n, dtype=label_type(1))
        if isinstance(self.splitter, DrawSplitter):
            resamples = tuple(_resample(*pair, rows.n) for pair in self.splitter.pairs(rows))
            return Manifest(
                kind="draws",
                codes=eligible,
                n_splits=len(resamples),
                resamples=resamples,
                strata=rows.y,
                groups=rows.groups,
                **shared,
            )
        pairs = tuple(self.splitter.pairs(rows))
        return Manifest(kind="pairs", codes=eligible, n_splits=len(pairs), stored_pairs=pairs, **shared)


def decide(spec: Any, data: Any) -> Manifest:
    """Return the manifest that ``spec`` (a SplitSpec, mapping or file) asks for on ``data`` (a file or frame).

    Promises: the same rows give the same folds in any container and any row order (with a key column), on any
    machine. Raises SplitError where the data or the specification do not allow the split; nothing is written.
    O(n log n).
    """
    return Plan(spec, data).decide()


def used_columns(spec: SplitSpec, needs: Needs) -> list[str]:
    """Return the columns that decide the split: the key, and what the strategy needs. No others are read."""
    columns = spec.columns
    balanced: list[str | None] = [*columns.stratify] or [columns.target]
    used = [*columns.key, *(balanced if needs.y != "ignored" else []), *_read_if(needs, columns)]
    return list(dict.fromkeys(name for name in used if name))


def _read_if(needs: Needs, columns: Columns) -> list[str | None]:
    return [columns.group if needs.groups else None, columns.time if needs.time else None]


def _read_used(data: Any, used: list[str], spec: SplitSpec) -> tuple[pa.Table, list[str], dict[str, Any]]:
    require_columns([*spec.columns.roles(), *spec.types], column_names(data))
    # A plain k-fold without a key reads no column at all; the number of rows still has to be known.
    table = read_table(data, used or None, spec.types)
    if used:
        return table, used, dict(spec.types)
    return pa.table({"row": np.arange(table.num_rows)}), ["row"], {}


def _in_key_order(table: pa.Table, key: list[str]) -> pa.Table:
    order = key_order(table, key) if key else None
    return table if order is None else table.take(order)


def _choose(spec: SplitSpec, table: pa.Table) -> str:
    columns = spec.columns
    if columns.group:
        return "BalancedGroupKFold"
    balanced: list[str | None] = [*columns.stratify] or [columns.target]
    if balanced == [None]:
        return "KFold"
    canonical = canonical_table(table, [name for name in balanced if name], spec.types)
    return "SortedStratifiedKFold" if is_numeric_target(canonical.column(0)) else "StratifiedKFold"


def is_numeric_target(column: pa.ChunkedArray) -> bool:
    """Return whether a canonical column is a number to predict: fractional, or an integer with over 20 values."""
    if pa.types.is_floating(column.type):
        return True
    return pa.types.is_integer(column.type) and len(column.unique()) > 20


def _refuse_ignored_groups(spec: SplitSpec, splitter: Splitter) -> None:
    if spec.columns.group and not splitter.needs.groups:
        keepers = [name for name, strategy in strategies().items() if _needs_of(strategy).groups is True]
        raise SplitError(
            f"{spec.strategy} does not keep groups whole, and the group column {spec.columns.group!r} is named; "
            f"choose {' or '.join(keepers)}, or leave the group column out."
        )


def _needs_of(strategy: type[Splitter]) -> Needs:
    return strategy.needs if isinstance(strategy.needs, Needs) else Needs()


def _balanced(table: pa.Table, names: Sequence[str | None]) -> NDArray[Any] | None:
    columns = [to_numpy(table.column(name)) for name in names if name]
    if not columns:
        return None
    return columns[0] if len(columns) == 1 else np.column_stack([column.astype(object) for column in columns])


def _joined_key(table: pa.Table, key: list[str]) -> NDArray[Any]:
    if len(key) == 1:
        return to_numpy(table.column(key[0]))
    parts = [to_numpy(table.column(name)).astype(str) for name in key]
    return np.array(["|".join(values) for values in zip(*parts, strict=True)], dtype=object)


def _resample(train: NDArray[Any], test: NDArray[Any], n: int) -> Resample:
    return Resample(int(train.size), int(test.size), digest_resample(resample_counts(train, test, n)))


def _group_table(rows: Rows, codes: NDArray[Any]) -> pa.Table | None:
    """Return each group with its fold and its rows (of each class, where there are classes)."""
    if rows.groups is None or codes.ndim == 2:
        return None
    first = np.full(rows.n_groups, rows.n, dtype=np.int64)
    np.minimum.at(first, rows.groups, np.arange(rows.n))
    columns: dict[str, Any] = {
        "group": pa.array(rows.group_levels),
        "fold": codes[first],
        "rows": np.bincount(rows.groups, minlength=rows.n_groups),
    }
    if rows.y is not None and rows.y.dtype.kind == "i" and rows.y.ndim == 1 and len(rows.levels) <= 100:
        counts = np.bincount(rows.groups * len(rows.levels) + rows.y, minlength=rows.n_groups * len(rows.levels))
        for level, column in zip(rows.levels, counts.reshape(rows.n_groups, -1).T, strict=True):
            columns[f"rows_{level}"] = column
    return pa.table(columns)

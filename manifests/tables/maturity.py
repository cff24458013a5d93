"""Rows whose target is not known yet: they wait outside of every split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.spec import SplitSpec
from evenfold.splitters import SplitError
from evenfold.splitters.times import ends_of, gap_of, times_of
from numpy.typing import NDArray

from .canonical import canonical_table, key_order, require_complete, to_numpy
from .keys import key_table, positions_in


def label_ends(spec: SplitSpec, column: Callable[[str], pa.ChunkedArray]) -> NDArray[Any] | None:
    """Return when the target of each row is known; None where the specification does not say it.

    ``column`` returns a canonical column by its name. Raises SplitError where one has holes, and for an end before its
    time.
    """
    columns = spec.columns
    if not spec.says_when_known or columns.time is None:
        return None
    names = [name for name in (columns.time, columns.label_end) if name]
    for name in names:
        require_complete(column(name), name)
    times = times_of(to_numpy(column(columns.time)), columns.time)
    if columns.label_end is None:
        return np.asarray(times + gap_of(spec.label_horizon, times, "label_horizon"))
    return ends_of(to_numpy(column(columns.label_end)), times)


def waiting_rows(table: pa.Table, spec: SplitSpec, types: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which rows of a table wait: those whose target is missing, or known only after the latest time in it.

    Each of the two as the specification has it; rows that have no target yet need no time either.
    """
    columns, waits = spec.columns, np.zeros(table.num_rows, dtype=np.bool_)
    if spec.missing_target == "wait" and columns.target is not None:
        waits |= table.column(columns.target).is_null(nan_is_null=True).to_numpy()
    if spec.on_immature == "use" or not spec.says_when_known or columns.time is None:
        return waits
    names = [name for name in (columns.time, columns.label_end) if name]
    canonical = canonical_table(table, names, {name: types[name] for name in names if name in types})
    ends = label_ends(spec, canonical.column)
    times = times_of(to_numpy(canonical.column(columns.time)), columns.time)
    return np.asarray(waits | (ends > times.max()))


def matured(
    table: pa.Table, spec: SplitSpec, types: Mapping[str, str], keys: pa.Table | None = None
) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows of a table that can be split, and those that wait; None where none does.

    Rows of ``keys`` do not wait any more, whatever is said of them now. Raises SplitError where rows wait that no
    key names, and where no row is left.
    """
    waits = waiting_rows(table, spec, types)
    if keys is not None and waits.any():
        # A row that has a fold keeps it, though its target is lost again.
        waits[positions_in(keys, key_table(table, spec, types)) >= 0] = False
    if not waits.any():
        return table, None
    n, columns = int(np.count_nonzero(waits)), spec.columns
    if spec.missing_target == "wait":
        late = ", or it is known too late" if spec.says_when_known else ""
        reason, keep, mend = f"{n:,} of {table.num_rows:,} rows have no {columns.target!r}{late}", "", "fill the column"
    else:
        reason = f"the target of {n:,} of {table.num_rows:,} rows is known only after the latest {columns.time!r}"
        keep, mend = ", or say on_immature: use", "correct the label_end or label_horizon"
    if not columns.key:
        why = "rows can wait only where a key names them"
        raise SplitError(f"{reason}, and {why}: name a key (--key), or drop those rows{keep}.")
    if n > table.num_rows - 2:
        raise SplitError(f"{reason}, and at least 2 must be left; {mend}{keep}.")
    return table.filter(pa.array(~waits)), table.filter(pa.array(waits))


def waiting_keys(
    waiting: pa.Table | None, spec: SplitSpec, types: Mapping[str, str], used_keys: pa.Table
) -> pa.Table | None:
    """Return the keys of the rows that wait, in key order; SplitError where one repeats, or is in ``used_keys``."""
    if waiting is None:
        return None
    keys = key_table(waiting, spec, types)
    order = key_order(keys, keys.column_names)
    key_order(pa.concat_tables([used_keys, keys]), keys.column_names)  # unique among all
    return keys if order is None else keys.take(order)

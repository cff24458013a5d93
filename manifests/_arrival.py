"""Data that arrive beside what a manifest knows: which rows are new, which are gone, which are back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from ._columns import canonical_table, key_order, require_complete, to_numpy
from ._decide import balanced_columns, used_columns
from ._keys import with_keys
from ._manifest import DELETED, Manifest
from ._match import positions_in
from ._read import read_table


@dataclass(frozen=True, eq=False)
class Arrival:
    """The used columns of the data in key order; ``known`` is each row's place in the manifest, -1 for a new row."""

    manifest: Manifest
    table: pa.Table
    known: NDArray[np.int64]
    batch: bool

    @classmethod
    def of(cls, manifest: Manifest, data: Any, batch: bool) -> Arrival:
        """Return the data as they stand to ``manifest``; raises SplitError for missing values and repeated keys."""
        assert manifest.keys is not None
        spec = manifest.spec
        used = used_columns(spec, manifest.splitter.needs)
        table = canonical_table(read_table(data, used, spec.types), used, manifest.types)
        for name in used:
            if name not in spec.columns.key:
                require_complete(table.column(name), name)
        table = with_keys(table, spec, manifest.types)
        order = key_order(table, manifest.keys.column_names)
        table = table if order is None else table.take(order)
        known = positions_in(manifest.keys, table.select(manifest.keys.column_names))
        arrival = cls(manifest, table, known, batch)
        if batch and (known >= 0).any():
            raise SplitError(arrival._not_new())
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
        known = self.known[self.known >= 0]
        return np.asarray(known[self.manifest.status[known] == DELETED])

    def column(self, name: str) -> NDArray[Any]:
        """Return a used column as an array."""
        return to_numpy(self.table.column(name))

    def balanced(self) -> NDArray[Any] | None:
        """Return what the strategy shares out evenly: a column, several, or None."""
        if self.manifest.splitter.needs.y == "ignored":
            return None
        return balanced_columns(self.table, self.manifest.spec.columns)

    def codes(self) -> NDArray[Any]:
        """Return the manifest's codes of the rows of the data (rows by repeats); -4 for new rows."""
        codes = self.manifest.codes.reshape(self.manifest.n, -1)
        found = codes[np.maximum(self.known, 0)].astype(np.int64)
        found[self.known < 0] = -4
        return found

    def _not_new(self) -> str:
        first = int(np.flatnonzero(self.known >= 0)[0])
        shown = ", ".join(str(value) for value in self.keys.slice(first, 1).to_pylist()[0].values())
        return (
            f"{int((self.known >= 0).sum()):,} of {self.table.num_rows:,} rows of the batch are in the manifest "
            f"already (first key {shown}); pass new rows only, or the whole table without batch."
        )

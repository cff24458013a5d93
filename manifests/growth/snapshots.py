"""The summary of a table that the next one is compared with."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.tables.canonical import infer_type
from evenfold.manifests.tables.read import blocks_of, schema_of
from evenfold.splitters import SplitError
from numpy.typing import NDArray

MOST_CATEGORIES = 1000


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A table when it was last learnt from: enough to see what became of it.

    ``target``: of each row of the manifest ``split_id``, in key order, null where the table lacked the row; None
    where the split has no target. ``types``: of every column. ``categories``: digests of the values of each column of
    text that plays no role and has at most 1,000 of them; no value can be read back.
    """

    split_id: str
    target: pa.Array | None
    types: dict[str, str]
    categories: dict[str, list[str]]
    generation: int | None = None  # of the manifest that the table was learnt from; None where it is the newest

    @classmethod
    def of(cls, manifest: Manifest, data: Any) -> Snapshot:
        """Return the snapshot of ``data``, the table that ``manifest`` is a split of.

        Of Parquet files and addresses the columns that play a role are in memory, and one of text at a time.
        """
        joined = Joined.of(manifest, data)
        target = manifest.spec.columns.target
        types = types_of(joined.source)
        texts = [name for name, of in types.items() if of == "text" and name not in manifest.spec.columns.roles()]
        categories = {
            name: sorted(digests)
            for name in texts
            if len(digests := digests_of(joined.source, name)) <= MOST_CATEGORIES
        }
        values = None if target is None else _at(joined.column(target), joined.row_of)
        return cls(manifest.split_id, values, types, categories)

    def grown(self, manifest: Manifest, generation: int) -> Snapshot:
        """Return the snapshot of an earlier generation as one of the manifest; of later rows no target is known."""
        born = manifest.born if manifest.born is not None else np.zeros(manifest.n, dtype=np.int16)
        older = born <= generation
        # The snapshot is in the key order of its own generation: a row's place there is its rank among those kept.
        rows = np.where(older, np.cumsum(older) - 1, -1)
        target = None if self.target is None else _at(pa.chunked_array([self.target]), rows)
        return replace(self, split_id=manifest.split_id, target=target, generation=generation)

    def write(self, path: Path) -> None:
        """Write the snapshot to a Parquet file."""
        about = {"split_id": self.split_id, "types": self.types, "categories": self.categories}
        table = pa.table({} if self.target is None else {"target": self.target})
        pq.write_table(table.replace_schema_metadata({"evenfold": json.dumps(about)}), path)

    @classmethod
    def read(cls, path: Path) -> Snapshot:
        """Return the snapshot in a file; raises SplitError where it is damaged."""
        try:
            table = pq.read_table(path)
            about = json.loads(table.schema.metadata[b"evenfold"])
            target = table.column("target").combine_chunks() if table.num_columns else None
            return cls(about["split_id"], target, about["types"], about["categories"])
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise SplitError(f"{path} is not a snapshot of a table ({type(error).__name__}); delete it.") from None


def types_of(source: Any) -> dict[str, str]:
    """Return the type of each column that has one: not of lists, and not of columns without a value.

    Of most columns their first rows are read.
    """
    types, schema = {}, schema_of(source)
    for field in schema:
        try:
            types[field.name] = infer_type(field.type, field.name)
        except SplitError:
            continue
    once = [name for name in types if schema.names.count(name) == 1]
    empty = [name for block in islice(blocks_of(source, once), 1) for name in once if _is_missing(block.column(name))]
    for block in blocks_of(source, empty) if empty else ():
        empty = [name for name in empty if _is_missing(block.column(name))]
    return {name: kind for name, kind in types.items() if name not in empty}


def _is_missing(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.is_null(column, nan_is_null=True)).as_py())


def _at(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Array:
    return column.combine_chunks().take(pa.array(rows, mask=rows < 0))


def digests_of(source: Any, name: str) -> set[str]:
    """Return a digest of each value of a column of text, with the column's name in it."""
    values = {value for block in blocks_of(source, [name]) for value in pc.unique(block.column(name)).to_pylist()}
    return {hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:16] for value in values if value is not None}

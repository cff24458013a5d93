"""A manifest that is written while its rows are read, and read without ever being in memory as a whole."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.identity import digest_table, split_id
from evenfold.manifests.membership import fold_columns
from evenfold.manifests.store.header import ROWS, Described, ListedFile, sha256
from evenfold.manifests.store.stored import StoredManifest
from evenfold.manifests.store.tables import parquet_options
from evenfold.manifests.store.write import (
    BLOCK_ROWS,
    appear,
    copy_of,
    counts_of,
    describe,
    write_described,
)

from .deciding import Decision, StreamedPlan


def write_streamed(
    plan: StreamedPlan,
    decision: Decision,
    root: str | Path,
    version: str | None = None,
    staged: Path | None = None,
) -> StoredManifest:
    """Write a decision as ``<root>/<name>/<version>/``, a shard at a time, as ``write_manifest`` does one in memory.

    ``version``: instead of the decision's.
    """
    if version:
        decision = replace(decision, manifest=replace(decision.manifest, version=version))
    final = Path(root) / plan.spec.name / decision.manifest.version
    return StoredManifest(appear(final, lambda aside: _fill(plan, decision, aside), staged))


def _fill(plan: StreamedPlan, decision: Decision, aside: Path) -> None:
    written = _Assignments(aside / ROWS)
    ordered, start = plan.ordered, 0
    for shard, rows in zip(ordered.shards, ordered.rows, strict=True):
        keys = ordered.read(shard, list(plan.key)) if plan.key else None
        codes = decision.columns(shard, slice(start, start + rows), keys)
        named = {} if keys is None else {name: keys.column(name) for name in keys.column_names}
        written.add(pa.table(named | codes))
        start += rows
    manifest = decision.manifest
    if decision.counting is not None:
        manifest = replace(manifest, state=decision.counting(written.counts))
    description: Described = {
        **describe(replace(manifest, keys=None)),
        "split_id": split_id(
            manifest.kind,
            ordered.digest_keys(plan.digests),
            written.codes.hexdigest(),
            manifest.membership.digests() or None,
        ),
        "n_rows": ordered.n,
        "counts": counts_of(written.counts),
        "generations": [{"n": 0, "rows": ordered.n}],
    }
    files = [written.close(copy_of(description))]
    tables = manifest.membership.files()
    if manifest.group_table is not None:
        tables = {"groups-0000.parquet": manifest.group_table} | tables
    write_described(aside, description, files, tables.items())


def count_in(counts: dict[int, int], values: Any) -> None:
    """Add how often each value occurs to ``counts``."""
    for value, rows in zip(*np.unique(values, return_counts=True), strict=True):
        counts[int(value)] = counts.get(int(value), 0) + int(rows)


class _Assignments:
    """The assignments file, written in row groups of a million rows, and what is known of it when all are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.codes = hashlib.sha256()
        self.counts: dict[int, int] = {}
        self._blocks: list[str] = []
        self._held: list[pa.Table] = []
        self._rows = self._total = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Add the rows that follow."""
        columns = [table.column(name).to_numpy() for name in fold_columns(table.column_names)]
        self.codes.update(np.ascontiguousarray(np.column_stack(columns), dtype="<i4").data)
        # Counts are of the first repeat: the others have the same rows.
        count_in(self.counts, columns[0])
        while table.num_rows:
            part = table.slice(0, BLOCK_ROWS - self._rows)
            self._held.append(part)
            self._rows += part.num_rows
            table = table.slice(part.num_rows)
            if self._rows == BLOCK_ROWS:
                self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        block = pa.concat_tables(self._held).combine_chunks()
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, block.schema, **parquet_options(block.schema))
        self._writer.write_table(block, row_group_size=BLOCK_ROWS)
        self._blocks.append(digest_table(block)[:16])
        self._total += block.num_rows
        self._held, self._rows = [], 0

    def close(self, metadata: dict[bytes, bytes]) -> ListedFile:
        """Write what is held and the header's copy; return the file's entry."""
        self._flush()
        assert self._writer is not None
        self._writer.add_key_value_metadata(metadata)
        self._writer.close()
        return {
            "path": self.path.name,
            "sha256": sha256(self.path),
            "bytes": self.path.stat().st_size,
            "rows": self._total,
            "blocks": self._blocks,
        }

"""A table in key order on disk: canonical columns in shards, read one at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
from evenfold.manifests.identity import canonical_bytes, digest_json, digest_start
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.tables.canonical import ARROW_TYPES, ENORMOUS, canonical_table, column_types, whole
from evenfold.manifests.tables.keys import repeated, with_keys
from evenfold.splitters import SplitError

SHARD_ROWS = 1_000_000
# What engines compare alike everywhere: times and dates as the integers that they are.
STORED: dict[pa.DataType, pa.DataType] = {ARROW_TYPES["timestamp"]: pa.int64(), ARROW_TYPES["date"]: pa.int32()}


@dataclass(frozen=True)
class Canonical:
    """Makes the used columns of any part of a table canonical, keys and all, in the types that engines compare alike.

    ``declared``: the specification's types; ``known``: those of a manifest whose keys these are to be. Text is compared
    by its UTF-8 bytes, so what stands here in Unicode's NFC form is in the same order in every engine.
    """

    spec: SplitSpec
    used: tuple[str, ...]
    declared: tuple[tuple[str, str], ...]
    known: tuple[tuple[str, str], ...] = ()

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return the part's used columns, as they are stored."""
        table = with_keys(canonical_table(part, self.used, dict(self.declared)), self.spec, dict(self.known))
        return pa.table({name: stored(whole(table.column(name))) for name in table.column_names})

    def types(self, schema: pa.Schema) -> dict[str, str]:
        """Return the canonical types of the columns that come out of parts of ``schema``."""
        nothing = pa.table({field.name: pa.array([], field.type) for field in schema})
        table = with_keys(canonical_table(nothing, self.used, dict(self.declared)), self.spec, dict(self.known))
        return column_types(table)


def stored(array: pa.Array) -> pa.Array:
    """Return a canonical column as engines are given it."""
    return array.view(STORED[array.type]) if array.type in STORED else array


@dataclass(frozen=True)
class Ordered:
    """The rows in key order: shards of canonical columns that follow one another.

    ``types`` are the columns' names in that order and their canonical types; ``key`` those that are the key.
    """

    shards: tuple[Path, ...]
    types: dict[str, str]
    key: tuple[str, ...]

    @cached_property
    def rows(self) -> list[int]:
        """The number of rows of each shard."""
        return [_rows_of(shard) for shard in self.shards]

    @property
    def n(self) -> int:
        """The number of rows."""
        return sum(self.rows)

    @cached_property
    def starts(self) -> list[int]:
        """The position of each shard's first row."""
        return [0, *np.cumsum(self.rows).tolist()[:-1]]

    @property
    def schema(self) -> pa.Schema:
        """The canonical types of the columns."""
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in self.types.items()])

    def read(self, shard: Path, columns: list[str]) -> pa.Table:
        """Return columns of one shard in their canonical types, one chunk each."""
        return read_shard(shard, {name: self.types[name] for name in columns})

    def keys(self, shard: Path) -> pa.Table:
        """Return the keys of one shard as they are stored and compared; without a key, as many rows of nothing."""
        names = list(self.key) or list(self.types)[:1]
        table = read_stored(shard, names)
        return pa.table({name: _stored(table.column(name), self.types[name]) for name in names})

    def scan(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield the shards' columns in key order."""
        return (self.read(shard, columns) for shard in self.shards)

    def columns(self, names: list[str]) -> pa.Table:
        """Return whole columns in key order, in memory."""
        return pa.concat_tables(self.scan(names)).combine_chunks()

    def check(self, groups: Collection[str] = ()) -> None:
        """Raise SplitError unless keys are complete, ascending and unique, and no used value is missing or infinite.

        Nor beyond 1e150, as in memory (``require_complete``), but for keys and ``groups``, which are only compared.
        No engine's word is taken for the order: it is looked at here, row by row, also between shards.
        """
        last: pa.Table | None = None
        repeats, first = 0, ""
        faults: dict[tuple[str, str], int] = {}
        for table in self.scan(list(self.types)):
            self._count_faults(table, faults, {*self.key, *groups})
            if self.key and table.num_rows:
                keys = table.select(self.key)
                # With the last key before: a repeat across two shards is one as well.
                joined = keys if last is None else pa.concat_tables([last, keys]).combine_chunks()
                same = repeated(joined)
                if same.any() and not repeats:
                    first = ", ".join(
                        str(value) for value in joined.slice(int(same.argmax()), 1).to_pylist()[0].values()
                    )
                repeats += int(same.sum())
                last = keys.slice(keys.num_rows - 1)
        for (name, fault), rows in faults.items():
            raise SplitError(self.faulty(name, fault, rows))
        if repeats:
            raise SplitError(
                f"key {'+'.join(self.key)} is not unique: {repeats:,} of {self.n:,} rows "
                f"{'repeats' if repeats == 1 else 'repeat'} an earlier key (first {first!r}); "
                "name a unique key, or several columns that are unique together."
            )

    def faulty(self, name: str, fault: str, rows: int) -> str:
        """Return what is said of a column that has a fault in some rows: not in which, for they were sorted."""
        kind = "key column" if name in self.key else "column"
        return f"{kind} {name!r} is {fault} in {rows:,} of {self.n:,} rows; drop, fill or correct those rows first."

    def _count_faults(self, table: pa.Table, faults: dict[tuple[str, str], int], compared: set[str]) -> None:
        for name in table.column_names:
            column = table.column(name)
            counts = {"missing": column.null_count}
            if pa.types.is_floating(column.type):
                counts["infinite"] = pc.sum(pc.is_inf(column)).as_py() or 0
                if name not in compared:
                    counts[f"beyond {ENORMOUS:g}"] = pc.sum(pc.greater(pc.abs(column), ENORMOUS)).as_py() or 0
            for fault, rows in counts.items():
                if rows:
                    faults[name, fault] = faults.get((name, fault), 0) + rows

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each column's canonical bytes, as ``digest_column`` has it.

        Of a text column, the lengths of all rows come before the bytes of all: two readings.
        """
        hashes = {name: hashlib.sha256(digest_start(kind, self.n)) for name, kind in self.types.items()}
        texts = [name for name, kind in self.types.items() if kind == "text"]
        for turn, names in enumerate((list(self.types), texts)):
            for table in self.scan(names) if names else ():
                for name in names:
                    parts = list(canonical_bytes(whole(table.column(name))))
                    # The first reading takes each column's first part, the second the bytes that only text has.
                    for part in parts[turn : turn + 1]:
                        hashes[name].update(np.ascontiguousarray(part).data)
        return {name: digest.hexdigest() for name, digest in hashes.items()}

    def fingerprint(self, digests: dict[str, str]) -> str:
        """Return what names the content, as ``fingerprint`` does of a table in memory."""
        columns = {name: [self.types[name], digests[name]] for name in sorted(self.types)}
        return digest_json({"rows": self.n, "columns": columns})

    def digest_keys(self, digests: dict[str, str]) -> str:
        """Return the digest of the keys, as ``digest_keys`` does of those in memory."""
        return digest_json([digests[name] for name in self.key] if self.key else {"positions": self.n})


def read_shard(shard: Path, types: dict[str, str]) -> pa.Table:
    """Return columns of a shard in their canonical types, one chunk each."""
    table = read_stored(shard, list(types))
    return pa.table({name: _canonical(table.column(name), kind) for name, kind in types.items()})


def read_stored(shard: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return columns of a shard as they are stored; all of them by default."""
    if shard.suffix == ".parquet":  # as Spark writes it
        return pq.read_table(shard, columns=columns, memory_map=False, use_threads=False)
    # Not mapped into memory: what is read once would count as this process's.
    with pa.OSFile(str(shard)) as file:
        rows = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(use_threads=False))
        names = rows.schema.names
        wanted = names if columns is None else columns
        if {*wanted} < {*names}:
            fields = sorted(names.index(name) for name in wanted)
            rows = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
        return rows.read_all().select(wanted)


def _rows_of(shard: Path) -> int:
    if shard.suffix == ".parquet":
        return int(pq.read_metadata(shard).num_rows)
    with pa.memory_map(str(shard)) as file, pa.ipc.open_file(file) as batches:
        return sum(batches.get_batch(number).num_rows for number in range(batches.num_record_batches))


def _stored(column: pa.ChunkedArray, kind: str) -> pa.Array:
    arrow = ARROW_TYPES[kind]
    return whole(column).cast(STORED.get(arrow, arrow))


def _canonical(column: pa.ChunkedArray, kind: str) -> pa.Array:
    arrow = ARROW_TYPES[kind]
    array = whole(column)
    return array.cast(STORED[arrow]).view(arrow) if arrow in STORED else array.cast(arrow)


class ShardWriter:
    """Writes batches that come in key order as shards of a million rows; a context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards: list[Path] = []
        self._most = SHARD_ROWS
        self._held: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        """Add the rows that follow."""
        while table.num_rows:
            part = table.slice(0, self._most - self._rows)
            self._held.append(part)
            self._rows += part.num_rows
            table = table.slice(part.num_rows)
            if self._rows == self._most:
                self.close()

    def close(self) -> None:
        """Write what is held."""
        if self._held:
            self.shards.append(self.folder / f"ordered-{len(self.shards):06d}.arrow")
            write_shard(pa.concat_tables(self._held), self.shards[-1])
            self._held, self._rows = [], 0


def write_shard(table: pa.Table, path: Path) -> None:
    """Write a shard for ourselves, as it lies in memory: of Parquet, writing and reading cost several times as much."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as shard:
        shard.write_table(table)

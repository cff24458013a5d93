"""A table of any size parted by its folds: written once as Parquet, so that a fit reads only its rows and columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.engines.engine import bytes_of_memory, in_order
from evenfold.manifests.engines.ordered import Canonical, Ordered, ShardWriter
from evenfold.manifests.engines.sources import Source, source_of
from evenfold.manifests.engines.stored import StoredManifest, room_beside
from evenfold.manifests.membership import EXCLUDED, NEVER_TESTED, Role, require_fold, require_role
from evenfold.manifests.store.write import appear
from evenfold.manifests.tables.canonical import listed, require_columns
from evenfold.manifests.tables.keys import key_names
from evenfold.splitters import SplitError

from .beside import Beside, beside, labels_of

MOST_PARTS = 1_000
HELD_ROWS = 200_000
# A row's rank in key order, and its place in the table: a key may not begin with "fold".
PLACE, POSITION = "fold_place", "fold_position"
DESCRIPTION = "_partitions.json"  # readers of Parquet pass over such a name


@dataclass(frozen=True)
class Partitions:
    """A table below a folder, parted by fold: ``fold=<code>/rows.parquet``, each with all columns in the table's order.

    Any reader of Hive partitions reads it as one table with a column ``fold``.
    """

    folder: Path

    @cached_property
    def _said(self) -> dict[str, Any]:
        description: dict[str, Any] = json.loads((self.folder / DESCRIPTION).read_text(encoding="utf-8"))
        return description

    @property
    def split_id(self) -> str:
        """The identity of the split that the rows are parted by."""
        return str(self._said["split_id"])

    @property
    def n_splits(self) -> int:
        """The number of (train, test) pairs."""
        return len(self._said["tested"])

    @property
    def counts(self) -> dict[int, int]:
        """The rows of each fold's code; -2 locked, -3 in no split."""
        return {int(code): int(rows) for code, rows in self._said["rows"].items()}

    def rows(self, split: int, role: Role) -> int:
        """Return how many rows split ``split`` trains on or tests; nothing is read for it."""
        return sum(int(self._said["rows"].get(str(code), 0)) for code in self._codes(split, role))

    def _codes(self, split: int, role: Role) -> list[int]:
        tested: list[int] = self._said["tested"]
        require_role(role)
        if not 0 <= split < len(tested):
            raise SplitError(f"there is no split {split}; choose 0 to {len(tested) - 1}.")
        if role == "test":
            return [tested[split]]
        if self._said["parts"]:
            return [NEVER_TESTED]
        return [code for code in map(int, self._said["rows"]) if code >= NEVER_TESTED and code != tested[split]]

    def test_file(self, split: int) -> Path:
        """Return the file of the rows that split ``split`` tests."""
        return self.folder / f"fold={self._codes(split, 'test')[0]}" / "rows.parquet"

    def batches(
        self, split: int, role: Role, columns: list[str] | None = None, rows: int = 1 << 16
    ) -> Iterator[pa.Table]:
        """Yield the rows that split ``split`` trains on or tests, a batch at a time, fold after fold.

        For readers of their own. Within a fold rows are in the table's order.
        """
        for code in self._codes(split, role):
            path = self.folder / f"fold={code}" / "rows.parquet"
            if not path.exists():
                continue
            with pq.ParquetFile(path) as file:
                names = [name for name in file.schema_arrow.names if name != PLACE] if columns is None else columns
                require_columns(names, file.schema_arrow.names)
                for batch in file.iter_batches(rows, columns=names):
                    yield pa.Table.from_batches([batch])

    def read(self, split: int, role: Role, columns: list[str] | None = None) -> pa.Table:
        """Return the rows that split ``split`` trains on or tests, in key order: what ``join_rows`` returns."""
        names = columns if columns is not None else [name for name in self._said["columns"] if name != PLACE]
        table = pa.concat_tables(self.batches(split, role, [*dict.fromkeys([*names, PLACE])]))
        order = np.argsort(table.column(PLACE).to_numpy(), kind="stable")
        return table.select(names).take(pa.array(order))


def partition(
    manifest: StoredManifest, data: Any, to: str | Path, *, memory: str | int | None = None, repeat: int = 0
) -> Partitions:
    """Write the rows of ``data`` (whatever ``decide`` takes) parted by their folds of one ``repeat`` below ``to``.

    Keys are sorted out of core beside the manifest, in at most ``memory``; the table itself is read twice and never
    sorted. The folder appears whole or not at all. Raises SplitError where it is there already, where data are not the
    rows of the manifest, for a repeat that there is not, and above 1,000 folds; nothing is left then. O(n log n).
    """
    if Path(to).exists():
        raise SplitError(f"{to} exists already; name another folder.")
    source = source_of(data, dict(manifest.spec.types))
    taken = [name for name in source.schema.names if name.startswith("fold")]
    if taken:
        raise SplitError(f"the data have {listed(taken)}, and names that begin with 'fold' are ours; rename them.")
    manifest.require_labels()
    labels = labels_of(manifest)
    require_fold(0, len(labels.tested), repeat, labels.n_repeats, f"{manifest.name} {manifest.version}")
    if len(labels.tested) > MOST_PARTS:
        raise SplitError(f"{len(labels.tested):,} folds make as many folders; export the folds instead.")
    appear(Path(to), lambda aside: _fill(manifest, source, aside, bytes_of_memory(memory), repeat))
    return Partitions(Path(to))


def _fill(manifest: StoredManifest, source: Source, aside: Path, memory: int, repeat: int) -> None:
    key = key_names(manifest.spec)
    with room_beside(aside) as spilled:
        ordered = ordered_places(manifest, source, key, spilled, memory)
        with beside(manifest, source, memory, ordered) as rows:
            rows.require_exact()
            counts = _write(rows, source, aside, repeat)
    description = {
        "split_id": manifest.split_id,
        "tested": list(rows.labels.tested),
        "parts": dict(rows.labels.parts),
        "rows": {str(code): n for code, n in sorted(counts.items())},
        "columns": [*source.schema.names, PLACE],
    }
    (aside / DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")


def ordered_places(manifest: StoredManifest, source: Source, key: list[str], folder: Path, memory: int) -> Ordered:
    """Return the keys and each row's place in the table, in key order."""
    spec, types = manifest.spec, manifest.types
    declared = {name: kind for name, kind in {**types, **spec.types}.items() if name in spec.columns.key}
    canonical = Canonical(spec, tuple(spec.columns.key), tuple(declared.items()), tuple(types.items()))

    def parts() -> Iterator[pa.Table]:
        start = 0
        for part in source.batches(list(spec.columns.key) or source.schema.names[:1]):
            columns = dict(zip(key, canonical(part).select(key).columns, strict=True)) if key else {}
            yield pa.table({**columns, POSITION: np.arange(start, start + part.num_rows)})
            start += part.num_rows

    writer = ShardWriter(folder)
    for table in in_order(parts(), key, folder, memory) if key else parts():
        writer.add(table)
    writer.close()
    made = canonical.types(source.schema) if key else {}
    return Ordered(tuple(writer.shards), {**made, POSITION: "int"}, tuple(key))


def _write(rows: Beside, source: Source, aside: Path, repeat: int) -> dict[int, int]:
    """Write every row of the table to the file of its fold, in the table's order; return the rows of each."""
    files = _Files(aside)
    for table, codes, _ in in_table_order(rows, source, repeat):
        files.add(table, codes)
    return files.close()


def in_table_order(rows: Beside, source: Source, repeat: int) -> Iterator[tuple[pa.Table, Any, Any]]:
    """Yield the table's rows in its own order, each with its rank in key order (``PLACE``), their folds and status.

    A row that is in no split has code -3. Raises SplitError where a column of the table is called ``PLACE``.
    """
    if PLACE in source.schema.names:
        raise SplitError(f"the data have a column {PLACE!r}, and that name is ours; rename it.")

    def folds() -> Iterator[pa.Table]:
        place = 0
        for codes, status, table in rows.assigned([POSITION]):
            ranks, used = np.arange(place, place + len(codes)), np.where(status == 0, codes[:, repeat], EXCLUDED)
            yield pa.table({POSITION: table.column(POSITION), PLACE: ranks, "code": used, "status": status})
            place += len(codes)

    in_place = in_order(folds(), [POSITION], rows.folder, rows.memory) if rows.ordered.key else folds()
    held = _Held(in_place)
    for part in source.batches(source.schema.names):
        beside_it = held.take(part.num_rows)
        placed = part.append_column(PLACE, beside_it.column(PLACE))
        yield placed, beside_it.column("code").to_numpy(), beside_it.column("status").to_numpy()


class _Held:
    """A stream of tables that is taken from by numbers of rows."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self.tables, self.held = tables, None

    held: pa.Table | None

    def take(self, rows: int) -> pa.Table:
        """Return the next ``rows`` rows."""
        while self.held is None or self.held.num_rows < rows:
            more = next(self.tables)
            self.held = more if self.held is None else pa.concat_tables([self.held, more])
        taken, self.held = self.held.slice(0, rows), self.held.slice(rows)
        return taken


class _Files:
    """A Parquet file a fold, written as rows come; few rows of all of them are held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[int, list[pa.Table]] = {}
        self.writers: dict[int, pq.ParquetWriter] = {}
        self.counts: dict[int, int] = {}
        self.rows = 0

    def add(self, table: pa.Table, codes: Any) -> None:
        """Add rows and their folds."""
        for code in np.unique(codes).tolist():
            mine = table.filter(pa.array(codes == code))
            self.held.setdefault(code, []).append(mine)
            self.counts[code] = self.counts.get(code, 0) + mine.num_rows
        self.rows += table.num_rows
        if self.rows >= HELD_ROWS:
            self._flush()

    def _flush(self) -> None:
        for code, tables in self.held.items():
            table = pa.concat_tables(tables).combine_chunks()
            if code not in self.writers:
                folder = self.folder / f"fold={code}"
                folder.mkdir()
                self.writers[code] = pq.ParquetWriter(folder / "rows.parquet", table.schema, compression="zstd")
            self.writers[code].write_table(table)
        self.held, self.rows = {}, 0

    def close(self) -> dict[int, int]:
        """Write what is held; return the rows of each fold."""
        self._flush()
        for writer in self.writers.values():
            writer.close()
        return self.counts

"""Data of any size joined to the folds of a manifest: as a cv, as the rows of one fold, and parted by all folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from evenfold.manifests.manifest import DELETED, Manifest, ManifestCV
from evenfold.manifests.membership import EXCLUDED, NEVER_TESTED, Labels, Ranks, Role, require_fold, require_role
from evenfold.manifests.store.stored import STAGED, aside, in_memory, manifest_of, settle
from evenfold.manifests.tables.canonical import listed, require_columns
from evenfold.manifests.tables.keys import WhichRows
from evenfold.manifests.tables.read import (
    bytes_of_memory,
    fits_in_memory,
    not_written,
    read_table,
    source_of,
    write_whole,
)
from evenfold.manifests.tables.source import BATCH_ROWS, Source
from evenfold.splitters import SplitError
from evenfold.splitters.numbers import stable_order
from numpy.typing import NDArray

# A row's rank in key order: no column of a table that is parted may begin with "fold".
PLACE = "fold_place"


@dataclass(frozen=True)
class Partitions:
    """A table below a folder, parted by fold: ``fold=<code>/rows.parquet``, each with all columns in the table's order.

    ``tested`` are the codes of the folds that a split tests, ``counts`` the rows of each code: -2 locked, -3 in none.
    """

    folder: Path
    tested: Sequence[int]
    parts: dict[str, int]
    counts: dict[int, int]
    columns: list[str]

    @property
    def n_splits(self) -> int:
        """The number of (train, test) pairs."""
        return len(self.tested)

    def rows(self, split: int, role: Role) -> int:
        """Return how many rows split ``split`` trains on or tests; nothing is read for it."""
        return sum(self.counts.get(code, 0) for code in self._codes(split, role))

    def _codes(self, split: int, role: Role) -> list[int]:
        require_role(role)
        require_fold(split, self.n_splits, 0, 1, str(self.folder))
        if role == "test":
            return [self.tested[split]]
        if self.parts:
            return [NEVER_TESTED]
        return [code for code in self.counts if code >= NEVER_TESTED and code != self.tested[split]]

    def batches(
        self, split: int, role: Role, columns: list[str] | None = None, rows: int = 1 << 16
    ) -> Iterator[pa.Table]:
        """Yield the rows of a side of a split, a batch at a time, fold after fold, in the table's order in each."""
        wanted = pyarrow.dataset.field("fold").isin(self._codes(split, role))
        names = self.columns if columns is None else columns
        require_columns(names, [*self.columns, PLACE])
        parted = pyarrow.dataset.dataset(self.folder, partitioning="hive")
        read = parted.to_batches(columns=names, filter=wanted, batch_size=rows, batch_readahead=2, fragment_readahead=1)
        yield from (pa.Table.from_batches([batch]) for batch in read if batch.num_rows)

    def read(self, split: int, role: Role, columns: list[str] | None = None) -> pa.Table:
        """Return the rows that split ``split`` trains on or tests, in key order: what ``join_rows`` returns."""
        names = list(dict.fromkeys(self.columns if columns is None else columns))
        table = pa.concat_tables(self.batches(split, role, [*names, PLACE]))
        return table.select(names).take(pa.array(np.argsort(table.column(PLACE).to_numpy(), kind="stable")))


def partition(
    manifest: Any, data: Any, to: str | Path, *, memory: str | int | None = None, repeat: int = 0
) -> Partitions:
    """Write the rows of ``data`` (whatever ``decide`` takes) parted by their folds of one ``repeat`` below ``to``.

    The keys of the table are read and joined, and then the table once, a batch at a time. The folder appears whole or
    not at all. Raises SplitError where it is there already, where data are not the rows of the manifest, for a repeat
    that there is not, above 1,000 folds, and as ``measure`` does; nothing is left then. O(n log n).
    """
    if Path(to).exists():
        raise SplitError(f"{to} exists already; name another folder.")
    whole = in_memory(manifest, memory)
    source = source_of(data, whole.key_types)
    if taken := [name for name in source.names if name.startswith("fold")]:
        raise SplitError(f"the data have {listed(taken)}, and names that begin with 'fold' are ours; rename them.")
    labels = labels_of(whole, "a folder a fold")
    whole.split_number(0, repeat)
    if len(labels.tested) > 1_000:
        raise SplitError(f"{len(labels.tested):,} folds make as many folders; export the folds instead.")
    lookup = whole.lookup(source)
    lookup.exact_rows()
    codes = np.where(lookup.rank >= 0, labels.column(repeat)[lookup.rank], EXCLUDED)
    counts = dict(zip(*(each.tolist() for each in np.unique(codes, return_counts=True)), strict=True))
    with aside(Path(to).parent, STAGED, Path(to)) as folder:
        try:
            _write_parted(source, lookup.rank, codes, folder)
        except pa.ArrowException as error:  # of a type that Parquet has not
            raise not_written(to, error) from None
        settle(folder, Path(to))
    return Partitions(Path(to), labels.tested, dict(labels.parts), counts, source.names)


def _write_parted(source: Source, ranks: NDArray[Any], codes: NDArray[Any], folder: Path) -> None:
    def parts() -> Iterator[pa.RecordBatch]:
        for rows, part, _ in source.blocks(source.names, np.arange(0)):
            placed = part.append_column(PLACE, pa.array(ranks[rows])).append_column("fold", pa.array(codes[rows]))
            yield from placed.replace_schema_metadata(None).to_batches()

    batches = parts()
    first = next(batches)
    pyarrow.dataset.write_dataset(
        chain([first], batches), folder, schema=first.schema, format="parquet",
        file_options=pyarrow.dataset.ParquetFileFormat().make_write_options(compression="zstd"),
        partitioning=pyarrow.dataset.partitioning(pa.schema([first.schema.field("fold")]), flavor="hive"),
        basename_template="rows{i}.parquet", max_rows_per_group=200_000, preserve_order=True,
    )  # fmt: skip
    for file in folder.glob("fold=*/rows0.parquet"):
        file.rename(file.with_name("rows.parquet"))


def labels_of(manifest: Manifest, to: str) -> Labels:
    """Return the folds in use; SplitError where the manifest holds none."""
    if isinstance(manifest.in_use, Labels):
        return manifest.in_use
    remedy = "export to nnunet" if manifest.kind == "pairs" else "use a split into folds"
    holds = f"{manifest.name} {manifest.version} holds {manifest.kind}"
    raise SplitError(f"{to} takes one fold a row, and {holds}; {remedy}.")


def kept_rows(manifest: Manifest) -> Ranks:
    """Return the ranks of the rows that were not deleted."""
    return np.flatnonzero(manifest.status != DELETED)


def as_cv(manifest: Any, data: Any, memory: str | int | None = None, rows: WhichRows = "all") -> ManifestCV:
    """Return the splits as a ``cv`` for scikit-learn, in positions of the rows of ``data`` (whatever ``decide`` takes).

    See ``Manifest.as_cv``; the rows of a manifest on disk are read for it, where they fit into ``memory``.
    """
    return in_memory(manifest, memory).as_cv(data, rows)


def join_rows(manifest: Any, data: Any, fold: int, role: Role, repeat: int = 0) -> pa.Table:
    """Return the rows of ``data`` (a file or a frame) that ``fold`` trains on or tests, in key order.

    ``fold`` counts from 0, as do draws and pairs; of parts there is a fold for each part that is tested (validation,
    or test beside train alone). A row that a bootstrap draws twice is there twice. Locked rows are in neither role.
    Raises SplitError for a fold, role or repeat that there is not, and where the data are not those of the manifest.
    """
    require_role(role)
    manifest = manifest_of(manifest)
    return manifest.train_test(read_table(data, types=manifest.key_types), fold, repeat)[role == "test"]


def write_join(
    manifest: Any, data: Any, fold: int, role: Role, to: str | Path, *, repeat: int = 0, memory: str | int | None = None
) -> int:
    """Write the rows of ``data`` that ``fold`` trains on or tests to a Parquet or CSV file, and return their number.

    They are those of ``join_rows``, in key order; a table that takes more than ``memory`` is read several times. The
    file appears whole or not at all. Raises SplitError as ``join_rows`` and ``measure`` do.
    """
    require_role(role)
    whole = in_memory(manifest, memory)
    source = source_of(data, whole.key_types)
    rows = whole.positions(source)[whole.in_use.pair(whole.split_number(fold, repeat))[role == "test"]]
    rows = rows[rows >= 0]
    write_whole(to, rows_of(source, rows, memory))
    return int(rows.size)


def rows_of(source: Source, rows: NDArray[np.int64], memory: str | int | None = None) -> Iterator[pa.Table]:
    """Yield some rows of a table in this order: all at once, or a stretch at a time where they take more than memory.

    The table is read once for each stretch, which takes about half of ``memory``, or has 131,072 rows.
    """
    stretch = max(rows.size, 1)
    if not fits_in_memory(source, memory=memory):
        stretch = max(bytes_of_memory(memory) // (2 * source.bytes_a_row(source.names)), BATCH_ROWS)
    for start in range(0, max(rows.size, 1), stretch):
        wanted = rows[start : start + stretch]
        by_row = stable_order(wanted)
        parts = [part.take(pa.array(inside)) for _, part, inside in source.blocks(source.names, wanted[by_row])]
        place = pa.array(np.argsort(by_row))  # of each row among those that were read
        yield pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().take(place)

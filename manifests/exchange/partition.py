"""Data of any size joined to the folds of a manifest: as a cv, as the rows of one fold, and parted by all folds.

And what exports take of a manifest: the rows that are kept, their keys, and the sides of each split.
"""

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
from evenfold.manifests.membership import (
    EXCLUDED,
    NEVER_TESTED,
    Labels,
    Ranks,
    Role,
    require_fold,
    require_role,
    resample_counts,
)
from evenfold.manifests.store.stored import in_memory, manifest_of
from evenfold.manifests.store.write import appear
from evenfold.manifests.tables.canonical import listed, require_columns
from evenfold.manifests.tables.keys import WhichRows
from evenfold.manifests.tables.read import bytes_of_memory, fits_in_memory, read_table, source_of, write_whole
from evenfold.manifests.tables.source import BATCH_ROWS, Source
from evenfold.splitters import SplitError
from evenfold.splitters.numbers import stable_order
from numpy.typing import NDArray

MOST_PARTS = 1_000
# A row's rank in key order: no column of a table that is parted may begin with "fold".
PLACE = "fold_place"


@dataclass(frozen=True)
class Partitions:
    """A table below a folder, parted by fold: ``fold=<code>/rows.parquet``, each with all columns in the table's order.

    Any reader of Hive partitions reads it as one table with a column ``fold``. ``tested`` are the codes of the folds
    that a split tests, ``counts`` the rows of each code: -2 locked, -3 in no split.
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
        """Yield the rows that split ``split`` trains on or tests, a batch at a time, fold after fold.

        For readers of their own. Within a fold rows are in the table's order.
        """
        wanted = pyarrow.dataset.field("fold").isin(self._codes(split, role))
        names = self.columns if columns is None else columns
        require_columns(names, [*self.columns, PLACE])
        parted = pyarrow.dataset.dataset(self.folder, partitioning="hive")
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}
        read = parted.to_batches(columns=names, filter=wanted, batch_size=rows, **ahead)
        yield from (pa.Table.from_batches([batch]) for batch in read if batch.num_rows)

    def read(self, split: int, role: Role, columns: list[str] | None = None) -> pa.Table:
        """Return the rows that split ``split`` trains on or tests, in key order: what ``join_rows`` returns."""
        names = list(dict.fromkeys(self.columns if columns is None else columns))
        table = pa.concat_tables(self.batches(split, role, [*names, PLACE]))
        order = np.argsort(table.column(PLACE).to_numpy(), kind="stable")
        return table.select(names).take(pa.array(order))


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
    taken = [name for name in source.names if name.startswith("fold")]
    if taken:
        raise SplitError(f"the data have {listed(taken)}, and names that begin with 'fold' are ours; rename them.")
    labels = labels_of(whole, "a folder a fold")
    whole.split_number(0, repeat)
    if len(labels.tested) > MOST_PARTS:
        raise SplitError(f"{len(labels.tested):,} folds make as many folders; export the folds instead.")
    lookup = whole.lookup(source)
    lookup.exact_rows()
    codes = np.where(lookup.rank >= 0, labels.column(repeat)[lookup.rank], EXCLUDED)
    counts = dict(zip(*(each.tolist() for each in np.unique(codes, return_counts=True)), strict=True))
    appear(Path(to), lambda folder: _write_parted(source, lookup.rank, codes, folder))
    return Partitions(Path(to), labels.tested, dict(labels.parts), counts, source.names)


def _write_parted(source: Source, ranks: NDArray[Any], codes: NDArray[Any], folder: Path) -> None:
    """Write every row to the file of its fold, in the table's order."""

    def parts() -> Iterator[pa.RecordBatch]:
        for part, rows in _numbered(source):
            placed = part.append_column(PLACE, pa.array(ranks[rows])).append_column("fold", pa.array(codes[rows]))
            yield from placed.replace_schema_metadata(None).to_batches()

    batches = parts()
    first = next(batches)
    pyarrow.dataset.write_dataset(
        chain([first], batches),
        folder,
        schema=first.schema,
        format="parquet",
        file_options=pyarrow.dataset.ParquetFileFormat().make_write_options(compression="zstd"),
        partitioning=pyarrow.dataset.partitioning(pa.schema([first.schema.field("fold")]), flavor="hive"),
        basename_template="rows{i}.parquet",
        max_rows_per_group=200_000,
        preserve_order=True,
    )
    for file in folder.glob("fold=*/rows0.parquet"):
        file.rename(file.with_name("rows.parquet"))


def _numbered(source: Source) -> Iterator[tuple[pa.Table, slice]]:
    """Yield the table a batch at a time, and which of all rows each holds."""
    start = 0
    for part in source.batches(source.names):
        yield part, slice(start, start + part.num_rows)
        start += part.num_rows


def labels_of(manifest: Manifest, to: str) -> Labels:
    """Return the folds in use; SplitError where the manifest holds none."""
    if isinstance(manifest.in_use, Labels):
        return manifest.in_use
    remedy = "export to nnunet" if manifest.kind == "pairs" else "use a split into folds"
    title = f"{manifest.name} {manifest.version}"
    raise SplitError(f"{to} takes one fold a row, and {title} holds {manifest.kind}; {remedy}.")


def kept_rows(manifest: Manifest) -> Ranks:
    """Return the ranks of the rows that were not deleted."""
    return np.flatnonzero(manifest.status != DELETED)


def kept_keys(manifest: Manifest) -> pa.Table:
    """Return the keys of those rows; the position, as ``row``, where there is no key."""
    keys = manifest.keys if manifest.keys is not None else pa.table({"row": np.arange(manifest.n)})
    return keys.take(pa.array(kept_rows(manifest)))


def sides(manifest: Manifest, data: Any) -> Iterator[tuple[Ranks, Ranks, Ranks]]:
    """Yield the ranks that each split trains on, tests, and sets apart by a share to calibrate, as ``data`` say."""
    apart = data is not None and manifest.spec.calibration is not None
    cv = manifest.as_cv(read_table(data, types=manifest.spec.types), calibration=True) if apart else None
    for i, (train, test) in enumerate(map(manifest.in_use.pair, range(manifest.n_splits))):
        left, held_out = (train, train[:0]) if cv is None or cv.parted is None else cv.parted(i, train)
        yield left, test, held_out


def sides_of(manifest: Manifest, table: pa.Table | None = None, data: Any = None) -> pa.Table:
    """Return the keys, and a column a split: how often it trains on each row, -1 where it is tested, 0 for neither.

    Rows that are set apart to calibrate by are -2 where ``data`` say which. ``table``: what stands beside the keys.
    """
    table, rows = kept_keys(manifest) if table is None else table, kept_rows(manifest)
    for i, (train, test, apart) in enumerate(sides(manifest, data)):
        counts = resample_counts(train, test, manifest.n)
        counts[apart] = -2
        table = table.append_column(f"split_{i}", pa.array(counts[rows], pa.int16()))
    return table


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
    table = read_table(data, types=manifest.spec.types)
    return manifest.train_test(table, fold, repeat)[role == "test"]


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
    side = whole.in_use.pair(whole.split_number(fold, repeat))[role == "test"]
    rows = whole.positions(source)[side]
    rows = rows[rows >= 0]
    write_whole(to, rows_of(source, rows, memory))
    return int(rows.size)


def rows_of(source: Source, rows: NDArray[np.int64], memory: str | int | None = None) -> Iterator[pa.Table]:
    """Yield some rows of a table in this order: all at once, or a stretch at a time where they take more than memory.

    The table is read once for each stretch, of which each takes about half of ``memory``, or has 131,072 rows.
    """
    stretch = max(rows.size, 1)
    if not fits_in_memory(source, memory=memory):
        stretch = max(bytes_of_memory(memory) // (2 * source.bytes_a_row(source.names)), BATCH_ROWS)
    for start in range(0, max(rows.size, 1), stretch):
        wanted = rows[start : start + stretch]
        by_row = stable_order(wanted)
        ascending, parts = wanted[by_row], list[pa.Table]()
        for part, here in _numbered(source):
            first, stop = np.searchsorted(ascending, [here.start, here.stop])
            parts.append(part.take(pa.array(ascending[first:stop] - here.start)))
        place = np.empty(by_row.size, dtype=np.int64)
        place[by_row] = np.arange(by_row.size)
        yield pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().take(pa.array(place))

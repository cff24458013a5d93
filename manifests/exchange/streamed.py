"""What leaves a manifest on disk: splits for scikit-learn, the rows of one fold, folds as other tools read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.anywhere.beside import Beside, beside, labels_of
from evenfold.manifests.anywhere.joining import PLACE, POSITION, in_table_order, ordered_places
from evenfold.manifests.anywhere.verbs import fits_whole, read_whole
from evenfold.manifests.engines.engine import bytes_of_memory, in_order
from evenfold.manifests.engines.sources import Source, source_of
from evenfold.manifests.engines.stored import StoredManifest, room_beside
from evenfold.manifests.manifest import DELETED, Manifest, ManifestCV
from evenfold.manifests.membership import Labels, Role, fold_column, require_fold, require_role
from evenfold.manifests.store.rows import STATUS, codes_in_use
from evenfold.manifests.tables.keys import key_names
from evenfold.manifests.tables.read import write_whole

from .export import NOTES, Exported, export as export_rows, join_rows, named_for
from .forms import Dialect, Format
from .kept import FOLDS, no_word_for, require_no_folds


def as_cv(manifest: Manifest | StoredManifest, data: Any, memory: str | int | None = None) -> ManifestCV:
    """Return the splits as a ``cv`` for scikit-learn, in positions of the rows of ``data`` (whatever ``decide`` takes).

    A manifest on disk (``StoredManifest``) is joined out of core, in at most ``memory``; what is held after that are
    10 bytes a row (12 of more than 32,767 folds, and more for repeats), and no key. The pairs are those of
    ``Manifest.as_cv``, in the same order. Raises SplitError where data are not the rows of the manifest. O(n log n).
    """
    if isinstance(manifest, Manifest) or not manifest.streams:
        return (manifest if isinstance(manifest, Manifest) else read_whole(manifest, memory)).as_cv(data)
    source = source_of(data, dict(manifest.spec.types))
    with _joined(manifest, source, bytes_of_memory(memory)) as rows:
        kind = manifest.fold_type
        parts = [(codes.astype(kind), table.column(POSITION).to_numpy())
                 for codes, table in rows.stretches([POSITION])]  # fmt: skip
        labels = replace(rows.labels, codes=np.concatenate([codes for codes, _ in parts]))
    index = getattr(data, "index", None)
    known = index if getattr(index, "is_unique", False) else None
    positions = np.concatenate([positions for _, positions in parts]).astype(np.int64)
    return ManifestCV(labels, positions, positions.size, known)


def write_join(
    manifest: StoredManifest,
    data: Any,
    fold: int,
    role: Role,
    to: str | Path,
    *,
    repeat: int = 0,
    memory: str | int | None = None,
) -> int:
    """Write the rows of ``data`` that ``fold`` trains on or tests to a Parquet or CSV file, and return their number.

    They are those of ``join_rows``, in key order. What takes more than ``memory`` is joined and sorted out of core.
    The file appears whole or not at all. Raises SplitError as ``join_rows`` does.
    """
    require_role(role)
    source = source_of(data, dict(manifest.spec.types))
    if not manifest.streams or fits_whole(manifest, source, memory):
        rows = join_rows(read_whole(manifest, memory), data, fold, role, repeat)
        write_whole(to, rows)
        return int(rows.num_rows)
    labels = labels_of(manifest)
    code = _tested(manifest, labels, fold, repeat)
    limit, counted = bytes_of_memory(memory), [0]

    def taken(rows: Beside) -> Iterator[pa.Table]:
        for table, codes, _ in in_table_order(rows, source, repeat):
            learnt = codes == -1 if labels.parts else (codes >= -1) & (codes != code)
            part = table.filter(pa.array(codes == code if role == "test" else learnt))
            counted[0] += part.num_rows
            yield part

    with _joined(manifest, source, limit) as rows:
        write_whole(to, _by_place(taken(rows), rows))
    return counted[0]


def export(
    manifest: Manifest | StoredManifest,
    to: Format,
    path: str | Path,
    data: Any = None,
    *,
    repeat: int = 0,
    dialect: Dialect = "duckdb",
    table: str = "rows",
    memory: str | int | None = None,
) -> Exported:
    """Write the folds of a manifest in the form that a tool reads; the forms are those of ``exchange/export.py``."""
    of_rows = partial(export_rows, to=to, path=path, data=data, repeat=repeat, dialect=dialect, table=table)
    if isinstance(manifest, Manifest):
        return of_rows(manifest)
    source = None if data is None else source_of(data, dict(manifest.spec.types))
    if to not in NOTES or not manifest.streams or fits_whole(manifest, source, memory):
        return of_rows(read_whole(manifest, memory))
    file, counted = named_for(to, path), [0]
    if to == "csv":
        write_whole(file, _counted(_every_code(manifest), counted))
    elif source is None:
        write_whole(file, _counted(_one_fold(manifest, to, repeat), counted))
    else:
        with _joined(manifest, source, bytes_of_memory(memory)) as rows:
            beside_data = _beside_data(rows, source, to, repeat)
            write_whole(file, _counted(_by_place(beside_data, rows), counted))
    return Exported(path=str(file), to=to, rows=counted[0], note=NOTES[to])


@contextmanager
def _joined(manifest: StoredManifest, source: Source, memory: int) -> Iterator[Beside]:
    """Give the rows of the data with their places beside the manifest's; SplitError where they are not the same."""
    with room_beside(manifest.folder.parent.parent) as spilled:
        ordered = ordered_places(manifest, source, key_names(manifest.spec), spilled, memory)
        with beside(manifest, source, memory, ordered) as rows:
            rows.require_exact()
            yield rows


def _by_place(parts: Iterator[pa.Table], rows: Beside) -> Iterator[pa.Table]:
    """Yield rows in key order, without their places, sorted out of core."""
    for table in in_order(parts, [PLACE], rows.folder, rows.memory):
        yield table.drop_columns([PLACE])


def _tested(manifest: StoredManifest, labels: Labels, fold: int, repeat: int) -> int:
    require_fold(fold, len(labels.tested), repeat, labels.n_repeats, f"{manifest.name} {manifest.version}")
    return int(labels.tested[fold])


def _kept(manifest: StoredManifest) -> Iterator[tuple[pa.Table, Any]]:
    """Yield the keys (``row``, the position, where there is none) and codes in use of rows that were not deleted."""
    key, start = key_names(manifest.spec), 0
    for part in manifest.members():
        kept = part.column(STATUS).to_numpy() != DELETED
        keys = part.select(key) if key else pa.table({"row": np.arange(start, start + part.num_rows)})
        start += part.num_rows
        yield keys.filter(pa.array(kept)), codes_in_use(part)[kept]


def _every_code(manifest: StoredManifest) -> Iterator[pa.Table]:
    kind = manifest.fold_type
    for keys, codes in _kept(manifest):
        for repeat in range(codes.shape[1]):
            keys = keys.append_column(fold_column(repeat), pa.array(codes[:, repeat].astype(kind)))
        yield keys


def _one_fold(manifest: StoredManifest, to: str, repeat: int) -> Iterator[pa.Table]:
    labels = labels_of(manifest)
    _tested(manifest, labels, 0, repeat)
    for keys, codes in _kept(manifest):
        yield keys.append_column(FOLDS, _folds(codes[:, repeat], labels, to))


def _beside_data(rows: Beside, source: Source, to: str, repeat: int) -> Iterator[pa.Table]:
    require_no_folds(source.schema.names)
    _tested(rows.manifest, rows.labels, 0, repeat)
    for table, codes, status in in_table_order(rows, source, repeat):
        kept = status != DELETED
        yield table.filter(pa.array(kept)).append_column(FOLDS, _folds(codes[kept], rows.labels, to))


def _folds(codes: Any, labels: Labels, to: str) -> pa.Array:
    """Return folds as other tools read them; SplitError where they have no word for one."""
    unfit = codes[codes < 0]
    if unfit.size:
        raise no_word_for("rows", unfit, labels, to)
    return pa.array(codes.astype(np.int32))


def _counted(parts: Iterator[pa.Table], counted: list[int]) -> Iterator[pa.Table]:
    for part in parts:
        counted[0] += part.num_rows
        yield part

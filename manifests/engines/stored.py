"""A manifest that is written while its rows are read, and read without ever being in memory as a whole."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests.identity import digest_table, split_id
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import fold_columns
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.store.header import ROWS, Described, Header, ListedFile, read_header, sha256
from evenfold.manifests.store.load import prove_stored, read_manifest
from evenfold.manifests.store.rows import BORN, STATUS, codes_in_use, count_in, files_of, rows_in_order
from evenfold.manifests.store.tables import parquet_options
from evenfold.manifests.store.write import (
    BLOCK_ROWS,
    appear,
    clear_abandoned,
    copy_of,
    counts_of,
    describe,
    owned,
    write_described,
)
from evenfold.manifests.strict import Algorithm
from evenfold.manifests.tables.keys import key_names
from evenfold.manifests.tables.read import not_written
from evenfold.splitters import SplitError, Splitter

from .deciding import Decision, StreamedPlan


@dataclass(frozen=True)
class StoredManifest:
    """A manifest in its folder: the header in memory, keys and codes on demand.

    ``asked``: a specification to go by in place of the header's, of the same decision.
    """

    folder: Path
    asked: SplitSpec | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @cached_property
    def header(self) -> Header:
        """What ``manifest.json`` says."""
        return read_header(self.folder)

    @property
    def files(self) -> list[Path]:
        """What the manifest consists of: its header, and the files that it lists."""
        return [self.folder / "manifest.json", *(self.folder / entry["path"] for entry in self.header["files"])]

    @property
    def split_id(self) -> str:
        """The identity of the membership."""
        return str(self.header["split_id"])

    @property
    def plan_id(self) -> str:
        """The identity of what was asked of which data."""
        return str(self.header["plan_id"])

    @property
    def fingerprint(self) -> str:
        """The identity of the data's used columns."""
        return str(self.header["fingerprint"])

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.header["n_rows"])

    @cached_property
    def spec(self) -> SplitSpec:
        """What was asked."""
        return self.asked or read_spec(self.header["spec"], stored=True)

    @property
    def name(self) -> str:
        """What the split is called."""
        return str(self.header["name"])

    @property
    def version(self) -> str:
        """Major version and generation."""
        return str(self.header["version"])

    @property
    def kind(self) -> str:
        """What the splits are: labels, draws or pairs."""
        return str(self.header["kind"])

    @property
    def algorithm(self) -> Algorithm:
        """The strategy's name and version."""
        return self.header["algorithm"]

    @property
    def types(self) -> dict[str, str]:
        """The type of each used column."""
        return dict(self.header["types"])

    @property
    def splitter(self) -> Splitter:
        """The strategy as specified."""
        return self.spec.splitter()

    @property
    def parent_split_id(self) -> str | None:
        """What the manifest was grown from; None where it was split."""
        return self.header["parent_split_id"]

    @property
    def n_splits(self) -> int:
        """The number of (train, test) pairs."""
        return int(self.header["n_splits"])

    @property
    def generation(self) -> int:
        """How often the manifest was extended."""
        return len(self.header["generations"]) - 1

    @cached_property
    def column_names(self) -> list[str]:
        """The columns of the assignments: the key's and those of folds."""
        return list(pq.read_schema(self.folder / ROWS).names)

    @property
    def fold_type(self) -> Any:
        """The type of codes, as numpy has it."""
        return pq.read_schema(self.folder / ROWS).field("fold").type.to_pandas_dtype()

    @property
    def streams(self) -> bool:
        """Whether folds can be read row after row: labels of groups or rows, where none waits for its target."""
        joined = self.spec.says_when_known or self.spec.may_wait or self.spec.columns.entities
        return self.kind == "labels" and not joined

    def require_labels(self) -> None:
        """Raise SplitError where rows cannot be read one after the other: of draws and pairs."""
        if self.kind != "labels":
            reason = f"{self.name} {self.version} holds {self.kind}, which are made from all rows at once"
            raise SplitError(f"{reason}; read it into memory (read()).")

    def prove(self) -> StoredManifest:
        """Return the manifest where every file has the bytes that were written; else SplitError. No row is read."""
        prove_stored(self.folder)
        return self

    def read(self) -> Manifest:
        """Return the manifest in memory, proved."""
        return read_manifest(self.folder)

    def members(self) -> Iterator[pa.Table]:
        """Yield keys and assigned codes in key order, with each row's generation (``fold_born``) and ``status``."""
        return rows_in_order(self.folder, files_of(self.header), key_names(self.spec))

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield keys and codes (or ``columns``) in key order, a batch at a time; -3 for rows that are in no split."""
        for part in self.members():
            names = [name for name in part.column_names if name not in (STATUS, BORN)] if columns is None else columns
            codes = codes_in_use(part)
            folds = fold_columns(part.column_names)
            fields = {
                name: pa.array(codes[:, i].astype(part.schema.field(name).type.to_pandas_dtype()))
                for i, name in enumerate(folds)
            }
            yield pa.table({name: fields.get(name, part.column(name)) for name in names})


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


@contextmanager
def room_beside(root: str | Path) -> Iterator[Path]:
    """Give a folder for what is spilled, on the disk of the results, and clear it; also those of killed processes."""
    home = Path(root)
    made = [place for place in (home, *home.parents) if not place.exists()]  # they go again where nothing comes of it
    folder = home / owned(".spilling")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise not_written(root, error) from None
    clear_abandoned(home, ".spilling")
    try:
        yield folder
    except OSError as error:
        raise not_written(folder, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for place in made:
            if not place.exists() or any(place.iterdir()):
                break
            place.rmdir()

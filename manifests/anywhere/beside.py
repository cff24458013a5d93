"""Data of any size beside a manifest on disk: both in key order, so that a row and its folds are read together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.engines.engine import DuckDB, bytes_of_memory, ordered_by
from evenfold.manifests.engines.ordered import STORED, Canonical, Ordered, stored
from evenfold.manifests.engines.sources import source_of
from evenfold.manifests.engines.stored import StoredManifest, room_beside
from evenfold.manifests.fields import Columns
from evenfold.manifests.manifest import DELETED, QUARANTINED
from evenfold.manifests.membership import EXCLUDED, LOCKED, UNKNOWN, Labels, fold_columns
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.store.rows import STATUS, assigned_codes
from evenfold.manifests.tables.canonical import amount, missing_key, whole
from evenfold.manifests.tables.keys import difference, key_names, positions_in, repeated
from evenfold.splitters import SplitError, Splitter
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass
class Fit:
    """How rows of the data and of a manifest fit each other: only in the data, only in the manifest, and repeated.

    ``absent`` rows are not known to be deleted; ``back`` are, and in the data again. ``deleted`` and ``quarantined``:
    of the manifest. Of the new and the absent rows the first keys are held, and with ``all_absent`` of these each.
    """

    all_absent: bool = False
    new: int = 0
    absent: int = 0
    repeats: int = 0
    back: int = 0
    deleted: int = 0
    quarantined: int = 0
    unknown: list[pa.Table] = field(default_factory=list)
    missing: list[pa.Table] = field(default_factory=list)

    def hold(self, keys: pa.Table, rows: NDArray[np.bool_], among: list[pa.Table], each: bool = False) -> int:
        """Count these rows, and hold the first key of all, or each."""
        if rows.any() and (each or not among):
            found = keys.filter(pa.array(rows))
            among.append(found if each else found.slice(0, 1))
        return int(np.count_nonzero(rows))


@dataclass(frozen=True, eq=False)
class Beside:
    """The rows of the data in key order, on disk, and the manifest's rows in the same order; O(1 M rows) of memory.

    ``columns`` are the roles that are looked at. The manifest holds labels, of whatever generation.
    """

    manifest: StoredManifest
    ordered: Ordered
    columns: Columns
    memory: int
    folder: Path

    @property
    def spec(self) -> SplitSpec:
        """What was asked."""
        return self.manifest.spec

    @cached_property
    def splitter(self) -> Splitter:
        """The strategy."""
        return self.spec.splitter()

    @cached_property
    def n_repeats(self) -> int:
        """How often every row is dealt anew."""
        return len(fold_columns(self.manifest.column_names))

    @cached_property
    def labels(self) -> Labels:
        """The membership of no rows: it knows folds, parts and what they are called."""
        return labels_of(self.manifest)

    def stretches(self, names: list[str], fit: Fit | None = None) -> Iterator[tuple[IntArray, pa.Table]]:
        """Yield the codes (rows by repeats) and columns of the rows of the data, in key order, a shard at a time.

        A row that the manifest does not know has code -4, and one that is in no split -3. ``fit`` is told how the rows
        fit each other.
        """
        for codes, status, table in self.assigned(names, fit):
            codes[status != 0] = EXCLUDED
            yield codes, table

    def assigned(
        self, names: list[str], fit: Fit | None = None
    ) -> Iterator[tuple[IntArray, NDArray[np.int8], pa.Table]]:
        """Yield what ``stretches`` does, with the codes as they were assigned, and each row's status beside them."""
        members = _Members(self.manifest, self.ordered.key, fit or Fit())
        for shard in self.ordered.shards:
            codes, status = members.codes_of(self.ordered.keys(shard))
            yield codes, status, self.ordered.read(shard, names)
        members.close()

    def fit(self) -> Fit:
        """Return how the rows fit each other. One reading of the keys."""
        fit = Fit()
        for _ in self.stretches([], fit):
            pass
        return fit

    def require_exact(self) -> None:
        """Raise SplitError where a row is unknown, repeated or absent."""
        if not self.ordered.key:
            return
        fit = self.fit()
        if fit.repeats:
            self.ordered.check(self.columns.grouped)
        if fit.new or fit.absent:
            known, wanted = (self.as_they_are(side) for side in (fit.missing, fit.unknown))
            raise SplitError(difference(wanted, known, fit.new, fit.absent))

    def as_they_are(self, keys: list[pa.Table]) -> pa.Table | None:
        """Return keys that are stored as engines compare them in their own types."""
        if not keys:
            return None
        types = {name: self.ordered.schema.field(name).type for name in self.ordered.key}
        stored = pa.concat_tables(keys)
        columns = {name: whole(stored.column(name)) for name in types}
        return pa.table(
            {name: columns[name].view(kind) if kind in STORED else columns[name] for name, kind in types.items()}
        )


def labels_of(manifest: StoredManifest) -> Labels:
    """Return the membership of none of a manifest's rows: it knows folds, parts and what they are called."""
    repeats = len(fold_columns(manifest.column_names))
    last = manifest.n_splits // repeats - 1
    # How many folds there are is read from the largest code.
    return Labels.of(np.full((1, repeats), last, dtype=np.int64), manifest.spec.splitter())


class _Members:
    """The manifest's rows in key order, read as far as the data have been."""

    def __init__(self, manifest: StoredManifest, key: tuple[str, ...], fit: Fit) -> None:
        self.key, self.fit = list(key), fit
        self.n_repeats = len(fold_columns(manifest.column_names))
        self.parts = manifest.members()
        self.held: pa.Table | None = None
        self.seen = np.zeros(0, dtype=np.bool_)
        self.last: pa.Table | None = None

    def _more(self) -> bool:
        part = next(self.parts, None)
        if part is None:
            return False
        # In the types that shards are stored in, or the keys of the two sides would not compare.
        part = pa.table({name: stored(part.column(name).combine_chunks()) for name in part.column_names})
        self.held = part if self.held is None else pa.concat_tables([self.held, part])
        self.seen = np.concatenate([self.seen, np.zeros(part.num_rows, dtype=np.bool_)])
        return True

    def _key_at(self, row: int) -> tuple[Any, ...]:
        assert self.held is not None
        return tuple(self.held.column(name)[row].as_py() for name in self.key)

    def codes_of(self, keys: pa.Table) -> tuple[IntArray, NDArray[np.int8]]:
        """Return the codes of the rows that follow, -4 where the manifest has none, and their status."""
        if not self.key:
            return self._codes_by_position(keys.num_rows)
        for name in self.key:
            if keys.column(name).null_count:
                raise SplitError(missing_key(keys.column(name), name))
        self._count_repeats(keys)
        end = tuple(keys.column(name)[-1].as_py() for name in self.key)
        while (self.held is None or not self.held.num_rows or self._key_at(self.held.num_rows - 1) < end) and (
            self._more()
        ):
            pass
        assert self.held is not None
        place = positions_in(self.held.select(self.key).combine_chunks(), keys)
        self.seen[place[place >= 0]] = True
        new = place < 0
        self.fit.new += self.fit.hold(keys, new, self.fit.unknown)
        codes, status = np.full((place.size, self.n_repeats), UNKNOWN), np.zeros(place.size, dtype=np.int8)
        codes[~new], status[~new] = assigned_codes(self.held)[place[~new]], _status(self.held)[place[~new]]
        self.fit.back += int(np.count_nonzero(status == DELETED))
        # What is equal to the last key stays, so that a key that is repeated across shards is found again.
        self._drop(bisect_left(range(self.held.num_rows), end, key=self._key_at))
        return codes, status

    def _codes_by_position(self, rows: int) -> tuple[IntArray, NDArray[np.int8]]:
        while (self.held is None or self.held.num_rows < rows) and self._more():
            pass
        assert self.held is not None
        part = self.held.slice(0, rows)
        self.held = self.held.slice(rows)
        return assigned_codes(part), _status(part)

    def _count_repeats(self, keys: pa.Table) -> None:
        joined = keys if self.last is None else pa.concat_tables([self.last, keys]).combine_chunks()
        self.fit.repeats += int(repeated(joined).sum())
        self.last = keys.slice(keys.num_rows - 1)

    def _drop(self, rows: int) -> None:
        assert self.held is not None
        status = _status(self.held.slice(0, rows))
        self.fit.deleted += int(np.count_nonzero(status == DELETED))
        self.fit.quarantined += int(np.count_nonzero(status == QUARANTINED))
        absent = ~self.seen[:rows] & (status != DELETED)
        if absent.any():
            keys = self.held.select(self.key).slice(0, rows)
            self.fit.absent += self.fit.hold(keys, absent, self.fit.missing, self.fit.all_absent)
        self.held, self.seen = self.held.slice(rows), self.seen[rows:]

    def close(self) -> None:
        """Count what the data have no row of, to the end."""
        while self.key and (self.held is not None):
            self._drop(self.held.num_rows)
            if not self._more():
                break


def _status(table: pa.Table) -> NDArray[np.int8]:
    return np.asarray(table.column(STATUS).to_numpy(), dtype=np.int8)


@contextmanager
def beside(
    manifest: StoredManifest, data: Any, memory: str | int | None = None, ordered: Ordered | None = None, **roles: Any
) -> Iterator[Beside]:
    """Give the data beside the manifest, sorted out of core; what was spilled there is cleared at the end.

    ``ordered`` are the same rows where they lie in key order already, as when they have just been split. Raises
    SplitError for a manifest that holds draws or pairs, and where rows are joined by position and their number differs.
    """
    manifest.require_labels()
    limit = bytes_of_memory(memory)
    columns = manifest.spec.columns.model_copy(update={name: role for name, role in roles.items() if role})
    with room_beside(manifest.folder.parent.parent) as folder:
        made = ordered or _ordered(manifest, data, columns, limit, folder)
        if not made.key and made.n != manifest.n:
            raise SplitError(
                f"the manifest holds {manifest.n:,} rows by position (it has no key column) and the data have "
                f"{amount(made.n, 'row')}; pass the same rows in the same order, or split with a key."
            )
        yield Beside(manifest, made, columns, limit, folder)


def _ordered(manifest: StoredManifest, data: Any, columns: Columns, memory: int, folder: Path) -> Ordered:
    spec = manifest.spec
    source = source_of(data, dict(spec.types))
    names = [name for name in columns.roles() if name in source.schema.names or name in columns.key]
    names = names or source.schema.names[:1]
    known = {name: kind for name, kind in {**manifest.types, **spec.types}.items() if name in names}
    canonical = Canonical(spec, tuple(names), tuple(known.items()), tuple(manifest.types.items()))
    return ordered_by(DuckDB(memory), source, canonical, key_names(spec), folder)


def in_use(codes: IntArray) -> NDArray[np.bool_]:
    """Return which rows are in use: known, and not excluded."""
    return np.asarray(codes[:, 0] >= LOCKED)

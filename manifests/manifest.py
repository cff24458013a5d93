"""What was decided: which row is in which fold, provable, replayable, joined by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import counted, key_order
from evenfold.manifests.tables.keys import key_table, positions_in
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import DrawSplitter, LabelSplitter, Pair, Rows, SplitError, Splitter, pairs_of_labels
from numpy.typing import NDArray

from .identity import digest_codes, digest_keys, digest_resample, resample_counts, split_id
from .spec import SplitSpec


class ManifestCV:
    """The splits of a manifest as positions of one frame's rows: ``split`` and ``get_n_splits``."""

    def __init__(self, manifest: Manifest, positions: NDArray[np.int64], index: Any = None) -> None:
        self.manifest = manifest
        self.index = index
        self.positions = positions
        self.n_rows = int(positions.max(initial=-1)) + 1

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Pair]:
        """Yield (train, test) positions; SplitError where X or y has another number or order of rows than the frame.

        The order can be seen where the frame and X (or y) both have a pandas index without repeats.
        """
        for name, given in (("X", X), ("y", y)):
            rows = self.n_rows if given is None else _length(given)
            if rows != self.n_rows:
                raise SplitError(
                    f"{name} has {rows:,} rows and the manifest was joined to {self.n_rows:,}; "
                    "call as_cv with the frame that X comes from."
                )
            self._require_order(name, getattr(given, "index", None))
        return ((self.positions[train], self.positions[test]) for train, test in self.manifest.pairs())

    def _require_order(self, name: str, index: Any) -> None:
        """Raise SplitError where the index holds the frame's labels in another order: rows would be in wrong folds."""
        if self.index is None or not hasattr(index, "get_indexer") or index.equals(self.index) or not index.is_unique:
            return
        place = index.get_indexer(self.index)
        if (place < 0).any():
            return  # other labels, as after reset_index, say nothing of the order
        moved = int(np.count_nonzero(place != np.arange(len(place))))
        raise SplitError(
            f"{moved:,} rows of {name} stand elsewhere than in the frame that the manifest was joined to; "
            "call as_cv with the frame that X comes from, in the order of X."
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.manifest.n_splits


def _length(values: Any) -> int:
    shape = getattr(values, "shape", None)  # sparse matrices have a shape and no len
    return int(shape[0]) if shape else len(values)


NEVER_TESTED, LOCKED, EXCLUDED = -1, -2, -3
ACTIVE, DELETED, QUARANTINED = 0, 1, 2


@dataclass(frozen=True)
class Resample:
    """One draw: its sizes and the digest of its counts; the rows themselves are drawn again when needed."""

    n_train: int
    n_test: int
    digest: str
    generation: int = 0


@dataclass(frozen=True, eq=False)
class StatusChange:
    """Rows whose status changed with a generation: deleted from the data, quarantined, or back again."""

    generation: int
    keys: pa.Table
    status: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Manifest:
    """A decision about rows, in key order.

    ``codes`` (n, or n by repeats): the fold in which a row is tested; -1 never tested, -2 locked, -3 excluded.
    For draws 0 means that a row may be drawn. ``keys`` is None where no key column was named: then the position
    is the key, and only the same rows in the same order can be joined.
    ``born`` is the generation in which a row joined. Codes never change; ``changes`` says which rows are deleted
    or quarantined, and these are in no split.
    """

    kind: Literal["labels", "draws", "pairs"]
    spec: SplitSpec
    types: dict[str, str]
    fingerprint: str
    plan_id: str
    algorithm: dict[str, Any]
    codes: NDArray[Any]
    keys: pa.Table | None
    n_splits: int
    strata: NDArray[Any] | None = None
    groups: NDArray[np.int64] | None = None
    resamples: tuple[Resample, ...] = ()
    stored_pairs: tuple[Pair, ...] = ()
    group_table: pa.Table | None = None
    state: dict[str, Any] | None = None
    born: NDArray[np.int16] | None = None
    changes: tuple[StatusChange, ...] = ()
    version: str = "1.0"
    parent_split_id: str | None = None
    uri: str | None = field(default=None, repr=False)

    @property
    def n(self) -> int:
        """The number of rows, of every status."""
        return int(self.codes.shape[0])

    @property
    def name(self) -> str:
        """What the split is called."""
        return self.spec.name

    @property
    def generation(self) -> int:
        """The newest generation: how often the manifest was extended."""
        return int(self.version.partition(".")[2])

    @cached_property
    def split_id(self) -> str:
        """The identity of the membership: independent of files, libraries and how it came about."""
        status = self.status
        members = self._members() or []
        if status.any():
            members = [*members, digest_codes(status)]
        return split_id(self.kind, digest_keys(self.keys, self.n), digest_codes(self.codes), members or None)

    def _members(self) -> list[str] | None:
        if self.kind == "draws":
            return [resample.digest for resample in self.resamples]
        if self.kind == "pairs":
            return [digest_resample(resample_counts(*pair, self.n)) for pair in self.stored_pairs]
        return None

    @cached_property
    def status(self) -> NDArray[np.int8]:
        """The status of each row: 0 active, 1 deleted, 2 quarantined."""
        status = np.zeros(self.n, dtype=np.int8)
        for change in self.changes:
            assert self.keys is not None
            status[positions_in(self.keys, change.keys)] = change.status
        return status

    @cached_property
    def codes_in_use(self) -> NDArray[Any]:
        """The codes with every row that is not active excluded (-3): what splits are made from."""
        idle = self.status != ACTIVE
        if not idle.any():
            return self.codes
        codes = self.codes.copy()
        codes[idle] = EXCLUDED
        return codes

    @cached_property
    def splitter(self) -> Splitter:
        """The strategy as specified."""
        return self.spec.splitter()

    def part_codes(self) -> dict[str, int]:
        """Return the code of each named part; none where the split is of folds."""
        return self.splitter.part_codes() if isinstance(self.splitter, LabelSplitter) else {}

    def pair(self, i: int) -> Pair:
        """Return split ``i`` as (train, test) ranks in key order.

        A draw is drawn again and compared with its recorded digest; SplitError where it differs.
        """
        if self.kind == "pairs":
            return self.stored_pairs[i]
        if self.kind == "labels":
            return self._label_pairs[i]
        return self._redraw(i)

    def pairs(self) -> Iterator[Pair]:
        """Yield every split as (train, test) ranks in key order."""
        return (self.pair(i) for i in range(self.n_splits))

    def split_name(self, i: int) -> tuple[int, int]:
        """Return (repeat, fold) of split ``i``."""
        repeats = self.codes.shape[1] if self.codes.ndim == 2 else 1
        return divmod(i, self.n_splits // repeats)

    def member_digest(self, i: int) -> str:
        """Return what names the membership of split ``i`` alone, so that other splits do not touch its results."""
        if self.kind == "draws":
            return self.resamples[i].digest
        return digest_resample(resample_counts(*self.pair(i), self.n))

    @cached_property
    def _label_pairs(self) -> list[Pair]:
        columns = self.codes_in_use.T if self.codes.ndim == 2 else [self.codes_in_use]
        parts = self.part_codes()
        tested = [code for code in parts.values() if code >= 0] if parts else range(self.n_splits // len(columns))
        return [pair for column in columns for pair in pairs_of_labels(column, tested, parts=bool(parts))]

    def _redraw(self, i: int) -> Pair:
        made = self.splitter
        assert isinstance(made, DrawSplitter)
        eligible = np.flatnonzero(self.codes_in_use == 0)
        drawn = made.pair(self.rows_of(eligible), i)
        train, test = eligible[drawn[0]], eligible[drawn[1]]
        if digest_resample(resample_counts(train, test, self.n)) != self.resamples[i].digest:
            raise SplitError(
                f"draw {i} of {self.name} {self.version} comes out differently from what was recorded "
                f"(algorithm {self.algorithm['name']} version {self.algorithm['version']}); "
                "use the version of evenfold that made it, or split again."
            )
        return train, test

    def rows_of(self, eligible: NDArray[np.int64]) -> Rows:
        """Return the rows of a manifest of draws as its strategy sees them: codes of classes and groups, and keys."""

        def of(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None else values[eligible]

        strata, groups = of(self.strata), of(self.groups)
        levels = () if strata is None or strata.dtype.kind == "f" else tuple(range(int(strata.max(initial=-1)) + 1))
        group_levels = () if groups is None else tuple(range(int(groups.max(initial=-1)) + 1))
        key = key_values(self.keys)[eligible] if self.splitter.needs.key and self.keys is not None else None
        return Rows(n=eligible.size, y=strata, groups=groups, key=key, levels=levels, group_levels=group_levels)

    def locked_pair(self) -> Pair:
        """Return (every other row in use, the locked rows): what a look at the holdout trains and tests on.

        Whoever takes it has looked; the flows record each look before they do. SplitError where nothing is locked.
        """
        codes = self.codes_in_use.reshape(self.n, -1)[:, 0]
        locked = np.flatnonzero(codes == LOCKED)
        if not locked.size:
            raise SplitError(f"{self.name} {self.version} has no locked rows; split with a holdout, or a test part.")
        return np.flatnonzero(codes >= NEVER_TESTED), locked

    def at_generation(self, generation: int) -> Manifest:
        """Return the manifest as it was when ``generation`` was the newest: the same folds, and only its rows."""
        if self.born is None or generation >= self.generation:
            return self
        kept = np.flatnonzero(self.born <= generation)
        return replace(
            self,
            codes=self.codes[kept],
            keys=None if self.keys is None else self.keys.take(kept),
            strata=None if self.strata is None else self.strata[kept],
            groups=None if self.groups is None else self.groups[kept],
            born=self.born[kept],
            resamples=tuple(resample for resample in self.resamples if resample.generation <= generation),
            changes=tuple(change for change in self.changes if change.generation <= generation),
            version=f"{self.version.partition('.')[0]}.{generation}",
            state=None,
        )

    def positions(self, frame: Any) -> NDArray[np.int64]:
        """Return where in ``frame`` each row of the manifest stands, in key order; -1 for an absent deleted row.

        Raises SplitError where the frame has rows that the manifest does not know, or lacks rows that it holds.
        """
        pass

        return join_positions(self, frame)

    def as_cv(self, frame: Any) -> ManifestCV:
        """Return the splits as a ``cv`` for scikit-learn, in positions of ``frame``'s rows.

        Rows are joined by key, whatever their order. Positions come in key order, so a model sees its training
        rows in the same order every time. X and y must be in the order of ``frame``: another length, or a pandas index
        in another order, is refused.
        """
        index = getattr(frame, "index", None)  # a pandas one; a list's index is a method
        known = index if getattr(index, "is_unique", False) else None
        return ManifestCV(self, self.positions(frame), known)


def key_values(keys: pa.Table) -> NDArray[Any]:
    """Return one value per row that a strategy reads as the key; several columns are joined by '|'."""
    if keys.num_columns == 1:
        return np.asarray(keys.column(0).to_numpy())
    parts = [column.to_numpy().astype(str) for column in keys.columns]
    return np.array(["|".join(values) for values in zip(*parts, strict=True)], dtype=object)


def join_positions(manifest: Manifest, frame: Any) -> NDArray[np.int64]:
    """Return where in ``frame`` each row of ``manifest`` stands; see ``Manifest.positions``."""
    if manifest.keys is None:
        return _by_position(manifest, frame)
    theirs = keys_of(manifest, frame)
    order = key_order(theirs, theirs.column_names)
    ordered = theirs if order is None else theirs.take(order)
    if ordered.equals(manifest.keys):
        return np.arange(manifest.n) if order is None else order
    found = positions_in(theirs, manifest.keys)
    absent = (found < 0) & (manifest.status != DELETED)
    unknown = positions_in(manifest.keys, theirs) < 0
    if absent.any() or unknown.any():
        raise SplitError(difference(theirs.filter(unknown), manifest.keys.filter(absent)))
    return found


def keys_of(manifest: Manifest, frame: Any) -> pa.Table:
    """Return the key columns of ``frame`` in the manifest's types; SplitError where one is absent."""
    table = read_table(frame, manifest.spec.columns.key, manifest.spec.types)
    return key_table(table, manifest.spec, manifest.types)


def _by_position(manifest: Manifest, frame: Any) -> NDArray[np.int64]:
    rows = read_table(frame).num_rows
    if rows != manifest.n:
        raise SplitError(
            f"the manifest holds {manifest.n:,} rows by position (it has no key column) and the data have {rows:,}; "
            "pass the same rows in the same order, or split with a key."
        )
    return np.arange(manifest.n)


def difference(unknown: pa.Table, absent: pa.Table) -> str:
    """Return in a sentence which rows only the data have, and which only the manifest."""
    told = [
        f"{counted(rows.num_rows, one, many)} (first key {_first_key(rows)})"
        for rows, one, many in (
            (unknown, "row has no fold", "rows have no fold"),
            (absent, "row of the manifest is not in the data", "rows of the manifest are not in the data"),
        )
        if rows.num_rows
    ]
    return " and ".join(told) + "; use the data that were split, or extend the manifest."


def _first_key(rows: pa.Table) -> str:
    first = rows.sort_by([(name, "ascending") for name in rows.column_names]).slice(0, 1)
    return ", ".join(str(value) for value in first.to_pylist()[0].values())

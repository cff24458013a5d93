"""What was decided: which row is in which fold, provable, replayable, joined by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from evenfold.splitters import DrawSplitter, Pair, Rows, SplitError, Splitter, pairs_of_labels
from numpy.typing import NDArray

from ._columns import canonical_table, counted, key_order, require_columns
from ._identity import digest_codes, digest_keys, digest_resample, resample_counts, split_id
from ._read import read_table
from ._spec import SplitSpec

NEVER_TESTED, LOCKED, EXCLUDED = -1, -2, -3


@dataclass(frozen=True)
class Resample:
    """One draw: its sizes and the digest of its counts; the rows themselves are drawn again when needed."""

    n_train: int
    n_test: int
    digest: str


@dataclass(frozen=True, eq=False)
class Manifest:
    """A decision about rows, in key order.

    ``codes`` (n, or n by repeats): the fold in which a row is tested; -1 never tested, -2 locked, -3 excluded.
    For draws 0 means that a row may be drawn. ``keys`` is None where no key column was named: then the position
    is the key, and only the same rows in the same order can be joined.
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

    @cached_property
    def split_id(self) -> str:
        """The identity of the membership: independent of files, libraries and how it came about."""
        return split_id(self.kind, digest_keys(self.keys, self.n), digest_codes(self.codes), self._members())

    def _members(self) -> list[str] | None:
        if self.kind == "draws":
            return [resample.digest for resample in self.resamples]
        if self.kind == "pairs":
            return [digest_resample(resample_counts(*pair, self.n)) for pair in self.stored_pairs]
        return None

    @cached_property
    def splitter(self) -> Splitter:
        """The strategy as specified."""
        return self.spec.splitter()

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
        folds = self.n_splits // (self.codes.shape[1] if self.codes.ndim == 2 else 1)
        return divmod(i, folds)

    def member_digest(self, i: int) -> str:
        """Return what names the membership of split ``i`` alone, so that other splits do not touch its results."""
        if self.kind == "draws":
            return self.resamples[i].digest
        return digest_resample(resample_counts(*self.pair(i), self.n))

    @cached_property
    def _label_pairs(self) -> list[Pair]:
        columns = self.codes.T if self.codes.ndim == 2 else [self.codes]
        folds = self.n_splits // len(columns)
        return [pair for column in columns for pair in pairs_of_labels(column, folds)]

    def _redraw(self, i: int) -> Pair:
        made = self.splitter
        assert isinstance(made, DrawSplitter)
        eligible = np.flatnonzero(self.codes == 0)
        drawn = made.pair(self._rows(eligible), i)
        train, test = eligible[drawn[0]], eligible[drawn[1]]
        if digest_resample(resample_counts(train, test, self.n)) != self.resamples[i].digest:
            raise SplitError(
                f"draw {i} of {self.name} {self.version} comes out differently from what was recorded "
                f"(algorithm {self.algorithm['name']} version {self.algorithm['version']}); "
                "use the version of evenfold that made it, or split again."
            )
        return train, test

    def _rows(self, eligible: NDArray[np.int64]) -> Rows:
        def of(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None else values[eligible]

        strata, groups = of(self.strata), of(self.groups)
        levels = () if strata is None or strata.dtype.kind == "f" else tuple(range(int(strata.max(initial=-1)) + 1))
        group_levels = () if groups is None else tuple(range(int(groups.max(initial=-1)) + 1))
        return Rows(n=eligible.size, y=strata, groups=groups, levels=levels, group_levels=group_levels)

    def positions(self, frame: Any) -> NDArray[np.int64]:
        """Return where in ``frame`` each row of the manifest stands, in key order.

        Raises SplitError where the frame has rows that the manifest does not know, or lacks rows that it holds.
        """
        if self.keys is None:
            return self._by_position(frame)
        key = self.keys.column_names
        table = read_table(frame)
        require_columns(key, table.column_names)
        theirs = canonical_table(table, key, self.types)
        order = key_order(theirs, key)
        ordered = theirs if order is None else theirs.take(order)
        if not ordered.equals(self.keys):
            raise SplitError(_difference(self.keys, ordered))
        return np.arange(self.n) if order is None else order

    def _by_position(self, frame: Any) -> NDArray[np.int64]:
        rows = read_table(frame).num_rows
        if rows != self.n:
            raise SplitError(
                f"the manifest holds {self.n:,} rows by position (it has no key column) and the data have {rows:,}; "
                "pass the same rows in the same order, or split with a key."
            )
        return np.arange(self.n)

    def as_cv(self, frame: Any) -> ManifestCV:
        """Return the splits as a ``cv`` for scikit-learn, in positions of ``frame``'s rows.

        Rows are joined by key, whatever their order. Positions come in key order, so a model sees its training
        rows in the same order every time.
        """
        return ManifestCV(self, self.positions(frame))


class ManifestCV:
    """A manifest bound to the rows of one frame: ``split`` and ``get_n_splits`` as scikit-learn wants them."""

    def __init__(self, manifest: Manifest, positions: NDArray[np.int64]) -> None:
        self.manifest = manifest
        self.positions = positions

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Pair]:
        """Yield (train, test) positions; SplitError where X or y has another number of rows than the frame."""
        for name, given in (("X", X), ("y", y)):
            rows = self.manifest.n if given is None else _length(given)
            if rows != self.manifest.n:
                raise SplitError(
                    f"{name} has {rows:,} rows and the manifest was joined to {self.manifest.n:,}; "
                    "call as_cv with the frame that X comes from."
                )
        return ((self.positions[train], self.positions[test]) for train, test in self.manifest.pairs())

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.manifest.n_splits


def _length(values: Any) -> int:
    shape = getattr(values, "shape", None)  # sparse matrices have a shape and no len
    return int(shape[0]) if shape else len(values)


def _difference(ours: pa.Table, theirs: pa.Table) -> str:
    unknown = theirs.join(ours, keys=ours.column_names, join_type="left anti")
    absent = ours.join(theirs, keys=ours.column_names, join_type="left anti")
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

"""A decision: which row is in which fold, provable, replayable, joined by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from evenfold.manifests.tables.canonical import amount, digest_keys, is_pseudonym, listed
from evenfold.manifests.tables.keys import Lookup, WhichRows, key_table, positions_in
from evenfold.manifests.tables.read import read_table, source_of
from evenfold.splitters import Pair, Rows, SplitError, Splitter, Stream
from evenfold.splitters.errors import Displayed, above
from evenfold.splitters.numbers import CALIBRATION, digest_json
from evenfold.splitters.strategies.wrappers import set_apart
from numpy.typing import NDArray

from .fields import Algorithm
from .membership import EXCLUDED, Kind, Labels, Membership, digest_codes, require_fold
from .spec import SplitSpec
from .store.state import State


def _held(positions: NDArray[np.int64], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return where rows stand of those that the table holds; SplitError where it holds none of them."""
    held: NDArray[np.int64] = positions[rows]
    if held.min(initial=0) < 0:
        held = held[held >= 0]
    if rows.size and not held.size:
        raise SplitError(f"the table holds none of the {rows.size:,} rows of a side of a split; pass more of its rows.")
    return held


@dataclass(eq=False, repr=False)
class ManifestCV:
    """The splits of a manifest as positions of one frame's ``n_rows`` rows: ``split`` and ``get_n_splits``."""

    manifest: Manifest
    positions: NDArray[np.int64]
    n_rows: int
    index: Any = None
    rows: Rows | None = None  # those present, as the strategy sees them, where a share is set apart

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Pair]:
        """Yield (train, test) positions; SplitError where X or y has more or fewer rows, or its index another order."""
        for name, array in (("X", X), ("y", y)):
            shape = getattr(array, "shape", None)  # sparse matrices have a shape and no len
            rows = self.n_rows if array is None else int(shape[0]) if shape else len(array)
            if rows != self.n_rows:
                cure = "call as_cv with the frame that X comes from"
                raise SplitError(f"{name} has {rows:,} rows and the manifest was joined to {self.n_rows:,}; {cure}.")
            self._require_order(name, getattr(array, "index", None))
        above("hear", self.manifest)
        pairs = enumerate(map(self.manifest.in_use.pair, range(self.manifest.n_splits)))
        return (
            (_held(self.positions, self.parted(i, train)[0]), _held(self.positions, test)) for i, (train, test) in pairs
        )

    def parted(self, i: int, ranks: NDArray[np.int64]) -> Pair:
        """Return the ranks that split ``i`` trains on, of those on its training side, and those to calibrate by."""
        spec = self.manifest.spec
        if self.rows is None or spec.calibration is None:
            return ranks, ranks[:0]
        held = np.flatnonzero(self.positions >= 0)
        train = np.searchsorted(held, ranks[self.positions[ranks] >= 0])
        stream = Stream(spec.seed, CALIBRATION, i)
        left, apart = set_apart(self.manifest.splitter, self.rows, train, spec.calibration, stream)
        return held[left], held[apart]

    def calibration(self, i: int) -> NDArray[np.int64]:
        """Return the positions of the rows that are set apart in split ``i``: neither trained on nor tested there."""
        if self.rows is None:
            raise SplitError("nothing is set apart here; pass as_cv(frame, calibration=True).")
        return self.positions[self.parted(i, self.manifest.in_use.pair(i)[0])[1]]

    def _require_order(self, name: str, index: Any) -> None:
        """Raise SplitError where the index holds the frame's labels in another order: rows would be in wrong folds."""
        if self.index is None or not hasattr(index, "get_indexer") or index.equals(self.index) or not index.is_unique:
            return
        place = index.get_indexer(self.index)
        if (place < 0).any():
            return  # other labels, as after reset_index, say nothing of the order
        moved = int(np.count_nonzero(place != np.arange(len(place))))
        what = f"{moved:,} rows of {name} stand elsewhere than in the frame that the manifest was joined to"
        raise SplitError(f"{what}; call as_cv with the frame that X comes from, in the order of X.")

    def __len__(self) -> int:
        return self.get_n_splits()

    def __repr__(self) -> str:
        of = f"{self.manifest.name} {self.manifest.version}"
        return f"ManifestCV of {of}: {amount(len(self), 'split')} of {amount(self.n_rows, 'row')}"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.manifest.n_splits


ACTIVE, DELETED, QUARANTINED = range(3)  # the status of a row: in use or not; its fold never changes


@dataclass(frozen=True, eq=False, repr=False)
class Manifest(Displayed):
    """A decision about rows, in key order; where ``keys`` is None the position is the key.

    Codes never change. ``changes``: by generation, the keys and new ``status`` of rows that were deleted, quarantined
    or came back; those not active are in no split. ``born``: the generation in which a row joined, None where it never
    grew. ``waiting``: the keys of rows that are no part of it yet, because their targets were not known.
    """

    spec: SplitSpec
    types: dict[str, str]
    fingerprint: str
    plan_id: str
    algorithm: Algorithm
    membership: Membership
    keys: pa.Table | None
    group_table: pa.Table | None = None
    state: State | None = None
    born: NDArray[np.int16] | None = None
    changes: Mapping[int, pa.Table] = field(default_factory=dict)
    version: str = "1.0"
    parent_split_id: str | None = None
    uri: str | None = field(default=None, repr=False)
    waiting: pa.Table | None = None

    @property
    def summary(self) -> str:
        """Name, version, rows, splits and identity, in one line."""
        members, grouped = self.membership, self.spec.columns.grouped
        whole = f" by {' and '.join(grouped)}" if grouped else ""
        splits = amount(len(members.parts), "part") if members.parts else amount(self.n_splits, members.unit)
        return (
            f"Manifest {self.name} {self.version}: {self.n:,} rows in {splits}{whole} "
            f"({self.algorithm['name']}), id {self.split_id[:12]}"
        )

    @cached_property
    def n(self) -> int:
        """The number of rows, of every status."""
        return self.membership.n

    @property
    def name(self) -> str:
        """The name of the split."""
        return self.spec.name

    @property
    def generation(self) -> int:
        """The newest generation: how often the manifest was extended."""
        return int(self.version.partition(".")[2])

    @cached_property
    def split_id(self) -> str:
        """The identity of the membership: independent of files, libraries and how it came about."""
        used, codes = self.in_use, self.membership.codes
        digests = [] if used.kind == "labels" else [used.digest(i) for i in range(used.n_splits)]
        if self.changes and self.status.any():
            digests = [*digests, digest_codes(self.status)]
        # Codes as they were assigned, with the status apart: deleting a row moves none, and is another decision.
        of = {"kind": used.kind, "keys": digest_keys(self.keys, len(codes)), "codes": digest_codes(codes)}
        return digest_json(of | {"members": digests or None})

    @cached_property
    def locked_digest(self) -> str:
        """The identity of the rows that were locked first, whatever the split's name, and however it grew since."""
        first = self.at_generation(0)
        locked = first.membership.locked
        if first.keys is None:  # then they are positions among the rows of this fingerprint
            return digest_json([self.fingerprint, digest_codes(locked)])
        return digest_keys(first.keys.take(pa.array(locked)), locked.size)

    @cached_property
    def kind(self) -> Kind:
        """The form of the splits: labels, draws or pairs."""
        return self.membership.kind

    @cached_property
    def n_splits(self) -> int:
        """The number of (train, test) pairs."""
        return self.membership.n_splits

    def altered(self, **changes: Any) -> Manifest:
        """Return the manifest, its rows in memory, with other fields."""
        return Manifest(**{each.name: getattr(self, each.name) for each in fields(Manifest)} | changes)

    @property
    def key_types(self) -> dict[str, str]:
        """The types by which data are read to join them: the key's as they were found, and those declared."""
        # Other columns stay as the file has them: read as text, an NA would be a value, and 1 is not 0.5.
        types = {name: self.types.get(name, "") for name in self.spec.columns.key}
        return {name: kind for name, kind in types.items() if kind and not is_pseudonym(kind)} | self.spec.types

    @property
    def generations(self) -> NDArray[np.int16]:
        """The generation in which each row joined: 0 of all where the manifest never grew."""
        return np.zeros(self.n, dtype=np.int16) if self.born is None else self.born

    @property
    def codes(self) -> NDArray[Any]:
        """The assigned codes, of whatever status: a column per repeat, and flat where there is but one."""
        return self.membership.codes if self.membership.n_repeats > 1 else self.membership.column()

    @cached_property
    def status(self) -> NDArray[np.int8]:
        """The status of each row: 0 active, 1 deleted, 2 quarantined."""
        status = np.zeros(self.n, dtype=np.int8)
        for _, change in sorted(self.changes.items()):  # oldest first: the last word on a row is what holds
            assert self.keys is not None
            status[positions_in(self.keys, change.select(self.keys.column_names))] = change["status"].to_numpy()
        return status

    @cached_property
    def in_use(self) -> Membership:
        """The membership with every row that is not active excluded (-3): what splits are made from."""
        if not self.changes or not (idle := self.status != ACTIVE).any():
            return self.membership
        return replace(self.membership, codes=np.where(idle[:, None], EXCLUDED, self.membership.codes))

    @cached_property
    def splitter(self) -> Splitter:
        """The strategy as specified."""
        return self.spec.splitter()

    def pair(self, i: int) -> Pair:
        """Return split ``i`` as (train, test) ranks in key order: positions in a table that is sorted by its key.

        SplitError where a draw is not the recorded one, and where rows wait, for then a rank is no position anywhere.
        """
        if self.waiting is not None and self.waiting.num_rows:
            rows = amount(self.waiting.num_rows, "row")
            raise SplitError(f"{rows} of the table wait and have no rank; use as_cv(frame) or train_test(frame, fold).")
        return self.in_use.pair(i)

    def split_number(self, fold: int, repeat: int = 0) -> int:
        """Return the number of the split that ``fold`` of ``repeat`` is; SplitError where there is none."""
        repeats = self.membership.n_repeats
        folds = self.n_splits // repeats
        require_fold(fold, folds, repeat, repeats, f"{self.name} {self.version}")
        return repeat * folds + fold

    def pairs(self) -> Iterator[Pair]:
        """Yield every split as (train, test) ranks in key order."""
        return map(self.pair, range(self.n_splits))

    def locked_pair(self) -> Pair:
        """Return (every other row in use, the locked rows): who takes it has looked; SplitError where none is."""
        if not self.in_use.locked.size:
            raise SplitError(f"{self.name} {self.version} has no locked rows; split with a holdout, or a test part.")
        return self.in_use.unlocked, self.in_use.locked

    def at_generation(self, generation: int) -> Manifest:
        """Return the folds and rows of when ``generation`` was the newest; ids, fingerprint, groups stay of now."""
        if self.born is None or generation >= self.generation:
            return self
        rows = np.flatnonzero(self.born <= generation)
        keys = None if self.keys is None else self.keys.take(rows)
        return self.altered(
            membership=self.membership.with_rows(self.membership.codes[rows], keys), keys=keys, born=self.born[rows],
            changes={of: change for of, change in self.changes.items() if of <= generation},
            version=f"{self.version.partition('.')[0]}.{generation}", state=None, waiting=None,
        )  # fmt: skip

    def positions(self, frame: Any, rows: WhichRows = "all") -> NDArray[np.int64]:
        """Return where in ``frame`` each row of the manifest stands, in key order; -1 for an absent deleted row.

        SplitError where the frame has rows that the manifest does not know, or lacks some; with ``rows="known"`` a
        warning says how many these are, and they are left out.
        """
        return self.lookup(frame).exact_rows(rows)

    def lookup(self, frame: Any) -> Lookup:
        """Return the rows of ``frame`` beside those of the manifest, whether they fit each other or not."""
        table = read_table(frame, self.spec.columns.key or None, self.key_types)
        theirs = table if self.keys is None else key_table(table, self.spec, self.types)
        return Lookup(self.keys, theirs, np.flatnonzero(self.status == DELETED), self.n, self.waiting)

    def require_new(self, table: Any, name: str, remedy: str) -> list[str]:
        """Raise SplitError where rows of a table are the split's; return what to say where nobody can tell.

        ``name``: of the table. ``remedy``: what would work for rows that are known, beside leaving them out.
        """
        split = f"{self.name} {self.version}"
        if self.keys is None or not {*self.spec.columns.key} <= {*table}:
            return [f"{split} has no key that {name} holds: whether the model was trained on its rows cannot be told."]
        overlap = self.lookup(table).rank >= 0
        if overlap.any():
            raise SplitError(
                f"{int(overlap.sum()):,} of {overlap.size:,} rows of {name} are rows of {split}, which the model may "
                f"have been trained on; leave them out, or {remedy}."
            )
        return []

    def as_cv(self, frame: Any, rows: WhichRows = "all", *, calibration: bool = False) -> ManifestCV:
        """Return the splits as a ``cv`` for scikit-learn, in positions of ``frame``'s rows.

        Rows are joined by key, whatever their order, and positions come in key order, so that a model sees the same
        order every time. X and y must be in the order of ``frame``: another length, or a pandas index in another order,
        is refused. ``rows``: see ``positions``. With ``calibration`` a model trains on the rows that the
        specification's share leaves, and ``calibration(i)`` has the others, drawn as a holdout: see ``set_apart``.
        """
        index: Any = getattr(frame, "index", None)
        unique_index = index if hasattr(index, "get_indexer") and index.is_unique else None  # a pandas one
        lookup = self.lookup(frame)
        above("hear", self)
        positions = lookup.exact_rows(rows)
        held = self._rows_of(frame, positions[positions >= 0]) if calibration else None
        return ManifestCV(self, positions, lookup.rank.size, unique_index, held)

    def _rows_of(self, frame: Any, positions: NDArray[np.int64]) -> Rows:
        """Return rows of a frame as the strategy sees them, to set a share of them apart; nothing is stored."""
        from .plan import Plan

        if self.spec.calibration is None:
            raise SplitError(f"{self.name}: nothing is set apart to calibrate by; name a share (calibration: 0.2).")
        types = self.spec.types | {name: kind for name, kind in self.types.items() if not is_pseudonym(kind)}
        again = self.spec.model_copy(update={"types": types, "on_immature": "use", "missing_target": "stop"})
        table = read_table(frame, self.spec.columns.roles() or None, self.spec.types)
        return Plan(again, table.take(positions)).rows()

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Pair]:
        """Yield (train, test) positions of X's rows, so that a manifest is itself a ``cv`` where X holds the key.

        Else SplitError says to pass ``as_cv(frame)``. Without a key rows go by position, as many as were split.
        """
        if self.keys is None:
            return ManifestCV(self, np.arange(self.n), self.n).split(X, y)
        absent = [name for name in self.spec.columns.key if not hasattr(X, "columns") or name not in source_of(X).names]
        if absent:
            cure = "pass cv=manifest.as_cv(frame), with the frame that X comes from, its rows in the order of X"
            raise SplitError(f"X has no column {listed(absent)}, by which rows are joined; {cure}.")
        return self.as_cv(X).split(X, y)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits

    def fold_of(self, frame: Any, repeat: int = 0, rows: WhichRows = "all") -> NDArray[np.int64]:
        """Return the fold of each row of ``frame``, in the order of its rows: a column to put beside it.

        0 and above: tested in that fold (of parts: validation, or test beside train alone); -1 never tested, -2 locked,
        -3 in no split. SplitError for draws and pairs, for a repeat that there is not, and for other rows than the
        manifest's (``rows``: see ``positions``). O(n log n).
        """
        if not isinstance(self.in_use, Labels):
            what = f"{self.name} {self.version} holds {self.kind}, and a row has no one fold in them"
            raise SplitError(f"{what}; take train_test(frame, fold), or as_cv(frame).")
        self.split_number(0, repeat)
        lookup = self.lookup(frame)
        positions = lookup.exact_rows(rows)
        above("hear", self)
        folds = np.full(lookup.rank.size, EXCLUDED, dtype=np.int64)  # rows that wait are in no split
        folds[positions[positions >= 0]] = self.in_use.column(repeat)[positions >= 0]
        return folds

    def train_test(self, frame: Any, fold: int = 0, repeat: int = 0, rows: WhichRows = "all") -> tuple[Any, Any]:
        """Return the rows of ``frame`` that ``fold`` trains on and tests: two frames of its own kind, in key order.

        ``fold`` counts from 0, as do draws and pairs, and the parts that are tested (validation, or test beside train
        alone). A row that is drawn twice is there twice; locked rows are in neither. SplitError for a fold or repeat
        that there is not, and for other rows than the manifest's (``rows``: see ``positions``).
        """
        split = self.split_number(fold, repeat)
        positions, table = self.positions(frame, rows), nw.from_native(frame, eager_only=True)
        above("hear", self)
        train, test = (table[_held(positions, side)].to_native() for side in self.in_use.pair(split))
        return train, test

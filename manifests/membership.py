"""Which row is on which side of which split: by label, by draw, or as stored pairs."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.tables.canonical import STRETCH, amount, listed, verb
from evenfold.manifests.tables.keys import key_values
from evenfold.splitters import DrawSplitter, Pair, Rows, SplitError, Splitter
from evenfold.splitters.base import EXCLUDED as EXCLUDED, LOCKED as LOCKED, Kind as Kind, codes_tested, pairs_of_labels
from evenfold.splitters.errors import shown
from evenfold.splitters.numbers import encode
from numpy.typing import NDArray

Codes = NDArray[Any]
Ranks = NDArray[np.int64]
Role = Literal["train", "test"]

NEVER_TESTED, UNKNOWN = -1, -4  # of a row that no fold tests; unknown: it has no code yet
MOST_MEASURED = 200  # draws and pairs that a report, an audit or a comparison makes


def digest_codes(codes: NDArray[Any]) -> str:
    """Return the SHA-256 of integer codes as little-endian int32, one row after the other."""
    digest = hashlib.sha256()
    for start in range(0, len(codes), STRETCH):
        digest.update(np.ascontiguousarray(codes[start : start + STRETCH], dtype="<i4").tobytes())
    return digest.hexdigest()


def digest_resample(train: NDArray[Any], test: NDArray[Any], n: int) -> str:
    """Return the SHA-256 of one resample of ``n`` rows, by its counts as little-endian int16."""
    return hashlib.sha256(resample_counts(train, test, n).astype("<i2").tobytes()).hexdigest()


def resample_counts(train: NDArray[Any], test: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return how often each of ``n`` rows trains, -1 where it tests, 0 where it does neither."""
    counts = np.bincount(train, minlength=n)
    counts[test] = -1
    return counts


def require_role(role: str) -> None:
    """Raise SplitError for anything but train and test."""
    if role not in ("train", "test"):
        raise SplitError(f"there is no role {role!r}; choose 'train' or 'test'.")


def require_fold(fold: int, folds: int, repeat: int, repeats: int, title: str) -> None:
    """Raise SplitError for a repeat or a fold that ``title`` does not have."""
    for what, number, count in (("repeat", repeat, repeats), ("fold", fold, folds)):
        if not 0 <= number < count:
            choice = f"choose 0 to {count - 1}" if count > 1 else "choose 0"
            raise SplitError(f"there is no {what} {number} in {title}; {choice}.")


@dataclass(frozen=True, eq=False)
class Membership(ABC):
    """The splits of a manifest, rows by rank in key order.

    ``codes`` has a row per row and a column per repeat: 0 and above where a row is tested (or may be drawn), -1 never
    tested, -2 locked, -3 excluded; one column may be given flat. ``parts``: the code of each named part, if any.
    """

    unit: ClassVar[str] = "split"
    unnamed_code: ClassVar[str] = "the rows in use"  # what a code without a name of its own is called
    kind: ClassVar[Kind]
    codes: Codes
    parts: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    n: int = field(init=False)  # rows
    n_repeats: int = field(init=False)  # how often every row is dealt: 1 but for repeated folds

    def __post_init__(self) -> None:
        codes = self.codes[:, None] if self.codes.ndim == 1 else self.codes
        self.__dict__.update(codes=codes, n=codes.shape[0], n_repeats=codes.shape[1])

    @property
    @abstractmethod
    def n_splits(self) -> int:
        """The number of (train, test) pairs, of all repeats."""

    @abstractmethod
    def pair(self, i: int) -> Pair:
        """Return split ``i`` as ascending ranks (train, test); repeats follow one another."""

    @property
    def n_bins(self) -> int:
        """Into how many folds the rows of one repeat are dealt; 1 where they are not dealt out."""
        return 1

    def column(self, repeat: int = 0) -> Codes:
        """Return the code of each row in one repeat."""
        column: Codes = self.codes[:, repeat]
        return column

    def digest(self, i: int) -> str:
        """Return the SHA-256 of split ``i``'s rows; it stays when other splits change."""
        return digest_resample(*self.pair(i), self.n)

    def split_name(self, i: int) -> tuple[int, int]:
        """Return (repeat, fold) of split ``i``."""
        return divmod(i, self.n_splits // self.n_repeats)

    def split_title(self, i: int) -> str:
        """Return what people call split ``i``."""
        repeat, fold = self.split_name(i)
        return f"repeat {repeat} fold {fold}" if self.n_repeats > 1 else f"fold {fold}"

    def code_name(self, code: int) -> str:
        """Return what a code is called in a sentence."""
        special: dict[int, str] = {LOCKED: "locked", EXCLUDED: "excluded", NEVER_TESTED: "never tested"}
        names = {number: name for name, number in self.parts.items()}
        return names.get(code) or special.get(code) or self.unnamed_code.format(code)

    @property
    def unlocked(self) -> Ranks:
        """The rows that a model of all rows learns from: neither locked nor excluded."""
        return np.flatnonzero(self.column() >= NEVER_TESTED)

    @property
    def locked(self) -> Ranks:
        """The rows that are kept for the end."""
        return np.flatnonzero(self.column() == LOCKED)

    def with_rows(self, codes: Codes, keys: pa.Table | None) -> Membership:
        """Return the membership of other rows; stored pairs are of their rows alone, and do not grow."""
        return replace(self, codes=codes)

    def columns(self, rows: Ranks | slice) -> dict[str, pa.Array]:
        """Return the columns of the assignments file, of ``rows`` alone."""
        return {fold_column(r): pa.array(np.ascontiguousarray(self.codes[rows, r])) for r in range(self.n_repeats)}

    def files(self) -> dict[str, pa.Table]:
        """Return the files that hold what no row's code says; none for labels."""
        return {}


@dataclass(frozen=True, eq=False)
class Labels(Membership):
    """Every row has one label in each repeat: the fold that tests it, or its part. ``tested`` are the codes tested."""

    unit: ClassVar[str] = "fold"
    unnamed_code = "fold {}"
    kind = "labels"
    tested: Sequence[int]

    @classmethod
    def of(cls, codes: Codes, splitter: Splitter) -> Labels:
        """Return the membership that ``codes`` decided by a strategy of labels say."""
        parts = splitter.part_codes()
        return cls(codes, codes_tested(codes, parts), parts=parts)

    @property
    def n_splits(self) -> int:
        """The number of tested folds or parts, of all repeats."""
        return self.n_bins * self.n_repeats

    @property
    def n_bins(self) -> int:
        """The number of tested folds or parts of one repeat."""
        return len(self.tested)

    def split_title(self, i: int) -> str:
        """Return what people call split ``i``: ``fold 3``, or ``check part``."""
        repeat, fold = self.split_name(i)
        return f"{self.code_name(self.tested[fold])} part" if self.parts and not repeat else super().split_title(i)

    def pair(self, i: int) -> Pair:
        """Return (rest, fold), or (train, part). O(n)."""
        repeat, fold = self.split_name(i)
        return next(pairs_of_labels(self.column(repeat), [self.tested[fold]], parts=bool(self.parts)))

    @classmethod
    def read(cls, rows: pa.Table, files: Mapping[str, pa.Table], splitter: Splitter, **_: Any) -> Labels:
        """Return the membership that an assignments table holds."""
        return cls.of(codes_in(rows), splitter)


@dataclass(frozen=True, eq=False)
class Draws(Membership):
    """Splits that are drawn again whenever they are asked for, from the rows of code 0.

    ``strata``, ``groups`` and ``keys`` are what the strategy draws by, of all rows; ``recorded`` is a table of the
    sizes of each draw and the digest of its counts; None of rows that have not been drawn from yet.
    """

    unit: ClassVar[str] = "draw"
    unnamed_code = "rows that may be drawn"
    kind = "draws"
    splitter: DrawSplitter
    keys: pa.Table | None = None
    strata: NDArray[Any] | None = None
    groups: NDArray[np.int64] | None = None
    recorded: pa.Table | None = None

    @property
    def n_splits(self) -> int:
        """The number of draws."""
        return self.splitter.get_n_splits() if self.recorded is None else self.recorded.num_rows

    @cached_property
    def resamples(self) -> pa.Table:
        """The record of the draws; all are drawn where nothing is recorded."""
        if self.recorded is not None:
            return self.recorded
        drawn = ((self.eligible[train], self.eligible[test]) for train, test in self.splitter.pairs(self._rows))
        draws = [(train.size, test.size, digest_resample(train, test, self.n)) for train, test in drawn]
        columns = {
            "resample": pa.array(range(len(draws)), pa.int32()),
            "seed": pa.array([getattr(self.splitter, "random_state", 0)] * len(draws), pa.int64()),
            "n_train": pa.array([n_train for n_train, _, _ in draws], pa.int32()),
            "n_test": pa.array([n_test for _, n_test, _ in draws], pa.int32()),
            "digest": pa.array([bytes.fromhex(digest) for _, _, digest in draws], pa.binary(32)),
            "generation": pa.array(np.zeros(len(draws), dtype=np.int16)),
        }
        return pa.table(columns)

    def pair(self, i: int) -> Pair:
        """Draw split ``i`` again; SplitError where it comes out differently from what was recorded."""
        train, test = (self.eligible[side] for side in self.splitter.pair(self._rows, i))
        if self.recorded is not None and digest_resample(train, test, self.n) != self.digest(i):
            raise SplitError(
                f"draw {i} comes out differently from what was recorded; this is version {self.splitter.version} of "
                f"{type(self.splitter).__name__}; use the version of evenfold that made it, or split again."
            )
        return train, test

    def digest(self, i: int) -> str:
        """Return the recorded digest of draw ``i``; nothing is drawn."""
        return bytes(self.resamples.column("digest")[i].as_py()).hex()

    def split_title(self, i: int) -> str:
        """Return ``resample i``."""
        return f"resample {i}"

    @cached_property
    def eligible(self) -> Ranks:
        """The rows that may be drawn."""
        return np.flatnonzero(self.column() == 0)

    @cached_property
    def _rows(self) -> Rows:
        """The eligible rows as the strategy sees them: codes of classes and groups, and keys."""
        strata = None if self.strata is None else self.strata[self.eligible]
        # Groups that are locked leave no gap among the codes of the others.
        groups = None if self.groups is None else encode(self.groups[self.eligible], "groups")[0]
        key = key_values(self.keys)[self.eligible] if self.splitter.needs.key and self.keys is not None else None
        levels = () if strata is None or strata.dtype.kind == "f" else tuple(range(int(strata.max(initial=-1)) + 1))
        return Rows(n=self.eligible.size, y=strata, groups=groups, key=key, levels=levels)

    def with_rows(self, codes: Codes, keys: pa.Table | None) -> Draws:
        """Return the draws of other rows, made when they are asked for; only keys may decide them."""
        return replace(self, codes=codes, keys=keys, strata=None, groups=None, recorded=None)

    def columns(self, rows: Ranks | slice) -> dict[str, pa.Array]:
        """Return the codes, and the strata and groups that draws are made by."""
        columns = super().columns(rows)
        if self.strata is not None:
            strata = np.atleast_2d(self.strata.T)
            names = ["stratum"] if self.strata.ndim == 1 else [f"stratum_{i}" for i in range(len(strata))]
            columns |= {name: pa.array(stratum[rows]) for name, stratum in zip(names, strata, strict=True)}
        return columns if self.groups is None else columns | {"group_code": pa.array(self.groups[rows])}

    def files(self) -> dict[str, pa.Table]:
        """Return the table of draws."""
        return {RESAMPLES: self.resamples}

    @classmethod
    def read(
        cls, rows: pa.Table, files: Mapping[str, pa.Table], splitter: Splitter, keys: pa.Table | None, n_splits: int
    ) -> Draws:
        """Return the draws that an assignments table and a table of resamples hold."""
        assert isinstance(splitter, DrawSplitter)
        names = [name for name in rows.column_names if re.fullmatch(r"stratum(_\d+)?", name)]
        columns = [rows.column(name).to_numpy() for name in names]
        strata = None if not names else columns[0] if names == ["stratum"] else np.column_stack(columns)
        groups = np.asarray(rows.column("group_code").to_numpy()) if "group_code" in rows.column_names else None
        return cls(codes_in(rows), splitter, keys, strata, groups, files[RESAMPLES].replace_schema_metadata(None))


@dataclass(frozen=True, eq=False)
class Pairs(Membership):
    """Splits that follow no label and no draw, stored as they are; rows that may be in one have code 0."""

    kind = "pairs"
    stored: tuple[Pair, ...]

    @property
    def n_splits(self) -> int:
        """The number of stored pairs."""
        return len(self.stored)

    def pair(self, i: int) -> Pair:
        """Return the stored pair."""
        return self.stored[i]

    def files(self) -> dict[str, pa.Table]:
        """Return the table of pairs: role 0 trains, role 1 is tested."""
        sides = [(i, role, side) for i, pair in enumerate(self.stored) for role, side in enumerate(pair)]
        sizes = [side.size for _, _, side in sides]
        columns = {
            "split": pa.array(np.repeat([i for i, _, _ in sides], sizes), pa.int32()),
            "role": pa.array(np.repeat([role for _, role, _ in sides], sizes), pa.int8()),
            "position": pa.array(np.concatenate([side for _, _, side in sides]), pa.int64()),
        }
        return {SPLITS: pa.table(columns)}

    @classmethod
    def read(cls, rows: pa.Table, files: Mapping[str, pa.Table], n_splits: int, **_: Any) -> Pairs:
        """Return the pairs that a table of splits holds."""
        split, role, position = (files[SPLITS].column(name).to_numpy() for name in ("split", "role", "position"))
        # Rows are written split by split, training before testing: 2 x split + role ascends.
        bounds = np.searchsorted(split.astype(np.int64) * 2 + role, np.arange(2 * n_splits + 1))
        sides = [position[first:stop] for first, stop in pairwise(bounds)]
        return cls(codes_in(rows), tuple((sides[2 * i], sides[2 * i + 1]) for i in range(n_splits)))


RESAMPLES, SPLITS = "resamples.parquet", "splits.parquet"
KINDS: dict[str, type[Labels | Draws | Pairs]] = {shape.kind: shape for shape in (Labels, Draws, Pairs)}


def fold_column(repeat: int) -> str:
    """Return the name of the column that holds the codes of one repeat."""
    return f"fold_r{repeat + 1}" if repeat else "fold"


def fold_columns(names: Sequence[str]) -> list[str]:
    """Return those names that are columns of codes, one a repeat."""
    return [name for name in names if re.fullmatch(r"fold(_r\d+)?", name)]


def codes_in(rows: pa.Table) -> Codes:
    """Return the codes (rows by repeats) of a table of assignments or of groups."""
    return np.column_stack([rows.column(name).to_numpy() for name in fold_columns(rows.column_names)])


def in_several_folds(table: pa.Table, columns: list[str], fold: str) -> pa.Table:
    """Return the different values of ``columns`` whose rows are in several folds, those left out aside."""
    used = table.filter(pc.not_equal(table.column(fold), EXCLUDED))
    held = used.group_by(columns).aggregate([(fold, "count_distinct")])
    return held.filter(pc.greater(held.column(f"{fold}_count_distinct"), 1))


def require_one_fold(table: pa.Table, key: list[str], fold: str) -> None:
    """Raise SplitError where rows of one key are in several folds."""
    torn = in_several_folds(table, key, fold)
    if torn.num_rows:
        name, first = "+".join(key), ", ".join(str(torn.column(column)[0].as_py()) for column in key)
        raise SplitError(
            f"{amount(torn.num_rows, 'value')} of {name} {verb(torn.num_rows, 'is', 'are')} in several folds (first "
            f"{shown(first)!r}): what is learnt in one fold is known in the other. Leave these rows out of one, or "
            f"split anew with group {listed(map(repr, key))}."
        )

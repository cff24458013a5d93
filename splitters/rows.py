"""The view of the data that a strategy gets, checked and encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import SplitError, shown
from .kernels import components_of
from .numbers import Coded, IntArray, array_of, encode, is_number, present, require_present, stable_order
from .times import ends_of, times_of

Target = Literal["ignored", "classes", "numbers", "any"]
ROLES = ("key", "time", "label_end", "fixed", "coordinates")  # the columns that scikit-learn has no place for


@dataclass(frozen=True)
class Needs:
    """The columns that a strategy reads; what is not needed, it never sees.

    ``y``: ignored; one class per row; one number per row; or any (absent, classes, numbers, or several columns).
    ``label_end``: when a row's target is known; ``fixed``: labels decided elsewhere; ``coordinates``: two numbers of a
    plane. Groups and label_end may be optional.
    """

    y: Target = "ignored"
    groups: bool | Literal["optional"] = False
    key: bool = False
    time: bool = False
    fixed: bool = False
    label_end: bool | Literal["optional"] = False
    coordinates: bool = False


@dataclass(frozen=True)
class Rows:
    """``n`` rows as a strategy may see them; whatever its ``Needs`` do not declare is None.

    ``y``: int64 codes of classes (n), float64 numbers (n), or int64 codes of several columns (n, columns);
    ``y_holds`` says which.
    ``groups``: int64 codes. Codes follow first appearance, so renaming a label moves no row. Where several columns of
    ``entities`` were given, as a patient and a device, a group is what they join: rows that share any of them, and rows
    that share one with those.
    ``time``: int64, float64, or datetime64[us] in UTC; ``label_end`` alike, and never before it.
    ``fixed``: int64 labels decided elsewhere. ``coordinates``: float64 (n, 2), finite.
    ``levels`` are the values behind the codes of y, and ``names`` those of the roles: for messages alone.
    """

    n: int
    y: Any = None
    groups: Any = None
    key: Any = None
    time: Any = None
    fixed: Any = None
    levels: tuple[Any, ...] = ()
    label_end: NDArray[Any] | None = None
    entities: Coded | None = None
    coordinates: Any = None
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, X: Any = None, y: Any = None, groups: Any = None, *, needs: Needs, key: Any = None, time: Any = None,
        fixed: Any = None, label_end: Any = None, coordinates: Any = None, asked_by: str = "this strategy",
        names: Mapping[str, str] | None = None,
    ) -> Rows:  # fmt: skip
        """Return the checked rows of any container (arrays, frames, series, lists), seen by position. O(n log n).

        Raises SplitError where lengths differ, something needed is absent, or a needed value is missing.
        """
        values = dict(zip(("y", "groups", *ROLES), (y, groups, key, time, label_end, fixed, coordinates), strict=True))
        n = _count({"X": X, **values})
        _require(needs, values, asked_by)
        names = names or {}
        codes, levels = _target(y, needs.y, asked_by, names.get("y", "y"))
        entities = None if groups is None else _columns(groups, "groups")
        joined = groups if entities is None else components_of(entities.codes)
        times = times_of(time, names.get("time", "time")) if needs.time else None
        return cls(
            n=n, y=codes, levels=tuple(levels), entities=entities, time=times, names=names,
            groups=None if groups is None else encode(joined, "groups")[0],
            key=present(key, "key") if needs.key else None,
            fixed=whole_numbers(fixed, "the column of folds") if needs.fixed else None,
            label_end=ends_of(label_end, times) if needs.label_end and label_end is not None else None,
            coordinates=coordinates_of(coordinates) if needs.coordinates else None,
        )  # fmt: skip

    def called(self, role: str) -> str:
        """Return what a role is called by whoever named it a column."""
        return self.names.get(role, role)

    @property
    def known(self) -> NDArray[Any]:
        """When the target of each row is known: its ``label_end``, or else its time."""
        return self.time if self.label_end is None else self.label_end

    @property
    def y_holds(self) -> Literal["nothing", "classes", "numbers", "columns"]:
        """The kind of ``y``: one class or one number per row, the classes of several columns, or nothing."""
        if self.y is None:
            return "nothing"
        return "columns" if self.y.ndim == 2 else "numbers" if self.y.dtype.kind == "f" else "classes"

    @cached_property
    def ranked(self) -> IntArray:
        """The positions of the rows by ascending numbers in y, ties by position; sorted once. O(n log n)."""
        return stable_order(self.y)

    @cached_property
    def by_time(self) -> IntArray:
        """The positions of the rows by ascending time, ties by position; sorted once. O(n log n)."""
        return stable_order(self.time)

    @cached_property
    def times(self) -> NDArray[Any]:
        """The times in ascending order, sorted once. O(n log n), and O(n) where the rows are in order of time."""
        numbers = self.time.view(np.int64) if self.time.dtype.kind == "M" else self.time
        return self.time if (numbers[1:] >= numbers[:-1]).all() else np.sort(numbers).view(self.time.dtype)

    @property
    def n_groups(self) -> int:
        """The number of different groups, 0 where no groups are seen."""
        return 0 if self.groups is None else self.group_sizes.size

    @cached_property
    def group_sizes(self) -> IntArray:
        """The rows of each group."""
        return np.bincount(self.groups)

    def take(self, positions: IntArray) -> Rows:
        """Return the rows at ``positions``, in that order, with codes by first appearance among them."""
        y, levels = _renumbered(self.y, self.levels, positions)
        plain = {name: getattr(self, name) for name in ROLES}
        return Rows(
            n=positions.size,
            y=y,
            groups=None if self.groups is None else encode(self.groups[positions], "groups")[0],
            levels=levels,
            names=self.names,
            # Not renumbered: their codes are only compared with one another, and name their levels.
            entities=None if self.entities is None else replace(self.entities, codes=self.entities.codes[positions]),
            **{name: None if values is None else values[positions] for name, values in plain.items()},
        )

    def together(self) -> list[IntArray]:
        """Return the codes of each column whose equal values are to be on one side: entities one by one, or groups."""
        if self.entities is not None:
            return list(self.entities.codes.T)
        return [] if self.groups is None else [self.groups]

    @property
    def classed(self) -> list[tuple[IntArray, tuple[Any, ...]]]:
        """The codes of each column of classes in y, and what they stand for; none of numbers, and without y."""
        if self.y_holds == "columns":
            return list(zip(self.y.T, self.levels, strict=True))
        return [(self.y, self.levels)] if self.y_holds == "classes" else []

    def class_counts(self) -> IntArray:
        """Return the rows of each class (one target column of classes)."""
        return np.bincount(self.y, minlength=len(self.levels))


def _columns(values: Any, name: str) -> Coded | None:
    """Return the columns of y or groups, where there are several."""
    if isinstance(values, Coded):
        return values if values.codes.ndim == 2 else None
    table = array_of(values, name)
    if table.ndim != 2 or table.shape[1] < 2:
        return None
    names = tuple(f"column {j} of {name}" for j in range(table.shape[1]))
    codes, levels = zip(*map(encode, table.T, names), strict=True)
    return Coded(np.stack(codes, axis=1), [*levels], names)


def require_apart(entities: Coded, largest: int, n: int) -> None:
    """Raise SplitError where what several entities join is more than half of ``n`` rows, ``largest`` in one group."""
    alone = max(int(np.bincount(column).max()) for column in entities.codes.T)
    if 2 * largest <= n or largest == alone:  # one level alone is as large: nothing is joined
        return
    met = [np.bincount(column) for column in np.unique(entities.codes, axis=0).T]
    column = int(np.argmax([counts.max() for counts in met]))
    value = shown(repr(entities.levels[column][int(met[column].argmax())]))
    raise SplitError(
        f"{' and '.join(entities.names)} join {largest:,} of {n:,} rows ({largest / n:.0%}) into one group; {value} of "
        f"{entities.names[column]}, which meets {met[column].max():,} others, joins most. Leave such a level out, keep "
        "one of the columns, or leave out the rows that cross folds (group_mode: cross). Where values are numbered "
        "anew within another column, as patient 1 of every hospital, write both into one column."
    )


def _count(columns: dict[str, Any]) -> int:
    lengths = {name: _length(values, name) for name, values in columns.items() if values is not None}
    if not lengths:
        raise SplitError("there are no rows: X, y and groups are all None; pass one of them.")
    (name, n), *others = lengths.items()
    for other, length in others:
        if length != n:
            has = "1 value" if length == 1 else f"{length:,} values"
            raise SplitError(f"{other} has {has} for the {n:,} rows of {name}; pass one value per row.")
    if n < 2:
        raise SplitError(f"there {'is 1 row' if n else 'are 0 rows'}; at least 2 are needed.")
    return n


def _renumbered(codes: Any, levels: tuple[Any, ...], positions: IntArray) -> tuple[Any, tuple[Any, ...]]:
    if codes is None or codes.dtype.kind == "f":
        return None if codes is None else codes[positions], ()
    if codes.ndim == 2:
        columns = [_renumbered(codes[:, j], tuple(levels[j]), positions) for j in range(codes.shape[1])]
        return np.stack([column for column, _ in columns], axis=1), tuple(h for _, h in columns)
    numbers, seen = encode(codes[positions], "codes")
    return numbers, tuple(levels[code] for code in seen)


def _length(values: Any, name: str) -> int:
    shape = getattr(values, "shape", None)  # sparse matrices have a shape and no len
    try:
        return len(values) if shape is None else int(shape[0])
    except (TypeError, IndexError):
        kind = type(values).__name__
        raise SplitError(f"{name} is of type {kind} and has no length; pass one value per row.") from None


def _require(needs: Needs, values: dict[str, Any], asked_by: str) -> None:
    needed = [name for name in ("groups", *ROLES) if getattr(needs, name) is True]
    for name in ["y", *needed] if needs.y in ("classes", "numbers") else needed:
        if values[name] is None:
            raise SplitError(f"{asked_by} needs {name}, and none was given; pass one value per row.")
    if values["groups"] is not None and not needs.groups:
        cure = "leave them out, or use a strategy that keeps them, such as BalancedGroupKFold"
        raise SplitError(f"{asked_by} does not keep groups whole, and groups were given; {cure}.")


def _target(y: Any, kind: Target, asked_by: str, name: str) -> tuple[Any, Sequence[Any]]:
    if kind == "ignored" or y is None:
        return None, ()
    coded = y if isinstance(y, Coded) else _columns(y, name) if kind == "any" else None
    if coded and kind != "numbers":
        return coded.codes, coded.levels
    values = np.array(y.levels, dtype=object) if isinstance(y, Coded) else present(y, name)
    if kind == "numbers" or (kind == "any" and is_number(values.dtype.kind, lambda: np.unique(values))):
        needed = f"{asked_by} needs numbers; use StratifiedKFold, or StratifiedSplit for parts."
        return _floats(values, "biufO", f"{name} holds text or objects, and {needed}", name), ()
    if kind == "classes" and values.dtype.kind == "f" and (values != np.floor(values))[np.isfinite(values)].any():
        what = f"{name} holds {np.unique(values).size:,} different fractional numbers, and {asked_by} needs classes"
        raise SplitError(f"{what}; use SortedStratifiedKFold, which stratifies numbers.")
    return encode(values, name)


def _floats(array: NDArray[Any], kinds: str, otherwise: str, name: str) -> NDArray[np.float64]:
    """Return finite numbers as float64, -0.0 as 0.0, for equal numbers must have equal bytes."""
    objects = array.reshape(-1).tolist() if array.dtype.kind == "O" else ()
    if array.dtype.kind not in kinds or any(isinstance(value, (str, bytes)) for value in objects):
        raise SplitError(otherwise)
    try:
        numbers = array.astype(np.float64) + 0.0
    except (TypeError, ValueError):
        raise SplitError(otherwise) from None
    except OverflowError:
        what = f"{name} holds a whole number too large for a float"
        raise SplitError(f"{what}; drop or correct that row first.") from None
    infinite = int(np.isinf(numbers.reshape(len(numbers), -1)).any(axis=1).sum())
    if infinite:
        raise SplitError(f"{name} is infinite in {infinite:,} of {len(numbers):,} rows; drop those rows first.")
    return numbers


def whole_numbers(values: Any, name: str) -> IntArray:
    """Return ``values`` as int64; missing values, text and fractions are a SplitError."""
    array = present(values, name)
    try:
        numbers = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        raise SplitError(f"{name} holds text or objects; pass whole numbers.") from None
    if not np.array_equal(numbers, array):
        raise SplitError(f"{name} holds fractional numbers; pass whole numbers.")
    return numbers


def coordinates_of(values: Any) -> NDArray[np.float64]:
    """Return two coordinates of each row as float64 (n, 2); what is missing, infinite or no number is a SplitError."""
    table = array_of(values, "coordinates")
    if table.ndim != 2 or table.shape[1] != 2:
        columns = table.shape[1] if table.ndim == 2 else 1
        raise SplitError(f"coordinates are {columns} column{'s' if columns != 1 else ''}; pass two, x and y.")
    for column in table.T:
        require_present(column, "coordinates")
    return _floats(table, "iufO", "coordinates hold text or objects; pass numbers.", "a coordinate")

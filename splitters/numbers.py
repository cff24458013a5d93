"""Values, numbers and arrays: how they are told apart, become integer codes, and where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from evenfold.splitters.deployed import reason_of
from evenfold.splitters.errors import SplitError
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def label_type(n_labels: int) -> type[np.int16] | type[np.int32]:
    """Return the smallest of int16 and int32 that holds ``n_labels`` labels."""
    return np.int16 if n_labels <= 32_767 else np.int32


def plain_numbers(value: Any) -> Any:
    """Return NumPy's numbers as Python's, alone or inside mappings, lists and tuples; anything else as it is.

    Of single precision the number that was written: 0.2, not 0.20000000298. What holds none stays the same object.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return float(str(value)) if value.dtype.kind == "f" else value.item()
    if type(value) not in (dict, list, tuple):
        return value
    inside = value.values() if isinstance(value, dict) else value
    plain = [plain_numbers(each) for each in inside]
    if all(new is old for new, old in zip(plain, inside, strict=True)):
        return value
    return dict(zip(value, plain, strict=True)) if isinstance(value, dict) else type(value)(plain)


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer of Python or NumPy, and no boolean."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def is_real(value: Any) -> bool:
    """Return whether ``value`` is a finite number of Python or NumPy, and no boolean."""
    return (isinstance(value, (float, np.floating)) or is_whole(value)) and bool(np.isfinite(float(value)))


def check_count(name: str, value: Any, least: int) -> None:
    """Raise SplitError unless ``value`` is an integer of at least ``least``."""
    if not is_whole(value) or value < least:
        raise SplitError(f"{name}={value!r}; choose a whole number of at least {least}.")


MOST_CLASSES_OF_NUMBERS = 20
CLASSES_VERSION = 2  # of this rule: by the first one every floating number was a number


def is_number(dtype_kind: str, distinct: Callable[[], Any]) -> bool:
    """Return whether a target is numbers rather than classes: the one rule of splits, reports and models.

    ``dtype_kind`` is NumPy's letter for the column's type, ``distinct`` returns its different values, or more than 20
    of them; nothing missing. Numbers are numbers where one has a fraction, or where there are more than 20 different
    ones, whether they are kept as integers or as floats; text, booleans, categories and whatever else are classes.
    """
    if dtype_kind not in ("i", "u", "f"):
        return False
    values = distinct()
    if len(values) > MOST_CLASSES_OF_NUMBERS or dtype_kind != "f":
        return len(values) > MOST_CLASSES_OF_NUMBERS
    numbers = np.asarray(values, dtype=np.float64)
    return not np.all(np.isfinite(numbers) & (numbers == np.floor(numbers)))


@dataclass(frozen=True)
class Coded:
    """Values that a container has encoded already: int64 codes by first appearance, and the values they stand for.

    ``codes`` (n, or n by columns); ``levels`` the values of a column, or of each column. Nothing is missing.
    ``names``: what the columns are called, for messages only.
    """

    codes: IntArray
    levels: list[Any]
    names: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.codes.shape


def encode(values: Any, name: str) -> tuple[IntArray, list[Any]]:
    """Return a code per value and the values that the codes stand for.

    Codes follow first appearance, so renaming a label changes no code. Missing values (None, NaN, NaT, NA) are a
    SplitError that counts them. O(n).
    """
    if isinstance(values, Coded):
        return values.codes, values.levels
    array = present(values, name)
    if array.dtype.kind not in "biufmM" or array.dtype.itemsize > 8:
        seen: dict[Any, int] = {}
        try:
            numbers = (seen.setdefault(value, len(seen)) for value in array.tolist())
            return np.fromiter(numbers, np.int64, array.size), list(seen)
        except TypeError as error:
            what = f"{name} holds values that cannot be compared ({reason_of(error)})"
            raise SplitError(f"{what}; pass numbers or text.") from None
    from pandas import factorize

    plain = array.astype(array.dtype.newbyteorder("="), copy=False)
    # As whole numbers: pandas makes other units of times.
    codes, levels = factorize(plain.view(np.int64) if plain.dtype.kind in "mM" else plain)
    return codes, np.asarray(levels).view(plain.dtype).tolist()


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as an array of one dimension, from any container."""
    array = array_of(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise SplitError(f"{name} has {array.ndim} dimensions; pass one value per row.")
    return array


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as an array in which every value is still itself."""
    array = values if isinstance(values, np.ndarray) else _converted(values)
    if array.ndim == 0:
        raise SplitError(f"{name} is of type {type(values).__name__}; pass one value per row.")
    return array.astype(object) if array.dtype.kind == "T" else array  # text that has its own missing value


def _converted(values: Any) -> NDArray[Any]:
    if not isinstance(values, (list, tuple)):
        return np.asarray(values)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
    # NumPy makes text of everything beside text (NaN becomes the word), and floats of integers beyond its own.
    changed = array.dtype.kind in "US" or (array.dtype.kind == "f" and bool((np.abs(array) >= 2.0**53).any()))
    return np.array(values, dtype=object) if changed else array


def present(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as an array of one dimension that misses nothing."""
    array = as_array(values, name)
    require_present(array, name)
    return array


def require_present(array: NDArray[Any], name: str, mend: str = "drop or fill those rows first.") -> None:
    """Raise a SplitError that counts the missing values, if there are any, and says what would ``mend`` it."""
    missing = _missing(array)
    if missing is not None and missing.any():
        rows = np.flatnonzero(missing)
        raise SplitError(
            f"{name} is missing (None or NaN) in {rows.size:,} of {array.size:,} rows "
            f"(first at {first_rows(rows)}); {mend}"
        )


def first_rows(rows: IntArray) -> str:
    """Return ``row 3`` or ``rows 3, 7, 9`` for the first three positions."""
    return ("row " if rows.size == 1 else "rows ") + ", ".join(str(row) for row in rows[:3].tolist())


def _missing(array: NDArray[Any]) -> NDArray[np.bool_] | None:
    if array.dtype.kind in "fc":
        return np.asarray(np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(np.isnat(array))
    if array.dtype.kind == "O":
        return np.fromiter((_is_missing(value) for value in array.tolist()), np.bool_, array.size)
    return None


def _is_missing(value: Any) -> bool:
    # NaN and NaT differ from themselves; pandas' NA is neither equal nor not, and a signalling NaN cannot be asked.
    try:
        return value is None or bool(value != value)
    except (TypeError, ArithmeticError):
        return True
    except ValueError:  # an array, which is no single value, but is there
        return False

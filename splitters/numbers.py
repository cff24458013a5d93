"""Numbers and the types of arrays that everything else here counts with; and when a target is one to predict."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from evenfold.splitters.errors import SplitError


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

"""Whether a target is a number to predict or a class."""

from __future__ import annotations

from collections.abc import Callable

MOST_CLASSES_OF_INTEGERS = 20


def is_number(dtype_kind: str, n_values: Callable[[], int]) -> bool:
    """Return whether a target is numbers rather than classes: the one rule of splits, reports and models.

    ``dtype_kind`` is NumPy's letter for the column's type. Floating numbers are numbers, whole ones among them;
    integers are numbers from 21 different values on (``n_values``, counted for integers only); text, booleans,
    categories and whatever else are classes.
    """
    return dtype_kind == "f" or (dtype_kind in ("i", "u") and n_values() > MOST_CLASSES_OF_INTEGERS)

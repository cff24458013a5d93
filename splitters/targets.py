"""Whether a target is a number to predict or a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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

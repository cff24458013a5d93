"""What counts as a number in a parameter."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ._errors import SplitError


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

"""Small words that every sentence needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def amount(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 row``, ``1,204 rows``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def verb(n: int, one: str, several: str) -> str:
    """Return the form of a verb that goes with ``n`` things."""
    return one if n == 1 else several


def listed(things: Iterable[Any], most: int = 5) -> str:
    """Return ``a, b and c``; where there are more than ``most``, the first of them and how many follow."""
    names = [str(thing) for thing in things]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))

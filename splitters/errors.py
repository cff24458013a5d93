"""The base of the package's errors, the one that strategies raise, and the nearest name to a misspelt one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches


class EvenfoldError(Exception):
    """Every error that evenfold raises on purpose is one: its message is a sentence, fit to be shown to who asked.

    Each is also a ValueError (what was given is at fault) or a RuntimeError (it was fine, and something failed). Two
    verdicts are told in the words of others: a SplitSpec or ModelSpec that is made of bad fields raises pydantic's
    ValidationError, and a conformance check raises AssertionError. What else is no EvenfoldError nobody meant to raise.
    """


class SplitError(EvenfoldError, ValueError):
    """Rows cannot be split as asked: what is wrong, in numbers, then what would work."""


def meant(
    name: str, choices: Iterable[str], *, most: int = 2, cutoff: float = 0.4, show: Callable[[str], str] = str
) -> str:
    """Return ``did you mean a or b?`` of the known names that are like ``name``; nothing where none is."""
    close = get_close_matches(name, choices, n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(show, close))}?" if close else ""

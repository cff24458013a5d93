"""Errors and results as people meet them: their bases, the nearest name to a misspelt one, and who draws a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Literal


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


_above: dict[str, Callable[[Any], Any]] = {}


class Displayed:
    """A result that people meet at a prompt or in a notebook; ``summary`` is its line.

    Rooms below know nothing of pages, so what draws a result is bound from above; where nothing draws it,
    ``_repr_html_`` returns None, and a notebook shows the line.
    """

    __slots__ = ()

    @property
    def summary(self) -> str:
        """Return one line that says what it is."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.summary

    def __str__(self) -> str:  # pydantic's own would print every field
        return self.summary

    def _repr_html_(self) -> str | None:
        drawn: str | None = above("draw", self)
        return drawn


def bind(**what: Callable[[Any], Any]) -> None:
    """Let rooms above do for those below: ``draw``, ``hear``, ``find``."""
    _above.update(what)


def above(what: Literal["draw", "hear", "find"], of: Any) -> Any:
    """Return what a room above makes of something; None where nobody does this."""
    return _above[what](of) if what in _above else None

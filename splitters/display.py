"""Services of the rooms above: draw a result in a notebook, hear that a split is used, find one by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

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

"""How a result shows itself: in one line, and in a notebook as a room above draws it."""

from __future__ import annotations

from collections.abc import Callable

_draw: list[Callable[[object], str | None]] = []


class Displayed:
    """A result that people meet at a prompt or in a notebook; ``summary`` is its line.

    Rooms below know nothing of pages, so what draws a result is told to ``draw_with``; where nothing draws it,
    ``_repr_html_`` returns None, and a notebook shows the line.
    """

    __slots__ = ()

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str | None:
        return _draw[-1](self) if _draw else None


def draw_with(draw: Callable[[object], str | None]) -> None:
    """Let ``draw`` turn every result into the HTML that notebooks show (None: the line will do)."""
    _draw[:] = [draw]

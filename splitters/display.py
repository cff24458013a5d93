"""What rooms above do for a result: draw it in a notebook, and hear that it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_draw: list[Callable[[object], str | None]] = []
_hear: list[Callable[[Any], object]] = []


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


def used(result: object) -> None:
    """Tell whoever listens that a result is used."""
    for hear in _hear:
        hear(result)


def hear_with(hear: Callable[[Any], object]) -> None:
    """Let ``hear`` be called with every result that is used."""
    _hear[:] = [hear]

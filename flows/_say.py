"""How a flow says what is under way."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str, int, int], None]


def silent(what: str, done: int, of: int) -> None:
    """Say nothing."""

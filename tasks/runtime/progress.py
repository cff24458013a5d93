"""What is under way, said to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Say = Callable[[str, int, int], None]


def _to_the_log(what: str, done: int, of: int) -> None:
    """Say in the flow's log what is under way: every change of work, and every tenth of it."""
    from .step import log

    if of > 1 and done % max(1, of // 10) == 0:
        log(f"{what}: {done:,} of {of:,}")
    elif done in (0, of):
        log(f"{what}: {of:,} of {of:,}" if of > 1 else f"{what}{' done' if done else ' ...'}")


SAY: ContextVar[Say] = ContextVar("evenfold_say", default=_to_the_log)


def say(what: str, done: int, of: int) -> None:
    """Say how much of what is done, to whoever listens: a terminal's bar, or the flow's log."""
    SAY.get()(what, done, of)


@contextmanager
def saying(what: str) -> Iterator[None]:
    """Say that one thing is under way, and then that it is done."""
    say(what, 0, 1)
    yield
    say(what, 1, 1)

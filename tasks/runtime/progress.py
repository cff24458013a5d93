"""Progress of the work, said to whoever listens."""

from __future__ import annotations

import contextlib
import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Say = Callable[[str, int, int], None]


def log(message: str, **facts: Any) -> None:
    """Write a line of ``message name=value ...`` to the log of the run under way, where there is one."""
    from prefect import get_run_logger
    from prefect.exceptions import MissingContextError

    text = " ".join(f"{name}={value}" for name, value in facts.items())
    with contextlib.suppress(MissingContextError):
        get_run_logger().info(f"{message} {text}".strip())


def _to_the_log(what: str, done: int, of: int) -> None:
    """Say in the flow's log what is under way: every change of work, and every tenth of it."""
    if of > 1 and done % max(1, of // 10) == 0:
        log(f"{what}: {done:,} of {of:,}")
    elif of > 1 and done == of:
        log(f"{what}: {of:,} of {of:,}")
    elif done == 0:
        log(f"{what} ...")


SAY: ContextVar[Say] = ContextVar("evenfold_say", default=_to_the_log)


def say(what: str, done: int, of: int) -> None:
    """Say how much of what is done, to whoever listens: a terminal's bar, or the flow's log."""
    SAY.get()(what, done, of)


@contextlib.contextmanager
def saying(what: str) -> Iterator[None]:
    """Say that one thing is under way, and then that it is done."""
    say(what, 0, 1)
    yield
    say(what, 1, 1)


@contextlib.contextmanager
def shown_in_a_notebook() -> Iterator[None]:
    """Show in one line of a notebook's cell, which is updated, what is under way inside the block.

    Nothing where somebody listens already, such as a terminal's bar, and where there is no notebook; the log is told
    as well. When the block ends, the line says how long it took.
    """
    display = _display()
    if display is None or SAY.get() is not _to_the_log:
        yield
        return
    line = _Line(display)
    token = SAY.set(line.say)
    try:
        yield
        line.end("done")
    except BaseException:
        line.end("stopped")
        raise
    finally:
        SAY.reset(token)


def _display() -> Any:
    """Return IPython's ``display`` where a kernel runs this; None elsewhere, and nothing is imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return None if getattr(shell, "kernel", None) is None else sys.modules["IPython.display"].__dict__["display"]


class _Line:
    """One line below a cell: a bar, what is under way, how much of it, and the seconds since the start."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._begun = time.monotonic()
        self._handle: Any = None
        self._guard = threading.Lock()

    def say(self, what: str, done: int, of: int) -> None:
        _to_the_log(what, done, of)
        line = f"{what}: {done:,} of {of:,}" if of > 1 else what
        self._show(f"{line}, {time.monotonic() - self._begun:.0f} s", done, of)

    def end(self, how: str) -> None:
        if self._handle is not None:
            self._show(f"{how} after {time.monotonic() - self._begun:.0f} s", 1, 1)

    def _show(self, words: str, done: int, of: int) -> None:
        bar = f'<progress value="{done}" max="{max(of, 1)}" aria-label="progress"></progress>'
        bundle = {"text/plain": words, "text/html": f"{bar} <span>{html.escape(words)}</span>"}
        with self._guard:  # fits end in several threads
            if self._handle is None:
                self._handle = self._display(bundle, raw=True, display_id=True)
            else:
                self._handle.update(bundle, raw=True)

"""An end within seconds where one is asked for: by Ctrl-C, by a supervisor's SIGTERM, by a terminal that closes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, TypeVar

R = TypeVar("R")
SECONDS = 2.0  # for every ending together
_ENDINGS: dict[object, Callable[[], None]] = {}
_STOPPING = threading.Event()
_AT_WORK: list[Any] = []
_NAMES = {"SIGINT": "Ctrl-C"}


def always_at_stop(ending: Callable[[], None]) -> Callable[[], None]:
    """Let ``ending`` be called whenever this process is stopped; all are called at once, each in a thread."""
    _ENDINGS[ending] = ending
    return ending


@contextlib.contextmanager
def at_stop(ending: Callable[[], None]) -> Iterator[None]:
    """Let ``ending`` be called where this process is stopped inside the block."""
    key = object()
    _ENDINGS[key] = ending
    try:
        yield
    finally:
        del _ENDINGS[key]


@contextlib.contextmanager
def at_work_on(run: Any) -> Iterator[None]:
    """Say that this process works on ``run``, a task run, inside the block; None is ignored."""
    _AT_WORK.append(run)
    try:
        yield
    finally:
        _AT_WORK.remove(run)


def at_work() -> set[Any]:
    """Return the task runs that this process is at."""
    return {run for run in list(_AT_WORK) if run is not None}


def halt_where_stopping() -> None:
    """Return at once, or never where the process is being stopped: nothing new is begun then."""
    if _STOPPING.is_set():
        threading.Event().wait()


def stoppable(work: Callable[[], R]) -> R:
    """Return what ``work`` returns, and raise what it raises; on a signal the process ends within seconds.

    The work is done in a thread, for only the main thread hears signals, and it hears none while it computes. The
    endings have two seconds, one line is said, and the exit code is 128 and the signal's number: 130 or 143. A second
    signal ends at once. A signal that the process was told to ignore stays ignored.
    """
    done: list[R] = []
    failed: list[BaseException] = []
    # A thread begins with no context: without it the flow's engine and settings would be lost.
    context = copy_context()

    def perform() -> None:
        try:
            done.append(context.run(work))
        except BaseException as error:
            failed.append(error)

    before: dict[signal.Signals, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _stop)
    try:
        thread = threading.Thread(target=perform, name="evenfold", daemon=True)
        thread.start()
        # In short waits: once MLflow is imported, a signal no longer wakes a main thread that waits without end.
        while thread.is_alive():
            thread.join(0.1)
        for error in failed:
            raise error
        return done[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: Any) -> None:
    if _STOPPING.is_set():
        os._exit(128 + number)
    _STOPPING.set()
    name = signal.Signals(number).name
    cursor = "\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else ""  # a live bar hides it
    message = f"{cursor}evenfold: stopped by {_NAMES.get(name, name)}; what is finished is kept, and the same command "
    with contextlib.suppress(OSError):
        os.write(2, f"{message}goes on from there.\n".encode())
    _end_all()
    os._exit(128 + number)


def _end_all() -> None:
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=_quietly, args=(ending,), daemon=True) for ending in list(_ENDINGS.values())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _quietly(ending: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):  # what cannot be marked now is found and completed by the next run
        ending()

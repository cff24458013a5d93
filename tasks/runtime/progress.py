"""Work under way: its progress, said to whoever listens, its wait for servers out of reach, its end within seconds."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from evenfold.splitters.errors import EvaluationError, SplitError, redacted

from .home import Home

R = TypeVar("R")
Say = Callable[[str, int, int], None]
CALLED_WITH: list[str] = []  # the words of our own command line, where this process is one


def log(message: str, **facts: Any) -> None:
    """Write a line of ``message name=value ...`` to the log of the run under way, where there is one."""
    from prefect import get_run_logger
    from prefect.exceptions import MissingContextError

    with contextlib.suppress(MissingContextError):
        get_run_logger().info(" ".join([message, *(f"{name}={value}" for name, value in facts.items())]))


def _to_the_log(what: str, done: int, of: int) -> None:
    """Say in the flow's log what is under way: every change of work, and every tenth of it."""
    if of > 1 and (done == of or done % max(1, of // 10) == 0):
        log(f"{what}: {done:,} of {of:,}")
    elif done == 0:
        log(f"{what} ...")


@contextlib.contextmanager
def setting(variable: ContextVar[R], value: R) -> Iterator[None]:
    """Let a variable of the context have a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


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
    """Show in one line of a notebook's cell what is under way in the block, and in the end how long it took.

    Nothing where somebody listens already, or there is no notebook; the log is told as well.
    """
    # IPython's display where a kernel runs this; elsewhere nothing is imported for it.
    ipython: Any = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if getattr(shell, "kernel", None) is None or SAY.get() is not _to_the_log:
        yield
        return
    begun = time.monotonic()
    line = ipython.display.display({"text/plain": ""}, raw=True, display_id=True)

    def show(words: str) -> None:
        line.update({"text/plain": f"{words} {time.monotonic() - begun:.0f} s"}, raw=True)

    def say_here(what: str, done: int, of: int) -> None:
        _to_the_log(what, done, of)
        show(f"{what}: {done:,} of {of:,}," if of > 1 else f"{what},")

    with setting(SAY, say_here):
        yield
    show("done after")


SECONDS = 2.0
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
ENDINGS: list[Callable[[], object]] = []  # what is said of each run under way, where this process is stopped


@contextlib.contextmanager
def at_stop(ending: Callable[[], object]) -> Iterator[None]:
    """Have ``ending`` called where a signal stops this process inside the block."""
    ENDINGS.append(call := partial(copy_context().run, ending))
    try:
        yield
    finally:
        ENDINGS.remove(call)


@contextlib.contextmanager
def ending_at_signals() -> Iterator[None]:
    """Let a signal inside the block end this process within seconds, with one line, and exit code 128 and its number.

    One that is ignored stays so. Prefect's own end, by an exception in the main thread, would wait for fits under way.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    wakened = signal.set_wakeup_fd(theirs.fileno())  # is written to also while the main thread computes
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in heard}
    ender = threading.Thread(target=_end, args=(ours,), daemon=True)
    ender.start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakened)
        theirs.close()
        ender.join()  # of a signal that was heard it ends the process: what Prefect raised of it here is not printed


def _end(ours: socket.socket) -> None:
    while (byte := ours.recv(1)) and byte[0] not in SIGNALS:  # others' signals are heard here too
        continue
    if not byte:
        return ours.close()  # else it stays open to the end: of a second signal nothing is said either
    number = byte[0]
    cursor = "\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else ""  # a live bar hides it
    message = f"{cursor}evenfold: stopped by {SIGNALS[signal.Signals(number)]}; what is finished is kept, and the same "
    with contextlib.suppress(OSError):
        os.write(2, f"{message}command goes on from there.\n".encode())
    threading.excepthook = lambda _: None  # what cannot be marked now is found and completed by the next run
    threads = [threading.Thread(target=ending, daemon=True) for ending in ENDINGS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS / len(threads))
    os._exit(128 + number)


# Retries of a flow of Prefect's have one delay, and try a user's mistake as often.
AGAIN_SECONDS = (60.0, 300.0, 900.0)
SOON_SECONDS = (1.0, 3.0)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from; libraries wrap it, and ``raise ... from None`` leaves it as the context."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def unreachable(error: BaseException) -> bool:
    """Return whether an error comes from a server or store that could not be reached, is overloaded, or failed."""
    errors = {("httpx", "TransportError"), ("botocore", "HTTPClientError"), ("aiohttp", "ClientConnectionError")}
    for cause in causes(error):
        kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(cause).__mro__}
        client = type(cause).__module__.partition(".")[0] in ("requests", "urllib3", "http")
        busy = "database is locked" in str(cause)  # as SQLite says of a store that another process holds
        answer = getattr(cause, "response", None) if ("httpx", "HTTPStatusError") in kinds else None
        failed = answer is not None and answer.status_code >= 500  # as Prefect answers while its database is away
        if client or busy or failed or isinstance(cause, ConnectionError) or kinds & errors:
            return True
    return False


def through_outages(work: Callable[[], R]) -> R:
    """Return what ``work`` returns; it must be able to go on where it stopped.

    Where a server is out of reach, a deployed run waits 1, 5 and 15 minutes and does it again, and ``plain`` 1 and 3
    seconds; at a terminal, where Prefect tries tasks again, and in the end, the outage is an EvaluationError.
    """
    from prefect.context import FlowRunContext  # whoever only asks what an error is does without it

    context = FlowRunContext.get()
    run = context.flow_run if context else None
    waits = iter(SOON_SECONDS if run is None else AGAIN_SECONDS if run.deployment_id is not None else ())
    while True:
        try:
            return work()
        except Exception as error:
            seconds = next(waits, None)
            if seconds is None or not unreachable(error):
                raise outage_of(error) from error
            log(str(outage_of(error)), again_in_seconds=seconds)
            time.sleep(seconds)


def outage_of(error: Exception) -> EvaluationError:
    """Return what is said of an outage; raises an error that is none."""
    if isinstance(error, EvaluationError) or not unreachable(error):
        raise error
    words = redacted(str(error).strip().partition("\n")[0][:300]) or type(error).__name__
    return EvaluationError(
        f"a server or store that this needs is busy or out of reach ({words}); what is finished is kept: run it again."
    )


@contextlib.contextmanager
def room(home: Home) -> Iterator[None]:
    """Say in a sentence that a disk is full, whatever met it first: raises EvaluationError instead of its error."""
    try:
        yield
    except (EvaluationError, SplitError):  # not a gate or a model that failed for want of room: that is the news
        raise
    except Exception as error:
        full = r"disk is full|No space left on device|disk I/O error"  # as SQLite says it, in words only
        numbers = {cause.errno for cause in causes(error) if isinstance(cause, OSError)}
        if not numbers & {errno.ENOSPC, errno.EDQUOT} and not any(re.search(full, str(e)) for e in causes(error)):
            raise
        raise EvaluationError(
            f"no space is left, or the disk refuses to write, for {home.path}, {home.shared} or {home.tracking_uri}; "
            "make some (evenfold clean --older-than 30d) and run it again: what was finished is kept."
        ) from error

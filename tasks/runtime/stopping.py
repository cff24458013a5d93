"""An end within seconds where one is asked for: by Ctrl-C, by a supervisor's SIGTERM, by a terminal that closes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import partial
from typing import Any

SECONDS = 2.0
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
if sys.platform != "win32":
    SIGNALS[signal.SIGHUP] = "SIGHUP"
ENDINGS: list[Callable[[], object]] = []  # what is said of each run under way, where this process is stopped


@contextlib.contextmanager
def at_stop(ending: Callable[[], object]) -> Iterator[None]:
    """Have ``ending`` called where a signal stops this process inside the block."""
    ENDINGS.append(call := partial(copy_context().run, ending))
    try:
        yield
    finally:
        ENDINGS.remove(call)


def crash(flow_run: Any) -> None:
    """End a flow run as crashed, as Prefect calls what was stopped; nothing where there is none yet."""
    if flow_run is None:
        return
    from prefect.client.orchestration import get_client  # which help and completion do not need
    from prefect.states import Crashed

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run, Crashed(message="Stopped by a signal."))


@contextlib.contextmanager
def ending_at_signals() -> Iterator[None]:
    """Let a signal inside the block end this process within seconds, with one line, and exit code 128 and its number.

    A signal that the process was told to ignore stays ignored. Prefect's own end, by an exception in the main thread,
    would wait for the fits under way, which no thread can be made to leave.
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
    threads = [threading.Thread(target=_quietly, args=(ending,), daemon=True) for ending in ENDINGS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS / len(threads))
    os._exit(128 + number)


def _quietly(ending: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):  # what cannot be marked now is found and completed by the next run
        ending()

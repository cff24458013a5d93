"""No process outlives the flow that started it, however that flow ends.

A small guard waits for the end of the flow's process, even by kill -9, on a pipe that only that process holds, and
ends what is marked: servers and starters of ours, marked one by one, always; what inherited the mark that the
environment has while a flow runs (a pool's workers, those of a fit) only where the process ended before the flow did.
What the user starts after a flow, or in a session of its own, is left alone. This file imports the standard library
alone, because the guard runs it by itself. Linux: elsewhere there is no guard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARK = "EVENFOLD_STARTED_BY"
INSIDE = "-inside"  # ends the mark of what was started while a flow ran, by whomever
GRACE_SECONDS = 5.0
_GUARDS: dict[int, subprocess.Popen[bytes]] = {}
_COUNTING = threading.Lock()
_under_way = 0
_mark_before: str | None = None


def in_each_fork(reset: Callable[[], None]) -> None:
    """Have ``reset`` run first in every process that is forked from this one, which has its memory but no threads."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


def _begin_anew() -> None:
    global _COUNTING, _under_way, _mark_before
    _COUNTING, _under_way, _mark_before = threading.Lock(), 0, None
    for process in _GUARDS.values():  # which wait for the end of all who hold their pipes
        if process.stdin:
            process.stdin.close()


in_each_fork(_begin_anew)


def guard() -> None:
    """Start this process's guard, once; it ends what ``marked_environment`` was given to."""
    if os.getpid() in _GUARDS or not Path("/proc/self/environ").exists():
        return
    _GUARDS[os.getpid()] = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark_of(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def marked_environment() -> dict[str, str]:
    """Return the environment for a process of ours, which this process's guard ends with this process."""
    own = {MARK: mark_of(os.getpid())} if os.getpid() in _GUARDS else {}
    return {**os.environ, **own}


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """End what is started inside the block, except what leads a session of its own, if this process ends inside it.

    The environment has a mark meanwhile, and is as before when the last of the blocks that overlap has ended.
    """
    global _under_way, _mark_before
    process = os.getpid()
    with _COUNTING:
        guard()
        _under_way += 1
        if _under_way == 1 and os.getpid() in _GUARDS:
            _mark_before = os.environ.get(MARK)
            os.environ[MARK] = mark_of(os.getpid()) + INSIDE
            _tell_guard(b"+")
    try:
        yield
    finally:
        if os.getpid() == process:  # a fork that leaves the block has not entered it
            with _COUNTING:
                _under_way -= 1
                if _under_way == 0 and os.environ.pop(MARK, None) is not None:
                    _tell_guard(b"-")
                    os.environ.update({} if _mark_before is None else {MARK: _mark_before})


def _tell_guard(what: bytes) -> None:
    process = _GUARDS.get(os.getpid())  # none in a fork
    with contextlib.suppress(OSError):  # somebody has ended the guard
        os.write(process.stdin.fileno() if process and process.stdin else -1, what)


def mark_of(pid: int) -> str:
    """Return what names a process for good: its number and when it started, for numbers are used again."""
    return f"{pid}-{_started(pid)}"


def _started(pid: int) -> str:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return "gone"


def orphans() -> list[tuple[int, str]]:
    """Return (number, command) of every marked process whose flow has ended."""
    return [
        (pid, _command(pid))
        for pid, mark in _marked()
        if mark.removesuffix(INSIDE) != mark_of(int(mark.partition("-")[0])) and pid != os.getpid()
    ]


def _marked() -> list[tuple[int, str]]:
    """Return (number, mark) of every process that a flow has started, as far as it is not a user's or a guard."""
    marked = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            entries = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            marks = [entry.partition("=")[2] for entry in entries if entry.startswith(f"{MARK}=")]
            marked += [(int(folder.name), mark) for mark in marks if _is_ours(int(folder.name), mark)]
    return marked


def _is_ours(pid: int, mark: str) -> bool:
    # To start a session of its own is how one says that a process is to stay.
    return not _is_guard(pid) and not (mark.endswith(INSIDE) and os.getsid(pid) == pid)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _is_guard(pid: int) -> bool:
    return f"{Path(__file__).name} " in f"{_command(pid)} "


def end(pids: list[int]) -> None:
    """Ask processes to end, and make those that do not."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, how)
        until = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.1)


def _wait_and_end(mark: str) -> None:
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    said = sys.stdin.buffer.read()  # returns when the flow's process has ended, whatever ended it
    marks = {mark, mark + INSIDE} if said.endswith(b"+") else {mark}
    end([pid for pid, theirs in _marked() if theirs in marks])


if __name__ == "__main__":
    _wait_and_end(sys.argv[1])

"""No process outlives the flow that started it, however that flow ends.

A flow marks its environment, which its embedded server and its pool workers inherit. A small guard waits for the
flow's end, even by kill -9, on a pipe that only the flow holds, and ends what is still marked. This file imports the
standard library alone, because the guard runs it by itself. Linux: elsewhere there is no guard.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

MARK = "EVENFOLD_STARTED_BY"
GRACE_SECONDS = 5.0
_GUARDS: dict[int, subprocess.Popen[bytes]] = {}


def guard() -> None:
    """Start this process's guard, once; what the process starts from now on is marked."""
    if os.getpid() in _GUARDS or not Path("/proc/self/environ").exists():
        return
    os.environ[MARK] = mark_of(os.getpid())
    _GUARDS[os.getpid()] = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, os.environ[MARK]],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def mark_of(pid: int) -> str:
    """Return what names a process for good: its number and when it started, for numbers are used again."""
    return f"{pid}-{_started(pid)}"


def _started(pid: int) -> str:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return "gone"


def process_mark() -> str:
    """Return what names this process for good among those of every machine, without the machine's name."""
    return f"{_machine()}-{_boot()}-{mark_of(os.getpid())}"


def has_ended(mark: str) -> bool:
    """Return whether the process that ``process_mark`` named is no more; False where this machine cannot know."""
    machine, _, rest = mark.partition("-")
    boot, _, process = rest.partition("-")
    number = process.partition("-")[0]
    if machine != _machine() or not number.isdecimal() or process.endswith("gone"):
        return False
    return boot != _boot() or mark_of(int(number)) != process


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    return "0"


def orphans() -> list[tuple[int, str]]:
    """Return (number, command) of every marked process whose flow has ended."""
    return [
        (pid, _command(pid))
        for pid, mark in _marked()
        if mark != mark_of(int(mark.partition("-")[0])) and pid != os.getpid() and not _is_guard(pid)
    ]


def _marked() -> list[tuple[int, str]]:
    marked = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            entries = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            marks = [entry.partition("=")[2] for entry in entries if entry.startswith(f"{MARK}=")]
            marked += [(int(folder.name), mark) for mark in marks]
    return marked


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
    sys.stdin.buffer.read()  # returns when the flow has ended, whatever ended it
    end([pid for pid, theirs in _marked() if theirs == mark and pid != os.getpid()])


if __name__ == "__main__":
    _wait_and_end(sys.argv[1])

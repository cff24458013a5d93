"""Locks of files, which free themselves when their holder dies, and of threads, which a fork does not inherit."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from filelock import FileLock


@contextmanager
def locked(folder: Path, key: str) -> Iterator[None]:
    """Hold the lock that ``key`` names while the block runs; other threads, processes and flows of this host wait."""
    folder.mkdir(parents=True, exist_ok=True)
    # Keys hold slashes, and names of files end at 255 bytes.
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.lock"
    # No singleton and not by thread: two holders in one process are two.
    with FileLock(path, thread_local=False, is_singleton=False):
        yield


class Lock:
    """A lock of this process's threads; a fork has one of its own, for whoever holds this one may not be there."""

    def __init__(self) -> None:
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let one thread at a time into the block."""
        with self._lock:  # this very one to the end, also in a fork that leaves the block
            yield


def overlapping(make: Callable[[], Iterator[None]]) -> Callable[[], AbstractContextManager[None]]:
    """Make a generator a context that blocks of several threads hold together.

    The first block enters it, the last that overlaps leaves it. A fork takes it as it is, with as many that hold it.
    """
    lock = Lock()
    holds: list[AbstractContextManager[Any]] = []  # one context, as often as blocks hold it

    @contextmanager
    @wraps(make)
    def hold() -> Iterator[None]:
        with lock.held():
            if holds:
                context = holds[0]
            else:
                context = contextmanager(make)()
                context.__enter__()
            holds.append(context)
        try:
            yield
        finally:
            with lock.held():
                holds.pop()
                if not holds:
                    context.__exit__(None, None, None)

    return hold

"""Locks that free themselves when their holder dies: the operating system's, through filelock."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from .home import Home
from .shared import Lock

# Prefect copies cache policies with their lock manager; what is held has to be found by every copy.
_HELD: dict[str, tuple[str, FileLock]] = {}
_GUARD = Lock()
_TAKEN: ContextVar[list[tuple[str, str]] | None] = ContextVar("evenfold_taken", default=None)


@contextmanager
def locked(folder: Path, key: str) -> Iterator[None]:
    """Hold the lock that ``key`` names while the block runs; other threads, processes and flows wait."""
    # No singleton and not by thread: two holders in one process are two, and Prefect releases in another thread.
    with FileLock(_lock_path(folder, key), thread_local=False, is_singleton=False):
        yield


def _lock_path(folder: Path, key: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    # Keys hold slashes, and names of files end at 255 bytes.
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.lock"


@contextmanager
def none_left_locked() -> Iterator[None]:
    """Release what Prefect has locked inside the block when it ends: interrupted while it locks, it does not itself."""
    taken: list[tuple[str, str]] = []
    token = _TAKEN.set(taken)
    try:
        yield
    finally:
        _TAKEN.reset(token)
        for name, holder in taken:
            with _GUARD.held():
                left = _HELD.pop(name)[1] if _HELD.get(name, ("",))[0] == holder else None
            if left is not None:
                left.release()


@dataclass(frozen=True)
class FileLocks:
    """Prefect's lock manager on operating-system file locks.

    Prefect's own leaves a lock for ever when its holder is killed, and the next run hangs. The operating system
    releases a dead process's locks at once. One host only. Without a folder, the home's is meant, whichever that is
    when a lock is asked for.
    """

    folder: Path | None = None

    def acquire_lock(
        self, key: str, holder: str, acquire_timeout: float | None = None, hold_timeout: float | None = None
    ) -> bool:
        """Return whether the lock is held by ``holder`` now; waits for ever unless given a time in seconds."""
        if self.is_lock_holder(key, holder):
            return True
        lock = FileLock(self._path(key), thread_local=False, is_singleton=False)
        taken = _TAKEN.get()
        if taken is not None:
            taken.append((self._name(key), holder))
        try:
            lock.acquire(timeout=-1 if acquire_timeout is None else acquire_timeout)
        except Timeout:
            return False
        with _GUARD.held():
            _HELD[self._name(key)] = holder, lock
        return True

    def release_lock(self, key: str, holder: str) -> None:
        """Release the lock; only its holder may."""
        if not self.is_lock_holder(key, holder):
            raise ValueError(f"{holder} does not hold the lock of {key}")
        with _GUARD.held():
            _, lock = _HELD.pop(self._name(key))
        lock.release()

    def is_locked(self, key: str) -> bool:
        """Return whether anybody on this host holds the lock."""
        return not self.wait_for_lock(key, 0)

    def is_lock_holder(self, key: str, holder: str) -> bool:
        """Return whether ``holder`` holds the lock, in this process."""
        with _GUARD.held():
            return _HELD.get(self._name(key), ("",))[0] == holder

    def wait_for_lock(self, key: str, timeout: float | None = None) -> bool:
        """Return whether the lock was free within ``timeout`` seconds; waits for ever on None."""
        lock = FileLock(self._path(key), thread_local=False, is_singleton=False)
        try:
            with lock.acquire(timeout=-1 if timeout is None else timeout):
                return True
        except Timeout:
            return False

    async def aacquire_lock(
        self, key: str, holder: str, acquire_timeout: float | None = None, hold_timeout: float | None = None
    ) -> bool:
        """Do as ``acquire_lock``, without blocking the event loop."""
        return await asyncio.to_thread(self.acquire_lock, key, holder, acquire_timeout, hold_timeout)

    async def await_for_lock(self, key: str, timeout: float | None = None) -> bool:
        """Do as ``wait_for_lock``, without blocking the event loop."""
        return await asyncio.to_thread(self.wait_for_lock, key, timeout)

    def _name(self, key: str) -> str:
        return str(self._path(key))

    def _path(self, key: str) -> Path:
        return _lock_path(self.folder or Home.here().locks, key)

"""Locks that free themselves when their holder dies: the operating system's, through filelock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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

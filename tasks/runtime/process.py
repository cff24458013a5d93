"""A process as others leave it to us: its environment, its cores, and what its threads change together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, wraps
from typing import ParamSpec

P = ParamSpec("P")


def overlapping(make: Callable[P, Iterator[None]]) -> Callable[P, AbstractContextManager[None]]:
    """Make a generator a context of threads: the first block enters it, the last that overlaps leaves it."""
    lock, entered, holders = threading.Lock(), ExitStack(), 0

    @contextmanager
    @wraps(make)
    def hold(*args: P.args, **kwargs: P.kwargs) -> Iterator[None]:
        nonlocal holders
        with lock:
            if not holders:
                entered.enter_context(contextmanager(make)(*args, **kwargs))
            holders += 1
        try:
            yield
        finally:
            with lock:
                holders -= 1
                if not holders:
                    entered.close()

    return hold


def environment(beginning: str = "") -> dict[str, str]:
    """Return the environment, or what of it begins so in either case, though other threads take variables away."""
    return {
        name: value
        for name in list(os.environ)
        if name.upper().startswith(beginning) and (value := os.environ.get(name)) is not None
    }


@cache  # of this process, before a fit under way has limited it
def cores() -> int:
    """Return the cores that the environment, the processor's affinity and a container's quota leave this process."""
    import joblib  # which a command that fits nothing does without

    return int(joblib.cpu_count())

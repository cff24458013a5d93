"""What models warn of while they are fitted, kept beside their score instead of printed once per fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_HEARD: ContextVar[list[str] | None] = ContextVar("evenfold_heard", default=None)
_before: list[Any] = [warnings.showwarning]


def _hear(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any, **how: Any) -> None:
    if str(message).startswith("The argument 'eval_set' is deprecated"):
        return  # LightGBM 4.7's, which codes the labels of no other argument
    heard = _HEARD.get()
    if heard is None:
        _before[0](message, category, filename, lineno, *more, **how)
        return
    first = (str(message).strip().splitlines() or [""])[0]
    sentence = f"{category.__name__}: {first[:160].rstrip(' :.')}"
    if sentence not in heard:
        heard.append(sentence)


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Yield a list that gets the first line of each warning in the block, in this thread, and print none.

    ``warnings.catch_warnings`` would do it for every thread at once, and models are fitted in several.
    """
    if warnings.showwarning is not _hear:
        _before[0], warnings.showwarning = warnings.showwarning, _hear
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)

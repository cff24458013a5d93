"""A sign of life from commands that have no steps to count."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

AFTER = 2.0  # seconds; what is done sooner needs no sign


@contextmanager
def busy(what: str, console: Console | None = None) -> Iterator[None]:
    """On a terminal, say ``what`` is under way and for how long once it takes over two seconds; elsewhere nothing."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from .console import consoles

    console = console or consoles()[1]
    if not console.is_terminal:
        yield
        return
    shown = Progress(
        SpinnerColumn(), TextColumn(what, markup=False), TimeElapsedColumn(), console=console, transient=True
    )
    shown.add_task(what, total=None)
    timer = threading.Timer(AFTER, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a start that is under way is finished before it is stopped
        shown.stop()

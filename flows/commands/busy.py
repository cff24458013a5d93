"""What commands have in common: a home, a sign of life where there are no steps to count, and an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .console import Words

AFTER = 2.0  # seconds; what is done sooner needs no sign


@contextmanager
def busy(what: str, at_home: bool = True) -> Iterator[Any]:
    """Yield the home; None where none is needed.

    On a terminal, say ``what`` is under way and for how long once it takes over two seconds; elsewhere nothing.
    """
    from evenfold.tasks.runtime.home import Home
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from .console import consoles

    home = Home.here() if at_home else None
    console = consoles()[1]
    if not console.is_terminal:
        yield home
        return
    spinner = Progress(
        SpinnerColumn(), TextColumn(what, markup=False), TimeElapsedColumn(), console=console, transient=True
    )
    spinner.add_task(what, total=None)
    timer = threading.Timer(AFTER, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield home
    finally:
        timer.cancel()
        timer.join()  # a start that is under way is finished before it is stopped
        spinner.stop()


def answer(came: Any, as_json: bool, show: str | Callable[[Words, Any], None]) -> None:
    """Print what came of a command: as one JSON object, or in the words ``show``, or as this prints it."""
    from pydantic import BaseModel

    from .console import consoles

    out, _ = consoles()
    if as_json:
        out.print_json(data=came.model_dump(mode="json") if isinstance(came, BaseModel) else came)
    elif isinstance(show, str):
        out.print(show)
    else:
        show(out, came)

"""A terminal of any width: sentences break between words, and tables leave columns out before they cut words."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


class Words(Console):
    """A console that breaks a line of text between words and keeps its indentation; elsewhere lines stay whole.

    What is printed with ``soft_wrap=True`` stays whole on a terminal too, so that it can be copied.
    """

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does; a single text on a terminal is wrapped line by line."""
        if not self.is_terminal or len(objects) != 1 or not isinstance(objects[0], str) or "soft_wrap" in how:
            super().print(*objects, **how)
            return
        for line in objects[0].split("\n"):
            words = line.lstrip(" ")
            text = self.render_str(words, markup=how.get("markup", True), emoji=False, highlight=False)
            text.stylize(how.get("style") or "")
            lead = len(line) - len(words)
            for part in text.wrap(self, max(self.width - lead, 20)) or [text]:
                part.rstrip()
                super().print(Text(" " * lead) + part, soft_wrap=True)


def first_that_fits(console: Console, tables: Iterable[Table]) -> Table:
    """Return the first table that is no wider than the console, else the last."""
    made, wide = None, console.options.update(max_width=1_000)
    for made in tables:
        if Measurement.get(console, wide, made).maximum <= console.width:
            break
    assert made is not None
    return made


def consoles() -> tuple[Console, Console]:
    """Return where results go and where progress and errors go."""
    width = None if sys.stdout.isatty() else 140
    out = Words(highlight=False, soft_wrap=True, emoji=False, width=width)
    return out, Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

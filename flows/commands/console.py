"""A terminal of any width: sentences break between words, and tables leave columns out before they cut words."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from evenfold.reports.charts import shortened
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

PIPED = 140  # columns, where nobody says how wide it is


class Words(Console):
    """A console that breaks a line of text between words and keeps its indentation; elsewhere lines stay whole.

    Elsewhere is where nobody reads: no terminal, and no COLUMNS. What is printed with ``soft_wrap=True`` stays whole
    on a terminal too, so that it can be copied. Brackets are text, for names have them; only ``styled`` takes markup.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, **how)

    @property
    def breaks(self) -> bool:
        """Return whether lines of text are broken."""
        return self.is_terminal or _columns() is not None

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does; a single text on a terminal is wrapped line by line."""
        if not self.breaks or len(objects) != 1 or not isinstance(objects[0], str) or "soft_wrap" in how:
            super().print(*objects, **how)
            return
        hang = how.pop("hang", 0)
        for line in objects[0].split("\n"):
            words = line.lstrip(" ")
            text = self.render_str(words, markup=how.get("markup", False), emoji=False, highlight=False)
            text.stylize(how.get("style") or "")
            lead = len(line) - len(words)
            for number, part in enumerate(text.wrap(self, max(self.width - lead - hang, 20)) or [text]):
                part.rstrip()
                super().print(Text(" " * (lead + (hang if number else 0))) + part, soft_wrap=True)

    def styled(self, words: str, *values: object, **how: Any) -> None:
        """Print words with rich's markup, as ``[bold]{}[/] of {}``; what stands for each ``{}`` is printed as it is."""
        self.print(words.format(*(escape(str(value)) for value in values)), markup=True, **how)

    def on_broken_pipe(self) -> None:
        """Go on in silence where nobody reads any more, as behind ``| head``: the exit code stays the command's own."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def say(self, text: str, hang: int = 0, style: str | None = None) -> None:
        """Print words; lines that had to be broken go on ``hang`` further in."""
        self.print(text, style=style, **({"hang": hang} if self.breaks else {}))


Cells = Sequence[Sequence[str]]

MOST_OF_A_NAME = 250.0  # in pixels of a page's text: about 40 letters


def lined_up(rows: Cells, left: int = 1, indent: int = 2) -> list[str]:
    """Return rows of equal length as lines, columns two blanks apart; all but the first ``left`` are right-aligned.

    No line ends in blanks. Long names, at the head of a column and of a row, lose their middle.
    """
    head = [[shortened(cell, MOST_OF_A_NAME) for cell in row] for row in rows[:1]]
    rows = [*head, *([shortened(row[0], MOST_OF_A_NAME), *row[1:]] for row in rows[1:])]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def cells(row: Sequence[str]) -> Iterator[str]:
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (width - cell_len(cell))
            yield cell + blanks if place < left else blanks + cell

    return [(" " * indent + "  ".join(cells(row))).rstrip() for row in rows]


def consoles() -> tuple[Words, Console]:
    """Return where results go and where progress and errors go; COLUMNS says how wide, also where it is piped."""
    width = _columns() or (None if sys.stdout.isatty() else PIPED)
    out = Words(highlight=False, soft_wrap=True, emoji=False, width=width)
    return out, Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)


def _columns() -> int | None:
    setting = os.environ.get("COLUMNS", "")
    return int(setting) if setting.isdigit() and int(setting) else None

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
    """A console whose ``say`` breaks lines between words and keeps their indentation; elsewhere lines stay whole.

    Elsewhere is where nobody reads: no terminal, and no COLUMNS. What is printed stays whole on a terminal too, so that
    it can be copied. Brackets are text, for names have them; only ``styled`` takes markup.
    """

    @property
    def breaks(self) -> bool:
        """Return whether lines of text are broken."""
        return self.is_terminal or _columns() is not None

    def say(self, text: str, style: str = "") -> None:
        """Print words; a line that had to be broken goes on two blanks further in."""
        for line in text.split("\n"):
            words = line.lstrip(" ")
            lead, parts = len(line) - len(words), [words]
            if self.breaks and words:
                parts = [part.plain.rstrip() for part in Text(words).wrap(self, max(self.width - lead - 2, 20))]
            for number, part in enumerate(parts):
                self.print(" " * (lead + (2 if number else 0)) + part, style=style)

    def styled(self, words: str, *values: object) -> None:
        """Print words with rich's markup, as ``[bold]{}[/] of {}``; what stands for each ``{}`` is printed as it is."""
        self.print(words.format(*(escape(str(value)) for value in values)), markup=True, soft_wrap=not self.breaks)

    def on_broken_pipe(self) -> None:
        """Go on in silence where nobody reads any more, as behind ``| head``: the exit code stays the command's own."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    how: dict[str, Any] = {"highlight": False, "soft_wrap": True, "emoji": False, "markup": False}
    return Words(width=width, **how), Console(stderr=True, **how)


def _columns() -> int | None:
    setting = os.environ.get("COLUMNS", "")
    return int(setting) if setting.isdigit() and int(setting) else None

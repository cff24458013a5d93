"""A terminal of any width; where nobody reads, as behind a pipe, lines are as long as they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

ENDLESS = 1_000_000  # columns, where nobody says how wide it is: no line is broken there


class Words(Console):
    """A console whose ``say`` and ``tell`` break lines between words. Brackets are text, for names have them."""

    def say(self, text: str, style: str = "") -> None:
        """Print words; a line that had to be broken goes on below its own beginning."""
        for line in text.split("\n"):
            words = line.lstrip(" ")
            indented = Padding(Text(words), (0, 0, 0, len(line) - len(words)), expand=False)
            self.print(indented if words else "", style=style)

    def tell(self, rows: Sequence[Sequence[str]], left: int = 1, indent: int = 2) -> None:
        """Print rows of equal length, columns two blanks apart; all but the first ``left`` are right-aligned."""
        table = Table.grid(padding=(0, 2))
        for place in range(len(rows[0])):
            table.add_column(justify="left" if place < left else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        self.print(Padding(table, (0, 0, 0, indent), expand=False))

    def on_broken_pipe(self) -> None:
        """Go on in silence where nobody reads any more, as behind ``| head``: the exit code stays the command's own."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output() -> Words:
    """Return where results go; COLUMNS says how wide it is, also where it is piped."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Words(width=None if is_known else ENDLESS, highlight=False, emoji=False, markup=False)


def errors() -> Console:
    """Return where progress and errors go."""
    return Console(stderr=True, soft_wrap=True, highlight=False, emoji=False, markup=False)

"""Pages at a terminal; on anything else the same words without colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from .page import Page

STYLES = {"failed": "bold red", "error": "bold red", "warning": "yellow", "note": ""}


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
        grid = Grid.grid(padding=(0, 2))
        for place in range(len(rows[0])):
            grid.add_column(justify="left" if place < left else "right", overflow="fold")
        for row in rows:
            grid.add_row(*map(Text, row))
        self.print(Padding(grid, (0, 0, 0, indent), expand=False))

    def show(self, page: Page, *details: str, place: Path | None = None) -> None:
        """Print a page: title, verdict and lead, figures, what it holds but for pictures, and what was found.

        ``details``: the names of those that are printed as well. ``place``: where the page was written.
        """
        from .page import Paragraph, Table  # a command that shows no page does not wait for them

        verdict = f"{page.verdict.mark} {page.verdict.word}. " if page.verdict.word else ""
        self.say(f"{page.title}\n", "bold")
        if page.lead:
            self.say(f"  {verdict}{page.lead}")
        if page.tiles:
            self.tell([[each.value, "; ".join(filter(None, [each.label, each.note]))] for each in page.tiles], left=2)
        for section in (*page.sections, *(each for each in page.details if each.id in details)):
            blocks = [block for block in section.blocks if isinstance(block, (Paragraph, Table))]
            if blocks:
                self.say(f"\n  {section.title}")
            for block in blocks:
                if isinstance(block, Table):
                    rows = [block.head, *block.rows] if block.head else block.rows
                    self.tell([list(map(str, row)) for row in rows])
                else:
                    self.say(f"    {block.words}")
        if page.findings:
            self.print()
        for remark in page.findings:
            check = f" [{remark.check}]" if remark.check else ""
            self.say(f"  {remark.severity}: {remark.message}{check}", STYLES[remark.severity])
        if place is not None:
            self.say(f"  page {place}")

    def on_broken_pipe(self) -> None:
        """Go on in silence where nobody reads any more, as behind ``| head``: the exit code stays the command's own."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

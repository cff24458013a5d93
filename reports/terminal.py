"""Pages and progress at a terminal, in lines as wide as it is; behind a pipe the same in whole lines without colour."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evenfold.splitters.errors import amount
from rich import progress as signs
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from evenfold.manifests import Header

    from .page import Page

Record = Mapping[str, str | int]  # of something that is kept, the cells of its line by the heads of their columns
STYLES = {"failed": "bold red", "error": "bold red", "warning": "yellow", "note": ""}


def output() -> Words:
    """Return where results go; COLUMNS says how wide it is, also where it is piped; else no line is broken."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Words(width=None if is_known else 1_000_000, highlight=False, emoji=False, markup=False)


def errors() -> Console:
    """Return where progress and errors go."""
    return Console(stderr=True, soft_wrap=True, highlight=False, emoji=False, markup=False)


@contextmanager
def progress(command: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show that a command is under way: a bar of its steps on a terminal, elsewhere a line for each that takes 2 s.

    Yields what is told of each step: its name, and how much of how much is done.
    """
    console = errors()
    bar = signs.Progress(
        signs.SpinnerColumn(), signs.TextColumn("{task.description}", markup=False), signs.BarColumn(),
        signs.MofNCompleteColumn(), signs.TimeRemainingColumn(elapsed_when_finished=True),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    under_way: dict[str, tuple[signs.TaskID, float]] = {}
    guard = threading.Lock()

    def say(what: str, done: int, of: int) -> None:
        with guard:
            if what not in under_way:
                under_way[what] = bar.add_task(what, total=None), time.monotonic()
            task, begun = under_way[what]
            bar.update(task, completed=done, total=of or None)
            if done == of:
                bar.remove_task(under_way.pop(what)[0])  # of a request of many there would be many
                if not console.is_terminal and (seconds := time.monotonic() - begun) >= 2:
                    console.print(f"{what}: {f'{of:,}, ' if of > 1 else ''}{seconds:.0f} s")

    bar.add_task(command, total=None)
    with bar:
        yield say


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
            if blocks := [block for block in section.blocks if isinstance(block, (Paragraph, Table))]:
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

    def show_header(self, header: Header, page: Path | None = None) -> None:
        """Print a manifest's header: what was asked, its identity, how many rows are where, and where its page is."""
        spec, kind = header["spec"], header["kind"]
        of = amount(header["n_rows"], "row"), amount(header["n_splits"], "draw" if kind == "draws" else "split")
        self.say(f"{header['name']} {header['version']}: {header['algorithm']['name']}, {', '.join(of)}", "bold")
        fields = spec.get("columns", {}) | spec
        words = [f"{name} {written(fields[name])}" for name in fields if name not in ("columns", "name", "strategy")]
        joined = [f"{generation['n']}: {generation['rows']:,}" for generation in header["generations"]]
        facts = {
            "asked": ", ".join(words), "split_id": header["split_id"], "plan_id": header["plan_id"],
            "fingerprint": header["fingerprint"], "parent": header["parent_split_id"],
            "generations": ", ".join(joined[1:] and joined), "page": page and str(page),
        }  # fmt: skip
        self.tell([[name, fact] for name, fact in facts.items() if fact], left=2)
        meanings = {-1: "never tested", -2: "locked", -3: "excluded"}
        meanings |= {part["code"]: part["name"] for part in header["parts"]}
        meanings |= {"draws": {0: "may be drawn"}, "pairs": {0: "in use"}}.get(kind, {})
        counts = [[meanings.get(int(code), f"fold {code}"), f"{rows:,}"] for code, rows in header["counts"].items()]
        if counts:  # of some thousand folds none are kept
            self.tell([["fold or part", "rows"], *counts])

    def show_records(self, listed: Mapping[str, Sequence[Record]], most: int | None = None) -> None:
        """Print a table of each kind of record that there are any of, the ``most`` newest, and how many are older."""
        for kind, records in listed.items():
            if newest := records[:most]:
                head = [kind, *list(newest[0])[1:]]
                self.tell([head, *([_cell(*each) for each in row.items()] for row in newest)], len(head), indent=0)
                older = len(records) - len(newest)
                self.say(f"and {older:,} older {kind}: evenfold list --all\n" if older else "")

    def on_broken_pipe(self) -> None:
        """Go on in silence where nobody reads any more, as behind ``| head``: the exit code stays the command's own."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def written(value: object) -> str:
    """Return a value of a specification in a word or two."""
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _cell(name: str, value: str | int) -> str:
    if name == "when":
        return datetime.fromisoformat(str(value)).strftime("%d %b %Y %H:%M")
    return f"{value:,}" if isinstance(value, int) else value[:8] if name in ("id", "run") else value

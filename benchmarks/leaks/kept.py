"""What each tool said of each table, kept line by line as it comes: a run that was stopped goes on where it was.

It imports nothing of ours: the peers' script, in the peers' environment, writes the same file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Answer = tuple[list[str], str]  # what is warned of, and the error of a tool that failed


class Kept:
    """The answers in a file, one a line, by tool, its version, and the digest of the table that it was shown."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known: dict[tuple[str, str, str], dict[str, Any]] = {}
        if file.exists():
            *whole, last = file.read_text(encoding="utf-8").split("\n")
            if last:  # a line that a kill cut short is written anew
                file.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
            for line in whole:
                told = json.loads(line)
                self.known[told["tool"], told["version"], told["digest"]] = told

    def ask(self, tool: str, version: str, digest: str, looks: Callable[[], Iterable[Answer]]) -> dict[str, Any]:
        """Return what a tool says of a table: what is kept, or what its looks at it come to together.

        CPU seconds are those of one look.
        """
        if (tool, version, digest) not in self.known:
            started = time.process_time()
            answers = list(looks())
            told = {
                **{"tool": tool, "version": version, "digest": digest},
                "alarms": sorted({alarm for alarms, _ in answers for alarm in alarms}),
                "seconds": (time.process_time() - started) / len(answers),
                "error": next((error for _, error in answers if error), ""),
            }
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(told) + "\n")
            self.known[tool, version, digest] = told
        return self.known[tool, version, digest]

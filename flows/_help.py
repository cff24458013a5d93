"""What --help shows: every command on one screen, in the order of a day's work, and examples that can be pasted."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

SHORT = {
    "demo": "Show the product on real data: a leak found, and .632.",
    "split": "Split FILE and record the manifest.",
    "evaluate": "Split FILE, train a model per fold, record the estimate.",
    "retrain": "Let new rows join, compare with the champion, register.",
    "extend": "Add new rows to a manifest; no assigned row moves.",
    "audit": "Say what is wrong with a split: leaks, rows, uneven folds.",
    "verify": "Prove that a manifest is what was written.",
    "diff": "Say which rows moved, joined or left between two manifests.",
    "show": "Show a manifest: asked, identity, how many rows are where.",
    "export": "Write the folds as scikit-learn, H2O, Spark, nnU-Net read them.",
    "import": "Make a manifest of folds that were decided elsewhere.",
    "join": "Write the rows that one fold trains on or tests.",
    "load": "Find a split in MLflow and download its manifest.",
    "compare": "Compare two evaluations row by row.",
    "tune": "Try a grid on every fold; what the winner is worth.",
    "folds": "Show what the number of folds does to the estimate.",
    "strategies": "Show what stratifying does to the estimate's variance.",
    "doctor": "Look at servers, stores, versions and clocks; what to fix.",
    "ui": "Open MLflow's and Prefect's pages on what was recorded.",
    "clean": "Remove old cached results; never manifests or records.",
}
EPILOG = (
    "\b\nExit codes: 0 done, 1 a gate failed, 2 bad input, 3 an evaluation failed.\n"
    "Every command has an example in its own --help, and --json for machines."
)
WIDTH = 76


class Commands(TyperGroup):
    """The commands in the order of SHORT; one that is missing there comes last, with its own first sentence."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in that order."""
        places = {name: place for place, name in enumerate(SHORT)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with a short help that fits a line, and an example that fits a screen."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and "\b" not in (command.help or ""):
            command.short_help = SHORT.get(cmd_name, command.short_help)
            command.help = pasted(command.help or "")
        return command


def pasted(text: str) -> str:
    """Return a help text whose example stands alone, broken between flags so that a shell can take it as it is."""
    before, found, example = text.partition("Example: ")
    if not found:
        return text
    lines = [""]
    for part in re.split(r" (?=-)", " ".join(example.split())):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append("    ")
        lines[-1] += part if not lines[-1].strip() else f" {part}"
    return f"{before}\b\nExample:\n  " + "\n  ".join(lines)

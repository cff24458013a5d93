"""The pages that come from the code (strategies, commands, names), made at each build and so never out of date."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).parent.parent
ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows")


def generated_pages() -> dict[str, str]:
    """Return the text of each generated page by its path below docs/."""
    return {
        **strategy_pages(),
        **finding_pages(),
        "commands.md": commands_page(),
        **reference_pages(),
        "changelog.md": changelog_page(),
    }


def strategy_pages() -> dict[str, str]:
    """Return a page per strategy, by its path, and the table of all."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "docs")]
    from cases import CASES
    from evenfold.splitters.conformance import CHECKS
    from strategy_pages import pages

    words = {check.promise: check.name for check in CHECKS if check.promise}
    return pages({type(case).__name__: case for case in reversed(CASES)}, words)


def finding_pages() -> dict[str, str]:
    """Return a page per check of the audit, by its path, and the table of all."""
    sys.path[:0] = [str(ROOT / "docs")]
    from finding_pages import pages

    return pages()


def commands_page() -> str:
    """Return every command with its help, its example and its flags, as the command line itself knows them."""
    import typer
    from evenfold.flows.cli import app

    group: Any = typer.main.get_command(app)
    parts = [
        "# Every command\n\nWritten from the command line's own help. `--json` prints one object for machines.\n\n"
        "Exit codes: 0 done, 1 a gate failed, 2 bad input (one sentence says what, and what would work), 3 an "
        "evaluation failed (the split and the finished folds are kept), 70 a bug. `evenfold --install-completion` "
        "completes commands in your shell.\n"
    ]
    for name in group.list_commands(None):
        command = group.commands[name]
        if command.hidden:
            continue
        text, _, example = inspect.cleandoc(command.help or "").partition("\b\nExample:\n")
        example = example.replace("\\\n", "")
        flags = [(_written(flag), flag.help) for flag in command.params if getattr(flag, "help", None)]
        rows = "".join(f"| `{flag}` | {(meaning or '').replace('|', ' ')} |\n" for flag, meaning in flags)
        parts.append(
            f"## {name}\n\n{text.strip()}\n\n```text\n{' '.join(example.split())}\n```\n\n"
            f"| flag or argument | what it does |\n|---|---|\n{rows}"
        )
    return "\n".join(parts)


def _written(flag: Any) -> str:
    """Return a flag with what stands for its value, as the help has it; an argument by its name."""
    choices = [each for each in get_args(flag.type_descriptor.annotation) if isinstance(each, str)]
    names, takes = ", ".join(flag.opts), flag.metavar or " or ".join(choices)
    return f"{names} {takes}" if names.startswith("-") and takes else takes or names


def reference_pages() -> dict[str, str]:
    """Return a page per room, filled by autodoc from the docstrings, and their index."""
    pages = {f"reference/{room}.md": reference_page(room) for room in ROOMS}
    entries = "\n".join(f"reference/{room}" for room in ROOMS)
    pages["reference.md"] = (
        "# Reference\n\nWritten from the docstrings: shapes, units, errors and complexity stand there.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\ncommands\n{entries}\n```\n"
    )
    return pages


def reference_page(room: str) -> str:
    """Return the page of one room: each name that it offers, in a list and by autodoc.

    What a room hands on from one below stands on that one's page alone, and is linked.
    """
    names = sorted(importlib.import_module(f"evenfold.{room}").__all__)
    home = {name: _room_of(name, room) for name in names}
    listed = " · ".join(f"{{py:obj}}`~evenfold.{home[name]}.{name}`" for name in names)
    foreign = ", ".join(name for name in names if home[name] != room)
    without = f"   :exclude-members: {foreign}\n" if foreign else ""
    autodoc = f".. automodule:: evenfold.{room}\n   :members:\n{without}"
    return f"# evenfold.{room}\n\n{listed}\n\n```{{eval-rst}}\n{autodoc}```\n"


def _room_of(name: str, room: str) -> str:
    """Return the room that a name of ``room`` comes from, where that one offers it too."""
    module = str(getattr(getattr(importlib.import_module(f"evenfold.{room}"), name), "__module__", ""))
    other = next((part for part in module.split(".")[1:2] if part in ROOMS), room)
    return other if name in importlib.import_module(f"evenfold.{other}").__all__ else room


def changelog_page() -> str:
    """Return the changelog as a page."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

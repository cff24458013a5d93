"""The pages that come from the code: every strategy, and the reference. Made at each build, so never out of date."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows")


def on_config(config: Any) -> Any:
    """Put the page of each strategy below the table of all of them."""
    from evenfold.splitters import all_strategies

    below = ["strategies.md", *(f"strategies/{name}.md" for name in sorted(all_strategies()))]
    config.nav = [{"Every strategy": below} if "Every strategy" in each else each for each in config.nav]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    pages = {**strategy_pages(), "commands.md": commands_page(), "reference.md": reference_page()}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def strategy_pages() -> dict[str, str]:
    """Return a page per strategy, by its path, and the table of all."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "docs")]
    from cases import CASES
    from evenfold.splitters.conformance import CHECKS
    from strategy_pages import pages

    said = {each.promise: each.name for each in CHECKS if each.promise}
    return pages({type(case).__name__: case for case in reversed(CASES)}, said)


def commands_page() -> str:
    """Return every command with its help, its example and its flags, as the command line itself knows them."""
    import typer
    from evenfold.flows.cli import app

    group: Any = typer.main.get_command(app)
    parts = [
        "# Every command\n\nWritten from the command line's own help. `--json` prints one object for machines.\n\n"
        "Exit codes: 0 done, 1 a gate failed, 2 bad input (one sentence says what, and what would work), 3 an "
        "evaluation failed (the split and the finished folds are kept). `evenfold --install-completion` completes "
        "commands in your shell.\n"
    ]
    for name in group.list_commands(None):
        command = group.commands[name]
        said, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
        flags = [(", ".join(each.opts), each.help) for each in command.params if getattr(each, "help", None)]
        rows = "".join(f"| `{flag}` | {(told or '').replace('|', ' ')} |\n" for flag, told in flags)
        parts.append(
            f"## {name}\n\n{said.strip()}\n\n```text\n{' '.join(example.split())}\n```\n\n"
            f"| flag or argument | what it does |\n|---|---|\n{rows}"
        )
    return "\n".join(parts)


def prose(thing: Any) -> str:
    """Return a docstring as Markdown: ``code`` as `code`, paragraphs as they are."""
    return re.sub(r"``(.+?)``", r"`\1`", inspect.getdoc(thing) or "")


def reference_page() -> str:
    """Return what each room exports, with signatures and docstrings."""
    parts = ["# Reference\n\nWritten from the docstrings: shapes, units, errors and complexity stand there.\n"]
    for room in ROOMS:
        module = importlib.import_module(f"evenfold.{room}")
        parts.append(f"## evenfold.{room}\n\n{prose(module)}\n")
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                parts.append(f"### {room}.{name}\n\n```text\n{_signature(name, thing)}\n```\n\n{prose(thing)}\n")
                parts += [_method(each, member) for each, member in _methods(thing)]
    return "\n".join(parts)


def _methods(thing: Any) -> list[tuple[str, Any]]:
    own = vars(thing).items() if inspect.isclass(thing) else []
    return [(name, each) for name, each in own if inspect.isfunction(each) and each.__doc__ and name[0] != "_"]


def _method(name: str, method: Any) -> str:
    return f"**`{_signature(name, method)}`**\n\n{prose(method)}\n"


def _signature(name: str, thing: Any) -> str:
    try:
        return f"{name}{inspect.signature(thing)}".replace("'", "")
    except (TypeError, ValueError):
        return name

"""Write the generated parts of the README between their markers: the table of strategies and real output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from evenfold.splitters import strategies
from evenfold.splitters.conformance import CHECKS

ROOT = Path(__file__).parent.parent
RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")


def strategy_table() -> str:
    """Return the table of every strategy with its one-line idea and what it promises beside train and test apart."""
    said = {each.promise: each.name for each in CHECKS if each.promise}
    lines = ["| strategy | what it makes | what it promises |", "|---|---|---|"]
    for name, strategy in sorted(strategies().items()):
        idea = (strategy.__doc__ or "").strip().splitlines()[0].rstrip(".")
        promises = [said[word] for word in sorted(strategy.promises - {"disjoint"})] or [said["disjoint"]]
        lines.append(f"| `{name}` | {idea} | {'; '.join(promises)} |")
    return "\n".join(lines)


def commands(text: str) -> list[str]:
    """Return the commands of the README's output block."""
    block = re.search(r"<!-- output -->\n```console\n(.*?)```", text, re.S)
    assert block is not None
    return [line.removeprefix("$ ") for line in block.group(1).splitlines() if line.startswith("$ ")]


def output_of(command: str) -> str:
    """Return what ``command`` prints in a home of its own, with the ids that differ each time named as such."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".evenfold-readme-") as home:
        environment = {**os.environ, "EVENFOLD_HOME": home}
        ran = subprocess.run(
            command.replace(".venv/bin/evenfold", f"{Path(sys.executable).parent}/evenfold"),
            shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = ran.stdout.replace(f"{Path(home).name}", ".evenfold").splitlines()
    return RUN_ID.sub("<run id>", "\n".join(line.rstrip() for line in lines))


def filled(text: str) -> str:
    """Return the README's text with its generated parts made anew."""
    shown = "\n\n".join(f"$ {command}\n{output_of(command)}" for command in commands(text))
    text = _between(text, "output", f"```console\n{shown}\n```")
    return _between(text, "strategies", strategy_table())


def _between(text: str, mark: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.S)
    return pattern.sub(lambda found: f"{found.group(1)}{content}\n{found.group(2)}", text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")

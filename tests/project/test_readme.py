"""The README tells the truth: its output is what the commands print, its code runs, its table is generated."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _regenerate() -> object:
    specification = importlib.util.spec_from_file_location("regenerate", ROOT / "docs" / "regenerate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_readme_shows_what_its_commands_print() -> None:
    """Its output and its figures are those that docs/regenerate.py writes."""
    assert _regenerate().filled(README) == README, "run: make readme"


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.S))
def test_the_python_of_the_readme_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader can paste it."""
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path))
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"-?\d\.\d+ [0-9a-f]{64}\n", ran.stdout)


def test_the_files_that_the_readme_names_exist() -> None:
    """No link leads nowhere."""
    for name in re.findall(r"\]\(([^):#]+)\)", README):
        assert (ROOT / name).exists(), name


def test_the_changelog_names_every_strategy() -> None:
    """A strategy that nobody was told of does not exist."""
    from evenfold.splitters import all_strategies

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert not [name for name in all_strategies() if f"`{name}`" not in changelog]

"""The README tells the truth: its output is what the commands print, its code runs, its table is generated."""

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import evenfold
from evenfold.tasks import Home

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _regenerate() -> Any:
    specification = importlib.util.spec_from_file_location("regenerate", ROOT / "docs" / "regenerate.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_readme_shows_what_its_commands_print(empty_store: Path) -> None:

    def here(words: list[str], home: str) -> str:
        shutil.copy(empty_store, home)
        done = evenfold(ROOT, *words, EVENFOLD_HOME=home)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert _regenerate().filled(README, here) == README, "run: make readme"


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.S))
def test_the_python_of_the_readme_runs(
    code: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader can paste it; here it sees every tenth flight, which is what it costs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    pd.read_parquet(ROOT / "examples" / "flights.parquet")[::10].to_parquet("examples/flights.parquet")
    exec(code, {})
    assert re.fullmatch(r"-?\d\.\d+ [0-9a-f]{64}\n", capsys.readouterr().out)


def test_the_files_that_readme_and_contributing_name_exist() -> None:
    """No link leads nowhere, nor does the map of where to look."""
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^):#]+)\)", README) + re.findall(r"`([a-z_]+/[\w/.]+)`", contributing)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_changelog_names_every_strategy() -> None:
    """A strategy that nobody was told of does not exist."""
    from evenfold.splitters import all_strategies

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert not [name for name in all_strategies() if f"`{name}`" not in changelog]

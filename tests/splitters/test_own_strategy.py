"""A strategy of one's own, in one file beside the data, is named by its import path and treated like ours."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from commands import evenfold
from evenfold.tasks import Home

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a table, and the strategy as the page about it prints it."""
    page = (ROOT / "docs" / "own-strategy.md").read_text(encoding="utf-8")
    (tmp_path / "my_folds.py").write_text(re.findall(r"```python\n(.*?)```", page, re.S)[0])
    pd.DataFrame({"id": range(90), "kind": ["a", "b", "b"] * 30}).to_parquet(tmp_path / "cells.parquet")
    return tmp_path


def test_the_command_of_the_page_splits_with_the_file_of_the_page(place: Path, home: Home) -> None:
    page = (ROOT / "docs" / "own-strategy.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ evenfold (split .*)$", page, re.M)
    done = evenfold(place, *line.split(), "--engine", "plain", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["split"]["strategy"] == "my_folds:AlternatingKFold"
    assert [fold["rows"] for fold in told["balance"]["folds"]] == [18] * 5
    assert told["balance"]["worst"]["class_share"] == 0

"""Names: those of Prefect that are not documented, and participles where a noun would say what a variable holds."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INNER = re.compile(
    r"prefect\.(?:_(?!_)|results|server)|\b(?:ResultRecord|__var__|_max_workers|PREFECT__\w+)\b"
    r"|^class \w+\((?:Task|Flow)\b", re.M
)  # fmt: skip
LEFT = {"tasks/runtime/server.py": 1}  # how often: the application that a server runs; it may only fall


def test_no_inner_name_of_prefect_comes_in() -> None:
    files = [file for room in ("tasks", "flows") for file in (ROOT / room).rglob("*.py")]
    counted = {file.relative_to(ROOT).as_posix(): len(INNER.findall(file.read_text())) for file in files}
    assert {file: times for file, times in counted.items() if times} == LEFT


# How many are left, which may only fall.
PARTICIPLES = {"splitters": 8, "manifests": 34, "estimates": 7, "reports": 3, "tasks": 140, "flows": 110}


@pytest.mark.parametrize(("room", "most"), PARTICIPLES.items())
def test_variables_are_nouns(room: str, most: int) -> None:
    """``made`` was six kinds of thing: what holds something is called by what it holds."""
    words = {"made", "given", "known", "found", "said", "told", "asked", "shown", "named", "kept"}
    nodes = [node for file in (ROOT / room).rglob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in nodes if isinstance(node, ast.arg)]
    assert sum(name in words for name in names) <= most

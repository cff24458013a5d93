"""The source: one class above every error, names of Prefect that are documented, nouns for variables."""

import ast
import builtins
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

import evenfold

ROOT = Path(__file__).parents[2]
ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows", "deployments")


def _named(base: ast.expr) -> str:
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _is_an_error(kind: ast.ClassDef) -> bool:
    known = vars(builtins)
    for name in [kind.name, *map(_named, kind.bases)]:
        if name.endswith(("Error", "Exception", "Exit")):
            return True
        if isinstance(known.get(name), type) and issubclass(known[name], BaseException):
            return True
    return False


@cache
def parsed() -> list[tuple[Path, ast.Module]]:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    return [(file.relative_to(ROOT), ast.parse(file.read_text(encoding="utf-8"))) for file in files]


def errors() -> list[tuple[str, str]]:
    """Return module and name of every class of an error in the rooms; a private one never leaves its module."""
    return [
        (".".join(["evenfold", *file.with_suffix("").parts]), node.name)
        for file, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and _is_an_error(node)
    ]


def test_every_error_of_every_room_is_an_evenfold_error() -> None:
    """One except clause catches them all, and each is a ValueError or a RuntimeError besides."""
    found = [getattr(importlib.import_module(module), name) for module, name in errors()]
    assert len(found) >= 7
    assert [kind for kind in found if not issubclass(kind, evenfold.EvenfoldError)] == []
    theirs = [kind for kind in found if not issubclass(kind, (ValueError, RuntimeError))]
    assert theirs == [evenfold.EvenfoldError]


def test_the_base_is_no_error_of_pythons() -> None:
    """To catch it catches nothing that is not ours, and it is offered where a strategy's author looks for it too."""
    from evenfold.splitters import EvenfoldError, KFold

    assert evenfold.EvenfoldError is EvenfoldError
    assert "EvenfoldError" in dir(evenfold)
    assert EvenfoldError.__bases__ == (Exception,)
    with pytest.raises(EvenfoldError, match="n_splits"):
        KFold(1).assign(range(9))


def test_what_an_error_advises_has_a_name_in_python() -> None:
    """A flag stands in brackets behind it; only what the commands themselves say reaches nobody else."""
    flag = re.compile(r"\b(?:pass|with|say|use|by) --[a-z-]+")
    raised = [
        (str(file), text.value)
        for file, tree in parsed()
        if "commands" not in file.parts
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.Call)
        for text in ast.walk(node)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and flag.search(text.value)
    ]
    assert sorted(set(raised)) == []


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

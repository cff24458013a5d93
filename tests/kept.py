"""A home as it was: made once, and put back for every test that goes on from there."""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evenfold.tasks import Home


def kept_after(home: Home, folder: Path, done: Callable[[], Any]) -> tuple[Any, Path]:
    """Return what ``done`` comes to in ``home``, and ``folder``, which then has a copy of all that is in it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EVENFOLD_HOME", str(home.path))
        made = done()
    folder.mkdir(exist_ok=True)
    _copy(home.path, folder)
    return made, folder


def put_back(home: Home, kept: Path) -> None:
    """Leave in ``home`` what was kept and nothing else; who has its MLflow store open sees the store of then."""
    emptied(home.path, "mlflow.db")
    _copy(kept, home.path)


def emptied(folder: Path, but: str) -> None:
    """Remove all that lies in a folder but what begins as ``but`` does: a database has its journal beside it."""
    for each in folder.iterdir():
        if not each.name.startswith(but):
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


def _copy(here: Path, there: Path) -> None:
    shutil.copytree(here, there, ignore=shutil.ignore_patterns("mlflow.db*"), dirs_exist_ok=True)
    source, target = sqlite3.connect(here / "mlflow.db"), sqlite3.connect(there / "mlflow.db")
    with contextlib.closing(source), contextlib.closing(target):
        source.backup(target)

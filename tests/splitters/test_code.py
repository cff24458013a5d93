"""What of a user's own code stands in a key: what is imported, however it is, and nothing else."""

import importlib
import logging
import sys
from pathlib import Path

import pandas as pd
import pytest
from evenfold.manifests import Plan
from evenfold.splitters import SplitError, naming
from evenfold.splitters.naming import changed, code_of, params_of, path_here
from own_code import CELL, SHOP, edit, write

PROJECT = SHOP | {
    "shop/__init__.py": "raise ImportError('heavy things')\n",
    "shop/features.py": "from . import scale\nfrom .deep.maths import *\nimport shop.model\nA = 1.0\n",
    "shop/scale.py": "def f(x):\n    import company.shared.thing\n    return x\n",
    "shop/deep/__init__.py": "",
    "shop/deep/maths.py": "import numpy, os, cudf_of_nobody\nB = 1\n",
    "shop/unused.py": "C = 1\n",
    "company/shared/thing.py": "D = 1\n",
}
EDITS = [
    ("shop/model.py", "alpha=1.0", "alpha=2.0", True),
    ("shop/__init__.py", "heavy", "light", True),
    ("shop/features.py", "1.0", "1", True),
    ("shop/scale.py", "return x", "return", True),
    ("shop/deep/maths.py", "B = 1", "B = -1", True),
    ("company/shared/thing.py", "D = 1", "D = True", True),
    ("shop/unused.py", "1", "2", False),
    ("shop/model.py", "A model.", "Another docstring.", False),
    ("shop/model.py", "(alpha=1.0)", "(\n    alpha = 1.00,\n)", False),
    ("shop/deep/maths.py", "B = 1", "B = 0x1  # one", False),
]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, PROJECT)
    return tmp_path


@pytest.mark.parametrize(("file", "old", "new", "moves"), EDITS)
def test_what_runs_moves_the_digest_and_what_does_not_leaves_it(
    file: str, old: str, new: str, moves: bool, shop: Path
) -> None:
    before = code_of("shop.model:make")
    edit(shop, file, old, new)
    now = code_of("shop.model.make")
    assert changed(before, now) == ([file[:-3].replace("/", ".").removesuffix(".__init__")] if moves else [])
    assert now["numpy"] == f"numpy=={sys.modules['numpy'].__version__}"
    assert not {"os", "shop.unused"} & now.keys() | {"shop", "company"} & sys.modules.keys()


@pytest.mark.parametrize("path", ["sklearn.svm:SVC", "evenfold.estimates:scaled_logistic_regression", None])
def test_what_libraries_ship_has_no_code_of_ones_own(path: str | None) -> None:
    assert code_of(path) == {}


def test_what_cannot_be_read_is_said_once(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(shop, {"shop/features.py": "import shop.fast, shop.gone\nfrom .scale import f\n", "shop/fast.py": "a b"})
    with caplog.at_level(logging.WARNING, "evenfold"):
        before = code_of("shop.model:make")
        edit(shop, "shop/fast.py", "a b", "a c")
        assert changed(before, code_of("shop.model:make")) == ["shop.fast"]
    assert sorted(line.partition(" ")[0] for line in caplog.messages) == ["shop.fast", "shop.gone"]


def test_a_process_counts_the_code_that_it_runs(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(shop, {"company/rate.py": "RATE = 1\n"})
    before, module = code_of("company.rate:RATE"), importlib.import_module("company.rate")
    company = sys.modules["company"]
    assert code_of("company.rate:RATE") == before
    edit(shop, "company/rate.py", "1", "22")
    sys.modules |= {"company": company, "company.rate": module}
    assert code_of("company.rate:RATE") == before
    assert "company.rate has changed since it was imported here" in caplog.text
    importlib.reload(module)
    assert code_of("company.rate:RATE") != before


@pytest.mark.parametrize(
    "asked",
    [
        {"strategy": "shop.folds:Mine"},
        {"strategy": "FromSklearn", "params": {"splitter": "shop.folds:Theirs"}},
        {"strategy": "Repeated", "params": {"strategy": {"strategy": "shop.folds:Mine"}}},
        {"strategy": "KFold"},
    ],
)
def test_the_code_of_ones_own_folds_stands_in_the_key_of_the_split(asked: dict[str, object], shop: Path) -> None:
    write(shop, SHOP)
    table = pd.DataFrame({"id": range(20)})
    spec = asked | {"columns": {"key": "id"}}
    before = Plan(spec, table).plan_id
    edit(shop, "shop/folds.py", "shift = 0", "shift = 0  # more")
    assert Plan(spec, table).plan_id == before
    edit(shop, "shop/folds.py", "shift = 0", "shift = 1")
    assert (Plan(spec, table).plan_id == before) is (asked == {"strategy": "KFold"})


def test_a_function_of_this_process_is_named_by_all_that_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def name(what: str, old: str = "", new: str = "") -> str:
        exec(CELL.replace(old, new), cell := {"__name__": "__main__"})
        return path_here(cell[what])

    first = name("curved")
    assert first != name("curved", "/ 2", "/ 3")
    assert name("Curved") == name("Curved", "Return it", "Give it")
    monkeypatch.setattr(naming, "_distribution", lambda top: "another version")
    assert first != name("curved")


class Held:
    def __init__(self, default: object = sys) -> None:
        self.default = default


def test_parameters_are_told_unless_they_are_the_defaults() -> None:
    assert (params_of(Held()), params_of(Held(pd.Series([0, 1])))) == ({}, {"default": [0, 1]})
    with pytest.raises(SplitError, match=r"Held\.default is a Series with an index of its own"):
        params_of(Held(pd.Series([0, 1], index=[3, 4])))

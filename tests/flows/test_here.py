"""Classes and functions that no import path leads to, as those of a notebook are: keyed by what they do."""

import logging
from pathlib import Path
from typing import Any

import nbformat
import pytest
from evenfold.estimates import ModelSpec, Problem
from evenfold.splitters import SplitError
from evenfold.splitters.importing import ESTIMATOR, resolve
from nbclient import NotebookClient
from small import small

DEFINED = '''
import functools
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
POWER = 2
LEFT = 1
def halved(function):
    @functools.wraps(function)
    def wrapper(values):
        return function(values) / 2
    return wrapper
@halved
def curved(values):
    return np.abs(values) ** POWER
class Curved(TransformerMixin, BaseEstimator):
    """A curve."""
    def __init__(self, by=1.0):
        super().__init__()
        self.by = by
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        """Return it."""
        return curved(X) * self.by
class Steep(Ridge):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)
model = make_pipeline(Curved(), FunctionTransformer(lambda X: X + 1), Steep())
'''
SAME = {"a comment": ("class", "# what bends\n\nclass"), "a docstring": ("Return it", "Give it"),
        "the class's": ("A curve", "A bend"), "what is not used": ("LEFT = 1", "LEFT = 2")}  # fmt: skip
OTHER = {"a global": ("POWER = 2", "POWER = 3"), "a function that is called": ("abs", "exp"),
         "a decorator": ("/ 2", "/ 3"), "a constant": ("+ 1", "+ 2"), "a default": ("by=1.0", "by=2.0"),
         "a method": ("* self.by", "/ self.by"),
         "a base": ("(TransformerMixin, BaseEstimator)", "(BaseEstimator)")}  # fmt: skip
ASK = """
import os, sys
os.environ["EVENFOLD_HOME"] = "home"
sys.path.insert(0, TESTS)
from evenfold.flows import evaluate
from small import SPEC, small
made = evaluate(small(60), SPEC, model, features=["a", "b"], metrics=lambda y, told: -np.std(y - told), engine="plain")
print(made.n_cached, made.run_id)
"""


def names(text: str) -> list[str]:
    notebook: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "cell", "exec"), notebook)
    return ModelSpec.of(notebook["model"]).import_paths


def test_what_nothing_can_import_is_known_by_its_code_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "evenfold"):
        first = names(DEFINED)
    assert "move it into a module of its own" in caplog.text
    assert {what: names(DEFINED.replace(*edit)) == first for what, edit in SAME.items()} == dict.fromkeys(SAME, True)
    assert {what: names(DEFINED.replace(*edit)) == first for what, edit in OTHER.items()} == dict.fromkeys(OTHER, False)
    assert "here_" in Problem.of(small(40), ModelSpec.of({"estimator": first[0], "params": {"steps": [
        ["curve", {"estimator": first[1]}], ["model", {"estimator": first[-1]}]]}}), "y").model.to_yaml()  # fmt: skip


def test_another_process_and_a_deployed_one_are_told_to_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SplitError, match="not known in this process; move it into a module of its own"):
        resolve("here_0123456789abcdef:Curved", ESTIMATOR)
    path = next(name for name in names(DEFINED) if name.startswith("here_"))
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(SplitError, match="may not be imported for a deployed run"):
        resolve(path, ESTIMATOR)


def test_a_kernel_that_starts_again_finds_what_it_computed(tmp_path: Path) -> None:
    answers = []
    for words in ("", "# Tuesday\n\n"):
        cells = [nbformat.v4.new_code_cell(text) for text in (
            words + DEFINED, ASK.replace("TESTS", repr(str(Path(__file__).parents[1]))))]  # fmt: skip
        notebook = nbformat.v4.new_notebook(cells=cells)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
        said = [out["text"] for out in cells[1]["outputs"] if out.get("name") == "stdout"]
        answers.append("".join(said).split()[-2:])
    assert [n for n, _ in answers] == ["0", "3"]
    assert len({run for _, run in answers}) == 1

"""Classes and functions that no import path leads to, as those of a notebook are: keyed by what they do."""

import logging
from typing import Any

import pytest
from evenfold.estimates import ModelSpec, Problem
from evenfold.splitters import SplitError
from evenfold.splitters.untrusted import ESTIMATOR, resolve
from own_code import CELL
from small import small

SAME = {"a comment": ("class", "# what bends\n\nclass"), "a docstring": ("Return it", "Give it"),
        "the class's": ("A curve", "A bend"), "what is not used": ("LEFT = 1", "LEFT = 2")}  # fmt: skip
OTHER = {"a global": ("POWER = 2", "POWER = 3"), "a function that is called": ("abs", "exp"),
         "a decorator": ("/ 2", "/ 3"), "a constant": ("+ 1", "+ 2"), "a default": ("by=1.0", "by=2.0"),
         "a method": ("* self.by", "/ self.by"),
         "a base": ("(TransformerMixin, BaseEstimator)", "(BaseEstimator)")}  # fmt: skip


def names(text: str) -> list[str]:
    notebook: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "cell", "exec"), notebook)
    return ModelSpec.of(notebook["model"]).import_paths


def test_what_nothing_can_import_is_known_by_its_code_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "evenfold"):
        first = names(CELL)
    assert "move it into a module of its own" in caplog.text
    assert {what: names(CELL.replace(*edit)) == first for what, edit in SAME.items()} == dict.fromkeys(SAME, True)
    assert {what: names(CELL.replace(*edit)) == first for what, edit in OTHER.items()} == dict.fromkeys(OTHER, False)
    assert "here_" in Problem.of(small(40), ModelSpec.of({"estimator": first[0], "params": {"steps": [
        ["curve", {"estimator": first[1]}], ["model", {"estimator": first[-1]}]]}}), "y").model.to_yaml()  # fmt: skip


def test_another_process_and_a_deployed_one_are_told_to_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SplitError, match="not known in this process; move it into a module of its own"):
        resolve("here_0123456789abcdef:Curved", ESTIMATOR)
    path = next(name for name in names(CELL) if name.startswith("here_"))
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(SplitError, match="may not be imported for a deployed run"):
        resolve(path, ESTIMATOR)

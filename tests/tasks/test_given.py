"""What tasks and flows are given that does not fit: refused in a sentence, and nothing else is taken for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from evenfold.estimates import ModelError, ModelSpec, scaled_logistic_regression
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, audit_split, extend, fit_fold, record_split, split
from sklearn.linear_model import Ridge
from small import evaluated, runs, small


@pytest.fixture
def folds(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SplitRef:
    """Return three folds of 60 rows, whose file lies in the working folder."""
    monkeypatch.chdir(tmp_path)
    small(60).to_parquet("rows.parquet")
    return split.fn("rows.parquet", key="id", target="y", strategy="KFold", n_splits=3)


def test_an_empty_path_is_not_the_working_folder(folds: SplitRef) -> None:
    """``Path("")`` is ``.``, where any table may lie."""
    calls = (
        lambda: split.fn("", target="y"),
        lambda: evaluated("", spec={"columns": {"target": "y"}}),
        lambda: extend.fn(folds, ""),
    )
    for call in calls:
        with pytest.raises(SplitError, match=r"'' names no file; pass a Parquet or CSV file"):
            call()


def test_a_split_that_names_no_table_is_not_of_the_working_folder(folds: SplitRef, home: Home) -> None:
    """``load_split`` without data gives one: whatever reads its table says so, and records nothing."""
    bare = folds.model_copy(update={"data": ""})
    for call in (lambda: audit_split.fn(bare), lambda: record_split.fn(bare), lambda: fit_fold.fn(bare, 0)):
        with pytest.raises(SplitError, match=r"rows 1\.0 names no table; say which: load_split\("):
            call()
    assert not runs(home)


RIDGE_NAMED = 'pass {"estimator": "sklearn.linear_model:Ridge", "params": {...}}.'
OBJECTS: dict[str, tuple[Any, str]] = {
    "an estimator": (Ridge(alpha=2.0), f"a model is named, and not passed as an object; {RIDGE_NAMED}"),
    "a class": (Ridge, f"a model is named, and not passed as an object; {RIDGE_NAMED}"),
    "a function": (scaled_logistic_regression, 'pass {"estimator": "evenfold.estimates:scaled_logistic_regression"'),
    "one that cannot be imported": (type("Own", (Ridge,), {})(), 'pass {"estimator": "package.module:Own"'),
    "a list": (["ridge"], f"a value of type list is no model; {RIDGE_NAMED}"),
    "no number": (0, f"a value of type int is no model; {RIDGE_NAMED}"),
}


@pytest.mark.parametrize(("given", "sentence"), OBJECTS.values(), ids=OBJECTS)
def test_a_model_that_is_passed_as_an_object_is_answered_with_its_name(given: Any, sentence: str) -> None:
    """As scikit-learn's users will."""
    with pytest.raises(ModelError, match=re.escape(sentence)):
        ModelSpec.of(given)


def test_tasks_and_flows_answer_a_model_that_is_passed_as_an_object(folds: SplitRef) -> None:
    """Both with the sentence."""
    with pytest.raises(ModelError, match=re.escape(RIDGE_NAMED)):
        fit_fold.fn(folds, 0, Ridge())
    with pytest.raises(ModelError, match=re.escape(RIDGE_NAMED)):
        evaluated("rows.parquet", model=Ridge())

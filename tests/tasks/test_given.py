"""What tasks and flows are given that does not fit: refused in a sentence, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, audit_split, extend, fit_fold, record_split, split
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

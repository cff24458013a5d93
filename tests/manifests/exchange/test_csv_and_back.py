"""A CSV of our own comes back as the split that it was written from."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.manifests import decide, export, import_folds

TEXTS = ["NA", "02", "", "nan", str(2**60), str(2**64), "a,b", 'q"x', "l\nm", " x", "1.5", "2020-01-01", "true", "é"]


@pytest.mark.parametrize(
    "key",
    [
        {"id": TEXTS},
        {"id": ["01", "02", "1", "2"]},
        {"id": [-(2**63), 2**53 + 1, 2**60, 2**63 - 1]},
        {"site": TEXTS, "day": pd.date_range("2020", periods=len(TEXTS)).date, "id": range(len(TEXTS))},
    ],
)
def test_what_was_exported_comes_back_as_it_was(key: dict[str, Any], tmp_path: Path) -> None:
    """Keys that look like numbers, days or nothing are text where they were: text alone is in quotes."""
    manifest = decide({"columns": {"key": list(key)}, "params": {"n_splits": 2}}, pd.DataFrame(key))
    export(manifest, "csv", tmp_path / "folds.csv")
    back = import_folds(tmp_path / "folds.csv", list(key), "fold")
    assert back.split_id == manifest.split_id
    assert back.keys == manifest.keys


def test_a_file_of_which_a_sample_is_looked_at_comes_back_as_it_was(tmp_path: Path) -> None:
    """64 kB, which end within a quoted key that holds commas."""
    frame = pd.DataFrame({"id": [f"{i:05d}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14" for i in range(4000)]})
    manifest = decide({"columns": {"key": "id"}}, frame)
    export(manifest, "csv", tmp_path / "folds.csv")
    assert import_folds(tmp_path / "folds.csv", "id", "fold").split_id == manifest.split_id


def test_quotes_around_everything_say_nothing_of_text(tmp_path: Path) -> None:
    """Some writers put them around numbers too: the column of folds tells."""
    frame = pd.DataFrame({"id": [1, 2, 3, 4], "fold": [0, 1, 0, 1]})
    frame.to_csv(tmp_path / "folds.csv", index=False, quoting=csv.QUOTE_ALL)
    assert import_folds(tmp_path / "folds.csv", "id", "fold").split_id == import_folds(frame, "id", "fold").split_id

"""Rows are joined to their folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from evenfold.manifests import join_rows
from evenfold.splitters import SplitError
from tables import PARTS, REPEATED, split, visits


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize(("strategy", "params"), [("StratifiedKFold", {}), ("Repeated", REPEATED), ("Bootstrap", {})])
def test_joined_rows_are_those_of_the_cv(role: Any, strategy: str, params: dict[str, Any]) -> None:
    frame = visits()
    manifest = split(frame, strategy=strategy, params=params)
    repeats = 3 if strategy == "Repeated" else 1
    pairs = list(manifest.as_cv(frame).split())
    for i in (0, manifest.n_splits - 1):
        repeat, fold = divmod(i, manifest.n_splits // repeats)
        made = join_rows(manifest, pl.from_pandas(frame), fold, role, repeat)
        assert made.to_pandas().equals(frame.iloc[pairs[i][role == "test"]].reset_index(drop=True))


def test_locked_rows_are_never_joined() -> None:
    frame = visits().assign(y=visits()["day"] / 7)
    manifest = split(frame, strategy="FractionalStratifiedSplit", params=PARTS)
    handed = [join_rows(manifest, frame, 0, role)["id"].to_pylist() for role in ("train", "test")]  # type: ignore[arg-type]
    locked = set(np.array(manifest.keys["id"].to_pylist())[manifest.codes == -2])
    assert len(locked) == 60
    assert not locked & {*handed[0], *handed[1]}


def test_a_fold_or_role_that_there_is_not_is_refused() -> None:
    frame = visits()
    manifest = split(frame)
    for fold, role, repeat, message in (
        (5, "test", 0, "there is no fold 5 in split 1.0; choose 0 to 4"),
        (-1, "test", 0, "there is no fold -1"),
        (0, "test", 1, "there is no repeat 1 in split 1.0; choose 0."),
        (0, "holdout", 0, "there is no role 'holdout'; choose 'train' or 'test'"),
    ):
        with pytest.raises(SplitError, match=message):
            join_rows(manifest, frame, fold, role, repeat)  # type: ignore[arg-type]
    with pytest.raises(SplitError, match="use the data that were split, or extend the manifest"):
        join_rows(manifest, visits(310), 0, "test")

"""An audit's sentences and figures name the rows that they are of: all of them, once, and by their own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked, clean, moved, plain, split, the
from evenfold.manifests import StoredManifest, audit, decide, write_manifest
from evenfold.manifests.joined import Joined
from evenfold.splitters import SplitError


@pytest.mark.parametrize("how", [{"features": ["dose", "nope"]}, {"exclude": ["nope"]}])
def test_a_column_that_is_none_is_refused_of_a_manifest_on_disk_too(how: Any, tmp_path: Path) -> None:
    data = clean(100)
    data.to_parquet(tmp_path / "rows.parquet")
    manifest = split(data)
    stored = StoredManifest(write_manifest(manifest, tmp_path / "splits"))
    for known in (manifest, stored):
        with pytest.raises(SplitError, match="no column 'nope' in the data"):
            audit(known, tmp_path / "rows.parquet", **how)


@pytest.mark.parametrize(("first", "again"), [(7000, "07000"), ("x\u00e9", "xe\u0301")])
def test_a_new_key_that_is_written_in_two_ways_repeats(first: Any, again: Any) -> None:
    data = clean(100)
    if isinstance(first, int):
        data["id"] = np.arange(100)
    manifest, new = split(data), data.iloc[:2].assign(id=[str(first), again])
    found = the("repeated_keys", asked(manifest, pd.concat([data.astype({"id": str}), new]), "repeated_keys"))
    assert found.figure == 1
    assert "(first: rows 100 and 101)" in found.message


def test_rows_of_two_entities_that_cross_are_counted_once() -> None:
    data = clean(100).assign(ward=lambda frame: frame.index // 20)
    manifest = split(data, columns={"group": ["patient", "ward"]}, group_mode="merge", params={"n_splits": 3})
    edited = moved(manifest, 0, (manifest.codes[0] + 1) % 3)
    found = the("group_in_two_folds", asked(edited, data, "group_in_two_folds"))
    assert (found.figure, found.figures["rows"]) == (2, 20)
    assert sorted(found.figures["folds"].values()) == [1, 19]


def test_rows_of_draws_that_cross_by_either_of_two_columns_are_counted_in_each_draw() -> None:
    data = clean(100)
    joined = Joined.of(split(data, strategy="ShuffleSplit", columns={"group": None}, params={"n_splits": 2}), data)
    pairs, first_ten = np.arange(100) // 2, np.where(np.arange(100) < 10, 0, -1)
    (rows, places), *each = (joined.crossing(*of) for of in ((pairs, first_ten), (pairs,), (first_ten,)))
    assert np.array_equal(rows, each[0][0] | each[1][0])
    for place, (train, test) in joined.sides():
        across = np.isin(pairs[test], pairs[train]) | (first_ten[test] == 0)
        assert places[place] == np.count_nonzero(across)


def test_a_copy_is_told_by_another_check_where_its_own_is_off() -> None:
    frame, _ = plain()
    frame["copy"] = frame["y"] * 2 + 1
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    found = the("giveaway_features", asked(manifest, frame, "giveaway_features"))
    assert set(found.figures["features"]) == {"copy"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["g"] * 60 + [None] * 40, "all 60 rows that have one are one group in 'ward'"),
        ([f"g{i}" for i in range(60)] + [None] * 40, "every row that has one is its own group in 'ward'"),
        ([None] * 100, "no row has a group in 'ward'"),
    ],
)
def test_rows_without_a_group_are_not_said_to_have_one(values: list[Any], said: str) -> None:
    data = clean(100).assign(ward=pd.Series(values, dtype="string"))
    found = the("constant_groups", asked(split(data), data, "constant_groups", group="ward"))
    assert found.message.startswith(said)


def test_rows_without_a_target_are_not_said_to_have_one() -> None:
    data = clean(100).assign(z=lambda frame: np.where(frame.index < 60, 1.0, np.nan))
    found = the("constant_target", asked(split(data), data, "constant_target", target="z"))
    assert found.message.startswith("'z' is 1 in all 60 rows that have one, so")


def test_rows_with_a_target_are_not_said_to_be_drawn() -> None:
    frame, random = plain(n=500)
    frame["paid"] = frame["y"] + 0.2 * random.normal(size=500)
    frame["z"] = pd.Series(np.where(frame["y"] == 1, "x", "w")).where(frame.index < 300)
    manifest = decide({"strategy": "KFold", "columns": {"key": "id"}}, frame.drop(columns="y"))
    rows = frame.drop(columns="y")
    found = the("giveaway_features", asked(manifest, rows, "giveaway_features", target="z"))
    assert "(in 300 of 500 rows, those with a target to learn from)" in found.message


def test_a_limit_may_be_a_number_of_numpy() -> None:
    data = clean(100)
    assert audit(split(data), data, features=["dose"], gates={"size_deviation": np.int64(1)}).failed == []


def test_parts_are_called_what_they_are_called() -> None:
    data = clean(200)
    parts = {"train": 0.6, "test1": 0.2, "test2": 0.2}
    manifest = split(data, strategy="StratifiedSplit", params={"parts": parts}, columns={"group": None})
    said = the("group_in_two_folds", asked(manifest, data, "group_in_two_folds", group="patient")).message
    assert "rows in train, test1 and test2;" in said


def test_locked_rows_are_no_split_of_their_own() -> None:
    data = clean(100)
    manifest = split(data, strategy="KFold", columns={"group": None}, holdout={"fraction": 0.2})
    said = the("time_overlap", asked(manifest, data, "time_overlap", time="day")).message
    assert "training rows of 5 splits (0, 1, 2, 3 and 4) and of the locked rows are not before every" in said


def test_an_infinite_key_has_no_fraction() -> None:
    frame = pd.DataFrame({"id": np.append(np.arange(99.0), np.inf), "x": np.arange(100) % 7})
    manifest = decide({"strategy": "KFold", "columns": {"key": "id"}}, frame)
    assert asked(manifest, frame, "fractional_keys").passed == {"fractional_keys": ""}


@pytest.mark.parametrize(("beta", "draws", "never"), [(100, 200, 9), (1, 2, 0)])
def test_groups_that_no_draw_tests_are_counted(beta: int, draws: int, never: int) -> None:
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(20), rng.integers(5, 60, 20))
    rows = pd.DataFrame({"k": range(g.size), "g": g, "y": rng.integers(0, 2, g.size)})
    asked_of = {"strategy": "GroupStratifiedShuffleSplit", "params": {"n_splits": draws, "beta": beta}}
    manifest = decide({"columns": {"key": "k", "target": "y", "group": "g"}, **asked_of}, rows)
    tested = {group for _, test in manifest.pairs() for group in g[test]}
    assert (len(tested) == 20 - never) or not never
    messages = [found.message for found in asked(manifest, rows, "untested_groups").findings]
    one = f"{never} of 20 groups of 'g' are tested in none of 200 draws: no score says anything of their rows."
    assert messages == ([one] if never else [])

"""Folds leave for other tools and come back, and the manifest's files are read without our code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import adopt, decide, export, extend, join_rows, read_manifest, write_manifest
from evenfold.splitters import SplitError
from sklearn.model_selection import PredefinedSplit
from tables import PARTS, REPEATED, split, visits


def test_scikit_learn_tests_the_same_rows(tmp_path: Path) -> None:
    frame = visits()
    manifest = split(frame)
    written = export(manifest, "sklearn", tmp_path / "folds.npy", frame)
    cv = PredefinedSplit(np.load(tmp_path / "folds.npy"))
    assert (written.rows, "in the order of the data's rows" in written.note) == (300, True)
    for (train, test), (ours, theirs) in zip(cv.split(), manifest.as_cv(frame).split(), strict=True):
        assert (sorted(ours), sorted(theirs)) == (train.tolist(), test.tolist())
    manifest = split(frame, strategy="Repeated", params=REPEATED)
    for repeat in range(3):
        export(manifest, "sklearn", tmp_path / f"{repeat}.npy", frame, repeat=repeat)
        assert np.array_equal(np.load(tmp_path / f"{repeat}.npy"), manifest.fold_of(frame, repeat))
    with pytest.raises(SplitError, match=r"there is no repeat 3 in .*; choose 0 to 2"):
        export(manifest, "sklearn", tmp_path / "3.npy", frame, repeat=3)


def test_parts_are_those_of_scikit_learn_and_two_tested_ones_are_refused(tmp_path: Path) -> None:
    frame = visits()
    manifest = split(frame, strategy="HashSplit", params={"parts": {"train": 0.7, "test": 0.3}})
    export(manifest, "sklearn", tmp_path / "folds.npy", frame)
    ((train, test),) = PredefinedSplit(np.load(tmp_path / "folds.npy")).split()
    ((ours, theirs),) = manifest.as_cv(frame).split()
    assert (sorted(ours), sorted(theirs)) == (train.tolist(), test.tolist())
    three = {"train": 0.6, "validation": 0.2, "calibration": 0.2}
    manifest = split(frame, strategy="HashSplit", params={"parts": three})
    with pytest.raises(SplitError, match=r"tests 2 parts \(validation and calibration\), and PredefinedSplit .* as_cv"):
        export(manifest, "sklearn", tmp_path / "two.npy", frame)
    assert [path.name for path in tmp_path.iterdir()] == ["folds.npy"]


@pytest.mark.parametrize("tool", ["sklearn", "spark"])
def test_locked_rows_are_refused_where_there_is_no_word_for_them(tool: Any, tmp_path: Path) -> None:
    """PredefinedSplit would test -2 as a fold of its own; the others take 0..k-1 alone. Nothing is written."""
    frame = visits().assign(y=visits()["day"] / 7)
    manifest = split(frame, strategy="FractionalStratifiedSplit", params=PARTS)
    unfit = "60 rows test (-2)" if tool == "sklearn" else "240 rows train (-1) and test (-2)"
    with pytest.raises(SplitError, match=f"{tool} has no word for ") as caught:
        export(manifest, tool, tmp_path / ("folds.npy" if tool == "sklearn" else "folds.parquet"), frame)
    assert unfit in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_h2o_gets_a_fold_column(tmp_path: Path) -> None:
    """Key and fold of the rows that there are, 0 to k-1; deleted rows are left out."""
    later = pd.concat([visits(340).query("number >= 2100"), visits().query("number >= 70")])
    grown = extend(split(visits()), later).manifest
    written = export(grown, "h2o", tmp_path / "folds.csv")
    read = pd.read_csv(tmp_path / "folds.csv")
    wanted = pd.Series(grown.codes, index=grown.keys["id"].to_pylist())[grown.status == 0]
    assert written.rows == len(read) == 330
    assert read.set_index("id")["fold"].to_dict() == wanted.to_dict()
    assert set(read["fold"]) == {0, 1, 2, 3, 4}


def test_spark_gets_int32_folds_beside_the_data(tmp_path: Path) -> None:
    """CrossValidator wants an integer column of 0..k-1 in the very frame that it is given."""
    frame = visits()
    manifest = split(frame, key="number")
    export(manifest, "spark", tmp_path / "folds.parquet")
    types = {field.name: str(field.type) for field in pq.read_schema(tmp_path / "folds.parquet")}
    assert types == {"number": "int64", "fold": "int32"}
    export(manifest, "spark", tmp_path / "all.parquet", frame)
    beside = pd.read_parquet(tmp_path / "all.parquet")
    assert beside.drop(columns="fold").equals(frame.sort_values("number", ignore_index=True))
    assert np.array_equal(beside["fold"], manifest.codes)
    with pytest.raises(SplitError, match="have a column 'fold' already; rename it"):
        export(manifest, "spark", tmp_path / "again.parquet", beside)


@pytest.mark.parametrize("key", ["id", "number"])
def test_nnunet_goes_out_and_comes_back_as_the_same_split(key: str, tmp_path: Path) -> None:
    frame = visits().assign(fold=0)  # a column of that name is not overwritten
    manifest = split(frame, key=key)
    export(manifest, "nnunet", tmp_path / "splits_final.json")
    splits = json.loads((tmp_path / "splits_final.json").read_text())
    assert [sorted(each) for each in splits] == [["train", "val"]] * 5
    keys = np.array(manifest.keys[key].to_pylist())
    assert splits[2]["val"] == keys[manifest.codes == 2].astype(str).tolist()
    back = adopt(frame, tmp_path / "splits_final.json", key, target="y")
    assert back.spec.strategy == "Predefined"
    assert back.split_id == manifest.split_id


def test_nnunet_splits_that_are_no_folds_are_kept_as_pairs(tmp_path: Path) -> None:
    frame = visits(30)
    cases = sorted(frame["id"])
    splits = [{"train": cases[10:], "val": cases[:10]}, {"train": cases[:5], "val": cases[5:12]}]
    (tmp_path / "splits_final.json").write_text(json.dumps(splits))
    manifest = adopt(frame, tmp_path / "splits_final.json", "id")
    assert manifest.spec.strategy == "PredefinedPairs"
    for i, each in enumerate(splits):
        for role, side in (("train", "train"), ("test", "val")):
            assert join_rows(manifest, frame, i, role)["id"].to_pylist() == each[side]  # type: ignore[arg-type]
    export(manifest, "nnunet", tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == splits


def test_nnunet_cases_in_no_validation_or_in_no_split_keep_their_place(tmp_path: Path) -> None:
    """Always trained on is -1, in no split is -3."""
    frame = visits(20)
    cases = sorted(frame["id"])
    splits = [{"train": cases[4:16], "val": cases[:4]}, {"train": cases[:4] + cases[8:16], "val": cases[4:8]}]
    (tmp_path / "splits_final.json").write_text(json.dumps(splits))
    codes = adopt(frame, tmp_path / "splits_final.json", "id").codes
    assert codes.tolist() == [0] * 4 + [1] * 4 + [-1] * 8 + [-3] * 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"holds no splits .JSONDecodeError"),
        ('[{"train": ["case_000"]}]', r"the splits are no list of"),
        ('[{"train": [0], "val": [1], "test": [2]}]', "a split names val and test; name the rows that it tests once"),
        ('[{"train": ["case_000", "case_999"], "val": ["case_001", "x"]}]', r"\(case_999 and x\) are not in the data"),
        ('[{"train": [], "val": ["case_000"]}]', "nothing to train on"),
    ],
)
def test_a_file_that_is_no_splits_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "splits_final.json").write_text(content)
    with pytest.raises(SplitError, match=message):
        adopt(visits(10), tmp_path / "splits_final.json", "id")
    with pytest.raises(SplitError, match=r"nothing\.json holds no splits .FileNotFoundError"):
        adopt(visits(10), tmp_path / "nothing.json", "id")


def test_an_export_is_refused_in_words(tmp_path: Path) -> None:
    manifest = split(visits())
    draws = split(visits(), strategy="Bootstrap", params={"n_splits": 3})
    for made, to, name, message in (
        (manifest, "weka", "folds.arff", "no export to 'weka'; choose sklearn, h2o, spark, .*, croissant and sql"),
        (draws, "h2o", "folds.csv", "h2o takes one fold a row, and split 1.0 holds draws; use a split into folds"),
        (draws, "nnunet", "folds.json", "nnunet has no word for 3 draws"),
        (manifest, "csv", "no/such/folder.csv", "there is no folder .*; make it, or name a file elsewhere"),
        (manifest, "csv", "folds.json", r"folds\.json ends in '\.json'; write to \.csv"),
    ):
        with pytest.raises(SplitError, match=message):
            export(made, to, tmp_path / name)  # type: ignore[arg-type]
    repeated = split(visits(), strategy="Repeated", params=REPEATED)
    one = r"sklearn, h2o, spark, autogluon and croissant, which hold one; csv holds all that there are"
    with pytest.raises(SplitError, match=one):
        export(repeated, "csv", tmp_path / "folds.csv", repeat=1)
    assert not list(tmp_path.iterdir())


def test_pseudonyms_leave_and_the_keys_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret")
    frame = visits()
    manifest = read_manifest(write_manifest(split(frame, key_encoding="hmac"), tmp_path))
    export(manifest, "csv", tmp_path / "folds.csv")
    export(manifest, "nnunet", tmp_path / "splits.json")
    assert "case_" not in (tmp_path / "folds.csv").read_text() + (tmp_path / "splits.json").read_text()
    assert list(pd.read_csv(tmp_path / "folds.csv")) == ["row_key", "fold"]
    export(manifest, "sklearn", tmp_path / "folds.npy", frame)
    ours = join_rows(manifest, frame, 1, "test")["id"].to_pylist()
    assert sorted(frame["id"][np.load(tmp_path / "folds.npy") == 1]) == sorted(ours)


def test_rows_that_wait_are_no_deleted_rows_that_are_back(tmp_path: Path) -> None:
    frame = visits(60).assign(paid=[None, None, *["yes", "no"] * 29])
    waiting = decide({"columns": {"key": "id", "target": "paid"}, "missing_target": "wait"}, frame)
    with pytest.raises(SplitError, match=r"2 rows of the data have no fold in .*; leave them out"):
        export(waiting, "sklearn", tmp_path / "folds.npy", frame)
    export(waiting, "sklearn", tmp_path / "folds.npy", frame.iloc[2:])
    assert np.load(tmp_path / "folds.npy").size == 58


def test_groups_travel_without_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": range(60), "g": [f"g{i % 12}" for i in range(60)], "y": [0, 1] * 30})
    spec = {"columns": {"key": "id", "group": "g", "target": "y"}, "params": {"n_splits": 3}}
    manifest = decide(spec, frame)
    written = export(manifest, "groups", tmp_path / "groups.parquet")
    assert list(pd.read_parquet(written.path).columns) == ["group", "fold"]
    elsewhere = adopt(frame.sample(frac=1, random_state=1), written.path, "id", group="g")
    assert (elsewhere.codes == manifest.codes).all()
    with pytest.raises(SplitError, match=r"5 rows of the data are of groups without a fold .first group .new.."):
        adopt(frame.assign(g=frame["g"].replace("g3", "new")), written.path, "id", group="g")
    with pytest.raises(SplitError, match="keeps no groups whole"):
        export(decide({"columns": {"key": "id"}, "strategy": "KFold"}, frame), "groups", tmp_path / "g.parquet")


@pytest.mark.parametrize(
    "groups",
    [["NA", "null", "nan", "x", "y", "z"], ["01", "1", "02", "2", "3", "4"], ["1e5", "100000", "1", "2", "3", "4"]],
)
def test_groups_that_are_text_stay_text_through_a_csv(groups: list[str], tmp_path: Path) -> None:
    """A group called NA is one, and 02 and 2 are two, as they are in the data."""
    frame = pd.DataFrame({"id": range(60), "g": groups * 10})
    manifest = decide({"columns": {"key": "id", "group": "g"}, "params": {"n_splits": 2}}, frame)
    export(manifest, "groups", tmp_path / "groups.csv")
    assert adopt(frame, tmp_path / "groups.csv", "id", group="g").codes.tolist() == manifest.codes.tolist()

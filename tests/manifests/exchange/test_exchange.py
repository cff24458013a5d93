"""Splits go out in the forms of others and come back as the same split; what a form cannot say is said."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import Manifest, adopt, decide, export
from evenfold.manifests.exchange.export import FORMS
from evenfold.manifests.fields import Format
from evenfold.splitters import SplitError
from tables import PARTS, REPEATED, split, visits


def sides(manifest: Manifest, frame: pd.DataFrame) -> list[tuple[list[int], list[int]]]:
    return [(sorted(train.tolist()), sorted(test.tolist())) for train, test in manifest.as_cv(frame).split()]


TWO_PARTS = {"strategy": "HashSplit", "params": {"parts": {"train": 0.7, "test": 0.3}}}
THREE_PARTS = {"strategy": "HashSplit", "params": PARTS}


@pytest.mark.parametrize(
    ("tool", "name", "fields", "column", "values"),
    [
        ("torch", "splits.json", {}, None, None),
        ("torch", "splits.json", {"key": None, "columns": {"target": "y"}}, None, None),
        ("autogluon", "rows.parquet", {}, "fold", {0, 1, 2, 3, 4}),
        ("vertex", "rows.csv", THREE_PARTS, "split", {"training", "validation", "test"}),
        ("databricks", "rows.parquet", THREE_PARTS, "split", {"train", "validate", "test"}),
        ("bigquery", "rows.csv", THREE_PARTS, "split", {"TRAIN", "EVAL", "TEST"}),
        ("vertex", "rows.csv", TWO_PARTS, "split", {"training", "test"}),
    ],
)
def test_what_left_for_a_tool_comes_back_as_the_same_split(
    tool: Any, name: str, fields: Any, column: str | None, values: Any, tmp_path: Path
) -> None:
    frame, path, key = visits(), tmp_path / name, fields.get("key", "id")
    manifest = split(frame, **fields)
    export(manifest, tool, path, frame)
    back = adopt(frame, path, key, target="y") if column is None else adopt(path, column, key)
    assert back.split_id == manifest.split_id
    if column:
        read = pd.read_csv(path) if name.endswith("csv") else pd.read_parquet(path)
        assert (set(read[column]), list(read)) == (values, [*frame, column])


@pytest.mark.parametrize("strategy", ["Repeated", "ForwardChaining", "ShuffleSplit"])
def test_positions_of_repeats_pairs_and_shuffles_keep_their_sides(strategy: str, tmp_path: Path) -> None:
    frame = visits()
    params = {"params": REPEATED} if strategy == "Repeated" else {}
    columns = {"key": "id", "target": "y"} | ({"time": "day"} if strategy == "ForwardChaining" else {})
    manifest = split(frame, strategy, columns=columns, **params)
    export(manifest, "torch", tmp_path / "splits.json", frame)
    back = adopt(frame, tmp_path / "splits.json", "id")
    assert back.spec.strategy == "PredefinedPairs"
    assert sides(back, frame) == sides(manifest, frame)


def test_positions_are_those_of_the_frame_that_was_given(tmp_path: Path) -> None:
    frame = visits()
    manifest, other = split(frame), frame.sample(frac=1, random_state=9, ignore_index=True)
    export(manifest, "torch", tmp_path / "a.json", frame)
    export(manifest, "torch", tmp_path / "b.json", other)
    ours, theirs = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert ours != theirs
    for one, two in zip(ours, theirs, strict=True):
        assert set(frame["id"][one["val"]]) == set(other["id"][two["val"]])
    with pytest.raises(SplitError, match="torch tells rows by their position"):
        export(manifest, "torch", tmp_path / "none.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([([0, 1], [2, 99])], r"split 0 names 1 row that the data lack \(position 99 of 10 rows\)"),
        ([([0, 1], [1, 2])], "both"),
        ({"train": [0], "test": [1]}, "are no list of"),
    ],
)
def test_what_is_no_positions_is_refused(splits: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        adopt(visits(10), splits, "id")


def test_folds_have_no_three_words(tmp_path: Path) -> None:
    frame = visits()
    with pytest.raises(SplitError, match=r"takes one split into training, validation and test, and .* tests 5 folds"):
        export(split(frame), "vertex", tmp_path / "a.csv")
    parts = split(frame, "HashSplit", params=PARTS)
    with pytest.raises(SplitError, match="have a column 'split' already"):
        export(parts, "vertex", tmp_path / "a.csv", frame.assign(split="x"))
    with pytest.raises(SplitError, match="column 'split' holds live; known are training, validation, test"):
        adopt(frame.assign(split="live"), "split", "id")
    with pytest.raises(SplitError, match="no column 'part'; they have id"):
        adopt(frame, "part", "id")
    assert list(tmp_path.iterdir()) == []


def test_a_column_leaves_by_the_type_that_its_split_knows_whatever_a_file_shows_first(tmp_path: Path) -> None:
    frame, file = pd.DataFrame({"id": np.arange(150_000).astype(str), "z": "0"}), tmp_path / "rows.csv"
    for column, outcome in (("id", nullcontext()), ("z", pytest.raises(SplitError, match="or pass Parquet, or what"))):
        frame.loc[149_999, column] = "last"
        frame.to_csv(file, index=False)
        manifest = decide(file, key="id", strategy="HashSplit", params=PARTS)
        with outcome:
            export(manifest, "vertex", tmp_path / f"{column}.csv", file)
    assert adopt(tmp_path / "id.csv", "split", "id").split_id == manifest.split_id


@pytest.mark.parametrize("fields", [{"strategy": "HashSplit", "params": PARTS}, {"strategy": "KFold"}])
def test_the_records_of_croissant_are_the_same_split_to_their_own_reader_too(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    frame = visits().assign(id=range(300))
    manifest = split(frame, **fields)
    export(manifest, "croissant", tmp_path / "croissant.json")
    kind = "fold" if fields["strategy"] == "KFold" else "split"
    read = pd.DataFrame(json.loads((tmp_path / "croissant.json").read_text())["recordSet"][-1]["data"])
    assert adopt(read, f"rows/{kind}", "rows/id").codes.tolist() == manifest.codes.tolist()
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    dataset = mlcroissant.Dataset(jsonld=tmp_path / "croissant.json")
    read = pd.DataFrame(dataset.records("rows")).rename(columns=lambda name: name.removeprefix("rows/"))
    read = read.map(lambda value: value.decode() if isinstance(value, bytes) else value)
    assert adopt(read, kind, "id").split_id == manifest.split_id


def test_what_is_named_twice_is_refused() -> None:
    with pytest.raises(SplitError, match="split 0 tests row 0 2 times; name each test row once"):
        adopt(visits(3), [([1, 2], [0, 0])], "id")
    frame = visits(3).assign(g=["a", "b", "a"])
    known = pd.DataFrame({"group": ["a", "b", "a"], "fold": [0, 1, 0]})
    assert adopt(frame, known, "id", group="g").n_splits == 2
    with pytest.raises(SplitError, match=r"1 group of the table has several folds \(first group 'a'\)"):
        adopt(frame, known.assign(fold=[0, 1, 1]), "id", group="g")


def test_values_of_the_key_in_several_folds_are_told_as_what_they_are(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"doc": [*range(20), 0, 1, 2, 3], "split": ["train"] * 12 + ["valid"] * 12})
    with pytest.raises(SplitError, match=r"^4 values of doc are in several folds .* with group 'doc'\.$"):
        adopt(frame, "split", "doc")
    adopt(frame.assign(site=range(24)), "split", ["doc", "site"])
    assert [record.getMessage()[:36] for record in caplog.records] == ["4 values of doc are in several parts"]
    for folds in ("fold", (frame := frame.assign(fold=[*[0] * 10, *[1] * 10, 0, 1, 2, -3]))["fold"].to_numpy()):
        with pytest.raises(
            SplitError, match=r"^2 values of doc are in several folds \(first '1'\): .* with group 'doc'\."
        ):
            adopt(frame, folds, "doc")


def test_rows_to_calibrate_by_stand_beside_those_to_train_on(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": range(60)})
    manifest = decide(frame, key="key", n_splits=3, calibration=0.25)
    export(manifest, "torch", tmp_path / "splits.json", frame)
    sides = json.loads((tmp_path / "splits.json").read_text())
    assert [sorted(side["train"] + side["val"] + side["calibration"]) for side in sides] == [[*range(60)]] * 3
    assert [len(side["calibration"]) for side in sides] == [10] * 3
    shuffled = frame.iloc[::-1]
    export(manifest, "nnunet", tmp_path / "splits_final.json", shuffled)
    named = json.loads((tmp_path / "splits_final.json").read_text())
    assert [{name: sorted(map(int, keys)) for name, keys in side.items()} for side in named] == sides
    for made in (manifest, decide(frame, key="key", strategy="Bootstrap", params={"n_splits": 3}, calibration=0.25)):
        export(made, "csv", tmp_path / "splits.csv", shuffled)
        table, cv = pd.read_csv(tmp_path / "splits.csv", index_col="key"), made.as_cv(frame, calibration=True)
        for i, (train, test) in enumerate(cv.split()):
            column = table[f"split_{i}"]
            assert set(column[column == -2].index) == {*cv.calibration(i)}
            assert set(column[column == -1].index) == {*test}
            assert column[column > 0].to_dict() == dict(zip(*np.unique(train, return_counts=True), strict=True))
        assert table.columns.tolist() == ["fold"] * (made is manifest) + ["split_0", "split_1", "split_2"]


@pytest.mark.parametrize("to", sorted(name for name, form in FORMS.items() if not form.calibrates))
def test_a_form_without_a_word_for_rows_to_calibrate_by_is_refused(to: Format, tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": range(60), "shop": np.arange(60) // 3})
    manifest = decide(frame, key="key", group="shop", n_splits=3, calibration=0.25)
    with pytest.raises(SplitError, match=f"{to} has no word for the rows that calibration: 0.25 sets apart"):
        export(manifest, to, tmp_path / f"folds{FORMS[to].suffixes[0]}", frame)
    with pytest.raises(SplitError, match=r"csv tells which rows calibration: 0\.25 sets apart, and the data"):
        export(manifest, "csv", tmp_path / "folds.csv")

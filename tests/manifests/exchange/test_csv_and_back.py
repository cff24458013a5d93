"""A CSV of our own comes back as the split that it was written from."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from evenfold.manifests import decide, export, import_folds, import_parts
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import SplitError

TEXTS = ["NA", "02", "", "nan", str(2**60), str(2**64), "a,b", 'q"x', "l\nm", " x", "1.5", "2020-01-01", "true", "é"]


@pytest.mark.parametrize(
    "key",
    [
        {"id": TEXTS},
        {"id": ["01", "02", "1", "2"]},
        {"ID": ["true", "false", "true ", "False"]},
        {"day": pd.date_range("2020", periods=5).date},
        {"at": pd.date_range("2020", periods=5, tz="UTC")},
        {"number": [0.5, 1.0, -2e300, 1e-7]},
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


def nonnumeric(frame: pd.DataFrame, file: Path) -> Path:
    """Write a frame as pandas does that puts quotes around all but numbers; return the file."""
    frame.to_csv(file, index=False, quoting=csv.QUOTE_NONNUMERIC)
    return file


def test_a_missing_key_that_another_writer_put_in_quotes_is_missing(tmp_path: Path) -> None:
    """Pandas writes ``""`` for None, and in the order of a file of ours."""
    frame = pd.DataFrame({"site": [None, None, "a", "a", "b", "b"], "id": range(6), "fold": [0, 1] * 3})
    with pytest.raises(SplitError, match="key column 'site' is missing in 2 of 6 rows"):
        import_folds(nonnumeric(frame, tmp_path / "folds.csv"), ["site", "id"], "fold")


@pytest.mark.parametrize("header", ['"id","fold"', "id,fold"])
def test_a_bare_na_after_thousands_of_quoted_keys_is_missing(header: str, tmp_path: Path) -> None:
    """R writes so; the whole file is looked at, however long."""
    rows = [f'"key {i}",{i % 2}' for i in range(9000)]
    (tmp_path / "folds.csv").write_text("\n".join([header, *rows, "NA,0", ""]))
    with pytest.raises(SplitError, match="key column 'id' is missing in 1 of 9,001 rows"):
        import_folds(tmp_path / "folds.csv", "id", "fold")


@pytest.mark.parametrize("target", ["y", None])
def test_days_that_another_writer_put_in_quotes_are_days(target: str | None, tmp_path: Path) -> None:
    """Folds of them are those of the frame that was written."""
    frame = pd.DataFrame({"day": pd.date_range("2020", periods=6), "fold": [0, 1] * 3, "y": [0, 0, 1, 1, 0, 1]})
    kept = frame if target else frame[["day", "fold"]]
    manifest = import_folds(nonnumeric(kept, tmp_path / "folds.csv"), "day", "fold", target=target)
    assert manifest.types["day"] == "date"
    assert manifest.positions(frame).tolist() == list(range(6))


def test_digits_that_another_writer_put_in_quotes_are_numbers(tmp_path: Path) -> None:
    """As in any other file."""
    frame = pd.DataFrame({"id": list("123456"), "fold": [0, 1] * 3})
    assert import_folds(nonnumeric(frame, tmp_path / "folds.csv"), "id", "fold").types["id"] == "int"


GZ = gzip.compress(b"".join(b'"key %d",%d\n' % (i * i, i % 2) for i in range(9000)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("folds.csv", "id,größe,fold\na,1,0\n".encode("latin-1")),
        ("folds.csv", "id,größe,fold\na,ä,0\nb,ö,1\n".encode("latin-1")),
        ("folds.csv", "id,fold\nä,0\nö,1\n".encode("latin-1")),
        ("folds.csv", b"\n\n\n"),
        ("folds.csv", b"id,fold\na,0,1\nb,1\n"),
        ("folds.csv", b"id,fold\n"),
        ("folds.csv", b""),
        ("folds.csv.gz", b"no gzip"),
        ("folds.csv.gz", GZ[: len(GZ) // 2]),
        ("folds", b"id,fold\n"),
    ],
    ids=range(10),
)
def test_what_cannot_be_read_is_said_as_of_any_table(name: str, content: bytes, tmp_path: Path) -> None:
    """The sentence is that of ``read_table``."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SplitError) as expected:
        read_table(tmp_path / name)
    with pytest.raises(SplitError) as said:
        import_folds(tmp_path / name, "id", "fold")
    assert str(said.value) == str(expected.value)


def test_keys_that_are_no_names_are_told_as_of_a_frame(tmp_path: Path) -> None:
    """None splits by position; a number names no column."""
    frame = pd.DataFrame({"id": list("abcd"), "fold": [0, 1, 0, 1]})
    file = nonnumeric(frame, tmp_path / "folds.csv")
    key: Any = None
    assert import_folds(file, key, "fold").split_id == import_folds(frame, key, "fold").split_id
    with pytest.raises(SplitError):
        import_folds(file, cast(Any, 5), "fold")


def test_repeats_times_and_names_that_need_quotes_come_back(tmp_path: Path) -> None:
    """Every column of folds is looked at; a name that needs no quotes has none, by which a file of ours is told."""
    frame = pd.DataFrame({"id, of a": ["NA", "01"] * 4, "at": pd.date_range("2020", periods=8, freq="90min", tz="UTC")})
    inner = {"strategy": "KFold", "params": {"n_splits": 2}}
    params = {"strategy": inner, "n_repeats": 2}
    manifest = decide({"columns": {"key": list(frame)}, "strategy": "Repeated", "params": params}, frame)
    export(manifest, "csv", tmp_path / "folds.csv")
    assert (tmp_path / "folds.csv").read_text().startswith('"id, of a",at,fold,fold_r2\n"01",2020-01-01 01:30:00')
    back = import_folds(tmp_path / "folds.csv", list(frame), "fold_r2")
    assert back.keys == manifest.keys
    assert back.types == manifest.types | {"fold_r2": "int"}


def test_parts_that_share_values_of_the_key_are_told_as_what_they_are() -> None:
    """A document in training and in validation is a leak, and no want of another key."""
    frame = pd.DataFrame({"doc": [*range(20), 0, 1, 2, 3], "site": 1, "split": ["train"] * 12 + ["valid"] * 12})
    with pytest.raises(SplitError, match=r"^4 values of doc are in train and in validation: what is learnt .* group"):
        import_parts(frame, "doc")
    frame.loc[23, "split"] = "test"
    with pytest.raises(SplitError, match=r"^1 value of doc, site is in train and in test; 3 values of doc, site are"):
        import_parts(frame, ["doc", "site"])

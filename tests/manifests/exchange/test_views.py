"""A view in SQL says what the manifest says, and rows are joined to their folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from evenfold.manifests import (
    Manifest,
    extend,
    join_rows,
    openml_view,
    read_manifest,
    write_manifest,
)
from evenfold.splitters import SplitError
from tables import PARTS, REPEATED, split, visits


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize(("strategy", "params"), [("StratifiedKFold", {}), ("Repeated", REPEATED), ("Bootstrap", {})])
def test_joined_rows_are_those_of_the_cv(role: Any, strategy: str, params: dict[str, Any]) -> None:
    """Fold by fold, repeat by repeat, draw by draw, with the columns of the data as they are."""
    frame = visits()
    manifest = split(frame, strategy=strategy, params=params)
    repeats = 3 if strategy == "Repeated" else 1
    pairs = list(manifest.as_cv(frame).split())
    for i in (0, manifest.n_splits - 1):
        repeat, fold = divmod(i, manifest.n_splits // repeats)
        made = join_rows(manifest, pl.from_pandas(frame), fold, role, repeat)
        assert made.to_pandas().equals(frame.iloc[pairs[i][role == "test"]].reset_index(drop=True))


def test_locked_rows_are_never_joined() -> None:
    """Neither role of any fold hands them out."""
    frame = visits().assign(y=visits()["day"] / 7)
    manifest = split(frame, strategy="FractionalStratifiedSplit", params=PARTS)
    handed = [join_rows(manifest, frame, 0, role)["id"].to_pylist() for role in ("train", "test")]  # type: ignore[arg-type]
    locked = set(np.array(manifest.keys["id"].to_pylist())[manifest.codes == -2])
    assert len(locked) == 60
    assert not locked & {*handed[0], *handed[1]}


def test_a_fold_or_role_that_there_is_not_is_refused() -> None:
    """In numbers, with what there is."""
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


def sides_by_view(manifest: Manifest) -> dict[tuple[int, int, str], list[Any]]:
    connection = duckdb.connect()
    connection.execute(openml_view(manifest))
    assert [row[0] for row in connection.execute("DESCRIBE openml_splits").fetchall()] == [
        "type",
        "rowid",
        "repeat",
        "fold",
    ]
    found = connection.execute("SELECT repeat, fold, type, list(rowid ORDER BY rowid) FROM openml_splits GROUP BY ALL")
    return {(repeat, fold, kind): ids for repeat, fold, kind, ids in found.fetchall()}


def sides_of(manifest: Manifest) -> dict[tuple[int, int, str], list[Any]]:
    keys = range(manifest.n) if manifest.keys is None else manifest.keys.column(0).to_pylist()
    keys = np.array(keys)
    return {
        (*manifest.membership.split_name(i), kind): sorted(keys[side].tolist())
        for i, pair in enumerate(manifest.pairs())
        for kind, side in zip(("TRAIN", "TEST"), pair, strict=True)
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": "StratifiedKFold"},
        {"strategy": "StratifiedKFold", "columns": {"key": "number", "target": "y"}},
        {"strategy": "KFold", "columns": {}},
        {"strategy": "Repeated", "params": REPEATED},
        {"strategy": "HashSplit", "params": PARTS},
        {"strategy": "ForwardChaining", "columns": {"key": "number", "time": "day"}},
    ],
    ids=lambda spec: spec["strategy"],
)
def test_the_sql_view_says_what_the_manifest_says(spec: dict[str, Any], tmp_path: Path) -> None:
    """In DuckDB, without our code: every side of every split, in OpenML's columns."""
    manifest = read_manifest(write_manifest(split(visits(), **spec), tmp_path / "it's here"))
    assert sides_by_view(manifest) == sides_of(manifest)


@pytest.mark.parametrize("key", ["position", "split", "role", "file_row_number", "_rank", "_rowid", "code", "tested"])
@pytest.mark.parametrize("strategy", ["KFold", "ForwardChaining"])
def test_the_sql_view_takes_a_key_of_any_name(key: str, strategy: str, tmp_path: Path) -> None:
    """Also one that the view's own tables have, of folds and of pairs."""
    columns = {"key": key} | ({"time": "day"} if strategy == "ForwardChaining" else {})
    frame = visits().rename(columns={"number": key})
    manifest = read_manifest(write_manifest(split(frame, strategy=strategy, columns=columns), tmp_path))
    assert sides_by_view(manifest) == sides_of(manifest)


def test_the_sql_view_of_a_grown_manifest_needs_the_number_of_a_row_in_its_file(tmp_path: Path) -> None:
    """Which of two changes is newer stands nowhere else."""
    frame = visits().rename(columns={"number": "file_row_number"})
    manifest = split(frame, strategy="KFold", columns={"key": "file_row_number"})
    write_manifest(manifest, tmp_path)
    grown = read_manifest(write_manifest(extend(manifest, frame[5:]).manifest, tmp_path))
    with pytest.raises(
        SplitError, match=r"key column 'file_row_number' .* DuckDB gives that name to .*; export to openml"
    ):
        openml_view(grown)


def test_the_sql_view_leaves_out_rows_that_are_deleted(grown: Manifest) -> None:
    """Through all generations, with the newest status of each row."""
    back = extend(grown, pd.concat([visits(340).query("number >= 35")])).manifest
    again = read_manifest(write_manifest(back, Path(str(grown.uri)).parent.parent))
    assert (again.status != 0).sum() == 5
    for manifest in (grown, again):
        assert sides_by_view(manifest) == sides_of(manifest)


def test_the_sql_view_of_composite_keys_joins_them(tmp_path: Path) -> None:
    """rowid is one column, as in OpenML."""
    manifest = read_manifest(write_manifest(split(visits(), key=["day", "number"]), tmp_path))
    assert all("|" in rowid for ids in sides_by_view(manifest).values() for rowid in ids)
    assert {side: len(ids) for side, ids in sides_by_view(manifest).items()} == {
        (0, i, kind): side.size
        for i, pair in enumerate(manifest.pairs())
        for kind, side in zip(("TRAIN", "TEST"), pair, strict=True)
    }


def test_the_sql_view_of_pseudonyms_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rowid is what the file holds instead of a key."""
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret")
    manifest = read_manifest(write_manifest(split(visits(), key_encoding="hmac"), tmp_path))
    assert sides_by_view(manifest) == sides_of(manifest)


def test_no_view_is_made_of_what_no_file_holds(tmp_path: Path) -> None:
    """Draws are made anew; a manifest in memory lies nowhere."""
    with pytest.raises(SplitError, match="draws are made anew from their seed"):
        openml_view(read_manifest(write_manifest(split(visits(), strategy="Bootstrap"), tmp_path)))
    with pytest.raises(SplitError, match="the manifest lies nowhere yet"):
        openml_view(split(visits()))

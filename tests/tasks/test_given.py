"""What tasks and flows are given: refused in a sentence where it does not fit; frames become files by content."""

import json
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenfold.estimates import ModelError, ModelSpec
from evenfold.flows import evaluate
from evenfold.manifests import Snapshot, decide, write_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, audit_split, extend, fit_fold, record_split, split
from evenfold.tasks.arrivals import check_table, snapshot_of
from evenfold.tasks.references import manifest_folder, recorded_splits
from prefect import flow
from prefect.filesystems import LocalFileSystem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from small import RIDGE, SPEC, evaluated, runs, small

from evenfold import flows


@pytest.fixture
def folds(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SplitRef:
    monkeypatch.chdir(tmp_path)
    small(60).to_parquet("rows.parquet")
    return split.fn("rows.parquet", key="id", target="y", strategy="KFold", n_splits=3)


def test_an_empty_path_is_not_the_working_folder(folds: SplitRef) -> None:
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


NO_MODELS: list[tuple[Any, str]] = [
    (make_pipeline(Ridge(random_state=np.random.RandomState(0))), "Ridge.random_state is a RandomState, which no"),
    (
        make_pipeline(StandardScaler().set_output(transform="pandas"), Ridge()),
        "StandardScaler has set_output, which",
    ),
    (make_pipeline(FunctionTransformer(partial(np.clip, a_min=0)), Ridge()), "FunctionTransformer.func is a partial, "),
    (0, "a value of type int is no model; pass an estimator, or name one"),
]


def test_what_no_recipe_can_hold_is_refused_with_what_to_do(folds: SplitRef) -> None:
    for model, sentence in NO_MODELS:
        for call in (ModelSpec.of, partial(fit_fold.fn, folds, 0), lambda each: evaluated("rows.parquet", model=each)):
            with pytest.raises(ModelError, match=re.escape(sentence)):
                call(model)


@pytest.mark.parametrize("name", ["rows@1.0", "SplitOutcome", "folder"])
def test_tasks_and_flows_take_a_split_as_it_is_called_or_as_split_returned_it(name: str, folds: SplitRef) -> None:
    outcome = flows.split("rows.parquet", spec=SPEC | {"name": "rows"}) if name == "SplitOutcome" else None
    given: Any = {"SplitRef": folds, "SplitOutcome": outcome, "folder": Path(folds.uri)}.get(name, name)
    version = "2.0" if outcome else "1.0"
    assert evaluated("rows.parquet", spec=None, manifest=given, n_splits=None).split.version == version
    assert flows.extend(given, "rows.parquet", engine="plain").split.version == version
    assert extend.fn(given, "rows.parquet").split.version == version


def under(folder: Path, version: str, split_id: str) -> Path:
    made = shutil.copytree(folder, folder.with_name(version))
    header = json.loads((made / "manifest.json").read_text())
    (made / "manifest.json").write_text(json.dumps(header | {"version": version, "split_id": split_id}))
    return made


def test_a_name_is_the_newest_version_and_four_digits_that_one_split_alone_has(folds: SplitRef, home: Home) -> None:
    """1.10 comes after 1.9; what lies beside the versions is none; the same split in two folders is one."""
    folder, ids = Path(folds.uri), ["abcd1" + "0" * 59, "abcd2" + "0" * 59]
    older, newest = under(folder, "1.9", ids[0]), under(folder, "1.10", ids[1])
    under(folder, "1.9.bak", ids[1])
    assert manifest_folder("rows") == newest
    assert (manifest_folder("rows@1.9"), manifest_folder("rows/1.0")) == (older, folder)
    with pytest.raises(SplitError, match=r"the split 'rows' has no version '2\.0'; it has 1\.0, 1\.9, 1\.10\."):
        manifest_folder("rows@2.0")
    assert manifest_folder("abcd1") == older
    with pytest.raises(SplitError, match="'abcd' begins the ids of 2 splits; write more of its digits"):
        manifest_folder("abcd")
    shutil.copytree(older, home.splits / "again" / "1.0")
    assert manifest_folder("abcd1").name in ("1.9", "1.0")
    assert manifest_folder("abc") == Path("abc"), "three digits are no id"
    shutil.copytree(folder, home.splits.parent / "1.0")
    assert manifest_folder("..") == Path(".."), "what lies beside the splits is none"


def test_splits_are_listed_by_when_they_were_written(folds: SplitRef, home: Home) -> None:
    """Whatever they are called, the newest first; one that cannot be read is in nobody's way."""
    folder, damaged = Path(folds.uri), home.splits / "damaged" / "1.0"
    shutil.copytree(folder, home.splits / "early" / "1.0")
    shutil.copytree(folder, home.splits / "zenith" / "1.0")
    damaged.mkdir(parents=True)
    (damaged / "manifest.json").write_text("{")
    for written, name in enumerate(("zenith", "rows", "early"), start=1):
        made = home.splits / name / "1.0" / "manifest.json"
        made.write_text(json.dumps(json.loads(made.read_text()) | {"name": name}))
        os.utime(made, (written, written))
    assert [each["split"] for each in recorded_splits(home)] == ["early@1.0", "rows@1.0", "zenith@1.0"]


FOLDS: dict[str, Any] = {"key": "id", "strategy": "KFold", "n_splits": 3}


def test_a_frame_that_was_changed_is_another(prefect_home: Home) -> None:
    @flow
    def mine() -> set[str]:
        frame = small(60)
        first = split(frame, target="y", **FOLDS)
        frame["a"] = 0.0
        return {first.data, split(frame, target="y", **FOLDS).data}

    assert len(mine()) == 2


def test_a_frame_stays_where_results_lie_in_a_storage_of_the_users(prefect_home: Home, tmp_path: Path) -> None:
    LocalFileSystem(basepath=str(tmp_path / "mine")).save("mine", overwrite=True)  # type: ignore[unused-coroutine]
    elsewhere = split.with_options(result_storage=LocalFileSystem.load("mine"))

    @flow
    def mine() -> Any:
        return elsewhere(small(60), target="y", **FOLDS)

    assert [Path(mine().data).exists() for _ in "ab"] == [True, True]


@pytest.mark.parametrize("asked", [{"target": "nosuch"}, {"taget": "y"}, {"target": "y", "strategy": "Nope"}])
def test_a_refused_request_leaves_nothing_of_a_frame(home: Home, asked: dict[str, Any]) -> None:
    for refusing in (split.fn, evaluate):
        with pytest.raises(SplitError):
            refusing(small(60), **{"engine": "plain"} if refusing is evaluate else {}, **asked)
        assert not list(home.path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("recipe", "stopped"),
    [
        ({}, ["lost_columns"]),
        ({"exclude": ["b"]}, []),
        ({"exclude": ["a"]}, ["lost_columns"]),
        ({"features": ["a"]}, []),
        ({"features": ["b"]}, ["lost_columns"]),
    ],
    ids=str,
)
def test_a_column_that_is_gone_stops_a_table_where_the_recipe_may_read_it(
    recipe: dict[str, Any], stopped: list[str], home: Home, tmp_path: Path
) -> None:
    rows, file = small(40), tmp_path / "rows.parquet"
    manifest = decide(SPEC, rows)
    place = snapshot_of(manifest.split_id)
    place.parent.mkdir(parents=True)
    Snapshot.of(manifest, rows).write(place)
    rows.drop(columns="b").to_parquet(file)
    found = check_table.fn(str(write_manifest(manifest, home.shared)), str(file), recipe=ModelSpec.of(RIDGE | recipe))
    assert found.failed == stopped

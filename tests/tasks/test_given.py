"""What tasks and flows are given: refused in a sentence where it does not fit; frames become files by content."""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelError, ModelSpec
from evenfold.flows import evaluate
from evenfold.manifests import Snapshot, decide, write_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, audit_split, extend, fit_fold, load_split, record_split, split
from evenfold.tasks.references import manifest_folder
from evenfold.tasks.runtime.home import Settings
from evenfold.tasks.splits import check_table
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from small import RIDGE, SPEC, evaluated, runs, small


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


def test_the_same_folds_for_another_target_are_another_split(home: Home) -> None:
    rows, spec = small(60), {"name": "two", "strategy": "KFold", "params": {"n_splits": 3}}
    both = [decide(spec | {"columns": {"key": "id", "target": target}}, rows) for target in "ab"]
    assert both[0].split_id == both[1].split_id
    splits = [load_split.fn(manifest, data=rows).manifest() for manifest in both]
    assert [manifest.spec.columns.target for manifest in splits] == ["a", "b"]
    for manifest in splits:
        Snapshot.of(manifest, rows).keep(home.snapshots)
    kept = [Snapshot.newest(manifest, home.splits / "two", home.snapshots) for manifest in splits]
    assert not kept[0].target.equals(kept[1].target)


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container's may be; the name is kept with every record."""
    for name in ("EVENFOLD_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert Settings.here().person == "uid 4000000"


def test_a_split_that_names_no_table_is_not_of_the_working_folder(folds: SplitRef, home: Home) -> None:
    """``load_split`` without data gives one: whatever reads its table says so, and records nothing."""
    bare = folds.model_copy(update={"data": ""})
    for call in (lambda: audit_split.fn(bare), lambda: record_split.fn(bare), lambda: fit_fold.fn(bare, 0)):
        with pytest.raises(SplitError, match=r"rows 1\.0 names no table; say which: load_split\("):
            call()
    assert not runs(home)


NO_MODELS: list[tuple[Any, str]] = [
    (make_pipeline(StandardScaler().set_output(transform="pandas"), Ridge()), "StandardScaler has set_output, which"),
    (make_pipeline(FunctionTransformer(partial(np.clip, a_min=0)), Ridge()), "FunctionTransformer.func is a partial, "),
    (make_pipeline(FunctionTransformer(StandardScaler().fit), Ridge()), "StandardScaler.fit is a method, which"),
    (make_pipeline(FunctionTransformer(np.vectorize(abs)), Ridge()), "is defined in numpy, where no other"),
    (make_pipeline(StandardScaler(with_mean=pd.Series([1.0], ["a"])), Ridge()), "with_mean is a Series with an index"),
    (make_pipeline(StandardScaler(with_mean=b"no"), Ridge()), "StandardScaler.with_mean is a bytes, which"),
    (0, "a value of type int is no model; pass an estimator, or name one"),
]


def test_what_no_recipe_can_hold_is_refused_with_what_to_do(folds: SplitRef) -> None:
    for model, sentence in NO_MODELS:
        for call in (ModelSpec.of, partial(fit_fold.fn, folds, 0), lambda each: evaluated("rows.parquet", model=each)):
            with pytest.raises(ModelError, match=re.escape(sentence)):
                call(model)


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


FOLDS: dict[str, Any] = {"key": "id", "strategy": "KFold", "n_splits": 3}


def test_a_frame_that_was_changed_is_another(home: Home) -> None:
    frame = small(60)
    first = split.fn(frame, target="y", **FOLDS)
    frame["a"] = 0.0
    assert split.fn(frame, target="y", **FOLDS).data != first.data


def test_the_split_of_a_frame_is_called_by_eight_digits() -> None:
    assert re.fullmatch("table-[0-9a-f]{8}", evaluate.request_type.called((small(60),), {}).specification.name)


@pytest.mark.parametrize(
    ("recipe", "stopped"),
    [({"exclude": ["b"]}, []), ({"exclude": ["a"]}, ["lost_columns"]), ({"features": ["a"]}, [])],
    ids=str,
)
def test_a_column_that_is_gone_stops_a_table_where_the_recipe_may_read_it(
    recipe: dict[str, Any], stopped: list[str], home: Home, tmp_path: Path
) -> None:
    rows, file = small(40), tmp_path / "rows.parquet"
    manifest = decide(SPEC, rows)
    place = Snapshot.path_of(manifest.plan_id, Home.here().snapshots)
    place.parent.mkdir(parents=True)
    Snapshot.of(manifest, rows).write(place)
    rows.drop(columns="b").to_parquet(file)
    found = check_table.fn(str(write_manifest(manifest, home.shared)), str(file), recipe=ModelSpec.of(RIDGE | recipe))
    assert found.failed == stopped

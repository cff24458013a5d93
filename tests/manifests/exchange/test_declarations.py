"""What belongs together is declared in the words of others, and the same split is decided from it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.manifests import (
    decide,
    declaration_of,
    export,
    read_split_spec,
    spec_from_declaration,
)
from evenfold.splitters import SplitError
from tables import split, visits

GROUPED = {"columns": {"key": "id", "group": "clinic", "stratify": "y"}, "strategy": "BalancedGroupKFold"}
TIMED = {"columns": {"key": "id", "time": "day", "target": "y"}, "strategy": "ForwardChaining"}
STRATIFIED = {"columns": {"key": "id", "target": "y"}, "strategy": "StratifiedKFold"}


@pytest.mark.parametrize("spec", [GROUPED, TIMED, STRATIFIED], ids=lambda spec: spec["strategy"])
def test_declarations_come_back_as_the_same_split(spec: dict[str, Any]) -> None:
    """Columns are kept; the folds are the same because the strategy's defaults are."""
    declared = declaration_of(spec)
    assert "folds are decided anew there" in declared.lost[0]
    back = spec_from_declaration(declared.structure(), "id", target=spec["columns"].get("target"))
    assert decide(back, visits()).split_id == decide(spec, visits()).split_id


@pytest.mark.parametrize("spec", [GROUPED, TIMED, STRATIFIED], ids=lambda spec: spec["strategy"])
def test_autogluon_takes_the_structure(spec: dict[str, Any]) -> None:
    """With the real package: ValidationStructure is made of it, and its folds respect what it says."""
    package = pytest.importorskip(
        "autogluon.common.utils.validation_structure", reason="autogluon.common is not installed"
    )
    frame, structure = visits(), declaration_of(spec).structure()
    made = package.ValidationStructure.from_input(structure)
    folds, _, _ = made.custom_splits(frame, frame["y"], num_folds=3, num_repeats=1)
    for train, test in folds:
        if made.group_on:
            assert not set(frame["clinic"].iloc[train]) & set(frame["clinic"].iloc[test])
        if made.time_on:
            assert frame["day"].iloc[train].max() < frame["day"].iloc[test].min()


def test_data_foundrys_task_is_a_declaration() -> None:
    """Its fields beyond the split are passed over; its time is always forward."""
    task = {
        "target_column_name": "y",
        "problem_type": "binary_classification",
        "objective_metric_name": "roc_auc",
        "stratify_on": None,
        "group_on": "clinic",
        "group_labels": "per_sample",
        "group_time_on": "day",
        "type_adapter_id": "predictive-ml-task-mold-v1",
    }
    spec = spec_from_declaration(task, "id")
    assert (spec.strategy, spec.columns.group, spec.columns.target) == ("BalancedGroupKFold", "clinic", "y")
    timed = spec_from_declaration(task | {"group_on": None, "group_time_on": None, "time_on": "day"}, "id")
    assert (timed.strategy, timed.columns.time) == ("ForwardChaining", "day")


def test_several_declared_group_columns_stay_together() -> None:
    """Rows that share a clinic or a device are one group; a list of one is its column."""
    several = spec_from_declaration({"group_on": ["clinic", "device"]}, "id", target="y")
    assert (several.strategy, several.columns.grouped) == ("BalancedGroupKFold", ["clinic", "device"])
    assert spec_from_declaration({"group_on": ["clinic"]}, "id").columns.group == "clinic"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"stratify_on": ["a", "b"]}, r"stratify_on names 2 columns \(a and b\); join them into one"),
        ({"time_on": "day"}, "trains on rows after those that are tested"),
        ({"group_time_on": "visit"}, "group_time_on orders whole groups in time"),
        ({"groupon": "a"}, "groupon: no such field"),
    ],
)
def test_declarations_without_a_counterpart_are_refused(declared: dict[str, Any], message: str) -> None:
    """In one sentence with what would work."""
    with pytest.raises(SplitError, match=message):
        spec_from_declaration(declared, "id")


def test_a_group_and_a_time_together_cannot_be_declared() -> None:
    """Neither AutoGluon nor data-foundry takes both; the folds themselves can go."""
    with pytest.raises(SplitError, match=r"both a group \(clinic\) and a time \(day\) are named"):
        declaration_of({"columns": {"key": "id", "group": "clinic", "time": "day"}, "strategy": "ForwardChaining"})
    with pytest.raises(SplitError, match="declares nothing"):
        declaration_of({"columns": {"key": "id"}, "strategy": "KFold"})
    lost = declaration_of(STRATIFIED | {"holdout": 0.2}).lost
    assert any("locked holdout of 0.2" in sentence for sentence in lost)


@pytest.mark.parametrize("spec", [GROUPED, TIMED | {"columns": {**TIMED["columns"], "group": "clinic"}}])
def test_split_graph_says_what_belongs_together(spec: dict[str, Any], tmp_path: Path) -> None:
    """The samples come back with their groups, order and strata; decided again, groups alone make the same folds."""
    frame = visits().assign(clinic=lambda data: "g" + (data["day"] // 4).astype(str))
    manifest = decide(spec, frame)
    made = export(manifest, "splitgraph", tmp_path / "split_spec.json", frame)
    assert "Lost: the folds" in made.note
    document = json.loads((tmp_path / "split_spec.json").read_text())
    assert (document["splitGraph_object"], document["schema_version"]) == ("split_spec", "0.3.0")
    back, samples = read_split_spec(tmp_path / "split_spec.json")
    assert dict(zip(samples["sample_id"].to_pylist(), samples["group_id"].to_pylist(), strict=True)) == dict(
        zip(frame["id"], frame["clinic"], strict=True)
    )
    assert back.strategy == spec["strategy"]
    assert decide(back, samples).split_id == manifest.split_id


def test_a_file_that_is_no_split_spec_is_refused(tmp_path: Path) -> None:
    """Another kind, another major version, and a manifest without groups."""
    for text, message in (
        ("[]", "holds no object"),
        ("{", "is no JSON"),
        ('{"splitGraph_object": "dependency_graph"}', "is not a split_spec"),
        ('{"splitGraph_object": "split_spec", "schema_version": "1.0.0"}', "schema 0.x"),
        ('{"splitGraph_object": "split_spec", "sample_data": [{"sample_id": "a"}]}', "lacks sample_data"),
    ):
        (tmp_path / "spec.json").write_text(text)
        with pytest.raises(SplitError, match=message):
            read_split_spec(tmp_path / "spec.json")
    with pytest.raises(SplitError, match="give data, and split with a key and a group"):
        export(split(visits()), "splitgraph", tmp_path / "out.json", visits())


@pytest.mark.parametrize("key", [["id"], ["id", "site"]])
def test_split_graph_names_rows_and_groups_by_pseudonyms_where_keys_are(
    key: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identifiers that a manifest does not hold do not leave with it."""
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret")
    rows = pd.DataFrame(
        {"id": [f"patient {i}" for i in range(40)], "site": "a", "g": [f"ward {i % 8}" for i in range(40)]}
    )
    manifest = decide({"columns": {"key": key, "group": "g"}, "key_encoding": "hmac"}, rows)
    export(manifest, "splitgraph", tmp_path / "spec.json", rows)
    text = (tmp_path / "spec.json").read_text()
    assert "patient" not in text
    assert "ward" not in text
    assert manifest.keys is not None
    samples = json.loads(text)["sample_data"]
    assert [row["sample_id"] for row in samples] == list(map(str, manifest.keys["row_key"].to_pylist()))
    assert len({row["group_id"] for row in samples}) == 8

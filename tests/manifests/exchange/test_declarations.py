"""What belongs together is declared in the words of others, and the same split is decided from it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.manifests import (
    decide,
    export,
    read_split_spec,
)
from evenfold.splitters import SplitError
from tables import split, visits

GROUPED = {"columns": {"key": "id", "group": "clinic", "stratify": "y"}, "strategy": "BalancedGroupKFold"}
TIMED = {"columns": {"key": "id", "time": "day", "target": "y"}, "strategy": "ForwardChaining"}
STRATIFIED = {"columns": {"key": "id", "target": "y"}, "strategy": "StratifiedKFold"}


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

"""Data that lack what a check looks at, or hold what it does not expect, cost no check its answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked, clean, plain, split, the
from evenfold.manifests import GATES, audit, decide, extend
from evenfold.manifests.audits.findings import GATES as LIMITS
from evenfold.manifests.audits.judging import judged


def accounted_for(made: Any) -> bool:
    places = [*(found.check for found in made.findings), *made.passed, *made.not_asked]
    return all(found.ran for found in made.findings) and sorted(places) == sorted(GATES)


@pytest.mark.parametrize("strategy", ["KFold", "StratifiedShuffleSplit"])
def test_a_target_without_a_value_stops_no_check(strategy: str) -> None:
    frame, _ = plain(n=200)
    frame["gaps"] = frame["a"].where(frame.index >= 60)
    frame["day"], frame["never"] = pd.date_range("2020", periods=200), pd.NaT
    manifest = decide({"strategy": strategy, "columns": {"key": "id", "target": "y"}}, frame)
    made = audit(manifest, frame.assign(y=pd.Series([None] * 200, dtype="string" if strategy == "KFold" else object)))
    assert accounted_for(made)
    assert made.not_asked["missing_classes"] == "no row has a class"
    assert made.not_asked["constant_target"] == "no row has a target"
    assert made.not_asked["target_like_features"] == "0 rows with a target are too few to tell a copy of it from chance"
    if strategy == "KFold":
        assert made.not_asked["class_deviation"] == "no row has a class"


def test_a_check_that_stumbles_is_told_and_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbling(_: Any) -> None:
        raise KeyError("Meier")

    data = clean(100)
    checks = {name: (lambda: None) for name in LIMITS} | {"class_deviation": lambda: stumbling(data)}
    made = judged(LIMITS, checks, split(data), n_rows=100, features=[])
    found = the("class_deviation", made)
    assert (found.ran, found.figure, found.severity) == (False, None, "warning")
    assert "could not run: KeyError in test_audit_odd_data.py, line " in found.message
    assert "Meier" not in found.message
    assert len(made.passed) == len(LIMITS) - 1


@pytest.mark.parametrize("failure", [OSError(110, "Connection timed out"), MemoryError()])
def test_a_disk_or_a_network_that_fails_is_no_finding(failure: Exception) -> None:
    def failing() -> None:
        raise failure

    data = clean(100)
    checks = {name: (lambda: None) for name in LIMITS} | {"class_deviation": failing}
    with pytest.raises(type(failure)):
        judged(LIMITS, checks, split(data), n_rows=100, features=[])


def test_folds_that_follow_in_time_are_known_as_such_in_any_order_of_the_file() -> None:
    frame, random = plain(n=600)
    hours, frame["id"] = np.arange(600), random.permutation(600)
    frame["fold"], frame["t"] = hours // 120, pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, unit="h")
    frame["a"] += frame["fold"]
    spec = {"strategy": "Predefined", "columns": {"key": "id", "target": "y", "fold": "fold"}}
    manifest = decide(spec, frame)
    only = {name: "off" for name in LIMITS if name != "other_populations"}
    for rows in (frame, frame.sample(frac=1, random_state=1)):
        made = audit(manifest, rows, time="t", gates=only)
        assert made.not_asked["other_populations"] == "the folds follow one another in time"


def test_every_empty_cell_of_class_and_split_is_counted_and_few_are_listed() -> None:
    """Of 300 classes of four rows each lacks at least one of five folds, and the gate is held to all of them."""
    frame = pd.DataFrame({"id": range(1200), "y": [f"c{i % 300}" for i in range(1200)]})
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    tested = pd.crosstab(frame["y"], manifest.codes).to_numpy()
    empty = int((tested == 0).sum() + (tested == 4).sum())
    assert empty > 300
    made = audit(manifest, frame, gates={name: "off" for name in LIMITS} | {"missing_classes": empty - 1})
    found = the("missing_classes", made)
    assert (made.failed, found.figure) == (["missing_classes"], empty)
    assert len(found.figures["y/test"]) == 20


def test_that_later_rows_are_later_is_no_other_population() -> None:
    data = clean(400)[["id", "y", "dose", "age"]]
    data["when"] = pd.date_range("2026-01-05", periods=400, freq="h", tz="Europe/Berlin")
    grown = extend(split(data.head(300), columns={"group": None}, strategy="KFold"), data).manifest
    assert "other_generation" in asked(grown, data, "other_generation").passed
    assert "other_generation" in asked(grown, data, "other_generation", features=["when"]).not_asked

"""An audit says no more and no less than the rows bear out: no chance is taken for a leak, no bound is none."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import OF_DATA, asked, clean, plain, split, the, told
from evenfold.manifests import audit, decide, extend
from evenfold.manifests.audits import duplicates
from evenfold.manifests.audits.findings import GATES as LIMITS, judged
from evenfold.manifests.joined import Joined


@pytest.mark.parametrize(("made_of", "by_chance"), [("measured", False), ("coarse", True)])
def test_repeats_are_judged_by_all_rows_where_few_are_drawn(
    made_of: str, by_chance: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4,000 rows 400 are drawn, and no repeated pair is among them: near misses are counted in that proportion."""
    monkeypatch.setattr(duplicates, "MOST_SAMPLED", 400)
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(4000, 3)), columns=list("abc")).assign(id=range(4000))
    if made_of == "coarse":
        frame[list("abc")] = random.integers(0, 120, (4000, 3))
    else:
        frame.loc[[1, 2], list("abc")] = frame.loc[[2001, 2002], list("abc")].to_numpy()
    joined = Joined.of(decide({"strategy": "KFold", "columns": {"key": "id"}}, frame), frame)
    found = duplicates.duplicate_rows(duplicates.read_features(joined, list("abc")))
    assert (found.figure == 0) == by_chance, found.message


def test_a_level_does_not_know_the_target_of_its_only_positive() -> None:
    random, n = np.random.default_rng(0), 20_000
    frame = pd.DataFrame({"id": range(n), "y": "no", "shop": [f"s{i}" for i in random.permutation(n) // 5]})
    frame.loc[random.choice(n, 4, replace=False), "y"] = "yes"
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    made = asked(manifest, frame, "target_like_features", features=["shop"])
    assert made.passed == {"target_like_features": ""}


@pytest.mark.parametrize(("target", "rows_a_level"), [("rare", 6), ("half", 50), ("several", 6), ("number", 50)])
def test_a_level_that_decides_the_target_of_its_rows_is_a_leak(target: str, rows_a_level: int) -> None:
    random, n = np.random.default_rng(0), 1800
    levels = random.permutation(n) // rows_a_level
    own = random.permutation(n // rows_a_level)[levels]
    made = {"rare": own < 2, "half": own % 2, "several": own % 4, "number": own * 1.5}[target]
    names = np.where(np.arange(n) % 100 == 0, [f"single{i}" for i in range(n)], [f"s{level}" for level in levels])
    frame = pd.DataFrame({"id": range(n), "y": made, "shop": names})
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    found = the("target_like_features", asked(manifest, frame, "target_like_features", features=["shop"]))
    assert found.figures["features"]["shop"] == pytest.approx(1.0)


@pytest.mark.parametrize("target", ["class", "number"])
def test_a_level_from_which_the_own_row_is_left_out_is_no_mirror_of_the_target(target: str) -> None:
    random, n = np.random.default_rng(0), 5000
    numbers = random.normal(size=(n // 5, 5))
    made = np.tile([1, 0, 0, 0, 0], n // 5) if target == "class" else (numbers - numbers.mean(axis=1)[:, None]).ravel()
    frame = pd.DataFrame({"id": range(n), "y": made, "set": [f"s{i // 5}" for i in range(n)], "one": "same"})
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    made = asked(manifest, frame, "target_like_features", features=["set", "one"])
    assert made.passed == {"target_like_features": ""}


def test_rows_of_no_group_are_no_group_together() -> None:
    frame, random = plain()
    device = random.integers(0, 60, len(frame))
    frame["device"], frame["y"] = [f"d{code:03d}" for code in device], random.normal(size=60)[device] * 2 + frame["a"]
    frame["pair"] = [f"p{i // 2}" if i < 8 else None for i in range(len(frame))]
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    found = the("unnamed_entities", asked(manifest, frame, "unnamed_entities", group="pair"))
    assert "`group: device`" in found.message


def test_a_time_of_one_value_has_no_price() -> None:
    frame = plain(n=300)[0].assign(t=5)
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    found = the("time_overlap", asked(manifest, frame, "time_overlap", time="t", impact=True))
    assert "At stake" not in found.message


def accounted_for(made: Any) -> bool:
    places = [*(found.check for found in made.findings), *made.passed, *made.not_asked]
    return all(found.ran for found in made.findings) and sorted(places) == sorted(OF_DATA)


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
    assert "could not run: KeyError in test_audit_fairness.py, line " in found.message
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


def test_people_of_one_income_or_of_none_are_no_relatives() -> None:
    frame, random = plain()
    income = np.where(random.random(900) < 0.3, 0.0, random.gamma(2, 10, 900).round())
    frame["last"], frame["this"] = income, np.where(random.random(900) < 0.9, income, random.permutation(income))
    frame["y"] = 2.0 * (income > 0) + random.normal(size=900)
    assert not told(frame, "relatives") + told(frame, "unnamed_entities")


def test_a_part_of_a_name_that_five_rows_have_is_no_mark_of_the_target() -> None:
    frame, random = plain()
    few = np.arange(900) % 180 == 0
    frame["code"] = [
        f"{'web' if each else 'shop'}-{i:05d}" for i, each in zip(random.permutation(900), few, strict=True)
    ]
    assert not told(frame.assign(y=3.0 * few + random.normal(size=900)), "pure_levels")


def test_a_law_of_nature_is_no_sum_and_an_asking_price_no_price() -> None:
    frame, random = plain()
    law = frame.assign(y=5 * frame["a"] + 2 * frame["b"] + 0.5 * random.normal(size=900))
    asked_for = frame.assign(y=frame["a"] + 0.08 * random.normal(size=900))
    parts = frame.assign(y=frame["a"] + frame["b"] + 0.12 * random.normal(size=900))
    far = frame.assign(a=random.choice([1.0, 1.2, 2e4], 900, p=[0.45, 0.45, 0.1]), b=np.exp(frame["b"] / 2))
    far["y"] = far["a"] * far["b"] ** 0.1 * np.exp(random.normal(size=900) / 10)
    rise = frame.assign(a=np.exp(frame["a"]), b=np.exp(frame["b"]))
    rise["y"] = rise["a"] ** 1.13 * rise["b"] ** 0.88 * np.exp(random.normal(size=900) / 30)
    tables = (law, asked_for, far, rise, parts, rise.assign(y=rise["y"] * rise["a"] ** -0.13 * rise["b"] ** 0.12))
    assert [bool(told(each, "computed_target")) for each in tables] == [False] * 4 + [True] * 2


def test_a_birth_date_that_acts_smoothly_is_no_time_that_the_split_ignores() -> None:
    frame, random = plain()
    born = random.integers(0, 20_000, 900)
    frame["born"] = pd.Timestamp("1950-01-01") + pd.to_timedelta(born, "D")
    assert not told(frame.assign(y=born / 5_000 + random.normal(size=900)), "times_left_out")


def test_a_smooth_surface_of_two_columns_is_no_map() -> None:
    frame, random = plain()
    frame["y"] = 3 * frame["a"] + np.sin(3 * frame["a"]) + frame["b"] ** 2 + 0.05 * random.normal(size=900)
    assert not told(frame, "places_left_out")

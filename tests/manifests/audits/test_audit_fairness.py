"""An audit says no more and no less than the rows bear out: no chance is taken for a leak, no bound is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from audited import asked, clean, plain, split, the
from evenfold.manifests import decide
from evenfold.manifests.audits import features
from evenfold.manifests.audits.findings import Found
from evenfold.manifests.audits.leaks import duplicate_rows
from evenfold.manifests.joined import Joined


@pytest.mark.parametrize(("made_of", "by_chance"), [("measured", False), ("coarse", True)])
def test_repeats_are_judged_by_all_rows_where_few_are_drawn(
    made_of: str, by_chance: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4,000 rows 400 are drawn, and no repeated pair is among them: near misses are counted in that proportion."""
    monkeypatch.setattr(features, "MOST_SAMPLED", 400)
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(4000, 3)), columns=list("abc")).assign(id=range(4000))
    if made_of == "coarse":
        frame[list("abc")] = random.integers(0, 120, (4000, 3))
    else:
        frame.loc[[1, 2], list("abc")] = frame.loc[[2001, 2002], list("abc")].to_numpy()
    joined = Joined.of(decide({"strategy": "KFold", "columns": {"key": "id"}}, frame), frame)
    found = duplicate_rows(features.read_features(joined, list("abc")))
    assert isinstance(found, Found)
    assert (found.figure == 0) == by_chance, found.message


def test_a_level_does_not_know_the_target_of_its_only_positive() -> None:
    """Shops of five rows are drawn at random; each rare row would else be the mean of its own shop."""
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


def test_parts_are_promised_no_bound_that_they_pass() -> None:
    data = clean(400).assign(patient=lambda frame: frame.index // 10)
    data["y"] = np.where(data["patient"] < 2, "rare", "w")
    spec = {"strategy": "BalancedGroupSplit", "params": {"parts": {"train": 0.8, "validation": 0.1, "test": 0.1}}}
    manifest = split(data, **spec)
    found = the("balance_out_of_reach", asked(manifest, data, "balance_out_of_reach"))
    worst = the("class_deviation", asked(manifest, data, "class_deviation"))
    assert found.figure == pytest.approx(0.1)
    assert found.figure <= abs(worst.figures["rows"] - worst.figures["share"]) / 20
    assert "and there are 3 parts: the best reachable deviation is 10.0%, a part without any" in found.message


def test_the_locked_rows_are_no_fold_and_one_group_more_is_needed_for_them() -> None:
    data = clean(400).assign(patient=lambda frame: frame.index // 10)
    data["y"] = np.where(data["patient"] < 5, "rare", "w")
    locked = split(data, strategy="BalancedGroupKFold", holdout={"fraction": 0.2})
    found = the("balance_out_of_reach", asked(locked, data, "balance_out_of_reach"))
    assert "5 folds and the locked rows: the best reachable deviation is 16.0%" in found.message
    assert "choose n_splits of at most 4." in found.message


def test_a_large_group_beside_locked_rows_is_advised_folds_that_hold_it() -> None:
    """Of 80 % of the rows two folds hold 40 % each, and three 27 %, which is less than the group of 30 %."""
    data = clean(400).assign(patient=lambda frame: np.where(frame.index < 120, 0, frame.index))
    locked = split(data, strategy="BalancedGroupKFold", holdout={"fraction": 0.2})
    said = the("balance_out_of_reach", asked(locked, data, "balance_out_of_reach")).message
    assert "choose n_splits of at most 2, or a finer group column" in said


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

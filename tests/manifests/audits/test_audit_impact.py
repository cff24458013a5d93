"""An audit that is asked what a leak costs refits with and without it, and says the points at stake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import finding
from evenfold.manifests import audit, decide

N = 1500


def rows_of(seed: int = 0, noise: float = 1.0) -> tuple[pd.DataFrame, np.random.Generator]:
    """Return rows of three numbers and a class that two of them tell something of."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(N, 3)), columns=list("abc"))
    frame["y"] = (frame["a"] - frame["b"] + noise * random.normal(size=N) > 0).astype(int)
    frame["id"] = [f"K{i:05d}" for i in random.permutation(N)]
    return frame, random


def stakes(frame: pd.DataFrame, check: str, **roles: str) -> dict[str, Any]:
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    found = finding(manifest, frame, check, impact=True, **roles)
    assert "At stake:" in found.message
    return dict(found.figures["impact"])


def test_a_feature_that_gives_the_target_away_is_worth_what_the_others_alone_do_not_reach() -> None:
    frame, random = rows_of()
    honest = stakes(frame.assign(copy=frame["y"]), "target_like_features")["mended"]
    frame["paid"] = frame["y"] + random.normal(size=N) * 0.3
    found = stakes(frame, "giveaway_features")
    assert found["measure"] == "AUC"
    assert found["as_split"] > 0.98
    assert found["mended"] == pytest.approx(honest, abs=1e-12)
    assert 0.75 < found["mended"] < 0.92


def test_repeated_rows_of_pure_chance_are_worth_all_that_they_seemed_to_tell() -> None:
    random = np.random.default_rng(1)
    once = pd.DataFrame(random.normal(size=(500, 3)), columns=list("abc"))
    once["y"] = random.integers(0, 2, 500)
    frame = pd.concat([once] * 3, ignore_index=True)
    frame["id"] = np.arange(len(frame))
    found = stakes(frame, "duplicate_rows")
    assert found["as_split"] > 0.7
    assert abs(found["mended"] - 0.5) < 0.07


@pytest.mark.parametrize(("check", "roles"), [("unnamed_entities", {}), ("group_in_two_folds", {"group": "device"})])
def test_an_entity_is_worth_what_it_tells_of_its_own_other_rows(check: str, roles: dict[str, str]) -> None:
    frame, random = rows_of()
    device = random.integers(0, 60, N)
    frame["device"] = [f"D{code:03d}" for code in device]
    frame["weight"] = random.normal(size=60)[device]  # what the model recognises it by
    frame["y"] = (random.normal(size=60)[device] + 0.3 * random.normal(size=N) > 0).astype(int)
    found = stakes(frame, check, **roles)
    assert found["as_split"] > 0.9
    assert found["mended"] < 0.7


def test_a_time_is_worth_what_its_neighbours_tell() -> None:
    frame, random = rows_of()
    walk = np.cumsum(random.normal(size=N))
    frame["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(N), "h")
    frame["hours"] = np.arange(N) * 1.0 + random.normal(size=N) * 0.01
    frame["y"] = walk
    found = stakes(frame, "times_left_out")
    assert found["measure"] == "R² of ranks"
    assert found["as_split"] > 0.8
    assert found["mended"] < found["as_split"] - 0.5


def test_nothing_is_refitted_unless_asked_and_what_has_no_remedy_has_no_price() -> None:
    frame, _ = rows_of()
    frame["copy"] = frame["y"]
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    asked, silent = (audit(manifest, frame, gates={"size_deviation": 0}, impact=impact) for impact in (True, False))
    assert all("impact" not in finding.figures for finding in silent.findings)
    priced = {finding.check for finding in asked.findings if "impact" in finding.figures}
    assert "target_like_features" in priced
    assert "size_deviation" not in priced

"""Splits of rows that have a time, whose targets are known later, and whose columns play one part each."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked, finding
from evenfold.manifests import decide, read_manifest, write_manifest
from evenfold.splitters import SplitError


def visits(n: int = 400) -> pd.DataFrame:
    """Return rows of 120 patients over 200 days, in no order, with targets that are known up to 20 days later."""
    random = np.random.default_rng(4)
    day = random.integers(0, 200, n)
    return pd.DataFrame(
        {
            "id": random.permutation(n) * 3,
            "y": random.normal(size=n),
            "x": random.normal(size=n),
            "patient": random.integers(0, 120, n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D"),
            "known": pd.Timestamp("2024-01-01") + pd.to_timedelta(day + random.integers(0, 21, n), unit="D"),
        }
    )


COLUMNS = {"key": "id", "target": "y", "time": "day"}


def test_a_time_without_a_strategy_trains_on_the_past() -> None:
    data = visits()
    for more in ({}, {"group": "patient"}):
        manifest = decide({"columns": COLUMNS | more, "params": {"n_splits": 3}}, data)
        assert manifest.spec.strategy == "ForwardChaining"
        for train, test in manifest.as_cv(data).split():
            assert data["day"].iloc[train].max() < data["day"].iloc[test].min()
            if more:
                assert not {*data["patient"].iloc[train]} & {*data["patient"].iloc[test]}


@pytest.mark.parametrize(
    ("strategy", "params"),
    [("ForwardChaining", {"n_splits": 3}), ("PurgedKFold", {"n_splits": 4, "embargo": "5 days"})],
)
def test_rows_whose_target_is_not_known_in_time_are_not_trained_on(strategy: str, params: Any, tmp_path: Any) -> None:
    data = visits()
    spec = {"columns": COLUMNS | {"label_end": "known"}, "strategy": strategy, "params": params}
    made = decide(spec, data)
    manifest = read_manifest(write_manifest(made, tmp_path))
    assert manifest.split_id == decide(spec, data.sample(frac=1, random_state=1)).split_id
    for train, test in manifest.as_cv(data).split():
        start, stop = data["day"].iloc[test].min(), data["known"].iloc[test].max() + pd.Timedelta(days=5)
        before = data["known"].iloc[train] < start
        after = data["day"].iloc[train] > stop
        assert (before | (after if strategy == "PurgedKFold" else False)).all()
    assert "time_overlap" in asked(manifest, data, "time_overlap").passed


def test_the_holdout_of_a_split_by_time_is_the_latest_stretch() -> None:
    data = visits()
    spec = {"columns": COLUMNS | {"label_end": "known"}, "params": {"n_splits": 2}, "holdout": 0.2}
    manifest = decide(spec, data)
    data = data[data["known"] <= data["day"].max()]  # the others wait
    codes = pd.Series(manifest.codes, index=data["id"].sort_values().to_numpy()).loc[data["id"]].to_numpy()
    start = data["day"][codes == -2].min()
    assert (codes == -2).sum() == (data["day"] >= start).sum()
    assert set(codes[(data["day"] < start) & (data["known"] >= start)]) == {-3}
    assert set(codes[data["known"] < start]) == {0}
    train, locked = (data.sort_values("id").iloc[side] for side in manifest.locked_pair())
    assert train["known"].max() < locked["day"].min()
    assert "time_overlap" in asked(manifest, data, "time_overlap").passed


def test_the_audit_finds_labels_that_became_known_later() -> None:
    data = visits()
    columns = COLUMNS | {"label_end": "known"}
    manifest = decide({"columns": columns, "strategy": "PurgedKFold"}, data)
    later = data.assign(known=data["known"] + pd.Timedelta(days=3))
    found = finding(manifest, later, "time_overlap")
    wanted = 0
    for train, test in manifest.as_cv(later).split():
        begin, end = later["day"].iloc[test].min(), later["known"].iloc[test].max()
        wanted += int(((later["known"].iloc[train] >= begin) & (later["day"].iloc[train] <= end)).sum())
    assert found.figure == wanted > 0


@pytest.mark.parametrize("strategy", ["GroupStratifiedShuffleSplit", "GroupShuffleSplit", "GroupBootstrap"])
def test_draws_of_groups_beside_a_holdout_are_of_the_groups_that_are_left(strategy: str, tmp_path: Any) -> None:
    data = visits().assign(y=lambda rows: rows["y"] > 0).sort_values("id", ignore_index=True)
    params = {"n_splits": 4} | ({"beta": 50} if strategy == "GroupStratifiedShuffleSplit" else {})
    spec = {"columns": {"key": "id", "target": "y", "group": "patient"}, "strategy": strategy, "params": params}
    manifest = read_manifest(write_manifest(decide(spec | {"holdout": 0.2}, data), tmp_path))
    locked = {*data["patient"][manifest.codes == -2]}
    rest = data[manifest.codes != -2]
    alone = list(manifest.splitter.split(None, rest["y"], rest["patient"]))
    for (train, test), (a, b) in zip(manifest.as_cv(data).split(), alone, strict=True):
        sides = [{*data["patient"].iloc[side]} for side in (train, test)]
        assert not sides[0] & sides[1]
        assert not (sides[0] | sides[1]) & locked
        assert rest.index[a].tolist() == train.tolist()
        assert rest.index[b].tolist() == test.tolist()


TABLE = pd.DataFrame({"row": range(60), "customer": [i // 4 for i in range(60)], "amount": [i % 7 for i in range(60)]})
ROLES = {"key": "row", "target": "amount", "group": "customer"}
STRATEGY: dict[str, Any] = {
    "fold": {"strategy": "Predefined"},
    "coordinates": {"strategy": "SpatialBlockKFold", "params": {"block_size": 3}},
}


@pytest.mark.parametrize("role", ["key", "time", "fold", "coordinates"])
def test_a_target_plays_no_other_part(role: str) -> None:
    columns: dict[str, Any] = {"target": "amount", role: ["amount", "row"] if role == "coordinates" else "amount"}
    with pytest.raises(SplitError, match=f"'amount' is named as target and as {role}; name another column as {role}"):
        decide({"columns": columns, **STRATEGY.get(role, {})}, TABLE)


def test_a_key_is_no_group() -> None:
    with pytest.raises(SplitError, match=r"'row' is named as key and as group; name another column as group, or none"):
        decide({"columns": ROLES | {"group": "row"}}, TABLE)
    with pytest.raises(SplitError, match="'row' is named as key and as group"):
        decide({"columns": ROLES | {"group": ["customer", "row"]}}, TABLE)
    assert decide({"columns": ROLES | {"key": ["customer", "row"]}}, TABLE).n == 60

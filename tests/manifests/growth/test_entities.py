"""Patients and devices, joined or crossing: none is on two sides, whatever joins them, and as the table grows."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked
from cases import CASES
from evenfold.manifests import Manifest, audit, decide, extend, measure, read_manifest, read_spec, write_manifest
from evenfold.splitters import CombinatorialPurgedKFold, Crossed, ForwardChaining, PurgedKFold, SplitError

SPEC: dict[str, Any] = {
    "columns": {"key": "visit", "target": "sick", "group": ["patient", "device"]},
    "params": {"n_splits": 4},
    "holdout": 0.15,
}
CROSSING: dict[str, Any] = SPEC | {"group_mode": "cross", "holdout": None, "params": {"n_splits": 4, "effort": 1}}


def visits(months: int, seed: int = 2) -> pd.DataFrame:
    """Return 80 visits a month at 60 clinics, each with three patients and a device; some go to two."""
    random = np.random.default_rng(seed)
    n = 80 * 13
    clinic = random.integers(0, 60 + np.arange(n) // 20, n)  # clinics open as time goes by
    elsewhere = random.random(n) < 0.004
    at = np.where(elsewhere, random.integers(0, 60, n), clinic)
    return pd.DataFrame(
        {
            "visit": [f"v{i:05d}" for i in random.permutation(n)],
            "patient": clinic * 100 + random.integers(0, 3, n),
            "device": [f"d{a}" for a in at],
            "sick": random.random(n) < 0.3,
            "age": random.normal(size=n),
        }
    ).iloc[: 80 * months]


def crossing_visits(n: int, wandering: float = 0.06, seed: int = 4) -> pd.DataFrame:
    """Return visits of patients who mostly use the devices of their region, of four, and so join them all."""
    random = np.random.default_rng(seed)
    patient = random.integers(0, 100 + np.arange(n) // 8, n)
    region = np.where(random.random(n) < wandering, random.integers(0, 4, n), patient % 4)
    device = [f"d{r}-{i}" for r, i in zip(region, random.integers(0, 6 + np.arange(n) // 400, n), strict=True)]
    sick = random.random(n) < 0.3
    key = [f"v{i:06d}" for i in random.permutation(n)]
    return pd.DataFrame(
        {"visit": key, "patient": patient, "device": device, "sick": sick, "age": random.normal(size=n)}
    )


def joined(rows: pd.DataFrame) -> list[set[Any]]:
    """Return the sets of visits that patients and devices join, by asking each row in turn."""
    sets: list[tuple[set[Any], set[Any]]] = []
    for visit, *levels in rows[["visit", "patient", "device"]].itertuples(index=False):
        touched = [each for each in sets if each[1] & set(levels)]
        sets = [each for each in sets if not each[1] & set(levels)]
        sets.append(({visit}.union(*(e[0] for e in touched)), set(levels).union(*(e[1] for e in touched))))
    return [visits for visits, _ in sets]


def folds(manifest: Manifest, data: pd.DataFrame) -> pd.Series:
    return pd.Series(manifest.fold_of(data), index=data["visit"])


def levels_in_two_folds(data: pd.DataFrame, fold: pd.Series) -> list[Any]:
    """Return every patient and device that has rows of two folds, by looking at each row in turn."""
    torn = []
    for column in ("patient", "device"):
        seen: dict[Any, int] = {}
        for level, code in zip(data[column], fold, strict=True):
            if code != -3 and seen.setdefault(level, code) != code:
                torn.append((column, level))
    return torn


def test_what_is_joined_is_in_one_fold_or_locked_together() -> None:
    data = visits(3)
    manifest = decide(SPEC, data)
    assert manifest.spec.strategy == "BalancedGroupKFold"
    assert decide(SPEC, data.sample(frac=1, random_state=5)).split_id == manifest.split_id
    fold, groups = folds(manifest, data), joined(data)
    assert set(fold) == {-2, 0, 1, 2, 3}
    assert all(len({fold[visit] for visit in group}) == 1 for group in groups)
    assert measure(manifest, data).largest_group == max(len(group) for group in groups if fold[next(iter(group))] >= 0)
    assert "group_in_two_folds" in audit(manifest, data).passed
    random = audit(decide(SPEC | {"strategy": "KFold", "columns": {"key": "visit"}}, data), data, group="device")
    assert "group_in_two_folds" in random.failed


@pytest.mark.parametrize(
    ("spec", "table", "most"),
    [(SPEC, visits(13), 0.05), (CROSSING, crossing_visits(3900), 0.1)],
    ids=["joined", "crossing"],
)
def test_over_twelve_months_no_row_moves_and_a_row_of_two_folds_is_quarantined(
    spec: dict[str, Any], table: pd.DataFrame, most: float, tmp_path: Path
) -> None:
    n = len(table) // 13
    manifest, data = decide(spec, table[:n]), table[:n]
    before = folds(manifest, data)
    quarantined, first = 0, int((before == -3).sum())
    for month in range(2, 14):
        data = table[: n * month]
        grown = extend(manifest, data.sample(frac=1, random_state=month))
        assert grown.manifest.split_id == extend(manifest, data).manifest.split_id
        assert grown.moved == grown.deleted == 0
        manifest = read_manifest(write_manifest(grown.manifest, tmp_path))
        quarantined += grown.quarantined
        fold = folds(manifest, data)
        assert (fold[before.index] == before).all()
        assert levels_in_two_folds(data, fold) == []
        left_out = fold.index[fold == -3]
        assert len(left_out) == first + quarantined
        for visit in left_out.difference(before.index):
            row = data[data["visit"] == visit].iloc[0]
            touched = data[(data["patient"] == row["patient"]) | (data["device"] == row["device"])]
            assert len({*fold[touched["visit"]]} - {-3}) > 1
        before = fold
    assert 0 < quarantined < most * len(data)
    made = audit(manifest, data)
    assert "group_in_two_folds" in made.passed
    assert made.failed == []
    assert made.passed.get("crossing_rows", "0 rows").startswith(f"{first} row")
    assert measure(manifest, data).worst["size"] < 0.2


def test_a_bridge_may_be_accepted_and_a_known_row_that_becomes_one_is_quarantined() -> None:
    data = visits(3)
    manifest = decide(SPEC | {"holdout": None}, data)
    fold = folds(manifest, data)
    one, other = (data[data["visit"].map(fold) == k].iloc[0] for k in (0, 1))
    bridge = pd.DataFrame([one.to_dict() | {"visit": "bridge", "device": other["device"]}])
    grown = extend(manifest, pd.concat([data, bridge]))
    assert grown.quarantined == 1
    assert "1 row has patient and device of two folds; quarantined." in grown.notes
    accepted = extend(manifest, pd.concat([data, bridge]), merged="accept").manifest
    assert folds(accepted, pd.concat([data, bridge]))["bridge"] == 0
    left = data[data["patient"] != one["patient"]]  # the visit of another's is all that is left of the patient
    renamed = left.assign(patient=left["patient"].mask(left["visit"] == other["visit"], one["patient"]))
    assert extend(manifest, renamed).quarantined == 1
    corrected = data.copy()
    corrected.loc[corrected["visit"] == one["visit"], "device"] = other["device"]
    mended = extend(manifest, corrected)
    assert (mended.quarantined, mended.moved) == (1, 0)
    assert folds(mended.manifest, corrected)[one["visit"]] == -3
    corrected.loc[corrected["visit"] == one["visit"], "device"] = "fresh"  # a quarantined row joins nothing any more
    loose = {"visit": "loose", "patient": 99_999, "device": "another"}
    for row in (loose, other.to_dict() | {"visit": "new", "device": "fresh"}):
        corrected = pd.concat([corrected, pd.DataFrame([one.to_dict() | row])])
        mended = extend(mended.manifest, corrected)
        known = mended.manifest.group_table["group"].to_pylist()
        assert (mended.quarantined, "another" in known, "fresh" in known) == (0, True, row is not loose)
    assert folds(mended.manifest, corrected)["new"] == 1


@pytest.mark.parametrize(
    ("visit", "moved"), [("new", ["device"]), (None, ["patient", "device"])], ids=["a new row", "a corrected row"]
)
def test_a_row_that_bridges_two_folds_of_one_repeat_alone_is_quarantined(visit: str | None, moved: list[str]) -> None:
    data, inner = visits(3), {"strategy": "BalancedGroupKFold", "params": {"n_splits": 3}}
    params = {"strategy": inner, "n_repeats": 2}
    manifest = decide(SPEC | {"holdout": None, "strategy": "Repeated", "params": params}, data)
    codes = dict(zip(data["visit"], manifest.codes[manifest.positions(data)].tolist(), strict=True))
    one, at = data.iloc[0], codes[data.iloc[0]["visit"]]
    other = next(row for _, row in data.iterrows() if [*map(int.__eq__, codes[row["visit"]], at)] == [True, False])
    row = one.to_dict() | {name: other[name] for name in moved} | {"visit": visit or one["visit"]}
    grown = extend(manifest, pd.concat([data[data["visit"] != row["visit"]], pd.DataFrame([row])]))
    assert (grown.added, grown.quarantined) == (int(visit is not None), 1)


def test_what_comes_to_a_locked_level_is_locked_from_then_on() -> None:
    data = visits(3)
    manifest = decide(SPEC, data)
    locked = data[data["visit"].map(folds(manifest, data)) == -2].iloc[0].to_dict()
    first = pd.DataFrame([locked | {"visit": "first", "patient": 99_999}])
    second = pd.DataFrame([locked | {"visit": "second", "patient": 99_999, "device": "fresh"}])
    manifest = extend(extend(manifest, first, batch=True, max_missing=0).manifest, second, batch=True).manifest
    assert manifest.fold_of(pd.concat([data, first, second]))[-2:].tolist() == [-2, -2]
    of_first = data[data["visit"] == data["visit"].min()].assign(visit="w", device="fresh")  # the first level of all
    assert extend(decide(SPEC, data), of_first, batch=True).manifest.codes[-1] == decide(SPEC, data).codes[0]


@pytest.mark.parametrize("splitter", [ForwardChaining(3), PurgedKFold(3)], ids=repr)
def test_splits_in_time_leave_out_rows_that_share_any_entity(splitter: Any) -> None:
    data = visits(3)
    time = np.arange(len(data))
    entities = data[["patient", "device"]].to_numpy()
    plain = list(splitter.split(None, time=time))
    for (train, test), (all_train, same) in zip(splitter.split(None, None, entities, time=time), plain, strict=True):
        assert test.tolist() == same.tolist()
        tested = data.iloc[test]
        shared = data["patient"].isin(tested["patient"]) | data["device"].isin(tested["device"])
        assert train.tolist() == [row for row in all_train.tolist() if not shared.iloc[row]]


def nested(n_hospitals: int = 16) -> pd.DataFrame:
    """Return 20 visits of each hospital, of 5 patients who are in no other, of 4 regions."""
    random = np.random.default_rng(8)
    hospital = np.repeat(np.arange(n_hospitals), 20)
    return pd.DataFrame(
        {
            "hospital": [f"h{each}" for each in hospital],
            "patient": hospital * 5 + np.tile(np.arange(5), 4 * n_hospitals),
            "region": [f"r{each % 4}" for each in hospital],
            "sick": random.random(hospital.size) < 0.3,
            "visit": np.arange(hospital.size),
        }
    ).sample(frac=1, random_state=3)


GROUPED = [each for each in CASES if each.needs.groups and each.portable and not each.needs.fixed]
KEEPING = {type(each): each for each in GROUPED if "last_of_each_group" not in each.promises}.values()


@pytest.mark.parametrize("splitter", KEEPING, ids=repr)
def test_of_a_hierarchy_hospital_and_patients_are_whole_whatever_the_strategy(splitter: Any) -> None:
    rows, needs = nested(), splitter.needs
    if needs.time:  # hospitals that open one after the other, or every one of them would be tested
        days = rows["hospital"].str[1:].astype(int) * 3 + rows["visit"] % 3
        combined = isinstance(splitter, CombinatorialPurgedKFold)
        splitter = CombinatorialPurgedKFold(3, 1) if combined else type(splitter)(2)
        time = pd.Timestamp("2026-01-01") + pd.to_timedelta(days, "D")
    roles = {name: rows["visit"] if name == "key" else time for name in ("key", "time") if getattr(needs, name)}
    y = {"classes": rows["region"], "ignored": None}.get(needs.y, rows["sick"])
    both = list(splitter.split(rows, y, rows[["hospital", "patient"]], **roles))
    assert both
    for train, test in both:
        for level in ("hospital", "patient"):
            assert not set(rows[level].iloc[train]) & set(rows[level].iloc[test])
    if not isinstance(splitter, Crossed):
        outer = splitter.split(rows, y, rows["hospital"], **roles)
        assert all(one[0].tolist() == two[0].tolist() for one, two in zip(both, outer, strict=True))


def test_a_specification_names_one_or_several_columns_as_group() -> None:
    assert read_spec({"columns": {"group": ["patient"]}}).columns.group == "patient"
    read = read_spec({"columns": {"group": ["patient", "device"]}})
    assert read.columns.grouped == ["patient", "device"]
    assert read_spec(read.model_dump(exclude_defaults=True)) == read
    with pytest.raises(SplitError, match="'patient' and 'device' are named"):
        decide(SPEC | {"strategy": "KFold"}, visits(1))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"holdout": 0.2},
        {"strategy": "BalancedGroupSplit", "params": {"parts": {"train": 0.6, "test": 0.4}, "effort": 1}},
    ],
    ids=["folds", "a holdout", "parts"],
)
def test_no_patient_and_no_device_is_on_two_sides_and_only_such_rows_are_left_out(more: dict[str, Any]) -> None:
    data = crossing_visits(900)
    with pytest.raises(SplitError, match=r"join [\d,]+ of 900 rows"):
        decide(CROSSING | more | {"group_mode": "merge"}, data)
    manifest = decide(CROSSING | more, data)
    fold = folds(manifest, data)
    assert decide(CROSSING | more, data.sample(frac=1, random_state=5)).split_id == manifest.split_id
    assert levels_in_two_folds(data, fold) == []
    held = [dict(zip(data[c], np.where(fold == -3, -9, fold), strict=True)) for c in ("patient", "device")]
    for column, of_level in zip(("patient", "device"), held, strict=True):
        of_level.update({level: code for level, code in zip(data[column], fold, strict=True) if code != -3})
    left_out = data[(fold == -3).to_numpy()]
    assert all(held[0][p] != held[1][d] for p, d in zip(left_out["patient"], left_out["device"], strict=True))
    # 4.5 % of the visits wander; four folds can be the regions, which others must part.
    assert 0 < len(left_out) < (0.05 if not more else 0.35) * len(data)
    report = measure(manifest, data)
    assert report.worst["class_share"] < 0.05
    made = asked(manifest, data, "group_in_two_folds", "crossing_rows")
    assert "group_in_two_folds" in made.passed
    told = [*made.passed.values(), *(finding.message for finding in made.findings)]
    assert any(each.startswith(f"{len(left_out)} rows ({len(left_out) / 900:.1%}) are in no split") for each in told)


def test_few_more_rows_are_left_out_than_by_the_best_of_all_assignments() -> None:
    """Of every way to put 11 levels into 2 folds, at least as even as ours, none keeps over 1 row in 20 more."""
    exact, every = 0, np.array([*product((0, 1), repeat=11)])
    for seed in range(12):
        random = np.random.default_rng(seed)
        table = pd.DataFrame({"a": random.integers(0, 6, 40), "b": random.integers(0, 5, 40)})
        table["b"] = np.where(random.random(40) < 0.7, table["a"] % 5, table["b"])
        table["key"] = np.arange(40)
        spec = {"columns": {"key": "key", "group": ["a", "b"]}, "group_mode": "cross", "params": {"n_splits": 2}}
        fold = decide(spec, table).fold_of(table)
        ours, even = np.count_nonzero(fold >= 0), abs(int((fold == 0).sum()) - int((fold == 1).sum()))
        a, b = every[:, table["a"]], every[:, 6 + table["b"]]
        kept = np.array([((a == side) & (b == side)).sum(axis=1) for side in (0, 1)])
        allowed = (abs(kept[0] - kept[1]) <= even) & (kept.min(axis=0) > 0)
        best = kept.sum(axis=0)[allowed].max()
        assert ours >= best - 2
        exact += ours == best
    assert exact >= 9


def test_a_level_whose_rows_are_all_left_out_follows_what_it_comes_with() -> None:
    random = np.random.default_rng(1034)
    table = pd.DataFrame({"a": random.integers(0, 6, 14), "b": random.integers(0, 5, 14), "key": np.arange(14)})
    spec = {"columns": {"key": "key", "group": ["a", "b"]}, "group_mode": "cross", "params": {"n_splits": 3}}
    manifest = decide(spec, table)
    assert (manifest.codes[0], *table.iloc[0]) == (-3, 3, 4, 0)
    new = pd.DataFrame({"a": 3, "b": [1, 99], "key": [90, 91]})
    assert extend(manifest, new, batch=True).manifest.codes[-2:].tolist() == [0, 0]

"""Groups stay whole as a split grows; what merges is quarantined."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import Manifest, StoredManifest, decide, extend, measure, read_manifest, verify, write_manifest
from evenfold.splitters import SplitError
from tables import arrivals, table

GROUPS = {"name": "groups", "columns": {"key": "id", "target": "label", "group": "g"}, "strategy": "BalancedGroupKFold"}


def test_new_groups_are_frozen_or_hashed_whole_where_that_is_the_rule() -> None:
    whole = arrivals(420)
    frozen = extend(decide(GROUPS | {"on_new_rows": "freeze"}, whole.iloc[:280]), whole).manifest
    assert set(frozen.codes[280:].tolist()) == {-3}
    manifest = decide(GROUPS | {"on_new_rows": "hash"}, whole.iloc[:280])
    every, some = (extend(manifest, data).manifest.codes[280:350] for data in (whole, whole.iloc[:350]))
    assert (every == some).all()
    folds = pd.Series(every).groupby(whole["g"].to_numpy()[280:350])
    assert folds.nunique().max() == 1
    assert len(set(folds.first())) > 1


def test_each_repeat_hashes_new_rows_to_folds_of_its_own() -> None:
    inner = {"strategy": "KFold", "params": {"n_splits": 3}}
    spec = {"columns": {"key": "id"}, "strategy": "Repeated", "params": {"strategy": inner, "n_repeats": 2}}
    whole = arrivals(100)
    grown = extend(decide(spec | {"on_new_rows": "hash"}, whole.head(50)), whole).manifest
    new = grown.membership.codes[50:]
    assert 0 < (new[:, 0] == new[:, 1]).sum() < 50


def test_the_order_in_which_new_groups_arrive_does_not_matter() -> None:
    whole = arrivals(280)
    new = pd.DataFrame({"id": 9_000 + np.arange(24), "g": [f"new {i // 3}" for i in range(24)]})
    new = new.assign(label=["a", "b", "a"] * 8, number=1.0)
    turned = new.assign(g=new["g"].to_numpy()[::-1])
    grown = (extend(decide(GROUPS, whole), pd.concat([whole, late])).manifest for late in (new, turned))
    tables = (each.group_table.to_pandas().set_index("group")["fold"] for each in grown)
    first, second = (folds[folds.index.str.startswith("new")] for folds in tables)
    assert first.to_dict() == second.to_dict()
    assert first.nunique() > 1


def test_new_groups_join_with_their_generation() -> None:
    whole = arrivals(420)
    manifest = decide(GROUPS, whole.iloc[:280])
    for end in (350, 420):
        manifest = extend(manifest, whole.iloc[:end]).manifest
    groups = manifest.group_table.to_pandas()
    first = whole.groupby("g")["id"].min() // 3
    assert groups.set_index("group")["generation"].to_dict() == {
        name: int(row >= 280) + int(row >= 350) for name, row in first.items()
    }


def two_groups_apart() -> tuple[pd.DataFrame, Manifest, Any, Any]:
    """Return rows, a split of them by whole groups, and two groups that lie in different folds of it."""
    whole = arrivals(300)
    manifest = decide(GROUPS, whole)
    by_group = pd.Series(manifest.codes).groupby(whole["g"].to_numpy()).first()
    return whole, manifest, by_group.index[0], by_group.index[by_group != by_group.iloc[0]][0]


def test_merged_groups_are_quarantined_unless_accepted() -> None:
    whole, manifest, here, there = two_groups_apart()
    merged = whole.assign(g=whole["g"].replace(there, here))
    grown = extend(manifest, merged)
    assert grown.quarantined == (merged["g"] == here).sum()
    assert any("quarantined" in note for note in grown.notes)
    first = extend(manifest, whole.assign(g=whole["g"].replace(here, there)))  # the first row of all among them
    assert any(f"holds {(whole['g'] == here).sum()} rows that were assigned to" in note for note in first.notes)
    tested = np.concatenate([test for _, test in grown.manifest.pairs()])
    assert not np.isin(np.flatnonzero(merged["g"] == here), tested).any()
    assert (grown.manifest.codes == manifest.codes).all()
    accepted = extend(manifest, pd.concat([merged, arrivals(7, start=900)]), merged="accept")
    assert accepted.quarantined == 0
    assert any("leak" in note for note in accepted.notes)
    turned = extend(manifest, whole.assign(g=whole["g"].to_numpy()[::-1]), merged="accept")
    assert turned.notes[0].partition(")")[0].count(",") == 2, "three groups are named"
    same = extend(manifest, merged, merged="accept")
    assert same.manifest is manifest
    assert any("leak" in note for note in same.notes), "there is no new row, and still news"


def test_an_extension_that_leaves_no_row_in_use_is_refused(tmp_path: Path) -> None:
    whole, manifest, here, _ = two_groups_apart()
    stored = StoredManifest(write_manifest(manifest, tmp_path))
    whole.assign(g=here).to_parquet(tmp_path / "rows.parquet")
    cases: list[tuple[Any, dict[str, Any]]] = [(manifest, {}), (stored, {"memory": "1MB"})]
    for known, room in cases:
        with pytest.raises(SplitError, match=r"^extending groups 1\.0 would leave no row in use: "):
            extend(known, tmp_path / "rows.parquet", **room)
    assert [place.name for place in stored.folder.parent.iterdir()] == ["1.0"]


def test_what_is_quarantined_already_makes_no_other_version() -> None:
    whole, manifest, here, there = two_groups_apart()
    merged = whole.assign(g=whole["g"].replace(there, here))
    grown = extend(manifest, merged)
    again = extend(grown.manifest, merged)
    assert again.manifest is grown.manifest
    assert again.notes == ("there is nothing new.",)
    assert extend(grown.manifest, merged[merged["g"] != here]).quarantined == 0, "those that left were, and none is"
    more = extend(grown.manifest, pd.concat([merged, merged.head(1).assign(id=99_999, g=here)]))
    assert (more.added, more.quarantined) == (1, 1)
    assert any("; its 1 row is quarantined." in note for note in more.notes)


def test_groups_that_merge_in_one_repeat_alone_are_quarantined(tmp_path: Path) -> None:
    whole = arrivals(300)
    inner = {"strategy": "BalancedGroupKFold", "params": {"n_splits": 3}}
    spec = GROUPS | {"strategy": "Repeated", "params": {"strategy": inner, "n_repeats": 2}}
    manifest = decide(spec, whole)
    folds = pd.DataFrame(manifest.codes, columns=["first", "second"]).groupby(whole["g"].to_numpy()).first()
    pairs = [(a, b) for a in folds.index for b in folds.index if a < b]
    here, there = next((a, b) for a, b in pairs if (folds.loc[a] == folds.loc[b]).tolist() == [True, False])
    merged = whole.assign(g=whole["g"].replace(there, here))
    assert extend(manifest, merged).quarantined == (merged["g"] == here).sum()
    merged.to_parquet(tmp_path / "rows.parquet")
    stored = StoredManifest(write_manifest(manifest, tmp_path))
    grown = extend(stored, tmp_path / "rows.parquet", memory="1MB")
    assert grown.quarantined == (merged["g"] == here).sum()


def test_the_balance_of_twelve_months_stays_near_the_limit() -> None:
    """500 groups, then 50 a month while old ones grow and the positive rate doubles: no row moves, folds stay even."""
    rng = np.random.default_rng(5)

    def month(groups: range, rate: float) -> pd.DataFrame:
        sizes = np.maximum(rng.lognormal(3, 1, len(groups)).astype(int), 1)
        names = np.repeat([f"g{i}" for i in groups], sizes)
        return pd.DataFrame({"g": names, "label": (rng.random(names.size) < rate).astype(int)})

    whole = month(range(500), 0.1)
    whole.insert(0, "id", np.arange(len(whole)))
    manifest, worst = decide(GROUPS, whole), []
    for number in range(12):
        rate = 0.1 + 0.01 * (number + 1)
        old = whole.sample(frac=0.1 / 12, random_state=number)[["g"]].assign(label=0)
        new = pd.concat([month(range(500 + 50 * number, 550 + 50 * number), rate), old], ignore_index=True)
        new.insert(0, "id", np.arange(len(new)) + len(whole))
        whole = pd.concat([whole, new], ignore_index=True)
        grown = extend(manifest, whole)
        assert grown.moved == 0
        manifest = grown.manifest
        worst.append(measure(manifest, whole).worst["size"])
    assert np.median(worst) <= 0.005


def test_a_split_by_an_earlier_version_of_its_strategy_grows_by_what_it_remembers(tmp_path: Path) -> None:
    whole = arrivals(300)
    whole["number"] = np.where(whole["id"] % 10, 0.0, whole["id"] / 8)
    spec = GROUPS | {"columns": {"key": "id", "target": "number", "group": "g"}}
    now = decide(spec, whole.iloc[:200])
    algorithm = now.algorithm | {"version": 4}
    earlier = replace(
        now,
        algorithm=algorithm,
        plan_id=now.spec.plan_id(now.types, now.fingerprint, algorithm),
        state=replace(now.state, edges=[0.0], counts=[[[0, n] for n in np.bincount(now.codes).tolist()]]),
    )
    folder = write_manifest(earlier, tmp_path)
    assert verify(folder).intact
    grown = extend(read_manifest(folder), whole)
    assert (grown.moved, grown.added) == (0, 100)
    assert (grown.manifest.algorithm["version"], grown.manifest.state.edges) == (4, [0.0])
    assert extend(earlier, whole.iloc[200:], batch=True).manifest.split_id == grown.manifest.split_id
    assert verify(write_manifest(grown.manifest, tmp_path)).intact
    assert decide(spec, whole.iloc[:200]).plan_id != earlier.plan_id


def test_a_split_of_which_nothing_is_tested_any_more_is_measured() -> None:
    columns = {"key": "id", "target": "number", "group": "group"}
    manifest, rows = decide({"columns": columns, "holdout": 0.3, "params": {"effort": 1}}, table()), table()
    left = rows[~rows["id"].isin(manifest.keys["id"].to_numpy()[manifest.membership.column() >= 0])]
    whole = extend(manifest, left, max_missing=1.0).manifest
    report = measure(whole, left)
    assert {(fold.rows, fold.mean) for fold in report.folds} == {(0, None)}
    assert report.n_rows == len(left) == sum(part.rows for part in report.parts)

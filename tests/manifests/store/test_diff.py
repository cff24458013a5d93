"""Two manifests are told apart, down to the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide, diff, extend
from tables import hourly, split

GROUPED = {"strategy": "BalancedGroupKFold", "columns": {"key": "id", "target": "y", "group": "site"}}
DRAWN = {"strategy": "Bootstrap", "columns": {"key": "id"}, "params": {"n_splits": 7}}
PAIRED = {"strategy": "ForwardChaining", "columns": {"key": "id", "time": "when"}}


def test_manifests_under_other_secrets_cannot_be_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for secret, name in (("one", "a"), ("two", "a"), ("two", "b")):
        monkeypatch.setenv("EVENFOLD_KEY_SECRET", secret)
        made.append(decide(GROUPED | {"key_encoding": "hmac", "name": name}, hourly()))
    assert not any(diff(made[0], other).compared for other in made[1:])
    same = diff(made[1], made[2])  # under one secret, though each name has a check of its own
    assert (same.compared, same.n_moved, same.n_added) == (True, 0, 0)
    monkeypatch.delenv("EVENFOLD_KEY_SECRET")
    assert diff(made[1], made[1]).compared
    assert not diff(made[1], made[2]).compared


def test_a_manifest_does_not_differ_from_itself() -> None:
    made = diff(split(hourly()), split(hourly().sample(frac=1, random_state=0)))
    assert (made.same, made.compared, made.n_moved, made.n_added, made.n_removed) == (True, True, 0, 0, 0)
    assert made.changes == []


def test_rows_are_told_by_fold_and_by_class() -> None:
    a, b = split(hourly(300)), split(hourly(400).iloc[50:], seed=1)
    made = diff(a, b, hourly(400))
    folds = {name: pd.Series(m.codes, index=m.keys.column(0).to_pylist()) for name, m in (("a", a), ("b", b))}
    both = pd.concat(folds, axis=1, join="inner").astype(int)
    both["y"] = hourly().set_index("id")["y"]
    moved = both[both.a != both.b]
    assert (made.n_moved, made.n_added, made.n_removed) == (len(moved), 100, 50)
    found = {(each.of, each.to): each.classes for each in made.moved}
    wanted = moved.groupby(["a", "b"])["y"].value_counts()
    assert found == {
        (f"fold {one}", f"fold {two}"): wanted[one, two].to_dict() for one, two in moved.set_index(["a", "b"]).index
    }
    assert sum(each.rows for each in made.added) == 100
    assert {each.of for each in made.added} == {None}
    classes = pd.DataFrame([each.classes for each in made.removed]).sum()
    assert classes.to_dict() == hourly(50)["y"].value_counts().to_dict()


def test_what_differs_in_the_specification_is_told_by_its_path() -> None:
    a = split(hourly(), seed=1)
    b = split(hourly().assign(y="one"), params={"n_splits": 4}, columns={"key": "id"}, strategy="KFold")
    paths = {change.path: (change.a, change.b) for change in diff(a, b).changes}
    assert paths.pop("fingerprint")
    assert paths == {
        "seed": (1, 0),
        "strategy": ("StratifiedKFold", "KFold"),
        "params.n_splits": (None, 4),
        "columns.target": ("y", None),
        "types.y": ("text", None),
    }


def test_an_extension_moves_nothing_adds_and_removes() -> None:
    a = split(hourly(300))
    made = diff(a, extend(a, hourly(400).iloc[10:]).manifest, hourly(400))
    assert (made.n_moved, made.n_added, made.n_removed) == (0, 100, 10)


def test_quarantine_moves_nothing_and_is_told() -> None:
    a = decide(GROUPED, hourly())
    other = int(a.group_table.column("group")[int(np.flatnonzero(a.group_table["fold"].to_numpy() != a.codes[0])[0])])
    made = diff(a, extend(a, hourly().assign(site=hourly()["site"].replace(other, 0))).manifest)
    assert made.n_moved == 0
    assert "16 rows quarantined; their folds are kept." in made.sentences


@pytest.mark.parametrize("spec", [DRAWN, PAIRED], ids=["draws", "pairs"])
def test_of_draws_and_pairs_the_sides_are_compared(spec: dict[str, Any]) -> None:
    a, b = decide(spec, hourly()), decide(spec, hourly().iloc[:-30])
    made = diff(a, b)
    assert made.n_removed == 30
    assert made.moved
    for each in made.moved:
        i = int(str(each.of).removeprefix("split "))
        sides = []
        for manifest in (a, b):
            train, test = manifest.pair(i)
            counts = np.bincount(train, minlength=manifest.n)
            counts[test] = -1
            sides.append(pd.Series(counts, index=manifest.keys.column(0).to_pylist()))
        ours, theirs = sides[0].align(sides[1], join="inner")
        assert each.rows == (ours != theirs).sum() > 0
    assert made.n_moved >= max(each.rows for each in made.moved)
    assert diff(a, a).moved == []

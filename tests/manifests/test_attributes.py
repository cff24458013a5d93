"""Columns to balance on are reported, gated and kept from models, and move no row."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from audited import asked, finding
from evenfold.manifests import GATES, audit, decide, measure
from evenfold.manifests.balance import MISSING, OTHERS, columns_of_folds, levels_of

N = 400


def rows() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "x": random.normal(size=N),
            "age": random.integers(20, 90, N),
            "sex": random.choice(["f", "m"], N, p=[0.4, 0.6]),
            "y": random.integers(0, 2, N),
        }
    )


def decided(frame: pd.DataFrame, *attributes: str) -> Any:
    columns = {"key": "id", "target": "y"} | ({"balance_on": [*attributes]} if attributes else {})
    return decide({"columns": columns}, frame)


def test_a_column_to_balance_on_moves_no_row_and_is_no_feature() -> None:
    frame = rows()
    plain, watched = decided(frame), decided(frame, "sex", "age")
    assert plain.split_id == watched.split_id
    assert not {"sex", "age"} & {*asked(watched, frame, "size_deviation").features}
    assert "age" in asked(plain, frame, "size_deviation").features


def test_shares_of_each_level_are_those_of_a_plain_count() -> None:
    frame = rows()
    frame.loc[3:20, "sex"] = None
    manifest = decided(frame, "sex")
    told = measure(manifest, frame).attributes["sex"]
    shown = frame["sex"].fillna(MISSING)
    assert told.levels == ["f", "m", MISSING]
    assert told.shares == pytest.approx([(shown == level).mean() for level in told.levels])
    gaps = []
    for place, (_, test) in zip(told.places, manifest.as_cv(frame).split(), strict=True):
        assert place == pytest.approx([(shown.iloc[test] == level).mean() for level in told.levels])
        gaps += [abs(a - b) for a, b in zip(place, told.shares, strict=True)]
    assert told.worst == pytest.approx(max(gaps))
    assert measure(manifest, frame).worst["attribute_share"] == pytest.approx(max(gaps))


def test_a_gate_stops_a_split_whose_shares_are_off() -> None:
    frame = rows()
    manifest = decided(frame, "sex")
    worst = measure(manifest, frame).attributes["sex"].worst
    found = finding(manifest, frame, "attribute_deviation")
    assert (found.severity, found.code) == ("note", "EF506")
    assert found.figure == pytest.approx(worst)
    others = dict.fromkeys(GATES, "off")
    for limit, failed in ((worst / 2, ["attribute_deviation"]), (worst * 2, [])):
        assert audit(manifest, frame, gates=others | {"attribute_deviation": limit}).failed == failed
    assert "attribute_deviation" in asked(decided(frame), frame, "attribute_deviation").not_asked


def test_numbers_are_cut_at_their_quartiles_and_rare_levels_are_others() -> None:
    codes, names = levels_of(pa.chunked_array([pa.array(np.arange(100.0))]))
    assert np.bincount(codes).tolist() == [25, 25, 25, 25]
    assert names == ["below 25", "25 to 50", "50 to 75", "75 up"]
    words = pa.chunked_array([pa.array([f"w{i:02d}" for i in range(30) for _ in range(40 - i)], pa.large_string())])
    codes, names = levels_of(words)
    assert names == [*(f"w{i:02d}" for i in range(19)), OTHERS]
    assert np.bincount(codes)[-1] == sum(40 - i for i in range(19, 30))
    codes, names = levels_of(pa.chunked_array([pa.array([1.5, None, 2.5, 2.5] * 30)]))
    assert names[-1] == MISSING
    assert (codes[1::4] == len(names) - 1).all()


@pytest.mark.parametrize(
    ("strategy", "n", "found"),
    [
        ("KFold", N, ["as_is", "from_1", "permuted"]),
        ("BalancedGroupKFold", N, ["as_is", "from_1", "permuted"]),
        ("KFold", 30, []),  # of so few rows a column may be dealt like that by chance
        ("LeaveOneGroupOut", N, []),  # folds are sites, whatever else numbers them
        ("ForwardChaining", N, []),
    ],
)
def test_columns_that_hold_the_folds_are_known_by_what_they_hold(strategy: str, n: int, found: list[str]) -> None:
    frame = pd.DataFrame({"id": range(n), "site": np.arange(n) % 4, "group": np.arange(n) % 80, "x": np.arange(n) % 7})
    column = {"LeaveOneGroupOut": {"group": "site"}, "BalancedGroupKFold": {"group": "group"}}.get(strategy, {})
    column |= {"time": "id"} if strategy == "ForwardChaining" else {}
    manifest = decide({"strategy": strategy, "columns": {"key": "id", **column}}, frame)
    folds = manifest.in_use.column()
    all_but_one = np.where(np.arange(n) == 3, (folds + 1) % 4, folds)
    written = {"as_is": folds, "from_1": folds + 1.0, "permuted": (folds + 2) % (folds.max() + 1), "one": all_but_one}
    table = pa.Table.from_pandas(frame.assign(**written, tens=folds * 10, words=folds.astype(str)))
    assert columns_of_folds(table, manifest, manifest.in_use.codes) == found


@pytest.mark.parametrize("words", [("TRAIN", "VALIDATION", "TEST"), ("train", "dev"), ("Training", "test", None)])
def test_a_column_of_words_for_parts_is_no_feature_whatever_the_folds_are(words: tuple[str, ...]) -> None:
    frame = pd.DataFrame({"id": range(90), "part": np.resize(np.array(words, dtype=object), 90)})
    frame = frame.assign(one=words[0], site=[*frame["part"][:89], "north"], kind=frame["part"].astype("category"))
    manifest = decide({"strategy": "KFold", "columns": {"key": "id"}}, frame)
    assert columns_of_folds(pa.Table.from_pandas(frame), manifest, manifest.in_use.codes) == ["part", "kind"]

"""The learning checks find what nobody named, and are silent where there is nothing."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import N, alarms, asked, audited, plain, the, told
from evenfold.manifests import Manifest, adopt, audit, decide, extend

Change = Callable[[pd.DataFrame, np.random.Generator], Any]


def two_folds(**columns: str) -> tuple[Manifest, pd.DataFrame]:
    rng, n = np.random.default_rng(0), 400
    frame = pd.DataFrame({"id": np.arange(n), "x": rng.normal(size=n), "g": rng.integers(0, 60, n)})
    frame["y"] = frame["x"] + rng.normal(size=n) * 0.3
    strategy = "BalancedGroupKFold" if columns else "KFold"
    spec = {"columns": {"key": "id", "target": "y", **columns}, "strategy": strategy, "params": {"n_splits": 2}}
    return decide(spec, frame), frame


def test_rows_that_the_data_lack_do_not_stop_what_learns_from_the_others() -> None:
    manifest, frame = two_folds()
    assert "absent_rows" in alarms(audit(manifest, frame.iloc[150:]))


@pytest.mark.parametrize(("seed", "target"), [(0, "class"), (1, "number")])
def test_rows_that_nothing_is_wrong_with_raise_no_alarm(seed: int, target: str) -> None:
    frame, random = plain(seed)
    number = frame["a"] * 3 + random.normal(size=N)
    assert alarms(audited(frame if target == "class" else frame.assign(y=number))) == {}


def test_copies_measured_again_are_near_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the budget of cells has room for, which is said."""
    n = 600
    frame, random = plain(n=n)
    copies = frame.iloc[: n // 10].copy()
    copies[list("abcd")] += random.normal(size=(n // 10, 4)) * 0.001
    copies["id"] = copies["id"] + "-2"
    frame = pd.concat([frame, copies], ignore_index=True)
    found = the("near_duplicates", audited(frame, "near_duplicates"))
    assert 0.7 * n / 5 <= found.figure <= n / 5
    assert "keep them together as a group" in found.message
    monkeypatch.setattr("evenfold.manifests.audits.sample.MOST_CELLS", 500 * (len(frame.columns) - 2))
    assert "(in 500 of 660 rows, drawn at random)" in told(frame, "near_duplicates")


def test_repeats_with_the_other_class_are_a_warning_and_with_any_class_a_note() -> None:
    frame, random = plain()
    for y, severity in ((1 - frame["y"], "warning"), (random.integers(0, 2, N), "note")):
        copies = frame.assign(y=y, id=frame["id"] + "-2").head(100)
        assert the("duplicate_rows", audited(pd.concat([frame, copies]), "duplicate_rows")).severity == severity


def test_numbers_far_below_enormous_ones_are_no_near_duplicates() -> None:
    random = np.random.default_rng(53)
    values = np.exp(6 * random.normal(size=(120, 1)) + 0.3 * random.normal(size=(120, 5)))
    frame = pd.DataFrame(values, columns=list("abcde")).assign(id=range(120), y=random.integers(0, 2, 120))
    assert not told(frame, "near_duplicates")


def test_rows_of_few_values_repeat_by_chance_and_that_is_no_alarm() -> None:
    frame, random = plain()
    coarse = pd.DataFrame({name: random.integers(0, 9, N) for name in "abc"})
    coarse = coarse.assign(y=random.integers(0, 2, N), id=frame["id"])
    made = audited(coarse, "duplicate_rows", "near_duplicates", "relatives")
    assert alarms(made) == {}
    assert "repeat by chance" in made.passed["duplicate_rows"]


@pytest.mark.parametrize(
    "leak",
    [
        lambda frame, random: frame["y"] + random.normal(size=N) * 0.3,
        lambda frame, random: random.choice([-1, 1], N) * (1 + 2 * frame["y"]) + random.normal(size=N) * 0.1,
        lambda frame, random: random.normal(size=N) * np.where(frame["y"] == 1, np.nan, 1.0),
        lambda frame, random: np.where(frame["y"] == 1, "paid", random.choice(["open", "late"], N)),
        lambda frame, random: (
            pd.Timestamp("2026-01-01") + pd.to_timedelta(60 * frame["y"] + random.integers(0, 70, N), "D")
        ),
    ],
    ids=["noisy", "not monotone", "missing", "category", "date"],
)
def test_a_feature_that_gives_the_target_is_found_whatever_its_shape(leak: Change) -> None:
    frame, random = plain()
    made = audited(frame.assign(leak=leak(frame, random)), "giveaway_features", "target_like_features")
    told = alarms(made)  # where a value is missing says exactly, and so is told as the target itself
    assert "leak (AUC " in told.get("giveaway_features", told.get("target_like_features", ""))


def test_strong_features_among_their_like_are_no_alarm() -> None:
    frame, random = plain()
    for name in "abc":
        frame[name] = frame["y"] + random.normal(size=N) * 0.38
    assert alarms(audited(frame, "giveaway_features", "target_like_features", "carried_targets")) == {}


def test_rates_over_all_rows_are_found_without_the_column_that_they_are_of() -> None:
    frame, random = plain()
    codes = random.integers(0, N // 3, N)
    frame["y"] = frame["a"] + random.normal(size=N)
    honest = pd.Series(frame["a"] + random.normal(size=N)).groupby(codes).transform("mean")
    assert not told(frame.assign(rate=honest), "carried_targets")
    leaking = frame["y"].groupby(codes).transform("mean")
    assert "rate (the mean target of" in told(frame.assign(rate=leaking), "carried_targets")


def _sales(random: np.random.Generator) -> pd.DataFrame:
    """Twenty shops of 45 weeks each, whose sales follow their last weeks."""
    noise = random.normal(size=(20, 48))
    sales = noise[:, 3:] + 0.6 * noise[:, 2:-1] + 0.3 * noise[:, 1:-2]
    shop, week = np.divmod(np.arange(N), 45)
    return pd.DataFrame({"id": random.permutation(N), "shop": shop, "week": week, "y": sales.ravel()})


@pytest.mark.parametrize(
    "make",
    [
        lambda shop: shop.shift(-1),
        lambda shop: shop.rolling(5, center=True, min_periods=1).mean(),
        lambda shop: shop[::-1].rolling(4).mean()[::-1].shift(-1),
    ],
)
def test_what_knows_the_next_weeks_of_its_own_shop_is_found_and_what_knows_the_last_ones_is_not(make: Any) -> None:
    random = np.random.default_rng(3)
    frame = _sales(random)
    of, noise = frame.groupby("shop")["y"], random.normal(size=N) * 0.1
    manifest = decide({"columns": {"key": "id", "target": "y", "time": "week"}}, frame)
    for later, past in ((True, of.transform(make)), (False, of.transform(lambda shop: make(shop.shift(6))))):
        rows = frame.assign(stock=past.fillna(0) + noise)
        found = alarms(asked(manifest, rows, "carried_targets")).get("carried_targets", "")
        assert ("shift(1)" in found) == later, found


def test_a_target_that_follows_a_date_nobody_named_is_found_in_random_folds() -> None:
    frame, random = plain()
    level = np.cumsum(random.normal(size=N)) / 5
    frame["y"] = level + frame["a"]
    frame["taken"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(N), "h")
    shuffled = frame.sample(frac=1, random_state=1)
    assert "ForwardChaining and time 'taken'" in told(shuffled, "times_left_out")


def test_a_fold_from_another_population_is_named() -> None:
    frame, _ = plain()
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    shifted = frame.copy()
    shifted.loc[manifest.positions(frame)[manifest.pair(2)[1]], "d"] += 1.3
    assert alarms(asked(manifest, shifted, "other_populations"))["other_populations"].startswith("fold 2 (AUC ")
    frame["part"] = manifest.in_use.column()[np.argsort(manifest.positions(frame))] + 1
    assert "; leave out 'part', which holds the fold of each row" in told(frame, "other_populations")


def test_a_generation_from_another_population_is_found() -> None:
    frame, _ = plain()
    first = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame.iloc[: N * 3 // 4])
    assert "other_generation" in asked(extend(first, frame).manifest, frame, "other_generation").passed
    frame.loc[N * 3 // 4 :, "d"] += 2.0
    made = asked(extend(first, frame).manifest, frame, "other_generation")
    assert "generation 1" in alarms(made)["other_generation"]


def test_locked_rows_are_not_learnt_from() -> None:
    frame, random = plain()
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}, "holdout": 0.2}, frame)
    locked = manifest.positions(frame)[manifest.locked_pair()[1]]
    other = frame.assign(leak=frame["y"] + random.normal(size=N) * 0.3)
    other.loc[locked, "leak"] = np.nan
    scores = [
        the("giveaway_features", asked(manifest, data, "giveaway_features")).figures
        for data in (other, other.assign(y=np.where(other.index.isin(locked), 1 - other["y"], other["y"])))
    ]
    assert scores[0] == scores[1]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("target", ["class", "gaps"])
def test_odd_columns_stop_no_check(target: str) -> None:
    n = 300
    frame, random = plain(n=n)
    rows, few = np.arange(n), np.arange(n) < 5
    odd = frame.assign(
        vast=np.where(few, 1e300, frame["d"]), steep=np.exp(frame["a"] * 20), endless=np.where(few, np.inf, frame["b"]),
        whole=random.integers(0, 2**62, n), again=frame["c"] * 2 + 1, constant=3.0, empty=np.nan, bits=rows % 3 == 0,
        gaps=np.where(random.random(n) < 0.6, np.nan, frame["a"]), number=rows, rare=np.where(rows == 7, 1.0, np.nan),
        paid=frame["y"] + 0.3 * random.normal(size=n),
    )  # fmt: skip
    targets = {"class": frame["y"], "gaps": np.where(random.random(n) < 0.3, np.nan, frame["c"] * 1e-12)}
    made = audited(odd.assign(y=targets[target]))
    assert all(found.ran for found in made.findings)
    assert target != "class" or "giveaway_features" in alarms(made)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda frame, noise: frame["a"] + frame["b"] - 2 * frame["c"] + noise * 0.05, "a + b"),
        (lambda frame, noise: np.exp(frame["a"]) * np.exp(2 * frame["b"]), "up to a factor"),
        (lambda frame, noise: ((frame["a"] > 1) | (frame["b"] > 1)).astype(int), ""),
        (lambda frame, noise: frame["a"] + frame["b"] + noise * 0.5, ""),
    ],
    ids=["sum", "product", "no sum", "sum with noise"],
)
def test_a_target_that_features_make_up_is_found(made: Change, said: str) -> None:
    frame, random = plain()
    frame["y"] = made(frame, random.normal(size=N))
    if said == "up to a factor":
        frame[["a", "b"]] = np.exp(frame[["a", "b"]])
    found = told(frame, "computed_target")
    assert bool(found) == bool(said)
    assert said in found


def test_two_codes_that_one_class_alone_has_do_not_hide_each_other() -> None:
    frame, random = plain()
    late = (frame["y"] == 1) & (random.uniform(size=N) < 0.6)
    frame["status"] = np.where(late, random.choice(["S40", "S90"], N), random.choice(["S10", "S20", "S30"], N))
    assert "exclude status" in told(frame, "pure_levels")


def test_every_column_that_cuts_the_target_into_bands_is_to_go() -> None:
    frame, _ = plain()
    bands = {name: pd.qcut(frame["a"], n, labels=False) for name, n in (("grade", 7), ("sub_grade", 14))}
    cured = frame.assign(y=frame["a"], **bands).drop(columns="a")
    assert told(cured, "computed_target").endswith("(exclude grade and sub_grade).")


def test_rows_without_any_value_repeat_nothing() -> None:
    frame, _ = plain()
    frame.loc[:200, [*"abcd", "kind"]] = None
    assert not told(frame, "duplicate_rows")


def _levels(frame: pd.DataFrame, random: np.random.Generator, levels: int) -> np.ndarray:
    codes = random.integers(0, levels, N)
    effect = random.normal(size=levels)[codes] * 2
    frame["y"] = (effect + frame["a"] + random.normal(size=N) > 0).astype(int)
    return codes


def test_an_entity_of_numbers_is_found_and_the_line_is_proposed() -> None:
    frame, random = plain()
    frame["patient"] = _levels(frame, random, 120)
    assert "`group: patient`" in told(frame, "unnamed_entities")
    smooth = (frame["patient"] / 60 - 1 + random.normal(size=N) > 0).astype(int)
    assert not told(frame.assign(y=smooth), "unnamed_entities")


def test_an_entity_of_numbers_that_no_float_tells_apart_is_found() -> None:
    frame, random = plain()
    accounts = pd.Series(10**18 + _levels(frame, random, 120), dtype="Int64")
    accounts[[3, 5]] = pd.NA
    assert "`group: account`" in told(frame.assign(account=accounts), "unnamed_entities")


def test_an_entity_in_a_part_of_the_key_is_found() -> None:
    """As in S0012-V3, of which S0012 is the subject."""
    frame, random = plain()
    codes = pd.Series(_levels(frame, random, 120))
    frame["id"] = [f"S{code:04d}-V{i}" for code, i in zip(codes, codes.groupby(codes).cumcount(), strict=True)]
    said = told(frame, "unnamed_entities")
    assert "of the key 'id'" in said
    _follow(said, frame)


def _follow(said: str, table: pd.DataFrame) -> None:
    told = re.search(r"\(in pandas (table\['(\w+)'\] = .*)\) and split with `group: (\w+)` \(--group (\w+)\)", said)
    assert told is not None, said
    exec(told[1], {"table": table})
    assert told[2] == told[3] == told[4]
    manifest = decide({"columns": {"key": "id", "target": "y", "group": told[4]}}, table)
    assert not alarms(asked(manifest, table, "unnamed_entities"))


def test_a_second_entity_is_found_beside_the_named_one() -> None:
    frame, random = plain()
    wards = random.integers(0, 40, 240)
    patients = random.integers(0, 240, N)
    effect = random.normal(size=40)[wards[patients]] * 2
    frame["y"] = (effect + frame["a"] + random.normal(size=N) > 0).astype(int)
    frame["patient"], frame["ward"] = patients, [f"W{code:02d}" for code in wards[patients]]
    manifest = decide({"columns": {"key": "id", "target": "y", "group": "patient"}}, frame)
    assert "`group: ward`" in alarms(asked(manifest, frame, "unnamed_entities"))["unnamed_entities"]


def test_an_entity_of_a_seventh_of_the_variance_is_found_and_one_of_a_twentieth_is_no_alarm() -> None:
    """Each of 60 teachers has 20 rows. Flights of one number are as weakly alike, and nobody is warned of them."""
    frame, random = plain()
    codes = random.integers(0, 60, N)
    teachers, own = random.normal(size=60)[codes], random.normal(size=N)
    named = frame.assign(teacher=[f"T{code:02d}" for code in codes])
    assert "`group: teacher`" in told(named.assign(y=teachers * 0.5 + own), "unnamed_entities")
    assert not told(named.assign(y=teachers * 0.22 + own), "unnamed_entities")


def test_an_entity_of_as_many_rows_each_is_found() -> None:
    frame, random = plain()
    codes = random.permutation(np.repeat(np.arange(N // 3), 3))
    frame["y"] = random.normal(size=N // 3)[codes] + frame["a"]
    assert "`group: patient`" in told(frame.assign(patient=codes), "unnamed_entities")


def test_an_entity_of_two_columns_is_found_by_both_and_by_neither_alone() -> None:
    frame, random = plain()
    codes = _levels(frame, random, 120)
    frame["room"], frame["number"] = codes // 12, codes % 12
    assert "'number' and 'room'" in told(frame, "unnamed_entities")
    _follow(told(frame, "unnamed_entities"), frame)


def test_an_order_by_class_is_a_note_until_a_feature_or_the_folds_follow_it() -> None:
    rows, random = plain()
    frame = rows.assign(row=np.arange(N) * 7).sort_values("y", ignore_index=True).assign(id=np.sort(rows["id"]))
    noted = the("ordered_keys", audited(frame.sample(frac=1, random_state=1), "ordered_keys"))
    assert (noted.severity, "order of the key 'id'" in noted.message) == ("note", True)
    cut = adopt(frame, np.arange(N) * 5 // N, "id", name="cut", target="y")
    assert "the folds are stretches" in alarms(asked(cut, frame, "ordered_keys"))["ordered_keys"]
    assert told(frame.assign(row=np.arange(N) * 7), "ordered_keys").endswith("features are in it too: exclude row.")
    measured = rows.sort_values("a", ignore_index=True).assign(id=frame["id"])
    shuffled = frame.assign(y=random.permutation(frame["y"]), row=np.arange(N))
    assert audited(measured, "ordered_keys").findings == audited(shuffled, "ordered_keys").findings == []


def test_sums_of_more_numbers_than_the_rows_can_tell_apart_are_said_to_be_unasked() -> None:
    frame = plain(n=120)[0].join(pd.DataFrame(np.random.default_rng(0).normal(size=(120, 40))).add_prefix("x"))
    reasons = audited(frame.assign(y=frame["a"] + frame["x1"] ** 2), "computed_target").not_asked
    assert "sums of them" in reasons["computed_target"]

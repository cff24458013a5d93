"""Every check of an audit finds what it is for, on data made to show it, and says it in numbers."""

import numpy as np
import pandas as pd
import pytest
from audited import FEATURES, asked, clean, finding, moved, split, the
from evenfold.manifests import GATES, audit, decide
from evenfold.manifests.audits.columns import auc


def test_a_group_in_two_folds_is_an_error_that_names_it() -> None:
    """One row of patient 4 in another fold is enough."""
    data = clean()
    manifest = split(data)
    edited = moved(manifest, 20, (manifest.codes[20] + 1) % 5)
    found = finding(edited, data, "group_in_two_folds", features=FEATURES)
    folds = sorted({int(manifest.codes[20]), int(edited.codes[20])})
    assert (found.severity, found.gate, found.figure, found.figures["rows"]) == ("error", "failed", 1, 5)
    assert f"'patient' (4) has rows in more than one fold: 5 rows in folds {folds[0]} and {folds[1]};" in found.message


def test_last_rows_of_groups_are_no_leak_and_the_future_of_other_groups_is_told_of() -> None:
    data = pd.DataFrame({"key": range(40), "shop": np.repeat(range(8), 5), "day": range(40), "x": range(40)})
    spec = {"columns": {"key": "key", "group": "shop", "time": "day"}, "strategy": "LeaveLastOut"}
    made = audit(decide(spec, data), data)
    assert not made.failed
    assert "other groups' rows of before and after" in made.not_asked["group_in_two_folds"]


def test_groups_can_be_asked_about_that_the_split_did_not_keep() -> None:
    data = clean()
    manifest = split(data, columns={"group": None}, strategy="KFold")
    assert asked(manifest, data, "group_in_two_folds", features=FEATURES).not_asked
    found = finding(manifest, data, "group_in_two_folds", features=FEATURES, group="patient")
    assert found.figure > 100
    assert found.message.endswith("split by group 'patient'.")


@pytest.mark.parametrize("strategy", ["Bootstrap", "ShuffleSplit"])
def test_groups_in_draws_are_looked_for_in_each_draw(strategy: str) -> None:
    data = clean()
    manifest = split(data, columns={"group": None}, strategy=strategy, params={"n_splits": 201})
    found = finding(manifest, data, "group_in_two_folds", features=FEATURES, group="patient")
    assert found.figure == 120
    assert "rows on both sides of a split: 600 rows in splits 0, 1, " in found.message
    assert "the first 200 of 201 splits were looked at" in found.message


@pytest.mark.parametrize("strategy", ["KFold", "Bootstrap", "ForwardChaining"])
def test_a_copy_of_a_locked_row_is_a_leak_in_every_kind(strategy: str) -> None:
    data = clean()
    columns = {"group": None, "time": "day" if strategy == "ForwardChaining" else None}
    manifest = split(data, columns=columns, strategy=strategy, holdout={"fraction": 0.2})
    assert asked(manifest, data, "duplicate_rows", features=FEATURES).passed
    locked, used = (int(np.flatnonzero(manifest.codes == code)[0]) for code in (-2, 0))
    data.loc[locked, FEATURES] = data.loc[used, FEATURES].to_numpy()
    found = finding(manifest, data, "duplicate_rows", features=FEATURES)
    assert found.figure == 2
    assert "locked" in found.message


def test_forward_chaining_may_test_a_group_that_a_later_split_trains_on() -> None:
    data = clean()
    data["week"] = data["day"] // 5
    manifest = split(data, columns={"time": "week"}, strategy="ForwardChaining", params={"n_splits": 4})
    made = audit(manifest, data, features=FEATURES)
    assert made.findings == []
    assert "time_overlap" in made.passed


def test_rows_that_repeat_the_features_of_another_fold_are_counted() -> None:
    data = clean()
    manifest = split(data)
    fold = pd.Series(manifest.codes, index=data.index)
    first, *others = fold.index[fold == 0]
    data.loc[others[:9], FEATURES] = data.loc[first, FEATURES].to_numpy()
    assert asked(manifest, data, "duplicate_rows", features=FEATURES).passed
    data.loc[fold.index[fold == 1][:3], FEATURES] = data.loc[first, FEATURES].to_numpy()
    assert finding(manifest, data, "duplicate_rows", features=FEATURES).severity == "note"
    data.loc[[*others[:9], *fold.index[fold == 1][:3]], "y"] = data.loc[first, "y"]
    found = finding(manifest, data, "duplicate_rows", features=FEATURES)
    assert (found.severity, found.gate, found.figure) == ("warning", "passed", 13)
    assert found.figures["folds"] == {"fold 0": 10, "fold 1": 3}


def test_missing_values_and_signs_of_zero_do_not_hide_a_repeat() -> None:
    """NaN equals NaN, None equals None, and -0.0 is 0.0, in every type of feature."""
    data = clean()
    manifest = split(data)
    fold = manifest.codes
    a, b = int(np.flatnonzero(fold == 0)[0]), int(np.flatnonzero(fold == 1)[0])
    data["words"] = pd.Series([f"{i % 7}" for i in range(len(data))], dtype="category")
    data["flag"] = pd.array(np.arange(len(data)) % 2 == 0, dtype="boolean")
    data["whole"] = pd.array(np.arange(len(data)) % 3, dtype="Int64")
    for row, zero in ((a, 0.0), (b, -0.0)):
        data.loc[row, ["dose", "age", "words", "flag", "whole"]] = [np.nan, zero, None, None, None]
    made = audit(manifest, data, features=[*FEATURES, "words", "flag", "whole"])
    assert the("duplicate_rows", made).figure == 2
    data.loc[b, "age"] = 1e-300
    assert asked(manifest, data, "duplicate_rows", features=[*FEATURES, "words", "flag", "whole"]).passed


@pytest.mark.parametrize("key", ["ROW-0007", "\u00a0Row-0007 ", "\uff52\uff4f\uff57-0007", "straße-0007"])
def test_keys_that_look_alike_are_found(key: str) -> None:
    data = clean()
    data.loc[[7, 500], "id"] = ["STRASSE\u0301-0007" if "ß" in key else data["id"][7], key]
    found = finding(split(data), data, "similar_keys", features=FEATURES)
    assert found.figure == 2
    assert found.message.startswith("2 rows have a key that is another's but for case, blanks, padding, accents")
    assert "(first: rows 7 and 500)" in found.message
    assert "0007" not in found.message


def test_alike_parts_of_composite_keys_are_found_together_only() -> None:
    data = clean()
    data["visit"] = np.arange(len(data)) % 2
    data["id"] = [f"p{i // 2}" if i != 8 else "P4" for i in range(len(data))]
    manifest = split(data, columns={"key": ["id", "visit"]})
    assert asked(manifest, data, "similar_keys", features=FEATURES).passed
    data.loc[8, "visit"] = 1
    manifest = split(data, columns={"key": ["id", "visit"]})
    assert finding(manifest, data, "similar_keys", features=FEATURES).figure == 2


def test_training_rows_of_the_tested_time_are_found() -> None:
    data = clean()
    spec = {"strategy": "ForwardChaining", "params": {"n_splits": 3, "gap": 2}}
    manifest = split(data, columns={"group": None, "time": "day"}, **spec)
    assert asked(manifest, data, "time_overlap", features=FEATURES).passed
    data.loc[0, "day"] = 470
    found = finding(manifest, data, "time_overlap", features=FEATURES)
    assert (found.figure, found.gate) == (3, "failed")
    assert found.message.startswith("3 training rows of splits 0, 1 and 2 are not before every tested 'day'")


def test_a_fold_without_rows_is_an_error() -> None:
    data = clean()
    manifest = split(data)
    made = audit(manifest, data[manifest.codes != 2], features=FEATURES)
    assert the("empty_folds", made).message.startswith("fold 2 has no row in the data;")
    assert made.failed == ["absent_rows", "empty_folds"]


def test_an_empty_side_of_a_pair_is_an_error() -> None:
    data = clean(20)
    pairs = {"given_pairs": [[list(range(10)), [15, 16]], [[1, 2], [3, 4]]]}
    manifest = split(data, columns={"group": None}, strategy="PredefinedPairs", params=pairs)
    made = audit(manifest, data.drop(index=[15, 16]), features=FEATURES)
    assert the("empty_folds", made).figures == {"empty": ["the test side of split 0"]}


def test_a_class_that_a_fold_lacks_is_named_with_its_rows() -> None:
    data = clean()
    data.loc[[0, 5, 10], "y"] = "rare"
    found = finding(split(data), data, "missing_classes", features=FEATURES)
    assert "class 'rare' of 'y' (3 rows) is missing from the test rows of 2 of 5 splits" in found.message
    data.loc[[0, 5, 10], "y"] = "well"
    data.loc[[0, 1], "y"] = "rare"
    found = finding(split(data), data, "missing_classes", features=FEATURES)
    assert "(2 rows) is missing from the train rows of 1 of 5 splits" in found.message
    assert "(2 rows) is missing from the test rows of 4 of 5 splits" in found.message
    assert found.figure == 5


def test_a_class_that_a_part_lacks_is_found() -> None:
    data = clean()
    spec = {"strategy": "HashSplit", "params": {"parts": {"train": 0.8, "test": 0.2}}, "columns": {"group": None}}
    manifest = split(data, **spec)
    data.loc[np.flatnonzero(manifest.codes == -1)[:4], "y"] = "trained"
    found = finding(manifest, data, "missing_classes", features=FEATURES)
    assert found.message == "class 'trained' of 'y' (4 rows) is missing from the test rows of 1 of 1 split (0)."


def test_a_feature_that_names_rows_is_found_and_a_float_is_not() -> None:
    data = clean()
    found = finding(split(data), data, "id_like_features")
    assert found.message == "1 feature names rows: day (100.0% distinct); leave it out, or use it as the key."
    data["day"] = data["day"] // 2
    assert asked(split(data), data, "id_like_features").passed


def test_a_target_in_disguise_is_found() -> None:
    data = clean()
    random = np.random.default_rng(2)
    sick = data["y"] == "sick"
    data["score"] = random.uniform(size=len(data)) + 2 * sick
    data["word"] = pd.Series(np.where(sick, random.choice(["a", "b"], len(data)), "c"), dtype="category")
    data["cause"] = np.where(sick, random.normal(size=len(data)), np.nan)
    data["fair"] = random.uniform(size=len(data)) + 0.5 * sick
    found = finding(split(data), data, "target_like_features")
    assert found.gate == "failed"
    assert set(found.figures["features"]) == {"score", "word", "cause"}
    assert "score (AUC 1.0000), word (AUC 1.0000) and cause (AUC" in found.message
    numeric = data.assign(y=data["dose"], logged=-np.exp(data["dose"]), near=data["dose"] + 0.5 * data["fair"])
    found = finding(split(numeric), numeric, "target_like_features", features=["logged", "near", "age"])
    assert set(found.figures["features"]) == {"logged"}
    assert "|rank correlation| 1.0000" in found.message


def test_one_class_told_apart_is_not_the_whole_target() -> None:
    data = clean()
    data["y"] = np.array(["a", "b", "c"])[np.arange(len(data)) % 3]
    random = np.random.default_rng(2)
    data["petal"] = random.uniform(size=len(data)) + 5 * (data["y"] == "a")
    assert asked(split(data), data, "target_like_features", features=["petal"]).passed
    data["petal"] = random.uniform(size=len(data)) + 5.0 * data["y"].map({"a": 0, "b": 1, "c": 2})
    assert finding(split(data), data, "target_like_features", features=["petal"]).figures["features"]["petal"] == 1.0


def test_a_category_of_a_few_rows_each_is_not_taken_for_the_target() -> None:
    data = clean()
    streets = [f"s{i // 2}" for i in np.random.default_rng(0).permutation(len(data))]
    data["street"] = pd.Series(streets, dtype="category")
    assert asked(split(data), data, "target_like_features", features=["street"]).passed


def test_the_auc_is_the_one_that_can_be_counted() -> None:
    numbers, classes = np.array([1.0, 2, 2, 3, 4]), np.array([0, 0, 1, 0, 1])
    wins = [(a < b) + (a == b) / 2 for a in numbers[classes == 0] for b in numbers[classes == 1]]
    assert auc(numbers, classes > 0) == pytest.approx(np.mean(wins))


@pytest.mark.parametrize(("holdout", "most"), [(None, 3), (0.2, 2)])
def test_a_group_that_is_too_large_is_the_reason_in_numbers(holdout: float | None, most: int) -> None:
    """Of 80 % of the rows two folds hold 40 % each, and three 27 %, which is less than the group of 31 %."""
    data = clean(1000)
    data["y"] = np.where(np.arange(1000) < 200, "positive", "negative")
    data["patient"] = 100 + np.arange(1000) % 100
    data.loc[:61, "patient"] = 17
    worst = finding(split(data, holdout=holdout), data, "class_deviation")
    assert worst.figure >= 0.55
    assert "rows of class 'positive' of 'y' and its share is " in worst.message
    assert "off, as group 17 alone holds 31.0% of them, more than any share (" in worst.message
    assert worst.message.endswith(f"; choose n_splits of at most {most}, or a finer group column.")


def test_an_audit_of_a_deployed_run_quotes_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    data = clean()
    data["y"], data["patient"] = "secret class", [f"secret group {code}" for code in data["patient"]]
    data["ward"] = np.where(data.index < 10, "secret ward", "open")
    data.loc[:49, "y"], data.loc[:4, "y"], data.loc[5:44, "patient"] = "secret rarity", "secret few", "secret group 1"
    manifest = split(data, columns={"balance_on": ["ward"]})
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    made = audit(moved(manifest, 20, (manifest.codes[20] + 1) % 5), data, features=FEATURES)
    asked = {"group_in_two_folds", "missing_classes", "class_deviation", "attribute_deviation"}
    assert asked <= {found.check for found in made.findings}
    assert "secret" not in made.model_dump_json()
    assert "class (withheld) of 'y'" in the("class_deviation", made).message
    assert "as group (withheld) alone holds" in the("class_deviation", made).message


def test_uneven_folds_are_found_and_the_limit_can_be_moved() -> None:
    data = clean()
    fold = np.minimum(np.arange(600) // 60, 4)
    data["given"] = fold
    manifest = split(data, columns={"group": None, "fold": "given"}, strategy="Predefined")
    made = asked(manifest, data, "size_deviation", features=FEATURES)
    assert the("size_deviation", made).message == "fold 4 holds 360 rows and its share is 120.0: 200.0% off."
    assert made.failed == []
    rest = dict.fromkeys(GATES, "off")
    assert audit(manifest, data, gates=rest | {"size_deviation": 0.5}).failed == ["size_deviation"]
    assert "200.0% off" in audit(manifest, data, gates=rest | {"size_deviation": 2}).passed["size_deviation"]
    assert "size_deviation" in audit(manifest, data, gates=rest).off


@pytest.mark.parametrize(("first", "said"), [(8, ""), (9, "fold 0 holds 9 rows and its share is 7.5: 20.0% off.")])
def test_less_than_a_row_is_no_deviation_and_more_is(first: int, said: str) -> None:
    """Of 15 rows no fold of two can hold 7.5; half a row is nothing to say, one and a half rows are."""
    frame = pd.DataFrame({"row": range(15), "dose": np.arange(15.0) ** 1.5, "given": [0] * first + [1] * (15 - first)})
    manifest = decide({"columns": {"key": "row", "fold": "given"}, "strategy": "Predefined"}, frame)
    assert audit(manifest, frame, features=["dose"]).passed["size_deviation"] == said


def test_folds_of_another_target_distribution_are_found() -> None:
    data = clean().sort_values("dose", ignore_index=True)
    data["given"] = np.arange(600) // 120
    manifest = split(data, columns={"group": None, "fold": "given", "target": "dose"}, strategy="Predefined")
    found = finding(manifest, data, "target_deviation", features=["age"])
    assert found.figure == pytest.approx(0.8)
    assert "KS distance of 0.800" in found.message

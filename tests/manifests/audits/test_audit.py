"""Every check of an audit finds what it is for, on data made to show it, and says it in numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import GATES, Audit, Finding, Manifest, audit, decide, extend
from evenfold.manifests.audits.features import are_all_columns, mean_auc
from evenfold.splitters import SplitError

SPEC = {"columns": {"key": "id", "target": "y", "group": "patient"}, "seed": 3}


def clean(n: int = 600) -> pd.DataFrame:
    """Return rows that nothing is wrong with: 5 rows a patient, half of them of each class, two float features."""
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": [f"row-{i:04d}" for i in range(n)],
            "y": np.where(np.arange(n) % 2, "sick", "well"),
            "patient": np.arange(n) // 5,
            "dose": random.normal(size=n),
            "age": random.uniform(20, 90, size=n),
            "day": np.arange(n),
        }
    )


def split(data: Any, **fields: Any) -> Manifest:
    columns = SPEC["columns"] | fields.pop("columns", {})
    return decide(SPEC | {"columns": {k: v for k, v in columns.items() if v}} | fields, data)


def the(check: str, made: Audit) -> Finding:
    found = [finding for finding in made.findings if finding.check == check]
    assert len(found) == 1, [finding.message for finding in made.findings]
    return found[0]


def moved(manifest: Manifest, row: int, fold: int) -> Manifest:
    """Return a manifest that somebody has edited: one row is in another fold."""
    codes = manifest.membership.codes.copy()
    codes[row] = fold
    return replace(manifest, membership=replace(manifest.membership, codes=codes))


FEATURES = ["dose", "age"]


def test_all_columns_by_name_are_the_audit_that_names_none() -> None:
    """What need not be asked twice is the same; a text beside them, another order or fewer columns are not."""
    data = clean()
    made, names = split(data), ["dose", "age", "day"]
    assert are_all_columns(names, made.spec, data)
    assert audit(made, data, features=names) == audit(made, data)
    assert not are_all_columns(names, made.spec, data.assign(note=data["id"]))
    assert not are_all_columns(names[::-1], made.spec, data)
    assert not are_all_columns(FEATURES, made.spec, data)


def test_data_that_share_no_row_with_the_manifest_fail_in_sentences() -> None:
    """Whatever the target is, each check ends; that all rows are strange is what fails."""
    data = clean()
    for target in ("y", "dose"):
        manifest = split(data, columns={"target": target})
        made = audit(manifest, data.assign(id=data["id"] + "-other"))
        assert {"rows_without_fold", "absent_rows"} <= set(made.failed)


def test_clean_data_are_found_clean_and_every_check_is_accounted_for() -> None:
    """No finding; and each check has passed, or says why it was not asked."""
    data = clean()
    made = audit(split(data), data, features=FEATURES)
    assert made.findings == []
    assert made.failed == []
    assert {*made.passed, *made.not_asked} == set(GATES)
    assert made.not_asked == {
        "time_overlap": "no time column is named",
        "waiting_rows": "nothing says when targets are known",
        "crossing_rows": "no groups are crossed",
        "target_deviation": "the target is no number",
        "near_duplicates": "fewer than 3 numbers are fine enough to compare, and no text is prose",
        "other_generation": "the manifest has not grown",
        "attribute_deviation": "no column to balance on is named",
    }


def test_an_audit_is_the_same_whatever_holds_the_data_and_in_any_order(tmp_path: Path) -> None:
    """Parquet read block by block, pandas, polars and Arrow, shuffled or not, give equal findings."""
    data = clean()
    data.loc[7, FEATURES] = data.loc[590, FEATURES]
    manifest = split(data)
    data.to_parquet(tmp_path / "data.parquet", row_group_size=50)
    data.to_csv(tmp_path / "data.csv", index=False)
    shuffled = data.sample(frac=1, random_state=0)
    given = [tmp_path / "data.parquet", tmp_path / "data.csv", data, pl.from_pandas(data), pa.Table.from_pandas(data)]
    audits = [audit(manifest, each, features=FEATURES) for each in [*given, shuffled]]
    assert the("duplicate_rows", audits[0]).figure == 2
    assert all(made == audits[0] for made in audits)


@pytest.mark.parametrize(("value", "said"), [(1.5, "1.5"), (0, "0"), ("a", "'a'")])
@pytest.mark.parametrize("strategy", ["KFold", "BalancedGroupKFold"])
def test_a_target_of_one_value_is_told(value: Any, said: str, strategy: str) -> None:
    """Nothing can be shared out evenly or predicted, and a split of it is legal: a warning, whatever the strategy."""
    data = clean().assign(y=value)
    made = audit(split(data, strategy=strategy, columns={"group": "patient" * ("Group" in strategy)}), data)
    assert the("constant_target", made).message == (
        f"'y' is {said} in all 600 rows, so nothing is shared out evenly and nothing can be predicted; name another "
        "column as target."
    )


def test_a_key_of_fractions_is_told_and_one_of_whole_floats_is_not() -> None:
    """Fractions are keys to the last bit: computed or rounded anew, they name other rows."""
    data = clean()
    whole, tenths = data.assign(id=np.arange(600.0)), data.assign(id=np.arange(600) * 0.1)
    assert "fractional_keys" in audit(split(whole), whole, features=FEATURES).passed
    assert the("fractional_keys", audit(split(tenths), tenths, features=FEATURES)).message == (
        "540 rows have a fraction as key ('id', first in row 1), and a key is compared to its last bit: 0.1 + 0.2 is "
        "not 0.3; name a column of whole numbers or text."
    )


def test_an_audit_names_the_text_that_it_looks_at_beside_the_features() -> None:
    """Text is no feature that rows are compared by, and small models read it all the same."""
    data = clean().assign(ward="north")
    made = audit(split(data), data)
    assert (made.features, made.beside) == (["dose", "age", "day"], ["ward"])
    assert audit(split(data), data, exclude=["ward"]).beside == []
    assert audit(split(data), data, features=FEATURES).beside == []


def test_an_audit_survives_json() -> None:
    """What is stored can be read back."""
    data = clean().drop(index=3)
    made = audit(split(clean()), data)
    assert made.failed == ["absent_rows"]
    assert Audit.model_validate_json(made.model_dump_json()) == made


def test_a_group_in_two_folds_is_an_error_that_names_it() -> None:
    """One row of patient 4 in another fold is enough."""
    data = clean()
    manifest = split(data)
    edited = moved(manifest, 20, (manifest.codes[20] + 1) % 5)
    found = the("group_in_two_folds", audit(edited, data, features=FEATURES))
    folds = sorted({int(manifest.codes[20]), int(edited.codes[20])})
    assert (found.severity, found.gate, found.figure, found.figures["rows"]) == ("error", "failed", 1, 5)
    assert found.message == (
        f"1 group of 'patient' (4) has rows in more than one fold: 5 rows in folds {folds[0]} and {folds[1]}; "
        "run `evenfold extend`, which quarantines them."
    )


def test_groups_can_be_asked_about_that_the_split_did_not_keep() -> None:
    """A random split of patients leaks, and the audit of it says so where the group is named."""
    data = clean()
    manifest = split(data, columns={"group": None}, strategy="KFold")
    assert "group_in_two_folds" in audit(manifest, data, features=FEATURES).not_asked
    found = the("group_in_two_folds", audit(manifest, data, features=FEATURES, group="patient"))
    assert found.figure > 100
    assert found.message.endswith("split by group 'patient'.")


@pytest.mark.parametrize("strategy", ["Bootstrap", "ShuffleSplit"])
def test_groups_in_draws_are_looked_for_in_each_draw(strategy: str) -> None:
    """Draws of single rows part the patients; the sentence says how many draws were looked at."""
    data = clean()
    manifest = split(data, columns={"group": None}, strategy=strategy, params={"n_splits": 201})
    found = the("group_in_two_folds", audit(manifest, data, features=FEATURES, group="patient"))
    assert found.figure == 120
    assert "rows on both sides of a split: 600 rows in splits 0, 1, " in found.message
    assert "the first 200 of 201 splits were looked at" in found.message


@pytest.mark.parametrize("strategy", ["KFold", "Bootstrap", "ForwardChaining"])
def test_a_copy_of_a_locked_row_is_a_leak_in_every_kind(strategy: str) -> None:
    """What a holdout is worth ends where a row that is trained on has its features."""
    data = clean()
    columns = {"group": None, "time": "day" if strategy == "ForwardChaining" else None}
    manifest = split(data, columns=columns, strategy=strategy, holdout={"fraction": 0.2})
    assert "duplicate_rows" in audit(manifest, data, features=FEATURES).passed
    locked, used = (int(np.flatnonzero(manifest.codes == code)[0]) for code in (-2, 0))
    data.loc[locked, FEATURES] = data.loc[used, FEATURES].to_numpy()
    found = the("duplicate_rows", audit(manifest, data, features=FEATURES))
    assert found.figure == 2
    assert "locked" in found.message


def test_a_holdout_is_measured_against_its_own_share() -> None:
    """A fifth is locked, and each of five folds holds a fifth of the rest."""
    data = clean()
    made = audit(split(data, holdout={"fraction": 0.2}), data, features=FEATURES)
    assert made.findings == []


def test_forward_chaining_may_test_a_group_that_a_later_split_trains_on() -> None:
    """Only the two sides of one split count, not the whole list of splits."""
    data = clean()
    data["week"] = data["day"] // 5
    manifest = split(data, columns={"time": "week"}, strategy="ForwardChaining", params={"n_splits": 4})
    made = audit(manifest, data, features=FEATURES)
    assert made.findings == []
    assert "time_overlap" in made.passed


def test_rows_that_repeat_the_features_of_another_fold_are_counted() -> None:
    """Repeats inside a fold are no leak; across folds all of them are counted, and the folds are named."""
    data = clean()
    manifest = split(data)
    fold = pd.Series(manifest.codes, index=data.index)
    first, *others = fold.index[fold == 0]
    data.loc[others[:9], FEATURES] = data.loc[first, FEATURES].to_numpy()
    assert "duplicate_rows" in audit(manifest, data, features=FEATURES).passed
    data.loc[fold.index[fold == 1][:3], FEATURES] = data.loc[first, FEATURES].to_numpy()
    found = the("duplicate_rows", audit(manifest, data, features=FEATURES))
    assert (found.severity, found.gate, found.figure) == ("warning", "passed", 13)
    assert found.figures["folds"] == {"fold 0": 10, "fold 1": 3}
    assert found.message == (
        "13 rows (2.2%) have exactly the features of a row on the other side of a split (dose and age), in folds 0 "
        "and 1; drop the repeats, or keep them together as a group."
    )


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
    assert "duplicate_rows" in audit(manifest, data, features=[*FEATURES, "words", "flag", "whole"]).passed


def test_rows_locked_away_count_as_another_side() -> None:
    """A part that is locked for the end must hold no copy of a training row."""
    data = clean()
    parts = {"train": 0.6, "validation": 0.2, "test": 0.2}
    spec = {"strategy": "FractionalStratifiedSplit", "params": {"parts": parts}}
    manifest = split(data.assign(y=data["dose"] + data["age"]), columns={"group": None}, **spec)
    locked, train = (int(np.flatnonzero(manifest.codes == code)[0]) for code in (-2, -1))
    data.loc[locked, FEATURES] = data.loc[train, FEATURES].to_numpy()
    found = the("duplicate_rows", audit(manifest, data.assign(y=data["dose"] + data["age"]), features=FEATURES))
    assert found.figures["folds"] == {"test": 1, "train": 1}
    assert "in test and train; drop" in found.message


@pytest.mark.parametrize("key", ["ROW-0007", " row-0007 ", "\uff52\uff4f\uff57-0007", "\u00a0Row-0007"])
def test_keys_that_look_alike_are_found(key: str) -> None:
    """Case, spaces and full-width forms do not make another customer. Rows are named by position, never by key."""
    data = clean()
    data.loc[500, "id"] = key
    found = the("similar_keys", audit(split(data), data, features=FEATURES))
    assert found.figure == 2
    assert found.message.startswith(
        "2 rows have a key that differs from another's in spaces, capitals or Unicode form alone"
    )
    assert "(first: rows 7 and 500)" in found.message
    assert "0007" not in found.message


def test_case_folding_is_more_than_lower_case() -> None:
    """A sharp s equals ss, and keys that only differ by an accent do not."""
    data = clean()
    data.loc[[1, 2, 3, 4], "id"] = ["straße", "STRASSE", "strasse\u0301", "andere"]
    found = the("similar_keys", audit(split(data), data, features=FEATURES))
    assert found.figure == 2
    assert "rows 1 and 2" in found.message


def test_alike_parts_of_composite_keys_are_found_together_only() -> None:
    """Two columns are one key: alike means alike in both."""
    data = clean()
    data["visit"] = np.arange(len(data)) % 2
    data["id"] = [f"p{i // 2}" if i != 8 else "P4" for i in range(len(data))]
    manifest = split(data, columns={"key": ["id", "visit"]})
    assert "similar_keys" in audit(manifest, data, features=FEATURES).passed
    data.loc[8, "visit"] = 1
    manifest = split(data, columns={"key": ["id", "visit"]})
    assert the("similar_keys", audit(manifest, data, features=FEATURES)).figure == 2


def test_training_rows_of_the_tested_time_are_found() -> None:
    """When times were corrected after the split, forward chaining no longer looks forward."""
    data = clean()
    spec = {
        "strategy": "ForwardChaining",
        "params": {"n_splits": 3, "gap": 2},
        "columns": {"group": None, "time": "day"},
    }
    manifest = split(data, **spec)
    assert "time_overlap" in audit(manifest, data, features=FEATURES).passed
    data.loc[0, "day"] = 470
    found = the("time_overlap", audit(manifest, data, features=FEATURES))
    assert (found.figure, found.gate) == (3, "failed")
    assert found.message == (
        "3 training rows of 3 splits (0, 1 and 2) are not before every tested 'day' with the gap of 2; "
        "split again by time."
    )


def test_new_rows_are_told_to_extend() -> None:
    """The issue's own sentence: so many rows have no fold: run extend."""
    data = clean(3000)
    made = audit(split(data.head(1796)), data, features=FEATURES)
    found = the("rows_without_fold", made)
    assert found.message == "1,204 rows have no fold (first: row 1796): run `evenfold extend`."
    assert made.failed == ["rows_without_fold"]


def test_deleted_rows_that_are_back_have_no_fold() -> None:
    """They are in no split until extend takes them back."""
    data = clean()
    grown = extend(split(data), data.drop(index=[4, 5])).manifest
    made = audit(grown, data, features=FEATURES)
    assert (
        the("rows_without_fold", made).message
        == "2 rows were deleted and are back (first: row 4): run `evenfold extend`."
    )
    assert the("deleted_rows", made).severity == "note"


def test_rows_of_the_manifest_that_are_gone_are_counted() -> None:
    """They are an error until extend has marked them as deleted, and a note from then on."""
    data = clean()
    manifest = split(data)
    fewer = data.drop(index=[4, 5, 6])
    made = audit(manifest, fewer, features=FEATURES)
    assert the("absent_rows", made).message.startswith(
        "3 rows of the manifest are not in the data: run `evenfold extend`,"
    )
    after = audit(extend(manifest, fewer).manifest, fewer, features=FEATURES)
    assert after.failed == []
    assert the("deleted_rows", after).message == (
        "3 rows (0.5%) were deleted from the data and are in no split; their folds are kept."
    )


def test_a_repeated_key_is_found_in_old_and_in_new_rows() -> None:
    """A row that was appended twice is one row too many, whether the manifest knows it or not."""
    data = clean()
    manifest = split(data.head(500))
    twice = pd.concat([data, data.iloc[[3, 550]]], ignore_index=True)
    found = the("repeated_keys", audit(manifest, twice, features=FEATURES))
    assert found.message == (
        "2 rows repeat the key of an earlier row (first: rows 3 and 600); drop the repeats, or name a key that is "
        "unique."
    )


def test_merged_groups_that_are_quarantined_are_counted() -> None:
    """Extending has quarantined them; the audit says how many rows are in no split."""
    data = clean()
    manifest = split(data)
    other = int(np.flatnonzero(manifest.codes != manifest.codes[0])[0])
    merged = data.assign(patient=data["patient"].replace(int(data.loc[other, "patient"]), 0))
    made = audit(extend(manifest, merged).manifest, merged, features=FEATURES)
    assert made.failed == []
    assert the("quarantined_rows", made).message.startswith("10 rows (1.7%) are quarantined, because")


def test_a_fold_without_rows_is_an_error() -> None:
    """Data of which a whole fold is gone cannot be evaluated by these folds."""
    data = clean()
    manifest = split(data)
    made = audit(manifest, data[manifest.codes != 2], features=FEATURES)
    assert the("empty_folds", made).message.startswith("fold 2 has no row in the data;")
    assert made.failed == ["absent_rows", "empty_folds"]


def test_an_empty_side_of_a_pair_is_an_error() -> None:
    """Of pairs each side of each split is looked at."""
    data = clean(20)
    pairs = {"given_pairs": [[list(range(10)), [15, 16]], [[1, 2], [3, 4]]]}
    manifest = split(data, columns={"group": None}, strategy="PredefinedPairs", params=pairs)
    made = audit(manifest, data.drop(index=[15, 16]), features=FEATURES)
    assert the("empty_folds", made).figures == {"empty": ["the test side of split 0"]}


def test_a_class_that_a_fold_lacks_is_named_with_its_rows() -> None:
    """Three rows of a class cannot be in five folds; a class in one fold is never trained on when that is tested."""
    data = clean()
    data.loc[[0, 5, 10], "y"] = "rare"
    found = the("missing_classes", audit(split(data), data, features=FEATURES))
    assert "class 'rare' of 'y' (3 rows) is missing from the test rows of 2 of 5 splits" in found.message
    data.loc[[0, 5, 10], "y"] = "well"
    data.loc[[0, 1], "y"] = "rare"
    found = the("missing_classes", audit(split(data), data, features=FEATURES))
    assert "(2 rows) is missing from the train rows of 1 of 5 splits" in found.message
    assert "(2 rows) is missing from the test rows of 4 of 5 splits" in found.message
    assert found.figure == 5


def test_a_class_that_a_part_lacks_is_found() -> None:
    """Of parts the validation part is tested and the train part is trained on."""
    data = clean()
    spec = {"strategy": "HashSplit", "params": {"parts": {"train": 0.8, "test": 0.2}}, "columns": {"group": None}}
    manifest = split(data, **spec)
    data.loc[np.flatnonzero(manifest.codes == -1)[:4], "y"] = "trained"
    found = the("missing_classes", audit(manifest, data, features=FEATURES))
    assert found.message == "class 'trained' of 'y' (4 rows) is missing from the test rows of 1 of 1 split (0)."


def test_a_feature_that_names_rows_is_found_and_a_float_is_not() -> None:
    """A running number is an id; a measurement may well have as many values as rows."""
    data = clean()
    found = the("id_like_features", audit(split(data), data))
    assert found.message == "1 feature names rows: day (100.0% distinct); leave it out, or use it as the key."
    data["day"] = data["day"] // 2
    assert "id_like_features" in audit(split(data), data).passed


def test_a_target_in_disguise_is_found() -> None:
    """Classes told apart by a number, a category or the absence of a value; numbers by any order-keeping change."""
    data = clean()
    random = np.random.default_rng(2)
    sick = data["y"] == "sick"
    data["score"] = random.uniform(size=len(data)) + 2 * sick
    data["word"] = pd.Series(np.where(sick, random.choice(["a", "b"], len(data)), "c"), dtype="category")
    data["cause"] = np.where(sick, random.normal(size=len(data)), np.nan)
    data["fair"] = random.uniform(size=len(data)) + 0.5 * sick
    found = the("target_like_features", audit(split(data), data))
    assert found.gate == "failed"
    assert set(found.figures["features"]) == {"score", "word", "cause"}
    assert found.message.startswith(
        "3 features all but give 'y' away: score (AUC 1.0000), word (AUC 1.0000) and cause (AUC"
    )
    numeric = data.assign(y=data["dose"], logged=-np.exp(data["dose"]), near=data["dose"] + 0.5 * data["fair"])
    found = the("target_like_features", audit(split(numeric), numeric, features=["logged", "near", "age"]))
    assert set(found.figures["features"]) == {"logged"}
    assert "|rank correlation| 1.0000" in found.message


def test_one_class_told_apart_is_not_the_whole_target() -> None:
    """Of three classes a feature that separates one only is a good feature, not the target."""
    data = clean()
    data["y"] = np.array(["a", "b", "c"])[np.arange(len(data)) % 3]
    random = np.random.default_rng(2)
    data["petal"] = random.uniform(size=len(data)) + 5 * (data["y"] == "a")
    assert "target_like_features" in audit(split(data), data, features=["petal"]).passed
    data["petal"] = random.uniform(size=len(data)) + 5.0 * data["y"].map({"a": 0, "b": 1, "c": 2})
    assert the("target_like_features", audit(split(data), data, features=["petal"])).figures["features"]["petal"] == 1.0


def test_a_category_of_a_few_rows_each_is_not_taken_for_the_target() -> None:
    """With one or two rows a value every category follows the target by chance."""
    data = clean()
    data["street"] = pd.Series(
        [f"s{i // 2}" for i in np.random.default_rng(0).permutation(len(data))], dtype="category"
    )
    assert "target_like_features" in audit(split(data), data, features=["street"]).passed


def test_the_mean_auc_is_the_one_that_can_be_counted() -> None:
    """For two classes with ties: the share of pairs in the right order, ties as a half."""
    numbers, classes = np.array([1.0, 2, 2, 3, 4]), np.array([0, 0, 1, 0, 1])
    wins = [(a < b) + (a == b) / 2 for a in numbers[classes == 0] for b in numbers[classes == 1]]
    assert mean_auc(numbers, classes) == pytest.approx(np.mean(wins))


@pytest.mark.parametrize(
    ("patients", "said"), [(np.arange(600), "every row is its own group"), (0, "all 600 rows are one group")]
)
def test_groups_that_say_nothing_are_found(patients: Any, said: str) -> None:
    """A group column with a value a row, or one value, keeps nothing together."""
    data = clean().assign(patient=patients)
    manifest = split(data, columns={"group": None})
    found = the("constant_groups", audit(manifest, data, features=FEATURES, group="patient"))
    assert found.message.startswith(f"{said} in 'patient'")


def test_a_group_that_is_too_large_is_the_reason_in_numbers() -> None:
    """The issue's own sentence: a group holds 31% of all positives; the best reachable deviation is 11%."""
    data = clean(1000)
    data["y"] = np.where(np.arange(1000) < 200, "positive", "negative")
    data["patient"] = 100 + np.arange(1000) % 100
    data.loc[:61, "patient"] = 17
    made = audit(split(data), data, features=FEATURES)
    found = the("balance_out_of_reach", made)
    assert found.severity == "note"
    assert found.message == (
        "group 17 holds 31.0% of all rows of class 'positive' of 'y', and the largest share of a fold is 20.0%: the "
        "best reachable deviation is 11.0%; choose n_splits of at most 3, or a finer group column."
    )
    worst = the("class_deviation", made)
    assert worst.figure >= 0.55
    assert "rows of class 'positive' of 'y' and its share is 40.0: " in worst.message


def test_a_class_that_few_groups_hold_is_the_reason_in_numbers() -> None:
    """With three groups that hold a class, two of five folds must do without it."""
    data = clean()
    data.loc[:14, "y"] = "rare"
    found = the("balance_out_of_reach", audit(split(data), data, features=FEATURES))
    assert "only 3 groups hold class 'rare' of 'y', and there are 5 folds" in found.message
    assert "group 0 holds" not in found.message


def test_uneven_folds_are_found_and_the_limit_can_be_moved() -> None:
    """Sizes are compared with their share; a number in gates fails beyond it, 'off' does not look."""
    data = clean()
    fold = np.minimum(np.arange(600) // 60, 4)
    data["given"] = fold
    manifest = split(data, columns={"group": None, "fold": "given"}, strategy="Predefined")
    made = audit(manifest, data, features=FEATURES)
    found = the("size_deviation", made)
    assert found.message == "fold 4 holds 360 rows and its share is 120.0: 200.0% off."
    assert made.failed == []
    assert audit(manifest, data, features=FEATURES, gates={"size_deviation": 0.5}).failed == ["size_deviation"]
    assert (
        "200.0% off" in audit(manifest, data, features=FEATURES, gates={"size_deviation": 2}).passed["size_deviation"]
    )
    assert audit(manifest, data, features=FEATURES, gates={"size_deviation": "off"}).off == ["size_deviation"]


@pytest.mark.parametrize(("first", "said"), [(8, ""), (9, "fold 0 holds 9 rows and its share is 7.5: 20.0% off.")])
def test_less_than_a_row_is_no_deviation_and_more_is(first: int, said: str) -> None:
    """Of 15 rows no fold of two can hold 7.5; half a row is nothing to say, one and a half rows are."""
    frame = pd.DataFrame({"row": range(15), "dose": np.arange(15.0) ** 1.5, "given": [0] * first + [1] * (15 - first)})
    manifest = decide({"columns": {"key": "row", "fold": "given"}, "strategy": "Predefined"}, frame)
    assert audit(manifest, frame, features=["dose"]).passed["size_deviation"] == said


def test_parts_are_measured_against_their_own_shares() -> None:
    """A test part of a tenth is a tenth, not a third."""
    data = clean()
    parts = {"train": 0.7, "validation": 0.2, "test": 0.1}
    spec = {"strategy": "FractionalStratifiedSplit", "params": {"parts": parts}}
    manifest = split(data.assign(y=data["dose"]), columns={"group": None}, **spec)
    made = audit(manifest, data.assign(y=data["dose"]), features=["age"])
    assert made.findings == []
    assert made.passed["size_deviation"] == ""


def test_folds_of_another_target_distribution_are_found() -> None:
    """Folds by position of a sorted target are as far apart as folds can be."""
    data = clean().sort_values("dose", ignore_index=True)
    data["given"] = np.arange(600) // 120
    manifest = split(data, columns={"group": None, "fold": "given", "target": "dose"}, strategy="Predefined")
    found = the("target_deviation", audit(manifest, data, features=["age"]))
    assert found.figure == pytest.approx(0.8)
    assert "KS distance of 0.800" in found.message


def test_a_check_that_cannot_run_is_a_finding_and_no_pass() -> None:
    """Without its group column the data may leak: the gate has failed, and the sentence says why."""
    data = clean()
    made = audit(split(data), data.drop(columns="patient"), features=FEATURES)
    found = the("group_in_two_folds", made)
    assert (found.ran, found.gate, found.figure) == (False, "failed", None)
    assert found.message.startswith("group_in_two_folds could not run: there is no column 'patient' in the data;")
    assert made.failed == ["group_in_two_folds"]
    warned = the("constant_groups", made)
    assert (warned.severity, warned.gate, warned.ran) == ("warning", "passed", False)


def test_features_of_a_kind_that_cannot_be_compared_are_no_silent_pass() -> None:
    """Lists cannot be hashed by value; who lists such a column is told."""
    data = clean()
    data["steps"] = [[1, 2]] * len(data)
    made = audit(split(data), data, features=["steps"])
    assert {f.check for f in made.findings if not f.ran} == {
        "duplicate_rows",
        "id_like_features",
        "target_like_features",
    }
    assert made.failed == ["target_like_features"]


def test_features_are_what_a_model_would_see() -> None:
    """Numbers, truth values, categories and decimals; not text, not dates, not the columns that play a part."""
    from decimal import Decimal

    data = clean()
    data["note"], data["flag"] = "text", True
    data["when"] = pd.Timestamp("2026-01-01")
    data["word"] = pd.Series("a", index=data.index, dtype="category")
    data["price"] = [Decimal(i) / 7 for i in range(len(data))]
    made = audit(split(data), data)
    assert made.features == ["dose", "age", "day", "flag", "word", "price"]
    with pytest.raises(SplitError, match=r"there is no column 'dosis'.*did you mean 'dose'"):
        audit(split(data), data, features=["dosis"])


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({"duplicate_row": 0}, "no gate 'duplicate_row'; did you mean duplicate_rows"),
        ({"xyz": 0}, "no gate 'xyz'; choose of rows_without_fold, "),
        ({"duplicate_rows": -1}, "gate duplicate_rows=-1; choose a limit of at least 0, or 'off'"),
        ({"duplicate_rows": "warn"}, "choose a limit of at least 0, or 'off'"),
        ({"duplicate_rows": float("nan")}, "choose a limit of at least 0, or 'off'"),
        ({"duplicate_rows": True}, "choose a limit of at least 0, or 'off'"),
    ],
)
def test_gates_that_are_none_are_refused(gates: dict[str, Any], message: str) -> None:
    """A misspelt gate would be a silent pass."""
    data = clean()
    with pytest.raises(SplitError, match=message):
        audit(split(data), data, gates=gates)


def test_gates_of_the_specification_hold_unless_others_are_given() -> None:
    """What the team wrote down decides; who audits may look more closely or away."""
    data = clean()
    manifest = split(data, gates={"id_like_features": 0, "missing_classes": "off"})
    made = audit(manifest, data)
    assert (made.failed, made.off) == (["id_like_features"], ["missing_classes"])
    assert audit(manifest, data, gates={"id_like_features": 1}).failed == []


def test_no_key_is_told_where_keys_are_pseudonyms(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of a manifest with encoded keys finds the same, and holds no key."""
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret")
    data = clean()
    data.loc[500, "id"] = "ROW-0007"
    manifest = split(data.head(590), key_encoding="hmac")
    twice = pd.concat([data, data.iloc[[3, 595]]], ignore_index=True)
    made = audit(manifest, twice, features=["age"])
    assert the("similar_keys", made).figure == 2
    assert the("repeated_keys", made).figure == 2
    assert the("rows_without_fold", made).figure == 11
    assert "row-0" not in made.model_dump_json().lower()


def test_a_pandas_index_in_a_file_is_no_feature(tmp_path: Path) -> None:
    """It names rows; pandas puts it into Parquet without being asked."""
    data = clean()
    manifest = split(data)
    data.sample(frac=1, random_state=0).to_parquet(tmp_path / "data.parquet")
    made = audit(manifest, tmp_path / "data.parquet")
    assert made.features == ["dose", "age", "day"]


def test_several_files_are_audited_as_one(tmp_path: Path) -> None:
    """A folder of monthly files, in which a column is whole in one and fractional in another."""
    data = clean()
    data["age"] = np.arange(600) // 2
    data.head(300).to_parquet(tmp_path / "a.parquet")
    data.tail(300).astype({"age": float}).to_parquet(tmp_path / "b.parquet")
    made = audit(split(data), tmp_path, features=FEATURES)
    assert made == audit(split(data), data.astype({"age": float}), features=FEATURES)


def test_data_without_the_key_are_refused() -> None:
    """Nothing can be joined, so there is nothing to audit."""
    data = clean()
    with pytest.raises(SplitError, match="no column 'id'"):
        audit(split(data), data.drop(columns="id"))
    manifest = split(data, columns={"key": None})
    with pytest.raises(SplitError, match=r"holds 600 rows by position .* and the data have 599"):
        audit(manifest, data.head(599))
    assert "repeated_keys" in audit(manifest, data, features=FEATURES).not_asked


def test_a_sample_is_said_to_be_one(tmp_path: Path) -> None:
    """Above 200,000 rows single features are compared on rows drawn at random, and distinct values on all."""
    n = 250_000
    random = np.random.default_rng(0)
    table = pa.table({"id": np.arange(n), "y": random.integers(0, 2, n), "pair": np.arange(n) // 2})
    table = table.append_column("copy", pa.array(table.column("y").to_numpy() * 3.5))
    pq.write_table(table, tmp_path / "data.parquet")
    manifest = decide({"columns": {"key": "id", "target": "y"}}, tmp_path / "data.parquet")
    made = audit(manifest, tmp_path / "data.parquet")
    assert "(in 200,000 of 250,000 rows, drawn at random)" in the("target_like_features", made).message
    assert "id_like_features" in made.passed

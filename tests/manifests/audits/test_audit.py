"""An audit accounts for every check and every row, whatever holds the data, and is not silent where it cannot look."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from audited import FEATURES, OF_DATA, asked, clean, finding, split, the
from evenfold.manifests import audit, decide, extend
from evenfold.manifests.audits.findings import Found, Gate, judged
from evenfold.splitters import SplitError


def test_data_that_share_no_row_with_the_manifest_fail_in_sentences() -> None:
    data = clean(200)
    made = audit(split(data, columns={"target": "dose"}), data.assign(id=data["id"] + "-other"))
    assert {"rows_without_fold", "absent_rows"} <= set(made.failed)


def test_clean_data_are_found_clean_and_every_check_is_accounted_for() -> None:
    data = clean()
    made = audit(split(data), data, features=FEATURES)
    assert made.findings == []
    assert made.failed == []
    assert {*made.passed, *made.not_asked} == OF_DATA
    assert made.not_asked == {
        "time_overlap": "no time column is named",
        "waiting_rows": "nothing says when targets are known",
        "crossing_rows": "no groups are crossed",
        "target_deviation": "the target is not a number",
        "computed_target": "the target is not a number",
        "chosen_features": "fewer than 10 features are numbers without a gap",
        "near_duplicates": "fewer than 3 numbers are fine enough to compare",
        "other_generation": "the manifest has not grown",
        "attribute_deviation": "no column to balance on is named",
    }


def test_the_past_of_groups_that_are_tested_is_counted_where_it_is_not_trained_on() -> None:
    data = clean(120).assign(patient=[*range(60), *range(30), *range(60, 90)])
    strategy = {"strategy": "ForwardChaining", "params": {"n_splits": 1, "test_size": 60}}
    manifest = decide(data, key="id", target="y", group="patient", time="day", **strategy)
    message = finding(manifest, data, "crossing_rows").message
    assert message.startswith("30 of the 60 rows before tested ones (50.0%) are not trained on, because their patient")


def test_an_audit_is_the_same_whatever_holds_the_data_and_in_any_order(tmp_path: Path) -> None:
    data = clean()
    data.loc[7, FEATURES] = data.loc[590, FEATURES]
    manifest = split(data)
    data.to_parquet(tmp_path / "data.parquet", row_group_size=50)
    given = [data, tmp_path / "data.parquet", pl.from_pandas(data), data.sample(frac=1, random_state=0)]
    checks = ("duplicate_rows", "group_in_two_folds", "class_deviation", "giveaway_features", "similar_keys")
    audits = [asked(manifest, each, *checks, features=FEATURES) for each in given]
    assert the("duplicate_rows", audits[0]).figure == 2
    assert all(made == audits[0] for made in audits)


def test_a_target_or_a_group_that_says_nothing_is_told_of_the_rows_that_have_one() -> None:
    data = clean(100).assign(y="a", z=np.where(np.arange(100) < 60, 1.0, np.nan))
    for target, said in (("y", "'y' is 'a' in all 100 rows,"), ("z", "'z' is 1 in all 60 rows that have one,")):
        assert finding(split(data), data, "constant_target", target=target).message.startswith(said)
    for values, said in (
        (["g"] * 60 + [None] * 40, "all 60 rows that have one are one group in 'ward'"),
        ([f"g{i}" for i in range(60)] + [None] * 40, "every row that has one is its own group in 'ward'"),
        (range(100), "every row is its own group in 'ward'"),
        (["g"] * 100, "all 100 rows are one group in 'ward'"),
    ):
        rows = data.assign(ward=pd.Series(values))
        assert finding(split(rows), rows, "constant_groups", group="ward").message.startswith(said)


def test_a_key_of_fractions_is_told_and_one_of_whole_floats_is_not() -> None:
    data = clean()
    whole, tenths = data.assign(id=np.arange(600.0)), data.assign(id=np.arange(600) * 0.1)
    whole.loc[599, "id"] = np.inf
    assert asked(split(whole), whole, "fractional_keys").passed
    found = finding(split(tenths), tenths, "fractional_keys").message
    assert found.startswith("540 rows have a fraction as key ('id', first in row 1)")


def test_an_audit_names_the_text_that_it_looks_at_beside_the_features() -> None:
    data = clean().assign(ward="north")
    made = asked(split(data), data, "size_deviation")
    assert (made.features, made.beside) == (["dose", "age", "day"], ["ward"])
    assert asked(split(data), data, "size_deviation", exclude=["ward"]).beside == []
    assert asked(split(data), data, "size_deviation", features=FEATURES).beside == []


def test_rows_without_a_fold_are_told_to_extend() -> None:
    data = clean(600)
    made = asked(split(data.head(396)), data, "rows_without_fold")
    assert the("rows_without_fold", made).message == "204 rows have no fold (first: row 396): run `evenfold extend`."
    assert made.failed == ["rows_without_fold"]
    grown = extend(split(data), data.drop(index=[4, 5])).manifest
    made = asked(grown, data, "rows_without_fold", "deleted_rows")
    back = "2 rows were deleted and are back (first: row 4): run `evenfold extend`."
    assert the("rows_without_fold", made).message == back
    assert the("deleted_rows", made).severity == "note"


def test_rows_that_are_gone_or_quarantined_are_counted() -> None:
    data, checks = clean(), ("absent_rows", "deleted_rows", "quarantined_rows")
    manifest = split(data)
    fewer = data.drop(index=[4, 5, 6])
    made = asked(manifest, fewer, *checks)
    assert made.failed == ["absent_rows"]
    assert the("absent_rows", made).message.startswith("3 rows of the manifest are not in the data: run `evenfold ext")
    after = asked(extend(manifest, fewer).manifest, fewer, *checks)
    assert after.failed == []
    assert the("deleted_rows", after).message == (
        "3 rows (0.5%) were deleted from the data and are in no split; their folds are kept."
    )
    other = int(np.flatnonzero(manifest.codes != manifest.codes[0])[0])
    merged = data.assign(patient=data["patient"].replace(int(data.loc[other, "patient"]), 0))
    made = asked(extend(manifest, merged).manifest, merged, *checks, "group_in_two_folds")
    assert made.failed == []
    assert the("quarantined_rows", made).message.startswith("10 rows (1.7%) are quarantined, because")


def test_a_repeated_key_is_found_in_old_and_in_new_rows() -> None:
    data = clean()
    manifest = split(data.head(500))
    twice = pd.concat([data, data.iloc[[3, 550]]], ignore_index=True)
    found = finding(manifest, twice, "repeated_keys").message
    assert found.startswith("2 rows repeat the key of an earlier row (first: rows 3 and 600);")


def test_a_check_that_cannot_run_is_a_finding_and_no_pass() -> None:
    data = clean()
    made = audit(split(data), data.drop(columns="patient"), features=FEATURES)
    found = the("group_in_two_folds", made)
    assert (found.ran, found.gate, found.figure) == (False, "failed", None)
    assert found.message.startswith("group_in_two_folds could not run: there is no column 'patient' in the data;")
    assert sorted(made.failed) == ["group_in_two_folds", "target_like_features"]
    warned = the("constant_groups", made)
    assert (warned.severity, warned.gate, warned.ran) == ("warning", "passed", False)


def test_features_of_a_kind_that_cannot_be_compared_are_no_silent_pass() -> None:
    data = clean()
    data["steps"] = [[1, 2]] * len(data)
    made = audit(split(data), data, features=["steps"])
    silent = {f.check for f in made.findings if not f.ran}
    assert silent == {"duplicate_rows", "id_like_features", "target_like_features"}
    assert made.failed == ["target_like_features"]


def test_features_are_what_a_model_would_see() -> None:
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
        *(({"duplicate_rows": limit}, "choose a limit of at least 0") for limit in (-1, "1", float("nan"), 10**400)),
    ],
)
def test_gates_that_are_none_are_refused(gates: dict[str, Any], message: str) -> None:
    data = clean()
    with pytest.raises(SplitError, match=message):
        audit(split(data), data, gates=gates)


def test_gates_of_the_specification_hold_unless_others_are_given() -> None:
    data = clean()
    manifest = split(data, gates={"id_like_features": 0, "missing_classes": "off"})
    made = audit(manifest, data)
    assert (made.failed, made.off) == (["id_like_features"], ["missing_classes"])
    assert audit(manifest, data, gates={"id_like_features": 1}).failed == []


def test_no_key_is_told_where_keys_are_pseudonyms(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_data_without_the_key_are_refused() -> None:
    data = clean()
    with pytest.raises(SplitError, match="no column 'id'"):
        audit(split(data), data.drop(columns="id"))
    manifest = split(data, columns={"key": None})
    with pytest.raises(SplitError, match=r"holds 600 rows by position .* and the data have 599"):
        audit(manifest, data.head(599))
    assert asked(manifest, data, "repeated_keys", features=FEATURES).not_asked


def test_a_figure_that_is_not_a_number_is_within_no_limit() -> None:
    found = {"lower_score": lambda: Found(float("nan"), "The score is undefined.")}
    limits = {"lower_score": Gate(1.0, True, "half-widths by which the score may fall")}
    made = judged(limits, found, split(clean()), n_rows=600, features=[])
    assert (made.failed, made.passed) == (["lower_score"], {})

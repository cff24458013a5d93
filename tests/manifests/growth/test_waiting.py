"""Rows whose targets are not known yet wait outside of every split, and join when they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked, the
from evenfold.manifests import decide, extend, measure, read_manifest, verify, write_manifest
from evenfold.splitters import SplitError

START = pd.Timestamp("2024-01-01")


def loans(months: int) -> pd.DataFrame:
    """Return 60 loans a month of 90 customers; who pays back shows after 45 days, and has no value until then."""
    random = np.random.default_rng(8)
    n = 60 * 14
    day = np.sort(random.integers(0, 30 * 14, n))
    table = pd.DataFrame(
        {
            "loan": random.permutation(n),
            "customer": random.integers(0, 90, n),
            "amount": random.normal(size=n),
            "day": START + pd.to_timedelta(day, unit="D"),
            "paid": np.where(random.random(n) < 0.7, "yes", "no").astype(object),
        }
    )
    table = table[day < 30 * months].reset_index(drop=True)
    table.loc[immature(table), "paid"] = None
    return table


def immature(table: pd.DataFrame) -> Any:
    return table["day"] + pd.Timedelta(days=45) > table["day"].max()


SPEC: dict[str, Any] = {
    "columns": {"key": "loan", "target": "paid", "group": "customer", "time": "day"},
    "strategy": "BalancedGroupKFold",
    "label_horizon": "45 days",
    "holdout": 0.2,
    "ignore": {"EF401": "customers are new, not months"},
}


def test_of_two_extensions_that_differ_in_who_waits_the_second_is_refused(tmp_path: Path) -> None:
    decided = decide(SPEC, loans(2))
    table = loans(3)
    shorter = table[~(table.index == table.index[immature(table)][0])]
    first, second = (extend(decided, data).manifest for data in (shorter, table))
    assert first.split_id == second.split_id
    write_manifest(decided, tmp_path)
    write_manifest(first, tmp_path)
    with pytest.raises(SplitError, match="already holds the same folds, decided of other rows"):
        write_manifest(second, tmp_path)


def test_the_same_table_again_makes_no_new_version() -> None:
    manifest = extend(decide(SPEC, loans(2)), loans(3)).manifest
    again = extend(manifest, loans(3).sample(frac=1, random_state=1))
    assert (again.added, again.manifest.version, again.manifest.split_id) == (0, "1.1", manifest.split_id)
    assert extend(manifest, loans(4)).manifest.version == "1.2"
    more = pd.concat([loans(3), loans(3).tail(1).assign(loan=9_999)])
    told = extend(manifest, more)
    assert (told.added, told.manifest.version) == (0, "1.2")
    assert told.manifest.waiting.num_rows == manifest.waiting.num_rows + 1


def test_every_loan_waits_until_its_target_is_known_and_then_stays_where_it_joined(tmp_path: Any) -> None:
    data = loans(2)
    manifest = decide(SPEC, data)
    folds: dict[int, int] = {}
    for months in range(2, 15):
        data = loans(months)
        if months > 2:
            grown = extend(manifest, data)
            assert grown.moved == grown.deleted == grown.quarantined == 0
            assert any("wait until their targets are known" in note for note in grown.notes)
            manifest = grown.manifest
        manifest = read_manifest(write_manifest(manifest, tmp_path))
        shuffled = data.sample(frac=1, random_state=months)
        fold = dict(zip(shuffled["loan"], manifest.fold_of(shuffled).tolist(), strict=True))
        assert {loan for loan, code in fold.items() if code == -3} == {*data["loan"][immature(data)]}
        assert all(fold[loan] == before for loan, before in folds.items())
        folds = {loan: code for loan, code in fold.items() if code != -3}
        held: dict[int, set[int]] = {}
        for loan, customer in zip(data["loan"], data["customer"], strict=True):
            if loan in folds:
                held.setdefault(customer, set()).add(folds[loan])
        assert all(len(codes) == 1 for codes in held.values())
    assert manifest.generation == 12
    for train, test in manifest.as_cv(shuffled).split(shuffled):
        assert shuffled["paid"].iloc[[*train, *test]].notna().all()
    assert verify(tmp_path / "split" / manifest.version).intact
    assert measure(manifest, data).n_rows == len(folds)


def test_the_audit_counts_who_waits_and_takes_none_for_unknown() -> None:
    data = loans(6)
    manifest = decide(SPEC, data)
    checks = ("waiting_rows", "absent_rows", "rows_without_fold")
    made = asked(manifest, data, *checks)
    assert the("waiting_rows", made).figure == immature(data).sum() > 0
    assert (the("waiting_rows", made).severity, made.failed) == ("note", [])
    assert "rows_without_fold" in asked(manifest, loans(7), *checks).failed


def test_the_order_of_rows_and_who_waits_are_part_of_the_plan_as_they_should_be() -> None:
    data = loans(5)
    one, other = decide(SPEC, data), decide(SPEC, data.sample(frac=1, random_state=2))
    assert (one.plan_id, one.split_id) == (other.plan_id, other.split_id)
    last = data.sort_values("day").iloc[[-1]].assign(loan=99_999)
    more = decide(SPEC, pd.concat([data, last]))
    assert more.split_id == one.split_id
    assert more.plan_id != one.plan_id


def test_strategies_of_time_split_what_is_known_and_purge_the_rest() -> None:
    data = loans(12)
    columns = {"key": "loan", "target": "paid", "time": "day"}
    manifest = decide({"columns": columns, "label_horizon": "45 days", "params": {"n_splits": 3}}, data)
    assert manifest.spec.strategy == "ForwardChaining"
    for train, test in manifest.as_cv(data).split():
        assert data["paid"].iloc[[*train, *test]].notna().all()
        assert data["day"].iloc[train].max() + pd.Timedelta(days=45) < data["day"].iloc[test].min()
    assert "time_overlap" in asked(manifest, data, "time_overlap").passed


def test_an_end_in_a_column_waits_alike_and_may_be_used_at_once() -> None:
    data = loans(6)
    data["known"] = data["day"] + pd.Timedelta(days=45)
    by_column = {name: value for name, value in SPEC.items() if name != "label_horizon"}
    by_column["columns"] = SPEC["columns"] | {"label_end": "known"}
    assert decide(by_column, data).split_id == decide(SPEC, data).split_id
    complete = data.assign(paid=data["paid"].fillna("no"))
    used = decide(SPEC | {"on_immature": "use"}, complete)
    assert used.n == len(data)
    assert used.waiting is None
    plain = {name: value for name, value in SPEC.items() if name != "label_horizon"}
    assert used.split_id == decide(plain, complete).split_id


def test_what_cannot_wait_is_refused_in_words() -> None:
    data = loans(4)
    known = SPEC | {"columns": {name: value for name, value in SPEC["columns"].items() if name != "key"}}
    with pytest.raises(SplitError, match="rows can wait only where a key names them"):
        decide(known, data)
    with pytest.raises(SplitError, match="what says when targets are known needs a time column"):
        decide(SPEC | {"columns": {"key": "loan", "target": "paid"}, "strategy": "KFold"}, data)
    with pytest.raises(SplitError, match="a batch alone does not say which targets are known"):
        extend(decide(SPEC, data), loans(5).tail(3), batch=True)
    with pytest.raises(SplitError, match="both say when targets are known"):
        decide(SPEC | {"columns": SPEC["columns"] | {"label_end": "day"}}, data)
    with pytest.raises(SplitError, match="at least 2 must be left"):
        decide(SPEC | {"label_horizon": "900 days"}, data)
    with pytest.raises(SplitError, match="label_horizon='soon'"):
        decide(SPEC | {"label_horizon": "soon"}, data)
    with pytest.raises(SplitError, match=r"paid.* is missing"):
        decide(SPEC, data.assign(paid=data["paid"].where(data.index > 3)))

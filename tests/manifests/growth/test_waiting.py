"""Rows that name no target or group, or whose targets are known later, wait or stand alone, as the table grows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked, the
from evenfold.estimates import ModelSpec
from evenfold.flows import evaluate, extend as extend_flow
from evenfold.manifests import adopt, check_arrival, decide, extend, measure, read_manifest, verify, write_manifest
from evenfold.manifests.exchange.warehouse import warehouse_sql
from evenfold.splitters import SplitError
from sklearn.model_selection import GroupKFold

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
    at_once = plain | {"columns": SPEC["columns"] | {"label_end": "day"}}
    assert used.split_id == decide(plain, complete).split_id == decide(at_once, complete).split_id


def test_what_cannot_wait_is_refused_in_words() -> None:
    data = loans(4)
    known = SPEC | {"columns": {name: value for name, value in SPEC["columns"].items() if name != "key"}}
    with pytest.raises(SplitError, match="rows can wait only where a key names them"):
        decide(known, data)
    with pytest.raises(SplitError, match="what says when targets are known needs a time column"):
        decide(SPEC | {"columns": {"key": "loan", "target": "paid"}, "strategy": "KFold"}, data)
    with pytest.raises(SplitError, match="both say when targets are known"):
        decide(SPEC | {"columns": SPEC["columns"] | {"label_end": "day"}}, data)
    with pytest.raises(SplitError, match="at least 2 must be left"):
        decide(SPEC | {"label_horizon": "900 days"}, data)


COLUMNS = {"key": "row", "target": "paid", "group": "customer"}
ALONE: dict[str, Any] = {"columns": COLUMNS, "missing_group": "alone"}
WAIT: dict[str, Any] = {"columns": COLUMNS, "missing_target": "wait"}
ENTITIES = {"columns": {"key": "row", "target": "paid", "entities": ["customer", "shop"]}, "missing_group": "alone"}


def payments(n: int = 240, without: int = 40, untold: int = 0) -> pd.DataFrame:
    """Return payments of customers (of two shops each): the first name no customer, and the last have no target."""
    random = np.random.default_rng(5)
    table = pd.DataFrame({"row": np.arange(n), "customer": random.permutation(np.arange(n) // 5).astype(float)})
    table["shop"] = [f"s{int(customer) // 4}" for customer in table["customer"]]
    table["amount"] = random.normal(size=n)
    table["paid"] = np.where(random.random(n) < 0.5, "yes", "no").astype(object)
    table.loc[: without - 1, "customer"] = np.nan
    table.loc[n - untold :, "paid"] = None
    return table


@pytest.mark.parametrize(
    "fields", [{}, {"strategy": "GroupBootstrap", "params": {"n_splits": 20}}, {"holdout": 0.2, "calibration": 0.2}]
)
def test_a_row_without_a_group_is_split_as_one_with_a_group_of_its_own(fields: dict[str, Any]) -> None:
    """Text, numbers and any order of rows come to the folds that a made-up name for each such row comes to."""
    data = payments()
    named = data.assign(customer=data["customer"].fillna(-1.0 - data["row"]))
    manifest, same = decide(ALONE | fields, data), decide({"columns": COLUMNS} | fields, named)
    assert manifest.split_id == same.split_id
    assert manifest.plan_id != same.plan_id
    words = data.assign(customer=data["customer"].map(lambda each: None if each != each else f"c{each}"))
    assert decide(ALONE | fields, words.iloc[::-1]).split_id == same.split_id
    assert decide(ALONE | fields, data.iloc[::-1]).plan_id == manifest.plan_id
    assert asked(manifest, data, "group_in_two_folds").findings == []
    assert measure(manifest, data) == measure(same, named)


def test_rows_without_entities_join_nothing() -> None:
    data = payments(without=0)
    data.loc[:9, ["customer", "shop"]] = None
    data.loc[10:19, "customer"] = np.nan
    manifest = decide(ENTITIES | {"params": {"n_splits": 3}}, data)
    folds = pd.Series(manifest.fold_of(data))
    assert folds[:10].nunique() > 1
    assert folds[10:].groupby(data["shop"][10:]).nunique().max() == 1
    later = pd.concat([data, data[:30].assign(row=np.arange(900, 930))])
    grown = extend(manifest, later, batch=False)
    assert (grown.added, grown.moved, grown.quarantined) == (30, 0, 0)
    assert grown.manifest.fold_of(later)[-20:].tolist() == folds[10:30].tolist()


def test_they_keep_their_folds_when_the_table_grows_and_a_group_named_late_follows_its_row(tmp_path: Path) -> None:
    before, after = payments().iloc[:200], payments()
    after.loc[220:, "customer"] = np.nan
    after.loc[0, "customer"] = 777.0
    manifest = read_manifest(write_manifest(decide(ALONE, before), tmp_path))
    after.loc[219, "customer"] = 777.0
    looked_at = check_arrival(manifest, after.assign(customer=after["customer"].where(after.index < 200)), None)
    assert all(finding.ran and finding.check != "swallowing_groups" for finding in looked_at.findings)
    grown = extend(manifest, after)
    assert (grown.added, grown.moved, grown.quarantined) == (40, 0, 0)
    folds = grown.manifest.fold_of(after)
    assert (folds[:200] == manifest.fold_of(before)).all()
    assert folds[219] == folds[0]
    assert set(folds[220:]) == set(range(5))
    assert verify(write_manifest(grown.manifest, tmp_path)).intact
    assert grown.manifest.group_table is not None
    assert grown.manifest.group_table.column("group").null_count == 0
    assert extend(grown.manifest, after).added == 0


def test_a_row_that_turns_out_to_be_of_a_group_in_another_fold_is_quarantined_with_it() -> None:
    data = payments()
    manifest = decide(ALONE, data)
    folds = manifest.fold_of(data)
    other = data["customer"][40:][folds[40:] != folds[0]].iloc[0]
    grown = extend(manifest, data.assign(customer=data["customer"].where(data["row"] != 0, other)))
    assert (grown.moved, grown.quarantined) == (0, 1 + (data["customer"] == other).sum())


def test_adopted_folds_take_them_too_and_grow() -> None:
    before, after = payments(), payments(250)
    after.loc[: len(before) - 1] = before
    after.loc[240:, "customer"] = np.nan
    folds = adopt(before, GroupKFold(4), "row", group="shop").fold_of(before)
    taken = adopt(before, folds, "row", target="paid", group="customer", missing_group="alone")
    assert (taken.fold_of(before) == folds).all()
    grown = extend(taken, after)
    assert (grown.added, grown.moved, grown.quarantined) == (10, 0, 0)
    with pytest.raises(SplitError, match=r"in 40 of 240 rows .*--missing-group alone"):
        adopt(before, folds, "row", target="paid", group="customer")


def test_without_the_options_rows_are_refused_and_no_identity_changes() -> None:
    data = payments(without=0)
    plain = decide({"columns": COLUMNS}, data)
    for option, default, spec in (("missing_group", "refuse", ALONE), ("missing_target", "stop", WAIT)):
        assert decide({"columns": COLUMNS, option: default}, data).plan_id == plain.plan_id
        assert decide(spec, data).split_id == plain.split_id
    for rows, message in (
        (payments(), r"'customer' is missing .* in 40 of 240 rows .*--missing-group alone"),
        (payments(without=0, untold=7), r"in 7 of 240 rows .*--missing-target wait"),
    ):
        with pytest.raises(SplitError, match=message):
            decide({"columns": COLUMNS}, rows)
    with pytest.raises(SplitError, match="missing_group: alone needs a group column"):
        decide({"columns": {"key": "row"}, "missing_group": "alone"}, data)
    with pytest.raises(SplitError, match="rows that may lack a group, each in a fold of its own, which no rule knows"):
        warehouse_sql(decide(ALONE, data), "duckdb")
    with pytest.raises(SplitError, match="on_new_rows: hash deals new rows by their group"):
        decide(ALONE | {"on_new_rows": "hash"}, data)


@pytest.mark.parametrize("more", [{}, {"columns": {"key": "row", "target": "paid"}, "strategy": "KFold"}])
def test_rows_without_a_target_wait_and_the_others_are_split_as_if_alone(more: dict[str, Any]) -> None:
    data, spec = payments(without=0, untold=7), WAIT | more
    manifest = decide(spec, data)
    alone = decide({name: value for name, value in spec.items() if name != "missing_target"}, data.dropna())
    assert manifest.split_id == alone.split_id
    assert manifest.plan_id != alone.plan_id
    assert set(manifest.fold_of(data)[-7:]) == {-3}
    for train, test in manifest.as_cv(data).split():
        assert data["paid"].iloc[[*train, *test]].notna().all()
    with pytest.raises(SplitError, match="7 rows of the table wait and have no rank; use as_cv"):
        manifest.pair(0)
    audit = asked(manifest, data, "waiting_rows", "absent_rows", "rows_without_fold")
    assert (the("waiting_rows", audit).figure, audit.failed) == (7, [])


def test_a_row_joins_when_its_target_is_known_and_no_other_moves(tmp_path: Path) -> None:
    before, after = (payments(without=0, untold=n) for n in (7, 2))
    manifest = read_manifest(write_manifest(decide(WAIT, before), tmp_path))
    grown = extend(manifest, after)
    assert (grown.added, grown.moved, grown.deleted) == (5, 0, 0)
    folds = grown.manifest.fold_of(after)
    assert (folds[:-7] == manifest.fold_of(before)[:-7]).all()
    assert (folds[-7:] == -3).tolist() == [False] * 5 + [True] * 2
    assert verify(write_manifest(grown.manifest, tmp_path)).intact
    with pytest.raises(SplitError, match="a batch alone does not say which targets are known by now"):
        extend(manifest, after.head(5), batch=True)


@pytest.mark.usefixtures("home")
def test_the_flows_take_both_and_intervals_count_rows_without_a_group_one_by_one(tmp_path: Path) -> None:
    data, path = payments(untold=7), tmp_path / "payments.parquet"
    data.iloc[20:].to_parquet(path)
    model = ModelSpec(estimator="sklearn.linear_model:LogisticRegression", features=("amount",))
    fields = {"key": "row", "target": "paid", "group": "customer", "missing_target": "wait", "engine": "plain"}
    evaluation = evaluate(str(path), None, model, missing_group="alone", **fields)
    named = data.assign(customer=data["customer"].fillna(-1.0 - data["row"])).iloc[20:]
    named.to_parquet(tmp_path / "named.parquet")
    same = evaluate(str(tmp_path / "named.parquet"), None, model, **fields)
    assert evaluation.estimates == same.estimates
    assert sum(score.n_test for score in evaluation.scores) == 213
    payments(untold=2).to_parquet(path)
    assert extend_flow(evaluation.split.uri, str(path), engine="plain").added == 25

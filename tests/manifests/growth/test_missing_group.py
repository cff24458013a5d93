"""Rows without a group are refused, or each is a group of its own, now and in every later generation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked
from evenfold.estimates import ModelSpec
from evenfold.flows import evaluate, extend as extend_flow
from evenfold.manifests import decide, extend, measure, read_manifest, verify, write_manifest
from evenfold.manifests.exchange.warehouse import warehouse_sql
from evenfold.reports.splits.data import group_sizes, see
from evenfold.splitters import SplitError

COLUMNS = {"key": "row", "target": "paid", "group": "customer"}
SPEC: dict[str, Any] = {"columns": COLUMNS, "missing_group": "alone"}
ENTITIES = {"columns": {"key": "row", "target": "paid", "entities": ["customer", "shop"]}, "missing_group": "alone"}


def payments(n: int = 240, without: int = 40) -> pd.DataFrame:
    """Return payments of customers (of two shops each) with two classes, the first of which name no customer."""
    random = np.random.default_rng(5)
    table = pd.DataFrame({"row": np.arange(n), "customer": random.permutation(np.arange(n) // 5).astype(float)})
    table["shop"] = [f"s{int(customer) // 4}" for customer in table["customer"]]
    table["amount"] = random.normal(size=n)
    table["paid"] = np.where(random.random(n) < 0.5, "yes", "no")
    table.loc[: without - 1, "customer"] = np.nan
    return table


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"strategy": "GroupBootstrap", "params": {"n_splits": 20}},
        {"strategy": "BalancedGroupSplit", "params": {"parts": {"train": 0.7, "validation": 0.3}}},
        {"holdout": 0.2},
        {"calibration": 0.2},
    ],
)
def test_a_row_without_a_group_is_split_as_one_with_a_group_of_its_own(fields: dict[str, Any]) -> None:
    """Text, numbers and any order of rows come to the folds that a made-up name for each such row comes to."""
    data = payments()
    named = data.assign(customer=data["customer"].fillna(-1.0 - data["row"]))
    manifest, same = decide(SPEC | fields, data), decide({"columns": COLUMNS} | fields, named)
    assert manifest.split_id == same.split_id
    assert manifest.plan_id != same.plan_id
    words = data.assign(customer=data["customer"].map(lambda each: None if each != each else f"c{each}"))
    assert decide(SPEC | fields, words.iloc[::-1]).split_id == same.split_id
    assert decide(SPEC | fields, data.iloc[::-1]).plan_id == manifest.plan_id
    assert asked(manifest, data, "group_in_two_folds", "untested_groups").findings == []
    reports = measure(manifest, data), measure(same, named)
    assert reports[0] == reports[1]
    seen = [
        see(made, report, rows) for made, report, rows in zip((manifest, same), reports, (data, named), strict=True)
    ]
    assert group_sizes(seen[0]) == group_sizes(seen[1])


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
    manifest = read_manifest(write_manifest(decide(SPEC, before), tmp_path))
    after.loc[219, "customer"] = 777.0
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
    manifest = decide(SPEC, data)
    folds = manifest.fold_of(data)
    other = data["customer"][40:][folds[40:] != folds[0]].iloc[0]
    grown = extend(manifest, data.assign(customer=data["customer"].where(data["row"] != 0, other)))
    assert (grown.moved, grown.quarantined) == (0, 1 + (data["customer"] == other).sum())


def test_without_the_policy_they_are_refused_and_no_identity_changes() -> None:
    data = payments(without=0)
    plain = decide({"columns": COLUMNS}, data)
    assert decide({"columns": COLUMNS, "missing_group": "refuse"}, data).plan_id == plain.plan_id
    assert decide(SPEC, data).split_id == plain.split_id
    with pytest.raises(SplitError, match=r"'customer' is missing .* in 40 of 240 rows .*--missing-group alone"):
        decide({"columns": COLUMNS}, payments())
    with pytest.raises(SplitError, match="missing_group: alone needs a group column"):
        decide({"columns": {"key": "row"}, "missing_group": "alone"}, data)
    with pytest.raises(SplitError, match="rows that may lack a group, each in a fold of its own, which no rule knows"):
        warehouse_sql(decide(SPEC, data), "duckdb")
    with pytest.raises(SplitError, match="on_new_rows: hash deals new rows by their group"):
        decide(SPEC | {"on_new_rows": "hash"}, data)


@pytest.mark.usefixtures("home")
def test_the_flows_take_it_and_intervals_count_such_rows_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "payments.parquet"
    payments().iloc[:200].to_parquet(path)
    model = ModelSpec(estimator="sklearn.linear_model:LogisticRegression", features=("amount",))
    fields = {"key": "row", "target": "paid", "group": "customer", "engine": "plain"}
    found = evaluate(str(path), None, model, missing_group="alone", **fields)
    named = payments().iloc[:200]
    named.assign(customer=named["customer"].fillna(-1.0 - named["row"])).to_parquet(tmp_path / "named.parquet")
    same = evaluate(str(tmp_path / "named.parquet"), None, model, **fields)
    assert found.estimates == same.estimates
    payments().to_parquet(path)
    assert extend_flow(found.split.uri, str(path), engine="plain").added == 40

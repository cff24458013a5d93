"""Rows without a target wait outside of every split where that is asked for, and join when they have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import asked, the
from evenfold.estimates import ModelSpec
from evenfold.flows import evaluate, extend as extend_flow, split
from evenfold.manifests import decide, extend, read_manifest, verify, write_manifest
from evenfold.splitters import SplitError

COLUMNS = {"key": "row", "target": "paid", "group": "customer"}
SPEC: dict[str, Any] = {"columns": COLUMNS, "missing_target": "wait"}


def payments(missing: int = 7) -> pd.DataFrame:
    """Return 200 rows of 40 customers, the first of which have no target."""
    random = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "row": random.permutation(200),
            "customer": random.integers(0, 40, 200),
            "amount": random.normal(size=200),
            "paid": np.where(random.random(200) < 0.6, "yes", "no").astype(object),
        }
    )
    table.loc[: missing - 1, "paid"] = None
    return table


@pytest.mark.parametrize("strategy", [None, "KFold"])
def test_rows_without_a_target_wait_and_the_others_are_split_as_if_alone(strategy: str | None) -> None:
    data = payments()
    columns = COLUMNS if strategy is None else {"key": "row", "target": "paid"}
    spec = SPEC | {"columns": columns} | ({} if strategy is None else {"strategy": strategy})
    manifest = decide(spec, data)
    alone = decide({name: value for name, value in spec.items() if name != "missing_target"}, data.dropna())
    assert manifest.split_id == alone.split_id
    assert manifest.plan_id != alone.plan_id
    assert set(manifest.fold_of(data)[:7]) == {-3}
    for train, test in manifest.as_cv(data).split():
        assert data["paid"].iloc[[*train, *test]].notna().all()
    made = asked(manifest, data, "waiting_rows", "absent_rows", "rows_without_fold")
    assert (the("waiting_rows", made).figure, made.failed) == (7, [])


def test_a_row_joins_when_its_target_is_known_and_no_other_moves(tmp_path: Path) -> None:
    before, after = payments(), payments(2)
    manifest = read_manifest(write_manifest(decide(SPEC, before), tmp_path))
    grown = extend(manifest, after)
    assert (grown.added, grown.moved, grown.deleted) == (5, 0, 0)
    folds = grown.manifest.fold_of(after)
    assert (folds[7:] == manifest.fold_of(before)[7:]).all()
    assert (folds[:7] == -3).tolist() == [True] * 2 + [False] * 5
    assert verify(write_manifest(grown.manifest, tmp_path)).intact
    with pytest.raises(SplitError, match="a batch alone does not say which targets are known by now"):
        extend(manifest, after.head(5), batch=True)


def test_without_the_option_nothing_changes() -> None:
    """Its default leaves every identity as it was, and says what would work."""
    data = payments().dropna()
    plain = decide({"columns": COLUMNS}, data)
    assert decide({"columns": COLUMNS, "missing_target": "stop"}, data).plan_id == plain.plan_id
    assert decide(SPEC, data).split_id == plain.split_id
    with pytest.raises(SplitError, match=r"in 7 of 200 rows .*--missing-target wait"):
        decide({"columns": COLUMNS}, payments())


@pytest.mark.usefixtures("home")  # whose store is a copy of one that is there
def test_the_flows_take_it_and_no_model_sees_a_row_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "payments.parquet"
    payments().to_parquet(path)
    columns = {"target": "paid", "key": "row", "group": "customer"}
    seen = split(str(path), **columns, missing_target="wait", engine="plain")
    assert seen.split.n_rows == 193
    model = ModelSpec(estimator="sklearn.linear_model:LogisticRegression")
    found = evaluate(str(path), None, model, **columns, missing_target="wait", engine="plain")
    assert sum(score.n_test for score in found.scores) == 193
    payments(0).to_parquet(path)
    assert extend_flow(seen.split.uri, str(path), engine="plain").added == 7

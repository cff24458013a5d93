"""Flows on a table that takes more memory than they are given: the same split, recorded, and evaluated on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.flows import evaluate, split
from evenfold.manifests.anywhere import verbs
from evenfold.manifests.store import load
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient

COLUMNS = {"target": "y", "group": "g", "key": "id"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a file of 20,000 rows: half a megabyte of used columns."""
    rng, n = np.random.default_rng(0), 20_000
    columns = {"id": rng.permutation(n), "g": rng.integers(0, 500, n), "y": rng.normal(size=n), "x": rng.normal(size=n)}
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def test_a_split_out_of_core_is_recorded_and_found_by_every_other_flow(
    home: Home, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No manifest and no table is read as a whole, and what is evaluated afterwards rests on the same manifest."""
    with monkeypatch.context() as patched:
        patched.setattr(load, "_from_tables", lambda *_: pytest.fail("the manifest was read as a whole"))
        made = split(data, **COLUMNS, name="flights", engine="plain", memory="1MB")
        again = split(data, **COLUMNS, name="flights", engine="plain", memory="1MB")
    assert (made.cached, again.cached) == (False, True)
    assert (made.run_id, made.balance) == (again.run_id, again.balance)
    page = Path(MlflowClient(home.tracking_uri).download_artifacts(made.run_id, "split/report.html")).read_text()
    assert "measured out of core" in page
    assert "not asked" in page
    evaluation = evaluate(data, **COLUMNS, name="flights", model="sklearn.linear_model:Ridge", engine="plain")
    assert evaluation.cached
    assert evaluation.split.split_id == made.split.split_id
    assert not list(home.splits.glob(".spilling-*"))


def test_a_setting_says_how_much_memory_a_table_may_take(
    home: Home, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a flag EVENFOLD_MEMORY decides where rows are sorted, and a wrong size is said."""
    where: list[type] = []
    planned = verbs.planned

    def noted(*args: object, **kwargs: object) -> object:
        plan = planned(*args, **kwargs)  # type: ignore[arg-type]
        where.append(type(plan))
        return plan

    monkeypatch.setattr("evenfold.tasks.splits.planned", noted)
    monkeypatch.setenv("EVENFOLD_MEMORY", "1MB")
    first = split(data, **COLUMNS, engine="plain")
    monkeypatch.setenv("EVENFOLD_MEMORY", "1GB")
    second = split(data, **COLUMNS, name="other", engine="plain")
    assert [kind.__name__ for kind in where] == ["StreamedPlan", "Plan"]
    assert first.split.split_id == second.split.split_id
    with pytest.raises(SplitError, match="write a size such as '2GB'"):
        split(data, **COLUMNS, name="third", engine="plain", memory="much")


def test_a_strategy_that_is_decided_in_memory_only_names_others(home: Home, data: Path) -> None:
    """The error is the same from a flow, and nothing is left behind."""
    with pytest.raises(SplitError, match=r"ShuffleSplit is decided in memory only, because .*; use "):
        split(data, key="id", strategy="ShuffleSplit", engine="plain", data_engine="duckdb", memory="1MB")
    assert not list(home.splits.glob("*"))

"""Tables that take more memory than they are given, and what an extension says of one that is not quite the next."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.flows import evaluate, extend, split
from evenfold.manifests import decide
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient

from evenfold import flows

LITTLE = "920kB"  # what measuring 5,000 rows takes fits into it, and what deciding them in memory takes does not
COLUMNS = {"target": "y", "group": "g", "key": "id"}
# Two folds of a model say what five say, and each has a fit, a run and its part of the audit and of the record; three
# where the rows that one tests must be less than what is at hand.
FOLDS: dict[str, Any] = {**COLUMNS, "n_splits": 2}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng, n = np.random.default_rng(0), 5_000
    columns = {"id": rng.permutation(n), "g": rng.integers(0, 125, n), "y": rng.normal(size=n), "x": rng.normal(size=n)}
    pq.write_table(pa.table(columns | {"z": columns["y"] + columns["x"]}), tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def test_a_split_that_is_sorted_on_disk_is_recorded_and_found_by_every_other_flow(home: Home, data: Path) -> None:
    """What is evaluated afterwards rests on the same manifest, and nothing of the sort stays."""
    wide = FOLDS | {"stratify": ["x"]}
    made, again = (split(data, **wide, name="flights", engine="plain", memory=LITTLE) for _ in range(2))
    assert (made.cached, again.cached, made.run_id, made.balance) == (False, True, again.run_id, again.balance)
    model = {"estimator": "sklearn.linear_model:Ridge", "features": ["z"]}
    evaluation = evaluate(data, **wide, name="flights", model=model, engine="plain")
    assert (evaluation.cached, evaluation.split.split_id) == (True, made.split.split_id)
    assert not list(home.splits.glob(".spilling-*"))


def test_what_nobody_could_measure_within_the_memory_is_refused_before_it_is_decided(
    home: Home, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SplitError, match=r"^flights looks at 5,000 rows at once, .* are allowed; .*only decide"):
        split(data, **FOLDS, name="flights", engine="plain", memory="800kB")
    monkeypatch.setenv("EVENFOLD_MEMORY", "800kB")
    with pytest.raises(SplitError, match="5,000 rows"):
        evaluate(data, **FOLDS, name="flights", engine="plain", features=["z"])
    assert not list(home.path.rglob("manifest.json"))


def test_flows_read_a_table_of_a_database_and_notice_that_rows_joined(home: Home, tmp_path: Path) -> None:
    """Split, evaluated, recorded and grown by its address: the manifest is that of a file of the same rows."""
    rng, database = np.random.default_rng(0), tmp_path / "base.db"
    rows = pa.table({"id": np.arange(2_000), "g": np.arange(2_000) % 90, "y": rng.normal(size=2_000)})
    rows = rows.append_column("x", pa.array(rng.normal(size=2_000)))
    pq.write_table(rows.slice(0, 1_500), tmp_path / "flights.parquet")
    with duckdb.connect(database) as connection:
        connection.register("rows", rows)
        connection.execute("create table flights as select * from rows where id < 1500")
    address, model = f"duckdb://{database}#flights", {"estimator": "sklearn.linear_model:Ridge", "features": ["x"]}
    made = evaluate(address, **FOLDS, model=model, engine="plain")
    assert made.split.name == "flights"
    spec = {"columns": COLUMNS, "params": {"n_splits": 2}}
    assert made.split.split_id == decide(spec, tmp_path / "flights.parquet").split_id
    dataset = MlflowClient(home.tracking_uri).get_run(made.run_id).inputs.dataset_inputs[0].dataset
    assert (dataset.name, '"x"' in dataset.schema) == ("base.db#flights", True)
    with duckdb.connect(database) as connection:
        connection.register("rows", rows)
        connection.execute("insert into flights select * from rows where id >= 1500")
    grown = extend(made.split.uri, address, engine="plain")
    assert (grown.added, grown.moved) == (500, 0)


def rows(n: int) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(200), "count": draw.integers(0, 9, 200), "y": draw.normal(size=200)})
    return table.assign(place=np.where(table["id"] % 3, "inside", "outside")).head(n)


def test_an_extension_tells_what_changed_besides_its_rows(home: Home) -> None:
    """Corrected targets, a value never seen; then the next table is compared with this."""
    made = flows.split(rows(100), key="id", target="y", strategy="KFold", name="grown", engine="plain")
    plain = flows.extend(made.split.uri, rows(110), engine="plain")
    assert plain.notes == []
    odd = rows(130)
    odd.loc[[3, 7, 11], "y"] += 100
    odd.loc[120:, "place"] = "on the roof"
    outcome = flows.extend(plain.split.uri, odd, engine="plain")
    notes = " ".join(outcome.notes)
    assert "3 of 110 known rows (2.7%) have another y than before (rows 3, 7, 11 of the data)" in notes
    assert "values that no known row had: place (1)" in notes
    assert (outcome.added, "roof" in notes) == (20, False)
    assert flows.extend(outcome.split.uri, odd, engine="plain").notes == ["there is nothing new."]


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_whole_table_and_the_batch_alone_make_one_version(batch_first: bool, home: Home) -> None:
    """The second was refused as "another decision", of the same split_id; it is the version that is there."""
    made = flows.split(rows(100), key="id", target="y", strategy="KFold", name=f"once{batch_first}", engine="plain")
    ways = [(rows(120), False), (rows(120).tail(20), True)]
    first, second = (
        flows.extend(made.split.uri, table, batch=batch, engine="plain")
        for table, batch in (reversed(ways) if batch_first else ways)
    )
    assert (first.split.reused, second.split.reused) == (False, True)
    assert second.split.model_copy(update={"reused": False, "data": first.split.data}) == first.split


@pytest.mark.parametrize("target", [None, "late"])
def test_a_batch_grows_whatever_its_target_is(target: object, home: Home) -> None:
    """KFold reads none; nor need it hold every rare value; one row is a batch, and none is not."""
    known = rows(100).assign(coupon=np.where(np.arange(100) % 20, np.nan, 5.0))
    made = flows.split(known, key="id", target="y", strategy="KFold", name="early", engine="plain")
    batch = rows(119).tail(19).drop(columns="y").assign(coupon=np.nan)
    batch = batch if target is None else batch.assign(y=target)
    grown = flows.extend(made.split.uri, batch, batch=True, engine="plain")
    assert (grown.added, [note for note in grown.notes if "no value" in note or note.startswith("coupon")]) == (19, [])
    assert flows.extend(grown.split.uri, rows(120).tail(1), batch=True, engine="plain").added == 1
    with pytest.raises(SplitError, match="has 0 rows; 1 is needed at least"):
        flows.extend(made.split.uri, rows(0), batch=True, engine="plain")

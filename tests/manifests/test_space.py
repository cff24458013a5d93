"""Splits of places: from the specification to the manifest, its locked part, and what a model is given."""

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from evenfold.flows import evaluate
from evenfold.manifests import Columns, decide, measure, read_manifest, write_manifest
from evenfold.tasks.runtime.home import Home

COLUMNS = {"key": "id", "target": "y", "coordinates": ["east", "north"]}
SPEC: dict[str, Any] = {"columns": COLUMNS, "params": {"n_splits": 4, "block_size": 20, "buffer": 3}}


def plots(n: int = 500) -> pd.DataFrame:
    """Return rows whose target has a level of its own on each square of 20 by 20."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"id": np.arange(n) * 3, **{name: random.uniform(0, 100, n) for name in ("east", "north")}})
    square = (frame["east"] // 20 * 5 + frame["north"] // 20).astype(int)
    frame["soil"] = random.normal(size=n)
    frame["y"] = random.normal(size=25)[square] * 2 + frame["soil"] + random.normal(size=n) * 0.3
    return frame


def test_coordinates_choose_the_strategy_and_the_order_of_rows_nothing(tmp_path: Path) -> None:
    frame = plots()
    made = decide(SPEC, frame)
    assert made.spec.strategy == "SpatialBlockKFold"
    other = decide(SPEC, frame.sample(frac=1, random_state=1).assign(soil=0))
    assert (other.split_id, other.plan_id) == (made.split_id, made.plan_id)
    assert decide(SPEC, frame.assign(north=frame["north"] + 1e-9)).plan_id != made.plan_id
    assert read_manifest(write_manifest(made, tmp_path)).split_id == made.split_id
    assert measure(made, frame).worst


def test_places_are_features_where_a_model_lists_them_and_blocks_are_one_in_its_interval(tmp_path: Path) -> None:
    plots(250).to_parquet(tmp_path / "plots.parquet")
    asked: dict[str, Any] = {"spec": SPEC, "model": "sklearn.linear_model:Ridge", "metrics": ["r2"], "engine": "plain"}
    told = evaluate(str(tmp_path / "plots.parquet"), **asked, features=["soil", "east"])
    assert told.features == ["soil", "east"]
    assert set(Columns(**COLUMNS).kept_from_models(None)) >= {"east", "north"}
    kept = mlflow.MlflowClient(Home.here().tracking_uri).download_artifacts(told.run_id, "predictions.parquet")
    assert pd.read_parquet(kept)["group"].nunique() == 25

"""A registered model says what it reads: a signature, an example that is no row of the data, and why it is there."""

import json

import numpy as np
import pandas as pd
from evenfold.estimates.promotion import without_champion
from evenfold.flows import split
from evenfold.tasks import Home, fit_final, register_model
from evenfold.tasks.record.models.registry import DECISION
from mlflow.models import Model
from mlflow.tracking import MlflowClient

RECIPE = {"estimator": "sklearn.ensemble:HistGradientBoostingRegressor", "params": {"max_iter": 3}, "text": "ordinal",
          "features": ["a", "n", "c", "b"]}  # fmt: skip


def test_a_registered_model_has_a_signature_an_example_and_a_reason(home: Home) -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(80), "a": draw.normal(size=80), "n": draw.integers(0, 9, 80)})
    frame = frame.assign(c=draw.choice(["x", "y"], 80), b=frame["n"] > 4, y=frame["a"] + draw.normal(size=80))
    made = split(frame, key="id", target="y", strategy="KFold", name="rows", engine="plain").split
    client = MlflowClient(home.tracking_store)
    experiment = client.get_experiment_by_name("rows").experiment_id
    decision = without_champion("r2", "there is no champion yet")
    run = client.create_run(experiment, tags={DECISION: json.dumps(decision.to_json())})
    final = fit_final.fn(made, RECIPE)
    told = register_model.fn(made, RECIPE, final, run_id=run.info.run_id)
    version = client.get_model_version("rows", told.version)
    words = "HistGradientBoostingRegressor, trained on 80 rows of rows@1.0. There is no champion yet."
    assert version.description == words
    kept = Model.load(client.get_model_version_download_uri("rows", told.version).removeprefix("file://"))
    assert [column.name for column in kept.signature.inputs] == ["a", "n", "c", "b"]
    example = kept.load_input_example()
    assert list(example.columns) == ["a", "n", "c", "b"]

"""Keeping a model leaves MLflow's store of the process to the user; a registered one says what it reads."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates.promotion import without_champion
from evenfold.flows import split
from evenfold.tasks import Home, fit_final, register_model
from evenfold.tasks.record.models.versions import keep_model
from evenfold.tasks.record.tracker import Tracker
from mlflow.models import Model
from mlflow.tracking import MlflowClient
from sklearn.linear_model import Ridge
from small import RIDGE, final_of

ROWS = pd.DataFrame({"a": [1.0, 2.0, 3.0]})


def test_what_is_half_made_is_gone_on_with(home: Home) -> None:
    tracker, final = Tracker(home, "rows"), final_of(Ridge().fit(ROWS, [1, 2, 4]))
    run_id = tracker.client.create_run(tracker.experiment_id).info.run_id
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr("mlflow.MlflowClient.finalize_logged_model", interrupted)
        with pytest.raises(KeyboardInterrupt):
            keep_model(tracker, run_id, final, RIDGE["estimator"])
    made = keep_model(tracker, run_id, final, RIDGE["estimator"])
    (kept,) = tracker.client.search_logged_models([tracker.experiment_id])
    assert (kept.model_id, kept.status) == (made.model_id, "READY")


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


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
    run = client.create_run(experiment)
    final = fit_final.fn(made, RECIPE)
    told = register_model.fn(made, RECIPE, final, run_id=run.info.run_id, decision=decision)
    version = client.get_model_version("rows", told.version)
    words = "HistGradientBoostingRegressor, trained on 80 rows of rows@1.0. There is no champion yet."
    assert version.description == words
    kept = Model.load(client.get_model_version_download_uri("rows", told.version).removeprefix("file://"))
    assert [column.name for column in kept.signature.inputs] == ["a", "n", "c", "b"]
    example = kept.load_input_example()
    assert list(example.columns) == ["a", "n", "c", "b"]

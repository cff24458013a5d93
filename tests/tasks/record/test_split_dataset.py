"""The split among MLflow's datasets: a type of its own, loaded by name, and a query for whatever was judged on it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import Evaluation, evaluate
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient

SPEC: dict[str, Any] = {"name": "trial", "columns": {"key": "id", "target": "y"}, "params": {"n_splits": 3}}


def evaluated(folder: Path, alpha: float) -> Evaluation:
    frame = pd.DataFrame({"id": range(90), "x": np.arange(90) % 7})
    frame.assign(y=frame["x"] * 1.5 + frame["id"] % 5).to_parquet(folder / "trial.parquet")
    model = {"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": alpha}, "metrics": ["r2"]}
    return evaluate(folder / "trial.parquet", SPEC, model, engine="plain")


def test_a_split_is_found_ranked_and_loaded_by_mlflow_alone(home: Home) -> None:
    """One query ranks the models judged on the split; another process without our code loads it, proved."""
    good, poor = (evaluated(home.path.parent, alpha) for alpha in (0.1, 1000.0))
    store = Home.here().tracking_store
    client = MlflowClient(store)
    run = client.get_run(good.run_id)
    inputs = {read.tags[0].value: read.dataset for read in run.inputs.dataset_inputs}
    named, data = inputs["split"], inputs["training"]
    assert (named.name, named.digest) == ("trial@1.0", good.split.split_id[:32])
    assert named.source_type == "evenfold_split"
    assert json.loads(named.profile)["rows"] == json.loads(data.profile)["rows"] == 90
    assert [column["name"] for column in json.loads(named.schema)["mlflow_colspec"]] == ["id", "fold"]
    assert [column["name"] for column in json.loads(data.schema)["mlflow_colspec"]] == ["id", "x", "y"]

    judged = client.search_logged_models(
        [run.info.experiment_id],
        "model_type = 'evenfold-recipe'",
        datasets=[{"dataset_name": "trial@1.0", "dataset_digest": good.split.split_id[:32]}],
        order_by=[{"field_name": "metrics.value/r2", "ascending": False}],
    )
    assert [model.source_run_id for model in judged] == [good.run_id, poor.run_id]
    (r2,) = [metric for metric in judged[0].metrics if metric.key == "value/r2"]
    assert (r2.dataset_name, r2.value) == ("trial@1.0", run.data.metrics["value/r2"])
    assert len(client.get_metric_history(good.run_id, "value/r2")) == 1

    script = (
        "import sys, mlflow\n"
        "from mlflow.data.dataset_source_registry import resolve_dataset_source\n"
        f"mlflow.set_tracking_uri({store!r})\n"
        "assert not any(name.startswith('evenfold.manifests') for name in sys.modules)\n"
        "source = resolve_dataset_source('evenfold://trial/1.0')\n"
        f"read = mlflow.get_run({good.run_id!r}).inputs.dataset_inputs\n"
        "(named,) = [one.dataset for one in read if one.dataset.source_type == 'evenfold_split']\n"
        "made = mlflow.data.from_evenfold('evenfold://trial/1.0')\n"
        "print(source.load().split_id, mlflow.data.get_source(named).load().split_id, made.digest)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, cwd=home.path)
    assert done.returncode == 0, done.stderr[-2000:]
    identity = good.split.split_id
    assert done.stdout.split()[-3:] == [identity, identity, identity[:32]]


def test_a_split_that_is_not_recorded_or_another_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence: no such split in the store, and a folder that holds another than it says."""
    from evenfold.tasks.record.split_source import SplitSource

    outcome = evaluated(home.path.parent, 1.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", Home.here().tracking_store)
    with pytest.raises(SplitError, match=r"records no split trial@9\.0"):
        SplitSource("evenfold://trial/9.0").load()
    with pytest.raises(SplitError, match="names no split; write evenfold://"):
        SplitSource("trial").load()
    artifact = f"runs:/{outcome.split_run_id}/split"
    with pytest.raises(SplitError, match=r"holds .*, and evenfold://trial/1.0 is 000000000000"):
        SplitSource("evenfold://trial/1.0", "0" * 64, artifact).load()

"""What a model uses, from the fits to the record: once, and for nothing when they come from the cache."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.tasks import Home
from mlflow import MlflowClient


def test_importance_is_on_the_page_and_in_the_record(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a run whose fits are cached tells the same without predicting anything."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(300), "age": draw.normal(size=300), "ward": draw.choice(["a", "b"], 300)})
    frame["cost"] = 3 * frame["age"] + (frame["ward"] == "a") + draw.normal(size=300)
    file = tmp_path / "visits.csv"
    frame.to_csv(file, index=False)
    asked = {"target": "cost", "key": "id", "model": "sklearn.linear_model:Ridge", "engine": "plain"}
    first = evaluate(file, **asked)
    assert all(score.importance.keys() == {"age", "ward"} for score in first.scores)
    artifacts = Path(MlflowClient(home.tracking_uri).download_artifacts(first.run_id, ""))
    told = json.loads((artifacts / "importance.json").read_text(encoding="utf-8"))
    assert told["columns"] == ["feature", "mean", "sd", "least", "most", "folds"]
    assert [row[0] for row in told["data"]] == ["age", "ward"]
    assert "age matters most: R2 falls by" in (artifacts / "report.html").read_text(encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(
            "evenfold.estimates.models.fit.permutation_importance", lambda *_, **__: pytest.fail("measured")
        )
        again = evaluate(file, **asked)
    assert (again.n_cached, again.scores) == (5, first.scores)


@pytest.mark.usefixtures("home")
def test_many_short_folds_do_not_pay_for_it_each() -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(600), "age": draw.normal(size=600), "cost": draw.normal(size=600)})
    asked = {"target": "cost", "key": "id", "strategy": "KFold", "n_splits": 12, "engine": "plain"}
    made = evaluate(frame, name="many", model="sklearn.linear_model:Ridge", **asked)
    assert [bool(score.importance) for score in made.scores] == [True] * 10 + [False] * 2

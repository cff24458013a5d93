"""Scores of each level of an attribute are those of its rows, with an interval of their own."""

from __future__ import annotations

from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.tasks.runtime.home import Home
from sklearn.metrics import mean_absolute_error, recall_score


def rows(numeric: bool = False) -> pd.DataFrame:
    """Return rows whose second sex is predicted far worse."""
    random = np.random.default_rng(3)
    n = 600
    x, sex = random.normal(size=n), random.choice(["f", "m"], n, p=[0.3, 0.7])
    noise = np.where(sex == "m", 2.5, 0.3) * random.normal(size=n)
    y = x + noise if numeric else (x + noise > 0).astype(int)
    return pd.DataFrame({"id": np.arange(n), "x": x, "sex": sex, "y": y})


@pytest.mark.parametrize(("numeric", "metric"), [(False, "recall"), (True, "neg_mean_absolute_error")])
def test_each_level_has_the_pooled_score_of_its_rows(tmp_path: Path, numeric: bool, metric: str) -> None:
    frame = rows(numeric)
    frame.to_parquet(tmp_path / "rows.parquet")
    spec = {"name": "attributes", "columns": {"key": "id", "target": "y", "balance_on": "sex"}}
    made = evaluate(
        str(tmp_path / "rows.parquet"), spec=spec, metrics=[metric], level=0.9, engine="plain",
        model="sklearn.linear_model:LinearRegression" if numeric else "sklearn.linear_model:LogisticRegression",
    )  # fmt: skip
    assert made.features == ["x"]
    tracker = mlflow.MlflowClient(Home.here().tracking_uri)
    predictions = pd.read_parquet(tracker.download_artifacts(made.run_id, "predictions.parquet"))
    beside = predictions.merge(frame[["id", "sex"]], on="id")
    recorded = tracker.get_run(made.run_id).data.metrics
    assert [(score.attribute, score.level) for score in made.levels] == [("sex", "f"), ("sex", "m")]
    for score in made.levels:
        own = beside[beside["sex"] == score.level]
        expected = (
            -mean_absolute_error(own["y"], own["prediction"]) if numeric else recall_score(own["y"], own["prediction"])
        )
        assert score.value == pytest.approx(expected)
        assert score.n_rows == len(own)
        assert score.interval is not None
        assert score.interval.level == 0.9
        assert score.interval.low <= score.value <= score.interval.high
        assert recorded[f"by/sex/{score.level}/{metric}"] == pytest.approx(expected)
    f, m = made.levels
    assert f.interval is not None
    assert f.interval.low > m.value  # what was planted is seen
    page = Path(tracker.download_artifacts(made.run_id, "report.html")).read_text(encoding="utf-8")
    assert "By sex" in page


def test_a_level_that_no_score_is_defined_of_says_so(tmp_path: Path) -> None:
    frame = rows()
    frame.loc[frame["sex"] == "f", "y"] = 1
    frame.to_parquet(tmp_path / "rows.parquet")
    spec = {"name": "one-class", "columns": {"key": "id", "target": "y", "balance_on": ["sex"]}}
    made = evaluate(
        str(tmp_path / "rows.parquet"), spec=spec, metrics=["roc_auc"], engine="plain",
        model="sklearn.linear_model:LogisticRegression",
    )  # fmt: skip
    f, m = made.levels
    assert f.value is None
    assert "undefined" in f.reason
    assert m.value is not None

"""What a model reads: how much each feature is used, and missing values, which a flag fills everywhere."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate, retrain
from evenfold.flows.cli import main
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


LOGISTIC = "sklearn.linear_model:LogisticRegression"


@pytest.fixture
def passengers(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(200), "age": draw.normal(30, 9, 200), "fare": draw.gamma(2, 15, 200)})
    table["survived"] = (table["fare"] + draw.normal(0, 15, 200) > 30).astype(int)
    table.loc[draw.random(200) < 0.2, "age"] = np.nan
    table.to_csv(tmp_path / "passengers.csv", index=False)
    return tmp_path / "passengers.csv"


def called(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evenfold", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
    return int(stopped.value.code or 0)


def test_the_refusal_names_the_flag_and_the_flag_does_what_it_says(
    home: Home, passengers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is pasted from the sentence works; the terminal, the page and MLflow say which columns were filled."""
    asked = ["evaluate", str(passengers), "--target", "survived", "--key", "id", "-k", "2", "--engine", "plain"]
    assert called(*asked, "--model", LOGISTIC) == 3
    refused = capsys.readouterr().err
    assert "Missing values are in age: fill them with --impute median (impute: median in a model file)" in refused
    assert "the default model takes them as they are" in refused
    assert called(*asked, "--model", LOGISTIC, "--impute", "median", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"]["impute"], told["imputed"]) == ("median", ["age"])
    assert called(*asked, "--model", LOGISTIC, "--impute", "median") == 0
    line = "Missing numbers: filled in each fold with the median of its training rows: age."
    assert line in capsys.readouterr().out
    artifacts = Path(MlflowClient(home.tracking_uri).download_artifacts(told["run_id"], ""))
    page = (artifacts / "report.html").read_text(encoding="utf-8")
    assert line in page
    assert re.search(r"impute</t[hd]>\s*<t[hd][^>]*>\s*median", page)
    assert json.loads((artifacts / "features.json").read_text(encoding="utf-8"))["imputed"] == ["age"]
    assert called(*asked) == 0
    assert "Missing numbers" not in capsys.readouterr().out


def test_a_deployed_retraining_loads_the_model_that_fills_missing_numbers(
    home: Home, passengers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it loads is read as anybody's file; next week the champion is scored on the rows that it has not seen."""
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    monkeypatch.setenv("EVENFOLD_DATA_ROOTS", str(passengers.parent))
    spec = {"name": "sailings", "columns": {"key": "id", "target": "survived"}, "strategy": "KFold"}
    spec["params"] = {"n_splits": 2}
    model = {"estimator": LOGISTIC, "impute": "median"}
    table = pd.read_csv(passengers)
    table[:150].to_csv(passengers, index=False)
    assert retrain(str(passengers), spec, model, engine="plain").registered is not None
    table.to_csv(passengers, index=False)
    judged = retrain(str(passengers), spec, model, engine="plain").judged
    assert judged.rows == 50
    assert judged.score is not None

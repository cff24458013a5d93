"""The evaluation's page says what estimates.json says, with every caveat, and needs nothing but itself."""

import json
import shutil
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import FoldScore, ModelSpec, Problem, aggregate, fit_and_score
from evenfold.estimates.results import thresholds
from evenfold.flows import evaluate
from evenfold.manifests import Audit
from evenfold.reports import evaluation_page
from evenfold.reports.evaluations.pictures import Reliability
from pages import Page
from scipy.stats import binomtest
from sklearn.datasets import load_breast_cancer

EMPTY: dict[str, Any] = {"failed": [], "findings": [], "passed": {}, "not_asked": {}, "off": [], "features": ["x"]}
SOUND = Audit(name="rows", version="1.0", split_id="0" * 64, n_rows=400, **EMPTY)
MODEL = {"estimator": "evenfold.estimates:scaled_logistic_regression", "metrics": ["accuracy", "roc_auc"]}


def artifacts(home: Path, run_id: str) -> Path:
    with sqlite3.connect(home / "mlflow.db") as store:
        (uri,) = store.execute("select artifact_uri from runs where run_uuid = ?", [run_id]).fetchone()
    return Path(uri.removeprefix("file://"))


@pytest.fixture(scope="module", params=["StratifiedKFold", "Bootstrap"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Any:
    """Evaluate once per strategy, and return the outcome and where its record lies."""
    home = tmp_path_factory.mktemp("home")
    shutil.copy(empty_store, home)
    frame = load_breast_cancer(as_frame=True).frame.iloc[:, [*range(5), -1]].assign(patient=range(569))
    frame["target"] = frame["target"].map({0: "<i>malignant</i>", 1: "benign"})
    columns = {"key": "patient", "target": "target"}
    n_splits = 5 if request.param == "StratifiedKFold" else 101  # draws of more than 100 have no run each
    spec = {"name": "cells", "strategy": request.param, "params": {"n_splits": n_splits}, "columns": columns}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENFOLD_HOME", str(home))
        outcome = evaluate(frame, spec=spec, model=MODEL, engine="plain")
    return request.param, outcome, home


def test_the_page_says_what_the_estimates_say(recorded: Any) -> None:
    strategy, outcome, home = recorded
    folder = artifacts(home, outcome.run_id)
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    folds = strategy == "StratifiedKFold"
    pooled = ["importance", "confusion", "calibration"] if folds else ["confusion"]
    details = ["estimates", "notes", "splits", "features", *(["importances"] if folds else []), "model"]
    assert "? Not audited" not in page.words
    assert page.sections[: 2 + len(pooled)] == ["metric-0", "metric-1", *pooled]
    assert page.sections[2 + len(pooled) :][: len(details)] == details
    stored = json.loads((folder / "estimates.json").read_text(encoding="utf-8"))
    told = [each[name] for name in ("value", "fold_mean", "sd", "se", "apparent", "gap") for each in stored]
    told += [each["interval"][side] for side in ("low", "high") for each in stored if each["interval"]]
    besides = [each["baseline"] for each in stored]
    told += [beside[name] for name in ("value", "difference") for beside in besides]
    told += [beside["interval"][side] for side in ("low", "high") for beside in besides if beside["interval"]]
    assert page.numbers["estimates"] == [value for value in told if value is not None]
    picture = (folder / "scores" / "accuracy.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg xmlns=")
    assert folds or "Of 101 draws." in picture
    said = " ".join(page.words)
    assert [note for each in outcome.estimates for note in each.notes if note not in said] == []


def test_the_confusion_matrix_counts_every_row_once(recorded: Any) -> None:
    """Its cells add up to the rows that were tested, and class names are text."""
    strategy, outcome, home = recorded
    html = (artifacts(home, outcome.run_id) / "report.html").read_text(encoding="utf-8")
    assert "<i>" not in html
    if strategy == "StratifiedKFold":
        a, b, first, c, d, second = Page(html).numbers["confusion"]
        assert (a + b, c + d, first + second) == (first, second, 569)


@cache
def judged(
    threshold: Any = None, n_classes: int = 2, estimator: str = "sklearn.linear_model:LogisticRegression"
) -> tuple[Problem, list[FoldScore], pd.DataFrame]:
    """Fit three folds of made-up rows, and return the problem, the scores and the predictions."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    kind = np.digitize(x + rng.normal(size=400), np.linspace(-0.5, 1.0, n_classes - 1))
    table = pd.DataFrame({"x": x, "kind": np.array(["no", "yes", "very", "most"])[kind]})
    model = ModelSpec(estimator=estimator, metrics=("accuracy",), threshold=threshold)
    problem = Problem.of(table, model, "kind")
    made = [
        fit_and_score(problem, np.flatnonzero(np.arange(400) % 3 != fold),
                      np.arange(fold, 400, 3), seed=0, name=f"fold {fold}", fold=fold)
        for fold in range(3)
    ]  # fmt: skip
    return problem, [score for score, _ in made], pd.concat([part for _, part in made], ignore_index=True)


def page_of(problem: Problem, scores: list[FoldScore], predictions: pd.DataFrame, **more: Any) -> Page:
    estimates = aggregate(scores, predictions, problem)
    return Page(evaluation_page(problem, scores, estimates, predictions, **more).html())


def test_a_page_of_some_of_the_splits_says_how_many_are_missing() -> None:
    problem, scores, predictions = judged()
    estimates = aggregate(scores, predictions, problem)
    whole, partial = (
        evaluation_page(problem, scores, estimates, predictions, audit=SOUND, n_missing=n) for n in (0, 2)
    )
    said = "Partial: 2 folds are missing, and the scores are of 3 folds alone."
    assert (partial.findings[0].message, partial.verdict.word) == (said, "Look at this")
    assert said in partial.html()
    assert (whole.findings[0].message != said, whole.verdict.word) == (True, "Good")


def test_the_bars_of_calibration_are_wilsons_at_95_per_cent() -> None:
    """As the page says: at 90 % they would be a sixth shorter."""
    probability = np.repeat([0.05, 0.35, 0.95], [7, 40, 25])
    hit = np.arange(72) % 3 == 0
    curve = Reliability.of("yes", probability, hit, np.ones(72))
    low, high = curve.interval()
    for i, share in enumerate(curve.observed):
        n = int(curve.rows[i])
        theirs = binomtest(round(share * n), n).proportion_ci(0.95, method="wilson")
        assert (low[i], high[i]) == pytest.approx((theirs.low, theirs.high), abs=1e-4)


def test_calibration_counts_every_prediction_in_its_bin() -> None:
    problem, scores, predictions = judged()
    told = np.array(page_of(problem, scores, predictions).numbers["calibration"]).reshape(-1, 3)
    tenth = predictions["proba_yes"].floordiv(0.1).clip(upper=9)
    wanted = predictions.assign(hit=predictions["y"] == "yes").groupby(tenth)
    assert told[:, 2].tolist() == wanted.size().tolist()
    assert told[:, 0] == pytest.approx(wanted["proba_yes"].mean().to_numpy())
    assert told[:, 1] == pytest.approx(wanted["hit"].mean().to_numpy())
    assert told[:, 2].sum() == len(predictions)


@pytest.mark.parametrize(("threshold", "marked"), [(0.3, "threshold 0.300"), ("tuned", "threshold of the folds")])
def test_the_threshold_is_marked_where_it_decides(threshold: Any, marked: str) -> None:
    problem, scores, predictions = judged(threshold)
    page = page_of(problem, scores, predictions)
    assert sum(words.startswith(marked) for words in page.words) == 1
    low, high = thresholds(problem, predictions)
    said = predictions["proba_yes"]
    assert set(predictions[said > high]["prediction"]) == {"yes"}
    assert set(predictions[said < low]["prediction"]) == {"no"}
    told = pd.DataFrame({"repeat": 0, "fold": [0, 0, 1, 1], "prediction": ["no", "yes"] * 2})
    if threshold == "tuned":  # thresholds lie between 0.2 and 0.4, and between 0.5 and 0.9
        told["proba_yes"] = [0.2, 0.4, 0.5, 0.9]
        assert thresholds(problem, told) == pytest.approx((0.3, 0.7))


def test_calibrated_probabilities_lie_on_the_line_and_bent_ones_do_not() -> None:
    p = np.random.default_rng(1).random(20_000)
    hit = np.random.default_rng(2).random(20_000) < p
    good = Reliability.of("yes", p, hit, np.ones(p.size))
    low, high = good.interval()
    assert good.off < 0.02
    assert ((low < good.observed) & (good.observed < high)).all()
    assert ((low < good.predicted) & (good.predicted < high)).mean() > 0.8
    assert replace(good, repeats=20_000).interval()[1].mean() > high.mean() + 0.2, "a row that is repeated is one row"
    assert Reliability.of("yes", p**3, hit, np.ones(p.size)).off > 0.15
    light = np.where(hit, 0.5, 1.0)  # half the weight of every hit: a share s becomes s / (2 - s)
    assert Reliability.of("yes", p, hit, light).observed == pytest.approx(good.observed / (2 - good.observed))


@pytest.mark.parametrize(("estimator", "word"), [
    ("sklearn.linear_model:LogisticRegression", "Good"), ("sklearn.dummy:DummyClassifier", "Look at this"),
])  # fmt: skip
def test_a_model_no_better_than_none_deserves_a_look(estimator: str, word: str) -> None:
    problem, scores, predictions = judged(estimator=estimator)
    estimates = aggregate(scores, predictions, problem)
    assert evaluation_page(problem, scores, estimates, predictions, audit=SOUND).verdict.word == word

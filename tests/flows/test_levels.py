"""Scores of each level of an attribute are those of its rows, with an interval of their own."""

import re
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelSpec, Problem
from evenfold.estimates.levels import LevelScore, level_scores, level_scores_of_draws, widest_gap
from evenfold.estimates.models.draws import DrawScores
from evenfold.estimates.results import FoldScore, Interval
from evenfold.flows import evaluate, tune
from evenfold.flows.outcomes import GateError
from evenfold.manifests import Audit
from evenfold.tasks.runtime.home import Home
from sklearn.metrics import mean_absolute_error, recall_score

from evenfold import tasks


def rows(numeric: bool = False) -> pd.DataFrame:
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
    spec = {
        "name": "attributes",
        "columns": {"key": "id", "target": "y", "balance_on": "sex"},
        "params": {"n_splits": 2},
    }
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
        assert score.interval.level == 0.9
        assert score.interval.low <= score.value <= score.interval.high
        assert recorded[f"by/sex/{score.level}/{metric}"] == pytest.approx(expected)
    f, m = made.levels
    assert f.interval.low > m.value  # what was planted is seen


def test_the_interval_of_a_level_without_one_class_is_one_of_its_score() -> None:
    """Its score counts the absent class as 0 where it is predicted; an interval of the others hides the gap."""
    random, n = np.random.default_rng(0), 300
    site = np.arange(n) // 150
    y = random.integers(0, 3 - (site == 0))
    said = np.where(random.random(n) < 0.8, y, random.integers(0, 3, n))
    of = pd.DataFrame({"x": random.normal(size=n), "y": np.array(list("abc"))[y]})
    problem = Problem.of(of, ModelSpec(estimator="sklearn.tree:DecisionTreeClassifier", metrics=("f1_macro",)), "y")
    predictions = pd.DataFrame({"row": np.arange(n), "repeat": 0, "fold": np.arange(n) % 5, "y": of["y"]})
    predictions["prediction"] = np.array(list("abc"))[said]
    folds = [FoldScore(f"fold {k}", 0, k, {"f1_macro": 0.5}, {}, 240, 60, 0.0, 0.0) for k in range(5)]
    made = level_scores(predictions, folds, problem, {"site": (site, ["u", "v"])})
    assert made[0].value is not None
    assert made[0].interval.low < made[0].value < made[0].interval.high  # and not one that was widened to its end
    assert widest_gap(made, "f1_macro") is not None


LOGISTIC: dict[str, Any] = {
    "model": "sklearn.linear_model:LogisticRegression", "metrics": ["recall"], "engine": "plain"
}  # fmt: skip
COLUMNS = {"key": "id", "target": "y", "balance_on": "sex"}


def test_a_gate_stops_an_evaluation_and_a_tuning_once_they_are_recorded(tmp_path: Path) -> None:
    """What was found stays in MLflow, and a gate that has nothing to look at is not passed by."""
    path = str(tmp_path / "rows.parquet")
    rows().to_parquet(path)
    spec: dict[str, Any] = {
        "name": "gated",
        "columns": COLUMNS,
        "gates": {"level_gap": 0.05},
        "params": {"n_splits": 2},
    }
    said = r"run (\w+),? is recorded, and a gate of gated 1.0 failed: Recall by sex is .*level_gap: off"
    for flow, more in ((evaluate, {}), (tune, {"grid": {"C": [0.1, 1.0]}})):
        with pytest.raises(GateError, match=re.compile(said, re.IGNORECASE)) as raised:
            flow(path, spec=spec, **LOGISTIC, **more)
        found = re.search(said, str(raised.value), re.IGNORECASE)
        client = mlflow.MlflowClient(Home.here().tracking_uri)
        known = [run.info.run_id for run in client.search_runs([client.get_experiment_by_name("gated").experiment_id])]
        assert any(run_id.startswith(found[1]) for run_id in known)
    unwatched = {"key": "id", "target": "y"}
    with pytest.raises(GateError, match="no column to balance on is named"):
        evaluate(path, spec=spec | {"name": "unwatched", "columns": unwatched}, **LOGISTIC)


def test_a_gate_that_is_asked_of_a_split_that_is_known_holds(tmp_path: Path) -> None:
    """Neither gates nor reasons to ignore decide folds: what is asked now counts, not what was asked first."""
    path = str(tmp_path / "rows.parquet")
    rows().to_parquet(path)
    spec: dict[str, Any] = {"name": "asked", "columns": COLUMNS, "params": {"n_splits": 3}}
    assert evaluate(path, spec=spec, **LOGISTIC).levels
    with pytest.raises(GateError, match=r"a gate of asked 1\.0 failed: recall by sex is"):
        evaluate(path, spec=spec | {"gates": {"level_gap": 0.05}}, **LOGISTIC)

    def audited(**asked: Any) -> Audit:
        return tasks.audit_split.fn(tasks.split.fn(path, spec | asked))

    assert [finding.code for finding in audited().findings] == ["EF506"]
    assert audited(gates={"attribute_deviation": "off"}).off == ["attribute_deviation"]
    reason = "of one sex are far fewer"
    assert [finding.reason for finding in audited(ignore={"EF506": reason}).ignored] == [reason]
    limit = {"attribute_deviation": 0.01}
    first = {"name": "first", "ignore": {"EF506": reason}, "gates": limit}
    assert [finding.reason for finding in audited(**first).ignored] == [reason]
    assert [finding.gate for finding in audited(name="first", gates=limit).findings] == ["failed"]
    assert [finding.gate for finding in audited(name="first").findings] == ["passed"]


def test_levels_of_draws_are_means_over_rows_of_their_losses(tmp_path: Path) -> None:
    """Accuracy by hand from the losses that the draws kept; AUC is not a mean over rows, and says so."""
    path, frame = str(tmp_path / "rows.parquet"), rows()
    frame.to_parquet(path)
    spec = {"name": "drawn", "columns": COLUMNS, "strategy": "Bootstrap", "params": {"n_splits": 8}}
    made = evaluate(path, spec=spec, **LOGISTIC | {"metrics": ["accuracy", "roc_auc"]})
    (kept,) = [each for each in map(pd.read_parquet, Home.here().scores.rglob("*.parquet")) if "count_accuracy" in each]
    f, f_auc, m, m_auc = made.levels
    for score, sex in ((f, "f"), (m, "m")):
        own = kept[(frame["sex"] == sex).to_numpy() & (kept["count_accuracy"] > 0).to_numpy()]
        assert score.value == pytest.approx(1 - float((own["accuracy"] / own["count_accuracy"]).mean()))
        assert score.interval.low < score.value < score.interval.high
    assert m.value is not None
    assert f.interval.low > m.value  # what was planted is seen
    assert f_auc.value is m_auc.value is None
    assert "is not a mean over rows" in f_auc.reason


def test_groups_and_weights_count_in_the_levels_of_draws() -> None:
    """A level's rows of one group say nothing of other groups; heavy rows weigh more."""
    frame = pd.DataFrame({"x": np.arange(8.0), "y": [0.0, 1, 2, 3, 4, 5, 6, 8], "w": [1.0, 1, 1, 3, 1, 1, 1, 1]})
    model = ModelSpec(estimator="sklearn.linear_model:Ridge", metrics=("neg_mean_absolute_error",), weights="w")
    problem = Problem.of(frame, model, "y", groups=np.array([0, 0, 1, 1, 2, 2, 2, 2]))
    sums, counts = [2.0, 2, 4, 4, 1, 2, 3, 0], [2, 1, 2, 1, 1, 1, 1, 0]
    totals = pd.DataFrame({"neg_mean_absolute_error": sums, "count_neg_mean_absolute_error": counts})
    draws = DrawScores(pd.DataFrame({"draw": [0], "n_train": [8]}), totals)
    attributes = {"sex": (np.array([0, 0, 0, 0, 1, 1, 1, 1]), ["f", "m"])}
    f, m = level_scores_of_draws(draws, problem, attributes)
    assert f.value == pytest.approx(-(1 + 2 + 2 + 3 * 4) / 6)
    assert f.interval is not None
    assert (m.value, m.n_rows, m.interval) == (pytest.approx(-2.0), 3, None)
    assert "one group" in m.reason


def test_a_level_whose_rows_weigh_nothing_has_no_score() -> None:
    """Of draws it ended the evaluation in a ZeroDivisionError; of folds it was said to be of one class."""
    frame = pd.DataFrame({"x": np.arange(40.0), "y": [0, 1] * 20, "w": np.repeat([0.0, 1.0], 20)})
    problem = Problem.of(frame, ModelSpec(metrics=("accuracy",), weights="w"), "y")
    attributes = {"region": (np.repeat([0, 1], 20), ["north", "south"])}
    row = np.arange(40)
    about = {"row": row, "repeat": 0, "fold": row % 4, "y": frame["y"], "prediction": row % 3 % 2, "weight": frame["w"]}
    losses = pd.DataFrame({"accuracy": np.ones(40), "count_accuracy": 1})
    draws = DrawScores(pd.DataFrame({"draw": [0], "n_train": [30]}), losses)
    folds = [FoldScore(f"fold {fold}", 0, fold, {}, {}, 30, 10, 0.0, 0.0) for fold in range(4)]
    for north, south in (
        level_scores(pd.DataFrame(about), folds, problem, attributes),
        level_scores_of_draws(draws, problem, attributes),
    ):
        assert (north.value, north.interval, north.reason) == (None, None, "its rows weigh nothing.")
        assert south.value is not None


def test_levels_whose_intervals_overlap_have_no_gap() -> None:
    """By chance small levels differ; only what is told apart counts, within one attribute."""

    def level(attribute: str, name: str, value: float, half: float) -> LevelScore:
        return LevelScore(attribute, name, "accuracy", 50, value, Interval(value - half, value + half, 0.95, "any"))

    levels = [level("sex", "f", 0.9, 0.02), level("sex", "m", 0.7, 0.25), level("age", "old", 0.5, 0.02)]
    assert widest_gap(levels, "accuracy") is None
    found = widest_gap([*levels, level("sex", "x", 0.8, 0.03), level("age", "young", 0.6, 0.05)], "accuracy")
    assert (round(found[0], 9), found[1].level, found[2].level) == (0.1, "f", "x")

"""The rows that stop a training come out of its training rows, by the rules of a split, and judge nothing."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelError, ModelSpec, Problem, fit_and_score, fitted
from evenfold.estimates.models.stopping import stopping_rows
from evenfold.splitters import Bootstrap
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

N = 900
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)}).assign(
    ward=np.array(["north, <1 km", "south [old]", "east"])[np.arange(N) % 3],
    group=RNG.permutation(N) % 90,
    day=pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.permutation(N) // 9, unit="D"),
)
TABLE["number"] = TABLE["a"] + (TABLE["ward"] == "east") + RNG.normal(size=N)
TABLE["label"] = np.where(TABLE["number"] > 0.8, "Yes", "No")
HIST = "sklearn.ensemble:HistGradientBoosting"
STOPS = {"early_stopping": True, "n_iter_no_change": 5, "max_iter": 2000}
FEATURES = ["a", "b", "ward"]
DRAW = next(iter(Bootstrap(1).split(TABLE)))[0]
EVERY = np.arange(N)


def seen(target: str = "label", estimator: str = "Classifier", params: Any = STOPS, **more: Any) -> Problem:
    path = estimator if ":" in estimator else HIST + estimator
    roles = {name: more.pop(name, None) for name in ("groups", "times")}
    model = ModelSpec(estimator=path, params=params, **{"features": FEATURES, "eval_set": 0.1} | more)
    return Problem.of(TABLE, model, target, **roles)


GROUPS, TIMES = {"groups": "group"}, {"times": "day"}


@pytest.mark.parametrize(
    ("roles", "target", "train"),
    [
        ({}, "label", EVERY),
        ({}, "number", DRAW),
        (GROUPS, "label", DRAW),
        (TIMES, "number", DRAW),
        (GROUPS | TIMES, "label", DRAW),
        (GROUPS | TIMES, "number", EVERY),
    ],
)
def test_they_are_a_part_by_the_rules_of_a_split(roles: dict[str, str], target: str, train: Any) -> None:
    problem = seen(target, "Classifier" if target == "label" else "Regressor", **roles)
    stops = stopping_rows(problem, train, 0.1, seed=3)
    held, learnt = train[stops], train[~stops]
    assert 0.07 < np.unique(held).size / np.unique(train).size < 0.13
    assert not np.intersect1d(held, learnt).size
    np.testing.assert_array_equal(stops, stopping_rows(problem, train, 0.1, seed=3))
    if "groups" in roles:
        assert not set(TABLE["group"][held]) & set(TABLE["group"][learnt])
        last = TABLE.iloc[train].groupby("group")["day"].max()
        if "times" in roles:
            assert last[TABLE["group"][held]].min() >= last[TABLE["group"][learnt]].max()
    elif "times" in roles:
        assert TABLE["day"][held].min() > TABLE["day"][learnt].max()
    if "times" not in roles:
        rows, out = np.unique(train), np.unique(held)
        values = (TABLE["label"] == "Yes") if target == "label" else TABLE["number"].rank(pct=True)
        assert values[out].mean() == pytest.approx(values[rows].mean(), abs=0.04 if roles else 0.02)
        assert (stops != stopping_rows(problem, train, 0.1, seed=4)).any()


def test_who_alone_has_rows_of_a_class_learns() -> None:
    table = TABLE.assign(label=np.where(TABLE["day"] == TABLE["day"].max(), "New", TABLE["label"]))
    model = ModelSpec(estimator=HIST + "Classifier", params=STOPS, features=["a", "b"], eval_set=0.05)
    problem = Problem.of(table, model, "label", times="day")
    stops = stopping_rows(problem, EVERY, 0.05, seed=0)
    assert 9 <= stops.sum() < 60
    assert set(table["label"][~stops]) == {"New", "No", "Yes"}
    assert "New" not in set(table["label"][stops])
    one_day = Problem.of(table.assign(day=table["day"].min()), model, "label", times="day")
    with pytest.raises(EvaluationError, match=r"fold 0: .*eval_set: 0\.05 of 900 training rows, which are of one time"):
        fitted(model, one_day, EVERY, seed=0, name="fold 0")


def encoded_boosting(**params: Any) -> Pipeline:
    """Return a pipeline that encodes and scales before it boosts."""
    return make_pipeline(OrdinalEncoder(), make_pipeline(StandardScaler(), HistGradientBoostingClassifier(**params)))


def test_what_comes_before_the_model_learns_from_the_other_rows_alone() -> None:
    params = {f"pipeline__histgradientboostingclassifier__{name}": value for name, value in STOPS.items()}
    problem = seen(estimator=f"{__name__}:encoded_boosting", params=params, features=["ward"])
    ours = fitted(problem.model, problem, EVERY, seed=0, name="")
    stops = stopping_rows(problem, EVERY, 0.1, seed=0)
    learnt, held, y = problem.X[~stops], problem.X[stops], problem.y
    before = [OrdinalEncoder(), StandardScaler()]
    X = before[1].fit_transform(before[0].fit_transform(learnt))
    theirs = HistGradientBoostingClassifier(**STOPS, random_state=0)
    theirs.fit(X, y[~stops], X_val=before[1].transform(before[0].transform(held)), y_val=y[stops])
    assert ours[-1][-1].n_iter_ == theirs.n_iter_ < 500
    np.testing.assert_array_equal(ours[-1][0].mean_, before[1].mean_)
    rows = before[1].transform(before[0].transform(problem.X))
    np.testing.assert_array_equal(ours.predict_proba(problem.X), theirs.predict_proba(rows))
    filled = seen("number", "Regressor", impute="median")
    assert fitted(filled.model, filled, DRAW, seed=0, name="")[-1].n_iter_ < 500


def test_weights_stop_as_they_weigh() -> None:
    table = TABLE.assign(w=(TABLE["day"] < "2024-04-05").astype(float))
    wild = table.assign(number=np.where(table["w"] == 0, 1e3, table["number"]))
    model = ModelSpec(estimator=HIST + "Regressor", params=STOPS, features=["a"], weights="w", eval_set=0.1)
    problems = [Problem.of(each, model, "number", times="day") for each in (table, wild)]
    rounds = [fitted(model, each, EVERY, seed=0, name="").n_iter_ for each in problems]
    assert rounds[0] == rounds[1]


BOOSTERS = {
    "hist": (HIST, STOPS, lambda model: model.n_iter_),
    "lightgbm": (
        "lightgbm:LGBM",
        {"n_estimators": 2000, "early_stopping_round": 5, "verbose": -1},
        lambda model: model.best_iteration_,
    ),
    "xgboost": ("xgboost:XGB", {"n_estimators": 2000, "early_stopping_rounds": 5}, lambda model: model.best_iteration),
    "catboost": (
        "catboost:CatBoost",
        {"iterations": 2000, "early_stopping_rounds": 5, "verbose": False, "allow_writing_files": False},
        lambda model: model.tree_count_,
    ),
}


def boosted(library: str, target: str, **more: Any) -> Problem:
    if library != "hist":
        pytest.importorskip(library)
    path, params, _ = BOOSTERS[library]
    return seen(target, path + ("Classifier" if target == "label" else "Regressor"), **{"params": params} | more)


@pytest.mark.parametrize(("library", "target"), [("hist", "number"), *((each, "label") for each in BOOSTERS)])
def test_every_library_stops_early_with_text_columns_in_folds_and_draws(library: str, target: str) -> None:
    """Long before 2,000 rounds, with text that holds what some libraries take in no name, and the user's own labels."""
    for train, roles in ((EVERY[:700], GROUPS), (DRAW, TIMES)):
        problem = boosted(library, target, metrics=["roc_auc" if target == "label" else "r2"], **roles)
        model = fitted(problem.model, problem, train, seed=0, name="")
        model = model.estimator if type(model).__name__ == "CodedLabels" else model
        model = model[-1] if hasattr(model, "steps") else model
        assert 1 <= BOOSTERS[library][2](model) < 300
        score, predictions = fit_and_score(problem.model, problem, train, EVERY[700:], seed=0, name="")
        assert score.test[problem.model.metrics[0]] > (0.75 if target == "label" else 0.3)
        if target == "label":
            assert set(predictions["prediction"]) == {"No", "Yes"}


def test_nothing_stops_without_a_parameter_that_says_when() -> None:
    with pytest.raises(ModelError, match=r"nothing tells '.*' when to stop; set early_stopping.* in params"):
        boosted("hist", "label", params={})

"""Balancing shifts probabilities and transforms of the target make medians: both are said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import LOGISTIC, evaluated
from evenfold.estimates import Estimate, ModelSpec, Problem, aggregate, fitted
from evenfold.splitters import KFold

RIDGE = "sklearn.linear_model:Ridge"


def rare(n: int = 600) -> pd.DataFrame:
    """Return rows of which an eighth is of the class yes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    chance = 1 / (1 + np.exp(-(X[:, 0] + X[:, 1] - 2.5)))
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.where(rng.uniform(size=n) < chance, "yes", "no"))


def told(frame: pd.DataFrame, **fields: Any) -> tuple[dict[str, Estimate], pd.DataFrame]:
    problem = Problem.of(frame, ModelSpec(**fields), "y")
    scores, frames = evaluated(problem, list(KFold(3, random_state=0).split(problem.X)))
    made = aggregate(scores, frames, problem, problem.model)
    return {each.metric: each for each in made}, pd.concat(frames)


@pytest.mark.parametrize("balance", ["class_weight", {"method": "undersample", "ratio": 0.5}])
def test_the_shift_of_probabilities_by_balancing_is_said_with_both_figures(balance: Any) -> None:
    share = float(np.mean(rare()["y"] == "yes"))
    shifted, rows = told(rare(), estimator=LOGISTIC, metrics=("roc_auc",), balance=balance)
    plain, _ = told(rare(), estimator=LOGISTIC, metrics=("roc_auc",))
    (said,) = shifted["roc_auc"].warnings
    assert f"yes is {rows['proba_yes'].mean():.3g} on average, and its share of the rows is {share:.3g};" in said
    assert not plain["roc_auc"].warnings
    assert rows["proba_yes"].mean() > share + 0.1


def test_balanced_classes_weigh_the_same_where_rows_weigh() -> None:
    frame = pd.DataFrame({"x": np.zeros(400), "y": np.resize(["no", "yes"], 400), "w": np.resize([1.0, 10.0], 400)})
    frame.loc[:39, "w"] *= 3.0
    model = ModelSpec(estimator=LOGISTIC, weights="w", balance="class_weight")
    seen, rows = Problem.of(frame, model, "y"), np.arange(400)
    made = fitted(seen.model, seen, rows, seed=0, name="all")
    assert made.predict_proba(seen.X)[:, 1] == pytest.approx(0.5, abs=1e-3)


def skewed(n: int = 250) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    a = rng.normal(size=n)
    return pd.DataFrame({"a": a, "y": np.exp(1 + 0.5 * a + rng.normal(size=n))})


def test_a_transform_that_predicts_medians_says_so_with_both_figures() -> None:
    metrics = ("neg_mean_absolute_error",)
    medians, low = told(skewed(), estimator=RIDGE, metrics=metrics, target_transform="box-cox")
    mean = skewed()["y"].mean()
    (said,) = medians["neg_mean_absolute_error"].warnings
    assert f"they are {low['prediction'].mean():.3g} on average, and y is {mean:.3g}" in said
    assert low["prediction"].mean() < 0.75 * mean


def test_a_transform_takes_no_notice_of_rows_that_weigh_nothing() -> None:
    """Half of the rows are wild and weigh 0: the transform does not know of them."""
    wild = pd.DataFrame({"a": np.zeros(150), "y": np.exp(9.0 * np.random.default_rng(3).normal(size=150)), "w": 0.0})
    frame = pd.concat([skewed(150).assign(w=1.0), wild], ignore_index=True)
    seen = Problem.of(frame, ModelSpec(estimator=RIDGE, target_transform="box-cox", weights="w"), "y")
    every, alone = (fitted(seen.model, seen, np.arange(n), seed=0, name="all") for n in (300, 150))
    assert every.predict(seen.X[:150]) == pytest.approx(alone.predict(seen.X[:150]), rel=1e-9)

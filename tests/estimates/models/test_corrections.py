"""Balancing shifts probabilities and transforms of the target make medians: both are said, and set right if asked."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from evaluations import LOGISTIC, evaluated
from evenfold.estimates import Estimate, ModelError, ModelSpec, Problem, aggregate, fitted
from evenfold.estimates.models.corrections import Smeared
from evenfold.splitters import KFold
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

RIDGE = "sklearn.linear_model:Ridge"


def rare(n: int = 600) -> pd.DataFrame:
    """Return rows of which an eighth is of the class yes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    chance = 1 / (1 + np.exp(-(X[:, 0] + X[:, 1] - 2.5)))
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.where(rng.uniform(size=n) < chance, "yes", "no"))


def told(frame: pd.DataFrame, **fields: Any) -> tuple[dict[str, Estimate], pd.DataFrame]:
    problem = Problem.of(frame, ModelSpec(**fields), "y")
    scores, frames = evaluated(problem, list(KFold(5, random_state=0).split(problem.X)))
    made = aggregate(scores, frames, problem, problem.model)
    return {each.metric: each for each in made}, pd.concat(frames)


@pytest.mark.parametrize(
    "balance", ["class_weight", "oversample", "undersample", {"method": "undersample", "ratio": 0.5}]
)
def test_recalibrated_probabilities_have_the_mean_of_the_classes(balance: Any) -> None:
    """The shift is said with both figures; corrected, the log loss is near that of no balancing, and ranks stay."""
    metrics = ("neg_log_loss", "roc_auc")
    share = float(np.mean(rare()["y"] == "yes"))
    plain, _ = told(rare(), estimator=LOGISTIC, metrics=metrics)
    shifted, before = told(rare(), estimator=LOGISTIC, metrics=metrics, balance=balance)
    right, after = told(rare(), estimator=LOGISTIC, metrics=metrics, balance=balance, recalibrate=True)
    (said,) = shifted["roc_auc"].warnings
    assert said == (
        f"Balancing shifted the probabilities: that of yes is {before['proba_yes'].mean():.3g} on average, and its "
        f"share of the rows is {share:.3g}; recalibrate: true sets them back."
    )
    assert not right["roc_auc"].warnings
    assert before["proba_yes"].mean() > share + 0.1
    assert after["proba_yes"].mean() == pytest.approx(share, abs=0.02)
    assert right["neg_log_loss"].value == pytest.approx(plain["neg_log_loss"].value, abs=0.02)
    assert shifted["neg_log_loss"].value < right["neg_log_loss"].value - 0.03
    assert right["roc_auc"].value == pytest.approx(shifted["roc_auc"].value, abs=0.01)
    assert set(after["prediction"]) == {"no", "yes"}


def test_recalibrating_is_bayes_rule_row_by_row() -> None:
    problem = Problem.of(rare(), ModelSpec(estimator=LOGISTIC, balance="class_weight", recalibrate=True), "y")
    rows = np.arange(problem.n)
    plain = problem.model.model_copy(update={"recalibrate": False})
    raw = fitted(plain, problem, rows, seed=0, name="all").predict_proba(problem.X)[:, 1]
    share = np.mean(problem.y == "yes")
    odds = raw / (1 - raw) * share / (1 - share)
    corrected = fitted(problem.model, problem, rows, seed=0, name="all").predict_proba(problem.X)[:, 1]
    assert corrected == pytest.approx(odds / (1 + odds), rel=1e-9)


@pytest.mark.parametrize(
    "estimator",
    ["sklearn.ensemble:HistGradientBoostingClassifier", "sklearn.tree:DecisionTreeClassifier", LOGISTIC],
)
def test_balanced_classes_weigh_the_same_where_rows_weigh(estimator: str) -> None:
    """Nothing is known of y, and yes weighs ten times: balanced it is a half, set back its share of the weight."""
    frame = pd.DataFrame({"x": np.zeros(400), "y": np.resize(["no", "yes"], 400), "w": np.resize([1.0, 10.0], 400)})
    frame.loc[:39, "w"] *= 3.0
    model = ModelSpec(estimator=estimator, weights="w", balance="class_weight")
    seen, rows = Problem.of(frame, model, "y"), np.arange(400)
    share = np.average(frame["y"] == "yes", weights=frame["w"])
    for more, said in (({}, 0.5), ({"recalibrate": True}, share)):
        made = fitted(seen.model.model_copy(update=more), seen, rows, seed=0, name="all")
        assert made.predict_proba(seen.X)[:, 1] == pytest.approx(said, abs=1e-3)


def test_recalibrating_what_is_not_balanced_is_refused() -> None:
    with pytest.raises(ModelError, match="there is no balance; leave it out"):
        Problem.of(rare(), ModelSpec(estimator=LOGISTIC, recalibrate=True), "y")
    with pytest.raises(ModelError, match="gives none; leave it out"):
        Problem.of(rare(), ModelSpec(estimator="sklearn.svm:LinearSVC", balance="class_weight", recalibrate=True), "y")


def skewed(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    a = rng.normal(size=n)
    return pd.DataFrame({"a": a, "y": np.exp(1 + 0.5 * a + rng.normal(size=n))})


def test_smearing_predicts_means_where_a_transform_predicts_medians() -> None:
    """Box-Cox of a log-normal target: medians lie far below the mean; the sentence has both figures."""
    metrics = ("neg_mean_absolute_error",)
    medians, low = told(skewed(), estimator=RIDGE, metrics=metrics, target_transform="box-cox")
    smeared = {"transformer": "box-cox", "smearing": True}
    means, right = told(skewed(), estimator=RIDGE, metrics=metrics, target_transform=smeared)
    mean = skewed()["y"].mean()
    (said,) = medians["neg_mean_absolute_error"].warnings
    assert f"they are {low['prediction'].mean():.3g} on average, and y is {mean:.3g}" in said
    assert not means["neg_mean_absolute_error"].warnings
    assert low["prediction"].mean() < 0.75 * mean
    assert right["prediction"].mean() == pytest.approx(mean, rel=0.1)
    assert medians["neg_mean_absolute_error"].value > means["neg_mean_absolute_error"].value  # MAE wants medians


def test_smearing_is_duans_estimate_by_hand() -> None:
    model = ModelSpec(estimator=RIDGE, target_transform={"transformer": "yeo-johnson", "smearing": True})
    problem = Problem.of(skewed(150), model, "y")
    made = fitted(problem.model, problem, np.arange(150), seed=0, name="all")
    on_scale = made.regressor_.predict(problem.X)
    residuals = made.transformer_.transform(problem.y.reshape(-1, 1)).reshape(-1) - on_scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_hand = [np.nanmean(made.transformer_.inverse_transform((z + residuals).reshape(-1, 1))) for z in on_scale]
    assert made.predict(problem.X) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize("smearing", [True, False])
def test_a_transform_takes_no_notice_of_rows_that_weigh_nothing(smearing: bool) -> None:
    """Half of the rows are wild and weigh 0: neither the transform nor the residuals know of them."""
    wild = pd.DataFrame({"a": np.zeros(150), "y": np.exp(9.0 * np.random.default_rng(3).normal(size=150)), "w": 0.0})
    frame = pd.concat([skewed(150).assign(w=1.0), wild], ignore_index=True)
    transform = {"transformer": "box-cox", "smearing": smearing}
    seen = Problem.of(frame, ModelSpec(estimator=RIDGE, target_transform=transform, weights="w"), "y")
    every, alone = (fitted(seen.model, seen, np.arange(n), seed=0, name="all") for n in (300, 150))
    assert every.predict(seen.X[:150]) == pytest.approx(alone.predict(seen.X[:150]), rel=1e-9)


@pytest.mark.parametrize("n", [60, 400])
def test_smearing_weighs_residuals_as_rows_that_repeat(n: int) -> None:
    frame, times = skewed(n), np.resize([1, 0, 5, 2], n)
    logs = FunctionTransformer(np.log, np.exp)
    X, y = frame[["a"]].to_numpy(), frame["y"].to_numpy()
    weighted = Smeared(Ridge(), transformer=logs).fit(X, y, sample_weight=times)
    again = Smeared(Ridge(), transformer=logs).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.predict(X) == pytest.approx(again.predict(X), rel=0.01)
    same = Smeared(Ridge(), transformer=logs).fit(X, y, sample_weight=np.full(n, 3.0))
    plain = Smeared(Ridge(alpha=1 / 3), transformer=logs).fit(X, y)
    assert same.predict(X) == pytest.approx(plain.predict(X), rel=1e-9)


def test_corrected_models_are_kept_and_loaded(tmp_path: Path) -> None:
    balance = {"method": "undersample"}
    problem = Problem.of(rare(), ModelSpec(estimator=LOGISTIC, balance=balance, recalibrate=True), "y")
    made = fitted(problem.model, problem, np.arange(problem.n), seed=0, name="all")
    skops.io.dump(made, tmp_path / "model.skops")
    types = [str(each) for each in skops.io.get_untrusted_types(file=tmp_path / "model.skops")]
    loaded = skops.io.load(tmp_path / "model.skops", trusted=types)
    assert np.array_equal(loaded.predict_proba(problem.X), made.predict_proba(problem.X))

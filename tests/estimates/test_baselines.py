"""Baselines: what is reached without a model stands beside every score, and a model that does no better is said so."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER, CANCER_FRAMES, CANCER_SCORES, DIABETES, DIABETES_FRAMES, DIABETES_SCORES, evaluated
from evenfold.estimates import Estimate, ModelSpec, Problem, aggregate, baseline_predictions
from evenfold.estimates.folds import baseline_of_draws, with_baseline
from evenfold.splitters import KFold, StratifiedKFold
from scipy import stats
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import cross_val_predict

DRAWN = np.random.default_rng(0).normal(size=40)
DUMMY = "sklearn.dummy:DummyClassifier"


def splits_of(problem: Problem, pairs: list[Any]) -> list[Any]:
    return [(0, fold, *pair) for fold, pair in enumerate(pairs)]


def told(problem: Problem, pairs: list[Any], **more: Any) -> dict[str, Estimate]:
    scores, frames = evaluated(problem, pairs)
    baselines = baseline_predictions(problem, splits_of(problem, pairs))
    return {each.metric: each for each in aggregate(scores, frames, problem, baselines=baselines, **more)}


def test_the_baseline_is_the_mean_of_the_training_rows_and_its_difference_is_paired() -> None:
    pairs = list(KFold(5).split(DIABETES.X))
    frames = baseline_predictions(DIABETES, splits_of(DIABETES, pairs))
    # A row that holds much of the variance: few degrees of freedom.
    ours = [frame.assign(prediction=frame["prediction"] + 500 * (frame["row"] == 7)) for frame in DIABETES_FRAMES]
    made = aggregate(DIABETES_SCORES, ours, DIABETES, baselines=frames, level=0.9)
    mae = next(each for each in made if each.metric == "neg_mean_absolute_error")
    dummy = cross_val_predict(DummyRegressor(), DIABETES.X, DIABETES.y, cv=pairs)
    assert mae.baseline.value == pytest.approx(-np.mean(np.abs(DIABETES.y - dummy)), rel=1e-12)
    said = pd.concat(ours).sort_values("row")["prediction"].to_numpy()
    apart = np.abs(DIABETES.y - dummy) - np.abs(DIABETES.y - said)
    n = DIABETES.n
    assert mae.baseline.difference == pytest.approx(apart.mean())
    found, kurtosis = mae.baseline.interval, stats.kurtosis(apart, fisher=False)
    df = min(n - 1, 2 * n / (kurtosis - 1))
    half = stats.t.ppf(0.95, df) * apart.std(ddof=1) / np.sqrt(n) * np.sqrt(1 + 5 / 4)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=1e-9)
    assert not mae.warnings


@pytest.mark.parametrize(("clinics", "told_apart"), [(1, False), (2, True)])
def test_two_groups_are_the_fewest_that_a_difference_has_an_interval_of(clinics: int, told_apart: bool) -> None:
    table = DIABETES.X.assign(target=DIABETES.y, clinic=np.arange(442) % clinics)
    model = DIABETES.model.model_copy(update={"exclude": ("clinic",)})
    problem = Problem.of(table, model, "target", groups="clinic")
    baselines = baseline_predictions(problem, splits_of(problem, list(KFold(5).split(problem.X))))
    for made in aggregate(DIABETES_SCORES, DIABETES_FRAMES, problem, baselines=baselines):
        assert (made.baseline.interval is not None) == told_apart


def test_what_ranks_nothing_has_an_area_of_a_half() -> None:
    frames = baseline_predictions(CANCER, splits_of(CANCER, list(StratifiedKFold(5).split(CANCER.X, CANCER.y))))
    made = aggregate(CANCER_SCORES, CANCER_FRAMES, CANCER, baselines=frames)
    values = {each.metric: each.baseline.value for each in made if each.baseline}
    assert values["roc_auc"] == 0.5
    assert values["balanced_accuracy"] == 0.5
    assert values["accuracy"] == pytest.approx(np.mean(CANCER.y))


def test_a_model_that_does_no_better_is_said_so_and_so_are_classes_that_it_never_predicts() -> None:
    y = np.repeat(["a", "b", "c"], [60, 25, 15])
    frame = pd.DataFrame({"x": np.arange(100.0), "y": np.random.default_rng(0).permutation(y)})
    problem = Problem.of(frame, ModelSpec(estimator=DUMMY, metrics=("accuracy", "balanced_accuracy")), "y")
    pairs = list(KFold(5, random_state=1).split(problem.X))
    made = told(problem, pairs)
    for each in made.values():
        assert "The model never predicts 2 of the 3 classes (b, c), which are 0.4 of the rows." in each.warnings
    accuracy = made["accuracy"]
    assert accuracy.baseline.difference == 0
    assert any(
        note.startswith("The model does no better than predicting the most frequent") for note in accuracy.warnings
    )


def test_rows_in_time_have_the_last_value_beside_the_mean_and_the_better_one_stands() -> None:
    rng = np.random.default_rng(0)
    walk, noise = np.cumsum(rng.normal(size=120)), rng.normal(size=120)
    cuts = [(np.arange(cut), np.arange(cut, cut + 20)) for cut in (20, 40, 60, 80, 100)]
    times = np.arange(120)
    for y, best in ((walk, "the last value"), (noise, "the mean")):
        frame = pd.DataFrame({"x": rng.normal(size=120), "y": y})
        model = ModelSpec(estimator="sklearn.linear_model:Ridge", metrics=("neg_mean_squared_error",))
        problem = Problem.of(frame, model, "y")
        scores, frames = evaluated(problem, cuts)
        given = baseline_predictions(problem, splits_of(problem, cuts), times)
        (made,) = aggregate(scores, frames, problem, baselines=given, ordered=True)
        assert made.baseline.name == best
    last = given["the last value"]
    assert last.loc[last["fold"] == 2, "prediction"].unique() == pytest.approx([noise[59]])


def test_the_last_value_is_of_the_last_rows_that_weigh_something() -> None:
    frame = pd.DataFrame({"x": np.arange(6.0), "w": [1.0, 1, 1, 9, 1, 0], "y": [0.0, 0, 0, 10, 20, 99]})
    problem = Problem.of(frame, ModelSpec(weights="w", task="regression"), "y")
    given = baseline_predictions(problem, [(0, 0, np.arange(6), np.arange(1))], np.array([1, 2, 3, 5, 5, 6]))
    assert given["the last value"]["prediction"].tolist() == [11.0]


@pytest.mark.parametrize("y", [DRAWN, DRAWN > 0], ids=["numbers", "classes"])
def test_where_rows_to_train_on_weigh_nothing_there_is_no_baseline(y: Any) -> None:
    """An evaluation ended in a ZeroDivisionError after its fits; such a draw is left out of the draws' baseline."""
    frame = pd.DataFrame({"x": np.arange(40.0), "w": np.arange(40) // 20, "y": y})
    problem = Problem.of(frame, ModelSpec(weights="w"), "y")
    none, some = (np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))
    assert baseline_predictions(problem, [(0, 0, *some), (0, 1, *none)]) == {}
    whole = (np.arange(40), np.arange(20, 40))
    _, scores = baseline_of_draws(problem, [(0, whole), (1, none)], problem.model.metrics[:1])
    assert scores[problem.model.metrics[0]].notna().tolist() == [True, False]


def test_draws_that_are_all_as_far_from_the_baseline_have_no_interval_of_the_difference() -> None:
    """Differences that do not scatter made one of no width, by which the model was certainly better."""
    table = pd.DataFrame({"draw": range(5), "accuracy": np.arange(5) / 10 + 0.1})
    without = "the most frequent class", table.assign(accuracy=np.arange(5) / 10)
    found = with_baseline(
        Estimate("accuracy", "random splits", 0.3, None, None, 5), table, without, n_train=60, n_test=30
    )
    assert (found.baseline.difference, found.baseline.interval) == (pytest.approx(0.1), None)

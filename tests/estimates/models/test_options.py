"""Balancing, thresholds, transforms, weights and fit parameters do what they say, to training rows only."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import (
    CANCER_ROWS,
    DIABETES_ROWS,
    RARE,
    REMEMBERING,
    RIDGE,
    THIRDS,
    UNSCALED,
    WINE_ROWS,
    evaluate,
    problem,
)
from evenfold.estimates import ModelError, ModelSpec, Problem, assemble, fit_and_score, fitted
from evenfold.estimates.models.fit import inner_pairs
from evenfold.splitters import BalancedGroupKFold, Bootstrap, KFold, StratifiedKFold, Stream
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV, cross_validate


def balanced_accuracy(**model: Any) -> float:
    scores = evaluate(problem(estimator=UNSCALED, metrics=["balanced_accuracy"], **model))
    return float(np.mean([score.test["balanced_accuracy"] for score, _ in scores]))


@pytest.mark.parametrize(
    ("balance", "counts"),
    [
        ({"method": "undersample", "ratio": 0.5}, (12, 6)),
        ({"method": "oversample", "ratio": 0.5}, (54, 27)),
        ("undersample", (6, 6)),
    ],
)
def test_balancing_changes_training_rows_only(balance: Any, counts: tuple[int, int]) -> None:
    table = pd.DataFrame({"x": range(80), "y": ["no"] * 72 + ["yes"] * 8})
    seen = problem(table, estimator=REMEMBERING, balance=balance, metrics=["accuracy"])
    train, test = next(iter(StratifiedKFold(4).split(table, table["y"])))
    model = fitted(seen, train, seed=0, name="fold 0")[-1]
    assert tuple(np.unique(model.seen_y_, return_counts=True)[1]) == counts
    assert set(model.seen_X_.ravel()) <= set(train)
    score, predictions = fit_and_score(seen, train, test, seed=0, name="fold 0")
    assert (score.n_train, score.n_test) == (60, 20)
    assert sorted(predictions["row"]) == sorted(test)
    assert predictions["y"].value_counts().to_dict() == {"no": 18, "yes": 2}


def test_any_repair_raises_the_balanced_accuracy_of_a_rare_class() -> None:
    """From little more than a half to about .7, whichever is used."""
    assert balanced_accuracy() < 0.58
    for repair in ({"balance": "oversample"}, {"balance": "class_weight"}, {"threshold": "prevalence"}):
        assert 0.66 < balanced_accuracy(**repair) < 0.76


def test_a_fixed_threshold_is_scikit_learns() -> None:
    seen = problem(estimator=UNSCALED, threshold=0.2, metrics=["balanced_accuracy", "roc_auc"])
    theirs = cross_validate(
        FixedThresholdClassifier(LogisticRegression(random_state=0), threshold=0.2, response_method="predict_proba"),
        seen.X,
        seen.y,
        cv=THIRDS,
        scoring="balanced_accuracy",
    )["test_score"]
    np.testing.assert_allclose([s.test["balanced_accuracy"] for s, _ in evaluate(seen)], theirs, atol=1e-12)


def test_prevalence_is_the_share_of_the_second_class_in_training() -> None:
    seen = problem(estimator=UNSCALED, threshold="prevalence", metrics=["accuracy"])
    train = np.arange(100)
    assert fitted(seen, train, seed=0, name="").threshold == pytest.approx(np.mean(seen.y[:100] == "yes"))
    with pytest.raises(ModelError, match="depends on the training rows; pass train"):
        assemble(seen, 0)


def test_a_tuned_threshold_is_scikit_learns_on_shuffled_stratified_folds() -> None:
    seen = problem(estimator=UNSCALED, threshold="tuned", metrics=["balanced_accuracy"])
    train, _ = THIRDS[0]
    inner = StratifiedKFold(5, random_state=3)
    theirs = TunedThresholdClassifierCV(
        LogisticRegression(random_state=3), scoring="balanced_accuracy", cv=list(inner.split(train, seen.y[train]))
    ).fit(seen.X.iloc[train], seen.y[train])
    ours = fitted(seen, train, seed=3, name="")
    assert ours.best_threshold_ == theirs.best_threshold_
    np.testing.assert_array_equal(ours.predict(seen.X), theirs.predict(seen.X))


def test_groups_and_repeated_rows_stay_whole_in_the_tuning() -> None:
    grouped = problem(estimator=UNSCALED, threshold="tuned", groups=np.arange(len(RARE)) // 4)
    train = THIRDS[0][0]
    for inner_train, inner_test in inner_pairs(grouped, train, 0):
        assert not set(grouped.groups[train][inner_train]) & set(grouped.groups[train][inner_test])
    drawn, _ = next(iter(Bootstrap(1).split(RARE)))
    for inner_train, inner_test in inner_pairs(problem(estimator=UNSCALED, threshold="tuned"), drawn, 0):
        assert not set(drawn[inner_train]) & set(drawn[inner_test])
    with pytest.raises(ModelError, match="the inner strategy KFold keeps no groups whole"):
        inner_pairs(grouped, train, 0, KFold(3))
    assert len(inner_pairs(grouped, train, 0, BalancedGroupKFold(3))) == 3


def test_a_transformed_target_is_inverted_in_predictions() -> None:
    x = np.linspace(0, 5, 200)
    table = pd.DataFrame({"x": x, "y": np.exp(x) * np.exp(0.05 * norm.ppf(Stream(1).uniform(200) * 0.99 + 0.005))})
    pairs = list(KFold(4).split(table))
    plain, transformed = (
        np.mean([s.test["r2"] for s, _ in evaluate(problem(table, estimator=RIDGE, **more), pairs)])
        for more in ({}, {"target_transform": "box-cox"})
    )
    assert plain < 0.85
    assert transformed > 0.97


def test_transforms_have_short_names_and_paths() -> None:
    power = "sklearn.preprocessing:PowerTransformer"
    named = ModelSpec.of({"target_transform": "yeo-johnson"})
    assert named == ModelSpec.of({"target_transform": {"transformer": power, "params": {"method": "yeo-johnson"}}})
    assert named.canonical() == {"target_transform": {"params": {"method": "yeo-johnson"}}}
    assert named.trains_like(named.model_copy(update={"metrics": ("r2",)}))
    assert not named.trains_like(ModelSpec())
    quantile = ModelSpec.of({"target_transform": "sklearn.preprocessing:QuantileTransformer"})
    assert quantile.target_transform.transformer == "sklearn.preprocessing:QuantileTransformer"


def cancer(**model: Any) -> Problem:
    return problem(CANCER_ROWS, "target", **model)


SVC = "sklearn.svm:LinearSVC"
NEGATIVE = DIABETES_ROWS.assign(target=DIABETES_ROWS["target"] - 100)
REFUSED: list[tuple[Any, str]] = [
    (
        lambda: problem(DIABETES_ROWS, "target", balance="undersample"),
        "balance is for classification, and the task is regression; leave it",
    ),
    (lambda: cancer(target_transform="box-cox"), "target_transform is for regression, and the task is classification"),
    (lambda: problem(WINE_ROWS, "target", threshold="tuned"), "threshold is for two classes, and the target has 3"),
    (lambda: cancer(threshold="prevalence", balance="oversample"), "together they correct twice; leave one of the two"),
    (lambda: cancer(estimator=SVC, threshold=0.3), "0.3 needs predict_proba, and 'sklearn.svm:LinearSVC' has none; us"),
    (lambda: problem(estimator=UNSCALED, weights="w", balance="undersample"), "use balance: {method: class_weight}, o"),
    (lambda: problem(NEGATIVE, "target", target_transform="boxcox"), "cannot transform target 'target' (-75 to 246):"),
    (lambda: problem(estimator="sklearn.neighbors:KNeighborsClassifier", weights="w"), "weights is taken by no part o"),
    (lambda: ModelSpec.of({"eval_set": 0.1}), "eval_set is no field any more: let boosting stop itself"),
    (lambda: ModelSpec.of({"balance": "smote"}), "'smote'; input should be 'undersample', 'oversample' or 'class_weig"),
]


@pytest.mark.parametrize(("ask", "words"), REFUSED)
def test_an_option_that_cannot_be_is_refused_before_anything_is_fitted(ask: Any, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        ask()

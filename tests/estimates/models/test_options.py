"""Balancing, thresholds, transforms, weights and fit parameters do what they say, to training rows only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import (
    METRICS,
    Confusion,
    EvaluationError,
    ModelError,
    ModelSpec,
    Problem,
    aggregate,
    assemble,
    class_scores,
    confusion_table,
    fit_and_score,
    fitted,
    metric_of,
    score_draws,
)
from evenfold.estimates.draws import DrawScores
from evenfold.estimates.metrics.no_information import of_distances
from evenfold.estimates.metrics.record import Answered
from evenfold.estimates.metrics.scoring import positive_class
from evenfold.estimates.models.confusion import thresholds
from evenfold.estimates.models.fit import inner_pairs
from evenfold.estimates.models.options import reads_names
from evenfold.splitters import BalancedGroupKFold, Bootstrap, KFold, StratifiedKFold, Stream
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    classification_report,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
)
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

HERE = __name__
LOGISTIC = "sklearn.linear_model:LogisticRegression"
SCALED = "evenfold.estimates:scaled_logistic_regression"
RIDGE = "sklearn.linear_model:Ridge"


class Remembering(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Remembers what it was fitted on."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, colours: Any = None, loud: bool = False) -> Remembering:
        self.seen_X_, self.seen_y_, self.weights_, self.colours_, self.loud_ = (
            np.asarray(X),
            y,
            sample_weight,
            colours,
            loud,
        )
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


REMEMBERING = f"{HERE}:Remembering"


def rare(n: int = 600, share: float = 0.15) -> pd.DataFrame:
    """Two normal features that lean towards a rare class."""
    stream = Stream(2)
    y = stream.uniform(n) < share
    x = norm.ppf(stream.uniform(2 * n) * 0.9999 + 5e-5).reshape(n, 2) + 0.7 * y[:, None]
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.where(y, "yes", "no"), "w": 1 + np.arange(n) % 3})


TABLE = rare()
PAIRS = list(StratifiedKFold(3).split(TABLE, TABLE["y"]))


def problem(table: pd.DataFrame = TABLE, target: str = "y", groups: Any = None, **model: Any) -> Problem:
    given = {"features": ["a", "b"]} if table is TABLE else {}
    return Problem.of(table, ModelSpec(**{**given, **model}), target, groups=groups)


def evaluate(seen: Problem, pairs: Any = PAIRS) -> list[Any]:
    return [fit_and_score(seen.model, seen, *pair, seed=0, name=f"fold {i}", fold=i) for i, pair in enumerate(pairs)]


def balanced_accuracy(**model: Any) -> float:
    scores = evaluate(problem(estimator=LOGISTIC, metrics=["balanced_accuracy"], **model))
    return float(np.mean([score.test["balanced_accuracy"] for score, _ in scores]))


# ---------------------------------------------------------------- balance


@pytest.mark.parametrize(
    ("balance", "counts"),
    [
        ({"method": "undersample"}, (6, 6)),
        ({"method": "oversample"}, (54, 54)),
        ({"method": "undersample", "ratio": 0.5}, (12, 6)),
        ({"method": "oversample", "ratio": 0.5}, (54, 27)),
        ("undersample", (6, 6)),
    ],
)
def test_balancing_changes_training_rows_only(balance: Any, counts: tuple[int, int]) -> None:
    """The model is fitted on even classes, of training rows alone; every test row is predicted as it is."""
    table = pd.DataFrame({"x": range(80), "y": ["no"] * 72 + ["yes"] * 8})
    seen = problem(table, estimator=REMEMBERING, balance=balance, metrics=["accuracy"])
    train, test = next(iter(StratifiedKFold(4).split(table, table["y"])))
    model = fitted(seen.model, seen, train, seed=0, name="fold 0")[-1]
    assert tuple(np.unique(model.seen_y_, return_counts=True)[1]) == counts
    assert set(model.seen_X_.ravel()) <= set(train)
    score, predictions = fit_and_score(seen.model, seen, train, test, seed=0, name="fold 0")
    assert (score.n_train, score.n_test) == (60, 20)
    assert sorted(predictions["row"]) == sorted(test)
    assert predictions["y"].value_counts().to_dict() == {"no": 18, "yes": 2}


def test_three_classes_are_evened_out() -> None:
    """Each class towards the rarest or the largest."""
    table = pd.DataFrame({"x": range(60), "y": ["a"] * 10 + ["b"] * 20 + ["c"] * 30})
    for method, counts in (("undersample", [10, 10, 10]), ("oversample", [30, 30, 30])):
        seen = problem(table, estimator=REMEMBERING, balance=method, metrics=["accuracy"])
        model = fitted(seen.model, seen, np.arange(60), seed=0, name="all")[-1]
        assert np.unique(model.seen_y_, return_counts=True)[1].tolist() == counts


def test_balancing_repeats_itself_and_obeys_the_seed() -> None:
    """The same rows are drawn again under the same seed."""
    seen = problem(estimator=REMEMBERING, balance="undersample", metrics=["accuracy"])
    drawn = [fitted(seen.model, seen, PAIRS[0][0], seed=seed, name="")[-1].seen_X_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize(
    "repair",
    [
        {"balance": "undersample"},
        {"balance": "oversample"},
        {"balance": "class_weight"},
        {"threshold": "tuned"},
        {"threshold": "prevalence"},
        {"threshold": 0.15},
    ],
)
def test_any_repair_raises_the_balanced_accuracy_of_a_rare_class(repair: dict[str, Any]) -> None:
    """From little more than a half to about .7, whichever is used."""
    assert balanced_accuracy() < 0.58
    assert 0.66 < balanced_accuracy(**repair) < 0.76


def test_oversampling_before_the_split_would_have_lied() -> None:
    """Copies of a row on both sides make a tree look brilliant; inside the fold it is what it is."""
    tree = "sklearn.tree:DecisionTreeClassifier"
    yes = np.flatnonzero(TABLE["y"] == "yes")
    copied = pd.concat([TABLE, *[TABLE.iloc[yes]] * 5], ignore_index=True)
    wrong = problem(copied.drop(columns="w"), estimator=tree, metrics=["balanced_accuracy"])
    lied = evaluate(wrong, list(StratifiedKFold(5).split(copied, copied["y"])))
    honest = evaluate(problem(estimator=tree, balance="oversample", metrics=["balanced_accuracy"]))
    assert np.mean([score.test["balanced_accuracy"] for score, _ in lied]) > 0.85
    assert np.mean([score.test["balanced_accuracy"] for score, _ in honest]) < 0.65


# ---------------------------------------------------------------- thresholds


def test_a_fixed_threshold_is_scikit_learns() -> None:
    """Scores equal cross_validate's with FixedThresholdClassifier."""
    seen = problem(estimator=LOGISTIC, threshold=0.2, metrics=["balanced_accuracy", "roc_auc"])
    theirs = cross_validate(
        FixedThresholdClassifier(LogisticRegression(random_state=0), threshold=0.2, response_method="predict_proba"),
        seen.X,
        seen.y,
        cv=PAIRS,
        scoring="balanced_accuracy",
    )["test_score"]
    np.testing.assert_allclose([s.test["balanced_accuracy"] for s, _ in evaluate(seen)], theirs, atol=1e-12)


def test_prevalence_is_the_share_of_the_second_class_in_training() -> None:
    """Of the training rows, not of all."""
    seen = problem(estimator=LOGISTIC, threshold="prevalence", metrics=["accuracy"])
    train = np.arange(100)
    assert fitted(seen.model, seen, train, seed=0, name="").threshold == pytest.approx(np.mean(seen.y[:100] == "yes"))
    with pytest.raises(ModelError, match="depends on the training rows; pass train"):
        assemble(seen.model, seen, 0)


def test_a_tuned_threshold_is_scikit_learns_on_shuffled_stratified_folds() -> None:
    """The inner cross-validation is our StratifiedKFold on the training rows."""
    seen = problem(estimator=LOGISTIC, threshold="tuned", metrics=["balanced_accuracy"])
    train, test = PAIRS[0]
    inner = StratifiedKFold(5, random_state=3)
    theirs = TunedThresholdClassifierCV(
        LogisticRegression(random_state=3), scoring="balanced_accuracy", cv=list(inner.split(train, seen.y[train]))
    ).fit(seen.X.iloc[train], seen.y[train])
    ours = fitted(seen.model, seen, train, seed=3, name="")
    assert ours.best_threshold_ == theirs.best_threshold_
    score, _ = fit_and_score(seen.model, seen, train, test, seed=3, name="")
    expected = balanced_accuracy_score(seen.y[test], theirs.predict(seen.X.iloc[test]))
    assert score.test["balanced_accuracy"] == pytest.approx(expected, abs=1e-12)


def test_rows_sorted_by_class_do_not_spoil_the_tuning() -> None:
    """Unshuffled inner folds of sorted rows hold one class each; ours hold both."""
    ordered = TABLE.sort_values("y", ignore_index=True)
    seen = Problem.of(ordered, ModelSpec(estimator=LOGISTIC, features=["a", "b"], threshold="tuned"), "y")
    for inner_train, inner_test in inner_pairs(seen, np.arange(len(ordered)), 0):
        assert np.mean(seen.y[inner_test] == "yes") == pytest.approx(np.mean(seen.y[inner_train] == "yes"), abs=0.02)


def test_groups_and_repeated_rows_stay_whole_in_the_tuning() -> None:
    """No group, and no copy of a row, is on both sides of an inner pair."""
    grouped = problem(estimator=LOGISTIC, threshold="tuned", groups=np.arange(len(TABLE)) // 4)
    assert grouped.groups is not None
    train = PAIRS[0][0]
    for inner_train, inner_test in inner_pairs(grouped, train, 0):
        assert not set(grouped.groups[train][inner_train]) & set(grouped.groups[train][inner_test])
    drawn, _ = next(iter(Bootstrap(1).split(TABLE)))
    for inner_train, inner_test in inner_pairs(problem(estimator=LOGISTIC, threshold="tuned"), drawn, 0):
        assert not set(drawn[inner_train]) & set(drawn[inner_test])
    with pytest.raises(ModelError, match="the inner strategy KFold keeps no groups whole"):
        inner_pairs(grouped, train, 0, KFold(3))
    assert len(inner_pairs(grouped, train, 0, BalancedGroupKFold(3))) == 3


def test_tuning_on_too_few_rows_is_told_with_the_fold() -> None:
    """A class rarer than the inner folds."""
    table = pd.DataFrame({"x": range(40), "y": ["no"] * 37 + ["yes"] * 3})
    seen = problem(table, estimator=LOGISTIC, threshold="tuned", metrics=["accuracy"])
    with pytest.raises(EvaluationError, match=r"^fold 2: the model could not be fitted on its 40 training rows"):
        fit_and_score(seen.model, seen, np.arange(40), np.arange(40), seed=0, name="fold 2")


# ---------------------------------------------------------------- target transforms, weights, fit parameters


def test_a_transformed_target_is_inverted_in_predictions() -> None:
    """An exponential target is a line to Box-Cox, and predictions are in its own units."""
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
    """All of them are one specification."""
    power = "sklearn.preprocessing:PowerTransformer"
    named = ModelSpec.of({"target_transform": "yeo-johnson"})
    assert named == ModelSpec.of({"target_transform": {"transformer": power, "params": {"method": "yeo-johnson"}}})
    assert named.canonical() == {"target_transform": {"params": {"method": "yeo-johnson"}}}
    quantile = ModelSpec.of({"target_transform": "sklearn.preprocessing:QuantileTransformer"})
    assert quantile.target_transform is not None
    assert quantile.target_transform.transformer == "sklearn.preprocessing:QuantileTransformer"


@pytest.mark.parametrize("estimator", [LOGISTIC, SCALED])
def test_weights_reach_the_fit_and_the_scores(estimator: str) -> None:
    """Equal to scikit-learn's, inside a pipeline as well; the scaler stays unweighted."""
    seen = problem(estimator=estimator, weights="w", metrics=["accuracy", "roc_auc", "neg_log_loss"])
    assert "w" not in seen.features
    assert "w" in seen.columns_read
    train, test = PAIRS[0]
    score, frame = fit_and_score(seen.model, seen, train, test, seed=0, name="")
    theirs = ModelSpec(estimator=estimator).build(0)
    name = "sample_weight" if estimator == LOGISTIC else "logisticregression__sample_weight"
    weights = TABLE["w"].to_numpy(dtype=float)
    theirs.fit(seen.X.iloc[train], seen.y[train], **{name: weights[train]})
    said = theirs.predict(seen.X.iloc[test])
    assert score.test["accuracy"] == pytest.approx(np.average(said == seen.y[test], weights=weights[test]), abs=1e-12)
    np.testing.assert_allclose(frame["proba_yes"], theirs.predict_proba(seen.X.iloc[test])[:, 1], atol=1e-12)
    np.testing.assert_array_equal(frame["weight"], weights[test])


@pytest.mark.parametrize(
    "more", [{"threshold": "tuned"}, {"balance": "class_weight"}, {"threshold": 0.3}, {"features": ["a", "text"]}]
)
def test_weights_go_through_every_wrapping(more: dict[str, Any]) -> None:
    """Thresholds, class weights and encoders pass them on: the model is another one."""
    table = TABLE.assign(text=np.where(TABLE["a"] > 0, "up", "down"))
    seen = Problem.of(table, ModelSpec(**{"estimator": LOGISTIC, "features": ["a", "b"], "weights": "w", **more}), "y")
    none = Problem.of(table, ModelSpec(**{"estimator": LOGISTIC, "features": ["a", "b"], **more}), "y")
    train = PAIRS[0][0]
    weighted, plain = (fitted(each.model, each, train, seed=0, name="") for each in (seen, none))
    assert not np.allclose(weighted.predict_proba(seen.X), plain.predict_proba(seen.X))


def test_weights_go_through_a_target_transform() -> None:
    """Into the regressor."""
    table = load_diabetes(as_frame=True).frame.assign(w=np.arange(442) % 2)
    model = {"estimator": RIDGE, "target_transform": "yeo-johnson"}
    seen, none = (
        Problem.of(table, ModelSpec(**model, **more), "target") for more in ({"weights": "w"}, {"exclude": ["w"]})
    )
    ones = np.flatnonzero(table["w"] == 1)
    weighted = fitted(seen.model, seen, np.arange(442), seed=0, name="").regressor_
    alone = fitted(none.model.model_copy(update={"target_transform": None}), none, ones, seed=0, name="")
    assert np.corrcoef(weighted.coef_, alone.coef_)[0, 1] > 0.98


def test_fit_parameters_are_constants_and_columns_of_training_rows() -> None:
    """Routed to the part that takes them."""
    table = TABLE.assign(colour=np.arange(len(TABLE)))
    fit_params = {"colours": {"column": "colour"}, "loud": True}
    seen = Problem.of(table, ModelSpec(estimator=REMEMBERING, fit_params=fit_params), "y")
    assert "colour" not in seen.features
    assert "colour" in seen.columns_read
    train = PAIRS[1][0]
    model = fitted(seen.model, seen, train, seed=0, name="")
    np.testing.assert_array_equal(model.colours_, train)
    assert model.loud_ is True


def test_groups_are_routed_to_an_estimator_that_splits_for_itself() -> None:
    """A grid search with grouped folds gets its groups by scikit-learn's routing."""
    table = TABLE.assign(group=np.arange(len(TABLE)) // 3)
    model = ModelSpec(
        estimator=f"{HERE}:grouped_search", features=["a", "b"], fit_params={"groups": {"column": "group"}}
    )
    seen = Problem.of(table, model, "y")
    assert fitted(seen.model, seen, PAIRS[0][0], seed=0, name="").best_params_["C"] in (0.1, 1.0)


def grouped_search() -> Any:
    """Return a grid search that needs groups."""
    from sklearn.model_selection import GridSearchCV, GroupKFold

    return GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))


def test_validation_rows_stop_an_estimator_early() -> None:
    """It stops where scikit-learn's own call with X_val and y_val stops, and the test rows play no part."""
    boost = "sklearn.ensemble:HistGradientBoostingRegressor"
    params = {"early_stopping": True, "n_iter_no_change": 3, "learning_rate": 0.3}
    seen = problem(DIABETES, "target", estimator=boost, params=params, eval_set="validation", metrics=["r2"])
    train, validation, test = np.arange(300), np.arange(300, 380), np.arange(380, 442)
    ours = fitted(seen.model, seen, train, seed=0, name="", validation=validation)
    theirs = HistGradientBoostingRegressor(**params, random_state=0)
    X, y = seen.X, seen.y
    theirs.fit(X.iloc[train], y[train], X_val=X.iloc[validation], y_val=y[validation])
    assert ours.n_iter_ == theirs.n_iter_ < 100
    score, _ = fit_and_score(seen.model, seen, train, test, seed=0, name="", validation=validation)
    assert score.test["r2"] == pytest.approx(theirs.score(X.iloc[test], y[test]), abs=1e-12)
    with pytest.raises(ModelError, match="needs validation rows"):
        fit_and_score(seen.model, seen, train, test, seed=0, name="")


def test_draws_take_every_option() -> None:
    """Thousands of draws go the same way as folds."""
    pairs = list(enumerate(Bootstrap(2).split(TABLE)))
    for more in ({"balance": "undersample"}, {"threshold": "tuned"}, {"threshold": "prevalence"}, {"weights": "w"}):
        seen = problem(estimator=LOGISTIC, metrics=["accuracy", "roc_auc", "balanced_accuracy"], **more)
        table = score_draws(seen.model, seen, pairs, seed=0).table
        for i, pair in pairs:
            score, _ = fit_and_score(seen.model, seen, *pair, seed=0, name="")
            for metric in seen.model.metrics:
                assert table[metric][i] == pytest.approx(score.test[metric], abs=1e-12)


CANCER = load_breast_cancer(as_frame=True).frame
DIABETES = load_diabetes(as_frame=True).frame
WINE = load_wine(as_frame=True).frame
MESSAGES: list[tuple[str, Any, str]] = [
    (
        "balance of numbers",
        lambda: problem(DIABETES, "target", balance="undersample"),
        "balance is for classification, and the task is regression; leave it out.",
    ),
    (
        "threshold of numbers",
        lambda: problem(DIABETES, "target", threshold=0.5),
        "threshold is for classification, and the task is regression; leave it out.",
    ),
    (
        "transform of classes",
        lambda: problem(CANCER, "target", target_transform="box-cox"),
        "target_transform is for regression, and the task is classification; leave it out.",
    ),
    (
        "threshold of three classes",
        lambda: problem(WINE, "target", threshold="tuned"),
        "threshold is for two classes, and the target has 3; leave it out.",
    ),
    (
        "prevalence twice",
        lambda: problem(CANCER, "target", threshold="prevalence", balance="oversample"),
        "threshold: prevalence and balance each correct for the rarer class, together they correct twice; "
        "leave one of the two out.",
    ),
    (
        "threshold without probabilities",
        lambda: problem(CANCER, "target", estimator="sklearn.svm:LinearSVC", threshold=0.3),
        "threshold: 0.3 needs predict_proba, and 'sklearn.svm:LinearSVC' has none; use another estimator, or balance.",
    ),
    (
        "metric without probabilities",
        lambda: problem(CANCER, "target", estimator="sklearn.svm:LinearSVC", metrics=["neg_log_loss"]),
        "metric 'neg_log_loss' needs predict_proba, and 'sklearn.svm:LinearSVC' has none; "
        "choose another metric, or another estimator.",
    ),
    (
        "no class_weight",
        lambda: problem(CANCER, "target", estimator="sklearn.naive_bayes:GaussianNB", balance="class_weight"),
        "'sklearn.naive_bayes:GaussianNB' has no class_weight; use balance: {method: undersample} or oversample.",
    ),
    (
        "class_weight with a ratio",
        lambda: problem(CANCER, "target", estimator=LOGISTIC, balance={"method": "class_weight", "ratio": 0.5}),
        "balance: class_weight makes classes equal, and ratio=0.5; leave it out.",
    ),
    (
        "sampling with weights",
        lambda: problem(estimator=LOGISTIC, weights="w", balance="undersample"),
        "balance: undersample changes the rows, and weights has one value per row; "
        "use balance: {method: class_weight}, or leave one of the two out.",
    ),
    (
        "box-cox of negative numbers",
        lambda: problem(DIABETES.assign(target=DIABETES["target"] - 100), "target", target_transform="box-cox"),
        "target_transform 'sklearn.preprocessing:PowerTransformer' cannot transform target 'target' (-75 to 246): "
        "The Box-Cox transformation can only be applied to strictly positive data",
    ),
    (
        "no transformer",
        lambda: problem(DIABETES, "target", target_transform=RIDGE),
        "'sklearn.linear_model:Ridge' is not a transformer that can be inverted: Ridge has no transform and no "
        "inverse_transform; name a class or a function that returns one, "
        "such as sklearn.preprocessing:PowerTransformer.",
    ),
    (
        "weights nobody takes",
        lambda: problem(estimator="sklearn.neighbors:KNeighborsClassifier", weights="w"),
        "weights is taken by no part of 'sklearn.neighbors:KNeighborsClassifier'.",
    ),
    (
        "two parameters nobody takes",
        lambda: ModelSpec(estimator="sklearn.linear_model:Ridge", params={"alhpa": 1, "fit_intercpt": True}).build(0),
        "'sklearn.linear_model:Ridge' does not accept its parameters: Ridge.__init__() got an unexpected keyword "
        "argument 'alhpa'; did you mean 'alpha'?",
    ),
    (
        "a fit parameter nobody takes",
        lambda: problem(estimator=REMEMBERING, fit_params={"colour": 1}),
        f"fit parameter 'colour' is taken by no part of '{REMEMBERING}'; did you mean 'colours' or 'loud'?",
    ),
    (
        "nothing stops early",
        lambda: problem(estimator=LOGISTIC, eval_set="validation"),
        "eval_set: 'sklearn.linear_model:LogisticRegression' takes no validation rows when it is fitted; leave it out.",
    ),
    (
        "a threshold of one",
        lambda: ModelSpec.of({"threshold": 1.5}),
        "model field 'threshold' is '1.5'; choose 'tuned', 'prevalence' or a number between 0 and 1.",
    ),
    (
        "an unknown balance",
        lambda: ModelSpec.of({"balance": "smote"}),
        "model field 'balance.method' is 'smote'; input should be 'undersample', 'oversample' or 'class_weight'.",
    ),
]


@pytest.mark.parametrize(("name", "ask", "message"), MESSAGES, ids=[name for name, _, _ in MESSAGES])
def test_an_option_that_cannot_be_gets_a_sentence(name: str, ask: Any, message: str) -> None:
    """Before anything is fitted."""
    with pytest.raises(ModelError) as raised:
        ask()
    assert str(raised.value) == message


# ---------------------------------------------------------------- per class


def test_confusion_and_class_scores_are_scikit_learns() -> None:
    """Per fold and over all."""
    seen = problem(estimator=LOGISTIC, balance="undersample", metrics=["accuracy"])
    together = pd.concat([frame for _, frame in evaluate(seen)])
    cells, scores = confusion_table(together, seen.classes), class_scores(together, seen.classes)
    for fold in (-1, 0, 2):
        part = together if fold == -1 else together[together["fold"] == fold]
        theirs = confusion_matrix(part["y"], part["prediction"])
        np.testing.assert_array_equal(cells[cells["fold"] == fold]["rows"].to_numpy().reshape(2, 2), theirs)
        report = classification_report(part["y"], part["prediction"], output_dict=True)
        for row in scores[scores["fold"] == fold].to_dict("records"):
            assert row["recall"] == pytest.approx(report[row["class"]]["recall"])
            assert row["precision"] == pytest.approx(report[row["class"]]["precision"])
            assert row["rows"] == report[row["class"]]["support"]


def test_a_class_that_is_never_said_has_no_precision() -> None:
    """Undefined is NaN, not 0."""
    frame = pd.DataFrame({"repeat": 0, "fold": 0, "y": list("aab"), "prediction": list("aaa")})
    pooled = class_scores(frame, ("a", "b", "c")).query("fold == -1").set_index("class")
    assert pooled["precision"].isna().to_dict() == {"a": False, "b": True, "c": True}
    assert pooled["recall"].isna().to_dict() == {"a": False, "b": False, "c": True}
    assert pooled.loc["a", "precision"] == pytest.approx(2 / 3)


# ---------------------------------------------------------------- one class of two

CREDIT = pd.DataFrame({"x": [*np.linspace(-2, 1, 120), *np.linspace(-1, 2, 60)], "z": np.arange(180) % 7})
CREDIT["risk"] = ["Good"] * 120 + ["Bad"] * 60
OF_ONE = ("recall", "precision", "f1", "average_precision", "sensitivity", "specificity", "brier", "auc")


def credit(**model: Any) -> Problem:
    return Problem.of(CREDIT, ModelSpec(estimator=SCALED, metrics=OF_ONE, **model), "risk")


@pytest.mark.parametrize("positive", ["Bad", "Good", None])
def test_metrics_of_one_class_say_which_and_equal_scikit_learns(positive: str | None) -> None:
    """Of text classes too: by name where one is named, else of the second in sorted order."""
    seen = credit(positive=positive)
    of = positive or "Good"
    other = "Good" if of == "Bad" else "Bad"
    train, test = np.arange(0, 180, 2), np.arange(1, 180, 2)
    score, said = fit_and_score(seen.model, seen, train, test, seed=0, name="half")
    y, called, chance = said["y"], said["prediction"], said[f"proba_{of}"]
    assert score.test == pytest.approx({
        f"recall of {of}": recall_score(y, called, pos_label=of),
        f"precision of {of}": precision_score(y, called, pos_label=of),
        f"f1 of {of}": f1_score(y, called, pos_label=of),
        f"average_precision of {of}": average_precision_score(y == of, chance),
        f"sensitivity of {of}": recall_score(y, called, pos_label=of),
        f"specificity of {of}": recall_score(y, called, pos_label=other),
        "neg_brier_score": -brier_score_loss(y == of, chance),
        "roc_auc": score.test["roc_auc"],
    })  # fmt: skip
    estimates = {each.metric: each for each in aggregate([score], said, seen, seen.model)}
    assert all(estimates[name].value == pytest.approx(value) for name, value in score.test.items())
    assert all(estimates[f"{name} of {of}"].interval is not None for name in ("recall", "f1", "specificity"))
    assert metric_of(f"recall of {of}").title == f"recall of {of}"
    draws = score_draws(seen.model, seen, [(0, (train, test))], seed=0)
    assert draws.table.loc[0, f"specificity of {of}"] == pytest.approx(score.test[f"specificity of {of}"])


def test_numbers_keep_scikit_learns_names_unless_a_class_is_named() -> None:
    numbers = CREDIT.assign(risk=(CREDIT["risk"] == "Bad").astype(int))
    plain = Problem.of(numbers, ModelSpec(estimator=SCALED, metrics=["recall", "specificity"]), "risk")
    assert plain.model.metrics == ("recall", "specificity")
    score, said = fit_and_score(plain.model, plain, np.arange(0, 180, 2), np.arange(1, 180, 2), seed=0, name="half")
    y, called = said["y"], said["prediction"]
    assert score.test["recall"] == recall_score(y, called)
    assert score.test["specificity"] == recall_score(y, called, pos_label=0)
    named = Problem.of(numbers, ModelSpec(estimator=SCALED, metrics=["recall"], positive=0), "risk")
    assert named.model.metrics == ("recall of 0",)


def test_a_yes_that_yaml_reads_as_true_is_the_class_that_says_so() -> None:
    answers = CREDIT.assign(risk=np.where(CREDIT["risk"] == "Bad", "Yes", "No"))
    assert [Problem.of(answers, ModelSpec(positive=p), "risk").positive for p in (True, False)] == ["Yes", "No"]


def test_a_threshold_is_of_the_positive_class() -> None:
    """From .3 on a row is called Bad; by default it would be called Good from there on."""
    train = np.arange(180)
    for positive, of in (("Bad", "Bad"), (None, "Good")):
        seen = credit(positive=positive, threshold=0.3)
        _, said = fit_and_score(seen.model, seen, train, train, seed=0, name="all")
        assert ((said["prediction"] == of) == (said[f"proba_{of}"] >= 0.3)).all()


def test_a_confusion_counts_every_test_row_once_and_says_its_thresholds() -> None:
    seen = credit(threshold="tuned")
    frames = [
        fit_and_score(seen.model, seen, train, test, seed=0, name="f", fold=i)[1]
        for i, (train, test) in enumerate(StratifiedKFold(3).split(seen.X, seen.y))
    ]
    said = pd.concat(frames)
    made = Confusion.of(seen, said)
    assert made is not None
    assert made.classes == ["Bad", "Good"]
    assert made.counts == confusion_matrix(said["y"], said["prediction"]).tolist()
    assert made.thresholds is not None
    assert 0 < made.thresholds[0] <= made.thresholds[1] < 1
    folds = {"repeat": 0, "fold": [0] * 4 + [1] * 4, "proba_Good": [0.1, 0.3, 0.5, 0.9, 0.2, 0.4, 0.8, 0.9]}
    told = pd.DataFrame({**folds, "prediction": ["Bad", "Bad", "Good", "Good"] * 2})
    assert thresholds(seen, told) == pytest.approx((0.4, 0.6)), "midway between the last no and the first yes"
    plain = Confusion.of(credit(), said)
    assert plain is not None
    assert plain.thresholds is None
    assert Confusion.of(Problem.of(DIABETES, ModelSpec(estimator=RIDGE), "target"), said) is None


def test_a_rate_of_one_class_needs_two() -> None:
    with pytest.raises(ModelError, match="it is of one of two classes, and there are 3; choose recall_macro"):
        problem(WINE, "target", metrics=["specificity"])


def test_a_positive_class_that_cannot_be_is_said_so() -> None:
    with pytest.raises(ModelError, match=r"^positive is 'Ugly', and the target holds 2 classes \('Bad', 'Good'\)\.$"):
        credit(positive="Ugly")
    # Where none is named it is 1, wherever it stands among the two.
    assert [positive_class(two, None) for two in ((0, 1), (1, 2), ("a", "b"))] == [1, 1, "b"]
    with pytest.raises(ModelError, match="positive names one of two classes, and the target holds numbers"):
        Problem.of(CREDIT, ModelSpec(positive="Bad", features=["z"]), "x")
    assert metric_of("recall of x").one_sided is METRICS["recall"].one_sided is True


class Picks(BaseEstimator):
    """Of another module than scikit-learn's: it may look for columns by name."""


NAMELESS: list[Any] = [
    make_pipeline(StandardScaler(), OneHotEncoder(), LogisticRegression()),
    ColumnTransformer([("scaled", StandardScaler(), [0, 1])]),
    HistGradientBoostingRegressor(categorical_features=[0], monotonic_cst=[0, 1]),
    VotingRegressor([("one", LinearRegression())]),
]
NAMING: list[Any] = [
    make_pipeline(Picks(), LogisticRegression()),
    ColumnTransformer([("scaled", StandardScaler(), ["a", "b"])]),
    ColumnTransformer([("scaled", StandardScaler(), make_column_selector("a"))]),
    make_pipeline(FunctionTransformer(abs), LogisticRegression()),
    HistGradientBoostingRegressor(categorical_features=np.array(["a"])),
    HistGradientBoostingRegressor(monotonic_cst={"b": 1}),
    VotingRegressor([("one", HistGradientBoostingRegressor(interaction_cst=[{"a", "b"}]))]),
]


@pytest.mark.parametrize(("estimator", "named"), [(e, False) for e in NAMELESS] + [(e, True) for e in NAMING])
def test_a_frame_is_given_where_any_part_may_read_names(estimator: Any, named: bool) -> None:
    """One part of somebody else's is enough, or a parameter with a name or a function; the others take an array."""
    assert reads_names(estimator, ["a", "b"]) is named


def test_without_a_threshold_half_the_probability_decides() -> None:
    """Lowest and highest are one number where no fold has its own; a given one is told as it is."""
    for given, wanted in ({}, 0.5), ({"threshold": 0.2}, 0.2):
        made = problem(CANCER, "target", estimator=LOGISTIC, **given)
        assert thresholds(made, pd.DataFrame()) == (wanted, wanted)


class Said:
    """A model that has said what it says."""

    def __init__(self, predicted: Any) -> None:
        self.predicted = predicted

    def predict(self, rows: Any) -> Any:
        return self.predicted


def test_the_error_without_information_is_that_of_all_pairs() -> None:
    """Each target beside each prediction, by their weights, ties and values beyond each other's range among them."""
    draw = np.random.default_rng(0)
    y, predicted, weights = draw.normal(size=40).round(1), draw.normal(size=40).round(1) * 3, draw.uniform(size=40)
    y[:2] = -20, 20
    wanted = np.average(np.average(np.abs(y[:, None] - predicted), axis=1, weights=weights), weights=weights)
    assert of_distances(Answered(Said(predicted), y, weights=weights)) == pytest.approx(-wanted)


def test_merged_blocks_of_draws_are_one_table() -> None:
    """In the blocks' order, with positions of its own."""
    blocks = [DrawScores(pd.DataFrame({"draw": draws}), {}) for draws in ([0, 1], [2], [3, 4])]
    assert DrawScores.merge(blocks).table.equals(pd.DataFrame({"draw": range(5)}))

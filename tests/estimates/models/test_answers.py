"""What fitted models answer is read by the classes that they know, in whatever order and shape they give it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER_ROWS, LOGISTIC, WINE_ROWS
from evenfold.estimates import Answered, ModelError, ModelSpec, Problem, fit_and_score, score_draws
from evenfold.estimates.metrics.record import Responses
from evenfold.estimates.metrics.scoring import score
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score


def test_training_and_test_may_lack_different_classes() -> None:
    y = np.array(["a", "b", "c"] * 40)
    y[::5] = ["a", "b", "d"] * 8
    table = pd.DataFrame({"x": np.arange(120) % 7, "y": y})
    metrics = ("neg_log_loss", "neg_brier_score")
    problem = Problem.of(table, ModelSpec(estimator=LOGISTIC, metrics=metrics), "y")
    test = np.arange(0, 120, 5)
    train = np.setdiff1d(np.arange(120), test)
    made, frame = fit_and_score(problem, train, test, seed=0, name="fold 0")
    said = frame[["proba_a", "proba_b", "proba_c", "proba_d"]]
    assert made.test["neg_log_loss"] == pytest.approx(-log_loss(frame["y"], said, labels=problem.classes))
    assert made.test["neg_brier_score"] == pytest.approx(-brier_score_loss(frame["y"], said, labels=problem.classes))
    assert made.test["neg_log_loss"] < -12, "a class that was never seen has probability 0"
    drawn = score_draws(problem, [(0, (train, test))], seed=0)
    assert {metric: drawn.table[metric][0] for metric in metrics} == pytest.approx(made.test)


@pytest.mark.parametrize("metric", ["roc_auc_ovr", "roc_auc_ovo_weighted"])
def test_an_area_of_a_class_that_training_lacks_counts_it_as_unknown(metric: str) -> None:
    """Its column is 0, in a fold as in a draw; where the test lacks a class that training knows, there is no area."""
    y = np.array(["a", "b", "c", "d"] * 30)
    problem = Problem.of(
        pd.DataFrame({"x": np.arange(120) % 7, "y": y}), ModelSpec(estimator=LOGISTIC, metrics=(metric,)), "y"
    )
    test = np.r_[np.arange(0, 60), np.flatnonzero(y == "d")[15:]]
    train = np.setdiff1d(np.arange(120), test)
    made, frame = fit_and_score(problem, train, test, seed=0, name="fold 0")
    how = {"multi_class": "ovr"} if metric == "roc_auc_ovr" else {"multi_class": "ovo", "average": "weighted"}
    said = frame[[f"proba_{label}" for label in "abcd"]]
    assert made.test[metric] == pytest.approx(roc_auc_score(frame["y"], said, labels=["a", "b", "c", "d"], **how))
    drawn = [(0, (train, test)), (1, (train, test[y[test] != "c"]))]
    assert score_draws(problem, drawn, seed=0).table[metric].tolist() == pytest.approx(
        [made.test[metric], float("nan")], nan_ok=True
    )


class Backwards(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Lists its classes from the last to the first, and answers in that order."""

    def fit(self, X: Any, y: Any) -> Any:
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def predict(self, X: Any) -> Any:
        return self.inner_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.inner_.predict_proba(X)[:, ::-1]

    def decision_function(self, X: Any) -> Any:
        said = self.inner_.decision_function(X)
        return -said if said.ndim == 1 else said[:, ::-1]


@pytest.mark.parametrize("table", [CANCER_ROWS, WINE_ROWS], ids=["two classes", "three"])
def test_an_estimator_may_list_its_classes_in_any_order(table: pd.DataFrame) -> None:
    X, y = table.drop(columns="target").to_numpy(), table["target"].to_numpy()
    X, classes = (X - X.mean(axis=0)) / X.std(axis=0), tuple(np.unique(y).tolist())
    sorts, other = (Responses.of(kind().fit(X, y), X) for kind in (LogisticRegression, Backwards))
    metrics = ["neg_log_loss", "neg_brier_score", *(["roc_auc"] if len(classes) == 2 else ["roc_auc_ovr"])]
    expected = [score(metric, Answered(sorts, y)) for metric in metrics]
    assert [score(metric, Answered(other, y)) for metric in metrics] == pytest.approx(expected)
    wanted, made = (Answered(answers, y, classes).probabilities for answers in (sorts, other))
    np.testing.assert_allclose(made, wanted)
    np.testing.assert_allclose(other.say("decision_function"), sorts.say("decision_function"))


class Unsure(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts a label of its own, and knows the others."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.array(["maybe", *["no"] * (len(X) - 1)], dtype=object)


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro"])
def test_a_label_that_the_target_lacks_is_an_error_of_the_fit_or_draw_that_predicts_it(metric: str) -> None:
    table = pd.DataFrame({"x": np.arange(20.0), "y": ["no", "yes"] * 10})
    problem = Problem.of(table, ModelSpec(estimator=f"{__name__}:Unsure", metrics=(metric,)), "y")
    pair = np.arange(5, 20), np.arange(5)
    said = "1 of 5 labels is not among 2 classes .*'no', 'yes'.*, such as 'maybe'; .* predicts no others"
    with pytest.raises(ModelError, match=f"^fold 3: {said}"):
        fit_and_score(problem, *pair, seed=0, name="fold 3")
    with pytest.raises(ModelError, match=f"^draw 7: {said}"):
        score_draws(problem, [(7, pair)], seed=0)

"""What each class comes to: the confusion, metrics of one class of two, and the threshold between them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import DIABETES_ROWS, LOGISTIC, RIDGE, WINE_ROWS, problem
from evenfold.estimates import (
    METRICS,
    Confusion,
    ModelError,
    ModelSpec,
    Problem,
    aggregate,
    fit_and_score,
    metric_of,
    score_draws,
)
from evenfold.estimates.metrics.scoring import positive_class
from evenfold.estimates.results import thresholds
from evenfold.splitters import StratifiedKFold
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
)

CREDIT = pd.DataFrame({"x": [*np.linspace(-2, 1, 120), *np.linspace(-1, 2, 60)], "z": np.arange(180) % 7})
CREDIT["risk"] = ["Good"] * 120 + ["Bad"] * 60
OF_ONE = ("recall", "precision", "f1", "average_precision", "sensitivity", "specificity", "brier", "auc")


def credit(**model: Any) -> Problem:
    return Problem.of(CREDIT, ModelSpec(estimator=LOGISTIC, metrics=OF_ONE, **model), "risk")


def test_metrics_of_one_class_say_which_and_equal_scikit_learns() -> None:
    seen, of, other = credit(positive="Bad"), "Bad", "Good"
    train, test = np.arange(0, 180, 2), np.arange(1, 180, 2)
    score, said = fit_and_score(seen, train, test, seed=0, name="half")
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
    estimates = {each.metric: each for each in aggregate([score], said, seen)}
    assert all(estimates[name].value == pytest.approx(value) for name, value in score.test.items())
    assert all(estimates[f"{name} of {of}"].interval is not None for name in ("recall", "f1", "specificity"))
    assert metric_of(f"recall of {of}").title == f"recall of {of}"
    draws = score_draws(seen, [(0, (train, test))], seed=0)
    assert draws.table.loc[0, f"specificity of {of}"] == pytest.approx(score.test[f"specificity of {of}"])


def test_numbers_keep_scikit_learns_names_unless_a_class_is_named() -> None:
    numbers = CREDIT.assign(risk=(CREDIT["risk"] == "Bad").astype(int))
    plain = Problem.of(numbers, ModelSpec(estimator=LOGISTIC, metrics=["recall", "specificity"]), "risk")
    assert plain.model.metrics == ("recall", "specificity")
    score, said = fit_and_score(plain, np.arange(0, 180, 2), np.arange(1, 180, 2), seed=0, name="half")
    y, called = said["y"], said["prediction"]
    assert score.test["recall"] == recall_score(y, called)
    assert score.test["specificity"] == recall_score(y, called, pos_label=0)
    named = Problem.of(numbers, ModelSpec(estimator=LOGISTIC, metrics=["recall"], positive=0), "risk")
    assert named.model.metrics == ("recall of 0",)


def test_a_yes_that_yaml_reads_as_true_is_the_class_that_says_so() -> None:
    answers = CREDIT.assign(risk=np.where(CREDIT["risk"] == "Bad", "Yes", "No"))
    assert [Problem.of(answers, ModelSpec(positive=p), "risk").positive for p in (True, False)] == ["Yes", "No"]


def test_a_threshold_is_of_the_positive_class() -> None:
    """From .3 on a row is called Bad; by default it would be called Good from there on."""
    train = np.arange(180)
    for positive, of in (("Bad", "Bad"), (None, "Good")):
        seen = credit(positive=positive, threshold=0.3)
        _, said = fit_and_score(seen, train, train, seed=0, name="all")
        assert ((said["prediction"] == of) == (said[f"proba_{of}"] >= 0.3)).all()


def test_a_rate_of_one_class_needs_two() -> None:
    with pytest.raises(ModelError, match="it is of one of two classes, and there are 3; choose recall_macro"):
        problem(WINE_ROWS, "target", metrics=["specificity"])


def test_a_positive_class_that_cannot_be_is_said_so() -> None:
    with pytest.raises(ModelError, match=r"^positive is 'Ugly', and the target holds 2 classes \('Bad', 'Good'\)\.$"):
        credit(positive="Ugly")
    # Where none is named it is 1, wherever it stands among the two.
    assert [positive_class(two, None) for two in ((0, 1), (1, 2), ("a", "b"))] == [1, 1, "b"]
    with pytest.raises(ModelError, match="positive names one of two classes, and the target holds numbers"):
        Problem.of(CREDIT, ModelSpec(positive="Bad", features=["z"]), "x")
    assert metric_of("recall of x").one_sided is METRICS["recall"].one_sided is True


def test_a_confusion_counts_every_test_row_once_and_says_its_thresholds() -> None:
    seen = credit()
    fits = [
        fit_and_score(seen, train, test, seed=0, name="f", fold=i)[1]
        for i, (train, test) in enumerate(StratifiedKFold(3).split(seen.X, seen.y))
    ]
    said = pd.concat(fits)
    made = Confusion.of(seen, said)
    assert (made.classes, made.thresholds) == (["Bad", "Good"], None)
    assert made.counts == confusion_matrix(said["y"], said["prediction"]).tolist()
    low, high = Confusion.of(credit(threshold="tuned"), said).thresholds
    assert 0 < low <= high < 1
    folds = {"repeat": 0, "fold": [0] * 4 + [1] * 4, "proba_Good": [0.1, 0.3, 0.5, 0.9, 0.2, 0.4, 0.8, 0.9]}
    told = pd.DataFrame({**folds, "prediction": ["Bad", "Bad", "Good", "Good"] * 2})
    assert thresholds(credit(threshold="tuned"), told) == pytest.approx((0.4, 0.6)), "midway between a no and a yes"
    assert thresholds(credit(), pd.DataFrame()) == (0.5, 0.5), "where none is given half the probability decides"
    assert thresholds(credit(threshold=0.2), pd.DataFrame()) == (0.2, 0.2)
    assert Confusion.of(Problem.of(DIABETES_ROWS, ModelSpec(estimator=RIDGE), "target"), said) is None
    for n in (20, 21):
        rows = pd.DataFrame({"x": range(n), "y": [f"class {i}" for i in range(n)]})
        made = Confusion.of(Problem.of(rows, ModelSpec(estimator=LOGISTIC), "y"), rows.assign(prediction=rows["y"]))
        assert (made is None) == (n == 21), "more than twenty are no table to look at"

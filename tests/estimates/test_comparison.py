"""Comparisons are paired, and say what they are a comparison of."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from evaluations import CANCER, CANCER_FRAMES, DIABETES, DIABETES_FRAMES, LOGISTIC, evaluated, of_rows
from evenfold.estimates import (
    ModelError,
    ModelSpec,
    Problem,
    compare,
    pooled_interval,
)
from evenfold.splitters import StratifiedKFold
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score


def frame_of(y: Any, prediction: Any, fold: Any = 0, **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"row": range(len(y)), "repeat": 0, "fold": fold, "y": y, "prediction": prediction, **more})


def test_a_paired_difference_by_hand() -> None:
    """B is right on one row more of four; the paired differences are 0, 0, 1, 0."""
    y = ["no", "yes", "no", "yes"]
    made = compare(frame_of(y, ["no", "yes", "yes", "no"]), frame_of(y, ["no", "yes", "no", "no"]), "accuracy")
    assert (made.a, made.b, made.difference, made.n_rows) == (0.5, 0.75, 0.25, 4)
    by_hand = pooled_interval([0, 0, 1, 0])
    assert made.interval is not None
    assert (made.interval.low, made.interval.high) == pytest.approx((by_hand.low, by_hand.high))
    assert made.test is None
    assert made.words == ("These rows cannot tell: accuracy of B minus that of A is 0.25, 95% [-0.546, 1.05].")


def test_the_order_of_rows_does_not_matter() -> None:
    """Rows are joined by key."""
    a, b = CANCER_FRAMES[0], CANCER_FRAMES[0].assign(prediction=1)
    assert compare(a, b, "accuracy") == compare(a.iloc[::-1], b.sample(frac=1, random_state=0), "accuracy")


def test_a_clear_winner_is_named_with_what_it_saves() -> None:
    """Fewer errors on the same rows, and a test by folds."""
    worse = Problem.of(
        load_breast_cancer(as_frame=True).frame,
        ModelSpec(estimator=LOGISTIC, features=("mean texture", "mean smoothness")),
        "target",
    )
    _, frames = evaluated(worse, list(StratifiedKFold(5).split(CANCER.X, CANCER.y)))
    made = compare(pd.concat(frames), pd.concat(CANCER_FRAMES), "accuracy", names=("small", "big"), stratified=True)
    assert made.words.startswith("big is better by 0.2")
    assert made.words.endswith("fewer errors on the same rows.")
    assert made.test is not None
    assert made.test.p < 0.01
    assert "stratified" in made.test.notes[0]
    auc = compare(pd.concat(frames), pd.concat(CANCER_FRAMES), "roc_auc")
    assert auc.b == pytest.approx(roc_auc_score(*pd.concat(CANCER_FRAMES)[["y", "proba_1"]].to_numpy().T))
    assert auc.interval is not None
    assert auc.interval.low > 0


def test_a_pair_is_sharper_than_two_intervals() -> None:
    """What is hard for both cancels out."""
    a = pd.concat(DIABETES_FRAMES)
    b = a.assign(prediction=a["prediction"] * 0.98 + 2)
    paired = compare(a, b, "neg_mean_squared_error").interval
    alone = of_rows("neg_mean_squared_error", a, DIABETES)
    assert paired is not None
    assert paired.high - paired.low < 0.2 * (alone.high - alone.low)


def test_rows_of_one_run_only_are_left_out_and_said() -> None:
    """Growing data: the shared rows are compared."""
    a, b = frame_of(list("nyny"), list("nyyn")), frame_of(list("nyny"), list("nyny")).iloc[:3]
    made = compare(a, b, "accuracy")
    assert made.n_rows == 3
    assert made.notes == ("Compared on the 3 shared rows of 4 in A and 3 in B.",)


def test_groups_make_the_comparison_cluster_robust() -> None:
    """Rows of a group err together, in the difference as well."""
    a = pd.concat(DIABETES_FRAMES).assign(clinic=lambda frame: frame["row"] // 20)
    made = compare(a, a.assign(prediction=a["y"].mean()), "neg_mean_squared_error", groups="clinic")
    assert made.interval is not None
    assert made.interval.method == "pooled rows, cluster-robust"


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            frame_of(list("ny"), list("ny")),
            frame_of(list("yy"), list("ny")),
            "the target differs in 1 of 2 shared rows; compare runs on the same data.",
        ),
        (
            frame_of(list("ny"), list("ny")),
            frame_of(list("ny"), list("ny")).assign(row=[7, 8]),
            "A and B share no row by row; compare runs of the same split.",
        ),
        (
            frame_of(list("ny"), list("ny")).assign(row=0),
            frame_of(list("ny"), list("ny")),
            "1 rows of A have the same row, repeat; a key names one row.",
        ),
    ],
)
def test_runs_that_cannot_be_compared_get_a_sentence(a: Any, b: Any, message: str) -> None:
    """Rather than a number."""
    with pytest.raises(ModelError) as raised:
        compare(a, b, "accuracy")
    assert str(raised.value) == message


def test_other_folds_leave_out_the_test_by_folds() -> None:
    """And say why."""
    a = frame_of(list("nynynyny"), list("nynynyyn"), fold=[0, 0, 0, 0, 1, 1, 1, 1])
    b = frame_of(list("nynynyny"), list("nynynyny"), fold=[0, 1] * 4)
    made = compare(a, b, "accuracy")
    assert made.test is None
    assert made.notes[0].startswith("The folds differ")

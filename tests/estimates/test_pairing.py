"""Rows that two runs share: a class that only one knows is a class, and what several splits test is no further row."""

from dataclasses import astuple
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER, CANCER_FRAMES, DIABETES, DIABETES_FRAMES, DIABETES_SCORES, frame_of, normals
from evenfold.estimates import (
    METRICS,
    Evidence,
    ModelError,
    Problem,
    choose,
    compare,
    corrected_resampled_t,
    interval_for,
)
from evenfold.estimates.intervals.methods import standard_error
from evenfold.estimates.intervals.pairing import classes_of, paired
from evenfold.estimates.metrics.record import codes_of
from evenfold.splitters import ShuffleSplit

CANCER_ONCE = pd.concat(CANCER_FRAMES).query("row < 90")  # few rows are scored faster
DIABETES_ONCE = pd.concat(DIABETES_FRAMES)
MAE = "neg_mean_absolute_error"
EVALUATED = [("roc_auc", CANCER, CANCER_ONCE), ("accuracy", CANCER, CANCER_ONCE), (MAE, DIABETES, DIABETES_ONCE)]


def of_folds(y: Any, prediction: Any, **columns: Any) -> pd.DataFrame:
    return frame_of(y, prediction, np.arange(len(y)) % 5, **columns)


@pytest.mark.parametrize(
    ("truth", "wrong", "said"),
    [(["a", "c"], "c", "b"), (["no", "up"], "no", "not sure"), ([1, 3], 3, 2), ([1, 3], 1, 1.5), ([0, 1], 1, -1)],
)
def test_a_class_that_no_row_is_of_is_a_wrong_prediction(truth: list[Any], wrong: Any, said: Any) -> None:
    y = np.array(truth * 50)
    wrong_half = pd.Series(y).astype(object).where(y != wrong, said).infer_objects()
    made = compare(of_folds(y, wrong_half), of_folds(y, y), "accuracy")
    assert (made.a, made.b) == (0.5, 1.0)
    assert "A alone is right on 0 rows and B alone on 50" in made.notes[0]
    assert made.se[0] > 0.04


def test_the_probabilities_of_a_class_that_no_row_is_of_count() -> None:
    rng, y = np.random.default_rng(0), np.array(["a", "c"] * 50)
    chances = rng.dirichlet([2, 2, 2], 100)
    three = {f"proba_{label}": chances[:, j] for j, label in enumerate("abc")}
    two = {"proba_a": chances[:, 0] + chances[:, 1], "proba_c": chances[:, 2]}
    frames = of_folds(y, y, **three), of_folds(y, y, **two)
    for metric in ("neg_log_loss", "neg_brier_score"):
        found, given = (compare(*frames, metric, classes=each) for each in (None, ("a", "b", "c")))
        assert (found.a, found.b, found.se) == (given.a, given.b, given.se)
    lost = -np.log(np.where(y == "a", two["proba_a"], two["proba_c"]))
    assert compare(*frames, "neg_log_loss").b == pytest.approx(-lost.mean())
    with pytest.raises(ModelError, match=r"roc_auc_ovr is undefined on these 100 rows: Number of classes in y_true"):
        compare(*frames, "roc_auc_ovr")


@pytest.mark.parametrize(
    ("own", "labels"), [("proba_max", ("no", "perhaps", "yes")), ("decision_threshold", ("no", "yes"))]
)
def test_a_column_of_ones_own_is_no_class(own: str, labels: tuple[str, ...]) -> None:
    rng, y = np.random.default_rng(0), np.array(labels)[np.arange(45) % len(labels)]
    chances = rng.dirichlet([2] * len(labels), 45)
    frame = of_folds(y, y, **{f"proba_{label}": chances[:, j] for j, label in enumerate(labels)})
    for plain in (frame, of_folds(y, y)):
        given = plain.assign(**{own: 0.3})
        assert compare(given, plain, "matthews_corrcoef") == compare(plain, plain, "matthews_corrcoef")
        assert classes_of("accuracy", given, plain, ("A", "B")) == labels


@pytest.mark.parametrize(
    ("labels", "classes", "said"),
    [
        (["no", "not sure", "up"], ("no", "up"), "1 of 3 labels is not among 2 classes ('no', 'up'), such as 'not "),
        ([1.0, 1.5, np.nan], (1, 2), "2 of 3 labels are not among 2 classes (1, 2), such as 1.5"),
    ],
)
def test_a_label_that_is_no_class_is_refused(labels: Any, classes: Any, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        codes_of(np.asarray(labels), classes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([True, False], dtype=object), (False, True)),
        (np.array([1.0, 0.0]), (0, 1)),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (np.array([1.0, 0.0]), ("0.0", "1.0")),
        (np.array([0.2, 0.1], dtype=np.float32), (0.1, 0.2)),
    ],
)
def test_a_label_is_the_class_that_it_equals(labels: Any, classes: Any) -> None:
    assert codes_of(labels, classes).tolist() == [1, 0]


def test_labels_of_two_kinds_are_refused() -> None:
    y = np.array([0, 1] * 10)
    with pytest.raises(ModelError, match="A and B name classes by numbers and by text"):
        compare(of_folds(y, y.astype(str)), of_folds(y, y), "accuracy")


def test_an_interval_that_is_nothing_but_0_names_no_winner_and_is_equivalent_within_any_margin() -> None:
    """One recipe compared with itself: its difference is 0, and quite sure."""
    a = frame_of(np.arange(40) % 2, np.arange(40) % 3 % 2, np.arange(40) % 5)
    made, within = compare(a, a, "accuracy"), compare(a, a, "accuracy", margin=1e-9)
    assert (made.interval.low, made.interval.high) == (0.0, 0.0)
    assert (made.verdict, within.verdict) == ("unknown", "equivalent")


def test_either_end_beyond_the_margin_leaves_it_open_whether_recipes_are_equivalent() -> None:
    y = normals(200)
    a, b = (frame_of(y, y + error, np.arange(200) % 5) for error in (normals(200, 1), 1.03 * normals(200, 2)))
    for first, second in ((a, b), (b, a)):
        made = compare(first, second, "mse")
        nearer, farther = sorted((-made.interval.low, made.interval.high))
        assert 0 < nearer < farther
        assert compare(first, second, "mse", margin=(nearer + farther) / 2).verdict == "unknown"
        assert compare(first, second, "mse", margin=farther * 1.01).verdict == "equivalent"


def test_the_test_by_folds_takes_the_rows_of_other_folds_for_training_rows() -> None:
    """Of 200 rows in 5 folds each model learnt from 160; one group of rows is no sample of groups."""
    y = normals(200)
    a, b = (frame_of(y, y + normals(200, seed), np.arange(200) % 5) for seed in (1, 2))
    made = compare(a, b, "mae")
    apart = (np.abs(a["prediction"] - y) - np.abs(b["prediction"] - y)).groupby(a["fold"]).mean()
    assert made.test.se == pytest.approx(corrected_resampled_t(apart, 160.0, 40.0).se)
    narrow = compare(a, b, "mae", level=0.8).test
    wanted = corrected_resampled_t(apart, 160.0, 40.0, level=0.8).interval
    assert (narrow.interval.low, narrow.interval.high) == pytest.approx((wanted.low, wanted.high))
    alone = compare(a.assign(group=0, fold=0), b.assign(group=0, fold=0), "mae")
    assert (alone.interval, alone.p, alone.notes) == (None, None, ())


def test_rows_of_either_run_alone_are_left_out_wherever_they_stand() -> None:
    y = normals(60)
    a, b = (frame_of(y, y + normals(60, seed), np.arange(60) % 5) for seed in (1, 2))
    made = compare(a.tail(50), b.head(55), "mae")
    assert made.difference == compare(a.iloc[10:55], b.iloc[10:55], "mae").difference
    assert made.notes[0] == "Compared on the 45 shared rows of 50 in A and 55 in B."
    assert compare(b.head(55), a.tail(50), "mae").difference == -made.difference


def test_the_first_tests_of_a_row_stand_beside_one_another_and_each_repeat_weighs_something() -> None:
    a, b = (pd.concat([frame_of([1.0, 2.0], [1.5, 2.5], fold) for fold in range(n)]) for n in (2, 3))
    left, right, _ = paired(a, b, ["row"], ("A", "B"))
    assert left["fold"].tolist() == right["fold"].tolist() == [0, 1, 0, 1]
    nothing = [frame_of([1.0, 2.0], [1.5, 2.5], weight=float(1 - i)).assign(repeat=i) for i in range(2)]
    with pytest.raises(ModelError, match="the weights of A are 0 on all shared rows of a repeat"):
        paired(pd.concat(nothing), pd.concat(nothing), ["row"], ("A", "B"))


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    """Return predictions of which five more folds say the same again."""
    return pd.concat([frame, frame.assign(fold=frame["fold"] + 5)])


def worse(frame: pd.DataFrame) -> pd.DataFrame:
    """Return predictions of which every seventh is that of the row before."""
    said = [name for name in frame if str(name).startswith(("prediction", "proba", "decision"))]
    places = np.arange(len(frame))
    return frame.assign(**frame[said].iloc[places - (places % 7 == 6)].set_index(frame.index))


@pytest.mark.parametrize(("metric", "problem", "frame"), EVALUATED)
def test_a_bootstrap_draws_a_row_with_all_its_tests(metric: str, problem: Problem, frame: pd.DataFrame) -> None:
    about = (Evidence(METRICS[metric], problem, predictions=each) for each in (frame, twice(frame)))
    once, again = (interval_for(evidence, "bootstrap") for evidence in about)
    assert (again.low, again.high) == pytest.approx((once.low, once.high))


def test_the_tests_of_a_row_err_together() -> None:
    rng, splits = np.random.default_rng(0), ShuffleSplit(8, train_size=0.5).split(DIABETES.X)
    frame = pd.concat(
        [DIABETES_ONCE.sort_values("row").iloc[test].assign(fold=i) for i, (_, test) in enumerate(splits)]
    )
    frame["prediction"] += 20 * rng.normal(size=len(frame))
    lost = (frame["y"] - frame["prediction"]).abs()
    se, _ = standard_error((lost - lost.mean()).to_numpy(), pd.factorize(frame["row"])[0])
    found: Any = Evidence(METRICS[MAE], DIABETES, DIABETES_SCORES, frame).influence
    assert found[0] == pytest.approx(-lost.mean())
    assert standard_error(found[1], found[2])[0] == pytest.approx(se, rel=1e-3)


# R2 is no mean over rows, as little as an area under a curve, and scored six times as fast.
@pytest.mark.parametrize(
    ("metric", "problem", "frame"), [("r2", DIABETES, DIABETES_ONCE.query("row < 90")), *EVALUATED[1:]]
)
def test_a_choice_is_worth_the_same_however_often_its_rows_are_tested(
    metric: str, problem: Problem, frame: pd.DataFrame
) -> None:
    tried = [worse(frame), frame]
    once, again = (
        choose(metric, problem, [each(one) for one in tried], np.zeros((2, 5))) for each in (pd.DataFrame, twice)
    )
    assert astuple(again)[2:6] == pytest.approx(astuple(once)[2:6])
    assert once.chosen == 1


@pytest.mark.parametrize(("metric", "problem", "frame"), EVALUATED)
def test_a_comparison_is_of_rows_however_often_each_is_tested(
    metric: str, problem: Problem, frame: pd.DataFrame
) -> None:
    once, again = (compare(each(frame), each(worse(frame)), metric) for each in (pd.DataFrame, twice))
    assert (again.a, again.difference, again.p) == pytest.approx((once.a, once.difference, once.p))
    assert again.se == pytest.approx(once.se)
    assert again.n_rows == once.n_rows == len(frame)
    assert not [note for note in again.notes if "McNemar" in note]  # it is of rows that were tested once


def test_each_repeat_counts_in_a_comparison_with_the_rows_that_it_tested() -> None:
    again = DIABETES_ONCE[DIABETES_ONCE["row"] < 60].assign(repeat=1)
    a = pd.concat([DIABETES_ONCE, again.assign(prediction=again["prediction"] * 0.9)])
    b = a.assign(prediction=a["prediction"] + np.random.default_rng(1).normal(0, 6, len(a)))
    made = compare(a, b, MAE)
    errors = [frame.assign(error=-abs(frame["y"] - frame["prediction"])) for frame in (a, b)]
    assert [made.a, made.b] == pytest.approx([each.groupby("repeat")["error"].mean().mean() for each in errors])
    scores = [each.groupby(["repeat", "fold"])["error"].mean() for each in errors]
    tested = a.groupby(["repeat", "fold"]).size()
    wanted = corrected_resampled_t(scores[1] - scores[0], tested.groupby("repeat").transform("sum") - tested, tested)
    assert made.test.se == pytest.approx(wanted.se)
    assert made.verdict == "unknown"
    assert not any("repeats" in note for note in made.notes)


def test_a_key_that_names_two_rows_is_refused_whatever_their_folds() -> None:
    first = DIABETES_ONCE.sort_values("row")
    frame = first.assign(row=first["row"] // 2, fold=first["row"] % 2)
    others = int((first["y"].to_numpy()[::2] != first["y"].to_numpy()[1::2]).sum())
    with pytest.raises(ModelError, match=rf"{others} rows of A have the same row, repeat and another target; a key"):
        compare(frame, frame, MAE)

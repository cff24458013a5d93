"""Rows that several splits of one repeat test, as random splits do, are no further rows."""

from dataclasses import astuple
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER, CANCER_FRAMES, DIABETES, DIABETES_FRAMES, DIABETES_SCORES
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
from evenfold.splitters import ShuffleSplit

CANCER_ONCE = pd.concat(CANCER_FRAMES).query("row < 90")  # few rows are scored faster
DIABETES_ONCE = pd.concat(DIABETES_FRAMES)
MAE = "neg_mean_absolute_error"
EVALUATED = [("roc_auc", CANCER, CANCER_ONCE), ("accuracy", CANCER, CANCER_ONCE), (MAE, DIABETES, DIABETES_ONCE)]


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

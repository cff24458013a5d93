"""Studies of the split itself say what they are about to do, and find what stratifying is known to do."""

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER
from evenfold.estimates import ModelSpec, Problem, fold_count_study, stratification_study
from evenfold.estimates.studies import _ways, ratio_ends
from evenfold.reports.evaluations.studies import strategy_words
from evenfold.splitters import SplitError


def test_sorted_folds_make_a_hold_out_steadier_and_progress_is_counted() -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"x": draw.normal(size=200), "y": draw.lognormal(size=200)})
    model = ModelSpec(estimator="sklearn.dummy:DummyRegressor", metrics=("neg_mean_absolute_error",))
    told: list[tuple[int, int]] = []
    ratios = stratification_study(
        Problem.of(table, model, "y"), n_splits=4, n_seeds=10, strategy="SortedStratifiedKFold",
        say=lambda *each: told.append(each),
    ).set_index("way")  # fmt: skip
    assert told == [(done, 200) for done in range(0, 201, 4)]
    assert ratios.loc["SortedStratifiedKFold"].equals(ratios.loc["sorted"])  # the strategy that was asked for
    assert (ratios.loc["random", ["hold_out", "fold_mean", "pooled"]] == 1).all()
    assert ratios.loc["sorted", "hold_out"] < 0.3
    assert [*_ways(CANCER)] == ["random", "stratified"]
    ways, tenths = _ways(Problem.of(table, model, "y")), table["y"].rank().to_numpy() // 20.01
    assert np.bincount(ways["fractional"](4, 0)).tolist() == [50] * 4
    assert (pd.crosstab(tenths, ways["binned"](4, 0)) == 5).all(axis=None)


def test_a_ratio_of_variances_says_how_uncertain_it_is() -> None:
    """The F interval holds 1 in 95 of 100 cases where both ways vary alike, and the sentence does not decide then."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        a, b = rng.normal(size=(2, 20)).var(axis=1, ddof=1)
        low, high = ratio_ends(a / b, 20)
        held += low <= 1 <= high
    assert 0.93 < held / 2000 < 0.97
    few = {"metric": "r2", "way": ["random", "sorted"], "hold_out": 1.0, "pooled": 1.0, "partitions": 20}
    said = {ratio: strategy_words("r2", pd.DataFrame(few | {"fold_mean": [1.0, ratio]})) for ratio in (0.1, 0.7, 1.4)}
    assert said[0.1] == "R2: take sorted folds; their mean has 0.10 (0.04 to 0.25) of the variance of random ones"
    assert "cannot tell; the mean of sorted folds has 0.70 (0.28 to 1.77)" in said[0.7]
    assert said[1.4].startswith("R2: random folds will do; the steadiest other way, sorted, has 1.40")


def test_a_study_of_numbers_of_folds_is_refused_before_anything_is_fitted() -> None:
    """More folds than rows, or than groups, were refused after the fits of the numbers before them."""
    table = pd.DataFrame({"x": range(12), "y": np.arange(12) % 5 / 2, "g": np.arange(12) % 4})
    model = ModelSpec(estimator="sklearn.dummy:DummyRegressor", metrics=("mae",))
    told: list[tuple[int, int]] = []

    def study(counts: list[int], groups: str | None = None, strategy: str | None = None) -> pd.DataFrame:
        problem = Problem.of(table, model, "y", groups=groups)
        return fold_count_study(problem, counts, strategy=strategy, say=lambda *each: told.append(each))

    with pytest.raises(SplitError, match="n_splits=40 with 12 rows; choose 2 to 12"):
        study([2, 3, 40])
    with pytest.raises(SplitError, match="n_splits=5 with 4 groups"):
        study([3, 5], groups="g")
    with pytest.raises(SplitError, match="Bootstrap puts no row into one fold of 3; name a strategy of folds"):
        study([3], strategy="Bootstrap")
    assert told == []
    sorted_folds = study([2, 3], strategy="SortedStratifiedKFold")
    assert sorted_folds["n_splits"].tolist() == [2, 3]
    assert told == [(0, 5), (2, 5), (5, 5)]
    assert not sorted_folds.equals(study([2, 3]))

"""Intervals are their formulas, comparisons are paired, and a spread is never called an interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import (
    METRICS,
    Answered,
    EvaluationError,
    Evidence,
    FoldScore,
    Interval,
    ModelError,
    ModelSpec,
    Problem,
    aggregate,
    bias_corrected_best,
    bias_corrected_best_score,
    bootstrap_interval,
    compare,
    corrected_resampled_t,
    fit_and_score,
    influence_of,
    interval_for,
    nested_cv_interval,
    nested_interval,
    pooled_interval,
    resampled_interval,
    simplest_near_best,
)
from evenfold.estimates.intervals.rows import interval_of
from evenfold.estimates.metrics.responses import replay
from evenfold.splitters import KFold, StratifiedKFold, Stream
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import roc_auc_score

LOGISTIC = "evenfold.estimates:scaled_logistic_regression"
RIDGE = "sklearn.linear_model:Ridge"


def normals(n: int, seed: int = 0) -> Any:
    return stats.norm.ppf(Stream(seed).uniform(n) * 0.999999 + 5e-7)


# ---------------------------------------------------------------- pooled rows


def test_the_pooled_interval_by_hand() -> None:
    """Losses 0, 1, 1, 0: mean 1/2, sd .57735, t with 3 degrees of freedom 3.18245."""
    made = pooled_interval([0, 1, 1, 0])
    assert (made.low + made.high) / 2 == pytest.approx(0.5)
    assert (made.high - made.low) / 2 == pytest.approx(3.182446 * 0.5773503 / 2, abs=1e-6)
    assert made.method == "pooled rows"


def test_the_cluster_robust_interval_by_hand() -> None:
    """Two groups of deviations -1 and 1: se^2 = 2/1 x (1 + 1)/16, so se = 1/2."""
    made = pooled_interval([0, 0, 1, 1], groups=["a", "a", "b", "b"])
    assert (made.high - made.low) / 2 == pytest.approx(stats.t.ppf(0.975, 1) * 0.5)
    assert made.method == "pooled rows, cluster-robust"


def test_groups_of_one_row_change_nothing() -> None:
    """Each row its own group is no grouping."""
    losses = np.square(normals(50))
    alone, grouped = pooled_interval(losses), pooled_interval(losses, groups=np.arange(50))
    assert (alone.low, alone.high) == pytest.approx((grouped.low, grouped.high))


def test_rows_that_err_together_widen_the_interval() -> None:
    """Ten copies of each row are no new information."""
    losses, groups = np.repeat(normals(40), 10), np.repeat(np.arange(40), 10)
    alone, apart = pooled_interval(losses, groups), pooled_interval(losses)
    assert (alone.high - alone.low) / (apart.high - apart.low) == pytest.approx(10**0.5, rel=0.05)


def test_weights_count_as_a_weighted_mean() -> None:
    """Equal weights change nothing, and a weight of zero takes a row out of the mean."""
    losses = [0.0, 1.0, 1.0, 0.0]
    plain, equal = pooled_interval(losses), pooled_interval(losses, weights=[2, 2, 2, 2])
    assert (plain.low, plain.high) == pytest.approx((equal.low, equal.high))
    made = pooled_interval([*losses, 99.0], weights=[1, 1, 1, 1, 0])
    assert (made.low + made.high) / 2 == pytest.approx(0.5)


def test_one_row_or_one_group_has_no_interval() -> None:
    """Nothing varies."""
    with pytest.raises(ModelError, match="needs 2 independent rows or groups, and there is 1"):
        pooled_interval([0.0, 1.0], groups=["a", "a"])


# ---------------------------------------------------------------- bootstrap


@pytest.mark.parametrize("method", ["BCa", "percentile"])
def test_the_bootstrap_interval_is_scipys(method: str) -> None:
    """Same numbers as scipy on the values themselves."""
    values = np.square(normals(40))
    rng = np.random.Generator(np.random.Philox(3))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=499, method=method, rng=rng, vectorized=False)
    ours = bootstrap_interval(lambda rows: values[rows].mean(), 40, method=method, n_resamples=499, seed=3)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval))


def test_whole_groups_are_drawn() -> None:
    """Every resample holds each drawn group's rows all together."""
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 4])
    sizes = np.bincount(groups)

    def statistic(rows: Any) -> float:
        counts = np.bincount(rows, minlength=10)
        for group in range(5):
            assert len(set(counts[groups == group])) == 1
        assert (np.bincount(groups[rows], minlength=5) % sizes == 0).all()
        return float(rows.mean())

    made = bootstrap_interval(statistic, 10, groups, n_resamples=50)
    assert made.method == "BCa bootstrap of groups"


def test_bca_gives_way_to_percentiles_above_a_thousand_rows() -> None:
    """And the method's name says so."""
    assert bootstrap_interval(lambda rows: rows.mean(), 1001, n_resamples=20).method == "percentile bootstrap of rows"
    with pytest.raises(ModelError, match="method='bca'; choose 'BCa' or 'percentile'"):
        bootstrap_interval(lambda rows: 0.0, 10, method="bca")


def test_an_undefined_bootstrap_interval_says_how_often() -> None:
    """Never a silent NaN."""
    with pytest.raises(EvaluationError, match=r"the bootstrap interval is undefined: .* in 20 of 20 resamples"):
        bootstrap_interval(lambda rows: float("nan"), 10, method="percentile", n_resamples=20)
    made = bootstrap_interval(lambda rows: float("nan") if 0 not in rows else rows.mean(), 10, n_resamples=200)
    assert made.method == "percentile bootstrap of rows"
    assert made.notes[0].endswith("of 200 resamples, which are left out; so these are percentiles.")


# ---------------------------------------------------------------- corrected t and nested cross-validation


def test_the_corrected_t_by_hand() -> None:
    """Five differences of mean 3 and variance 2.5, a quarter tested: se^2 = 2.5 (1/5 + 1/3)."""
    made = corrected_resampled_t([1, 2, 3, 4, 5], 75, 25)
    assert made.se == pytest.approx((2.5 * (1 / 5 + 1 / 3)) ** 0.5)
    assert made.t == pytest.approx(3 / made.se)
    assert made.p == pytest.approx(2 * stats.t.sf(made.t, 4))
    assert made.interval.low == pytest.approx(3 - stats.t.ppf(0.975, 4) * made.se)
    assert made.notes == ()


def test_the_corrected_t_warns_of_stratified_folds() -> None:
    """They understate the uncertainty, and the note says by how much."""
    assert ".67" in corrected_resampled_t([1, 2], 9, 1, stratified=True).notes[0]


def test_the_corrected_t_of_equal_differences() -> None:
    """No spread: certain, or nothing at all."""
    assert corrected_resampled_t([0, 0, 0], 9, 1).p == 1
    assert corrected_resampled_t([1, 1, 1], 9, 1).p == 0
    with pytest.raises(ModelError, match="needs 2 differences, and there is 1"):
        corrected_resampled_t([1], 9, 1)


def test_the_nested_interval_by_hand() -> None:
    """a = mean(inner) - mean(outer), b = var(outer)/size, within its bounds, round the shifted centre."""
    folds = [([0.0, 2.0], [1.0, 4.0]), ([1.0, 2.0], [0.0, 5.0]), ([3.0, 3.0], [1.0, 2.0])]
    plain = np.concatenate([outer for _, outer in folds])
    made = nested_interval(folds, 3, 6, plain)
    errors = [(1.0 - 2.5) ** 2 - 4.5 / 2, (1.5 - 2.5) ** 2 - 12.5 / 2, (3.0 - 1.5) ** 2 - 0.5 / 2]
    least = plain.std(ddof=1) / 6**0.5
    se = min(max((max(0, np.mean(errors)) * 2 / 3) ** 0.5, least), 3**0.5 * least)
    nested = (1.0 + 1.5 + 3.0) / 3
    centre = nested - (1 + 1 / 3) * (nested - plain.mean())
    assert (made.low + made.high) / 2 == pytest.approx(centre)
    assert (made.high - made.low) / 2 == pytest.approx(1.959964 * se, abs=1e-6)


def test_the_nested_interval_of_a_model_holds_its_cross_validated_error() -> None:
    """It is centred near it and at least as wide as the pooled one."""
    problem = Problem.of(load_diabetes(as_frame=True).frame, ModelSpec(estimator=RIDGE), "target")
    repeats = [KFold(5, random_state=seed).assign(problem.X) for seed in range(3)]
    made = nested_cv_interval("neg_mean_squared_error", problem.model, problem, repeats, seed=0)
    _, frames = evaluated(problem, list(KFold(5).split(problem.X)))
    pooled = of_rows("neg_mean_squared_error", pd.concat(frames), problem)
    assert made.high - made.low >= 0.95 * (pooled.high - pooled.low)
    assert made.low < (pooled.low + pooled.high) / 2 < made.high
    with pytest.raises(ModelError, match="'r2'"):
        nested_cv_interval("r2", problem.model, problem, repeats, seed=0)


# ---------------------------------------------------------------- influence


def of_rows(metric: str, frame: pd.DataFrame, problem: Problem, method: str = "wald") -> Interval:
    made = interval_for(Evidence(METRICS[metric], problem, predictions=frame), method)
    assert isinstance(made, Interval)
    return made


def answered(frame: pd.DataFrame, problem: Problem) -> Answered:
    return Answered(replay(frame, problem.classes), frame["y"].to_numpy(), problem.classes)


def evaluated(problem: Problem, pairs: list[Any], repeat: int = 0) -> tuple[list[FoldScore], list[pd.DataFrame]]:
    done = [
        fit_and_score(problem.model, problem, *pair, seed=0, name=f"fold {i}", fold=i, repeat=repeat)
        for i, pair in enumerate(pairs)
    ]
    return [score for score, _ in done], [frame for _, frame in done]


CANCER = Problem.of(load_breast_cancer(as_frame=True).frame, ModelSpec(estimator=LOGISTIC), "target")
CANCER_SCORES, CANCER_FRAMES = evaluated(CANCER, list(StratifiedKFold(5).split(CANCER.X, CANCER.y)))
DIABETES = Problem.of(load_diabetes(as_frame=True).frame, ModelSpec(estimator=RIDGE), "target")
DIABETES_SCORES, DIABETES_FRAMES = evaluated(DIABETES, list(KFold(5).split(DIABETES.X)))


@pytest.mark.parametrize(
    ("metric", "problem", "frames"),
    [
        ("accuracy", CANCER, CANCER_FRAMES),
        ("neg_log_loss", CANCER, CANCER_FRAMES),
        ("balanced_accuracy", CANCER, CANCER_FRAMES),
        ("roc_auc", CANCER, CANCER_FRAMES),
        ("neg_mean_absolute_error", DIABETES, DIABETES_FRAMES),
        ("neg_root_mean_squared_error", DIABETES, DIABETES_FRAMES),
        ("r2", DIABETES, DIABETES_FRAMES),
    ],
)
def test_an_influence_is_what_taking_the_row_away_does(metric: str, problem: Problem, frames: Any) -> None:
    """The standard error from influences is the jackknife's, within a few percent."""
    frame = pd.concat(frames).iloc[::3].reset_index(drop=True)
    n = len(frame)
    found = influence_of(metric, answered(frame, problem))
    assert found is not None
    value, influence = found
    away = [influence_of(metric, answered(frame.drop(index=i), problem)) for i in range(n)]
    jackknife = (n - 1) * (value - np.array([each[0] for each in away if each]))
    assert influence.sum() == pytest.approx(0, abs=1e-9 * n)
    assert np.std(influence) == pytest.approx(np.std(jackknife), rel=0.03)
    assert np.corrcoef(influence, jackknife)[0, 1] > 0.999


def test_no_interval_passes_what_the_metric_can_be() -> None:
    """Of 72 nearly perfect predictions the normal interval of accuracy and AUC would end above 1; ours end at it."""
    few = pd.concat(CANCER_FRAMES).iloc[::8]
    for metric in ("accuracy", "roc_auc"):
        found = influence_of(metric, answered(few, CANCER))
        assert found is not None
        assert interval_of(*found).high > 1, "these rows would not show it"
        interval = of_rows(metric, few, CANCER)
        assert interval.low < found[0] < interval.high < 1
    assert Interval(-0.2, 1.3, 0.95, "any").within(0.0, 1.0) == Interval(0.0, 1.0, 0.95, "any")


@pytest.mark.parametrize("metric", ["f1_macro", "accuracy", "average_precision", "matthews_corrcoef"])
def test_resampling_agrees_with_influence(metric: str) -> None:
    """Whether the influence is a formula, the confusion matrix's derivative or the jackknife's."""
    together = pd.concat(CANCER_FRAMES)
    quick = of_rows(metric, together, CANCER)
    evidence = Evidence(METRICS[metric], CANCER, predictions=together)
    slow = resampled_interval(evidence, n_resamples=199, method="percentile")
    assert slow.high - slow.low == pytest.approx(quick.high - quick.low, rel=0.25)


def test_the_interval_of_folds_is_that_of_their_pooled_rows() -> None:
    """The aggregate's interval is Wilson's of 0-1 losses, worth n / (1 + 5/4) rows, round the pooled score."""
    accuracy = next(e for e in aggregate(CANCER_SCORES, CANCER_FRAMES, CANCER, CANCER.model) if e.metric == "accuracy")
    right = (pd.concat(CANCER_FRAMES)["y"] == pd.concat(CANCER_FRAMES)["prediction"]).to_numpy()
    p, n, t = right.mean(), (right.size - 1) / (1 + 5 / 4), stats.t.ppf(0.975, right.size - 1)
    half = t / (1 + t**2 / n) * (p * (1 - p) / n + t**2 / (4 * n**2)) ** 0.5
    centre = (p + t**2 / (2 * n)) / (1 + t**2 / n)
    assert accuracy.interval is not None
    assert (accuracy.interval.low, accuracy.interval.high) == pytest.approx((centre - half, centre + half), abs=1e-5)
    assert accuracy.value == accuracy.pooled == pytest.approx(p)
    assert "spread" in accuracy.notes[0]
    assert "interval" not in accuracy.method


def test_repeats_are_averaged_per_row_before_the_interval() -> None:
    """Doing it again is no new row: the interval does not shrink with sqrt(repeats), and there is no se."""
    again = [evaluated(DIABETES, list(KFold(5, random_state=s).split(DIABETES.X)), s) for s in range(1, 4)]
    scores = [*DIABETES_SCORES, *(score for one, _ in again for score in one)]
    frames = [*DIABETES_FRAMES, *(frame for _, some in again for frame in some)]
    once = aggregate(DIABETES_SCORES, DIABETES_FRAMES, DIABETES, DIABETES.model)[1]
    often = aggregate(scores, frames, DIABETES, DIABETES.model)[1]
    assert often.method == "repeated cross-validation"
    assert (often.se, often.n_splits) == (None, 20)
    assert once.interval is not None
    assert often.interval is not None
    assert often.interval.high - often.interval.low == pytest.approx(once.interval.high - once.interval.low, rel=0.02)


def test_groups_make_the_aggregates_interval_cluster_robust() -> None:
    """As soon as the problem has groups."""
    table = load_diabetes(as_frame=True).frame.assign(clinic=np.arange(442) // 6)
    problem = Problem.of(table, ModelSpec(estimator=RIDGE), "target", groups="clinic")
    scores, frames = evaluated(problem, list(KFold(5).split(problem.X)))
    for estimate in aggregate(scores, frames, problem, problem.model):
        assert estimate.interval is not None
        assert estimate.interval.method == "pooled rows, corrected for training, cluster-robust"


# ---------------------------------------------------------------- words


def said_of(apparent: float) -> str:
    scores = [replace(each, apparent=dict.fromkeys(each.apparent, apparent)) for each in DIABETES_SCORES]
    return " ".join(aggregate(scores, DIABETES_FRAMES, DIABETES, ModelSpec(metrics=("r2",)))[0].notes)


def test_optimism_is_said_where_the_apparent_score_lies_above_the_interval() -> None:
    """It is no overfitting, which would be a comparison with a simpler model."""
    assert "Optimism: on the rows they were trained on the models reach R² 0.9 instead of 0.429" in said_of(0.9)
    assert "Optimism" not in said_of(0.45)
    assert "verfit" not in said_of(0.9)


def test_one_sentence_tells_the_optimism_of_all_metrics() -> None:
    """Errors are told as errors: positive."""
    scores = [replace(each, apparent={name: 0.0 for name in each.apparent}) for each in DIABETES_SCORES]
    estimates = aggregate(scores, DIABETES_FRAMES, DIABETES, DIABETES.model)
    told = {note for each in estimates for note in each.notes if note.startswith("Optimism")}
    assert len(told) == 1
    assert "MAE 0 instead of 48.8; RMSE 0" in told.pop()


def test_small_folds_are_told_for_metrics_that_need_more() -> None:
    """A mean of R2 over folds of 5 rows misleads; a mean of errors does not."""
    pairs = list(KFold(88, random_state=0).split(DIABETES.X))
    scores, frames = evaluated(DIABETES, pairs)
    r2, mae, _ = aggregate(scores, frames, DIABETES, DIABETES.model)
    assert any("R²: folds have as few as 5 rows" in note for note in r2.notes)
    assert not any("as few as" in note for note in mae.notes)


# ---------------------------------------------------------------- compare


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


# ---------------------------------------------------------------- selection


def test_the_winner_among_equals_loses_its_luck() -> None:
    """Twenty configurations of pure noise with mean .5: the best looks much better, the correction takes it back."""
    losses = (Stream(1).uniform(100 * 20) < 0.5).astype(float).reshape(100, 20)
    made = bias_corrected_best(losses, n_resamples=500)
    assert made.naive == losses.mean(axis=0).min() < 0.43
    assert made.best == losses.mean(axis=0).argmin()
    assert made.value == pytest.approx(0.5, abs=0.04)
    assert made.bias == pytest.approx(made.value - made.naive)
    assert made.interval.low < made.value < made.interval.high
    assert sum(made.chosen) == pytest.approx(1)


def test_a_clear_winner_keeps_its_value() -> None:
    """Nothing was lucky, nothing is taken off."""
    losses = np.stack([np.square(normals(200, seed)) + shift for seed, shift in ((0, 0), (1, 5), (2, 9))], axis=1)
    made = bias_corrected_best(losses, n_resamples=300)
    assert made.chosen == (1.0, 0.0, 0.0)
    assert made.value == pytest.approx(made.naive, rel=0.02)


def test_selection_by_the_definition() -> None:
    """Each resample's winner, scored on the rows left out, spelt out with the same draws."""
    losses = Stream(3).uniform(60).reshape(12, 5)
    groups = np.arange(12) // 2
    made = bias_corrected_best(losses, groups, n_resamples=20, seed=4)
    worth = []
    for i in range(20):
        drawn = Stream(4, 2018, i).below(6, 6)
        inside = np.concatenate([losses[groups == g] for g in drawn]).mean(axis=0)
        left = [g for g in range(6) if g not in drawn]
        worth.append(np.concatenate([losses[groups == g] for g in left]).mean(axis=0)[inside.argmin()])
    assert made.value == pytest.approx(np.mean(worth))


def test_selection_by_a_score_equals_selection_by_its_loss() -> None:
    """Accuracy as a function of rows gives what 0-1 losses give, upside down."""
    losses = (Stream(1).uniform(60 * 4) < 0.4).astype(float).reshape(60, 4)
    by_loss = bias_corrected_best(losses, n_resamples=50)
    by_score = bias_corrected_best_score(lambda rows, j: 1 - losses[rows, j].mean(), 60, 4, n_resamples=50)
    assert by_score.value == pytest.approx(1 - by_loss.value)
    assert by_score.naive == pytest.approx(1 - by_loss.naive)
    assert by_score.chosen == by_loss.chosen


def test_the_simplest_within_one_standard_error() -> None:
    """The best has mean .80 and se .01; the simplest above .79 is chosen."""
    best = [0.78, 0.80, 0.82, 0.80]  # sd .01633, se .00816
    scores = [best, [0.795] * 4, [0.785] * 4, [0.79] * 4]
    assert simplest_near_best(scores, [9, 5, 1, 3]) == 1
    assert simplest_near_best(scores, [1, 5, 1, 3]) == 0
    with pytest.raises(ModelError, match=r"shape \(4, 4\) for 3 complexities"):
        simplest_near_best(scores, [1, 2, 3])


def test_wrong_losses_get_a_sentence() -> None:
    """Rows x configurations, finite."""
    with pytest.raises(ModelError, match=r"has the shape \(3,\)"):
        bias_corrected_best([1, 2, 3])
    with pytest.raises(ModelError, match="there are 3; 5 is the least"):
        bias_corrected_best(np.zeros((3, 2)))

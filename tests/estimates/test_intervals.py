"""Intervals are their formulas, comparisons are paired, and a spread is never called an interval."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import (
    CANCER,
    CANCER_FRAMES,
    CANCER_SCORES,
    DIABETES,
    DIABETES_FRAMES,
    DIABETES_ROWS,
    DIABETES_SCORES,
    RIDGE,
    answered,
    evaluated,
    frame_of,
    normals,
    of_rows,
    pooled_interval,
)
from evenfold.estimates import (
    METRICS,
    EvaluationError,
    Evidence,
    Interval,
    ModelError,
    ModelSpec,
    Problem,
    aggregate,
    bootstrap_interval,
    corrected_resampled_t,
    influence_of,
    interval_for,
    nested_interval,
)
from evenfold.estimates.folds import sample_sd
from evenfold.estimates.intervals.methods import around, standard_error, stretches, within_range
from evenfold.estimates.intervals.registry import DEPENDENT, not_nestable
from evenfold.estimates.metrics.registry import depends_on_model
from evenfold.splitters import KFold
from scipy import stats
from scipy.special import expit, logit


@pytest.mark.parametrize(
    ("losses", "more", "half"),
    [
        ([0, 1, 1, 0], {}, 3.182446 * 0.5773503 / 2),  # sd .57735, and 3 degrees of freedom
        ([0, 1, 1, 0], {"groups": range(4)}, 3.182446 * 0.5773503 / 2),  # each row its own group is no grouping
        ([0, 1, 1, 0], {"weights": [2, 2, 2, 2]}, 3.182446 * 0.5773503 / 2),
        ([0, 0, 1, 1], {"groups": list("aabb")}, stats.t.ppf(0.975, 1) / 2),  # se^2 = 2/1 x (1 + 1)/16
        (np.repeat([0, 1, 1, 0], 9), {"groups": np.arange(36) // 9}, 3.182446 * 0.5773503 / 2),  # copies are no rows
    ],
)
def test_the_pooled_interval_by_hand(losses: Any, more: dict[str, Any], half: float) -> None:
    made = pooled_interval(losses, **more)
    assert (made.low + made.high) / 2 == pytest.approx(0.5)
    assert (made.high - made.low) / 2 == pytest.approx(half, abs=1e-6)
    without = pooled_interval([0, 1, 1, 0, 99], weights=[1, 1, 1, 1, 0])
    assert (without.low + without.high) / 2 == pytest.approx(0.5)
    with pytest.raises(ModelError, match="needs 2 independent rows or groups, and there is 1"):
        pooled_interval([0.0, 1.0], groups=["a", "a"])


def test_the_bootstrap_interval_is_scipys() -> None:
    values = np.square(normals(40))
    rng = np.random.Generator(np.random.Philox(3))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=499, method="percentile", rng=rng, vectorized=False)
    ours = bootstrap_interval(lambda rows: values[rows].mean(), 40, n_resamples=499, seed=3)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval))


def test_a_bootstrap_draws_a_row_in_every_repeat_at_once() -> None:
    together = pd.concat(DIABETES_FRAMES)
    twice = pd.concat([together, together.assign(repeat=1)])
    evidence = Evidence(METRICS["r2"], DIABETES, predictions=together)
    assert interval_for(evidence, "bootstrap").method == "percentile bootstrap of rows"
    assert "do not test the same rows" in interval_for(replace(evidence, predictions=twice[1:]), "bootstrap").reason


def test_whole_groups_are_drawn() -> None:
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 4])
    sizes = np.bincount(groups)

    def statistic(rows: Any) -> float:
        counts = np.bincount(rows, minlength=10)
        for group in range(5):
            assert len(set(counts[groups == group])) == 1
        assert (np.bincount(groups[rows], minlength=5) % sizes == 0).all()
        return float(rows.mean())

    made = bootstrap_interval(statistic, 10, groups, n_resamples=50)
    assert made.method == "percentile bootstrap of groups"


def test_a_bootstrap_says_how_often_it_was_undefined() -> None:
    undefined = bootstrap_interval(lambda rows: float("nan"), 10, n_resamples=20).reason
    assert undefined.startswith("the metric is undefined in 20 of 20 resamples")
    assert "needs 2 rows or groups" in bootstrap_interval(lambda rows: 0.0, 4, [1] * 4).reason
    made = bootstrap_interval(lambda rows: float("nan") if 0 not in rows else rows.mean(), 10, n_resamples=200)
    assert made.notes[0].endswith("of 200 resamples, which are left out.")


def test_the_corrected_t_by_hand() -> None:
    """Five differences of mean 3 and variance 2.5, a quarter tested: se^2 = 2.5 (1/5 + 1/3)."""
    made = corrected_resampled_t([1, 2, 3, 4, 5], 75, 25)
    assert made.se == pytest.approx((2.5 * (1 / 5 + 1 / 3)) ** 0.5)
    assert made.t == pytest.approx(3 / made.se)
    assert made.p == pytest.approx(2 * stats.t.sf(made.t, 4))
    assert made.interval.low == pytest.approx(3 - stats.t.ppf(0.975, 4) * made.se)
    assert ".67" in corrected_resampled_t([1, 2], 9, 1, stratified=True).interval.notes[0]
    assert [corrected_resampled_t([equal] * 3, 9, 1).p for equal in (0, 1)] == [1, 0]
    with pytest.raises(ModelError, match="needs 2 differences, and there is 1"):
        corrected_resampled_t([1], 9, 1)


def test_the_corrected_t_of_splits_is_made_of_random_ones_alone() -> None:
    evidence = Evidence(METRICS["r2"], DIABETES, scores=DIABETES_SCORES)
    made = interval_for(evidence, "corrected_t", 0.9)
    sizes = [score.n_train for score in DIABETES_SCORES], [score.n_test for score in DIABETES_SCORES]
    by_hand = corrected_resampled_t([score.test["r2"] for score in DIABETES_SCORES], *sizes, level=0.9).interval
    assert (made.low, made.high) == (by_hand.low, by_hand.high)
    assert "alike by design" in interval_for(replace(evidence, stratified=True), "corrected_t").reason


@pytest.mark.parametrize(("size", "declined"), [(6, True), (1, False)])
def test_nested_cross_validation_is_declined_where_groups_err_together(size: int, declined: bool) -> None:
    table = DIABETES_ROWS.assign(clinic=np.arange(442) // size)
    problem = Problem.of(table, ModelSpec(estimator=RIDGE), "target", groups="clinic")
    scores, frames = evaluated(problem, list(KFold(5).split(problem.X)))
    evidence = Evidence(METRICS["neg_mean_squared_error"], problem, scores=scores, predictions=pd.concat(frames))
    said = "the rows of each of 74 groups err together; choose auto" in not_nestable(evidence)
    assert said == declined
    some = replace(evidence, scores=[replace(score, n_train=score.n_train - 1) for score in scores])
    assert declined or "test every row, and train on all others" in not_nestable(some)


def test_the_nested_interval_by_hand() -> None:
    folds = [([0.0, 2.0], [1.0, 4.0]), ([1.0, 2.0], [0.0, 5.0]), ([3.0, 3.0], [1.0, 2.0])]
    plain = np.concatenate([outer for _, outer in folds])
    inner, outer = ([(np.array(each), np.ones(2)) for each in side] for side in zip(*folds, strict=True))
    made = nested_interval(inner, outer, (plain, np.ones(6)), 3, 6)
    errors = [(1.0 - 2.5) ** 2 - 4.5 / 2, (1.5 - 2.5) ** 2 - 12.5 / 2, (3.0 - 1.5) ** 2 - 0.5 / 2]
    least = plain.std(ddof=1) / 6**0.5
    se = min(max((max(0, np.mean(errors)) * 2 / 3) ** 0.5, least), 3**0.5 * least)
    nested = (1.0 + 1.5 + 3.0) / 3
    centre = nested - (1 + 1 / 3) * (nested - plain.mean())
    assert (made.low + made.high) / 2 == pytest.approx(centre)
    assert (made.high - made.low) / 2 == pytest.approx(1.959964 * se, abs=1e-6)


@pytest.mark.parametrize(
    ("metric", "problem", "frames"),
    [
        ("accuracy", CANCER, CANCER_FRAMES),
        ("neg_log_loss", CANCER, CANCER_FRAMES),
        ("roc_auc", CANCER, CANCER_FRAMES),
        ("neg_mean_absolute_error", DIABETES, DIABETES_FRAMES),
        ("r2", DIABETES, DIABETES_FRAMES),
    ],
)
def test_an_influence_is_what_taking_the_row_away_does(metric: str, problem: Problem, frames: Any) -> None:
    """Those of the 20 rows that move it most each way spread as the jackknife's do, within a few percent."""
    frame = pd.concat(frames).iloc[::3].reset_index(drop=True)
    n = len(frame)
    found = influence_of(metric, answered(frame, problem))
    value, influence = found
    assert influence.sum() == pytest.approx(0, abs=1e-9 * n)
    order = np.argsort(influence, kind="stable")
    some = np.r_[order[:20], order[-20:]]
    away = [influence_of(metric, answered(frame.drop(index=i), problem)) for i in some]
    jackknife, influence = (n - 1) * (value - np.array([each[0] for each in away if each])), influence[some]
    assert np.std(influence) == pytest.approx(np.std(jackknife), rel=0.03)
    assert np.corrcoef(influence, jackknife)[0, 1] > 0.999


def test_no_interval_passes_what_the_metric_can_be() -> None:
    """Of 72 nearly perfect predictions the normal interval of accuracy and AUC would end above 1; ours end at it."""
    few = pd.concat(CANCER_FRAMES).iloc[::8]
    for metric in ("accuracy", "roc_auc"):
        found = influence_of(metric, answered(few, CANCER))
        assert around(found[0], standard_error(found[1], None), 0.95, "any").high > 1, "these rows would not show it"
        interval = of_rows(metric, few, CANCER)
        assert interval.low < found[0] < interval.high < 1
    assert Interval(-0.2, 1.3, 0.95, "any").within(0.0, 1.0) == Interval(0.0, 1.0, 0.95, "any")


def test_each_scale_has_its_own_interval() -> None:
    t = stats.t.ppf(0.95, 9)
    assert sample_sd([0.5]) is None
    free = replace(METRICS["r2"], low=-np.inf, high=np.inf)
    assert within_range(free, 2.0, 0.5, 9, 0.9) == pytest.approx((2 - t / 2, 2 + t / 2))
    assert within_range(METRICS["r2"], 0.5, 0.1, 9, 0.9) == pytest.approx(tuple(1 - 0.5 * np.exp([t / 5, -t / 5])))
    of_logit = expit(logit(0.8) + np.array([-t, t]) * 0.05 / (0.8 * 0.2))
    assert within_range(METRICS["roc_auc"], 0.8, 0.05, 9, 0.9) == pytest.approx(tuple(of_logit))


def test_a_method_that_knows_no_time_says_so_of_rows_in_time() -> None:
    rows = pd.concat(DIABETES_FRAMES)
    for ordered, method, says in (
        (True, "corrected_wald", True),
        (False, "corrected_wald", False),
        (True, "auto", False),
    ):
        evidence = Evidence(METRICS["r2"], DIABETES, predictions=rows, scores=DIABETES_SCORES, ordered=ordered)
        made = interval_for(evidence, method)
        assert isinstance(made, Interval)
        assert (DEPENDENT in made.notes) == says, (ordered, method)


def test_a_convention_scores_rows_that_lack_what_a_metric_compares() -> None:
    one, two = np.ones(3), np.array([0, 1, 1])
    assert not any(depends_on_model(metric, one, (0, 1)) for metric in ("r2", "precision", "roc_auc"))
    assert all(depends_on_model(metric, two, (0, 1)) for metric in ("r2", "precision", "roc_auc", "recall"))
    assert depends_on_model("accuracy", one, (0, 1))
    assert depends_on_model("recall", one, (0, 1))
    assert not depends_on_model("recall", 0 * one, (0, 1))


def test_the_jackknife_leaves_each_row_out_once() -> None:
    """Where a metric has no formula: n - 1 times what the score loses without the row, less the mean of these."""
    few = pd.concat(CANCER_FRAMES).groupby("y").head(15).reset_index(drop=True)
    few["proba_1"] = np.random.default_rng(0).uniform(size=len(few))  # what is always right loses nothing by any row
    evidence = Evidence(METRICS["average_precision"], CANCER, predictions=few.assign(proba_0=1 - few["proba_1"]))
    assert influence_of("average_precision", evidence.answered(evidence.parts[0])) is None
    whole, moves, _ = evidence.influence
    (part,) = evidence.parts
    lost = [whole - evidence.score(part[part["row"] != row]) for row in evidence.rows]
    assert whole == evidence.score(part)
    assert np.ptp(lost) > 0.01
    assert moves == pytest.approx((len(few) - 1) * (np.array(lost) - np.mean(lost)))


def test_the_jackknife_of_more_rows_leaves_out_200_blocks() -> None:
    """Its standard error is the textbook's, the root of (b - 1) / b times the sum of squares about the mean."""
    rows = pd.concat(CANCER_FRAMES).reset_index(drop=True)
    rows["proba_1"] = 0.3 * rows["proba_1"] + 0.7 * np.random.default_rng(0).uniform(size=len(rows))
    evidence = Evidence(METRICS["average_precision"], CANCER, predictions=rows.assign(proba_0=1 - rows["proba_1"]))
    whole, moves, blocks = evidence.influence
    (part,) = evidence.parts
    lost = [whole - evidence.score(part[blocks[np.searchsorted(evidence.rows, part["row"])] != b]) for b in range(200)]
    assert np.unique(blocks).size == 200
    assert standard_error(moves, blocks)[0] == pytest.approx(np.sqrt(199 / 200 * 200 * np.var(lost)), rel=0.02)


def test_each_fold_of_a_series_is_one_observation() -> None:
    """Batch means: the folds' rows count as one each, its variance times 1 + n / n_train; 2 are too few to say."""
    together = pd.concat(DIABETES_FRAMES)
    evidence = Evidence(METRICS["neg_mean_squared_error"], DIABETES, predictions=together, scores=DIABETES_SCORES)
    made = stretches(evidence, 0.95)
    assert "stretches of time" in made.method
    losses = np.square(together["y"] - together["prediction"]).to_numpy()
    alone = pooled_interval(losses, groups=together["fold"].to_numpy())
    # Of an error the interval is made on the logarithm: half of it is t times se over the error.
    half = (alone.high - alone.low) / 2 / losses.mean() * (1 + evidence.train_ratio) ** 0.5
    assert np.log([-made.low, -made.high]) - np.log(losses.mean()) == pytest.approx([half, -half], rel=0.02)
    two = Evidence(METRICS["r2"], DIABETES, predictions=together[together["fold"] < 2], scores=DIABETES_SCORES[:2])
    assert "2 stretches are too few" in stretches(two, 0.95).reason


def test_a_metric_that_is_defined_nowhere_is_a_sentence() -> None:
    ones = [frame[frame["y"] == 1] for frame in CANCER_FRAMES]
    problem = replace(CANCER, model=CANCER.model.model_copy(update={"metrics": ("roc_auc",)}))
    with pytest.raises(EvaluationError, match="undefined in every fold and for all predictions together"):
        aggregate([replace(score, test={}) for score in CANCER_SCORES], ones, problem)


def test_the_interval_of_folds_is_that_of_their_pooled_rows() -> None:
    """The aggregate's interval is Wilson's of 0-1 losses, worth n / (1 + 5/4 sqrt(o)) rows, and a little more above."""
    accuracy = next(e for e in aggregate(CANCER_SCORES, CANCER_FRAMES, CANCER) if e.metric == "accuracy")
    right = (pd.concat(CANCER_FRAMES)["y"] == pd.concat(CANCER_FRAMES)["prediction"]).to_numpy()
    p, apparent = right.mean(), np.mean([score.apparent["accuracy"] for score in CANCER_SCORES])
    n, t = (right.size - 1) / (1 + 5 / 4 * (1 - (1 - apparent) / (1 - p)) ** 0.5), stats.t.ppf(0.975, right.size - 1)
    half = t / (1 + t**2 / n) * (p * (1 - p) / n + t**2 / (4 * n**2)) ** 0.5
    centre = (p + t**2 / (2 * n)) / (1 + t**2 / n)
    ends = centre - half, centre + half + (apparent - p) / 5 / 2
    assert (accuracy.interval.low, accuracy.interval.high) == pytest.approx(ends, abs=1e-5)
    assert accuracy.value == accuracy.pooled == pytest.approx(p)
    assert "spread" in accuracy.notes[0]
    assert "interval" not in accuracy.method


def test_repeats_are_averaged_per_row_before_the_interval() -> None:
    again = [evaluated(DIABETES, list(KFold(5, random_state=s).split(DIABETES.X)), s) for s in range(1, 4)]
    scores = [*DIABETES_SCORES, *(score for one, _ in again for score in one)]
    frames = [*DIABETES_FRAMES, *(frame for _, some in again for frame in some)]
    once = aggregate(DIABETES_SCORES, DIABETES_FRAMES, DIABETES)[1]
    often = aggregate(scores, frames, DIABETES)[1]
    assert often.method == "repeated cross-validation"
    assert (often.se, often.n_splits) == (None, 20)
    assert often.interval.high - often.interval.low == pytest.approx(once.interval.high - once.interval.low, rel=0.05)


def test_a_class_that_is_never_found_is_uncertain_by_its_few_rows() -> None:
    """600 rows, 30 positives, none found, 2 false alarms: a recall of 0 of 30 rows may well be .1."""
    y = np.repeat([1, 0], [30, 570])
    problem = Problem.of(pd.DataFrame({"x": np.arange(600.0), "y": y}), ModelSpec(metrics=("balanced_accuracy",)), "y")
    said = np.where(np.isin(np.arange(600), [100, 200]), 1, 0)
    frame = frame_of(y, said, np.arange(600) % 5)
    made = interval_for(Evidence(METRICS["balanced_accuracy"], problem, CANCER_SCORES, frame), "wald", 0.95)
    assert made.high > (1 + 0.11) / 2
    assert made.low > 0.48


def test_uneven_groups_have_few_degrees_of_freedom() -> None:
    """Equal groups are their number less 1; of groups like 1/rank the largest decide, and 3 are the least."""
    influence = np.random.default_rng(0).normal(size=600)
    even, uneven = np.arange(600) % 40, np.repeat(np.arange(40), np.maximum(140 // np.arange(1, 41), 1))[:600]
    uneven = np.append(uneven, np.full(600 - uneven.size, 39))
    assert standard_error(influence, even)[1] == 39
    assert 3 <= standard_error(influence, uneven)[1] < 12
    h = np.bincount(uneven) / 600
    D = np.diag(h) - np.outer(h, h)
    M = D @ (D / (1 - h)[:, None])
    assert standard_error(influence, uneven)[1] == pytest.approx(
        max(np.trace(M) ** 2 / np.square(M).sum(), 3), rel=1e-6
    )


def test_a_heavy_tail_reaches_further_up_than_t_says() -> None:
    rng = np.random.default_rng(1)
    frame = pd.concat(DIABETES_FRAMES)
    frame = frame.assign(prediction=frame["y"] + rng.lognormal(sigma=1.5, size=len(frame)))
    evidence = Evidence(METRICS["neg_mean_squared_error"], DIABETES, DIABETES_SCORES, frame)
    made, again = interval_for(evidence, "wald"), interval_for(evidence, "wald")
    assert made == again
    value, influence, _ = evidence.influence or (0.0, np.zeros(1), None)
    low, high = within_range(evidence.metric, value, *standard_error(influence, None, tails=True), 0.95)
    assert made.low < low, "as errors: further up"
    assert value < made.high < high

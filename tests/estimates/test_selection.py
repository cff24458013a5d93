"""The winner among many loses its luck, and its interval is its own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import LOGISTIC, RIDGE, frame_of, normals, pooled_interval
from evenfold.estimates import (
    DrawScores,
    ModelError,
    ModelSpec,
    Problem,
    bias_corrected_best,
    choose,
    choose_by_draws,
    corrected_resampled_t,
    simplest_near_best,
    unit_means,
)
from evenfold.estimates.folds import one_for_each
from evenfold.estimates.selection import chosen_inside
from evenfold.splitters import SplitError, Stream
from scipy import stats


def test_the_winner_among_equals_loses_its_luck() -> None:
    """Twenty configurations of pure noise with mean .5: the best looks much better, the correction takes it back."""
    losses = (Stream(1).uniform(100 * 20) < 0.5).astype(float).reshape(100, 20)
    made = bias_corrected_best(*unit_means(losses), n_resamples=500)
    assert made.naive == losses.mean(axis=0).min() < 0.43
    assert made.best == losses.mean(axis=0).argmin()
    assert made.value == pytest.approx(0.5, abs=0.04)
    assert made.bias == pytest.approx(made.value - made.naive)
    assert made.interval.low < made.value < made.interval.high
    assert sum(made.chosen) == pytest.approx(1)


def test_a_clear_winner_keeps_its_value() -> None:
    """Nothing was lucky, nothing is taken off."""
    losses = np.stack([np.square(normals(200, seed)) + shift for seed, shift in ((0, 0), (1, 5), (2, 9))], axis=1)
    made = bias_corrected_best(*unit_means(losses), n_resamples=300)
    assert made.chosen == (1.0, 0.0, 0.0)
    assert made.value == pytest.approx(made.naive, rel=0.02)
    twice = bias_corrected_best(*unit_means(losses[:, [0, 0, 1]]), n_resamples=30)
    assert (twice.best, twice.chosen) == (0, (1.0, 0.0, 0.0)), "of two that are as good the first"


def test_selection_by_the_definition() -> None:
    losses = Stream(3).uniform(60).reshape(12, 5)
    groups = np.arange(12) // 2
    made = bias_corrected_best(*unit_means(losses, groups), n_resamples=20, seed=4)
    worth = []
    for i in range(20):
        drawn = Stream(4, 2018, i).below(6, 6)
        inside = np.concatenate([losses[groups == g] for g in drawn]).mean(axis=0)
        left = [g for g in range(6) if g not in drawn]
        worth.append(np.concatenate([losses[groups == g] for g in left]).mean(axis=0)[inside.argmin()])
    assert made.value == pytest.approx(np.mean(worth))


def test_resamples_that_have_no_score_are_left_out_and_counted() -> None:
    """A metric that is undefined where row 0 comes twice: in 1 - 2/e of them, and the others go on."""

    def means(times: Any) -> Any:
        return np.array([np.nan if times[0] > 1 else j - times @ np.arange(20.0) / times.sum() for j in (1, 0)])

    made = bias_corrected_best(means, 20, n_resamples=200)
    (note,) = made.notes
    undefined = int(note.removeprefix("The metric is undefined in ").split()[0])
    assert 30 < undefined < 75
    assert note.endswith(f"{undefined} of 200 resamples, which are left out.")
    assert made.chosen == (0.0, 1.0)


def test_the_simplest_within_one_standard_error() -> None:
    """The best has mean .80 and se .01; the simplest above .79 is chosen."""
    best = [0.78, 0.80, 0.82, 0.80]  # sd .01633, se .00816
    assert simplest_near_best([[0.785] * 4, [0.79] * 4, [0.795] * 4, best])[0] == 2
    assert simplest_near_best([best, [0.785] * 4, [0.79] * 4, [0.795] * 4])[0] == 0
    # Two folds .79 and .81: sd .01414, se .0100; with ddof 0 it would be .0071, and .792 too far below .80.
    assert simplest_near_best([[0.792, 0.792], [0.79, 0.81]]) == (0, pytest.approx(0.01))
    # Within an error of 0 nothing but the best.
    assert simplest_near_best([[0.7, 0.7], [0.8, 0.8]]) == (1, 0.0)


def test_scores_and_losses_that_cannot_be_chosen_by_get_a_sentence() -> None:
    with pytest.raises(ModelError, match=r"shape \(4,\); pass configurations x splits"):
        simplest_near_best(np.ones(4))
    for scores in ([[0.8, np.nan], [0.7, 0.6]], [[0.8, 0.9], [np.nan, 0.1]]):
        with pytest.raises(ModelError, match="scores of 1 configurations are not finite"):
            simplest_near_best(scores)
    with pytest.raises(ModelError, match=r"has the shape \(3,\)"):
        unit_means([1, 2, 3])
    with pytest.raises(ModelError, match="there are 3; 5 is the least"):
        bias_corrected_best(*unit_means(np.zeros((3, 2))))


def test_one_configuration_has_the_interval_of_its_rows() -> None:
    """Nothing was chosen, so nothing is added: percentiles that are not scaled would be 1.31 times as wide."""
    losses = np.square(normals(200))
    made = bias_corrected_best(*unit_means(losses[:, None]), n_resamples=2_000).interval
    rows = pooled_interval(losses)
    assert made.high - made.low == pytest.approx(rows.high - rows.low, rel=0.06)
    wider = bias_corrected_best(*unit_means(losses[:, None]), n_resamples=2_000, inflation=2.25).interval
    assert wider.high - wider.low == pytest.approx(1.5 * (made.high - made.low))


def frames_of(values: Any, predictions: list[Any], weights: Any = None) -> tuple[Problem, list[pd.DataFrame]]:
    table = pd.DataFrame({"x": np.arange(len(values)), "y": values, "w": 1.0 if weights is None else weights})
    model = ModelSpec(estimator=RIDGE, metrics=("mse",), weights=None if weights is None else "w", exclude=())
    problem = Problem.of(table if weights is not None else table.drop(columns="w"), model, "y")
    frames = []
    for said in predictions:
        frame = frame_of(np.asarray(values, dtype=float), said, np.arange(len(values)) % 5)
        frames.append(frame if weights is None else frame.assign(weight=weights))
    return problem, frames


def test_the_choice_weighs_rows() -> None:
    y = normals(100)
    weights = np.where(np.arange(100) < 50, 9.0, 1.0)
    right_where_it_counts = y + np.where(np.arange(100) < 50, 0.1, 2.0)
    right_elsewhere = y + np.where(np.arange(100) < 50, 2.0, 0.1)
    problem, frames = frames_of(y, [right_where_it_counts, right_elsewhere], weights)
    made = choose("mse", problem, frames, np.zeros((2, 5)))
    expected = -np.average(np.square(right_where_it_counts - y), weights=weights)
    assert made.best == made.chosen == 0
    assert made.naive == pytest.approx(expected)
    assert made.value == pytest.approx(expected, abs=0.1)
    assert made.low < made.value < made.high


def test_the_naive_score_is_the_chosen_ones() -> None:
    y = normals(100)
    problem, frames = frames_of(y, [y + 0.5 * normals(100, 1), y + 0.45 * normals(100, 2), y + 2 * normals(100, 3)])
    scores = [[-0.2, -0.3, -0.2, -0.3, -0.25], [-0.1, -0.3, -0.2, -0.3, -0.1], [-4.0] * 5]
    plain, simple = (choose("mse", problem, frames, scores, one_standard_error=rule) for rule in (False, True))
    pooled = [-np.square(frame["y"] - frame["prediction"]).mean() for frame in frames]
    assert (plain.best, plain.chosen, plain.naive) == (1, 1, pytest.approx(pooled[1]))
    assert (simple.best, simple.chosen, simple.naive) == (1, 0, pytest.approx(pooled[0]))
    assert simple.value == pytest.approx(pooled[0], abs=0.02)
    assert "Configuration 1 is the first within one standard error" in simple.notes[-1]


def test_one_split_and_one_configuration_can_be_chosen_by() -> None:
    y = normals(100)
    problem, frames = frames_of(y, [y + 0.5 * normals(100, 1)])
    losses = np.square(frames[0]["y"] - frames[0]["prediction"])
    for n_folds, inflation in ((1, 1.0), (2, 1 + 100 / 50)):
        made = choose("mse", problem, [frames[0].assign(fold=np.arange(100) % n_folds)], [[-0.25]])
        of_rows = bias_corrected_best(*unit_means(losses.to_numpy()[:, None]), inflation=inflation)
        assert made.low == pytest.approx(-of_rows.interval.high)
    one_fold = [frame.assign(fold=0) for frame in (*frames, frames[0].assign(prediction=y))]
    assert [chosen_inside("mse", problem, of, one_standard_error=True) for of in (frames, one_fold)] == [0, 1]


def test_every_repeat_is_asked_which_is_the_best() -> None:
    y = normals(60)
    problem, frames = frames_of(y, [y + 0.5, y + 0.6])
    again = [frame.assign(repeat=1, prediction=y + apart) for frame, apart in zip(frames, (0.9, 0.2), strict=True)]
    both = [pd.concat(pair) for pair in zip(frames, again, strict=True)]
    made = choose("mse", problem, both, [[-0.5] * 10] * 2)
    assert (made.best, made.naive) == (1, pytest.approx(-(0.36 + 0.04) / 2))


def test_a_split_that_lacks_a_score_gives_no_standard_error_and_ends_no_choice() -> None:
    y = normals(100)
    problem, frames = frames_of(y, [y + 0.5 * normals(100, 1), y + 0.45 * normals(100, 2)])
    made = choose("mse", problem, frames, [[-0.2] * 4 + [np.nan], [-0.2] * 5], one_standard_error=True)
    assert made.chosen == 1
    assert made.notes == ("1 of 5 splits lack a score of some configuration: there is no standard error.",)
    alone = [frame.assign(fold=np.arange(100)) for frame in frames]  # leave-one-out has no R2 of a fold
    made = choose("r2", problem, alone, np.full((2, 100), np.nan), one_standard_error=True)
    assert made.chosen == made.best == 1
    assert made.notes == ("100 of 100 splits lack a score of some configuration: there is no standard error.",)


def test_the_choice_inside_a_fold_goes_by_the_score_of_all_its_rows() -> None:
    y, small = normals(100), np.arange(100) < 10
    problem, frames = frames_of(y, [y + np.where(small, 1.0, 0.3), y + np.where(small, 0.45, 0.55)])
    frames = [frame.assign(fold=np.where(small, 0, 1)) for frame in frames]
    assert chosen_inside("mse", problem, frames, one_standard_error=True) == 0


TWO_CLASSES = Problem.of(pd.DataFrame({"x": range(200), "y": [0, 1] * 100}), ModelSpec(estimator=LOGISTIC), "y")


def drawn(table: Any, n_test: int = 50) -> DrawScores:
    """Return draws of one configuration with these AUCs."""
    sizes = {"draw": range(len(table)), "n_train": 150, "n_test": n_test, "error": None}
    return DrawScores(pd.DataFrame({**sizes, "roc_auc": table}), {})


def test_a_choice_by_draws_takes_off_what_choosing_in_each_draw_gains() -> None:
    scores = 0.7 + 0.05 * np.stack([normals(30, seed) for seed in range(8)])
    made = choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores])
    means = scores.mean(axis=1)
    assert made.best == made.chosen == means.argmax()
    assert made.naive == means.max()
    assert made.value == pytest.approx(means.max() - np.mean(scores.max(axis=0) - scores[means.argmax()]))
    assert made.low < made.value < made.high
    less = choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores], level=0.5)
    assert less.high - less.low == pytest.approx(
        (made.high - made.low) * stats.t.ppf(0.75, 29) / stats.t.ppf(0.975, 29)
    )
    replaced = choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores], n_rows=150)
    assert replaced.high - replaced.low == pytest.approx(
        (made.high - made.low) * ((1 / 30 + 50 / 100) / (1 / 30 + 50 / 150)) ** 0.5
    ), "draws with replacement have seen the rows that they do not test"
    alone = choose_by_draws("roc_auc", TWO_CLASSES, [drawn(scores[0])])
    assert alone.value == alone.naive == scores[0].mean()
    scores[0, 3] = np.nan
    assert np.isfinite(choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores]).value)
    scores[0] = np.nan
    with pytest.raises(ModelError, match="roc_auc has no score for some configuration in 30 of 30 draws"):
        choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores])


def test_a_choice_by_draws_rests_on_the_draws_that_score_every_configuration() -> None:
    scores = np.stack([np.full(10, 0.6), np.full(10, 0.7)]) + 0.01 * normals(10)
    scores[0, :4], scores[1, :4] = 0.99, np.nan
    made = choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores])
    assert (made.best, made.naive) == (1, pytest.approx(scores[1, 4:].mean()))
    assert made.notes[0] == "roc_auc has no score for some configuration in 4 of 10 draws, which are left out."
    scores[0, 8:] = np.nan
    with pytest.raises(ModelError, match="for some configuration in 6 of 10 draws; use another metric, or draws that"):
        choose_by_draws("roc_auc", TWO_CLASSES, [drawn(row) for row in scores])
    failed = DrawScores(drawn(np.zeros(10)).table.drop(columns="roc_auc"), {})  # every fit of it did
    with pytest.raises(ModelError, match="roc_auc has no score for some configuration in 10 of 10 draws"):
        choose_by_draws("roc_auc", TWO_CLASSES, [drawn(normals(10)), failed])


def test_the_simplest_by_draws_is_within_one_corrected_standard_error() -> None:
    best = 0.8 + 0.01 * normals(10)
    se = corrected_resampled_t(best, 150, 50).se
    tried = [drawn(best - away * se) for away in (1.1, 0.9, 0.0)]
    made = choose_by_draws("roc_auc", TWO_CLASSES, tried, one_standard_error=True)
    assert (made.best, made.chosen) == (2, 1)
    assert f"Configuration 2 is the first within one standard error ({se:.3g}) of the best, 3; " in made.notes[-1]
    half = best.copy()
    half[:5] = np.nan
    assert choose_by_draws("roc_auc", TWO_CLASSES, [drawn(half)]).notes[0].startswith("roc_auc has no score for some")


def test_losses_of_draws_count_where_every_configuration_has_them_and_their_interval_is_of_recipes() -> None:
    """Its variance is 1 + n_test/n_train times that of the rows; a row that one configuration lacks is left out."""
    problem = Problem.of(pd.DataFrame({"x": range(60), "y": [0, 1] * 30}), ModelSpec(estimator=LOGISTIC), "y")
    sums, counts = (Stream(1).uniform(60) < 0.4).astype(float), np.ones(60, dtype=np.int64)
    table = pd.DataFrame({"draw": range(4), "n_train": 30, "n_test": 15, "error": None, "accuracy": 1 - sums.mean()})
    rows = pd.DataFrame({"accuracy": sums, "count_accuracy": counts})
    one = DrawScores(table, rows)
    made = choose_by_draws("accuracy", problem, [one])
    wanted = bias_corrected_best(*unit_means(sums[:, None]), inflation=1.5).interval
    assert (made.low, made.high) == pytest.approx((1 - wanted.high, 1 - wanted.low))
    lacks = DrawScores(table, rows.mul(np.arange(60) > 0, axis=0))
    both = bias_corrected_best(*unit_means(np.column_stack([sums[1:]] * 2)), inflation=1.5).interval
    two = choose_by_draws("accuracy", problem, [one, lacks])
    assert (two.low, two.high) == pytest.approx((1 - both.high, 1 - both.low))
    mass = 1.0 + np.arange(60) % 3
    weighed = choose_by_draws("accuracy", replace(problem, weights=mass), [one], level=0.8)
    wanted = bias_corrected_best(*unit_means(sums[:, None], weights=mass), inflation=1.5, level=0.8).interval
    assert (weighed.low, weighed.high, weighed.level) == pytest.approx((1 - wanted.high, 1 - wanted.low, 0.8))
    easy = choose_by_draws("accuracy", problem, [DrawScores(table.assign(accuracy=0.99), one.rows)])
    assert easy.high == easy.value, "where draws of few easy rows score better than all rows together"


def test_a_choice_by_few_groups_is_not_corrected_and_says_so() -> None:
    y = normals(100)
    problem, frames = frames_of(y, [y + 0.5 * normals(100, 1), y + 0.45 * normals(100, 2)])
    sites = np.arange(100) % 4
    problem = replace(problem, groups=sites)
    made = choose("mse", problem, [frame.assign(fold=sites) for frame in frames], np.zeros((2, 4)))
    losses = np.square(frames[1]["y"] - frames[1]["prediction"])
    assert made.chosen == 1
    assert made.value == made.naive == pytest.approx(-losses.mean())
    assert made.low < made.value < made.high
    less = choose("mse", problem, [frame.assign(fold=sites) for frame in frames], np.zeros((2, 4)), level=0.5)
    assert made.low < less.low < less.high < made.high
    near = [[-0.25, -0.3, -0.2, -0.35], [-0.2, -0.3, -0.2, -0.3]]
    simple = choose("mse", problem, [frame.assign(fold=sites) for frame in frames], near, one_standard_error=True)
    assert (simple.best, simple.chosen, simple.value) == (1, 0, simple.naive)
    assert "not corrected for having been chosen: a resample needs rows or groups left out" in made.notes[-1]
    one = choose("mse", replace(problem, groups=np.zeros(100, dtype=np.int64)), frames, np.zeros((2, 5)))
    assert one.low == one.value == one.high
    assert one.notes[-1].endswith("an interval needs 2 independent rows or groups, and there is 1; group finer.")


def test_a_choice_on_a_series_is_as_sure_as_its_stretches_of_time() -> None:
    fold, y = np.arange(120) // 20, normals(120)
    problem, frames = frames_of(y, [y + fold, y + fold + 2])
    frames = [frame.assign(fold=fold) for frame in frames]
    made, series = (choose("mse", problem, frames, np.zeros((2, 6)), ordered=ordered) for ordered in (False, True))
    assert (series.chosen, series.naive) == (0, made.naive)
    assert series.high - series.low > 2 * (made.high - made.low), "each fold is another year"


def test_scores_of_a_loop_of_ones_own_are_a_finite_number_for_each_of_two_splits_or_more() -> None:
    assert one_for_each({"test_r2": [0.1, 0.2], "fit_time": [1.0, 1.0]}, 2, "rows 1.0") == {"r2": [0.1, 0.2]}
    for scores, n in (([0.1], 1), ([0.1, np.nan], 2), ([0.1, 0.2], 3), ({}, 2)):
        with pytest.raises(SplitError, match=f"^rows 1.0 has {n} splits, and a score is one finite number for each"):
            one_for_each(scores, n, "rows 1.0")

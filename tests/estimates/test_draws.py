"""Draws by the thousand score as folds do, and estimates and intervals of them are their definitions."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER, CANCER_ROWS, DIABETES_ROWS, LOGISTIC
from evenfold.estimates import (
    DrawScores,
    Estimate,
    EvaluationError,
    FoldScore,
    ModelSpec,
    Multiplicities,
    Problem,
    bootstrap_aggregate,
    bootstrap_estimate,
    corrected_resampled_t,
    fit_and_score,
    resampled_aggregate,
    score_draws,
)
from evenfold.splitters import Bootstrap, GroupBootstrap, ShuffleSplit
from scipy import stats


def draws_of(problem: Problem, n_splits: int) -> list[Any]:
    return list(enumerate(Bootstrap(n_splits).split(problem.X)))


def apparent_of(problem: Problem) -> Any:
    rows = np.arange(problem.n)
    return fit_and_score(problem, rows, rows, seed=0, name="all rows")


def test_blocks_of_draws_add_up() -> None:
    draws = draws_of(CANCER, 6)
    whole = score_draws(CANCER, draws, seed=0)
    parts = [score_draws(CANCER, part, seed=0) for part in (draws[:2], draws[2:])]
    apparent = apparent_of(CANCER)
    made, wanted = (bootstrap_aggregate(each, *apparent, CANCER) for each in (DrawScores.merge(parts), whole))
    assert made == wanted


def test_the_estimates_of_draws_are_those_of_their_losses() -> None:
    draws = draws_of(CANCER, 8)
    score, predictions = apparent_of(CANCER)
    scored = score_draws(CANCER, draws, seed=0)
    made = bootstrap_aggregate(scored, score, predictions, CANCER)
    frames = [fit_and_score(CANCER, *pair, seed=0, name=f"{i}")[1] for i, pair in draws]
    wrong = pd.concat(frames).assign(wrong=lambda rows: rows["y"] != rows["prediction"])
    err1 = wrong.groupby("row")["wrong"].mean().mean()
    oob = np.mean([frame["y"].ne(frame["prediction"]).mean() for frame in frames])
    p, q = predictions["y"].mean(), predictions["prediction"].mean()
    err = predictions["y"].ne(predictions["prediction"]).mean()
    pure = bootstrap_estimate(err, err1, oob, p * (1 - q) + (1 - p) * q)
    accuracy = {each.method: each for each in made if each.metric == "accuracy"}
    assert accuracy[".632+"].value == pytest.approx(1 - pure.e632plus, abs=1e-12)
    assert accuracy[".632"].value == pytest.approx(1 - pure.e632, abs=1e-12)
    assert accuracy["out-of-bag"].value == pytest.approx(1 - pure.err1, abs=1e-12)
    assert accuracy["out-of-bag"].ingredients["oob"] == pytest.approx(1 - pure.oob, abs=1e-12)
    assert accuracy[".632+"].ingredients["weight"] == pytest.approx(pure.weight, abs=1e-12)
    auc = {each.method: each for each in made if each.metric == "roc_auc"}
    assert auc[".632+"].ingredients["gamma"] == 0.5
    assert any("not a mean over rows" in note for note in auc[".632+"].notes)
    assert auc["out-of-bag"].value == pytest.approx(scored.table["roc_auc"].mean())


def test_a_draw_without_a_class_is_counted_not_fatal() -> None:
    table = pd.DataFrame({"x": range(40), "y": ["rare"] * 3 + ["often"] * 37})
    problem = Problem.of(table, ModelSpec(estimator=LOGISTIC), "y")
    draws = score_draws(problem, draws_of(problem, 30), seed=0)
    failed, undefined = int(draws.table["error"].notna().sum()), int(draws.table["roc_auc"].isna().sum())
    assert failed > 0
    assert draws.table["seconds_fit"].max() < 600
    assert "hold one class ('often')" in draws.table["error"].dropna().iloc[0]
    made = bootstrap_aggregate(draws, *apparent_of(problem), problem)
    (auc,) = [each for each in made if each.metric == "roc_auc" and each.method == "out-of-bag"]
    assert auc.n_splits == 30 - undefined
    assert any(note.startswith(f"{failed} of 30 fits failed (the first: draw ") for note in auc.notes)
    assert any("roc_auc is undefined" in note for note in auc.notes) == (undefined > failed)


def test_a_draw_whose_losses_are_undefined_is_counted_not_fatal() -> None:
    x = np.linspace(-5, 3, 40)
    table = pd.DataFrame({"x": x, "y": np.maximum(np.round(3.4 + 0.7 * x), 0.0)})
    table.loc[0, "y"] = 3.0  # without this row the line falls below 0
    metrics = ("neg_mean_poisson_deviance", "neg_mean_squared_error")
    problem = Problem.of(table, ModelSpec(estimator="sklearn.linear_model:LinearRegression", metrics=metrics), "y")
    scored = score_draws(problem, draws_of(problem, 20), seed=0)
    undefined = int(scored.table["neg_mean_poisson_deviance"].isna().sum())
    assert 0 < undefined <= 10
    assert scored.table["error"].isna().all()
    assert scored.table["neg_mean_poisson_deviance"].max() <= 0
    deviances, squares = (scored.rows[f"count_{metric}"].sum() for metric in metrics)
    defined = scored.table["neg_mean_poisson_deviance"].notna()
    assert (deviances, squares) == (scored.table["n_test"][defined].sum(), scored.table["n_test"].sum())
    out = bootstrap_aggregate(scored, *apparent_of(problem), problem)[0]
    assert (out.method, out.n_splits) == ("out-of-bag", 20 - undefined)


def test_a_draw_of_rows_without_weight_has_no_score() -> None:
    table = pd.DataFrame({"x": range(40), "y": [0, 1] * 20, "w": [1.0] * 30 + [0.0] * 10})
    problem = Problem.of(table, ModelSpec(estimator=LOGISTIC, weights="w", metrics=("accuracy", "f1")), "y")
    parts = [(np.arange(30), np.arange(30, 40)), (np.arange(20), np.arange(20, 40))]
    scored = score_draws(problem, enumerate(parts), seed=0)
    assert scored.table[["accuracy", "f1"]].isna().to_numpy().tolist() == [[True, True], [False, False]]
    assert scored.rows["count_accuracy"].tolist() == [0] * 20 + [1] * 20


def test_random_splits_have_the_corrected_t_unless_all_score_alike() -> None:
    apparent = FoldScore("all", 0, 0, {}, {"r2": 0.9}, 100, 0, 0.0, 0.0)

    def told(scores: list[float], interval: str = "auto") -> Estimate:
        table = pd.DataFrame({"draw": range(len(scores)), "n_train": 80, "n_test": 20, "r2": scores})
        (made,) = resampled_aggregate(DrawScores(table, {}), apparent, level=0.9, interval=interval)
        return made

    made, by_hand = told([0.5, 0.7, np.nan, 0.6]), corrected_resampled_t([0.5, 0.7, 0.6], 80, 20, level=0.9)
    assert (made.interval.low, made.interval.high) == (by_hand.interval.low, by_hand.interval.high)
    assert (made.value, made.gap, made.n_splits) == (pytest.approx(0.6), pytest.approx(0.3), 3)
    assert "r2 is undefined in 1 of 4 draws." in made.notes
    without = {"auto": "every split has the same score", "none": "", "bootstrap": "There is no interval: bootstrap"}
    for interval, said in without.items():
        made = told([0.5, 0.5], interval)
        assert made.interval is None
        assert any(said in note for note in made.notes)
    assert told([0.5]).interval is None
    table = pd.DataFrame({"draw": range(5), "n_train": 80, "n_test": 20, "r2": [0.5, np.nan, np.nan, 0.6, 0.7]})
    table["error"] = [None, "draw 1: it was singular", None, None, None]
    (made,) = resampled_aggregate(DrawScores(table, {}), apparent)
    assert "1 of 5 fits failed (the first: draw 1: it was singular)." in made.notes
    assert "r2 is undefined in 1 of 5 draws." in made.notes


@pytest.mark.parametrize(
    ("metric", "sizes", "said"),
    [
        ("roc_auc", {"test_size": 2}, r"^roc_auc has no score in 1\d of 20 draws: roc_auc is undefined in 1\d of 20"),
        ("accuracy", {"test_size": 10, "train_size": 3}, r"in (1\d) of 20 draws: \1 of 20 fits failed"),
    ],
)
def test_random_splits_of_which_most_have_no_score_are_no_estimate(metric: str, sizes: Any, said: str) -> None:
    """Two rows in 40 are of the rarer class: what failed is named, and one lucky draw is no estimate."""
    table = pd.DataFrame({"x": np.arange(40) % 7, "y": [1, 1, *[0] * 38]})
    problem = Problem.of(table, ModelSpec(estimator=LOGISTIC, metrics=(metric,)), "y")
    splits = enumerate(ShuffleSplit(20, random_state=1, **sizes).split(table))
    scored = score_draws(problem, splits, seed=0)
    with pytest.raises(EvaluationError, match=said):
        resampled_aggregate(scored, apparent_of(problem)[0])


@pytest.mark.parametrize(
    ("estimator", "rows", "metrics"),
    [
        (LOGISTIC, CANCER_ROWS, ("roc_auc", "balanced_accuracy", "accuracy", "neg_log_loss", "f1_macro")),
        ("sklearn.linear_model:Ridge", DIABETES_ROWS, ("r2", "neg_root_mean_squared_error", "neg_max_error")),
        (None, DIABETES_ROWS, ()),
    ],
)
def test_draws_score_as_folds_do(estimator: Any, rows: Any, metrics: tuple[str, ...]) -> None:
    params = {} if estimator else {"max_iter": 5}
    problem = Problem.of(rows, ModelSpec(estimator=estimator, metrics=metrics, params=params), "target")
    draws = draws_of(problem, 2)
    table = score_draws(problem, draws, seed=1).table
    for i, pair in draws:
        slow, _ = fit_and_score(problem, *pair, seed=1, name=f"draw {i}")
        for metric in problem.model.metrics:
            assert table[metric][i] == pytest.approx(slow.test[metric], abs=1e-12)


def of_draws(n: int = 60, n_draws: int = 150, groups: int = 0) -> tuple[Any, ...]:
    """Return a problem, draws of it (of whole groups), their scores, and the fit of all rows."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n)})
    frame["y"] = frame["x"] + rng.normal(size=n)
    model = ModelSpec(estimator="sklearn.linear_model:Ridge", metrics=("neg_mean_squared_error", "r2"))
    codes = np.arange(n) % groups if groups else None
    problem = Problem.of(frame, model, "y", groups=codes)
    if codes is None:
        draws = list(enumerate(Bootstrap(n_draws, random_state=0).split(frame)))
    else:
        draws = list(enumerate(GroupBootstrap(n_draws, random_state=0).split(frame, groups=codes)))
    scored = score_draws(problem, draws, seed=0)
    every = np.arange(n)
    apparent, on_all = fit_and_score(problem, every, every, seed=0, name="all rows")
    drawn = Multiplicities.of(draws, every, problem.groups, np.ones(n))
    return problem, draws, scored, apparent, on_all, drawn


@pytest.mark.parametrize("groups", [0, 15])
def test_a_bootstraps_interval_is_the_delta_method_by_hand(groups: int) -> None:
    problem, draws, scored, apparent, on_all, drawn = of_draws(groups=groups)
    estimates = bootstrap_aggregate(scored, apparent, on_all, problem, drawn=drawn, level=0.9)
    best = next(each for each in estimates if (each.metric, each.method) == ("neg_mean_squared_error", ".632+"))
    n, units = problem.n, problem.groups if groups else np.arange(problem.n)
    n_units = len(set(units.tolist()))
    per_row = scored.losses("neg_mean_squared_error")
    err1 = per_row.mean()
    effects = np.zeros(n_units)
    lost, counts = [], []
    for number, (train, test) in draws:
        lost.append(-scored.table["neg_mean_squared_error"][number] * len(test) / n)
        counts.append([np.sum(train == np.flatnonzero(units == unit)[0]) for unit in range(n_units)])
    q, times = np.array(lost), np.array(counts, dtype=float)
    owns = np.array([np.sum(per_row[units == unit] - err1) / n for unit in range(n_units)])
    for unit in range(n_units):
        moved = np.mean((times[:, unit] - times[:, unit].mean()) * q)
        effects[unit] = (2 + 1 / (n_units - 1)) * owns[unit] + (1 - 1 / n_units) ** -n_units * moved
    chance = (1 - 1 / n_units) ** (-2 * n_units) * times.var(axis=0).sum() * q.var(ddof=1) / len(q)
    se = np.sqrt(2 * (np.sum(effects**2) - chance)) * -best.value / err1
    half = np.log(best.interval.low / best.interval.high) / 2
    df = min(n_units - 1, 2 * n_units / (stats.kurtosis(owns, fisher=False) - 1))
    assert half == pytest.approx(stats.t.ppf(0.95, df) * se / -best.value, rel=1e-9)
    assert best.interval.low < best.value < best.interval.high


def test_more_draws_do_not_shrink_a_bootstraps_interval() -> None:
    """Its standard error is of the rows; without the correction 120 draws would say a quarter more than 360."""
    widths = []
    for n_draws in (120, 360):
        problem, _, scored, apparent, on_all, drawn = of_draws(n_draws=n_draws)
        estimates = bootstrap_aggregate(scored, apparent, on_all, problem, drawn=drawn)
        interval = next(each.interval for each in estimates if each.method == ".632+" and each.interval)
        widths.append(interval.high - interval.low)
    assert 0.85 < widths[0] / widths[1] < 1.15


def test_a_metric_that_is_no_mean_of_rows_says_why_a_bootstrap_has_no_interval_of_it() -> None:
    problem, _, scored, apparent, on_all, drawn = of_draws()
    estimates = bootstrap_aggregate(scored, apparent, on_all, problem, drawn=drawn)
    for each in estimates:
        assert (each.interval is None) == (each.metric == "r2")
        assert any("R2 is none; choose folds" in note for note in each.notes) == (each.metric == "r2")
    asked = bootstrap_aggregate(scored, apparent, on_all, problem, drawn=drawn, interval="bootstrap")
    assert all(each.interval is None and any("bootstrap needs" in note for note in each.notes) for each in asked)


def test_half_of_the_draws_are_enough_and_fewer_are_not() -> None:
    table = pd.DataFrame({"draw": range(10), "r2": [0.5] * 5 + [np.nan] * 5})
    assert DrawScores(table, {}).defined("r2").size == 5
    with pytest.raises(EvaluationError, match="r2 has no score in 5 of 9 draws: r2 is undefined in 5 of 9 draws; use"):
        DrawScores(table.tail(9), {}).defined("r2")

"""Comparisons are paired, and say what they are a comparison of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER, CANCER_FRAMES, DIABETES_FRAMES, LOGISTIC, evaluated, frame_of, normals, pooled_interval
from evenfold.estimates import ModelError, ModelSpec, Problem, compare, compare_all, corrected_resampled_t
from evenfold.splitters import StratifiedKFold
from scipy import stats
from scipy.signal import lfilter
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).parents[2]


def test_a_paired_difference_by_hand() -> None:
    """B is right on one row more of four; the paired differences are 0, 0, 1, 0."""
    y = ["no", "yes", "no", "yes"]
    made = compare(frame_of(y, ["no", "yes", "yes", "no"]), frame_of(y, ["no", "yes", "no", "no"]), "accuracy")
    assert (made.a, made.b, made.difference, made.n_rows) == (0.5, 0.75, 0.25, 4)
    by_hand = pooled_interval([0, 0, 1, 0])
    assert (made.interval.low, made.interval.high) == pytest.approx((by_hand.low, by_hand.high))
    assert made.interval == made.of_models
    assert made.p == 1.0  # of the one row on which they differ, McNemar's exact test can say nothing
    assert made.test is None
    assert "accuracy of B minus that of A is 0.25, 95 % [-0.546, 1.05]; differences below 0.8 cannot" in made.words


def test_the_order_of_rows_does_not_matter() -> None:
    a, b = CANCER_FRAMES[0], CANCER_FRAMES[0].assign(prediction=1)
    assert compare(a, b, "accuracy") == compare(a.iloc[::-1], b.sample(frac=1, random_state=0), "accuracy")


def test_a_clear_winner_is_named_with_what_it_saves() -> None:
    worse = Problem.of(
        load_breast_cancer(as_frame=True).frame,
        ModelSpec(estimator=LOGISTIC, features=("mean texture", "mean smoothness")),
        "target",
    )
    _, frames = evaluated(worse, list(StratifiedKFold(5).split(CANCER.X, CANCER.y)))
    made = compare(pd.concat(frames), pd.concat(CANCER_FRAMES), "accuracy", names=("small", "big"), stratified=True)
    assert made.words.startswith("big is better by 0.2")
    assert made.words.endswith("fewer errors on the same rows, as recipes on new data.")
    assert made.test.p < 0.01
    assert "stratified" in made.test.interval.notes[0]
    auc = compare(pd.concat(frames), pd.concat(CANCER_FRAMES), "roc_auc")
    assert auc.b == pytest.approx(roc_auc_score(*pd.concat(CANCER_FRAMES)[["y", "proba_1"]].to_numpy().T))
    assert auc.interval.low > 0


def test_groups_make_the_comparison_cluster_robust() -> None:
    a = pd.concat(DIABETES_FRAMES).assign(clinic=lambda frame: frame["row"] // 20)
    made = compare(a, a.assign(prediction=a["y"].mean()), "neg_mean_squared_error", groups="clinic")
    alone = compare(a.drop(columns="clinic"), a.assign(prediction=a["y"].mean()), "neg_mean_squared_error")
    assert (made.se[1], alone.se[1]) == (pytest.approx(21.02, abs=0.01), 441)
    found = compare(a.rename(columns={"clinic": "group"}), a.assign(prediction=a["y"].mean(), group=a["clinic"]), "mse")
    assert found.se == made.se, "a recorded evaluation calls the column group"


TWO = frame_of(list("ny"), list("ny"))
UNWEIGHED = frame_of(list("nyn"), list("nyn"), weight=[0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("a", "b", "more", "message"),
    [
        (TWO, TWO.assign(y="y"), {}, "the target differs in 1 of 2 shared rows; compare runs on the same data"),
        (TWO, TWO.assign(row=[7, 8]), {}, "A and B share no row by row; compare runs of the same split"),
        (TWO.assign(row=0), TWO, {}, "1 rows of A have the same row, repeat, fold; a key names one row"),
        (UNWEIGHED, TWO, {}, r"are 0 on all shared rows of a repeat \(2 rows are shared\), so there is no sc"),
        (TWO, TWO, {"level": 95}, "level=95 is not a share of cases; choose a number between 0 and 1"),
    ],
)
def test_runs_that_cannot_be_compared_get_a_sentence(a: Any, b: Any, more: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        compare(a, b, "accuracy", **more)


def test_other_folds_leave_out_the_test_by_folds() -> None:
    a = frame_of(list("nynynyny"), list("nynynyyn"), fold=[0, 0, 0, 0, 1, 1, 1, 1])
    b = frame_of(list("nynynyny"), list("nynynyny"), fold=[0, 1] * 4)
    made = compare(a, b, "accuracy")
    assert made.test is None
    assert made.notes[0].startswith("The folds differ")


def two_recipes(shift: float = 0.0, folds: int = 5) -> tuple[pd.DataFrame, pd.DataFrame]:
    y = normals(200)
    fold = np.arange(200) % folds
    return frame_of(y, y + normals(200, 1), fold), frame_of(y, y + (1 - shift) * normals(200, 2), fold)


def test_the_recipes_difference_is_less_sure_than_the_fitted_models() -> None:
    """Its variance is 1 + n/n_train = 2.25 times as large for 5 folds; the words say which of the two is meant."""
    made = compare(*two_recipes(0.15), "mse")
    widths = [each.high - each.low for each in (made.interval, made.of_models)]
    assert widths[0] == pytest.approx(1.5 * widths[1])
    assert made.verdict == "unknown"
    assert (made.repeats, made.n_fits) == (1, 10)
    assert made.resolution == pytest.approx(widths[0] / 2)
    assert "No detectable difference" in made.words
    clear = compare(*two_recipes(0.5), "mse")
    assert clear.verdict == "better"
    assert clear.words.endswith("as recipes on new data.")


def test_a_small_training_set_makes_recipes_less_sure() -> None:
    """As of forward chaining: where rows that were tested elsewhere are no training rows, their number is given."""
    a, b = pd.concat(CANCER_FRAMES), pd.concat(CANCER_FRAMES).assign(prediction=lambda f: 1 - f["prediction"])
    for n_train in (100.0, 2_000.0):
        made = compare(a, b, "accuracy", n_train=n_train)
        recipes, models = (each.high - each.low for each in (made.interval, made.of_models))
        assert recipes / models == pytest.approx(np.sqrt(1 + len(a) / n_train))
        by_folds = [(part["y"] == part["prediction"]).mean() for _, part in a.groupby("fold")]
        wanted = corrected_resampled_t([1 - 2 * right for right in by_folds], n_train, len(a) / 5)
        assert made.test.se == pytest.approx(wanted.se, rel=1e-3)


def test_models_that_overfit_less_are_told_apart_sooner() -> None:
    """Of one round of the same folds training counts by the larger overfitting, 1.5 times its root; else in full."""
    a, b = two_recipes(0.2)
    plain = compare(a, b, "mse")
    tame = compare(a, b, "mse", apparent=(plain.a + 0.01 * abs(plain.a), plain.b))
    assert tame.se[0] / plain.se[0] == pytest.approx(((1 + 1.25 * 0.15) / 2.25) ** 0.5, rel=0.001)
    assert compare(a, b, "mse", apparent=(0.0, 0.0)).se == plain.se, "by heart"
    other = b.assign(fold=(b["fold"] + b["row"] % 2) % 5)
    assert compare(a, other, "mse", apparent=(plain.a, plain.b)).se == compare(a, other, "mse").se, "other folds"


def test_a_margin_makes_recipes_equivalent() -> None:
    a, b = two_recipes()
    plain = compare(a, b, "mse")
    wide = abs(plain.difference) + plain.resolution + 0.01
    made = compare(a, b, "mse", margin=wide)
    assert (plain.verdict, made.verdict) == ("unknown", "equivalent")
    assert made.words.startswith(f"A and B are equivalent within {wide:g}")


def test_several_candidates_pay_for_their_number() -> None:
    reference, _ = two_recipes()
    shifts = {"clear": 0.5, "slight": 0.3, "none": 0.0}
    candidates = {name: two_recipes(shift)[1] for name, shift in shifts.items()}
    alone = {name: compare(reference, frame, "mse").p or 0.0 for name, frame in candidates.items()}
    made = compare_all(candidates, "mse", reference)
    assert made["clear"].p == pytest.approx(3 * alone["clear"])
    assert made["slight"].p == pytest.approx(max(2 * alone["slight"], 3 * alone["clear"]))
    assert made["none"].p == pytest.approx(max(alone["none"], made["slight"].p))
    assert made["clear"].verdict == "better"
    for one in made.values():
        assert (one.verdict == "unknown") == ((one.p or 0) > 0.05)
    strict = compare_all({"clear": candidates["clear"]}, "mse", reference, level=1 - alone["clear"] * 1.01)
    assert strict["clear"].verdict == "better", "one candidate pays for itself alone"
    strict = compare_all(candidates, "mse", reference, level=1 - alone["clear"] * 1.01)
    assert strict["clear"].verdict == "unknown", "and at the level that was asked for"


@pytest.mark.parametrize("repeats", [1, 2])
def test_repeats_are_no_surer_than_the_corrected_t_of_their_folds(repeats: int) -> None:
    y, fold = normals(60), np.repeat(np.arange(5), 12)
    apart = np.array([0.0, 1.0, 0.0, 1.0, 5.0])[fold] + normals(60, 1) / 10
    a, b = (
        pd.concat([frame_of(y, y + error).assign(fold=fold, repeat=repeat) for repeat in range(repeats)])
        for error in (0.1, apart)
    )
    made = compare(a, b, "mae")
    assert (made.se == (made.test.se, made.test.df)) == (repeats > 1)


def test_one_look_at_a_holdout_is_judged_by_mcnemars_exact_test() -> None:
    """B alone is right on 9 rows, A alone on 2: p is that of a fair coin that falls so, 11 times."""
    y = np.array(["yes"] * 100)
    wrong_a, wrong_b = set(range(10)), {9, 98, 99}
    a, b = (np.where([row in wrong for row in range(100)], "no", "yes") for wrong in (wrong_a, wrong_b))
    made = compare(frame_of(y, a), frame_of(y, b), "accuracy", classes=("no", "yes"))
    assert made.p == pytest.approx(stats.binomtest(2, 11).pvalue)
    assert made.verdict == "unknown"
    other = compare(frame_of(y, a), frame_of(y, b), "accuracy", classes=("no", "yes"), level=0.9)
    assert (made.p, other.verdict) == (pytest.approx(0.0654, abs=1e-4), "better"), "at the level that was asked for"
    assert any("A alone is right on 2 rows and B alone on 9 (McNemar" in note for note in made.notes)
    folds = np.arange(100) % 5
    in_folds = compare(frame_of(y, a, folds), frame_of(y, b, folds), "accuracy", classes=("no", "yes"))
    assert any("McNemar" in note for note in in_folds.notes)
    assert in_folds.p != made.p  # of recipes, which other rows would have trained otherwise
    grouped = compare(frame_of(y, a, group=folds), frame_of(y, b, group=folds), "accuracy", classes=("no", "yes"))
    assert not any("McNemar" in note for note in grouped.notes)  # rows of a group do not stand for themselves


def test_both_sides_are_scored_with_the_weights_of_the_first() -> None:
    y, said = np.arange(40) % 2, np.arange(40) % 3 % 2
    plain = frame_of(y, said, np.arange(40) % 5)
    weighed = plain.assign(weight=np.where(y == said, 3.0, 1.0))
    for sides, note in (
        ((plain, weighed), "Both are scored without weights, as A was, and not as B."),
        ((weighed, plain), "Both are scored with the weights of A, and not as B."),
        ((weighed, weighed.assign(weight=1.0 + y)), "Both are scored with the weights of A, and not as B."),
    ):
        made = compare(*sides, "accuracy")
        assert (made.a, made.difference) == (compare(sides[0], sides[0], "accuracy").a, 0.0)
        assert made.notes[0] == note
    assert not any("weights" in note for note in compare(weighed, weighed, "accuracy").notes)
    assert not any("weights" in note for note in compare(plain, plain.assign(weight=1.0), "accuracy").notes)


def series(seed: int, n_stretches: int = 5) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two recipes of equal expected error on a series of 600 rows that follow one another closely."""
    noise = np.random.default_rng(seed).normal(size=800)
    y = lfilter([1], [1, -0.97], noise)[200:] * np.sqrt(1 - 0.97**2)
    rows = frame_of(y, 0.3, np.arange(600) * n_stretches // 600)
    return rows, rows.assign(prediction=-0.3)


def test_equal_recipes_are_seldom_told_apart_by_a_series_whose_rows_depend_on_one_another() -> None:
    """Each stretch is one observation: of 40 series about 2 may be called, and rows alone would call most of them."""
    made = [compare(*series(seed), "mse", n_train=360, ordered=True) for seed in range(40)]
    assert sum(one.verdict != "unknown" for one in made) <= 3
    assert sum(compare(*series(seed), "mse", n_train=360).verdict != "unknown" for seed in range(10)) > 5
    assert {one.se[1] for one in made if one.se is not None} == {4.0}
    assert not any("repeats" in note for one in made for note in one.notes), "a series has no other folds"
    for n_stretches, said in ((1, "1 stretch is too few"), (2, "2 stretches are too few")):
        few = compare(*series(0, n_stretches), "mse", n_train=360, ordered=True)
        assert (few.interval, few.of_models, few.se, few.p, few.verdict) == (None, None, None, None, "unknown")
        assert any(f"{said} to say how much" in note for note in few.notes)


@pytest.mark.parametrize("how", [{"ordered": True}, {"groups": "clinic"}])
def test_a_difference_that_is_the_same_in_every_group_is_not_certain(how: dict[str, Any]) -> None:
    rows = np.arange(30)
    a, b = (frame_of(rows * 0, rows % 10 < wrong, rows // 10, clinic=rows // 10) for wrong in (5, 3))
    made = compare(a, b, "accuracy", classes=(0, 1), **how)
    assert (made.difference, made.interval, made.p, made.verdict) == (pytest.approx(0.2), None, None, "unknown")
    assert made.words == "B has the better accuracy by 0.2; whether by chance cannot be told."
    assert any("every group or stretch of time shows the same difference" in note for note in made.notes)


def test_repeats_of_one_fold_ask_for_the_training_rows() -> None:
    y = np.arange(40) % 2
    a, b = (
        pd.concat([frame_of(y, y ^ (np.arange(40) % every == 0), repeat=repeat) for repeat in range(2)])
        for every in (4, 5)
    )
    with pytest.raises(ModelError, match=r"each of the 2 repeats has one fold, .* give n_train"):
        compare(a, b, "accuracy")
    assert compare(a, b, "accuracy", n_train=160).interval is not None


def test_the_page_of_estimates_says_what_the_study_of_comparisons_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table is made of results/comparisons.json: equal recipes are told apart in at most .07, by any repeats."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import comparisons

    told = json.loads((ROOT / "docs" / "results" / "comparisons.json").read_text(encoding="utf-8"))
    found, n_sets = told["rows"], told["sets"]
    assert comparisons.table(found, n_sets) in (ROOT / "docs" / "estimates.md").read_text(encoding="utf-8")
    assert n_sets >= 300
    for each in found:
        if each["gap"]:
            assert each["ours"] >= (0.5 if each["repeats"] == 10 else 0.2), each
        else:
            assert each["ours"] <= comparisons.MOST + 2 * (0.07 * 0.93 / n_sets) ** 0.5, each

"""The value is the metric of all folds' predictions, and lies in an interval of its own, whatever metric and rows."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import nested_of, normals
from evenfold.estimates import (
    METRICS,
    Answered,
    DrawScores,
    Estimate,
    Evidence,
    FoldScore,
    Interval,
    ModelSpec,
    Problem,
    aggregate,
    fit_and_score,
    influence_of,
    interval_for,
    level_scores_of_draws,
)
from evenfold.estimates.bootstrap import interval_of_draws
from evenfold.estimates.intervals.methods import within_range
from evenfold.estimates.metrics.record import replay
from evenfold.estimates.metrics.scoring import score
from evenfold.estimates.results import rounded
from evenfold.splitters import Predefined
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.metrics import f1_score, r2_score

CLASSES = ("a", "b", "c")


def problem_of(y: Any, classes: tuple[Any, ...] = (), groups: Any = None, weights: Any = None) -> Problem:
    task: Any = "classification" if classes else "regression"
    return Problem(
        X=pd.DataFrame(index=range(len(y))), y=np.asarray(y), task=task, classes=classes, model=ModelSpec(),
        target="y", features=(), encoded=(), left_out={}, columns_read=(), groups=groups, weights=weights,
    )  # fmt: skip


def frame_of(problem: Problem, prediction: Any, fold: Any, proba: Any = None) -> pd.DataFrame:
    columns = {"row": np.arange(problem.n), "repeat": 0, "fold": fold, "y": problem.y, "prediction": prediction}
    if proba is not None:
        columns |= {f"proba_{label}": proba[:, j] for j, label in enumerate(problem.classes)}
    return pd.DataFrame(columns if problem.weights is None else columns | {"weight": problem.weights})


def estimated(problem: Problem, frame: pd.DataFrame, metric: str, interval: str = "auto") -> Estimate:
    scores = []
    for fold, part in frame.groupby("fold"):
        value = score(metric, replace(Answered.of(part, problem.classes), classes=()))
        n = problem.n
        scores.append(
            FoldScore(f"fold {fold}", 0, int(fold), {metric: value}, {metric: value}, n - len(part), len(part), 0, 0)
        )
    of_metric = replace(problem, model=problem.model.model_copy(update={"metrics": (metric,)}))
    return aggregate(scores, frame, of_metric, interval=interval)[0]


# Ten sites in five folds; the rare class occurs in two of them.
SITES = np.repeat(np.arange(10), 8)
RARE = np.where(np.isin(SITES, (0, 6)) & (np.arange(80) % 8 < 6), 1, 0)


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [(0.05234, 2, "0.052"), (-130.4, 2, "-130"), (1234.5, 2, "1,200"), (87.4, 2, "87"), (0.0454, 3, "0.0454")],
)
def test_a_number_is_rounded_as_people_write_it(value: float, digits: int, said: str) -> None:
    assert rounded(value, digits) == said


def test_a_useless_classifier_gets_no_credit_for_folds_without_a_class() -> None:
    """The mean over folds says .8 of one that always predicts the frequent class; it is .5, and the note says why."""
    problem = problem_of(RARE, (0, 1))
    made = estimated(problem, frame_of(problem, np.zeros(80, dtype=int), SITES // 2), "balanced_accuracy")
    assert made.fold_mean == pytest.approx(0.8)
    assert made.value == 0.5
    assert any("3 of 5 folds lack a class" in note for note in made.notes)


@pytest.mark.parametrize("metric", ["recall", "f1", "precision", "matthews_corrcoef"])
def test_a_perfect_classifier_is_perfect_where_folds_lack_a_class(metric: str) -> None:
    """The mean over folds says .4."""
    problem = problem_of(RARE, (0, 1))
    made = estimated(problem, frame_of(problem, RARE, SITES // 2), metric)
    assert made.fold_mean == pytest.approx(0.4)
    assert made.value == 1.0
    assert made.interval.low < made.interval.high == 1.0


@pytest.mark.parametrize(("metric", "end"), [("r2", "high"), ("roc_auc", "low")])
def test_an_interval_of_the_folds_scores_is_widened_to_the_estimate(metric: str, end: str) -> None:
    fold = np.repeat(np.arange(5), 40)
    apart = 9.0 * fold + normals(200, 1)
    problem, frame = problem_of(apart), frame_of(problem_of(apart), 9.0 * fold + normals(200, 2), fold)
    if metric == "roc_auc":
        y = np.arange(200) % 2
        problem, proba = problem_of(y, (0, 1)), stats.norm.cdf((2 * y + normals(200, 4) + 4 * fold - 9) / 9)
        frame = frame_of(problem, y, fold, np.column_stack([1 - proba, proba]))
    made = estimated(problem, frame, metric, interval="corrected_t")
    assert getattr(made.interval, end) == made.value
    assert made.interval.low < made.fold_mean < made.interval.high


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "roc_auc", "f1"])
def test_no_errors_are_no_proof_of_none(metric: str) -> None:
    """40 rows, all right: Wilson's lower end, of the rarer class where it decides; never zero width."""
    y = np.arange(40) % 2
    problem = problem_of(y, (0, 1))
    frame = frame_of(problem, y, np.arange(40) % 5, np.eye(2)[y])
    made = interval_for(Evidence(METRICS[metric], problem, predictions=frame), "wald")
    n = 40 if metric == "accuracy" else 20
    assert made.low == pytest.approx(n / (n + 1.959964**2), abs=1e-6)
    assert made.high == 1.0


@pytest.mark.parametrize(
    ("metric", "how", "n"),
    [
        ("accuracy", "weights", 10.0),
        ("balanced_accuracy", "weights", 5.0),
        ("accuracy", "groups", 10.0),
        ("balanced_accuracy", "groups", 2.0),
        ("accuracy", "groups and weights", 2.0),
    ],
)
def test_no_errors_of_rows_that_hardly_weigh_prove_as_little(metric: str, how: str, n: float) -> None:
    rows = np.arange(200)
    y = (rows < 40) * 1 if how == "groups" else rows % 2
    weights = np.where(rows < 10, 1.0, 1e-9) if "weights" in how else None
    groups = {"weights": None, "groups": rows // 20, "groups and weights": rows // 5}[how]
    problem = problem_of(y, (0, 1), groups, weights)
    made = interval_for(Evidence(METRICS[metric], problem, predictions=frame_of(problem, y, rows % 5)), "wald")
    assert made.low == pytest.approx(n / (n + 1.959964**2), abs=1e-6)


@pytest.mark.parametrize(
    ("metric", "how"),
    [
        ("accuracy", "groups"),
        ("neg_mean_absolute_error", "groups"),
        ("neg_mean_absolute_error", "stretches"),
        ("accuracy", "a level"),
    ],
)
def test_groups_that_all_score_alike_are_no_proof_of_certainty(metric: str, how: str) -> None:
    rows, classes = np.arange(90), (0, 1) if metric == "accuracy" else ()
    y = rows % 2 if classes else rows % 2 * 0.1 + 1 / 3
    problem = problem_of(y, classes, None if how == "stretches" else rows // 2)
    scores = [FoldScore(f"fold {i}", 0, i, {}, {}, 30, 30, 0, 0) for i in range(3)]
    frame = frame_of(problem, np.full(90, y[0]), rows // 30)
    made: Any = interval_for(Evidence(METRICS[metric], problem, scores, frame, ordered=how == "stretches"))
    if how == "a level":
        totals = pd.DataFrame({metric: np.abs(y - y[0]), f"count_{metric}": 1})
        drawn = DrawScores(pd.DataFrame({"draw": [0], "n_train": [60]}), totals)
        of_metric = replace(problem, model=ModelSpec(metrics=(metric,)))
        (made,) = level_scores_of_draws(drawn, of_metric, {"all": (np.zeros(90, dtype=np.int64), ["a"])})
        assert made.interval is None
    assert "every group or stretch of time has the same score" in made.reason


@pytest.mark.parametrize("held", [False, True])
def test_the_interval_of_a_mean_of_classes_is_of_the_classes_of_its_score(held: bool) -> None:
    random = np.random.default_rng(0)
    y, said = random.integers(0, 2, 100), random.integers(0, 3, 100)
    named = np.array(CLASSES)
    frame = pd.DataFrame(
        {"row": np.arange(100), "repeat": 0, "fold": 0, "y": named[y], "prediction": named[np.where(y, y, said)]}
    )
    evidence = Evidence(METRICS["f1_macro"], problem_of(named[y], CLASSES), predictions=frame, held=held)
    told = f1_score(frame["y"], frame["prediction"], average="macro", labels=["a", "b"] if held else None)
    assert evidence.score(frame) == pytest.approx(told)
    assert evidence.influence[0] == pytest.approx(told)


def test_the_interval_of_a_mean_of_recalls_is_as_wide_as_its_smallest_classes_make_it() -> None:
    y = np.repeat([*CLASSES], [90, 6, 6])
    frame = frame_of(problem_of(y, CLASSES), np.where(np.arange(102) % 7 == 6, np.roll(y, 11), y), np.arange(102) % 3)
    names = ("balanced_accuracy", "recall_macro")
    made, same = (estimated(problem_of(y, CLASSES), frame, metric).interval for metric in names)
    assert made == same
    assert made.low < 0.7, "of six rows no recall is known well"


def test_a_locked_part_of_one_value_has_an_r2_by_convention_and_no_interval() -> None:
    """A look at it, which is recorded before it is scored, ended in a ZeroDivisionError."""
    x = np.random.default_rng(0).normal(size=60)
    frame = pd.DataFrame({"x": x, "y": np.where(np.arange(60) < 40, x, 2.0)})
    problem = Problem.of(frame, ModelSpec(estimator="sklearn.linear_model:Ridge", metrics=("r2",)), "y")
    scores, said = fit_and_score(problem, np.arange(40), np.arange(40, 60), seed=0, name="", fold=0)
    (made,) = aggregate([scores], said, problem)
    assert (made.value, made.interval) == (r2_score(np.full(20, 2.0), said["prediction"]), None)
    assert any("no row alone moves R2" in note for note in made.notes)


def three_classes(seed: int, n: int = 90) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    y = draw.choice(3, size=n, p=(0.5, 0.3, 0.2))
    logits = draw.normal(size=(n, 3)) + 1.2 * np.eye(3)[y]
    return y, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def beside(metrics: Any, *values: Any) -> list[tuple[str, Any]]:
    """Return each metric with one of the values, which take turns."""
    return list(zip(metrics, itertools.cycle(values), strict=False))


OF_SINGLE_ROWS = {"neg_median_absolute_error", "neg_max_error"}
OF_NUMBERS = [name for name, metric in METRICS.items() if metric.task == "regression" and name not in OF_SINGLE_ROWS]
OF_CLASSES = [name for name, metric in METRICS.items() if metric.task == "classification"]
BINARY = {"f1", "precision", "recall", "jaccard", "roc_auc", "average_precision", "sensitivity", "specificity"}


def answers_to(metric: str, how: str) -> tuple[Problem, pd.DataFrame]:
    """Return 51 rows that the metric is for, and what a model says of them in folds of very different sizes."""
    fold = np.repeat([0, 1, 2], [12, 12, 27])
    more: dict[str, Any] = {
        "groups": np.arange(51) // 3 if how == "groups" else None,
        "weights": np.linspace(0.5, 2, 51) if how == "weights" else None,
    }
    if how == "weights" and metric in ("roc_auc_ovo", "roc_auc_ovo_weighted", "neg_max_error"):
        more["weights"] = None  # scikit-learn weighs no greatest error, and these areas only of two classes
    seed = ["plain", "groups", "weights"].index(how)
    y, proba = three_classes(seed, 51)
    if METRICS[metric].task == "regression":
        truth = np.exp(normals(51, seed))
        problem = problem_of(truth, **more)
        return problem, frame_of(problem, truth * np.exp(0.4 * normals(51, seed + 9)), fold)
    if metric in BINARY:
        problem = problem_of((y > 0).astype(int), (0, 1), **more)
        two = np.column_stack([proba[:, 0], 1 - proba[:, 0]])
        return problem, frame_of(problem, two.argmax(axis=1), fold, two)
    problem = problem_of(np.asarray(CLASSES)[y], CLASSES, **more)
    return problem, frame_of(problem, np.asarray(CLASSES)[proba.argmax(axis=1)], fold, proba)


@pytest.mark.parametrize(("metric", "how"), beside(METRICS, "plain", "weights"))
def test_rows_that_are_drawn_have_the_score_that_scikit_learn_gives_them(metric: str, how: str) -> None:
    problem, frame = answers_to(metric, how)
    # The second time a row has its neighbour's answer.
    answers = frame.columns.difference(["row", "y", "weight", "repeat", "fold"])
    again = frame.assign(repeat=1, **{name: np.roll(frame[name], 1) for name in answers})
    evidence = Evidence(METRICS[metric], problem, predictions=pd.concat([frame, again[::-1]]))
    for seed in range(3):
        drawn = np.random.default_rng(seed).integers(0, 51, 51)
        slow = np.mean([evidence.score(part.iloc[drawn]) for part in evidence.parts])
        assert evidence.score_drawn(drawn) == pytest.approx(slow, rel=1e-12)
    assert np.isnan(evidence.score_drawn(drawn[:0]))


@pytest.mark.parametrize("metric", ["roc_auc", "neg_log_loss"])
def test_rows_that_lack_what_a_metric_reads_have_no_score_and_no_interval(metric: str) -> None:
    problem, frame = answers_to(metric, "plain")
    labels = frame[[name for name in frame if not str(name).startswith("proba_")]]
    evidence = Evidence(METRICS[metric], problem, predictions=labels)
    assert np.isnan(evidence.score_drawn(np.arange(51)))
    assert "undefined in 999 of 999 resamples" in interval_for(evidence, "bootstrap").reason


@pytest.mark.parametrize(
    ("metric", "how"), zip(OF_NUMBERS + OF_CLASSES, itertools.cycle(["plain", "groups", "weights"]))
)
def test_the_value_lies_in_its_interval_and_the_interval_in_the_metrics_range(metric: str, how: str) -> None:
    problem, frame = answers_to(metric, how)
    made = estimated(problem, frame, metric)
    assert made.interval is not None, made.notes
    assert METRICS[metric].low <= made.interval.low < made.interval.high <= METRICS[metric].high
    assert made.interval.low <= made.value <= made.interval.high
    together = score(metric, replace(Answered.of(frame, problem.classes), classes=()))
    assert made.value == pytest.approx(together)


@pytest.mark.parametrize(
    ("metric", "advice"),
    [("neg_median_absolute_error", "choose interval: bootstrap"), ("neg_max_error", "choose the median or MAE")],
)
@pytest.mark.parametrize("most", [0.0, 1.0], ids=["most are right", "none is"])
def test_an_error_that_hangs_on_single_rows_has_no_interval_from_leaving_rows_out(
    metric: str, advice: str, most: float
) -> None:
    """However many rows there are, that does not settle; and with 11 of 21 right it was divided by 0."""
    y = np.arange(21.0)
    problem = problem_of(y)
    frame = frame_of(problem, y + np.r_[np.full(11, most), np.arange(1, 11)], np.arange(21) % 5)
    made = estimated(problem, frame, metric)
    assert made.interval is None
    assert any(METRICS[metric].title in note and advice in note for note in made.notes)
    if metric == "neg_median_absolute_error" and most:
        drawn = interval_for(Evidence(METRICS[metric], problem, predictions=frame), "bootstrap")
        assert isinstance(drawn, Interval)


def test_a_score_at_the_end_of_its_range_has_an_interval_that_ends_there() -> None:
    half = stats.t.ppf(0.95, 9) * 0.5
    assert within_range(METRICS["neg_median_absolute_error"], 0.0, 0.5, 9, 0.9) == pytest.approx((-half, 0.0))
    assert within_range(METRICS["f1"], 1.0, 0.05, 9, 0.9) == pytest.approx((1 - half / 10, 1.0))
    assert within_range(METRICS["accuracy"], 0.0, 0.05, 9, 0.9) == pytest.approx((0.0, half / 10))


TWO_CLASSES = sorted(BINARY - {"average_precision"} | {"f1_macro", "precision_weighted"})


@pytest.mark.parametrize(("metric", "classes"), beside(TWO_CLASSES, (1, 2), (-1, 1), (0, 1), (1, 2), (False, True)))
def test_influences_are_of_the_score_whatever_the_two_classes_are_called(metric: str, classes: tuple[Any, Any]) -> None:
    """Of 1 and 2, scikit-learn's recall is that of 1, and the interval was that of 2: [.14, .96] round .96."""
    y, proba = three_classes(0)
    labels, two = np.asarray(classes)[(y > 0).astype(int)], np.column_stack([proba[:, 0], 1 - proba[:, 0]])
    problem = problem_of(labels, classes)
    answers = replay(frame_of(problem, np.asarray(classes)[two.argmax(axis=1)], 0, two), classes)
    made = influence_of(metric, Answered(answers, labels, classes))
    assert made[0] == pytest.approx(score(metric, Answered(answers, labels)), abs=1e-12)
    weighing_nothing = Answered(answers, labels, classes, (labels != classes[0]).astype(float))
    with np.errstate(invalid="ignore"):
        assert influence_of("balanced_accuracy", weighing_nothing) is None


@pytest.mark.parametrize(("grouped", "unit"), [(False, "row"), (True, "group")])
def test_draws_that_all_score_alike_are_no_proof_of_certainty(grouped: bool, unit: str) -> None:
    made = interval_of_draws(METRICS["accuracy"], 0.5, 0.5, (0.0, 10.0), 0.95, grouped=grouped)
    assert (
        made.reason == f"every {unit} has the same loss, so draws say nothing of how far another sample would be off."
    )


def test_nested_cross_validation_weighs_rows() -> None:
    table = load_diabetes(as_frame=True).frame.assign(w=lambda frame: np.where(np.arange(len(frame)) % 2, 1.0, 1e-6))
    model = ModelSpec(estimator="sklearn.linear_model:Ridge", metrics=("mse",), weights="w")
    problem = Problem.of(table, model, "target")
    labels = np.arange(442) // 2 % 5
    made = nested_of(problem, list(Predefined(labels).split(problem.X)))
    half = Problem.of(
        table[1::2].drop(columns="w").reset_index(drop=True), model.model_copy(update={"weights": None}), "target"
    )
    alone = nested_of(half, list(Predefined(labels[1::2]).split(half.X)))
    assert (made.low + made.high) == pytest.approx(alone.low + alone.high, rel=0.01)

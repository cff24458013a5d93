"""Scores are scikit-learn's, to the last digit that matters."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from evaluations import CANCER_ROWS, DIABETES_ROWS, LOGISTIC, RIDGE, WINE_ROWS, evaluated, frame_of
from evenfold.estimates import EvaluationError, FoldScore, ModelSpec, Problem, aggregate, assemble, fit_and_score
from evenfold.estimates.metrics.record import Answered, Responses
from evenfold.estimates.metrics.scoring import scores_of
from evenfold.estimates.models.fit import fit_predictions
from evenfold.estimates.results import hearing, warned
from evenfold.splitters import KFold, StratifiedKFold
from pydantic import TypeAdapter
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_validate
from sklearn.utils.parallel import delayed

CANCER = CANCER_ROWS.assign(target=np.array(["malignant", "benign"])[CANCER_ROWS["target"]])
TEXT = CANCER[["mean area", "mean texture", "target"]].assign(
    size=np.where(CANCER["mean radius"] > 14, "big", "small"), shape=pd.Categorical(CANCER["mean symmetry"] > 0.18)
)

FEW = {"params": {"max_iter": 3}}
SIZED = {"features": ("mean area", "size", "shape")}
FOREST = {"estimator": "sklearn.ensemble:RandomForestClassifier", "params": {"n_estimators": 5}}
CASES: dict[str, tuple[pd.DataFrame, ModelSpec]] = {
    "numbers, the defaults": (DIABETES_ROWS, ModelSpec(**FEW)),
    "two classes, a factory": (CANCER, ModelSpec(estimator=LOGISTIC, metrics=("roc_auc", "neg_log_loss", "f1_macro"))),
    "two classes, probabilities only": (CANCER, ModelSpec(estimator="sklearn.naive_bayes:GaussianNB")),
    "three classes, a seeded forest": (WINE_ROWS, ModelSpec(**FOREST, metrics=("roc_auc_ovr", "neg_log_loss"))),
    "text as codes": (TEXT, ModelSpec(text="ordinal", **FEW, **SIZED)),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_equal_those_of_cross_validate(name: str) -> None:
    """Test and apparent scores are cross_validate's on the same folds, to 1e-12."""
    table, model = CASES[name]
    problem = Problem.of(table, model, "target")
    pairs = list(KFold(2).split(problem.X))
    model, scoring = assemble(problem, 7), list(problem.model.metrics)
    theirs = cross_validate(model, problem.X, problem.y, cv=pairs, scoring=scoring, return_train_score=True)
    ours, _ = evaluated(problem, pairs, seed=7)
    for metric in problem.model.metrics:
        np.testing.assert_allclose([s.test[metric] for s in ours], theirs[f"test_{metric}"], rtol=0, atol=1e-12)
        np.testing.assert_allclose([s.apparent[metric] for s in ours], theirs[f"train_{metric}"], rtol=0, atol=1e-12)


def test_predictions_name_the_row_the_truth_and_every_class() -> None:
    problem = Problem.of(WINE_ROWS, ModelSpec(estimator=LOGISTIC), "target")
    pairs = list(StratifiedKFold(5).split(problem.X, problem.y))
    _, frames = evaluated(problem, pairs)
    columns = ["row", "repeat", "fold", "y", "prediction", "proba_0", "proba_1", "proba_2"]
    assert all(list(frame.columns) == columns for frame in frames)
    for (_, test), frame in zip(pairs, frames, strict=True):
        np.testing.assert_array_equal(frame["row"], test)
        np.testing.assert_array_equal(frame["y"], problem.y[test])
        np.testing.assert_allclose(frame[columns[5:]].sum(axis=1), 1)


def test_an_undefined_metric_says_which_fold_and_why() -> None:
    problem = Problem.of(CANCER, ModelSpec(estimator=LOGISTIC), "target")
    benign = np.flatnonzero(problem.y == "benign")
    test, train = benign[:40], np.setdiff1d(np.arange(len(CANCER)), benign[:40])
    said = r"^fold 3: roc_auc is undefined: its 40 test rows hold one class \('benign'\) of the model's 2; "
    with pytest.raises(EvaluationError, match=said):
        fit_and_score(problem, train, test, seed=0, name="fold 3")
    problem = replace(problem, model=problem.model.model_copy(update={"metrics": ("neg_log_loss",)}))
    score, frame = fit_and_score(problem, train, test, seed=0, name="fold 3")
    assert score.test["neg_log_loss"] == pytest.approx(np.log(frame["proba_benign"]).mean())


@pytest.mark.parametrize("estimator", [LOGISTIC, RIDGE])
def test_a_fold_without_rows_is_what_is_wrong(estimator: str) -> None:
    """Every row of it may have been deleted since the split was decided; other folds or metrics would not help."""
    data = CANCER if estimator == LOGISTIC else CANCER.assign(target=np.sqrt(np.arange(len(CANCER))))
    problem = Problem.of(data, ModelSpec(estimator=estimator), "target")
    with pytest.raises(EvaluationError, match=r"^fold 1 has no test row; decide a split of the rows that there are\.$"):
        fit_and_score(problem, np.arange(len(data)), np.arange(0), seed=0, name="fold 1")


@pytest.mark.parametrize(("metric", "value"), [("neg_mean_absolute_error", np.nan), ("r2", np.inf)])
def test_predictions_that_are_no_numbers_are_what_is_wrong(metric: str, value: float) -> None:
    answers = Responses({"predict": np.array([1.0, value, value])})
    said = rf"^fold 1: {metric} is undefined: the model's answers for 2 of its 3 training rows are not finite numbers"
    with pytest.raises(EvaluationError, match=said):
        scores_of([metric], Answered(answers, np.arange(3.0)), name="fold 1", side="training")
    labels = Responses({"predict": np.array(["a", "b"])}, ("a", "b"))
    for unanswered, truth in (("neg_log_loss", ["a", "b"]), ("accuracy", [0, 1])):
        with pytest.raises(EvaluationError, match=r"2 classes.* or another metric such as accuracy\.$"):
            scores_of([unanswered], Answered(labels, np.array(truth)), name="fold 1", side="test")


def test_a_single_row_has_no_r2_and_all_of_them_together_have() -> None:
    few = DIABETES_ROWS.iloc[:30].reset_index(drop=True)
    problem = Problem.of(few, ModelSpec(estimator="sklearn.linear_model:Ridge"), "target")
    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("always")
        scores, frames = evaluated(problem, [(np.delete(np.arange(30), i), np.array([i])) for i in range(30)])
    assert not printed
    assert {tuple(score.test) for score in scores} == {("neg_mean_absolute_error", "neg_root_mean_squared_error")}
    r2, mae, _ = aggregate(scores, frames, problem)
    predictions = pd.concat(frames)
    assert r2.value == pytest.approx(r2_score(predictions["y"], predictions["prediction"]))
    assert (r2.sd, r2.fold_mean, r2.n_splits) == (None, None, 30)
    assert any("each fold tests one row" in note for note in r2.notes)
    assert mae.fold_mean == pytest.approx(mae.value)


PARTS = (), ("validation",), ("validation", "test")


def test_the_estimate_is_mean_sample_sd_and_gap() -> None:
    """Computed by hand: the course example's ten accuracies, .713 (.049)."""
    tens = [0.63, 0.71, 0.73, 0.73, 0.76, 0.64, 0.71, 0.75, 0.78, 0.69]
    problem = Problem.of(CANCER, ModelSpec(metrics=("accuracy",)), "target")
    scores = [
        FoldScore(f"fold {i}", 0, i, {"accuracy": s}, {"accuracy": 0.8}, 90, 10, 0, 0) for i, s in enumerate(tens)
    ]
    frame = frame_of(["benign"] * 2, ["benign", "malignant"])
    (estimate,) = aggregate(scores, frame, problem)
    assert estimate.fold_mean == pytest.approx(0.713)
    assert estimate.sd == pytest.approx(0.0487739, abs=1e-7)
    assert estimate.se == pytest.approx(0.0487739 / 10**0.5, abs=1e-7)
    assert estimate.value == estimate.pooled == 0.5
    assert estimate.apparent == pytest.approx(0.8)
    assert estimate.gap == pytest.approx(0.3)
    assert estimate.n_splits == 10
    assert estimate.method == "cross-validation"
    named = {parts: aggregate(scores[:1], frame, problem, parts=parts)[0].method for parts in PARTS}
    assert list(named.values()) == ["one split", "validation part", "validation and test parts"]


def test_warnings_of_a_fit_stand_beside_its_score_and_are_printed_nowhere() -> None:
    short = ModelSpec(estimator="sklearn.linear_model:LogisticRegression", params={"max_iter": 2})
    problem = Problem.of(CANCER, short, "target")
    pairs = list(StratifiedKFold(2).split(problem.X, problem.y))

    def fit(i: int) -> FoldScore:
        return fit_and_score(problem, *pairs[i], seed=0, name=f"fold {i}", fold=i)[0]

    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(2) as pool:
            scores = list(pool.map(fit, range(2)))
        warnings.warn("of somebody else", UserWarning, stacklevel=1)
    assert [str(each.message) for each in printed] == ["of somebody else"]
    assert all(len(score.warnings) == 1 for score in scores)
    (sentence,) = warned([score.warnings for score in scores])
    assert sentence.startswith("2 of 2 fits warned: ConvergenceWarning: lbfgs failed to converge")
    kind = TypeAdapter(FoldScore)
    assert kind.validate_json(kind.dump_json(scores[0])) == scores[0]


def test_what_scikit_learn_says_of_its_own_threads_is_no_warning_of_a_fit(recwarn: pytest.WarningsRecorder) -> None:
    """By chance: a thread that has emptied the filters for a moment lets another take them for none."""
    work, arguments, named = delayed(len)([])
    with hearing() as heard:
        work(*arguments, **named)
        with ThreadPoolExecutor(1) as others:
            others.submit(work, *arguments, **named).result()
    assert (heard, recwarn.list) == ([], [])


def test_further_fits_are_silent(recwarn: pytest.WarningsRecorder) -> None:
    """Those of its folds are told beside their scores; a nested tuning printed dozens."""
    problem = Problem.of(CANCER, ModelSpec(estimator=LOGISTIC, params={"max_iter": 2}), "target")
    frame = fit_predictions(problem, np.arange(200), np.arange(200, 210), seed=0)
    assert (len(frame), frame[["repeat", "fold"]].any(axis=None), recwarn.list) == (10, False, [])

"""Weights, fit parameters and corrections reach every part of a model, and what they shift is said."""

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from evaluations import CANCER_ROWS, DIABETES_ROWS, LOGISTIC, RARE, RIDGE, THIRDS, UNSCALED, evaluated, problem
from evenfold.estimates import Estimate, ModelError, ModelSpec, Problem, aggregate, fit_and_score, fitted
from evenfold.estimates.folds import shifted
from evenfold.splitters import KFold


@pytest.mark.parametrize("estimator", [UNSCALED, LOGISTIC])
def test_weights_reach_the_fit_and_the_scores(estimator: str) -> None:
    seen = problem(estimator=estimator, weights="w", metrics=["accuracy", "roc_auc", "neg_log_loss"])
    assert "w" not in seen.features
    assert "w" in seen.columns_read
    train, test = THIRDS[0]
    score, frame = fit_and_score(seen, train, test, seed=0, name="")
    theirs = ModelSpec(estimator=estimator).build(0)
    name = "sample_weight" if estimator == UNSCALED else "logisticregression__sample_weight"
    weights = RARE["w"].to_numpy(dtype=float)
    theirs.fit(seen.X.iloc[train], seen.y[train], **{name: weights[train]})
    said = theirs.predict(seen.X.iloc[test])
    assert score.test["accuracy"] == pytest.approx(np.average(said == seen.y[test], weights=weights[test]), abs=1e-12)
    np.testing.assert_allclose(frame["proba_yes"], theirs.predict_proba(seen.X.iloc[test])[:, 1], atol=1e-12)
    np.testing.assert_array_equal(frame["weight"], weights[test])


@pytest.mark.parametrize(
    ("estimator", "more"),
    [
        (UNSCALED, {"threshold": "tuned"}),
        (LOGISTIC, {"balance": "class_weight"}),
        (UNSCALED, {"features": ["a", "text"]}),
    ],
)
def test_weights_go_through_every_wrapping_and_into_a_file(estimator: str, more: dict[str, Any]) -> None:
    table = RARE.assign(text=np.where(RARE["a"] > 0, "up", "down"))
    model = {"estimator": estimator, "features": ["a", "b"], **more}
    weighted = Problem.of(table, ModelSpec(**model, weights="w"), "y")
    plain = Problem.of(table, ModelSpec(**model | {"threshold": None}), "y")  # which changes no probability
    made = fitted(weighted, THIRDS[0][0], seed=0, name="")
    stored = skops.io.dumps(made)
    read = skops.io.loads(stored, trusted=skops.io.get_untrusted_types(data=stored))
    said = made.predict_proba(weighted.X)
    np.testing.assert_array_equal(read.predict_proba(weighted.X), said)
    assert not np.allclose(said, fitted(plain, THIRDS[0][0], seed=0, name="").predict_proba(plain.X))


def test_weights_go_through_a_target_transform() -> None:
    table = DIABETES_ROWS.assign(w=np.arange(442) % 2)
    model = {"estimator": RIDGE, "target_transform": "yeo-johnson"}
    seen, none = (
        Problem.of(table, ModelSpec(**model, **more), "target") for more in ({"weights": "w"}, {"exclude": ["w"]})
    )
    ones = np.flatnonzero(table["w"] == 1)
    weighted = fitted(seen, np.arange(442), seed=0, name="").regressor_
    plain = replace(none, model=none.model.model_copy(update={"target_transform": None}))
    alone = fitted(plain, ones, seed=0, name="")
    assert np.corrcoef(weighted.coef_, alone.coef_)[0, 1] > 0.98


class Foreign:
    """A regressor with scikit-learn's methods and none of its classes; it remembers the weights."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def set_params(self, **params: Any) -> Any:
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.mean_, self.weights_ = np.average(y, weights=sample_weight), sample_weight
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.mean_)


def test_weights_of_rows_reach_an_estimator_of_another_library() -> None:
    table, rows = DIABETES_ROWS.assign(w=1.0 + np.arange(442) % 2), np.arange(300)
    seen = Problem.of(table, ModelSpec(estimator=f"{__name__}:Foreign", weights="w"), "target")
    np.testing.assert_array_equal(fitted(seen, rows, seed=0, name="").weights_, table["w"][:300])


def test_a_metric_that_weighs_rows_of_two_classes_only_is_refused_for_three() -> None:
    """Before anything is fitted; it was found in fold 0."""
    table = RARE.assign(y=np.resize(["a", "b", "c"], len(RARE)))
    model = ModelSpec(estimator=UNSCALED, metrics=["roc_auc_ovo"], features=["a", "b"])
    assert Problem.of(table, model, "y").classes == ("a", "b", "c")
    with pytest.raises(ModelError, match=r"^metric 'roc_auc_ovo' cannot weigh rows; leave weights out, or choose"):
        Problem.of(table, model.model_copy(update={"weights": "w"}), "y")
    assert problem(estimator=UNSCALED, metrics=["roc_auc_ovo"], weights="w").weights is not None


OLD = "evenfold.estimates._assemble"


def test_a_stored_model_that_names_the_old_module_loads(tmp_path: Path) -> None:
    model = ModelSpec(
        estimator="evenfold.estimates:scaled_logistic_regression", metrics=("acc",), balance={"method": "undersample"}
    )
    problem = Problem.of(CANCER_ROWS, model, "target")
    made = fitted(problem, np.arange(problem.n), seed=0, name="all rows")
    new, old = tmp_path / "new.skops", tmp_path / "old.skops"
    skops.io.dump(made, new)
    with zipfile.ZipFile(new) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                assert b"evenfold.estimates.models.fit" in content
                content = content.replace(b"evenfold.estimates.models.fit", OLD.encode())
            target.writestr(name, content)
    unknown = skops.io.get_untrusted_types(file=old)
    assert any(OLD in each for each in unknown)
    loaded = skops.io.load(old, trusted=unknown)
    assert np.array_equal(loaded.predict(problem.X), made.predict(problem.X))


def rare(n: int = 600) -> pd.DataFrame:
    """Return rows of which an eighth is of the class yes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    chance = 1 / (1 + np.exp(-(X[:, 0] + X[:, 1] - 2.5)))
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.where(rng.uniform(size=n) < chance, "yes", "no"))


def told(frame: pd.DataFrame, **fields: Any) -> tuple[dict[str, Estimate], pd.DataFrame]:
    problem = Problem.of(frame, ModelSpec(**fields), "y")
    scores, frames = evaluated(problem, list(KFold(3, random_state=0).split(problem.X)))
    made = aggregate(scores, frames, problem)
    return {each.metric: each for each in made}, pd.concat(frames)


@pytest.mark.parametrize("balance", ["class_weight", {"method": "undersample", "ratio": 0.5}])
def test_the_shift_of_probabilities_by_balancing_is_said_with_both_figures(balance: Any) -> None:
    share = float(np.mean(rare()["y"] == "yes"))
    balanced, rows = told(rare(), estimator=LOGISTIC, metrics=("roc_auc",), balance=balance)
    plain, _ = told(rare(), estimator=LOGISTIC, metrics=("roc_auc",))
    (said,) = balanced["roc_auc"].warnings
    assert f"yes is {rows['proba_yes'].mean():.3g} on average, and its share of the rows is {share:.3g};" in said
    assert not plain["roc_auc"].warnings
    assert rows["proba_yes"].mean() > share + 0.1
    model = ModelSpec(estimator=LOGISTIC, balance="class_weight")
    halves = Problem.of(rare()[:400].assign(y=np.resize(["no", "yes"], 400)), model, "y")
    for by in (0.074, 0.076):  # three standard errors of a half of 400 rows are 0.075
        few = pd.DataFrame({"row": range(400), "y": halves.y, "proba_no": 0.5 - by, "proba_yes": 0.5 + by})
        assert (shifted(few, halves) is None) == (by < 0.075)


def test_balanced_classes_weigh_the_same_where_rows_weigh() -> None:
    frame = pd.DataFrame({"x": np.zeros(400), "y": np.resize(["no", "yes"], 400), "w": np.resize([1.0, 10.0], 400)})
    frame.loc[:39, "w"] *= 3.0
    model = ModelSpec(estimator=LOGISTIC, weights="w", balance="class_weight")
    seen, rows = Problem.of(frame, model, "y"), np.arange(400)
    made = fitted(seen, rows, seed=0, name="all")
    assert made.predict_proba(seen.X)[:, 1] == pytest.approx(0.5, abs=1e-3)


def skewed(n: int = 250) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    a = rng.normal(size=n)
    return pd.DataFrame({"a": a, "y": np.exp(1 + 0.5 * a + rng.normal(size=n))})


def test_a_transform_that_predicts_medians_says_so_with_both_figures() -> None:
    metrics = ("neg_mean_absolute_error",)
    medians, low = told(skewed(), estimator=RIDGE, metrics=metrics, target_transform="box-cox")
    mean = skewed()["y"].mean()
    (said,) = medians["neg_mean_absolute_error"].warnings
    assert f"they are {low['prediction'].mean():.3g} on average, and y is {mean:.3g}" in said
    assert low["prediction"].mean() < 0.75 * mean


def test_a_transform_takes_no_notice_of_rows_that_weigh_nothing() -> None:
    """Half of the rows are wild and weigh 0: the transform does not know of them."""
    wild = pd.DataFrame({"a": np.zeros(150), "y": np.exp(9.0 * np.random.default_rng(3).normal(size=150)), "w": 0.0})
    frame = pd.concat([skewed(150).assign(w=1.0), wild], ignore_index=True)
    seen = Problem.of(frame, ModelSpec(estimator=RIDGE, target_transform="box-cox", weights="w"), "y")
    every, alone = (fitted(seen, np.arange(n), seed=0, name="all") for n in (300, 150))
    assert every.predict(seen.X[:150]) == pytest.approx(alone.predict(seen.X[:150]), rel=1e-9)

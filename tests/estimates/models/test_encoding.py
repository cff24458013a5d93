"""Text as features without being listed: which, how, and learnt from training rows alone."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelSpec, Problem, fit_and_score, fitted, score_key
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, TargetEncoder

RIDGE = "sklearn.linear_model:Ridge"
N = 400
DRAW = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "number": DRAW.normal(size=N),
        "ward": DRAW.choice(["a", "b", "c", "d"], N),
        "kind": pd.Categorical(DRAW.choice(["x", "y"], N)),
        "note": [f"patient {i // 2}" for i in range(N)],
    }
)
TABLE["y"] = TABLE["number"] + TABLE["ward"].map({"a": 0, "b": 2, "c": 5, "d": 1}) + DRAW.normal(size=N) / 4
TRAIN, TEST = np.arange(300), np.arange(300, N)


def problem(model: ModelSpec, table: pd.DataFrame = TABLE) -> Problem:
    return Problem.of(table, model, "y")


def r2(model: ModelSpec, table: pd.DataFrame = TABLE) -> float:
    made = problem(model, table)
    return fit_and_score(made, TRAIN, TEST, seed=0, name="fold 0")[0].test["r2"]


@pytest.mark.parametrize(
    ("model", "ways"),
    [
        (ModelSpec(), {"ward": "categories", "kind": "categories"}),
        (ModelSpec(text="ordinal"), {"ward": "ordinal", "kind": "categories"}),
        (ModelSpec(estimator=RIDGE), {"ward": "one-hot", "kind": "one-hot"}),
        (ModelSpec(features=("ward", "number")), {"ward": "one-hot"}),
    ],
)
def test_text_that_repeats_is_a_feature_as_the_model_can_use_it(model: ModelSpec, ways: dict[str, str]) -> None:
    seen = problem(model)
    assert seen.encodings == ways
    assert "note" not in seen.features
    assert r2(model) > 0.5
    assert r2(ModelSpec(**{**model.model_dump(), "features": ("number",)})) < 0.4


def test_what_text_becomes_is_learnt_from_training_rows_alone() -> None:
    strange = TABLE["ward"].where(np.arange(N) < 350, "never seen")
    for model in (ModelSpec(estimator=RIDGE), ModelSpec()):
        seen = problem(model, TABLE.assign(ward=strange))
        made = fitted(seen, TRAIN, seed=0, name="fold 0")
        values = made.named_steps["encode"].transformers_[0][1].categories_[0]
        assert list(values) == ["a", "b", "c", "d"]
        assert np.isfinite(made.predict(seen.X)).all()
        assert len(set(made.predict(seen.X.iloc[350:].assign(number=0.0, kind=TABLE["kind"].iloc[0])))) == 1


def test_the_rarest_of_many_values_share_a_column() -> None:
    """Text of 200 values becomes 50 columns, or 254 categories, where it was not listed."""
    n = 6000
    names = [f"v{i}" for i in np.minimum(DRAW.geometric(0.02, n), 300)]
    table = pd.DataFrame({"number": DRAW.normal(size=n), "tail": names, "y": DRAW.normal(size=n)})
    rows = np.arange(n)
    seen = problem(ModelSpec(estimator=RIDGE), table)
    made = fitted(seen, rows, seed=0, name="fold 0")
    assert made.named_steps["encode"].transform(seen.X).shape == (n, 51)
    seen = problem(ModelSpec(params={"max_iter": 2, "max_bins": 63}), table)
    made = fitted(seen, rows, seed=0, name="fold 0")
    assert made.named_steps["encode"].transform(seen.X)["ordinalencoder__tail"].nunique() == 62
    assert made.named_steps["model"].is_categorical_.tolist() == [True, False]
    declared = problem(ModelSpec(params={"max_iter": 2, "max_bins": 63}), table.astype({"tail": "category"}))
    assert fitted(declared, rows, seed=0, name="fold 0").named_steps["encode"].transform(declared.X).shape == (n, 2)


def test_a_table_of_numbers_keeps_its_model_and_its_key() -> None:
    """Nothing stands before the model, and the key is the one that 0.1 made."""
    seen = problem(ModelSpec(estimator=RIDGE), TABLE[["number", "y"]])
    made = fitted(seen, TRAIN, seed=0, name="fold 0")
    assert type(made) is Ridge
    assert seen.encodings == {}
    assert "encod" not in str(seen.model.canonical())
    assert score_key(seen.model, membership="m", fingerprint="f", seed=0) == score_key(
        ModelSpec.of(seen.model.canonical()), membership="m", fingerprint="f", seed=0
    )


def selecting() -> Any:
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["ward"]), (StandardScaler(), ["number"])), Ridge())


def numbers_only() -> Any:
    numbers = (StandardScaler(), make_column_selector(dtype_include="number"))
    return make_pipeline(make_column_transformer(numbers, remainder="passthrough"), Ridge())


def encoding_all() -> Any:
    return make_pipeline(TargetEncoder(target_type="continuous"), Ridge())


def naming() -> Any:
    return make_pipeline(FunctionTransformer(), Naming(["ward"]))


class Naming(BaseEstimator):
    """A regressor of another library: it is told which columns are categories."""

    def __init__(self, cat_features: Any = None) -> None:
        self.cat_features = cat_features

    def fit(self, X: pd.DataFrame, y: Any) -> Any:
        if self.cat_features is not None:
            assert X[self.cat_features].map(lambda value: isinstance(value, str)).all(axis=None)
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        return np.full(len(X), self.mean_)


@pytest.fixture(autouse=True)
def _recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("text_recipes")
    for each in (selecting, numbers_only, encoding_all, naming, Naming):
        monkeypatch.setattr(each, "__module__", "text_recipes")
        setattr(module, each.__name__, each)
    monkeypatch.setitem(sys.modules, "text_recipes", module)


@pytest.mark.parametrize(
    ("name", "params", "features", "left_out"),
    [
        ("selecting", {}, ("number", "ward", "kind"), {"note"}),
        ("numbers_only", {}, ("number",), {"ward", "note"}),
        ("encoding_all", {}, ("number", "ward", "kind", "note"), set()),
        ("naming", {}, ("number", "ward", "kind"), {"note"}),
        ("Naming", {"cat_features": ["ward"]}, ("number", "ward", "kind"), {"note"}),
    ],
)
def test_a_model_that_reads_text_itself_gets_what_it_names_as_it_is(
    name: str, params: dict[str, Any], features: tuple[str, ...], left_out: set[str]
) -> None:
    """No encoder of ours touches it, and text that the model does not choose is left out, as it always was."""
    table = TABLE.drop(columns="kind") if name == "numbers_only" else TABLE
    seen = problem(ModelSpec(estimator=f"text_recipes:{name}", params=params, metrics=("r2",)), table)
    assert (seen.features, set(seen.left_out)) == (features, left_out)
    made = fitted(seen, TRAIN, seed=0, name="fold 0")
    assert np.isfinite(made.predict(seen.X.iloc[TEST])).all()
    assert seen.encodings.get("ward", "itself") == "itself"


def test_a_model_that_could_name_columns_gets_them_raw_where_it_does_and_encoded_where_it_names_none() -> None:
    seen = problem(ModelSpec(estimator="text_recipes:Naming", metrics=("r2",)))
    assert seen.encodings["ward"] == "one-hot"
    fitted(seen, TRAIN, seed=0, name="fold 0")
    params = {"categorical_features": ["ward", "kind"], "max_iter": 5}
    seen = problem(ModelSpec(estimator="sklearn.ensemble:HistGradientBoostingRegressor", params=params))
    assert seen.encodings == {"ward": "itself", "kind": "itself"}
    assert type(fitted(seen, TRAIN, seed=0, name="fold 0")) is HistGradientBoostingRegressor


@pytest.mark.parametrize("empty", [np.nan, pd.array([pd.NA] * 120, "Int64")], ids=["float", "Int64"])
def test_a_number_that_is_empty_or_empty_in_training_rows_fails_no_default_model(empty: Any) -> None:
    """It is left out by its name, or dropped in that fold, whose score is then as if it were not there."""
    x = np.random.default_rng(0).normal(size=120)
    table = pd.DataFrame({"x": x, "seldom": np.where(np.arange(120) == 5, 1.0, np.nan), "y": x * 2}).assign(never=empty)
    test, train = np.arange(40), np.arange(40, 120)
    for target in (table["y"], table["y"] > 0):
        seen = Problem.of(table.assign(y=target), ModelSpec(), "y")
        assert seen.left_out == {"never": "empty in every row"}
        without = Problem.of(table.assign(y=target), ModelSpec(features=["x"]), "y")
        scores = [fit_and_score(each, train, test, seed=0, name="")[0].test for each in (seen, without)]
        assert scores[0] == scores[1]


@pytest.mark.parametrize(
    ("library", "estimator", "params"),
    [
        ("lightgbm", "LGBMClassifier", {"n_estimators": 20, "verbose": -1}),
        ("xgboost", "XGBClassifier", {"n_estimators": 20}),
        ("catboost", "CatBoostClassifier", {"iterations": 20, "verbose": False, "allow_writing_files": False}),
    ],
)
def test_boosting_of_other_libraries_takes_text_and_labels(library: str, estimator: str, params: Any) -> None:
    """Text that holds what some of them take in no name of a column, and labels that are no numbers."""
    pytest.importorskip(library)
    ward = TABLE["ward"].map({"a": "north, <1 km", "b": "south [old]", "c": "east", "d": "west"})
    table = TABLE.assign(ward=ward, y=np.where(TABLE["y"] > 2, "Yes", "No"))
    made = problem(ModelSpec(estimator=f"{library}:{estimator}", params=params, metrics=("roc_auc",)), table)
    score, predictions = fit_and_score(made, TRAIN, TEST, seed=0, name="")
    assert score.test["roc_auc"] > 0.9
    assert set(predictions["prediction"]) == {"No", "Yes"}

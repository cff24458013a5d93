"""What a request names or passes: objects of scikit-learn's kind, used features, missing values that are filled."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelSpec, Problem, score_key
from evenfold.flows import evaluate, retrain
from evenfold.manifests import SplitSpec, decide
from evenfold.splitters import KFold, Repeated
from evenfold.tasks import Home
from lightgbm import LGBMRegressor
from mlflow import MlflowClient
from scipy.stats import loguniform
from sklearn import model_selection
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingRegressor, StackingRegressor
from sklearn.experimental import enable_halving_search_cv as enable_halving_search_cv
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import HalvingGridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from small import SPEC, small

MAE = "sklearn.metrics:mean_absolute_error"
RIDGE, LASSO = "sklearn.linear_model:Ridge", "sklearn.linear_model:Lasso"
SCALER = "sklearn.preprocessing:StandardScaler"
SCALED = [["scale", {"estimator": SCALER}], ["model", {"estimator": RIDGE, "params": {"alpha": 2.0}}]]
COLUMNS = [["scaled", {"estimator": SCALER, "params": {}}, ["a"]], ["same", "passthrough", ["b"]]]


class Weighed(TransformerMixin, BaseEstimator):
    def __init__(self, by: Any = None, table: Any = None) -> None:
        self.by = by
        self.table = table


def _part(path: str, /, **params: Any) -> dict[str, Any]:
    return {"estimator": path, "params": params}


MODELS: dict[str, tuple[Any, Any]] = {
    "with a parameter": (Ridge(alpha=2.0), {"estimator": RIDGE, "params": {"alpha": 2.0}}),
    "by its class": (Ridge, RIDGE),
    "a number of NumPy": (Ridge(alpha=np.float64(0.1)), {"estimator": RIDGE, "params": {"alpha": 0.1}}),
    "a pipeline": (
        Pipeline([("scale", StandardScaler()), ("model", Ridge(alpha=2.0))]),
        {"estimator": "sklearn.pipeline:Pipeline", "params": {"steps": SCALED}},
    ),
    "objects among parameters": (
        _part("sklearn.pipeline:Pipeline", steps=[("scale", StandardScaler()), ("model", Ridge(alpha=2.0))]),
        _part("sklearn.pipeline:Pipeline", steps=SCALED),
    ),
    "columns": (
        make_pipeline(
            ColumnTransformer([("scaled", StandardScaler(), pd.Index(["a"])), ("same", "passthrough", ["b"])]), Ridge()
        ),
        _part("sklearn.pipeline:Pipeline", steps=[
            ["columntransformer", _part("sklearn.compose:ColumnTransformer", transformers=COLUMNS)],
            ["ridge", {"estimator": RIDGE}]]),
    ),
    "models around models": (
        StackingRegressor([("lasso", Lasso()), ("bags", BaggingRegressor(Ridge(), 3))], final_estimator=Ridge(2.0)),
        _part("sklearn.ensemble:StackingRegressor", final_estimator=_part(RIDGE, alpha=2.0), estimators=[
            ["lasso", {"estimator": LASSO}],
            ["bags", _part("sklearn.ensemble:BaggingRegressor", estimator={"estimator": RIDGE}, n_estimators=3)]]),
    ),
    "a search with a splitter, a scorer and distributions": (
        RandomizedSearchCV(
            Ridge(), {"alpha": loguniform(0.1, 10)}, n_iter=3, cv=model_selection.KFold(3, shuffle=True),
            scoring=make_scorer(mean_absolute_error, greater_is_better=False), random_state=0,
        ),
        _part("sklearn.model_selection:RandomizedSearchCV", estimator={"estimator": RIDGE}, n_iter=3, random_state=0,
              param_distributions={"alpha": _part("scipy.stats:loguniform", a=0.1, b=10)},
              cv=_part("sklearn.model_selection:KFold", n_splits=3, shuffle=True),
              scoring=_part("sklearn.metrics:make_scorer", score_func={"function": MAE}, greater_is_better=False,
                            response_method="predict")),
    ),
    "functions, and columns by their types": (
        make_pipeline(
            ColumnTransformer([("all", FunctionTransformer(np.arctan), make_column_selector(dtype_include=np.number))]),
            SelectKBest(f_regression, k=1), Ridge(),
        ),
        _part("sklearn.pipeline:Pipeline", steps=[
            ["columntransformer", _part("sklearn.compose:ColumnTransformer", transformers=[
                ["all", _part("sklearn.preprocessing:FunctionTransformer", func={"function": "numpy:arctan"}),
                 _part("sklearn.compose:make_column_selector", dtype_include={"function": "numpy:number"})]])],
            ["selectkbest", _part("sklearn.feature_selection:SelectKBest", k=1,
                                  score_func={"function": "sklearn.feature_selection:f_regression"})],
            ["ridge", {"estimator": RIDGE}]]),
    ),
    "a target through functions, with kernels": (
        TransformedTargetRegressor(GaussianProcessRegressor(1.0 * RBF(2.0)), func=np.sinh, inverse_func=np.arcsinh),
        _part("sklearn.compose:TransformedTargetRegressor", func={"function": "numpy:sinh"},
              inverse_func={"function": "numpy:arcsinh"},
              regressor=_part("sklearn.gaussian_process:GaussianProcessRegressor", kernel=_part(
                  "sklearn.gaussian_process.kernels:Product",
                  k1=_part("sklearn.gaussian_process.kernels:ConstantKernel", constant_value=1.0),
                  k2=_part("sklearn.gaussian_process.kernels:RBF", length_scale=2.0)))),
    ),
    "by arrays and a frame": (
        make_pipeline(Weighed(np.array([1.0, 2.0]), pd.DataFrame({"a": [1.0]})), Ridge()),
        _part("sklearn.pipeline:Pipeline", steps=[
            ["weighed", _part(f"{__name__}:Weighed", by=[1.0, 2.0], table={"frame": {"a": [1.0]}})],
            ["ridge", {"estimator": RIDGE}]]),
    ),
    "keys that are numbers, and nan": (
        make_pipeline(Weighed({0: 1.5, "a": [{(1, 2): 2}]}, np.nan), Ridge()),
        _part("sklearn.pipeline:Pipeline", steps=[
            ["weighed", _part(f"{__name__}:Weighed", by={0: 1.5, "a": [{(1, 2): 2}]}, table=float("nan"))],
            ["ridge", {"estimator": RIDGE}]]),
    ),
    "halving, by folds of ours": (
        HalvingGridSearchCV(Ridge(), {"alpha": np.array([1.0, 2.0])}, cv=KFold(3)),
        _part("sklearn.model_selection:HalvingGridSearchCV", estimator={"estimator": RIDGE},
              param_grid={"alpha": [1.0, 2.0]}, cv=_part("evenfold.splitters:KFold", n_splits=3)),
    ),
    "of another library": (
        LGBMRegressor(n_estimators=5, verbose=-1),
        {"estimator": "lightgbm:LGBMRegressor", "params": {"n_estimators": 5, "num_leaves": 31, "verbose": -1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("passed", "named"), MODELS.values(), ids=MODELS)
def test_a_model_that_is_passed_has_the_key_of_the_one_that_is_named(passed: Any, named: Any, tmp_path: Path) -> None:
    """Of the one that its recipe writes down, too."""
    (tmp_path / "model.yaml").write_text(ModelSpec.of(passed).to_yaml())
    problems = [Problem.of(small(40), ModelSpec.of(model), "y") for model in (passed, named, tmp_path / "model.yaml")]
    keys = [score_key(problem.model, membership="m", fingerprint="f", seed=0) for problem in problems]
    assert problems[0].model == problems[1].model == problems[2].model
    assert keys[0] == keys[1] == keys[2]
    built = [re.sub(" at 0x[0-9a-f]+", "", repr(problem.model.build(0))) for problem in problems]
    assert built[0] == built[1] == built[2]


def test_a_part_of_another_library_is_in_the_key_with_its_version() -> None:
    both = [make_pipeline(StandardScaler(), LGBMRegressor()), make_pipeline(StandardScaler(), Ridge())]
    models = [Problem.of(small(40), ModelSpec.of(model), "y").model for model in both]
    packages = [path.partition(":")[0] for path in models[0].import_paths]
    assert packages == ["sklearn.pipeline", "sklearn.preprocessing", "lightgbm"]


def test_an_evaluation_of_an_object_is_that_of_its_name(prefect_home: Home, tmp_path: Path) -> None:
    passed, named = MODELS["a pipeline"]
    small(60).to_parquet(tmp_path / "rows.parquet")
    first = evaluate(str(tmp_path / "rows.parquet"), SPEC, passed)
    again = evaluate(str(tmp_path / "rows.parquet"), SPEC, named)
    assert again.run_id == first.run_id
    assert again.n_cached == again.n_fits == 3
    assert first.model.params["steps"][1][1] == SCALED[1][1]


STRATEGIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "one of ours": (KFold(n_splits=4), {"strategy": "KFold", "params": {"n_splits": 4}}),
    "one of ours, seeded": (KFold(4, random_state=7), {"strategy": "KFold", "params": {"n_splits": 4}, "seed": 7}),
    "one around another": (
        Repeated(KFold(3), n_repeats=2),
        {
            "strategy": "Repeated",
            "params": {"strategy": {"strategy": "KFold", "params": {"n_splits": 3}}, "n_repeats": 2},
        },
    ),
    "scikit-learn's": (
        model_selection.KFold(4, shuffle=True),
        {
            "strategy": "FromSklearn",
            "params": {"splitter": "sklearn.model_selection:KFold", "params": {"n_splits": 4, "shuffle": True}},
        },
    ),
    "pairs": (
        [(range(30), range(30, 60)), (np.arange(30, 60), np.arange(60) < 30)],
        {
            "strategy": "PredefinedPairs",
            "params": {"given_pairs": [[[*range(30)], [*range(30, 60)]], [[*range(30, 60)], [*range(30)]]]},
        },
    ),
}


@pytest.mark.parametrize(("passed", "named"), STRATEGIES.values(), ids=STRATEGIES)
def test_a_strategy_that_is_passed_is_the_split_of_the_one_that_is_named(passed: Any, named: dict[str, Any]) -> None:
    rows = small(60).drop(columns="id")
    both = [decide(SplitSpec(**fields), rows) for fields in ({"strategy": passed}, named)]
    assert both[0].split_id == both[1].split_id
    if named["strategy"] == "PredefinedPairs":
        assert evaluate(rows, model=Ridge(), target="y", strategy=passed, engine="plain").split.split_id


def test_a_column_of_folds_is_a_split(home: Home) -> None:
    rows = small(60).assign(part=np.arange(60) % 3)
    evaluated = evaluate(rows, model=Ridge(), target="y", key="id", fold="part", engine="plain")
    assert len(evaluated.scores) == 3
    assert "part" not in evaluated.features


def test_what_an_evaluation_came_to_is_at_hand(home: Home) -> None:
    """Scores, table, predictions with their keys, page, folds, the model of all rows, and another one beside it."""
    rows, recipes = small(), (Ridge(), Lasso())
    ridge, lasso = (evaluate(rows, SPEC, each, engine="plain", features=["a", "b"]) for each in recipes)
    assert ridge.metrics == {each.metric: each.value for each in ridge.estimates}
    table = ridge.to_frame().set_index("metric")
    assert table["low"]["r2"] < table["value"]["r2"] == ridge.metrics["r2"] < table["high"]["r2"]
    assert ridge.folds()["r2"].mean() == pytest.approx(np.mean([score.test["r2"] for score in ridge.scores]))
    predictions = ridge.predictions()
    assert set(predictions["id"]) == set(rows["id"])
    assert "<html" in ridge.page().read_text(encoding="utf-8")
    assert list(ridge.manifest.fold_of(rows)) == list(predictions.set_index("id")["fold"].loc[rows["id"]])
    whole = rows.sort_values("id")
    expected = Ridge().fit(whole[["a", "b"]], whole["y"]).predict(rows[["a", "b"]])
    assert np.allclose(ridge.estimator().predict(rows[["a", "b"]]), expected)
    beside = {each.metric: each for each in ridge.compare(lasso)}["r2"]
    assert beside.difference == pytest.approx(lasso.metrics["r2"] - ridge.metrics["r2"], abs=0.05)


def test_importance_is_on_the_page_and_in_the_record(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a run whose fits are cached tells the same without predicting anything."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(300), "age": draw.normal(size=300), "ward": draw.choice(["a", "b"], 300)})
    frame["cost"] = 3 * frame["age"] + (frame["ward"] == "a") + draw.normal(size=300)
    file = tmp_path / "visits.csv"
    frame.to_csv(file, index=False)
    asked = {"target": "cost", "key": "id", "n_splits": 2, "model": "sklearn.linear_model:Ridge", "engine": "plain"}
    first = evaluate(file, **asked)
    assert all(score.importance.keys() == {"age", "ward"} for score in first.scores)
    artifacts = Path(MlflowClient(home.tracking_uri).download_artifacts(first.run_id, ""))
    told = json.loads((artifacts / "importance.json").read_text(encoding="utf-8"))
    assert told["columns"] == ["feature", "mean", "sd", "least", "most", "folds"]
    assert [row[0] for row in told["data"]] == ["age", "ward"]
    assert "age matters most: R2 falls by" in (artifacts / "report.html").read_text(encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(
            "evenfold.estimates.models.fit.permutation_importance", lambda *_, **__: pytest.fail("measured")
        )
        again = evaluate(file, **asked)
    assert (again.n_cached, again.scores) == (2, first.scores)


FILLED = make_pipeline(SimpleImputer(strategy="median"), LogisticRegression())


@pytest.fixture
def passengers(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(200), "age": draw.normal(30, 9, 200), "fare": draw.gamma(2, 15, 200)})
    table["survived"] = (table["fare"] + draw.normal(0, 15, 200) > 30).astype(int)
    table.loc[draw.random(200) < 0.2, "age"] = np.nan
    table["deck"] = np.resize(["A", "B"], 200)
    table.to_csv(tmp_path / "passengers.csv", index=False)
    return tmp_path / "passengers.csv"


def test_the_refusal_of_missing_numbers_names_the_pipeline_that_fills_them(home: Home, passengers: Path) -> None:
    """Text beside them is encoded as ever."""
    asked = {"target": "survived", "key": "id", "n_splits": 2, "engine": "plain"}
    words = "Missing values are in age: fill them in a pipeline, make_pipeline(SimpleImputer(), ...), exclude what"
    with pytest.raises(EvaluationError, match=re.escape(words)):
        evaluate(passengers, **asked, model=LogisticRegression())
    filled = evaluate(passengers, **asked, model=FILLED)
    assert filled.encoded == {"deck": "one-hot"}
    assert filled.estimates[0].value > 0.7


def test_a_deployed_retraining_loads_the_model_that_fills_missing_numbers(
    home: Home, passengers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it loads is read as anybody's file; next week the champion is scored on the rows that it has not seen."""
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    monkeypatch.setenv("EVENFOLD_DATA_ROOTS", str(passengers.parent))
    spec = {"name": "sailings", "columns": {"key": "id", "target": "survived"}, "strategy": "KFold"}
    spec["params"] = {"n_splits": 2}
    table = pd.read_csv(passengers)
    table[:150].to_csv(passengers, index=False)
    assert retrain(str(passengers), spec, FILLED, engine="plain").registered is not None
    table.to_csv(passengers, index=False)
    judged = retrain(str(passengers), spec, FILLED, engine="plain").judged
    assert judged.rows == 50
    assert judged.score is not None

"""Objects of scikit-learn's kind, passed as they are: what names them is the same request."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelSpec, Problem, score_key
from evenfold.flows import evaluate
from evenfold.manifests import SplitSpec, decide
from evenfold.splitters import KFold, Repeated
from evenfold.tasks import Home
from lightgbm import LGBMRegressor
from sklearn import model_selection
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.linear_model import Lasso, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from small import SPEC, small

RIDGE, LASSO = "sklearn.linear_model:Ridge", "sklearn.linear_model:Lasso"
SCALER, MIN_MAX = "sklearn.preprocessing:StandardScaler", "sklearn.preprocessing:MinMaxScaler"
SCALED = [["scale", {"estimator": SCALER}], ["model", {"estimator": RIDGE, "params": {"alpha": 2.0}}]]
COLUMNS = [["scaled", {"estimator": SCALER, "params": {}}, ["a"]], ["same", "passthrough", ["b"]]]
MODELS: dict[str, tuple[Any, Any]] = {
    "with a parameter": (Ridge(alpha=2.0), {"estimator": RIDGE, "params": {"alpha": 2.0}}),
    "by its class": (Ridge, RIDGE),
    "by its file": (Ridge(), "sklearn.linear_model._ridge:Ridge"),
    "fitted": (Ridge().fit([[1.0], [2.0]], [1.0, 2.0]), RIDGE),
    "a number of NumPy": (Ridge(alpha=np.float64(0.1)), {"estimator": RIDGE, "params": {"alpha": 0.1}}),
    "a count that is no share": (
        RandomForestRegressor(5, max_features=1),
        {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_estimators": 5, "max_features": 1}},
    ),
    "a pipeline": (
        Pipeline([("scale", StandardScaler()), ("model", Ridge(alpha=2.0))]),
        {"estimator": "sklearn.pipeline:Pipeline", "params": {"steps": SCALED}},
    ),
    "columns": (
        make_pipeline(
            ColumnTransformer([("scaled", StandardScaler(), pd.Index(["a"])), ("same", "passthrough", ["b"])]), Ridge()
        ),
        {
            "estimator": "sklearn.pipeline:Pipeline",
            "params": {
                "steps": [
                    [
                        "columntransformer",
                        {"estimator": "sklearn.compose:ColumnTransformer", "params": {"transformers": COLUMNS}},
                    ],
                    ["ridge", {"estimator": RIDGE}],
                ]
            },
        },
    ),
    "models around models": (
        StackingRegressor([("lasso", Lasso()), ("bags", BaggingRegressor(Ridge(), 3))], final_estimator=Ridge(2.0)),
        {
            "estimator": "sklearn.ensemble:StackingRegressor",
            "params": {
                "estimators": [
                    ["lasso", {"estimator": LASSO}],
                    [
                        "bags",
                        {
                            "estimator": "sklearn.ensemble:BaggingRegressor",
                            "params": {"estimator": {"estimator": RIDGE}, "n_estimators": 3},
                        },
                    ],
                ],
                "final_estimator": {"estimator": RIDGE, "params": {"alpha": 2.0}},
            },
        },
    ),
    "of another library": (
        LGBMRegressor(n_estimators=5, verbose=-1),
        {"estimator": "lightgbm:LGBMRegressor", "params": {"n_estimators": 5, "num_leaves": 31, "verbose": -1}},
    ),
}


@pytest.mark.parametrize(("passed", "named"), MODELS.values(), ids=MODELS)
def test_a_model_that_is_passed_has_the_key_of_the_one_that_is_named(passed: Any, named: Any) -> None:
    problems = [Problem.of(small(40), ModelSpec.of(model), "y") for model in (passed, named)]
    keys = [score_key(problem.model, membership="m", fingerprint="f", seed=0) for problem in problems]
    assert problems[0].model == problems[1].model
    assert keys[0] == keys[1]
    assert repr(problems[0].model.build(0)) == repr(problems[1].model.build(0))


def test_a_part_of_another_library_is_in_the_key_with_its_version() -> None:
    both = [make_pipeline(StandardScaler(), LGBMRegressor()), make_pipeline(StandardScaler(), Ridge())]
    models = [Problem.of(small(40), ModelSpec.of(model), "y").model for model in both]
    assert [path.partition(":")[0] for path in models[0].import_paths] == [
        "sklearn.pipeline",
        "sklearn.preprocessing",
        "lightgbm",
    ]


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
    rows, made = (
        small(),
        [evaluate(small(), SPEC, each, engine="plain", features=["a", "b"]) for each in (Ridge(), Lasso())],
    )
    ridge, lasso = made
    assert ridge.metrics == {each.metric: each.value for each in ridge.estimates}
    table = ridge.to_frame().set_index("metric")
    assert table["low"]["r2"] < table["value"]["r2"] == ridge.metrics["r2"] < table["high"]["r2"]
    predictions = ridge.predictions()
    assert set(predictions["id"]) == set(rows["id"])
    assert "<html" in ridge.page().read_text(encoding="utf-8")
    assert list(ridge.manifest.fold_of(rows)) == list(predictions.set_index("id")["fold"].loc[rows["id"]])
    whole = rows.sort_values("id")
    expected = Ridge().fit(whole[["a", "b"]], whole["y"]).predict(rows[["a", "b"]])
    assert np.allclose(ridge.estimator().predict(rows[["a", "b"]]), expected)
    beside = {each.metric: each for each in ridge.compare(lasso)}["r2"]
    assert beside.difference == pytest.approx(lasso.metrics["r2"] - ridge.metrics["r2"], abs=0.05)

"""Bad input gets one sentence, before anything is fitted; good input is seen as the table of defaults says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelError, ModelSpec, Problem, fit_and_score, infer_task, score_key

N = 40
TABLE = pd.DataFrame(
    {
        "id": range(N),
        "delay": np.linspace(-5, 90, N),
        "late": ["no", "yes"] * (N // 2),
        "level": [0, 1, 2, 3] * (N // 4),
        "seats": range(100, 100 + N),
        "open": [True, False] * (N // 2),
        "carrier": ["UA", "AA"] * (N // 2),
        "origin": pd.Categorical(["JFK", "LGA"] * (N // 2)),
        "date": pd.date_range("2013-01-01", periods=N),
        "same": ["no"] * N,
        "flat": 3.5,
        "nothing": [None] * N,
        "lists": [[1]] * N,
    }
)


def problem(model: ModelSpec | None = None, target: str = "delay", table: pd.DataFrame = TABLE, **more: Any) -> Problem:
    return Problem.of(table, model or ModelSpec(), target, **more)


def test_features_are_every_column_of_few_values_or_numbers_without_a_role() -> None:
    table = TABLE.assign(tail=[f"N{i // 5}" for i in range(N)], hash=np.arange(N, dtype=np.uint64) + np.uint64(2**63))
    table["fold"] = np.arange(N) % 5
    seen = problem(table=table, roles=["id"], groups="level", folds=["fold", "nothing"])
    assert seen.features == ("late", "seats", "open", "carrier", "origin", "flat")
    assert seen.encoded == ("late", "carrier", "origin")
    assert seen.left_out == {
        "date": "a date; list it in features to use it as days since 1970-01-01",
        "same": "text with one value",
        "tail": "text of 8 values in 40 rows, fewer than 10 rows a value; list it in features to have it encoded",
        "nothing": "empty in every row",
        "fold": "the fold of each row, as an export writes it; list it in features to use it",
        "lists": "objects that are neither numbers nor text nor dates",
        "hash": "whole numbers of 2^63 and more; to use it, keep it as text (types: {hash: text})",
    }
    assert seen.columns_read == ("carrier", "delay", "flat", "late", "level", "open", "origin", "seats")


def test_listed_text_and_dates_are_features() -> None:
    seen = problem(ModelSpec(features=["carrier", "date", "seats"], exclude=["seats"]))
    assert seen.features == ("carrier", "date")
    assert seen.encoded == ("carrier",)
    assert seen.X["date"].tolist()[:2] == [15706.0, 15707.0]


def test_nullable_columns_become_plain_numbers() -> None:
    table = TABLE.assign(
        a=pd.array([None, *range(N - 1)], dtype="Int64"),
        b=pd.array([None, *[True] * (N - 1)], dtype="boolean"),
        c=[None, *[1.5] * (N - 1)],
        d=pd.array(range(N), dtype="Int64"),
        e=pd.Series([None, *[True] * (N - 1)], dtype=object),
    )
    X = problem(ModelSpec(features=list("abcde")), table=table).X
    assert [X[name].dtype.kind for name in X] == ["f", "f", "f", "i", "f"]
    assert X[["a", "b", "c", "e"]].isna().sum().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("target", "task", "metric"),
    [
        ("delay", "regression", "r2"),
        ("seats", "regression", "r2"),
        ("late", "classification", "roc_auc"),
        ("open", "classification", "roc_auc"),
        ("origin", "classification", "roc_auc"),
        ("level", "classification", "accuracy"),
    ],
)
def test_the_table_of_defaults_decides_task_model_and_metrics(target: str, task: str, metric: str) -> None:
    seen = problem(target=target)
    kind = "Regressor" if task == "regression" else "Classifier"
    assert (seen.task, seen.model.metrics[0]) == (task, metric)
    assert seen.model.estimator == f"sklearn.ensemble:HistGradientBoosting{kind}"


def test_integers_are_classes_up_to_twenty_unless_the_estimator_says_what_it_is() -> None:
    assert [infer_task(pd.Series(range(n))) for n in (20, 21)] == ["classification", "regression"]
    assert problem(ModelSpec(estimator="sklearn.linear_model:Ridge"), "level").task == "regression"
    assert problem(ModelSpec(estimator="sklearn.linear_model:LogisticRegression"), "seats").task == "classification"
    assert (problem(target="late").classes, problem(target="open").y.dtype) == (("no", "yes"), bool)


def holed(column: str, *rows: int) -> pd.DataFrame:
    table = TABLE.copy()
    table[column] = table[column].astype(object)
    table.loc[list(rows), column] = None
    return table


def of(target: str = "delay", **model: Any) -> Problem:
    return problem(ModelSpec(**model), target)


RIDGE = "sklearn.linear_model:Ridge"
REFUSED: list[tuple[Any, str]] = [
    (lambda: of("dealy"), "column 'dealy' (the target) is not in the data; did you mean 'delay'?"),
    (lambda: problem(table=holed("delay", 3, 7, 9, 12)), "missing (None or NaN) in 4 of 40 rows (first at rows 3, 7,"),
    (lambda: problem(table=TABLE.assign(delay=np.inf)), "target 'delay' is infinite in 40 of 40 rows (first at rows 0"),
    (lambda: of("date"), "holds datetime64[us], neither numbers nor classes; choose another target."),
    (lambda: problem(table=TABLE[["delay", "same", "date"]]), "no feature is left: same (text with one value), date ("),
    (lambda: of("level", metrics=["roc_auc"]), "Metrics that can: roc_auc_ovo, roc_auc_ovo_weighted, roc_auc_ovr, roc"),
    (lambda: of(estimator="numpy:ndarray"), "ndarray has no fit and no predict and no get_params; name a class or a f"),
    (lambda: of(estimator=RIDGE, params={"alhpa": 1}), "got an unexpected keyword argument 'alhpa'; did you mean 'alp"),
    (lambda: of(weights="carrier"), "weights column 'carrier' holds str; weights are numbers."),
    (lambda: problem(ModelSpec(weights="level"), table=TABLE.assign(level=-1)), "missing, infinite or negative in 40"),
]


@pytest.mark.parametrize(("ask", "words"), REFUSED)
def test_bad_input_gets_a_sentence(ask: Any, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        ask()


def test_a_model_reads_the_same_from_yaml_json_and_python(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"estimator: {RIDGE}\nparams: {{alpha: 2.0}}\nmetrics: [r2]\n")
    (tmp_path / "m.json").write_text(f'{{"estimator": "{RIDGE}", "params": {{"alpha": 2.0}}, "metrics": ["r2"]}}')
    model = ModelSpec(estimator=RIDGE, params={"alpha": 2.0}, metrics=["r2"])
    assert ModelSpec.read(tmp_path / "m.yaml") == ModelSpec.read(tmp_path / "m.json") == model
    assert model.canonical() == {"estimator": RIDGE, "params": {"alpha": 2.0}, "metrics": ["r2"]}
    with pytest.raises(ModelError, match="cannot be read"):
        ModelSpec.read(tmp_path / "absent.yaml")


def test_seeds_fill_what_is_none_and_nested_parameters_and_short_names_are_other_spellings() -> None:
    logistic = ModelSpec(estimator="evenfold.estimates:scaled_logistic_regression", params={"logisticregression__C": 9})
    params = logistic.build(3).get_params()
    assert (params["logisticregression__random_state"], params["logisticregression__C"]) == (3, 9)
    forest = ModelSpec(estimator="sklearn.ensemble:RandomForestRegressor", params={"random_state": 8})
    assert forest.build(3).random_state == 8
    assert ModelSpec(metrics=("AUC", "acc")) == ModelSpec(metrics=("roc_auc", "accuracy"))
    assert ModelSpec() != ModelSpec(text="ordinal")
    assert ModelSpec() != {}
    longer = ("neg_mean_absolute_error", "neg_root_mean_squared_error", "r2")
    assert ModelSpec(metrics=("mae", "rmse", "R2")).metrics == longer


def test_the_score_key_changes_with_everything_a_score_depends_on() -> None:
    model = problem().model
    given = {"membership": "m", "fingerprint": "f", "seed": 0}
    key = score_key(model, **given)
    others = [
        score_key(model, **{**given, "membership": "n"}),
        score_key(model, **{**given, "fingerprint": "g"}),
        score_key(model, **{**given, "seed": 1}),
        score_key(model.model_copy(update={"metrics": ("r2",)}), **given),
        score_key(model, inner={"strategy": "KFold"}, **given),
        score_key(model.model_copy(update={"params": {"max_iter": 5}}), **given),
    ]
    assert len({key, *others}) == 7
    assert score_key(problem(table=TABLE.iloc[::-1]).model, **given) == key
    with pytest.raises(ModelError, match="names no estimator yet"):
        score_key(ModelSpec(), **given)


@pytest.mark.parametrize("kind", [np.float64, np.bool_, np.str_, "Int64"])
def test_classes_of_a_category_are_those_of_its_values(kind: Any) -> None:
    values = pd.array([0, 1] * (N // 2), dtype="Int64").astype(kind)
    table = TABLE.assign(kept=pd.Categorical(values))
    seen = problem(ModelSpec(estimator="sklearn.dummy:DummyClassifier"), "kept", table)
    assert (seen.task, seen.classes) == ("classification", ("0", "1") if kind is np.str_ else (0, 1))
    score, frame = fit_and_score(seen, np.arange(N), np.arange(N), seed=0, name="fold 0")
    assert score.test[seen.model.metrics[0]] == 0.5
    assert set(frame["prediction"]) <= set(seen.classes)


@pytest.mark.parametrize("odd", [float("inf"), 1e19])
def test_a_class_that_is_no_exact_number_is_refused(odd: float) -> None:
    """As a whole number of 64 bits it would be another one."""
    frame = pd.DataFrame({"a": range(30), "y": [0.0, 1.0, odd] * 10})
    with pytest.raises(ModelError, match=r"target 'y' is infinite or beyond 2\*\*53 in 10 rows"):
        Problem.of(frame, ModelSpec(task="classification"), "y")

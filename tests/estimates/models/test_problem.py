"""Bad input gets one sentence, before anything is fitted; good input is seen as the table of defaults says."""

from __future__ import annotations

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
    """Text that repeats among them; the rest is named, with the reason."""
    table = TABLE.assign(tail=[f"N{i // 5}" for i in range(N)], hash=np.arange(N, dtype=np.uint64) + np.uint64(2**63))
    seen = problem(table=table, roles=["id"], groups="level")
    assert seen.features == ("late", "seats", "open", "carrier", "origin", "flat")
    assert seen.encoded == ("late", "carrier", "origin")
    assert seen.left_out == {
        "date": "a date; list it in features to use it as days since 1970-01-01",
        "same": "text with one value",
        "tail": "text of 8 values in 40 rows, fewer than 10 rows a value; list it in features to have it encoded",
        "nothing": "empty in every row",
        "lists": "objects that are neither numbers, text nor dates",
        "hash": "whole numbers of 2^63 and more; to use it, keep it as text (types: {hash: text})",
    }
    assert seen.columns_read == ("carrier", "delay", "flat", "late", "level", "open", "origin", "seats")


def test_listed_text_and_dates_are_features() -> None:
    """Text is encoded later, a date is days."""
    seen = problem(ModelSpec(features=["carrier", "date", "seats"], exclude=["seats"]))
    assert seen.features == ("carrier", "date")
    assert seen.encoded == ("carrier",)
    assert seen.X["date"].tolist()[:2] == [15706.0, 15707.0]


def test_nullable_columns_become_plain_numbers() -> None:
    """A missing value is NaN, whatever the container calls it."""
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
    ("target", "task", "estimator", "metric"),
    [
        ("delay", "regression", "sklearn.ensemble:HistGradientBoostingRegressor", "r2"),
        ("seats", "regression", "sklearn.ensemble:HistGradientBoostingRegressor", "r2"),
        ("late", "classification", "sklearn.ensemble:HistGradientBoostingClassifier", "roc_auc"),
        ("open", "classification", "sklearn.ensemble:HistGradientBoostingClassifier", "roc_auc"),
        ("origin", "classification", "sklearn.ensemble:HistGradientBoostingClassifier", "roc_auc"),
        ("level", "classification", "sklearn.ensemble:HistGradientBoostingClassifier", "accuracy"),
    ],
)
def test_the_table_of_defaults_decides(target: str, task: str, estimator: str, metric: str) -> None:
    """Task, model and metrics follow the target's type."""
    seen = problem(target=target)
    assert (seen.task, seen.model.estimator, seen.model.metrics[0]) == (task, estimator, metric)


def test_integers_are_classes_up_to_twenty() -> None:
    """The border is where the table says."""
    assert infer_task(pd.Series(range(20))) == "classification"
    assert infer_task(pd.Series(range(21))) == "regression"


def test_an_estimator_that_says_what_it_is_decides_before_the_table() -> None:
    """Ridge on four integers is regression."""
    assert problem(ModelSpec(estimator="sklearn.linear_model:Ridge"), "level").task == "regression"
    assert problem(ModelSpec(estimator="sklearn.linear_model:LogisticRegression"), "seats").task == "classification"


def test_labels_stay_as_they_are() -> None:
    """Text stays text, booleans booleans, and classes are sorted."""
    assert problem(target="late").classes == ("no", "yes")
    assert problem(target="open").y.dtype == bool
    assert problem(target="late").y[0] == "no"


def holed(column: str, *rows: int) -> pd.DataFrame:
    table = TABLE.copy()
    table[column] = table[column].astype(object)
    table.loc[list(rows), column] = None
    return table


RIDGE = "sklearn.linear_model:Ridge"
MESSAGES: list[tuple[str, Any, str]] = [
    (
        "no such target",
        lambda: problem(target="dealy"),
        "column 'dealy' (the target) is not in the data; did you mean 'delay'?",
    ),
    (
        "no such feature",
        lambda: problem(ModelSpec(features=["seat"])),
        "column 'seat' (a feature) is not in the data; did you mean 'seats'?",
    ),
    (
        "no such exclusion",
        lambda: problem(ModelSpec(exclude=["seat"])),
        "column 'seat' (excluded) is not in the data; did you mean 'seats'?",
    ),
    (
        "missing target values",
        lambda: problem(table=holed("delay", 3, 7, 9, 12)),
        "target 'delay' is missing (None or NaN) in 4 of 40 rows (first at rows 3, 7, 9); "
        "drop or fill those rows first.",
    ),
    (
        "infinite target",
        lambda: problem(table=TABLE.assign(delay=np.inf)),
        "target 'delay' is infinite in 40 of 40 rows (first at rows 0, 1, 2); drop those rows first.",
    ),
    (
        "one class",
        lambda: problem(target="same"),
        "target 'same' holds one class ('no') in all 40 rows; there is nothing to predict.",
    ),
    (
        "one number",
        lambda: problem(target="flat"),
        "target 'flat' is 3.5 in all 40 rows; there is nothing to predict.",
    ),
    (
        "a date as target",
        lambda: problem(target="date"),
        "target 'date' holds datetime64[us], neither numbers nor classes; choose another target.",
    ),
    (
        "no rows",
        lambda: problem(table=TABLE.iloc[:0]),
        "the data holds 0 rows; at least 2 are needed.",
    ),
    (
        "no feature left",
        lambda: problem(table=TABLE[["delay", "same", "date"]]),
        "no feature is left: same (text with one value), date (a date); add a number column or list some in features.",
    ),
    (
        "the target as feature",
        lambda: problem(ModelSpec(features=["delay"])),
        "features lists 'delay', which is the target; take it out of features.",
    ),
    (
        "the group as feature",
        lambda: problem(ModelSpec(features=["level"]), groups="level"),
        "features lists 'level', which is the group column; take it out of features.",
    ),
    (
        "objects as feature",
        lambda: problem(ModelSpec(features=["lists"])),
        "features lists 'lists', which is objects that are neither numbers, text nor dates; take it out of features.",
    ),
    (
        "missing groups",
        lambda: problem(groups="carrier", table=holed("carrier", 5)),
        "groups is missing (None or NaN) in 1 of 40 rows (first at row 5); drop or fill those rows first.",
    ),
    (
        "fractions as classes",
        lambda: problem(ModelSpec(task="classification")),
        "target 'delay' holds 40 different fractional numbers, and classification needs classes; use task: regression.",
    ),
    (
        "text as numbers",
        lambda: problem(ModelSpec(task="regression"), "late"),
        "target 'late' holds str, and regression needs numbers; use task: classification.",
    ),
    (
        "a regressor for classes",
        lambda: problem(ModelSpec(estimator=RIDGE), "late"),
        "'sklearn.linear_model:Ridge' is a regressor, and the task is classification (target 'late' holds 2 different "
        "values); use task: regression, or another estimator.",
    ),
    (
        "an unknown metric",
        lambda: problem(ModelSpec(metrics=["R2", "rmsd"])),
        "'rmsd' is not a scikit-learn scorer; did you mean 'rmse'?",
    ),
    (
        "a metric for other classes",
        lambda: problem(ModelSpec(metrics=["f1 of maybe"]), "late"),
        "metric 'f1 of maybe' cannot score this classification target ('no', 'yes'): there is no class 'maybe' among 2 "
        "classes ('no', 'yes'). Metrics that can: roc_auc, accuracy, balanced_accuracy.",
    ),
    (
        "a metric for two classes",
        lambda: problem(ModelSpec(metrics=["roc_auc"]), "level"),
        "metric 'roc_auc' cannot score this classification target (0, 1, 2, 3): multi_class must be in ('ovo', 'ovr'). "
        "Metrics that can: roc_auc_ovo, roc_auc_ovo_weighted, roc_auc_ovr, roc_auc_ovr_weighted, "
        "accuracy, balanced_accuracy, neg_log_loss.",
    ),
    (
        "a metric of the other task, whose relatives are of that task too",
        lambda: problem(ModelSpec(metrics=["roc_auc"])),
        "metric 'roc_auc' cannot score this regression target: it needs decision_function or predict_proba. "
        "Metrics that can: r2, neg_mean_absolute_error, neg_root_mean_squared_error.",
    ),
    (
        "a metric of the other task",
        lambda: problem(ModelSpec(metrics=["neg_log_loss"])),
        "metric 'neg_log_loss' cannot score this regression target: it needs predict_proba. "
        "Metrics that can: r2, neg_mean_absolute_error, neg_root_mean_squared_error.",
    ),
    (
        "a path that does not import",
        lambda: problem(ModelSpec(estimator="sklearn.linear_models:Ridge")),
        "'sklearn.linear_models:Ridge' does not import: no module named 'sklearn.linear_models'; "
        "install or correct it.",
    ),
    (
        "no such name",
        lambda: problem(ModelSpec(estimator="sklearn.linear_model:Rigde")),
        "'sklearn.linear_model:Rigde' does not import: module 'sklearn.linear_model' has no 'Rigde'; correct the name.",
    ),
    (
        "no estimator",
        lambda: problem(ModelSpec(estimator="numpy:ndarray")),
        "'numpy:ndarray' is not an estimator: ndarray has no fit and no predict and no get_params; "
        "name a class or a function that returns one, such as sklearn.linear_model:Ridge.",
    ),
    (
        "no class",
        lambda: problem(ModelSpec(estimator="numpy:pi")),
        "'numpy:pi' names a float, not an estimator; name a class or a function that returns one, such as "
        "sklearn.linear_model:Ridge.",
    ),
    (
        "an unknown parameter",
        lambda: problem(ModelSpec(estimator=RIDGE, params={"alhpa": 1})),
        "'sklearn.linear_model:Ridge' does not accept its parameters: Ridge.__init__() got an unexpected keyword "
        "argument 'alhpa'; did you mean 'alpha'?",
    ),
    (
        "an unknown field",
        lambda: ModelSpec.of({"estimater": RIDGE}),
        "the model has no field 'estimater'; did you mean 'estimator'?",
    ),
    (
        "a field of another kind",
        lambda: ModelSpec.of({"text": "hash"}),
        "model field 'text' is 'hash'; input should be 'onehot' or 'ordinal'.",
    ),
    (
        "text as weights",
        lambda: problem(ModelSpec(weights="carrier")),
        "weights column 'carrier' holds str; weights are numbers.",
    ),
    (
        "negative weights",
        lambda: problem(ModelSpec(weights="level"), table=TABLE.assign(level=-1)),
        "weights column 'level' is missing, infinite or negative in 40 of 40 rows (first at rows 0, 1, 2); "
        "weights are numbers of at least 0.",
    ),
    (
        "a metric without weights",
        lambda: problem(ModelSpec(weights="level", metrics=["neg_max_error"])),
        "metric 'neg_max_error' cannot weigh rows; leave weights out, or choose another metric.",
    ),
]


@pytest.mark.parametrize(("name", "ask", "message"), MESSAGES, ids=[name for name, _, _ in MESSAGES])
def test_bad_input_gets_a_sentence(name: str, ask: Any, message: str) -> None:
    """What is wrong, in numbers; then what would work."""
    with pytest.raises(ModelError) as raised:
        ask()
    assert str(raised.value) == message


def test_a_model_reads_the_same_from_yaml_json_and_python(tmp_path: Path) -> None:
    """One contract, three spellings."""
    (tmp_path / "m.yaml").write_text(f"estimator: {RIDGE}\nparams: {{alpha: 2.0}}\nmetrics: [r2]\n")
    (tmp_path / "m.json").write_text(f'{{"estimator": "{RIDGE}", "params": {{"alpha": 2.0}}, "metrics": ["r2"]}}')
    model = ModelSpec(estimator=RIDGE, params={"alpha": 2.0}, metrics=["r2"])
    assert ModelSpec.read(tmp_path / "m.yaml") == ModelSpec.read(tmp_path / "m.json") == model
    assert model.canonical() == {"estimator": RIDGE, "params": {"alpha": 2.0}, "metrics": ["r2"]}
    with pytest.raises(ModelError, match="cannot be read"):
        ModelSpec.read(tmp_path / "absent.yaml")


def test_every_random_state_that_is_none_gets_the_seed() -> None:
    """Nested ones too; a given one stays."""
    inner = ModelSpec(estimator="evenfold.estimates:scaled_logistic_regression").build(3)
    assert inner.get_params()["logisticregression__random_state"] == 3
    given = ModelSpec(estimator="sklearn.ensemble:RandomForestRegressor", params={"random_state": 8}).build(3)
    assert given.random_state == 8


def test_a_nested_parameter_reaches_its_part() -> None:
    """As scikit-learn's set_params names it."""
    model = ModelSpec(estimator="evenfold.estimates:scaled_logistic_regression", params={"logisticregression__C": 9})
    assert model.build(0).get_params()["logisticregression__C"] == 9


def test_the_score_key_changes_with_everything_a_score_depends_on() -> None:
    """And with nothing else."""
    model = problem().model
    given = {"membership": "m", "fingerprint": "f", "seed": 0}
    key = score_key(model, **given)
    others = [
        score_key(model, **{**given, "membership": "n"}),
        score_key(model, **{**given, "fingerprint": "g"}),
        score_key(model, **{**given, "seed": 1}),
        score_key(model, metrics=["r2"], **given),
        score_key(model, inner={"strategy": "KFold"}, **given),
        score_key(model.model_copy(update={"params": {"max_iter": 5}}), **given),
    ]
    assert len({key, *others}) == 7
    assert score_key(problem(table=TABLE.iloc[::-1]).model, **given) == key
    with pytest.raises(ModelError, match="names no estimator yet"):
        score_key(ModelSpec(), **given)


def test_metrics_have_short_names() -> None:
    """The short name is only another spelling: one recipe, one key."""
    short, long = (ModelSpec(metrics=names) for names in (("AUC", "acc"), ("roc_auc", "accuracy")))
    assert short == long
    assert ModelSpec(metrics=("mae", "rmse", "R2")).metrics == (
        "neg_mean_absolute_error",
        "neg_root_mean_squared_error",
        "r2",
    )


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.bool_, np.str_, object, "Int64", "boolean"])
def test_classes_of_a_category_are_those_of_its_values(kind: Any) -> None:
    """scikit-learn takes an array of objects for classes only where they are text."""
    values = pd.array([0, 1] * (N // 2), dtype="Int64").astype(kind)
    table = TABLE.assign(kept=pd.Categorical(values))
    seen = problem(ModelSpec(estimator="sklearn.dummy:DummyClassifier"), "kept", table)
    assert (seen.task, seen.classes) == ("classification", ("0", "1") if kind is np.str_ else (0, 1))
    score, frame = fit_and_score(seen.model, seen, np.arange(N), np.arange(N), seed=0, name="fold 0")
    assert score.test[seen.model.metrics[0]] == 0.5
    assert set(frame["prediction"]) <= set(seen.classes)


@pytest.mark.parametrize("odd", [float("inf"), 1e19])
def test_a_class_that_is_no_exact_number_is_refused(odd: float) -> None:
    """As a whole number of 64 bits it would be another one."""
    frame = pd.DataFrame({"a": range(30), "y": [0.0, 1.0, odd] * 10})
    with pytest.raises(ModelError, match=r"target 'y' is infinite or beyond 2\*\*53 in 10 rows"):
        Problem.of(frame, ModelSpec(task="classification"), "y")

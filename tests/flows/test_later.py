"""A recorded model on rows that came later: the recipe as it was, the scores as scikit-learn's, and no row twice."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelError
from evenfold.flows import Evaluation, evaluate, retrain, tune
from evenfold.flows.cli import app
from evenfold.flows.later import predict_later, score_later
from evenfold.flows.outcomes import LaterScore
from evenfold.manifests import decide
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.reading import recorded_runs
from mlflow import MlflowClient
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

SPEC = {
    "name": "students", "columns": {"key": "id", "target": "passed", "group": "school"},
    "strategy": "GroupStratifiedShuffleSplit", "params": {"n_splits": 2, "train_size": 0.8},
}  # fmt: skip
MODEL: dict[str, Any] = {
    "estimator": "sklearn.linear_model:LogisticRegression",
    "metrics": ["roc_auc", "sensitivity"], "positive": "no",
}  # fmt: skip


def students() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"id": np.arange(260), "a": rng.normal(size=260), "b": rng.normal(size=260)})
    table["size"] = np.where(rng.random(260) < 0.4, "small", "large")
    table["school"] = [f"s{i}" for i in rng.integers(0, 16, 260)]
    passed = table["a"] + (table["size"] == "small") + rng.normal(size=260) > 0.3
    table["passed"] = np.where(passed, "yes", "no")
    return table.iloc[:200], table.iloc[200:].reset_index(drop=True)


def X(table: pd.DataFrame) -> Any:
    return table[["a", "b"]].assign(large=table["size"] == "large", small=table["size"] == "small").astype(float)


@cache
def of_students(shared_home: Home) -> Evaluation:
    model = MODEL | {"metrics": ["roc_auc", "accuracy", "sensitivity"]}
    return evaluate(students()[0], spec=SPEC, model=model, engine="plain")


@cache
def of_three_classes(shared_home: Home) -> tuple[Any, pd.DataFrame, LaterScore]:
    """Return the model of three classes by hand, later rows that are of two of them, and their recorded scores."""
    now, later = students()
    now = now.assign(passed=np.where(now["b"] > 1, "well", now["passed"]))
    model = MODEL | {"metrics": ["neg_log_loss", "f1_macro", "recall_macro", "f1_weighted"], "positive": None}
    made = evaluate(now, spec=SPEC | {"name": "three"}, model=model, engine="plain")
    return LogisticRegression().fit(X(now), now["passed"]), later, score_later(made.run_id, later)


def test_a_registered_model_is_named_as_the_registry_does(shared_home: Home, tmp_path: Path) -> None:
    """By alias, by version, and by the run that evaluated it: the same predictions; others are refused in words."""
    now, later = students()
    file, then = tmp_path / "students.parquet", tmp_path / "next_year.parquet"
    now.to_parquet(file)
    later.to_parquet(then)
    spec = {"name": "pass", "columns": SPEC["columns"], "params": {"n_splits": 2}}
    made = retrain(str(file), spec=spec, model=MODEL, engine="plain")
    assert made.registered is not None
    by_alias, by_version = (predict_later(f"models:/pass{which}", then) for which in ("@champion", "/1"))
    pd.testing.assert_frame_equal(by_alias, by_version)
    pd.testing.assert_frame_equal(predict_later(made, then), by_alias)  # whose evaluation it is
    for wrong in ("models:/pass@nobody", "models:/pass", "pass"):
        with pytest.raises(SplitError, match=f"there is no .* '{wrong}' .* models:/NAME@champion"):
            predict_later(wrong, then)


def test_what_a_tuning_chose_is_scored_and_predicts_on_the_next_year(shared_home: Home, tmp_path: Path) -> None:
    """By the recipe alone, on every training row, as scikit-learn fits and scores it."""
    now, later = students()
    tuned = tune(now, spec=SPEC | {"name": "tuned"}, model=MODEL, grid={"C": [0.01, 1.0]}, engine="plain")
    chosen = tuned.configurations[tuned.chosen]["C"]
    hand = LogisticRegression(C=chosen).fit(X(now), now["passed"])
    chance = hand.predict_proba(X(later))[:, 0]
    file = tmp_path / "next_year.parquet"
    later.to_parquet(file)
    scored = score_later(tuned.run_id[:8], file)
    value = {each.metric: each.value for each in scored.estimates}
    assert value["roc_auc"] == pytest.approx(roc_auc_score(later["passed"] == "no", chance), abs=1e-3)
    assert value["sensitivity of no"] == recall_score(later["passed"], hand.predict(X(later)), pos_label="no")
    assert [each.metric for each in scored.promised] == ["roc_auc", "sensitivity of no"]
    assert np.sum(scored.confusion.counts) == scored.rows == 60
    client = MlflowClient(shared_home.tracking_uri)
    run = client.get_run(scored.run_id)
    assert run.data.metrics["later/roc_auc"] == value["roc_auc"]
    (line,) = (each for each in recorded_runs(shared_home, "later rows") if each["run"] == scored.run_id)
    assert (line["on"], line["strategy"], line["data"]) == ("tuned@1.0", SPEC["strategy"], "next_year.parquet")
    foretold, came = (float(str(line[name]).split()[-1]) for name in ("promised", "score"))
    assert (foretold, came) == pytest.approx((tuned.value, value["roc_auc"]), abs=5e-3)
    app(["predict", tuned.run_id[:8], str(file), "-o", str(tmp_path / "said.csv")], standalone_mode=False)
    assert list(pd.read_csv(tmp_path / "said.csv").columns) == ["id", "prediction", "proba_no", "proba_yes"]
    (part,) = Path(tuned.split.uri).glob("assignments*.parquet")
    for read_too, more in ((Path(tuned.split.data), []), (part, []), (part, ["--training-data", tuned.split.data])):
        with pytest.raises(SplitError, match=f"{read_too} is read as well; write to another file"):
            app(["predict", tuned.run_id, str(file), *more, "-o", str(read_too)], standalone_mode=False)
    said = predict_later(tuned.run_id, later.drop(columns=["passed", "school"]).sample(frac=1, random_state=0))
    assert list(said.columns) == ["id", "prediction", "proba_no", "proba_yes"]
    assert said.set_index("id").loc[later["id"], "proba_no"].to_numpy() == pytest.approx(chance, abs=1e-3)


def test_rows_of_the_split_and_columns_of_another_kind_are_refused(shared_home: Home) -> None:
    now, later = students()
    made = of_students(shared_home)
    mixed = pd.concat([later, now.tail(5)], ignore_index=True)
    for ask, option in ((score_later, "later rows alone.$"), (predict_later, r"known_rows=True \(--known-rows\)\.$")):
        refused = rf"5 of 65 rows of .* are rows of students 1.0, which the model may have been .*{option}"
        with pytest.raises(SplitError, match=refused):
            ask(made.run_id, mixed)
    assert len(predict_later(made.run_id, mixed, known_rows=True)) == 65
    with pytest.raises(ModelError, match="feature 'a' holds text now, and number where the model was trained"):
        predict_later(made.run_id, later.assign(a="tall"))
    with pytest.raises(ModelError, match="target 'passed' holds 'maybe', a class that the model was never shown"):
        score_later(made.run_id, later.assign(passed=["maybe", *later["passed"][1:]]))
    numbers = predict_later(made.run_id, later.assign(size=pd.Series(["huge"] * 60)))
    assert numbers[["proba_no", "proba_yes"]].sum(axis=1).to_numpy() == pytest.approx(1)


def test_later_rows_of_one_class_or_of_one_row_are_scored_by_what_is_defined_on_them(shared_home: Home) -> None:
    """The model knows the classes, so that the share it is right about is defined; what is not is said."""
    now, later = students()
    made = of_students(shared_home)
    chance = LogisticRegression().fit(X(now), now["passed"]).predict(X(later))
    failed = later["passed"] == "no"
    for rows in (later[failed], later[failed].head(1)):
        scored = score_later(made.run_id, rows.reset_index(drop=True))
        right = float(np.mean(chance[rows.index] == "no"))
        assert {each.metric: each.value for each in scored.estimates} == {"accuracy": right, "sensitivity of no": right}
        assert [each.metric for each in scored.promised] == ["accuracy", "sensitivity of no"]
        assert any(re.search(r"^AUC is not defined on .* one class \('no'\)", note) for note in scored.notes)
    with pytest.raises(EvaluationError, match=r"^AUC is not defined on .*; score by another metric"):
        score_later(made.run_id, later[failed].reset_index(drop=True), metrics=["roc_auc"])


def test_scores_that_no_model_could_change_are_left_out_and_means_over_rows_are_not(shared_home: Home) -> None:
    """Of rows without a positive one F1 was 0, as of a promise that is broken, and the log loss called undefined."""
    now, later = (table.assign(passed=(table["passed"] == "yes").astype(int)) for table in students())
    metrics = ["average_precision", "f1", "precision", "mcc", "neg_log_loss"]
    spec = SPEC | {"name": "numbered"}
    made = evaluate(now, spec=spec, model=MODEL | {"metrics": metrics, "positive": None}, engine="plain")
    chance = LogisticRegression().fit(X(now), now["passed"]).predict_proba(X(later))
    for value, defined in ((0, ["neg_log_loss"]), (1, ["f1", "neg_log_loss"])):
        rows = later["passed"] == value
        scored = score_later(made.run_id, later[rows].reset_index(drop=True))
        assert [each.metric for each in scored.estimates] == [each.metric for each in scored.promised] == defined
        assert scored.estimates[-1].value == pytest.approx(np.log(chance[rows, value]).mean(), abs=1e-3)
        assert len([note for note in scored.notes if "is not defined on" in note]) == 5 - len(defined)


def test_the_log_loss_of_two_of_three_classes_is_a_mean_over_their_rows(shared_home: Home) -> None:
    fitted, later, scored = of_three_classes(shared_home)
    # Of the classes in order, no, well and yes, the later rows are of the first and of the last.
    told = np.log(fitted.predict_proba(X(later))[np.arange(60), 2 * (later["passed"] == "yes")]).mean()
    (one,) = (each for each in scored.estimates if each.metric == "neg_log_loss")
    assert one.value == pytest.approx(told, abs=1e-3)


def test_a_mean_of_classes_is_of_those_that_have_later_rows(shared_home: Home) -> None:
    """A third class that was predicted once and has no row was an F1 of 0 among three: a third of the score."""
    fitted, later, scored = of_three_classes(shared_home)
    said = fitted.predict(X(later))
    assert (said == "well").any()
    value = {each.metric: each.value for each in scored.estimates}
    for metric, score in (("f1_macro", f1_score), ("recall_macro", recall_score)):
        told = score(later["passed"], said, labels=["no", "yes"], average="macro")
        assert value[metric] == pytest.approx(told)
    assert value["f1_weighted"] == pytest.approx(f1_score(later["passed"], said, average="weighted"))
    intervals = {each.metric: each.interval for each in scored.estimates}
    interval = intervals["f1_macro"]
    assert interval.low < value["f1_macro"] < interval.high
    assert scored.notes == [
        f"F1, mean of the classes; recall, mean of the classes: of the 2 classes ('no', 'yes') of 3 that {scored.name} "
        "holds."
    ]


def test_later_numbers_of_one_value_are_scored_by_what_is_defined_on_them(shared_home: Home) -> None:
    now, later = (table.rename(columns={"passed": "mark"}) for table in students())
    now, later = now.assign(mark=now["a"] + now["b"]), later.assign(mark=2.0)
    spec = {"name": "marks", "columns": {"key": "id", "target": "mark"}, "strategy": "KFold", "params": {"n_splits": 2}}
    model = {"estimator": "sklearn.linear_model:LinearRegression", "metrics": ["r2", "mae"]}
    made = evaluate(now, spec=spec, model=model, engine="plain")
    told = r"^R2 is not defined on .*60 rows of 1 different value\)"
    scored = score_later(made.run_id, later)
    assert [each.metric for each in scored.estimates] == ["neg_mean_absolute_error"]
    assert re.search(told, scored.notes[0])

    (one,) = score_later(made.run_id, later.head(1)).estimates
    assert one.value == pytest.approx(-abs(2.0 - later["a"][0] - later["b"][0]))


def test_a_key_of_which_later_rows_lack_a_column_does_not_tell_them_either() -> None:
    """One column of two is no key: its values repeat in rows that the model never saw."""
    visits = pd.DataFrame({"patient": [1, 1, 2, 2], "visit": [1, 2, 1, 2], "y": range(4)})
    spec = {"name": "visits", "columns": {"key": ["patient", "visit"]}, "strategy": "KFold", "params": {"n_splits": 2}}
    manifest = decide(spec, visits)
    later = visits.assign(visit=[3, 3, 3, 3], patient=range(4))
    assert manifest.require_new(later, "june.csv", "wait") == []
    with pytest.raises(SplitError, match=r"^1 of 4 rows of june.csv are rows of visits 1\.0"):
        manifest.require_new(later.assign(patient=[1, 2, 3, 4], visit=[2, 3, 3, 3]), "june.csv", "wait")
    told = "visits 1.0 has no key that june.csv holds: whether the model was trained on its rows cannot be told."
    for lacking in (later.drop(columns="visit"), later[["y"]]):
        assert manifest.require_new(lacking, "june.csv", "wait") == [told]


def test_a_metric_that_is_asked_of_later_rows_is_of_the_class_that_the_recipe_calls_positive(shared_home: Home) -> None:
    now, later = students()
    (asked,) = score_later(of_students(shared_home).run_id, later, metrics=["precision"]).estimates
    said = LogisticRegression().fit(X(now), now["passed"]).predict(X(later))
    assert (asked.metric, asked.value) == ("precision of no", precision_score(later["passed"], said, pos_label="no"))


def test_later_rows_at_different_places_and_times_have_a_run_each(shared_home: Home, tmp_path: Path) -> None:
    """Also in a folder, which holds months of one layout, and where other rows were written to the same place."""
    made, later = of_students(shared_home), students()[1]
    months = [tmp_path / month / "rows" for month in ("dt=2026-10-01", "dt=2026-11-01")]
    for number, month in enumerate(months):
        month.mkdir(parents=True)
        later.iloc[20 * number : 20 * number + 40].to_parquet(month / "part.parquet")
    runs = [score_later(made.run_id, month).run_id for month in months]
    assert score_later(made.run_id, months[0]).run_id == runs[0]
    later.iloc[5:45].to_parquet(months[0] / "part.parquet")
    runs.append(score_later(made.run_id, months[0]).run_id)
    assert len(set(runs)) == 3


def test_groups_are_read_by_the_type_that_was_declared(shared_home: Home, tmp_path: Path) -> None:
    """A school 007 in a CSV is text in both tables, as the split has it."""
    now, later = (table.assign(school=table["school"].str[1:].str.zfill(3)) for table in students())
    files = [tmp_path / "now.csv", tmp_path / "later.csv"]
    for table, file in zip((now, later), files, strict=True):
        table.to_csv(file, index=False)
    spec = SPEC | {"name": "typed", "types": {"school": "text"}}
    made = evaluate(str(files[0]), spec=spec, model=MODEL, engine="plain")
    interval = score_later(made.run_id, files[1], level=0.5).estimates[0].interval
    assert (interval.level, interval.method) == (0.5, "pooled rows, cluster-robust")


def test_rows_that_may_be_known_or_cannot_be_predicted_are_refused_in_a_sentence(shared_home: Home) -> None:
    made, (_, later) = of_students(shared_home), students()
    with pytest.raises(SplitError, match=r"cannot be told\. Name them, or if they are meant, say known_rows=True"):
        predict_later(made.run_id, later.drop(columns="id"))
    assert "cannot be told" in score_later(made.run_id, later.drop(columns="id")).summary
    with pytest.raises(ModelError, match=r"cannot predict the rows of .* contains NaN\. Missing values are in a: fill"):
        predict_later(made.run_id, later.assign(a=np.nan))

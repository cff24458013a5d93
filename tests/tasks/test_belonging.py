"""What is given to a task belongs together: results to their split, records to what they are of, models to recipes."""

import re
from pathlib import Path
from typing import Any

import pytest
from evenfold.estimates import EvaluationError
from evenfold.manifests import export, measure
from evenfold.splitters import SplitError
from evenfold.tasks import FinalModel, Home, SplitRef, aggregate, fit_final, fit_fold, split
from evenfold.tasks.record.evaluations import record_evaluation
from evenfold.tasks.record.models.retraining import register_model
from evenfold.tasks.record.splits import record_split
from evenfold.tasks.record.tracker import complete_records
from evenfold.tasks.scores import BLOCK, _first_draws
from evenfold.tasks.steps import worth_another_try
from evenfold.tasks.work import work_of
from mlflow.tracking import MlflowClient
from prefect.states import Failed
from small import named, small

RIDGE: dict[str, Any] = {"estimator": "sklearn.linear_model:Ridge", "features": ["a", "b"], "metrics": ["r2"]}
LASSO = RIDGE | {"estimator": "sklearn.linear_model:Lasso"}


@pytest.fixture
def path(home: Home, tmp_path: Path) -> str:
    small().to_parquet(tmp_path / "rows.parquet")
    return str(tmp_path / "rows.parquet")


def folds_of(path: str, n_splits: int = 3, **more: Any) -> SplitRef:
    return split.fn(path, key="id", target="y", strategy="KFold", n_splits=n_splits, **more)


def test_an_estimate_of_some_splits_says_so_and_takes_no_record_of_all_away(path: str, home: Home) -> None:
    """Whoever leaves failed folds out gets what the others come to, recorded as partial and in a run of its own."""
    made, client = folds_of(path), MlflowClient(home.tracking_store)
    fits = [fit_fold.fn(made, i, RIDGE) for i in made.splits()]
    some = aggregate.fn(made, fits[:2])
    assert some.errors == ["2 of 3 splits are given, and the estimates are of these alone."]
    assert re.fullmatch(rf"Ridge on rows 1.0: R2 .*; {some.errors[0]}", repr(some))
    assert some.errors[0] in str(some._repr_html_())
    assert aggregate.fn(made, fits[:2], errors=["fold 2: lost"]).errors == ["fold 2: lost"]
    whole = aggregate.fn(made, [fit_fold.fn(made, (0, 2), RIDGE), fits[2]])
    assert whole.errors == []
    before = record_evaluation.fn(made, some).run_id
    assert client.get_run(before).data.tags["evenfold.partial"] == "true"
    full = record_evaluation.fn(made, whole).run_id
    assert full == before
    apart = record_evaluation.fn(made, some).run_id
    assert apart not in [held[0] for held in complete_records(home).values()]
    kept, other = client.get_run(full), client.get_run(apart)
    assert kept.data.metrics["value/r2"] == whole.estimates[0].value != some.estimates[0].value
    assert (kept.info.status, "evenfold.partial" in kept.data.tags) == ("FINISHED", False)
    assert (other.info.status, other.data.tags["evenfold.partial"]) == ("FINISHED", "true")
    assert record_evaluation.fn(made, some).run_id == apart
    assert (record_evaluation.fn(made, whole).run_id, len(named(home, " @ "))) == (full, 2)


def test_draws_that_are_left_out_are_told_too(path: str) -> None:
    drawn = split.fn(path, key="id", target="y", strategy="Bootstrap", n_splits=6)
    some = aggregate.fn(drawn, [fit_fold.fn(drawn, (0, 4), RIDGE)], apparent=fit_fold.fn(drawn, "all rows", RIDGE))
    assert some.errors == ["4 of 6 splits are given, and the estimates are of these alone."]
    assert len([*_first_draws(work_of(drawn, RIDGE), BLOCK)]) == 6, "what guessing scores is of every draw"


def test_what_is_of_another_split_or_recipe_is_not_recorded(path: str) -> None:
    """Neither an evaluation, nor a balance, nor a model, kept or to be registered; and nothing is written."""
    made, other = folds_of(path), folds_of(path, 5, name="other")
    evaluation = aggregate.fn(made, [fit_fold.fn(made, i, RIDGE) for i in made.splits()])
    with pytest.raises(EvaluationError, match=r"^the evaluation is of rows 1\.0, and other 1\.0 is another split; "):
        record_evaluation.fn(other, evaluation)
    with pytest.raises(EvaluationError, match=r"^the balance is of 3 splits of 99 rows, .* other 1\.0 with its 5 "):
        record_split.fn(other, measure(made.stored(), made.data))
    final, third = fit_final.fn(made, LASSO), fit_final.fn(made, RIDGE, 2)
    wrong = r"^the model that is given as .* is not Ridge on these rows of rows 1\.0, but of another "
    for models in ({"all rows": final}, {"fold 1": third}):
        with pytest.raises(EvaluationError, match=wrong):
            record_evaluation.fn(made, evaluation, models=models)
    with pytest.raises(EvaluationError, match=r"^there is no 'fold 7' to keep a model of; "):
        record_evaluation.fn(made, evaluation, models={"fold 7": third})
    with pytest.raises(EvaluationError, match=wrong):
        register_model.fn(made, RIDGE, final, run_id="", name="wrong")
    client = MlflowClient(Home.here().tracking_store)
    assert [each.name for each in client.search_experiments()] == ["Default"]
    assert client.search_registered_models() == []


def test_a_model_of_a_recipe_with_other_metrics_is_the_same_model(path: str, home: Home) -> None:
    """Nothing is learnt from them. One that was kept before models said so belongs to its very recipe alone."""
    made = folds_of(path)
    evaluation = aggregate.fn(made, [fit_fold.fn(made, i, RIDGE) for i in made.splits()])
    final, second = (fit_final.fn(made, RIDGE | {"metrics": ["neg_mean_absolute_error"]}, i) for i in ("all rows", 1))
    run = record_evaluation.fn(made, evaluation, models={"all rows": final, "fold 1": second}).run_id
    assert register_model.fn(made, RIDGE, final, run_id=run).version == "1"
    earlier = FinalModel.model_validate(final.model_dump(exclude={"learnt"}))
    for models in ({"fold 1": final}, {"fold 0": second}, {"all rows": earlier}):
        with pytest.raises(EvaluationError, match="is not Ridge on these rows"):
            record_evaluation.fn(made, evaluation, models=models)


def test_a_split_or_block_that_there_is_not_is_refused(path: str) -> None:
    """fit_final kept a model of other rows for -1; of a block of three numbers the third meant something else."""
    made = folds_of(path)
    for i in (-1, 3, "0", 1.0, True):
        for call in (fit_fold.fn, fit_fold.fn.key_of, lambda made, i, model: fit_final.fn(made, model, i)):
            with pytest.raises(SplitError, match=rf"^rows 1\.0 has no split {i!r};"):
                call(made, i, RIDGE)
    for block in ((0, 0), (2, 1), (0, 9), (-1, 2), (0.0, 2.0), (0, 1, 2), ("0", "2")):
        with pytest.raises(SplitError, match=r"^rows 1\.0 has no block .*; give \(first, last \+ 1\) of its 3 splits"):
            fit_fold.fn(made, block, RIDGE)
    with pytest.raises(SplitError, match=r"^rows 1\.0 has no split \(0, 2\);"):
        fit_fold.fn(made, (0, 2), RIDGE, of="inside")
    assert len(fit_fold.fn(made, [0, 2], RIDGE).scores) == 2


def test_a_mistake_in_a_program_is_not_tried_again() -> None:
    """It is the same the next time; what the network or the machine is to blame for may not be."""
    for error in (IndexError("7"), KeyError("x"), AttributeError("data"), TypeError("str"), ValueError("no")):
        assert not worth_another_try(None, None, Failed(data=error))
    for error in (ConnectionError("away"), OSError("full"), RuntimeError("killed")):
        assert worth_another_try(None, None, Failed(data=error))


def test_the_fold_column_of_an_exported_file_is_no_feature(path: str, tmp_path: Path) -> None:
    """It was one, in silence; who lists it has it."""
    made = split.fn(path, key="id", target="y", strategy="KFold", n_splits=3)
    export(made.manifest(), "h2o", tmp_path / "folds.parquet", path)
    again = split.fn(str(tmp_path / "folds.parquet"), key="id", target="y", strategy="KFold", n_splits=3)
    problem = work_of(again).problem
    assert "fold" not in (*problem.features, *problem.columns_read)
    assert problem.left_out["fold"].startswith("the fold of each row")
    assert work_of(again, RIDGE | {"features": ["a", "fold"]}).problem.features == ("a", "fold")

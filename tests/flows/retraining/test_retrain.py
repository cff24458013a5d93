"""Retraining: every outcome that it can have, on small data and a real MLflow store."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelError, ModelSpec, compare
from evenfold.estimates.promotion import compare_draws, decide
from evenfold.flows import GateError, Retraining
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.models.registered import RegisteredModel
from evenfold.tasks.record.models.retraining import open_retraining
from evenfold.tasks.record.reading import run_named
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.scores import kept_scores
from evenfold.tasks.work import work_of
from scipy import stats
from small import BAD, GOOD, champion, named, registry, retrain
from tables import rows

from evenfold import flows


def test_the_first_run_makes_the_champion(home: Home, first: Retraining, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a champion the candidate is registered, is the champion and nothing else, and loads without pickles."""
    import mlflow

    assert first.decision.why == "it is the first version, so there is nothing to compare it with"
    assert champion(home, "monthly") == first.registered.version == "1"
    assert list(registry(home).get_registered_model("monthly").aliases) == ["champion"]
    assert "MLFLOW_TRACKING_URI" not in os.environ, "keeping a model must not choose the store of every later home"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.tracking_uri)
    model = mlflow.sklearn.load_model("models:/monthly@champion")
    assert model.predict(rows(3)[list(model.feature_names_in_)]).shape == (3,)
    uri = registry(home).get_model_version_by_alias("monthly", "champion").source
    folder = Path(mlflow.artifacts.download_artifacts(uri))
    assert (folder / "model.skops").exists() or list(folder.glob("*.skops"))
    assert not list(folder.rglob("*.pkl"))
    assert "scikit-learn==" in (folder / "requirements.txt").read_text()


def test_the_same_retraining_is_done_once(home: Home, first: Retraining) -> None:
    """An identical call gives the first one's outcome and registers nothing; the usual metric, named, asks no more.

    Unless it is to be done anew.
    """
    for again in (retrain("monthly", rows(60), GOOD), retrain("monthly", rows(60), GOOD, metric="r2")):
        assert again.reused
        assert again.run_id == first.run_id
    assert len(registry(home).search_model_versions("name = 'monthly'")) == 1
    assert not retrain("monthly", rows(60), GOOD, refresh=True).reused


# Each makes another request by itself.
OTHER: dict[str, Any] = {"metric": "neg_mean_squared_error", "level": 0.8, "log_models": "final", "allow_partial": True}


def test_another_request_is_another_retraining(first: Retraining) -> None:
    """What is asked for otherwise, in one thing or in several, is answered anew, and is not an earlier outcome."""
    asked = retrain("monthly", rows(60), GOOD, **OTHER)
    assert not asked.reused
    assert asked.run_id != first.run_id
    assert asked.decision.metric == OTHER["metric"]

    def opened(**fields: Any) -> str:
        return open_retraining.fn(asked.split, ModelSpec.of(GOOD), "monthly", **{"metric": "r2", **fields}).run_id

    alone = [opened(**{name: value}) for name, value in {**OTHER, "interval": "none"}.items()]
    assert len({first.run_id, asked.run_id, *alone}) == 7


@pytest.mark.usefixtures("first")
def test_new_rows_refit_the_same_recipe(home: Home) -> None:
    """Grown data extend the split, move no row, and the same recipe becomes champion because it is newer."""
    outcome = retrain("monthly", rows(80), GOOD)
    assert (outcome.split.version, outcome.growth.added, outcome.growth.moved) == ("1.1", 20, 0)
    assert outcome.decision.why == "the recipe is the champion's, refitted on newer rows"
    assert champion(home, "monthly") == "2"
    assert (outcome.judged.rows, outcome.judged.score > 0.3) == (20, True)
    assert "on the 60 rows that both tested went from" in outcome.checked.passed["lower_score"]
    fewer = retrain("monthly", rows(90), GOOD | {"metrics": ["r2"]}, metric="mae")
    assert fewer.decision.spent == 0, "metrics make no other recipe"
    assert [each.metric for each in fewer.estimates] == [*GOOD["metrics"], "neg_mean_absolute_error"]


@pytest.mark.usefixtures("first")
def test_a_worse_candidate_does_not_become_champion(home: Home) -> None:
    """On the same rows nothing is registered; on newer rows the champion's recipe is refitted instead.

    The run that stands for such a retraining is the evaluation of the champion, which is what is served.
    """

    def stands_for(outcome: Retraining) -> tuple[str, str]:
        tags = registry(home).get_model_version_by_alias("monthly", "champion").tags
        return run_named(Tracker(home, ""), outcome).info.run_id, tags["evenfold.evaluation_run_id"]

    same = retrain("monthly", rows(60), BAD)
    assert same.decision.winner == "champion"
    assert same.registered is None
    assert same.decision.high < 0
    assert len(set(stands_for(same))) == 1
    grown = retrain("monthly", rows(80), BAD)
    assert grown.decision.winner == "champion"
    assert "refitted on newer rows" in grown.decision.why
    tags = registry(home).get_model_version_by_alias("monthly", "champion").tags
    assert "Ridge" in tags["evenfold.model"]
    assert champion(home, "monthly") == "2"
    assert len(set(stands_for(grown))) == 1
    assert grown.compared.startswith("R2 of DummyRegressor, the candidate, minus that of Ridge, the champion, is -")
    assert grown.estimates[0].value == pytest.approx(json.loads(tags["evenfold.scores"])[0]["value"])
    tags = registry(home).get_run(grown.run_id).data.tags
    assert (tags["mlflow.note.content"], tags["mlflow.source.type"]) == (grown.report, "LOCAL")


def test_a_refused_extension_stops() -> None:
    """A new split forgets which rows were tested: it is made only where somebody asks for it."""
    spec = {"columns": {"target": "y"}, "strategy": "KFold", "name": "unkeyed"}
    flows.retrain(rows(80), engine="plain", spec=spec, model=GOOD)
    with pytest.raises(SplitError, match=r"has no key column.* The retraining stopped"):
        flows.retrain(rows(90), engine="plain", spec=spec, model=GOOD, gates=False)
    made = flows.retrain(rows(90), engine="plain", spec=spec, model=GOOD, gates=False, on_refused="new_major")
    assert made.split.version == "2.0"
    assert any("was not extended" in note for note in made.growth.notes)


def test_a_metric_that_cannot_judge_the_target_promotes_nobody(home: Home) -> None:
    """It is refused by a sentence; a metric of one class is told by that class, as in the recipe."""
    table = rows(200).assign(y=lambda frame: np.where(frame["y"] > 0, "yes", "no"))
    good, bad = {"estimator": "sklearn.linear_model:LogisticRegression"}, {"estimator": "sklearn.dummy:DummyClassifier"}
    retrain("judged", table, good)
    with pytest.raises(ModelError, match=r"neg_mean_absolute_error' cannot score this classification target"):
        retrain("judged", pd.concat([table, table.assign(id=table["id"] + 500)]), bad, metric="mae")
    assert sorted(path.name for path in (home.splits / "judged").glob("*.*")) == ["1.0"], "the split grew nevertheless"
    assert champion(home, "judged") == "1"
    assert retrain("judged", table, bad, metric="recall").decision.metric == "recall of yes"


def test_a_table_that_was_stopped_late_hides_no_change_of_the_next(home: Home, first: Retraining) -> None:
    """The split has grown by it, and nothing was learnt: what comes next is compared with the table before."""
    from evenfold.tasks.splits import extend

    path = home.path / "late.parquet"
    rows(75).to_parquet(path)
    grown = extend.fn(first.split.uri, str(path))
    assert (grown.split.version, grown.added) == ("1.1", 15)
    wrong = rows(80).assign(y=lambda table: np.where(table["id"] < 65, table["y"] * 60, table["y"]))
    with pytest.raises(GateError, match=r"60 of 75 known rows \(80.0%\) have another y than before"):
        retrain("monthly", wrong, GOOD)
    assert champion(home, "monthly") == "1"
    right = retrain("monthly", rows(61), GOOD)  # 14 of 75 rows are not in it, which nobody has learnt from
    assert right.registered
    assert champion(home, "monthly") == "2"


def kept(outcome: Retraining) -> tuple[pd.DataFrame, ...]:
    works = (work_of(outcome.split, ModelSpec(**each).with_metric(outcome.decision.metric)) for each in (BAD, GOOD))
    return tuple(kept_scores(outcome.split, work) for work in works)


def test_draws_are_compared_draw_by_draw(home: Home) -> None:
    """A bootstrap has no predictions per row; the scores of the same draws are paired.

    A model has learnt from the rows that were drawn, however often each was.
    """
    draws = {"strategy": "Bootstrap", "params": {"n_splits": 6}}
    retrain("draws", rows(90), BAD, spec=draws)
    outcome = retrain("draws", rows(90), GOOD, spec=draws, metric="mae")  # which neither recipe names
    assert (outcome.decision.why, champion(home, "draws")) == ("the candidate is better", "2")
    assert outcome.decision.low > 0
    assert outcome.decision.spent == pytest.approx(0.02)
    told = compare_draws(*kept(outcome), outcome.decision.metric, n_rows=90)
    assert outcome.decision.information == pytest.approx(told.se**-2)


def test_draws_scored_with_other_weights_promote_nobody() -> None:
    """Each side of a draw was scored with its own recipe's weights, which makes two metrics, and no test of one."""
    frame = rows(90).assign(w=lambda frame: 1.0 + frame["id"] % 3)
    draws = {"strategy": "Bootstrap", "params": {"n_splits": 2}}
    retrain("weighed", frame, BAD | {"exclude": ["w"]}, spec=draws)
    decision = retrain("weighed", frame, GOOD | {"weights": "w"}, spec=draws).decision
    assert (decision.winner, decision.low, decision.p) == ("champion", None, None)
    assert "no weights of the champion, w of the candidate" in decision.words


def test_the_stretches_of_a_series_are_compared_not_its_rows() -> None:
    """Two stretches say nothing of how rows that follow one another depend, so nothing is promoted by them."""
    columns = {"key": ["id"], "target": "y", "time": "day"}
    frame = rows(99).assign(day=lambda frame: pd.Timestamp("2025-01-01") + pd.to_timedelta(frame["id"], "D"))
    for n_splits, winner in ((2, "champion"), (3, "candidate")):
        series = {"columns": columns, "strategy": "ForwardChaining", "params": {"n_splits": n_splits}}
        name = f"series{n_splits}"
        retrain(name, frame, BAD, spec=series)
        outcome = retrain(name, frame, GOOD, spec=series)
        assert outcome.decision.winner == winner
    # By the rows that the models learnt from, which are not those that others tested.
    n_train = np.mean([train.size for train, _ in outcome.split.manifest().pairs()])
    told = compare(*kept(outcome), outcome.decision.metric, on=["id"], n_train=n_train, ordered=True)
    assert outcome.decision.information == pytest.approx(told.se[0] ** -2)


def test_locked_rows_are_never_learnt_from(home: Home) -> None:
    """The final model is fitted on the rows that are not locked; its evaluation is found whatever it is called."""
    outcome = retrain("locked", rows(120), GOOD, spec={"holdout": {"fraction": 0.25}}, registered_name="locked@night")
    version = registry(home).get_model_version_by_alias("locked@night", "champion")
    assert version.tags["evenfold.n_train"] == "90"
    assert run_named(Tracker(home, ""), outcome).info.run_id == outcome.evaluation_run_id


MEDIAN = {"params": {"strategy": "median"}}


def leaky(n: int) -> pd.DataFrame:
    """Rows with a column that gives the target away, and one that numbers the rows."""
    frame = rows(n)
    return frame.assign(told=2 * frame["y"] + 1, number=range(n))


def test_a_failed_gate_stops_before_anything_is_fitted(home: Home) -> None:
    """The error holds the finding, the run is FAILED with it, nothing was fitted or registered; gates off goes on."""
    before = set(home.scores.glob("*"))
    with pytest.raises(GateError, match=r"the audit of gated 1\.0 failed: .*told"):
        retrain("gated", leaky(120), GOOD)
    assert set(home.scores.glob("*")) == before
    assert not (home.splits / "gated").exists(), "the right table after it is the first"
    states = {run.info.run_name: run.info.status for run in named(home, "gated")}
    assert states == {"retrain/gated": "FAILED", "gated 1.0 split": "FINISHED"}
    (failed,) = named(home, "retrain/gated")
    assert "told" in failed.data.tags["evenfold.failure"]
    assert not registry(home).search_registered_models("name = 'gated'")
    sound = retrain("gated", leaky(120), {**GOOD, "exclude": ["told"]})
    assert (set(sound.audit.features), sound.audit.failed) == ({"a", "b", "number"}, []), "a leak that nobody reads"
    outcome = retrain("gated", leaky(120), GOOD, gates=False)
    assert outcome.audit.failed == ["target_like_features"]


@pytest.mark.usefixtures("first")
def test_a_month_after_the_other_has_less_to_spend(home: Home) -> None:
    """What earlier comparisons of the name have used up is read from its runs.

    The same two recipes by the same metric are one experiment as the split grows.
    """
    scored = BAD | {"metrics": GOOD["metrics"]}  # by both metrics in every month, whichever decides
    months: list[Any] = [(60, {}, None), (65, {}, None), (65, {}, "neg_mean_squared_error"), (65, MEDIAN, None)]
    told = []
    for n, more, metric in months:
        outcome = retrain("monthly", rows(n), scored | more, metric=metric)
        registry(home).set_tag(outcome.run_id, "evenfold.model", "{")  # which no later one needs to read
        told.append(outcome.decision)
    assert [each.spent for each in told] == pytest.approx([0.02, 0.016, 0.0128, 0.01024])
    assert told[0].pair == told[1].pair
    assert told[1].bound < stats.norm.isf(0.016) - 0.01, "what the first look has seen is not paid for again"
    assert len({each.pair for each in told}) == 3
    again = retrain("monthly", rows(65), scored | MEDIAN, refresh=True).decision
    assert (again.spent, again.bound) == (told[3].spent, told[3].bound), "a refresh looks at nothing twice"


def test_of_two_retrainings_of_a_name_the_second_looks_back_at_what_the_first_has_spent(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()

    def another() -> None:
        with RegisteredModel(Tracker(home), "monthly").alone("looks"):
            free.set()

    def watched(*arguments: Any, **how: Any) -> Any:
        threading.Thread(target=another, daemon=True).start()
        assert not free.wait(0.5)
        return decide(*arguments, **how)

    monkeypatch.setattr("evenfold.flows.retraining.decide", watched)
    retrain("monthly", rows(60), BAD)
    assert retrain("monthly", rows(60), GOOD).decision.promote
    assert free.wait(30)


@pytest.mark.usefixtures("first")
def test_a_broken_table_makes_no_champion_and_the_right_one_after_it_does(home: Home) -> None:
    """The sentence says what is wrong and how to say yes; nothing is split, fitted or registered."""
    before = {*home.splits.rglob("*"), *home.scores.rglob("*")}
    for wrong, sentence in ((rows(70).tail(30), "40 of 60 known rows"), (rows(70).drop(columns="b"), "b is gone")):
        with pytest.raises(GateError, match=f"do not look like the next table of monthly 1.0: .*{sentence}.*: off"):
            retrain("monthly", wrong, GOOD)
        assert {*home.splits.rglob("*"), *home.scores.rglob("*")} == before
        assert champion(home, "monthly") == "1"
    assert retrain("monthly", rows(70), GOOD).registered is not None
    assert champion(home, "monthly") == "2"

"""The flows with real Prefect and real MLflow: computed once, recorded completely, equal to scikit-learn."""

import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelSpec, scaled_logistic_regression
from evenfold.flows import Evaluation, evaluate, split
from evenfold.manifests import Manifest, read_manifest
from evenfold.manifests.plan import Plan
from evenfold.tasks import Home
from evenfold.tasks.fits import fit_fold
from evenfold.tasks.scores import aggregate
from evenfold.tasks.store import kept
from evenfold.tasks.work import key_of_fit, work_of
from mlflow.tracking import MlflowClient
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix, get_scorer
from sklearn.model_selection import cross_val_score, cross_validate
from small import RIDGE, SPEC as THREE_FOLDS, artifact, artifacts, evaluated as small_evaluated, runs, small, values

SPEC = THREE_FOLDS | {"params": {"n_splits": 2}}
FLIGHTS = Path(__file__).parents[2] / "examples" / "flights.parquet"


def evaluated(data: Any, **fields: Any) -> Evaluation:
    return small_evaluated(data, **({"spec": SPEC} | fields))


def test_flights_are_split_and_fitted_once_and_recorded_completely(prefect_home: Home, tmp_path: Path) -> None:
    """A second evaluation computes nothing, and MLflow holds one complete run of each thing, no metric twice."""
    some = tmp_path / "flights.parquet"  # some of them say what all say, at a small part of the cost
    pd.read_parquet(FLIGHTS)[::50].to_parquet(some)
    spec = {"name": "flights", "columns": {"key": "flight_id", "target": "arr_delay", "group": "date"}}
    spec["params"] = {"n_splits": 2}
    model = {**RIDGE, "exclude": ["dep_delay"], "metrics": ["r2", "neg_mean_absolute_error"]}

    def run(data: Path = some, **fields: Any) -> Evaluation:
        return evaluate(data, spec=spec, model=model, **fields)

    one, two = run(), run()
    assert (one.cached, one.n_cached, one.n_fits) == (False, 0, 2)
    assert (two.cached, two.n_cached, two.n_fits) == (True, 2, 2)
    assert values(one) == values(two)
    assert (one.run_id, one.split_run_id) == (two.run_id, two.split_run_id)
    assert len(runs(prefect_home)) == 1 + 1 + 2
    assert_complete(prefect_home, two, children=2)
    predictions = artifact(prefect_home, one.run_id, "predictions.parquet")
    assert sorted(predictions["flight_id"]) == sorted(pd.read_parquet(some)["flight_id"])

    frame = pd.read_parquet(some).reset_index(drop=True)
    frame.loc[7, "tailnum"] = "another"
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "unread.parquet")
    unread = run(tmp_path / "unread.parquet")
    assert (unread.cached, unread.n_cached, unread.run_id) == (True, 2, one.run_id)

    frame.loc[7, "distance"] += 1000
    frame.to_parquet(tmp_path / "feature.parquet")
    feature = run(tmp_path / "feature.parquet")
    assert (feature.cached, feature.n_cached) == (True, 0)
    assert feature.split.split_id == one.split.split_id
    assert feature.run_id != one.run_id
    assert values(feature) != values(one)
    assert len(runs(prefect_home)) == 4 + 3


def assert_complete(home: Home, outcome: Evaluation, children: int) -> None:
    """Fail unless the split, the evaluation and its children are FINISHED and hold what they should, once."""
    client = MlflowClient(home.tracking_uri)
    parent, split_run = client.get_run(outcome.run_id), client.get_run(outcome.split_run_id)
    ours = [run for run in runs(home) if run.data.tags.get("mlflow.parentRunId") == outcome.run_id]
    recipe = parent.info.run_name.partition(" @ ")[0]
    assert sorted(run.info.run_name for run in ours) == [f"{recipe} fold {i}" for i in range(children)]
    for run in (parent, split_run, *ours):
        assert run.info.status == "FINISHED"
        for metric in run.data.metrics:
            steps = [point.step for point in client.get_metric_history(run.info.run_id, metric)]
            assert len(steps) == len(set(steps)), metric
    for run in (parent, split_run):
        assert "prefect.flow_run_id" in run.data.tags
        inputs = {read.tags[0].value: read.dataset for read in run.inputs.dataset_inputs}
        assert set(inputs) == {"training", "split"}
        assert inputs["split"].digest == outcome.split.split_id[:32]
    for name in outcome.model.metrics:
        history = client.get_metric_history(outcome.run_id, f"fold/{name}")
        assert [point.value for point in sorted(history, key=lambda point: point.step)] == [
            score.test[name] for score in outcome.scores
        ]
    assert {"estimates.json", "features.json", "predictions.parquet"} <= artifacts(home, outcome.run_id)
    kept = {f"split/{path.name}" for path in Path(outcome.split.uri).iterdir()} | {"split/balance.json"}
    assert kept <= artifacts(home, outcome.split_run_id, "split")


def test_both_engines_give_the_same_scores_and_a_refresh_records_the_same_runs(prefect_home: Home, data: Path) -> None:
    """To the last bit, and the same split; of a refresh nothing comes from the cache, and nothing is recorded twice."""
    one, two = evaluated(data, engine="prefect"), evaluated(data, refresh=True)
    ended = {run.info.run_id: run.info.end_time for run in runs(prefect_home)}
    again = evaluated(data, engine="prefect", refresh=True)
    assert all(run.info.end_time > ended[run.info.run_id] for run in runs(prefect_home))
    assert [(each.cached, each.n_cached) for each in (two, again)] == [(False, 0)] * 2
    assert (values(again), again.run_id) == (values(one), one.run_id)
    assert_complete(prefect_home, again, children=2)
    assert len(runs(prefect_home)) == 1 + 1 + 2
    assert values(one) == values(two)
    assert one.split.split_id == two.split.split_id
    assert one.estimates == two.estimates
    assert not {"splitters", "manifests", "estimates", "tasks", "flows", "deployments"} & set(sys.modules)


def test_a_split_that_was_decided_under_another_name_is_recorded_under_this_one(home: Home, data: Path) -> None:
    """The decision is shared; experiment and folder, from which the name grows, are those that were asked for."""
    one = evaluated(data)
    two = evaluated(data, spec=SPEC | {"name": "other"})
    assert two.cached
    assert two.split.split_id == one.split.split_id
    assert two.split.name == "other"
    assert Path(two.split.uri) == home.splits / "other" / "1.0"
    assert read_manifest(two.split.uri).split_id == one.split.split_id
    client = MlflowClient(home.tracking_uri)
    experiment = client.get_experiment(client.get_run(two.run_id).info.experiment_id)
    assert experiment.name == "other"


def cancer() -> pd.DataFrame:
    frame = load_breast_cancer(as_frame=True).frame.iloc[::4, -9:]  # a quarter of the rows, eight of the features
    return frame.rename(columns={"target": "benign"}).assign(patient=np.arange(len(frame))).reset_index(drop=True)


CANCER: dict[str, Any] = {"name": "cancer", "columns": {"key": "patient", "target": "benign"}}
CANCER["params"] = {"n_splits": 3}


LOGISTIC = {"estimator": "evenfold.estimates:scaled_logistic_regression", "metrics": ["accuracy", "neg_log_loss"]}


@pytest.mark.parametrize(
    ("spec", "model", "frame"),
    [
        (SPEC, RIDGE | {"features": ["a", "b"], "metrics": ["r2", "neg_mean_absolute_error"]}, small()),
        (CANCER, LOGISTIC, cancer()),
    ],
    ids=["regression", "classification"],
)
def test_the_scores_are_those_of_scikit_learn(shared_home: Home, spec: Any, model: Any, frame: pd.DataFrame) -> None:
    """cross_validate and cross_val_score on the manifest's own folds, whatever the order of the rows."""
    outcome = evaluated(frame.sample(frac=1, random_state=1), spec=spec, model=model)
    cv = read_manifest(outcome.split.uri).as_cv(frame)
    X, y = frame[outcome.features], frame[spec["columns"]["target"]]
    estimator = Ridge() if model is not LOGISTIC else scaled_logistic_regression()
    theirs = cross_validate(estimator, X, y, cv=cv, scoring=model["metrics"], return_train_score=True)
    for metric in model["metrics"]:
        ours = [score.test[metric] for score in outcome.scores]
        assert ours == pytest.approx(theirs[f"test_{metric}"], abs=1e-12, rel=0)
        assert [s.apparent[metric] for s in outcome.scores] == pytest.approx(
            theirs[f"train_{metric}"], abs=1e-12, rel=0
        )
        assert cross_val_score(estimator, X, y, cv=cv, scoring=metric) == pytest.approx(ours, abs=1e-12, rel=0)
        (estimate,) = (each for each in outcome.estimates if each.metric == metric)
        assert estimate.fold_mean == pytest.approx(np.mean(ours), abs=1e-12)
        assert estimate.sd == pytest.approx(np.std(ours, ddof=1), abs=1e-12)


def test_bootstrap_scores_are_those_of_scikit_learn(shared_home: Home) -> None:
    """Every draw's test score, the apparent score on all rows, and .632 of both."""
    frame = cancer()
    spec = CANCER | {"strategy": "Bootstrap", "params": {"n_splits": 6}}
    outcome = evaluated(frame, spec=spec, model=LOGISTIC)
    cv = read_manifest(outcome.split.uri).as_cv(frame)
    X, y = frame[outcome.features], frame["benign"]
    theirs = cross_validate(scaled_logistic_regression(), X, y, cv=cv, scoring=LOGISTIC["metrics"])
    table = artifact(shared_home, outcome.run_id, "scores.parquet")
    assert len(table) == outcome.split.n_splits == 6
    fitted = scaled_logistic_regression().fit(X, y)
    assert outcome.confusion.apparent
    assert outcome.confusion.counts == confusion_matrix(y, fitted.predict(X)).tolist()
    assert f"{len(y)} predictions of training rows are correct" in outcome.page().read_text(encoding="utf-8")
    for metric in LOGISTIC["metrics"]:
        assert table[metric].to_numpy() == pytest.approx(theirs[f"test_{metric}"], abs=1e-12, rel=0)
        assert outcome.apparent.apparent[metric] == pytest.approx(get_scorer(metric)(fitted, X, y), abs=1e-12)
        (oob,) = (e for e in outcome.estimates if (e.metric, e.method) == (metric, "out-of-bag"))
        assert oob.ingredients["oob"] == pytest.approx(theirs[f"test_{metric}"].mean(), abs=1e-12)


def test_data_that_change_under_way_poison_no_cache(home: Home, data: Path) -> None:
    """A fit whose data are not those that its key names is an error, not a result."""
    outcome = evaluated(data)
    model = ModelSpec.of(RIDGE)
    first = fit_fold.fn(outcome.split, 0, model)
    assert first.score.test == outcome.scores[0].test
    key = f"score/{key_of_fit(work_of(outcome.split, model), 0)}"
    small().assign(a=lambda frame: frame["a"] + frame["b"]).to_parquet(data)
    with pytest.raises(EvaluationError, match="the data changed while they were evaluated; run the evaluation again"):
        kept(key, lambda: fit_fold.fn(outcome.split, 0, model), again=True)
    second = fit_fold.fn(outcome.split, 1, model)
    with pytest.raises(EvaluationError, match="the data changed while they were evaluated"):
        aggregate.fn(outcome.split, [first, second])


def test_predictions_carry_the_keys_of_their_own_data(shared_home: Home, data: Path) -> None:
    """The same values under other keys are another data set, also where every fit could come from the cache."""
    spec = SPEC | {"name": "carried", "strategy": "KFold"}
    evaluated(data, spec=spec)
    small().assign(id=lambda frame: frame["id"] + 1_000_000).to_parquet(data)
    outcome = evaluated(data, spec=spec)
    predictions = artifact(shared_home, outcome.run_id, "predictions.parquet")
    assert predictions["id"].min() == 1_000_000


def test_keys_may_be_called_as_columns_of_ours(shared_home: Home) -> None:
    names = ["row", "key_row", "repeat", "y", "prediction", "weight", "proba_yes"]
    frame = small().drop(columns="y")
    frame[names] = np.column_stack([np.random.default_rng(i).permutation(frame["id"]) for i in range(len(names))])
    spec = {"name": "named", "columns": {"key": names, "target": "late"}, "strategy": "KFold"}
    spec["params"] = {"n_splits": 2}
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["accuracy"], "features": ["a", "b"]}
    outcome = evaluated(frame, spec=spec, model=model)
    predictions = artifact(shared_home, outcome.run_id, "predictions.parquet")
    kept = {"row": "key_key_row", "key_row": "key_row", "weight": "weight"}
    told = predictions[[kept.get(name, f"key_{name}") for name in names]].to_numpy()
    assert sorted(told.tolist()) == sorted(frame[names].to_numpy().tolist())


def test_a_frame_is_as_good_as_a_file(home: Home, data: Path) -> None:
    """pandas with an index of its own, polars, pyarrow: the same split, scores and run as the file."""
    import polars as pl
    import pyarrow.parquet as pq

    wanted = evaluated(data)
    shuffled = small().sample(frac=1, random_state=4)
    for given in (shuffled.set_index("id"), pl.from_pandas(shuffled), pq.read_table(data)):
        found = evaluated(given)
        assert (found.run_id, found.features) == (wanted.run_id, ["late", "a", "b"])
        assert values(found) == values(wanted)


@pytest.mark.usefixtures("prefect_home")
def test_two_processes_at_once_split_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one fresh home, with real Prefect: both succeed, one decides, and they record the same run."""
    fork, decide = get_context("fork"), Plan.decide
    (here, there), n_decided = fork.Pipe(), fork.Value("i")

    def counted(plan: Plan) -> Manifest:
        with n_decided.get_lock():
            n_decided.value += 1
        time.sleep(3)  # long enough for the other to come for it
        return decide(plan)

    def told() -> list[str]:
        outcome = split(data, spec={"name": "small", "columns": {"key": "id", "target": "y"}})
        return [outcome.split.split_id, outcome.run_id]

    def tell() -> None:
        there.send(told())

    monkeypatch.setattr(Plan, "decide", counted)
    home = Home(tmp_path / "new")
    monkeypatch.setenv("EVENFOLD_HOME", str(home.path))
    process = fork.Process(target=tell)
    process.start()
    ours = told()
    process.join(300)
    assert process.exitcode == 0
    assert (here.recv(), n_decided.value) == (ours, 1)
    assert [path.name for path in (home.splits / "small").iterdir()] == ["1.0"]
    assert [run.info.status for run in runs(home)] == ["FINISHED"]

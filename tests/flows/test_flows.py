"""The flows with real Prefect and real MLflow: computed once, recorded completely, honest about what failed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelError, ModelSpec, Problem, assemble, scaled_logistic_regression
from evenfold.flows import Evaluation, evaluate, split
from evenfold.manifests import decide, read_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import FileLocks, Home
from evenfold.tasks.fits import fit_fold
from evenfold.tasks.runtime.step import UNDER_KEY
from evenfold.tasks.scores import aggregate
from evenfold.tasks.work import key_of_split, work_of
from mlflow.tracking import MlflowClient
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_score, cross_validate

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights.parquet"
RIDGE = {"estimator": "sklearn.linear_model:Ridge"}
# Three folds say what five say, and a fold costs a tenth of a second: its fit, its run and its part of the audit.
SPEC: dict[str, Any] = {"name": "small", "columns": {"key": "id", "target": "y"}, "params": {"n_splits": 3}}
LATE: dict[str, Any] = {"name": "late", "columns": {"key": "id", "target": "late"}, "strategy": "KFold"}


def small(n: int = 120) -> pd.DataFrame:
    """Return ``n`` rows with a key, a number and a class to predict, two features, and a column that nobody reads."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=n), rng.normal(size=n)
    return pd.DataFrame(
        {
            "id": rng.permutation(n) * 3,
            "y": a + rng.normal(size=n),
            "late": np.where(b + rng.normal(size=n) > 0, "yes", "no"),
            "a": a,
            "b": b,
            "note": [f"note {i}" for i in range(n)],
        }
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a file that holds ``small()``."""
    small().to_parquet(tmp_path / "small.parquet")
    return tmp_path / "small.parquet"


def evaluated(data: Any, **fields: Any) -> Evaluation:
    """Return what the plain engine makes of ``data``."""
    return evaluate(data, **({"engine": "plain", "spec": SPEC, "model": RIDGE} | fields))


def runs(home: Home) -> list[Any]:
    """Return every MLflow run below ``home``."""
    client = MlflowClient(home.tracking_uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    return list(client.search_runs(experiments, max_results=1000))


def named(home: Home, words: str) -> list[Any]:
    return [run for run in runs(home) if words in run.info.run_name]


def values(outcome: Evaluation) -> list[dict[str, float]]:
    return [{**score.test, **{f"apparent {k}": v for k, v in score.apparent.items()}} for score in outcome.scores]


def artifacts(home: Home, run_id: str, folder: str = "") -> set[str]:
    return {each.path for each in MlflowClient(home.tracking_uri).list_artifacts(run_id, folder)}


def artifact(home: Home, run_id: str, name: str) -> pd.DataFrame:
    return pd.read_parquet(MlflowClient(home.tracking_uri).download_artifacts(run_id, name))


# ---------------------------------------------------------------- once


def test_flights_are_split_and_fitted_once_and_recorded_completely(prefect_home: Home, tmp_path: Path) -> None:
    """A second evaluation computes nothing, and MLflow holds one complete run of each thing, no metric twice."""
    some = tmp_path / "flights.parquet"  # some of them say what all say, at a small part of the cost
    pd.read_parquet(FLIGHTS)[::25].to_parquet(some)
    spec = {"name": "flights", "columns": {"key": "flight_id", "target": "arr_delay", "group": "date"}}
    spec["params"] = {"n_splits": 3}
    model = {**RIDGE, "exclude": ["dep_delay"], "metrics": ["r2", "neg_mean_absolute_error"]}

    def run(data: Path = some, **fields: Any) -> Evaluation:
        return evaluate(data, spec=spec, model=model, **fields)

    one, two = run(), run()
    assert (one.cached, one.n_cached, one.n_fits) == (False, 0, 3)
    assert (two.cached, two.n_cached, two.n_fits) == (True, 3, 3)
    assert values(one) == values(two)
    assert (one.run_id, one.split_run_id) == (two.run_id, two.split_run_id)
    assert len(runs(prefect_home)) == 1 + 1 + 3
    assert_complete(prefect_home, two, children=3)
    predictions = artifact(prefect_home, one.run_id, "predictions.parquet")
    assert sorted(predictions["flight_id"]) == sorted(pd.read_parquet(some)["flight_id"])

    labelled = run(run_label="another")
    assert labelled.n_cached == 3
    assert labelled.run_id != one.run_id
    assert labelled.split_run_id == one.split_run_id
    assert len(runs(prefect_home)) == 5 + 4
    assert_complete(prefect_home, labelled, children=3)

    frame = pd.read_parquet(some).reset_index(drop=True)
    frame.loc[7, "tailnum"] = "another"
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "unread.parquet")
    unread = run(tmp_path / "unread.parquet")
    assert (unread.cached, unread.n_cached, unread.run_id) == (True, 3, one.run_id)

    frame.loc[7, "distance"] += 1000
    frame.to_parquet(tmp_path / "feature.parquet")
    feature = run(tmp_path / "feature.parquet")
    assert (feature.cached, feature.n_cached) == (True, 0)
    assert feature.split.split_id == one.split.split_id
    assert feature.run_id != one.run_id
    assert values(feature) != values(one)
    assert len(runs(prefect_home)) == 9 + 4


def assert_complete(home: Home, outcome: Evaluation, children: int) -> None:
    """Fail unless the split, the evaluation and its children are FINISHED and hold what they should, once."""
    client = MlflowClient(home.tracking_uri)
    parent, split_run = client.get_run(outcome.run_id), client.get_run(outcome.split_run_id)
    ours = [run for run in runs(home) if run.data.tags.get("mlflow.parentRunId") == outcome.run_id]
    recipe = parent.info.run_name.partition(" @ ")[0]
    assert sorted(run.info.run_name for run in ours) == [f"{recipe} fold {i}" for i in range(children)]
    for run in (parent, split_run, *ours):
        assert run.info.status == "FINISHED"
        assert run.data.tags["evenfold.split_id"] == outcome.split.split_id
        assert run.data.tags["split"] == outcome.split.split_id[:12]
        for metric in run.data.metrics:
            steps = [point.step for point in client.get_metric_history(run.info.run_id, metric)]
            assert len(steps) == len(set(steps)), metric
    for run in (parent, split_run):
        assert run.data.tags["evenfold.plan_id"] == run.data.params.get("plan_id", outcome.split.plan_id)
        assert run.data.tags["evenfold.split_run_id"] == outcome.split_run_id
        assert "prefect.flow_run_id" in run.data.tags
    for run in (parent, split_run):
        inputs = {read.tags[0].value: read.dataset for read in run.inputs.dataset_inputs}
        assert set(inputs) == {"training", "split"}
        assert inputs["split"].digest == outcome.split.split_id[:32]
    for name in outcome.model.metrics:
        wanted = {f"{figure}/{name}" for figure in ("value", "mean", "low", "high", "apparent", "fold")}
        assert wanted <= set(parent.data.metrics)
        history = client.get_metric_history(outcome.run_id, f"fold/{name}")
        assert [point.value for point in sorted(history, key=lambda point: point.step)] == [
            score.test[name] for score in outcome.scores
        ]
        for score in outcome.scores:
            (child,) = (run for run in ours if run.info.run_name == f"{recipe} {score.name}")
            assert child.data.metrics[f"test/{name}"] == score.test[name]
            assert child.data.metrics[f"apparent/{name}"] == score.apparent[name]
    assert {"estimates.json", "features.json", "predictions.parquet"} <= artifacts(home, outcome.run_id)
    manifest = Path(outcome.split.uri)
    kept = {f"split/{path.name}" for path in manifest.iterdir()} | {"split/balance.json"}
    assert kept <= artifacts(home, outcome.split_run_id, "split")
    assert split_run.data.metrics["balance/worst_size"] == outcome.balance.worst["size"]


def test_the_plain_engine_records_everything_once_too(home: Home, data: Path) -> None:
    """Finished fits are found where Prefect's tasks find them; fitted again, still no metric has two values."""
    one, two = evaluated(data), evaluated(data)
    assert (one.cached, one.n_cached) == (False, 0)
    assert (two.cached, two.n_cached) == (True, 3)
    assert evaluated(data, refresh=True).n_cached == 0
    assert one.run_id == two.run_id
    assert len(runs(home)) == 5
    client = MlflowClient(home.tracking_uri)
    for run in runs(home):
        assert run.info.status == "FINISHED"
        for metric in run.data.metrics:
            steps = [point.step for point in client.get_metric_history(run.info.run_id, metric)]
            assert len(steps) == len(set(steps)), metric


def test_both_engines_give_the_same_scores(prefect_home: Home, data: Path) -> None:
    """To the last bit, and the same split."""
    one, two = evaluated(data, engine="prefect"), evaluated(data)
    assert values(one) == values(two)
    assert one.split.split_id == two.split.split_id
    assert [each.to_json() for each in one.estimates] == [each.to_json() for each in two.estimates]
    assert not {"splitters", "manifests", "estimates", "tasks", "flows", "deployments"} & set(sys.modules)


def test_a_plain_k_fold_does_not_read_the_target_but_its_scores_do(home: Home, data: Path) -> None:
    """One changed target value: the same plan and split, from the cache, and every fold is fitted again."""
    spec = SPEC | {"strategy": "KFold"}
    one = evaluated(data, spec=spec)
    frame = small()
    frame.loc[3, "y"] += 5
    frame.to_parquet(data)
    two = evaluated(data, spec=spec)
    assert two.split == one.split
    assert (two.cached, two.n_cached) == (True, 0)
    assert values(two) != values(one)
    assert two.run_id != one.run_id


def test_a_refresh_computes_again_and_records_the_same_runs(prefect_home: Home, data: Path) -> None:
    """Nothing comes from the cache, and nothing is recorded twice."""
    one = evaluated(data, engine="prefect")
    two = evaluated(data, engine="prefect", refresh=True)
    assert (two.cached, two.n_cached) == (False, 0)
    assert (values(two), two.run_id) == (values(one), one.run_id)
    assert_complete(prefect_home, two, children=3)


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


def test_two_homes_may_share_one_store(home: Home, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two people, or two machines, complete the same run: nothing in it is bound to a folder."""
    one = evaluated(data)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.tracking_uri)
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "elsewhere"))
    shutil.copy(data, tmp_path / "copy.parquet")
    two = evaluated(tmp_path / "copy.parquet")
    assert (one.run_id, one.split_run_id) == (two.run_id, two.split_run_id)
    assert one.split.uri != two.split.uri


# ---------------------------------------------------------------- the same scores


def cancer() -> pd.DataFrame:
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    return pd.concat([pd.DataFrame({"patient": range(len(frame))}), frame], axis=1)


CANCER: dict[str, Any] = {"name": "cancer", "columns": {"key": "patient", "target": "benign"}}
LOGISTIC = {"estimator": "evenfold.estimates:scaled_logistic_regression", "metrics": ["accuracy", "neg_log_loss"]}


@pytest.mark.parametrize(
    ("spec", "model", "frame"),
    [
        (SPEC, RIDGE | {"features": ["a", "b"], "metrics": ["r2", "neg_mean_absolute_error"]}, small()),
        (CANCER, LOGISTIC, cancer()),
    ],
    ids=["regression", "classification"],
)
def test_the_scores_are_those_of_scikit_learn(home: Home, spec: Any, model: Any, frame: pd.DataFrame) -> None:
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


def test_bootstrap_scores_are_those_of_scikit_learn(home: Home) -> None:
    """Every draw's test score, the apparent score on all rows, and .632 of both."""
    frame = cancer()
    spec = CANCER | {"strategy": "Bootstrap", "params": {"n_splits": 12}}
    outcome = evaluated(frame, spec=spec, model=LOGISTIC)
    cv = read_manifest(outcome.split.uri).as_cv(frame)
    X, y = frame[outcome.features], frame["benign"]
    theirs = cross_validate(scaled_logistic_regression(), X, y, cv=cv, scoring=LOGISTIC["metrics"])
    table = artifact(home, outcome.run_id, "scores.parquet")
    assert len(table) == outcome.split.n_splits == 12
    fitted = scaled_logistic_regression().fit(X, y)
    for metric in LOGISTIC["metrics"]:
        assert table[metric].to_numpy() == pytest.approx(theirs[f"test_{metric}"], abs=1e-12, rel=0)
        assert outcome.apparent is not None
        assert outcome.apparent.apparent[metric] == pytest.approx(get_scorer(metric)(fitted, X, y), abs=1e-12)
        (oob,) = (e for e in outcome.estimates if (e.metric, e.method) == (metric, "out-of-bag"))
        assert oob.value == pytest.approx(theirs[f"test_{metric}"].mean(), abs=1e-12)


def test_the_assembled_estimator_reproduces_the_flow(home: Home, data: Path) -> None:
    """What a reader would fit by hand from the recorded specification gives the recorded score."""
    outcome = evaluated(data, model={"features": ["a", "note"], "metrics": ["r2"]} | RIDGE)
    frame = small().sort_values("id", ignore_index=True)
    model = ModelSpec.of({"features": ["a", "note"], "metrics": ["r2"]} | RIDGE)
    problem = Problem.of(frame, model, "y", ["id"])
    cv = read_manifest(outcome.split.uri).as_cv(frame)
    ours = cross_val_score(assemble(model, problem, seed=0), problem.X, problem.y, cv=cv, scoring="r2")
    assert ours == pytest.approx([score.test["r2"] for score in outcome.scores], abs=1e-12, rel=0)


# ---------------------------------------------------------------- what was cached and is gone


def test_what_was_deleted_or_altered_is_computed_again(prefect_home: Home, data: Path) -> None:
    """A cached fold whose file is gone or changed by a bit, and a manifest in the same state, are made anew."""
    one = evaluated(data, engine="prefect")
    files = sorted(prefect_home.scores.glob("*.parquet"))
    files[0].unlink()
    flip(files[1])
    two = evaluated(data, engine="prefect")
    assert (two.cached, two.n_cached) == (True, 1)
    assert values(two) == values(one)
    for harm in (flip, Path.unlink):
        harm(Path(one.split.uri) / "assignments-0000.parquet")
        again = evaluated(data, engine="prefect")
        assert (again.cached, again.n_cached, again.split) == (False, 3, one.split)
        assert read_manifest(one.split.uri).split_id == one.split.split_id
    (Path(one.split.uri) / "manifest.json").unlink()
    beside = evaluated(data, engine="prefect")
    assert (beside.cached, beside.n_cached, beside.split.version) == (False, 3, "2.0")
    assert beside.split.split_id == one.split.split_id
    assert evaluated(data, engine="prefect").cached
    assert len(runs(prefect_home)) == 5


def test_the_plain_engine_mends_a_damaged_manifest(home: Home, data: Path) -> None:
    """In its place, and what was damaged is kept aside."""
    one = split(data, spec=SPEC, engine="plain")
    flip(Path(one.split.uri) / "assignments-0000.parquet")
    assert split(data, spec=SPEC, engine="plain").split == one.split
    (aside,) = (home.splits / "small").glob(".damaged-*/*")
    assert (aside / "manifest.json").exists()


def test_a_neighbour_that_is_no_manifest_is_passed_over(home: Home, data: Path) -> None:
    """Whatever its manifest.json holds."""
    for number, text in enumerate(["[]", "{", '"x"', "null", '{"plan_id": []}'], start=1):
        (home.splits / "small" / f"{number}.0").mkdir(parents=True)
        (home.splits / "small" / f"{number}.0" / "manifest.json").write_text(text)
    assert split(data, spec=SPEC, engine="plain").split.version == "6.0"
    assert split(data, spec=SPEC, engine="plain").split.version == "6.0"


def flip(path: Path) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# ---------------------------------------------------------------- what fails


def rare(data: Path) -> list[int]:
    """Write data in which one fold of LATE has no 'yes', and return each row's fold."""
    frame = small().assign(late="no")
    codes = decide(LATE, frame).codes
    by_key = dict(zip(sorted(frame["id"]), codes.tolist(), strict=True))
    folds = [by_key[key] for key in frame["id"]]
    for fold in (0, 1, 3, 4):
        frame.loc[[i for i, each in enumerate(folds) if each == fold][:3], "late"] = "yes"
    frame.to_parquet(data)
    return folds


@pytest.mark.parametrize("engine", ["plain", "prefect"])
@pytest.mark.filterwarnings("ignore:Only one class is present")
def test_an_undefined_metric_fails_the_evaluation_and_keeps_the_rest(
    engine: str, prefect_home: Home, data: Path
) -> None:
    """The split and the finished folds are recorded, and the parent is FAILED with the reason."""
    rare(data)
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["roc_auc"]}
    with pytest.raises(
        EvaluationError, match="1 of 5 fits failed: fold 2: roc_auc is undefined: its 24 test rows hold"
    ):
        evaluated(data, engine=engine, spec=LATE, model=model)
    (parent,) = named(prefect_home, " @ ")
    assert parent.info.status == "FAILED"
    assert "fold 2: roc_auc is undefined" in parent.data.tags["evenfold.failure"]
    assert "fold 2: roc_auc is undefined" in parent.data.tags["mlflow.note.content"]
    assert not [name for name in parent.data.metrics if name.startswith("value/")]
    assert {run.info.run_name: run.info.status for run in named(prefect_home, " fold ")} == dict.fromkeys(
        [f"LogisticRegression fold {fold}" for fold in (0, 1, 3, 4)], "FINISHED"
    )
    assert [run.info.status for run in named(prefect_home, " split")] == ["FINISHED"]
    assert "predictions.parquet" in artifacts(prefect_home, parent.info.run_id)


@pytest.mark.filterwarnings("ignore:Only one class is present")
def test_what_was_partial_becomes_whole(home: Home, data: Path) -> None:
    """The finished folds come from the cache; the same run is partial first, and complete with other figures later."""
    folds = rare(data)
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["roc_auc"], "exclude": ["y"]}
    partial = evaluated(data, spec=LATE, model=model, allow_partial=True)
    client = MlflowClient(home.tracking_uri)
    run = client.get_run(partial.run_id)
    assert (run.info.status, run.data.tags["evenfold.partial"]) == ("FINISHED", "true")
    assert len(partial.scores) == 4
    assert folds.count(2) == 24


def test_a_run_that_failed_and_then_works_says_so_no_more(
    home: Home, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A model that fails until it is repaired: the same run, FINISHED, without the failure, and with every child."""
    (tmp_path / "fragile_model.py").write_text(
        "import os\n"
        "from sklearn.linear_model import Ridge\n"
        "class Fragile(Ridge):\n"
        "    def fit(self, X, y):\n"
        "        if 'FRAGILE' in os.environ and len(X) == int(os.environ['FRAGILE']):\n"
        "            raise RuntimeError('out of memory')\n"
        "        return super().fit(X, y)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = SPEC | {"params": {"n_splits": 7}}  # 120 rows: one fold of 18, and 102 rows to train on
    model = {"estimator": "fragile_model:Fragile"}
    monkeypatch.setenv("FRAGILE", "102")
    with pytest.raises(EvaluationError, match=r"fits failed: fold \d: .*RuntimeError: out of memory"):
        evaluated(data, spec=spec, model=model)
    (failed,) = named(home, " @ ")
    assert failed.info.status == "FAILED"
    partial = evaluated(data, spec=spec, model=model, allow_partial=True)
    assert MlflowClient(home.tracking_uri).get_run(partial.run_id).data.tags["evenfold.partial"] == "true"
    monkeypatch.delenv("FRAGILE")
    whole = evaluated(data, spec=spec, model=model)
    assert whole.run_id == partial.run_id == failed.info.run_id
    run = MlflowClient(home.tracking_uri).get_run(whole.run_id)
    assert run.info.status == "FINISHED"
    assert not {"evenfold.failure", "evenfold.partial"} & set(run.data.tags)
    assert "Failed" not in run.data.tags["mlflow.note.content"]
    assert run.data.metrics["value/r2"] == whole.estimates[0].value != partial.estimates[0].value
    assert len(named(home, " fold ")) == 7


def test_the_flow_run_says_why_it_failed(prefect_home: Home, data: Path) -> None:
    """In Prefect's own record, in the same sentence."""
    from prefect.client.orchestration import get_client

    rare(data)
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["accuracy"], "features": ["note"]}
    one = evaluated(data, engine="prefect", spec=LATE, model=model)
    with pytest.raises(EvaluationError) as error:
        evaluated(data, engine="prefect", spec=LATE, model=model | {"params": {"C": -1.0}})
    with get_client(sync_client=True) as client:
        by_state = {run.state.name: run for run in client.read_flow_runs(limit=2, sort="START_TIME_DESC")}
    assert set(by_state) == {"Completed", "Failed"}
    assert by_state["Failed"].state.message == str(error.value)
    tags = MlflowClient(prefect_home.tracking_uri).get_run(one.run_id).data.tags
    assert tags["prefect.flow_run_id"] == str(by_state["Completed"].id)


# ---------------------------------------------------------------- data that change


def test_data_that_change_under_way_poison_no_cache(home: Home, data: Path) -> None:
    """A fit whose data are not those that its key names is an error, not a result."""
    outcome = evaluated(data)
    model = ModelSpec.of(RIDGE)
    first = fit_fold.fn(outcome.split, 0, model)
    assert first.score.test == outcome.scores[0].test
    token = UNDER_KEY.set(f"score/{key_of_split(work_of(outcome.split, model), 0)}")
    small().assign(a=lambda frame: frame["a"] + frame["b"]).to_parquet(data)
    with pytest.raises(EvaluationError, match="the data changed while they were evaluated; run the evaluation again"):
        fit_fold.fn(outcome.split, 0, model)
    UNDER_KEY.reset(token)
    second = fit_fold.fn(outcome.split, 1, model)
    with pytest.raises(EvaluationError, match="the data changed while they were evaluated"):
        aggregate.fn(outcome.split, [first, second])


def test_a_folder_that_grows_is_read_again(home: Home, data: Path, tmp_path: Path) -> None:
    """In the same process, as when a notebook stays open."""
    folder = tmp_path / "parts"
    folder.mkdir()
    small().iloc[:80].to_parquet(folder / "a.parquet")
    assert split(folder, spec=SPEC, engine="plain").split.n_rows == 80
    small().iloc[80:].to_parquet(folder / "b.parquet")
    assert split(folder, spec=SPEC, engine="plain").split.n_rows == 120
    assert split(str(folder / "*.parquet"), spec=SPEC, engine="plain").split.n_rows == 120
    small().iloc[80:100].to_parquet(folder / "b.parquet")
    assert split(str(folder / "*.parquet"), spec=SPEC, engine="plain").split.n_rows == 100


def test_predictions_carry_the_keys_of_their_own_data(home: Home, data: Path) -> None:
    """The same values under other keys are another data set, also where every fit could come from the cache."""
    spec = SPEC | {"strategy": "KFold"}
    evaluated(data, spec=spec)
    small().assign(id=lambda frame: frame["id"] + 1_000_000).to_parquet(data)
    outcome = evaluated(data, spec=spec)
    predictions = artifact(home, outcome.run_id, "predictions.parquet")
    assert predictions["id"].min() == 1_000_000
    small().rename(columns={"id": "number"}).to_parquet(data)
    renamed = evaluated(data, spec=spec | {"columns": {"key": "number", "target": "y"}})
    assert "number" in artifact(home, renamed.run_id, "predictions.parquet")


def test_keys_may_be_called_as_columns_of_ours(home: Home) -> None:
    """They get other names in the predictions; no key is lost."""
    names = ["row", "repeat", "y", "prediction", "weight", "proba_yes"]
    frame = small().drop(columns="y")
    frame[names] = np.column_stack([np.random.default_rng(i).permutation(frame["id"]) for i in range(len(names))])
    spec = {"name": "named", "columns": {"key": names, "target": "late"}, "strategy": "KFold"}
    spec["params"] = {"n_splits": 2}
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["accuracy"], "features": ["a", "b"]}
    outcome = evaluated(frame, spec=spec, model=model)
    predictions = artifact(home, outcome.run_id, "predictions.parquet")
    told = predictions[[f"key_{name}" if name != "weight" else name for name in names]].to_numpy()
    assert sorted(told.tolist()) == sorted(frame[names].to_numpy().tolist())


@pytest.mark.parametrize("name", ["fold", "fold_r2", "stratum", "stratum_1", "group_code", "status"])
def test_a_key_that_would_overwrite_the_manifest_is_refused(name: str) -> None:
    """Its columns stand beside the key's."""
    with pytest.raises(SplitError, match=f"key column '{name}' is called as a column of the manifest; rename it"):
        decide({"columns": {"key": name}}, small().rename(columns={"id": name}))


# ---------------------------------------------------------------- in Python


def test_a_frame_is_as_good_as_a_file(home: Home, data: Path) -> None:
    """pandas with an index of its own, polars, pyarrow: the same split, scores and run as the file."""
    import polars as pl
    import pyarrow.parquet as pq

    wanted = evaluated(data)
    shuffled = small().sample(frac=1, random_state=4)
    for given in (shuffled, shuffled.set_index("id"), pl.from_pandas(shuffled), pq.read_table(data), str(data)):
        found = evaluated(given)
        assert (found.run_id, found.features) == (wanted.run_id, ["late", "a", "b"])
        assert values(found) == values(wanted)


def test_specifications_and_models_come_in_every_form(home: Home, data: Path, tmp_path: Path) -> None:
    """A mapping, a file, an import path, or the thing itself."""
    (tmp_path / "spec.yaml").write_text("name: small\ncolumns: {key: id, target: y}\nparams: {n_splits: 3}\n")
    wanted = evaluated(data).run_id
    assert evaluated(data, spec=tmp_path / "spec.yaml", model=RIDGE["estimator"]).run_id == wanted
    assert evaluated(data, model=ModelSpec.of(RIDGE)).run_id == wanted
    assert evaluated(data, model={**RIDGE, "params": {"alpha": 1}}).run_id != wanted


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"spec": {"nme": "x"}}, SplitError, "there is no field 'nme' in the specification; did you mean 'name'?"),
        (
            {"spec": {"target": "y"}},
            SplitError,
            "there is no field 'target' in the specification; it belongs in columns",
        ),
        ({"spec": 5}, SplitError, "the specification holds no fields, but 5; write strategy: KFold, say."),
        ({"spec": "nowhere.yaml"}, SplitError, "there is no specification file nowhere.yaml"),
        ({"model": {"estimatr": "x"}}, ModelError, "the model has no field 'estimatr'; did you mean 'estimator'?"),
        ({"model": "nowhere:Model"}, ModelError, "'nowhere:Model' does not import: no module named 'nowhere'"),
        ({"modle": RIDGE}, SplitError, "there is no field 'modle' in the request; did you mean 'model'?"),
        ({"engine": "plane"}, SplitError, "there is no engine 'plane'; choose 'prefect' or 'plain'."),
        ({"spec": SPEC | {"params": {"n_splits": 200}}}, SplitError, "n_splits=200 with 120 rows"),
        ({"manifest": "nowhere"}, SplitError, "nowhere holds no manifest.json"),
    ],
)
def test_bad_requests_are_said_in_a_sentence_and_leave_nothing(
    fields: Any, error: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started or written: there is not even a home."""
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "none"))
    with pytest.raises(error) as raised:
        evaluated(small(), **fields)
    assert said in str(raised.value)
    assert not (tmp_path / "none").exists()


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "file"))
    with pytest.raises(SplitError, match=r"the folder .*file cannot be written \(.*\); set EVENFOLD_HOME to another"):
        evaluated(data)


def test_the_number_of_workers_must_be_one(prefect_home: Home, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from the environment, where anything may stand."""
    for given in ("two", "0", "-1"):
        monkeypatch.setenv("EVENFOLD_WORKERS", given)
        with pytest.raises(SplitError, match=f"EVENFOLD_WORKERS is '{given}'; set a whole number of at least 1"):
            evaluated(data, engine="prefect")


def test_others_may_read_what_one_computed(home: Home, data: Path) -> None:
    """A shared home is shared: files have the rights of any new file."""
    evaluated(small())
    (home.path / "new").write_text("")
    made = [*home.scores.glob("*"), *home.data.glob("*")]
    assert len(made) == 4
    assert {path.stat().st_mode for path in made} == {(home.path / "new").stat().st_mode}


# ---------------------------------------------------------------- several at once

HOLD = """
import sys, time
from pathlib import Path
from evenfold.tasks import FileLocks
assert FileLocks(Path(sys.argv[1])).acquire_lock("split/x", "them")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds a lock and does not let go."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "locks")], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which a Python of its own finds what this one finds."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | more


def test_a_lock_is_freed_when_its_holder_is_killed(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    """Held until kill -9, and free at once then; another key is free all the time."""
    locks = FileLocks(tmp_path / "locks")
    assert locks.is_locked("split/x")
    assert not locks.is_locked("split/y")
    assert not locks.is_lock_holder("split/x", "us")
    assert not locks.acquire_lock("split/x", "us", acquire_timeout=0.2)
    assert not locks.wait_for_lock("split/x", timeout=0.2)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    started = time.monotonic()
    assert locks.acquire_lock("split/x", "us", acquire_timeout=10)
    assert time.monotonic() - started < 5
    assert locks.is_lock_holder("split/x", "us")
    assert locks.acquire_lock("split/x", "us")  # again, by the same holder
    assert not locks.acquire_lock("split/x", "others", acquire_timeout=0.2)
    with pytest.raises(ValueError, match="others does not hold the lock of split/x"):
        locks.release_lock("split/x", "others")
    locks.release_lock("split/x", "us")
    assert not locks.is_locked("split/x")


OTHER = """
import sys
from evenfold.flows import split
print("ready", flush=True)
sys.stdin.readline()
outcome = split(sys.argv[1], spec={"name": "small", "columns": {"key": "id", "target": "y"}})
print(outcome.cached, outcome.split.split_id, outcome.run_id)
"""


def test_two_processes_at_once_split_once(prefect_home: Home, data: Path) -> None:
    """On one fresh home, with real Prefect: both succeed, one decides, and they record the same run."""
    from prefect.settings import PREFECT_API_URL

    fresh = environment(
        PREFECT_API_URL=str(PREFECT_API_URL.value()),
        PREFECT_HOME=str(prefect_home.path / "prefect"),
        PREFECT_LOCAL_STORAGE_PATH=str(prefect_home.path / "results"),
    )
    (prefect_home.path / "mlflow.db").unlink()
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(data)],
        env=fresh, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        ours = split(data, spec={"name": "small", "columns": {"key": "id", "target": "y"}})
        told, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    outcomes = sorted([told.split(), [str(ours.cached), ours.split.split_id, ours.run_id]])
    assert [cached for cached, _, _ in outcomes] == ["False", "True"]
    assert outcomes[0][1:] == outcomes[1][1:]
    assert [path.name for path in (prefect_home.splits / "small").iterdir()] == ["1.0"]
    assert [run.info.status for run in runs(prefect_home)] == ["FINISHED"]


def test_splitting_alone_records_the_split_alone(home: Home, data: Path) -> None:
    """No model, no evaluation."""
    outcome = split(data, engine="plain", spec=SPEC)
    assert [run.info.run_name for run in runs(home)] == ["small 1.0 split"]
    assert runs(home)[0].info.run_id == outcome.run_id

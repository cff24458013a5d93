"""Intervals as they are asked for: by method, level and margin, from the request to the page and MLflow."""

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from evaluations import nested_of
from evenfold.estimates import INTERVALS, ModelError
from evenfold.estimates.intervals.registry import METHODS
from evenfold.flows import Evaluation, evaluate, tune, tuning
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.parameters import Intervals
from evenfold.tasks.work import work_of
from mlflow.tracking import MlflowClient
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["neg_mean_squared_error", "r2"]}
SPEC: dict[str, Any] = {"name": "small", "columns": {"key": "id", "target": "y"}, "strategy": "KFold"}
SPEC["params"] = {"n_splits": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(90), "a": rng.normal(size=90), "b": rng.normal(size=90)})
    frame["y"] = frame["a"] + rng.normal(size=90)
    frame["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(90), "D")
    path = tmp_path_factory.mktemp("data") / "small.parquet"
    frame.to_parquet(path)
    return path


def asked(data: Any, **fields: Any) -> Evaluation:
    return evaluate(data, **({"engine": "plain", "spec": SPEC, "model": RIDGE} | fields))


def test_every_method_can_be_asked_for() -> None:
    assert set(get_args(get_args(Intervals)[0])) == set(INTERVALS)
    assert {*METHODS} - {*INTERVALS} == {"wald", "corrected_wald", "stretches"}, "which nobody is offered"


def test_nested_cross_validation_is_one_flag_whose_fits_are_kept(shared_home: Home, data: Path) -> None:
    """Three folds ask for three further fits; asked again, none is computed, and the interval is the function's own."""
    own = RIDGE | {"params": {"alpha": 2.0}}  # of which no other test keeps a fit
    one = asked(data, model=own, interval="nested", level=0.9)
    two = asked(data, model=own, interval="nested", level=0.8)
    assert (one.n_fits, one.n_cached) == (6, 0)
    assert (two.n_fits, two.n_cached) == (6, 6)
    work = work_of(one.split, own)
    known = nested_of(work.problem, [work.pair(i) for i in one.split.splits()], level=0.9)
    mse, r2 = one.estimates
    assert (mse.interval.low, mse.interval.high) == pytest.approx((known.low, known.high), rel=1e-12)
    assert r2.interval is None
    assert any("R2 is none; choose auto" in note for note in r2.notes)


def test_a_tuning_on_other_values_is_another_run(shared_home: Home, data: Path) -> None:
    """The split reads no feature and stays the same; the record of the first tuning stays as it was."""
    grid = {"alpha": [0.001, 1e4]}
    model, rows = RIDGE | {"features": ["a"]}, pd.read_parquet(data)
    one, two = (tune(each, SPEC, model, grid=grid, engine="plain") for each in (rows, rows.assign(a=rows["b"])))
    assert one.split.split_id == two.split.split_id
    client = MlflowClient(shared_home.tracking_uri)
    for outcome in (one, two):
        run = client.get_run(outcome.run_id)
        assert (run.info.status, run.data.metrics[f"tried/{outcome.metric}"]) == ("FINISHED", outcome.scores[-1])
    assert one.scores != two.scores


@pytest.mark.parametrize("kind", [bool, float])
def test_a_target_of_truth_values_or_of_numbered_classes_is_recorded(shared_home: Home, data: Path, kind: type) -> None:
    frame = pd.read_parquet(data)
    rows = frame.assign(y=(frame["y"] > 0).astype(kind))
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["recall"], "task": "classification"}
    spec = {"name": "truth", "columns": {"key": "id", "target": "y"}, "params": {"n_splits": 2}}
    outcome = asked(rows, spec=spec, model=model)
    page = Path(MlflowClient(shared_home.tracking_uri).download_artifacts(outcome.run_id, "report.html"))
    assert "calibration" in page.read_text(encoding="utf-8")


def test_a_tuning_makes_the_intervals_of_its_configurations_as_asked(shared_home: Home, data: Path) -> None:
    """As an evaluation of each would, further fits and all; they were made by auto whatever was asked."""
    how: dict[str, Any] = {"interval": "nested", "level": 0.5}
    tuned = tune(data, spec=SPEC, model=RIDGE, grid={"alpha": [0.1, 100.0]}, engine="plain", **how)
    one = asked(data, model=RIDGE | {"params": {"alpha": 100.0}}, **how)
    assert tuned.level == 0.5
    assert one.n_cached == one.n_fits
    assert tuned.n_fits == 2 * one.n_fits
    client = MlflowClient(shared_home.tracking_uri)
    tried = json.loads(Path(client.download_artifacts(tuned.run_id, "tuning.json")).read_text(encoding="utf-8"))
    made = [estimate["interval"] for estimate in tried["tried"][1]["estimates"]]
    assert made == json.loads(json.dumps([asdict(estimate)["interval"] for estimate in one.estimates]))


def test_a_tuning_that_chooses_otherwise_by_now_is_another_record(
    shared_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one by newer packages may: MLflow keeps what was chosen first, and the record that said so stays FINISHED."""
    ask = partial(tune, noise(), spec=SPEC | {"name": "again"}, model=RIDGE, grid={"alpha": [0.1, 9.0]}, engine="plain")
    first, chosen = ask(), tuning._chosen
    monkeypatch.setattr(tuning, "_chosen", lambda *a, **how: replace(chosen(*a, **how), chosen=1 - first.chosen))
    runs = [ask().run_id, ask().run_id, first.run_id]
    assert len(set(runs)) == 2
    client = MlflowClient(shared_home.tracking_uri)
    assert {client.get_run(run_id).info.status for run_id in runs} == {"FINISHED"}


def noise(n: int = 60, n_groups: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {f"x{i}": rng.normal(size=n) for i in range(3)} | {"id": np.arange(n), "y": rng.normal(size=n)}
    )
    frame["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(n), "D")
    return frame.assign(site=np.arange(n) % n_groups) if n_groups else frame


GRID = {"alpha": [0.01, 1.0, 100.0]}


def test_nested_tuning_equals_choosing_by_hand_inside_every_fold(shared_home: Home) -> None:
    """By scikit-learn on the same inner folds: the split's own strategy on the training rows, groups whole."""
    spec = {"name": "groups", "columns": {"key": "id", "target": "y", "group": "site"}, "params": {"n_splits": 3}}
    frame = noise(n_groups=12)
    made = tune(frame, spec=spec, model=RIDGE, grid=GRID, nested=True, engine="plain")
    work = work_of(made.split, RIDGE)
    X, y, sites = work.problem.X.to_numpy(), work.problem.y, work.problem.groups
    winners, errors = [], []
    for i in made.split.splits():
        train, test = work.pair(i)
        inner = list(work.manifest.splitter.split(X[train], y[train], sites[train]))
        assert not any(set(sites[train][a]) & set(sites[train][b]) for a, b in inner)
        tried = [Ridge(alpha=alpha) for alpha in GRID["alpha"]]
        inside = [cross_val_predict(model, X[train], y[train], cv=inner) for model in tried]
        winners.append(int(np.argmin([np.mean((y[train] - said) ** 2) for said in inside])))
        errors.extend((y[test] - tried[winners[-1]].fit(X[train], y[train]).predict(X[test])) ** 2)
    assert made.nested.chosen == winners
    assert made.nested.estimates[0].value == pytest.approx(-np.mean(errors), rel=1e-9)
    assert made.nested.estimates[0].interval is not None
    again = tune(frame, spec=spec, model=RIDGE, grid=GRID, nested=True, engine="plain")
    assert (made.n_fits, made.n_cached) == (3 * 3 + 3 * 3 * 3, 0)
    assert again.n_cached == again.n_fits
    client = MlflowClient(shared_home.tracking_uri)
    figures = client.get_run(made.run_id).data.metrics
    assert figures["nested/value/neg_mean_squared_error"] == made.nested.estimates[0].value


def test_nested_tuning_of_a_series_chooses_by_rows_that_are_known_by_then(shared_home: Home) -> None:
    """Rows inside the gap chose as well, and a gap that covers all that was tested left the choice to them alone."""
    spec = {"name": "s", "columns": {"key": "id", "target": "y", "time": "day"}, "strategy": "ForwardChaining"}
    frame, params = noise(), {"test_size": 5, "gap": "7 days"}
    asked: dict[str, Any] = {"model": RIDGE, "grid": GRID, "nested": True, "engine": "plain"}
    made = tune(frame, spec=spec | {"params": params | {"n_splits": 4}}, **asked)
    work = work_of(made.split, RIDGE)
    assert made.nested.splits == [2, 3], "what split 0 tested is inside the gap of split 1"
    assert made.n_fits == 3 * made.split.n_splits, "earlier stretches are tested already"
    chosen = []
    for i in made.nested.splits:
        train = set(work.pair(i)[0].tolist())
        errors = np.zeros(len(GRID["alpha"]))
        for j in range(i):
            earlier, tested = work.pair(j)
            known = np.array([row for row in tested if row in train], dtype=np.int64)
            for at, alpha in enumerate(GRID["alpha"] if known.size else []):
                fitted = Ridge(alpha=alpha).fit(work.problem.X.to_numpy()[earlier], work.problem.y[earlier])
                errors[at] += np.sum((work.problem.y[known] - fitted.predict(work.problem.X.to_numpy()[known])) ** 2)
        chosen.append(int(np.argmin(errors)))
    assert made.nested.chosen == chosen
    with pytest.raises(SplitError, match=r"no split trains on a row that an earlier one tests.*a shorter gap"):
        tune(frame, spec=spec | {"params": params | {"n_splits": 2}}, **asked)


def test_a_tuning_on_draws_chooses_by_their_mean_and_shows_each_try(shared_home: Home) -> None:
    """The scores are those that an evaluation of the same draws says, and each try is a step in MLflow."""
    frame = noise(n_groups=12).assign(y=lambda table: (table["y"] + table["x0"] > 0).astype(int))
    spec: dict[str, Any] = {"name": "d", "columns": {"key": "id", "target": "y", "group": "site"}}
    spec |= {"strategy": "GroupStratifiedShuffleSplit", "params": {"n_splits": 4, "train_size": 0.8}}
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["roc_auc"]}
    made = tune(frame, spec=spec, model=model, grid={"C": [0.01, 1.0, 100.0]}, engine="plain")
    one = evaluate(frame, spec=spec, model={**model, "params": {"C": 1.0}}, engine="plain")
    assert made.scores[1] == one.estimates[0].value
    assert one.n_cached == one.n_fits
    assert made.low <= made.value <= made.naive == max(made.scores)
    client = MlflowClient(shared_home.tracking_uri)
    steps = {each.step: each.value for each in client.get_metric_history(made.run_id, "tried/roc_auc")}
    assert steps == dict(enumerate(made.scores))
    with pytest.raises(SplitError, match=r"cannot split the training rows .* tune without nested"):
        tune(frame, spec=spec, model=model, grid={"C": [0.01, 1.0]}, nested=True, engine="plain")
    with pytest.raises(ModelError, match="names no lists of values"):
        tune(frame, spec=spec, model=model, grid={"C": (each for each in [1.0])}, engine="plain")

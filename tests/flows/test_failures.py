"""What fails says why and leaves the rest as it was; what was deleted or altered is computed again."""

import re
from pathlib import Path

import pytest
from evenfold.estimates import EvaluationError
from evenfold.flows import split
from evenfold.manifests import decide, read_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient
from prefect.client.orchestration import get_client
from small import LATE, SPEC, artifacts, evaluated, named, runs, small, values


def test_what_was_deleted_or_altered_is_computed_again(home: Home, data: Path) -> None:
    """A cached fold whose file is gone or changed by a bit, and a manifest in the same state, are made anew."""
    one = evaluated(data)
    files = sorted(home.scores.glob("*.parquet"))
    files[0].unlink()
    flip(files[1])
    two = evaluated(data)
    assert (two.cached, two.n_cached) == (True, 1)
    assert values(two) == values(one)
    flip(Path(one.split.uri) / "assignments-0000.parquet")
    again = evaluated(data)
    assert (again.cached, again.n_cached, again.split) == (False, 3, one.split)
    assert read_manifest(one.split.uri).split_id == one.split.split_id
    assert list((home.splits / "small").glob(".damaged-*/*/manifest.json")), "what was damaged is kept aside"
    (Path(one.split.uri) / "manifest.json").unlink()
    beside = evaluated(data)
    assert (beside.cached, beside.n_cached, beside.split.version) == (False, 3, "2.0")
    assert beside.split.split_id == one.split.split_id
    assert len(runs(home)) == 5


def test_a_neighbour_that_is_no_manifest_is_passed_over(home: Home, data: Path) -> None:
    for number, text in enumerate(["[]", "{", '"x"', "null", '{"plan_id": []}'], start=1):
        (home.splits / "small" / f"{number}.0").mkdir(parents=True)
        (home.splits / "small" / f"{number}.0" / "manifest.json").write_text(text)
    assert split(data, spec=SPEC, engine="plain").split.version == "6.0"
    assert split(data, spec=SPEC, engine="plain").split.version == "6.0"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def rare(data: Path) -> None:
    frame = small(95).assign(late="no")
    codes = decide(LATE, frame).codes
    by_key = dict(zip(sorted(frame["id"]), codes.tolist(), strict=True))
    folds = [by_key[key] for key in frame["id"]]
    for fold in (0, 1, 3, 4):
        frame.loc[[i for i, each in enumerate(folds) if each == fold][:3], "late"] = "yes"
    frame.to_parquet(data)


@pytest.mark.filterwarnings("ignore:Only one class is present")
def test_an_undefined_metric_fails_the_evaluation_and_keeps_the_rest(prefect_home: Home, data: Path) -> None:
    """The split and the finished folds are recorded; the parent and Prefect's flow run are FAILED with the reason."""
    rare(data)
    model = {"estimator": "sklearn.linear_model:LogisticRegression", "metrics": ["roc_auc"]}
    with pytest.raises(
        EvaluationError, match="1 of 5 fits failed: fold 2: roc_auc is undefined: its 19 test rows hold"
    ) as error:
        evaluated(data, engine="prefect", spec=LATE, model=model)
    with get_client(sync_client=True) as client:
        (flow_run,) = client.read_flow_runs(limit=1, sort="START_TIME_DESC")
    assert (flow_run.state.name, flow_run.state.message) == ("Failed", str(error.value))
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
    spec = SPEC | {"params": {"n_splits": 7}}  # 99 rows: one fold of 15, and 84 rows to train on
    model = {"estimator": "fragile_model:Fragile"}
    monkeypatch.setenv("FRAGILE", "84")
    with pytest.raises(EvaluationError, match=r"fits failed: fold \d: .*RuntimeError: out of memory"):
        evaluated(data, spec=spec, model=model)
    (failed,) = named(home, " @ ")
    assert failed.info.status == "FAILED"
    partial, client = evaluated(data, spec=spec, model=model, allow_partial=True), MlflowClient(home.tracking_uri)
    assert client.get_run(partial.run_id).data.tags["evenfold.partial"] == "true"
    page = Path(client.download_artifacts(partial.run_id, "report.html")).read_text(encoding="utf-8")
    assert re.search(r"Partial: \d folds? (is|are) missing, and the scores are of \d folds alone\.", page)
    states = re.findall(r"<tr>\s*<t[hd][^>]*>fold \d</t[hd]>.*?>(cached|fitted|failed)</td>\s*</tr>", page, re.S)
    assert states == partial.states
    monkeypatch.delenv("FRAGILE")
    whole = evaluated(data, spec=spec, model=model)
    assert whole.run_id == partial.run_id == failed.info.run_id
    run = client.get_run(whole.run_id)
    assert run.info.status == "FINISHED"
    assert not {"evenfold.failure", "evenfold.partial"} & set(run.data.tags)
    assert "Failed" not in run.data.tags["mlflow.note.content"]
    assert run.data.metrics["value/r2"] == whole.estimates[0].value != partial.estimates[0].value
    assert len(named(home, " fold ")) == 7
    for rows, asked in {"71": {"interval": "nested"}, "84": {"refresh": True}}.items():  # nested leaves out two folds
        monkeypatch.setenv("FRAGILE", rows)
        with pytest.raises(EvaluationError, match="RuntimeError: out of memory"):
            evaluated(data, spec=spec, model=model, **asked)
        assert client.get_run(whole.run_id).info.status == "FINISHED", "the whole record stays as it is"


def test_a_key_that_would_overwrite_the_manifest_is_refused() -> None:
    for name in ("fold_r2", "stratum", "group_code", "status"):
        with pytest.raises(SplitError, match=f"key column '{name}' is called as a column of the manifest; rename it"):
            decide({"columns": {"key": name}}, small().rename(columns={"id": name}))

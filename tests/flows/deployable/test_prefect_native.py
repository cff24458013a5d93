"""Our flows are Prefect's: options, deployments and subflows work as for any other flow."""

import asyncio
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelSpec
from evenfold.flows import compare, evaluate, extend, retrain, split, tune
from evenfold.manifests import SplitSpec
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from prefect import Flow, flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.schema_tools import validate
from servers import losing_an_answer

from evenfold import flows

RIDGE = "sklearn.linear_model:Ridge"


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"id": range(60), "x": range(60), "y": [i * 5 % 11 for i in range(60)]}).to_parquet(path)
    return str(path)


def test_each_is_a_flow_that_a_deployment_finds_by_its_module() -> None:
    """Options keep the flow what it is, and a deployment's entrypoint is the name that people import."""
    for name, made in {
        "split": split, "evaluate": evaluate, "tune": tune, "extend": extend, "retrain": retrain, "compare": compare
    }.items():  # fmt: skip
        assert isinstance(made, Flow)
        assert made.to_deployment("nightly").entrypoint == f"evenfold.flows.{name}"
        runner: Any = ThreadPoolTaskRunner(max_workers=1)
        changed = made.with_options(task_runner=runner, retries=2)
        assert type(changed) is type(made)
        assert (changed.task_runner, changed.retries) == (runner, 2)


COLUMNS = {"key": "id", "target": "y", "group": ["patient", "device"], "stratify": "ward", "balance_on": "sex"}
FORMS: list[dict[str, Any]] = [
    {"spec": "rows.yaml", "model": RIDGE, "grid": "{alpha: [1.0]}"},
    {"spec": {"strategy": "KFold"}, "model": {"estimator": RIDGE}, "grid": {"alpha": [1.0]}},
    {
        "spec": {"columns": COLUMNS, "holdout": 0.2, "key_encoding": "hmac"},
        "model": {"balance": "class_weight", "target_transform": "yeo-johnson"},
    },
]


def test_a_run_of_a_deployment_takes_what_a_call_does() -> None:
    """Prefect's server checks it by the schema, which refused an import path, a path, and a key that is no list."""
    assert SplitSpec.model_validate(FORMS[2]["spec"]).columns.key == ["id"]
    assert ModelSpec.model_validate(FORMS[2]["model"]).balance is not None
    for named in ("split", "evaluate", "tune", "retrain"):
        schema = getattr(flows, named).to_deployment("nightly")._parameter_openapi_schema.model_dump_for_openapi()
        for form in FORMS:
            given = {"data": "rows.parquet", "grid": {}, **form}
            validate({name: given[name] for name in given.keys() & schema["properties"]}, schema, raise_on_error=True)


def test_a_subflow_of_somebodys_flow_is_a_subflow(prefect_home: Home, data: str) -> None:
    """Its outcome is what it is elsewhere, what fails in it fails there, and an own task runner serves it."""

    @flow
    def nightly() -> Any:
        with pytest.raises(SplitError, match="n_splits=200 with 60 rows"):
            split(data, key="id", strategy="KFold", n_splits=200)
        mine: Any = evaluate.with_options(task_runner=ThreadPoolTaskRunner(max_workers=1))
        return mine(data, key="id", target="y", strategy="KFold", n_splits=3, model=RIDGE, metrics=["r2"])

    outcome = nightly()
    assert (outcome.n_fits, outcome.n_cached) == (3, 0)
    plain = evaluate(
        data, key="id", target="y", strategy="KFold", n_splits=3, model=RIDGE, metrics=["r2"], engine="plain"
    )
    assert (plain.cached, plain.n_cached) == (True, 3)
    assert plain.estimates == outcome.estimates


def test_a_flow_called_where_an_event_loop_runs_returns_its_outcome(prefect_home: Home, data: str) -> None:
    """As in a notebook, whose cells are run by one: it returned a coroutine that nobody awaited."""

    async def cell() -> Any:
        return split(data, key="id", strategy="KFold", n_splits=3)

    assert asyncio.run(cell()).split.n_splits == 3


def test_the_answer_to_its_last_state_may_be_lost(prefect_home: Home, data: str) -> None:
    """Prefect asks again and is told the state alone: it said that its data is missing, after hours of fits."""
    with losing_an_answer(str(PREFECT_API_URL.value()), b'"type":"COMPLETED"') as (api, lost):
        with temporary_settings({PREFECT_API_URL: api}):
            assert split(data, key="id", strategy="KFold", n_splits=3, name="lost").split.n_splits == 3
        assert lost.is_set()


def test_a_flow_that_is_to_be_tried_again_ends_with_its_sentence(prefect_home: Home, data: str) -> None:
    """Its run stayed in Prefect as one that awaits another try for ever, with an error that named neither."""
    ended: list[Any] = []
    mine: Any = evaluate.with_options(retries=1, retry_delay_seconds=0, on_failure=[lambda *told: ended.append(told)])
    bad = {"estimator": RIDGE, "params": {"alpha": -1.0}}
    with pytest.raises(EvaluationError, match="3 of 3 fits failed") as caught:
        mine(data, key="id", target="y", strategy="KFold", n_splits=3, model=bad, metrics=["r2"])
    ((_, run, state),) = ended
    assert (run.run_count, state.message) == (2, str(caught.value))


def test_prefects_pages_say_what_happened(prefect_home: Home, data: str) -> None:
    """Tasks by what they do, a tag by the split, and tables with a description."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey, FlowRunFilter
    from servers import wait_until

    asked: dict[str, Any] = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 3, "name": "shown"}

    evaluate(data, model=RIDGE, metrics=["r2"], **asked)
    with get_client(sync_client=True) as client:
        # By name: runs come in the order of their random ids, and of fifty it need not be one.
        mine = FlowRunFilter.model_validate({"name": {"any_": ["evaluate shown"]}})
        assert len(client.read_flow_runs(flow_run_filter=mine)) == 1

        def tasks() -> set[str]:
            return {each.name for each in client.read_task_runs(flow_run_filter=mine)}

        wanted = {"decide folds of shown (KFold v1)", "fit fold 2", "combine the scores on shown"}
        wanted |= {"record the split shown", "record the evaluation on shown"}
        wait_until(lambda: wanted <= tasks(), f"{wanted} among the task runs")
        keys = ArtifactFilter(key=ArtifactFilterKey(like_="evenfold-%-shown"))
        artifacts = {each.key: each for each in client.read_artifacts(artifact_filter=keys)}
        assert set(artifacts) == {f"evenfold-{what}-shown" for what in ("split", "balance", "estimate")}
        assert all(each.description for each in artifacts.values())
        assert "| R2 | cross-validation |" in str(artifacts["evenfold-estimate-shown"].data)
        evaluate(data, model=RIDGE, metrics=["r2"], **asked)  # finds it all, and publishes nothing again
        assert len(client.read_artifacts(artifact_filter=keys)) == 3

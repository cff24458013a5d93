"""What is deployed: entrypoints that import, forms that read well, imports that are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from evenfold.estimates import ModelSpec
from evenfold.flows.allowed import import_paths, require_allowed
from evenfold.manifests import SplitSpec
from evenfold.splitters import SplitError, import_named

ROOT = Path(__file__).parents[2]
DESCRIBED = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]


Asked = dict[str, Any]


def asked(spec: Any = None, **model: Any) -> Asked:
    return {"spec": SplitSpec(**(spec or {})), "model": ModelSpec.of(model)}


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda each: each["entrypoint"])
def test_every_deployment_names_a_flow_and_parameters_that_fit(described: dict[str, Any]) -> None:
    """Prefect would take a broken entrypoint without an error; ours imports, and its example fits its form."""
    from prefect import Flow

    made = import_named(described["entrypoint"])
    assert isinstance(made, Flow)
    made.validate_parameters(described["parameters"])
    assert described["concurrency_limit"]["limit"] == 1
    for schedule in described.get("schedules", []):
        assert ZoneInfo(schedule["timezone"])
        assert schedule["slug"]


def test_a_form_describes_every_field() -> None:
    """What people fill in has a sentence beside it."""
    from evenfold.flows import evaluate, extend, retrain, split, tune
    from prefect.utilities.callables import parameter_schema

    for flow in (split, evaluate, tune, extend, retrain):
        fields = parameter_schema(flow).model_dump()["properties"]
        assert "data" in fields
        assert not [name for name, field in fields.items() if "description" not in field]
    assert {"spec", "model", "target", "registered_name"} <= set(parameter_schema(retrain).model_dump()["properties"])


def test_serve_offers_the_same_deployments() -> None:
    """serve.py reads prefect.yaml: same names, schedules and limits, without a worker."""
    script = (
        "from evenfold.deployments.serve import deployments\n"
        "for each in deployments():\n"
        "    print(each.flow_name, each.name, each.entrypoint, len(each.schedules or []), each.concurrency_limit)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = [line.split()[:4] for line in done.stdout.splitlines()]
    schedules = [str(len(each.get("schedules", []))) for each in DESCRIBED]
    assert told == [
        [each["entrypoint"].rpartition(".")[2], each["name"], each["entrypoint"], number]
        for each, number in zip(DESCRIBED, schedules, strict=True)
    ]


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (asked(estimator="subprocess:run"), "subprocess:run"),
        (asked(estimator="os.system"), "os.system"),
        (asked(target_transform={"transformer": "shutil:rmtree"}), "shutil:rmtree"),
        (asked({"strategy": "my_folds:Own"}), "my_folds:Own"),
        (asked({"strategy": "FromSklearn", "params": {"splitter": "os.system"}}), "os.system"),
        (asked({"strategy": "Repeated", "params": {"of": {"strategy": "pty:spawn"}}}), "pty:spawn"),
        (asked(estimator="sklearn_evil:Model"), "sklearn_evil:Model"),
    ],
)
def test_what_is_not_on_the_list_is_refused_before_it_is_imported(request_: Asked, path: str) -> None:
    """The sentence names the path, what is allowed, and where to allow more."""
    assert path in list(import_paths(**request_))
    with pytest.raises(SplitError, match="may not be imported in a deployment run; allowed are evenfold, sklearn"):
        require_allowed(**request_)


@pytest.mark.parametrize(
    "path", ["sklearn.datasets:clear_data_home", "sklearn.datasets._base:namedtuple", "sklearn.base:warnings"]
)
def test_an_allowed_package_is_no_way_round_the_list(path: str) -> None:
    """scikit-learn has a function that deletes a folder; only classes that fit or split are taken from it."""
    with pytest.raises(SplitError, match="deployment run"):
        require_allowed(**asked(estimator=path))


def test_models_of_allowed_packages_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn's classes and our own functions pass by default, others once they are listed."""
    require_allowed(**asked(estimator="sklearn.linear_model:Ridge"))
    require_allowed(**asked(estimator="evenfold.estimates:scaled_logistic_regression"))
    require_allowed(**asked({"strategy": "FromSklearn", "params": {"splitter": "sklearn.model_selection:KFold"}}))
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn, imblearn")
    require_allowed(**asked(estimator="imblearn.ensemble:BalancedRandomForestClassifier"))

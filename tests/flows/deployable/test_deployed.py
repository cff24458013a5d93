"""What is deployed: entrypoints that import, forms that read well, imports that are refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from evenfold.estimates import ModelSpec
from evenfold.splitters import UntrustedNameError
from evenfold.splitters.errors import is_deployed
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler

ROOT = Path(__file__).parents[3]
DESCRIBED = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda each: each["entrypoint"])
def test_every_deployment_names_a_flow_and_parameters_that_fit(described: dict[str, Any]) -> None:
    """Prefect would take a broken entrypoint without an error; ours imports, and its example fits its form."""
    from prefect.flows import load_flow_from_entrypoint

    made = load_flow_from_entrypoint(described["entrypoint"], use_placeholder_flow=False)
    made.validate_parameters(described["parameters"])
    assert described["concurrency_limit"]["limit"] == 1
    for schedule in described.get("schedules", []):
        assert ZoneInfo(schedule["timezone"])
        assert schedule["slug"]


ONE_RUN = {"PREFECT__FLOW_RUN_ID": "6e5ff2a5-22a8-4b55-b2e5-9d1f2b3c4d5e"}


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ONE_RUN.items():
        monkeypatch.setenv(name, value)


def build(**model: Any) -> Any:
    return ModelSpec.of(model).build(0)


@pytest.mark.usefixtures("deployed")
def test_models_of_allowed_packages_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn's classes and our own function pass by default, others once they are listed."""
    build(estimator="sklearn.linear_model:Ridge")
    build(estimator="evenfold.estimates:scaled_logistic_regression", params={"C": 2.0, "logisticregression__tol": 0.1})
    with pytest.raises(UntrustedNameError, match="may not be imported for a deployed run"):
        build(estimator="imblearn.ensemble:BalancedRandomForestClassifier")
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn, imblearn")
    build(estimator="imblearn.ensemble:BalancedRandomForestClassifier")


@pytest.mark.usefixtures("deployed")
def test_functions_are_listed_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on the list gives its classes; a function of it needs an entry of its own, and must be its own."""
    (tmp_path / "our_models.py").write_text(
        "from os import system\nfrom sklearn.linear_model import Ridge\n\ndef light():\n    return Ridge()\n"
        "class Own(Ridge):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "our_models")
    assert type(build(estimator="our_models:Own")).__name__ == "Own"
    with pytest.raises(UntrustedNameError, match="lists them one by one"):
        build(estimator="our_models:light")
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "our_models:light, our_models:system")
    assert type(build(estimator="our_models:light")).__name__ == "Ridge"
    for path, said in {"our_models:system": "not in 'our_models'", "our_models:Own": "may not be imported"}.items():
        with pytest.raises(UntrustedNameError, match=said):
            build(estimator=path)


def test_a_run_is_closed_without_anybody_setting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that Prefect gives a run, or the run that is under way, decides; nothing opens a run again."""
    from prefect.context import FlowRunContext

    assert not is_deployed()
    for name, value in [*ONE_RUN.items(), ("EVENFOLD_CLOSED", "1")]:
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert is_deployed()
            patched.setenv("EVENFOLD_CLOSED", "0")
            assert is_deployed() == (name != "EVENFOLD_CLOSED")
    for deployment, closed in (("a deployment", True), (None, False)):
        run = SimpleNamespace(flow_run=SimpleNamespace(deployment_id=deployment))
        with monkeypatch.context() as patched:
            patched.setattr(FlowRunContext, "get", lambda run=run: run)
            assert is_deployed() is closed


def test_a_part_of_a_recipe_keeps_no_pickles_and_may_lie_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither deployed nor, where it is the registry's, at a terminal; nor as a value that a search is to try."""
    scaled = make_pipeline(make_pipeline(make_pipeline(MinMaxScaler((0, 2)), Ridge())))
    with monkeypatch.context() as patched:
        patched.setenv("EVENFOLD_CLOSED", "1")
        assert repr(ModelSpec.of(scaled).build(0)) == repr(scaled.set_params(pipeline__pipeline__ridge__random_state=0))
    cached = Pipeline([("scale", MinMaxScaler()), ("model", Ridge())], memory="pickles")
    for model in (BaggingRegressor(cached), GridSearchCV(Ridge(), {"memory": ["pickles"]})):
        recipe = ModelSpec.of(model).canonical()
        assert ModelSpec.of_others(recipe, ModelSpec.of(model)) == ModelSpec.of(model)
        with pytest.raises(UntrustedNameError, match=r"parameter 'memory' of 'sklearn.* may not be set"):
            ModelSpec.of_others(recipe, ModelSpec())


def test_the_registry_decides_nothing_about_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal too, a recipe of the registry may name what a deployed run may, or what one's own recipe names."""
    (tmp_path / "their_models.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = ModelSpec(estimator="our_models:Own")
    for path in ("sklearn.linear_model:Lasso", "our_models:Own"):
        assert ModelSpec.of_others({"estimator": path}, own).estimator == path
    for fields in ({"estimator": "their_models:X"}, {"target_transform": "their_models:X"}):
        with pytest.raises(UntrustedNameError, match="their_models"):
            ModelSpec.of_others(fields, own)

"""What lies in MLflow is somebody else's: its models and tags run nothing, and write nowhere else."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from evenfold.estimates import ModelSpec, Problem
from evenfold.estimates.models.fit import fitted
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.importing import is_trusted_part
from evenfold.tasks import Home
from evenfold.tasks.record.models.stored_models import load_skops
from evenfold.tasks.record.models.tags import decision_in
from evenfold.tasks.record.tracker import Tracker
from sklearn.datasets import clear_data_home
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

ROWS = pd.DataFrame({"a": np.arange(80.0) % 9, "kind": ["x", "y"] * 40, "y": ["p", "q", "q", "q"] * 20})
ROWS["z"] = np.arange(80.0) + 1


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


@pytest.fixture
def home(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    (tmp_path / "home").mkdir(mode=0o700)
    shutil.copy(empty_store, tmp_path / "home")
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
    for name in ("MLFLOW_TRACKING_URI", "EVENFOLD_RESULTS"):
        monkeypatch.delenv(name, raising=False)
    return Home.here()


RECIPES: list[tuple[str, dict[str, Any]]] = [
    ("y", {}),
    ("z", {"target_transform": "box-cox"}),
    ("y", {"balance": "undersample"}),
    ("y", {"balance": "oversample"}),
    ("y", {"threshold": "tuned", "features": ["a"]}),
    ("y", {"estimator": "evenfold.estimates:scaled_logistic_regression"}),
    ("z", {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_estimators": 3}, "text": "ordinal"}),
    ("z", {"estimator": "sklearn.neighbors:KNeighborsRegressor"}),
    ("z", {"estimator": "sklearn.neural_network:MLPRegressor", "params": {"max_iter": 3}}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("target", "recipe"), RECIPES)
def test_models_that_evenfold_makes_are_loaded(target: str, recipe: dict[str, Any], tmp_path: Path) -> None:
    """Every kind of pipeline that a recipe can ask for passes."""
    problem = Problem.of(ROWS.drop(columns={"y", "z"} - {target}), ModelSpec.of(recipe), target)
    model = fitted(problem.model, problem, np.arange(80), seed=0, name="the model")
    skops.io.dump(model, tmp_path / "model.skops")
    loaded, _ = load_skops(tmp_path / "model.skops")
    assert (loaded.predict(problem.X) == model.predict(problem.X)).all()


@pytest.mark.parametrize("function", [clear_data_home, os.system, os.remove, np.save, pd.read_pickle, eval])
def test_a_model_that_holds_a_function_is_not_loaded(function: Any, tmp_path: Path) -> None:
    """The sentence names it, and it is not called."""
    try:
        skops.io.dump(FunctionTransformer(func=function), tmp_path / "model.skops")
    except Exception as error:
        pytest.skip(f"skops cannot keep {function} at all: {error}")
    with pytest.raises(UntrustedNameError, match="may not be loaded"):
        load_skops(tmp_path / "model.skops")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "os.system",
            "builtins.eval",
            "subprocess.Popen",
            "operator.methodcaller",
            "numpy.load",
            "joblib.memory.Memory",
        ),
        *("sklearn.datasets._base.clear_data_home", "sklearn.linear_model._base._rescale_data", "sklearn.conftest.X"),
        *("sklearn.utils._testing.TempMemmap", "sklearn.externals._arff.ArffDecoder", "evenfold.tasks.fits.fit_final"),
        *("evenfold.estimates.ModelSpec", "evenfold.estimates.models.spec.named_estimator", "evil.X"),
        *("X", "", "a-b.X", "..x.Y"),
    ],
)
def test_a_part_is_a_known_class_or_refused(name: str) -> None:
    """Functions, private tools, other packages and what is no name."""
    assert not is_trusted_part(name)


def test_a_listed_package_is_loaded_and_a_recipes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the worker allows to be fitted, it allows to be loaded."""
    assert not is_trusted_part("pandas.core.frame.DataFrame")
    assert is_trusted_part("pandas.core.frame.DataFrame", "pandas:DataFrame")
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn,pandas")
    assert is_trusted_part("pandas.core.frame.DataFrame")
    assert not is_trusted_part("pandas.core.common.flatten")


def test_a_pickle_in_the_registry_is_not_opened(home: Home, tmp_path: Path) -> None:
    """MLflow would unpickle it, for the model's own header says so; here it is refused, and nothing ran."""
    import mlflow

    tracker, mark = Tracker(home, "models"), tmp_path / "ran"
    run = tracker.client.create_run(tracker.experiment_id)
    mlflow.sklearn.save_model(Ridge().fit([[1.0], [2.0]], [1, 2]), tmp_path / "kept", serialization_format="pickle")
    (tmp_path / "kept" / "model.pkl").write_bytes(pickle.dumps(Evil(str(mark))))
    tracker.client.log_artifacts(run.info.run_id, str(tmp_path / "kept"), "model")
    with pytest.raises(UntrustedNameError, match="holds 0 skops files"):
        tracker.load_model(f"runs:/{run.info.run_id}/model")
    assert not mark.exists()


def test_changed_tags_name_no_folder(home: Home) -> None:
    """A tag that climbs out of the home is a sentence, before anything is fetched."""
    from evenfold.tasks.record.reading import read_split

    tracker = Tracker(home, "splits")
    for i, (spec, split_id) in enumerate(
        [("../../evil@1.0", "a" * 64), ("fine@1.0", "../../evil"), ("x@../..", "b" * 64)]
    ):
        tags = {"evenfold.spec": spec, "evenfold.split_id": split_id, "evenfold.plan_id": f"{i:064x}"}
        tracker.client.create_run(tracker.experiment_id, tags=tags, run_name="split/evil v1.0")
        with pytest.raises(SplitError, match="its tags were changed"):
            read_split(f"{i:064x}", home)
    assert not (home.path / "fetched").exists()


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-1"])
def test_a_look_that_knows_everything_is_refused(number: str) -> None:
    """Two such looks would leave no doubt about the next, whatever it came to."""
    tag = f'{{"winner": "champion", "promote": false, "why": "", "metric": "r2", "information": {number}}}'
    with pytest.raises(SplitError, match=r"decision of run 1f in MLflow is not a decision \(information is"):
        decision_in({"evenfold.decision": tag}, "run 1f")


def test_a_recipe_of_others_names_no_file_to_read(tmp_path: Path) -> None:
    """One's own model may be a path; what a record or a registry holds is its fields."""
    (tmp_path / "model.yaml").write_text("estimator: sklearn.linear_model:Ridge")
    assert ModelSpec.of(tmp_path / "model.yaml").estimator
    theirs: Any = str(tmp_path / "model.yaml")
    with pytest.raises(TypeError, match="a str is no specification"):
        ModelSpec.of_others(theirs, ModelSpec())

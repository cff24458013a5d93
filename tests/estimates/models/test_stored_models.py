"""Models stored by earlier versions load, wherever the code has moved since."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import skops.io
from evenfold.estimates import ModelSpec, Problem, fitted
from sklearn.datasets import load_breast_cancer

OLD = "evenfold.estimates._assemble"


def test_a_stored_model_that_names_the_old_module_loads(tmp_path: Path) -> None:
    """Its sampler holds the balancing function by the name of the module that once held it."""
    model = ModelSpec(
        estimator="evenfold.estimates:scaled_logistic_regression", metrics=("acc",), balance={"method": "undersample"}
    )
    problem = Problem.of(load_breast_cancer(as_frame=True).frame, model, "target")
    made = fitted(problem.model, problem, np.arange(problem.n), seed=0, name="all rows")
    new, old = tmp_path / "new.skops", tmp_path / "old.skops"
    skops.io.dump(made, new)
    with zipfile.ZipFile(new) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                assert b"evenfold.estimates.models.fit" in content
                content = content.replace(b"evenfold.estimates.models.fit", OLD.encode())
            target.writestr(name, content)
    unknown = skops.io.get_untrusted_types(file=old)
    assert any(OLD in each for each in unknown)
    loaded = skops.io.load(old, trusted=unknown)
    assert np.array_equal(loaded.predict(problem.X), made.predict(problem.X))

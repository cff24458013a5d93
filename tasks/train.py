"""The last fit: the winner's recipe on every row that may be learnt from, kept as a file without pickles."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import skops.io
from evenfold.estimates import ModelSpec, fitted
from evenfold.splitters import distribution_of, import_named

from ._files import sha256, write_aside
from ._home import Home
from ._resources import limited
from .work import training_rows, work_of


def fit_final(
    data: str, split: dict[str, Any], model: dict[str, Any], seed: int, threads: int, key: str, home: str
) -> dict[str, Any]:
    """Fit all training rows, keep the model as a skops file, and return file, digest and number of rows."""
    work = work_of(data, split, ModelSpec.of(model))
    rows = work.place[training_rows(work)]
    with limited(threads):
        made = fitted(work.problem.model, work.problem, rows, seed=seed, name="the final model")
    path = Home(Path(home)).shared / "models" / f"{key}.skops"
    write_aside(path, lambda aside: skops.io.dump(made, aside))
    return {"file": str(path), "sha256": sha256(path), "n_train": int(rows.size)}


def load_final(file: str) -> tuple[Any, list[str]]:
    """Return the model in a file that ``fit_final`` wrote, and the types in it that skops does not know by itself."""
    types = [str(each) for each in skops.io.get_untrusted_types(file=file)]
    return skops.io.load(file, trusted=types), types


def requirements(estimator: str) -> list[str]:
    """Return what must be installed to load a model, with exact versions."""
    known = ["scikit-learn", "numpy", "pandas", "imbalanced-learn", "skops"]
    of_estimator = distribution_of(import_named(estimator)).partition("==")[0]
    names = dict.fromkeys([*known, of_estimator, *(["evenfold"] if of_estimator != "scikit-learn" else [])])
    return [f"{name}=={version(name)}" for name in names if _installed(name)]


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except ModuleNotFoundError:
        return False

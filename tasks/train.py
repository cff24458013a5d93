"""The last fit: the winner's recipe on every row that may be learnt from, kept as a file without pickles."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skops.io
from evenfold.estimates import ModelSpec, fitted
from evenfold.splitters import distribution_of, import_named

from ._files import sha256, write_aside
from ._home import Home
from ._resources import limited
from .work import training_rows, work_of

if TYPE_CHECKING:
    from .record import Tracker

KEPT = "evenfold.model_key"


def fit_final(
    data: str,
    split: dict[str, Any],
    model: dict[str, Any],
    seed: int,
    threads: int,
    key: str,
    home: str,
    i: int | None = None,
) -> dict[str, Any]:
    """Fit all training rows, or those of split ``i``; keep the model as a skops file; return file, digest, rows."""
    work = work_of(data, split, ModelSpec.of(model))
    rows, test = (work.place[training_rows(work)], None) if i is None else work.pair(i)
    watched = test if work.problem.model.eval_set else None
    name = "the final model" if i is None else f"the model of split {i}"
    with limited(threads):
        made = fitted(
            work.problem.model, work.problem, rows, seed=seed, name=name, inner=work.inner, validation=watched
        )
    path = Home(Path(home)).shared / "models" / f"{key}.skops"
    write_aside(path, lambda aside: skops.io.dump(made, aside))
    return {"file": str(path), "sha256": sha256(path), "n_train": int(rows.size)}


def load_final(file: str) -> tuple[Any, list[str]]:
    """Return the model in a file that ``fit_final`` wrote, and the types in it that skops does not know by itself."""
    types = [str(each) for each in skops.io.get_untrusted_types(file=file)]
    return skops.io.load(file, trusted=types), types


def keep_model_of(tracker: Tracker, run_id: str, kept: dict[str, Any] | None, estimator: str) -> None:
    """Log the model in a file to a run, once: the run says by a tag of what data and recipe its model is."""
    if kept is None or tracker.client.get_run(run_id).data.tags.get(KEPT) == kept["key"]:
        return
    made, types = load_final(kept["file"])
    tracker.keep_model(run_id, made, types, requirements(estimator))
    tracker.client.set_tag(run_id, KEPT, kept["key"])


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

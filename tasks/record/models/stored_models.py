"""Models as files: kept in MLflow, and loaded where they were signed; whoever may edit the rest may have written it."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from evenfold.splitters import UntrustedNameError
from evenfold.splitters.naming import distribution_of, installed
from evenfold.splitters.untrusted import ESTIMATOR, resolve
from evenfold.tasks.outcomes import FinalModel
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.signing import load_signed

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

DIGEST = "evenfold.model_sha256"  # at a logged model, and at a version: the digest of its file


def load_final(final: FinalModel) -> tuple[Any, list[str]]:
    """Return a model of ``fit_final``, and the types that its file names.

    Raises UntrustedNameError unless this home or its team fitted it, before anything of the file is looked at.
    """
    what = f"the model {final.key[:16]} among the results"
    if not final.is_ours():
        raise UntrustedNameError(
            f"{what} was not signed by this home, and is not loaded; set EVENFOLD_SIGNING_KEY to the key of whoever "
            "fitted it, or fit it again."
        )
    return load_signed(final.file.path, final.file.sha256, what)


def _shown_by(model: Any, X: pd.DataFrame) -> dict[str, object]:
    """Return what a model reads and answers, by names and types, as MLflow's registry shows and checks it.

    By an example of medians and most frequent values, which is no row of the data.
    """
    from mlflow.models import infer_signature

    numbers = X.select_dtypes("number").columns
    usual = {
        name: column.quantile(interpolation="nearest") if name in numbers else column.mode().get(0)
        for name, column in X.items()
    }
    example = pd.DataFrame([usual]).astype(X.dtypes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whole numbers may be missing one day, which MLflow says at length
        return {"signature": infer_signature(example, model.predict(example)), "input_example": example}


def keep_model(
    tracker: Tracker, run_id: str, final: FinalModel, estimator: str, X: pd.DataFrame | None = None
) -> LoggedModel:
    """Log a model of ``fit_final`` to a run, once, and return it; one that a kill left half made is gone on with.

    With rows ``X`` such as it reads, the model has a signature and shows an example. The metrics that the run holds are
    the model's too. The very file that it was loaded from is kept, for its digest was signed. MLflow's ``log_model``
    would log to the store of the process, which is the user's. Raises UntrustedNameError for a model that is not ours.
    """
    import mlflow.sklearn
    from mlflow.entities import LoggedModelOutput, Metric
    from mlflow.models import Model

    (model, types), client = load_final(final), tracker.client
    digest = {DIGEST: final.file.sha256}
    left = [each for each in tracker.models(run_id, "model") if digest.items() <= each.tags.items()]
    logged = left[0] if left else client.create_logged_model(
        tracker.experiment_id, "model", source_run_id=run_id, tags=digest
    )  # fmt: skip
    if logged.status == "READY":
        return logged
    run, own = client.get_run(run_id), {"model_id": logged.model_id, "run_id": run_id}
    if all(each.model_id != logged.model_id for each in run.outputs.model_outputs):
        client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    # What the run says of its model: its metrics without a step that are no other model's.
    points = [point for name in run.data.metrics for point in client.get_metric_history(run_id, name)]
    metrics = [Metric(**{**dict(each), **own}) for each in points if each.step == 0 and each.model_id is None]
    client.log_batch(run_id, metrics)
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "model")
        # Naming what it requires saves MLflow a subprocess.
        how: dict[str, object] = {"pip_requirements": requirements(estimator), "skops_trusted_types": types}
        how |= {} if X is None else _shown_by(model, X)
        header = Model(artifact_path=logged.artifact_location, model_uuid=logged.model_id, **own)
        mlflow.sklearn.save_model(model, place, mlflow_model=header, **how)
        shutil.copyfile(final.file.path, Path(place) / "model.skops")
        client.log_model_artifacts(logged.model_id, place)
    return client.finalize_logged_model(logged.model_id, "READY")


def requirements(estimator: str) -> list[str]:
    """Return the distributions that loading a model needs, with exact versions."""
    packages = ["scikit-learn", "numpy", "pandas", "imbalanced-learn", "skops"]
    of_estimator = distribution_of(resolve(estimator, ESTIMATOR)).partition("==")[0]
    names = dict.fromkeys([*packages, of_estimator, *(["evenfold"] if of_estimator != "scikit-learn" else [])])
    lines = []
    for name in names:
        with suppress(PackageNotFoundError):
            lines.append(f"{name}=={installed(name)}")
    return lines

"""Models as files: which of their types are loaded, for whoever may edit the registry may have written the file."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from evenfold.splitters import UntrustedNameError
from evenfold.splitters.importing import ESTIMATOR, distribution_of, is_trusted_part, resolve

if TYPE_CHECKING:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient


def load_skops(file: str | Path, estimator: str = "") -> tuple[Any, list[str]]:
    """Return the model in a skops file, and the types in it that skops does not know by itself.

    Loaded are classes of scikit-learn and imbalanced-learn, of the packages that ``EVENFOLD_ALLOWED_MODULES`` lists,
    and of the package of ``estimator``, the import path that the model's recipe names and that was checked before.
    Raises UntrustedNameError that names every other type; nothing of the file has been loaded then.
    """
    import skops.io  # half a second for whoever loads no model

    types = sorted({str(name) for name in skops.io.get_untrusted_types(file=file)})
    refused = [name for name in types if not is_trusted_part(name, estimator)]
    if refused:
        raise UntrustedNameError(
            f"the model in {Path(file).name} holds {', '.join(refused[:5])}{', …' if len(refused) > 5 else ''}, which "
            "may not be loaded; add the package to EVENFOLD_ALLOWED_MODULES if it is known to be harmless."
        )
    return skops.io.load(file, trusted=types), types


def typical_row(X: pd.DataFrame) -> pd.DataFrame:
    """Return one row of the columns and types of ``X``: medians and most frequent values, no row of the data."""
    columns = {}
    for name in X.columns:
        column = X[name].dropna()
        number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        value = column.sort_values().iloc[column.size // 2] if number and column.size else column.mode().iloc[:1]
        columns[name] = pd.Series([value] if number and column.size else value, dtype=X[name].dtype).reset_index(
            drop=True
        )
    return pd.DataFrame(columns)


def signature_of(model: Any, example: pd.DataFrame) -> Any:
    """Return what a model reads and answers, by names and types, as MLflow's registry shows and checks it."""
    from mlflow.models import infer_signature

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whole numbers may be missing one day, which MLflow says at length
        return infer_signature(example, model.predict(example))


def keep_stored(client: MlflowClient, experiment_id: str, run_id: str, model: Any, how: Mapping[str, object]) -> str:
    """Log a scikit-learn model to a run of the client's store, saved as ``how`` says, and return its URI.

    MLflow's own ``log_model`` would log to the store of the process, which is the user's; this asks the client alone.
    What a kill left half made of the run's model is removed.
    """
    import mlflow.sklearn
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    for left in models_of(client, experiment_id, run_id, "model"):
        if left.status != "READY":
            client.delete_logged_model(left.model_id)
    made = client.create_logged_model(experiment_id, "model", source_run_id=run_id)
    try:
        client.log_outputs(run_id, [LoggedModelOutput(made.model_id, step=0)])
        client.log_batch(run_id, _metrics_of(client, run_id, made.model_id))
        named = {"run_id": run_id, "model_id": made.model_id, "model_uuid": made.model_id}
        with tempfile.TemporaryDirectory() as folder:
            place = str(Path(folder) / "model")
            header = Model(artifact_path=made.artifact_location, **named)
            mlflow.sklearn.save_model(model, place, mlflow_model=header, **how)
            client.log_model_artifacts(made.model_id, place)
    except BaseException:
        client.finalize_logged_model(made.model_id, "FAILED")
        raise
    client.finalize_logged_model(made.model_id, "READY")
    return f"models:/{made.model_id}"


def models_of(client: MlflowClient, experiment_id: str, run_id: str, name: str) -> list[Any]:
    """Return the logged models of a run that have a name."""
    of_run = client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'")
    return [model for model in of_run if model.name == name]


def _metrics_of(client: MlflowClient, run_id: str, model_id: str) -> list[Metric]:
    """Return what a run says of its model: its metrics without a step that are no other model's."""
    from mlflow.entities import Metric

    names, own = client.get_run(run_id).data.metrics, {"model_id": model_id, "run_id": run_id}
    points = [point for name in names for point in client.get_metric_history(run_id, name)]
    return [Metric(**{**dict(point), **own}) for point in points if point.step == 0 and point.model_id is None]


def load_stored(client: MlflowClient, uri: str, estimator: str = "") -> Any:
    """Return the scikit-learn model that an MLflow URI names, of the client's store, as ``load_skops`` does.

    MLflow would unpickle what the stored model's own header calls a pickle, and trust the types that it lists: here
    the header is not asked.
    """
    import mlflow.artifacts

    with tempfile.TemporaryDirectory() as folder:
        # MLflow looks a models:/ URI up in the store of the process, which is the user's.
        where = location_of(client, uri) if uri.startswith("models:/") else uri
        fetched = mlflow.artifacts.download_artifacts(where, dst_path=folder, tracking_uri=client.tracking_uri)
        files = sorted(Path(fetched).rglob("*.skops"))
        if len(files) != 1:
            raise UntrustedNameError(
                f"{uri} holds {len(files)} skops files, and a model of evenfold's is one; other formats run what they "
                "hold."
            )
        return load_skops(files[0], estimator)[0]


def location_of(client: MlflowClient, uri: str) -> str:
    """Return where the files of the model lie that a URI such as models:/flights@champion names."""
    from mlflow.store.artifact.utils.models import get_model_name_and_version

    named = get_model_name_and_version(client, uri)
    if len(named) == 1:
        return str(client.get_logged_model(*named).artifact_location)
    return str(client.get_model_version_download_uri(*named))


def requirements(estimator: str) -> list[str]:
    """Return what must be installed to load a model, with exact versions."""
    known = ["scikit-learn", "numpy", "pandas", "imbalanced-learn", "skops"]
    of_estimator = distribution_of(resolve(estimator, ESTIMATOR)).partition("==")[0]
    names = dict.fromkeys([*known, of_estimator, *(["evenfold"] if of_estimator != "scikit-learn" else [])])
    return [f"{name}=={installed}" for name in names if (installed := _installed(name))]


@cache
def _installed(name: str) -> str | None:
    """Return the version of a package, which a process that has it goes on with; None where there is none."""
    try:
        return version(name)
    except ModuleNotFoundError:
        return None

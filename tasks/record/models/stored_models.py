"""Models as files: which of their types are loaded, for whoever may edit the registry may have written the file."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.splitters import UntrustedNameError
from evenfold.splitters.importing import is_trusted_part


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


def load_stored(uri: str, estimator: str = "") -> Any:
    """Return the scikit-learn model that an MLflow URI names, of the process's store, as ``load_skops`` does.

    MLflow would unpickle what the stored model's own header calls a pickle, and trust the types that it lists: here
    the header is not asked.
    """
    import mlflow.artifacts

    with tempfile.TemporaryDirectory() as folder:
        place = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=folder))
        files = sorted(place.rglob("*.skops"))
        if len(files) != 1:
            raise UntrustedNameError(
                f"{uri} holds {len(files)} skops files, and a model of evenfold's is one; other formats run what they "
                "hold."
            )
        return load_skops(files[0], estimator)[0]

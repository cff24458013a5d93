"""Where the artifacts of runs lie, which never changes: MLflow is asked for it once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

# By store and run: what one step has written, the next one reads or adds to.
_PLACES: dict[tuple[str, str], str] = {}
MOST_PLACES = 10_000


def placed(client: MlflowClient, run: Run) -> Run:
    """Remember where the artifacts of a run lie, and return the run."""
    if len(_PLACES) >= MOST_PLACES:
        _PLACES.clear()
    _PLACES[client.tracking_uri, run.info.run_id] = run.info.artifact_uri
    return run


def artifacts_of(client: MlflowClient, run_id: str) -> Any:
    """Return what lists, takes and gives the artifacts of a run.

    MLflow's client would ask for the run once more. Where it reads, it also looks for models that the run has made, and
    puts their files over those of the run that are called alike.
    """
    place = _PLACES.get((client.tracking_uri, run_id)) or placed(client, client.get_run(run_id)).info.artifact_uri
    return _opened(place, client.tracking_uri)


@lru_cache(1024)  # as many as MLflow's client keeps: a cloud's storage asks for a login each time it is opened
def _opened(place: str, store: str) -> Any:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(place, tracking_uri=store)

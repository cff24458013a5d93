"""Find and fetch a split that another project recorded."""

from __future__ import annotations

from typing import Any

from evenfold.manifests import Manifest, read_manifest
from mlflow.tracking import MlflowClient
from prefect import task
from prefect.cache_policies import NO_CACHE


@task(cache_policy=NO_CACHE)
def shared_split(spec: str) -> dict[str, Any]:
    """Return run id and split_id of the split ``name@version``, found by its tags in the MLflow store in use."""
    client = MlflowClient()
    experiment = client.get_experiment_by_name(spec.partition("@")[0])
    if experiment is None:
        raise ValueError(f"nobody has recorded a split called {spec}.")
    for run in client.search_runs([experiment.experiment_id], f"tags.`evenfold.spec` = '{spec}'"):
        if run.data.tags.get("evenfold.split_run_id") == run.info.run_id:
            return {"run_id": run.info.run_id, "split_id": run.data.tags["evenfold.split_id"]}
    raise ValueError(f"there is no split {spec} in experiment {experiment.name}.")


def fetched(found: dict[str, Any]) -> Manifest:
    """Return the manifest of a found split; read_manifest checks its files, and the tag says which it must be."""
    manifest = read_manifest(MlflowClient().download_artifacts(found["run_id"], "split"))
    if manifest.split_id != found["split_id"]:
        raise ValueError(f"run {found['run_id']} holds another split than its tag says.")
    return manifest

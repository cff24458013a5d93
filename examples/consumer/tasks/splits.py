"""Ask another project for a split, and fetch the one that it recorded."""

from __future__ import annotations

from typing import Any

from evenfold.flows import load_split
from evenfold.manifests import Manifest, read_manifest
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.deployments import run_deployment


@task(cache_policy=NO_CACHE)
def ask_for_split(deployment: str, data: str, name: str, columns: dict[str, Any]) -> str:
    """Let the publishing project's deployment split its data, and return the name of the run."""
    request = {"data": data, "spec": {"name": name, "columns": columns}}
    run = run_deployment(deployment, parameters={"request": request}, timeout=600)
    if run.state is None or not run.state.is_completed():
        raise RuntimeError(f"{deployment} ended as {run.state}; look at run {run.name} on Prefect's page.")
    return str(run.name)


@task(cache_policy=NO_CACHE)
def shared_split(spec: str) -> dict[str, str]:
    """Return folder and split_id of the split ``name@version``, or of a name's newest, as MLflow has it."""
    found = load_split(spec)
    return {"uri": str(found.uri), "split_id": found.split_id}


def fetched(found: dict[str, str]) -> Manifest:
    """Return the manifest that was found; read_manifest proves that it is whole."""
    return read_manifest(found["uri"])

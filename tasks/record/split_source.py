"""The split as a type of dataset that MLflow knows by its plugins, in any project that has evenfold installed.

MLflow imports this file with ``mlflow.data``, so nothing heavy is imported before a split is loaded. It reads the
annotations as classes, so they are not postponed here.
"""

import re
from typing import TYPE_CHECKING, Any

from evenfold.splitters.errors import SplitError
from mlflow.data.dataset import Dataset
from mlflow.data.dataset_source import DatasetSource

if TYPE_CHECKING:
    from evenfold.manifests import Manifest

URI = re.compile(r"evenfold://(?P<name>[^\W_][^/'\s]{0,99})/(?P<version>\d+\.\d+)")


class SplitSource(DatasetSource):  # type: ignore[misc]
    """The address of a recorded split: ``evenfold://<name>/<version>`` in the MLflow store that the process tracks to.

    ``split_id`` is what it must be, where that is known, and ``artifact`` the folder of a run that holds it.
    """

    def __init__(self, uri: str, split_id: str = "", artifact: str = "") -> None:
        self.uri, self.split_id, self.artifact = uri, split_id, artifact

    @staticmethod
    def _get_source_type() -> str:
        return "evenfold_split"

    def load(self) -> "Manifest":
        """Return the manifest, downloaded and proved: every file by its SHA-256, the rows by the split_id.

        Raises SplitError where the store records no such split, and where it is another one than it says.
        """
        import mlflow.artifacts
        from evenfold.manifests import read_manifest
        from evenfold.tasks.runtime.home import in_silence

        artifact = self.artifact
        if not artifact:
            if (place := URI.fullmatch(self.uri)) is None:
                raise SplitError(f"{self.uri!r} names no split; write evenfold://<name>/<version>.")
            spec = f"{place['name']}@{place['version']}"
            # Evaluations on it name the run that records it too.
            wanted = f"tags.`evenfold.spec` = '{spec}' AND tags.`evenfold.split_run_id` != ''"
            how: dict[str, Any] = {"max_results": 1, "output_format": "list", "search_all_experiments": True}
            runs = mlflow.search_runs(filter_string=wanted, **how)
            if not runs:
                store = mlflow.get_tracking_uri()
                raise SplitError(f"the MLflow store {store} records no split {spec}; set the tracking URI.")
            artifact = f"runs:/{runs[0].data.tags['evenfold.split_run_id']}/split"
        with in_silence():
            manifest = read_manifest(mlflow.artifacts.download_artifacts(artifact_uri=artifact))
        if self.split_id and manifest.split_id != self.split_id:
            raise SplitError(f"{artifact} holds {manifest.split_id[:12]}, and {self.uri} is {self.split_id[:12]}.")
        return manifest

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return isinstance(raw_source, str) and URI.fullmatch(raw_source) is not None

    @classmethod
    def _resolve(cls, raw_source: Any) -> "SplitSource":
        return cls(raw_source)

    def to_dict(self) -> dict[str, str]:
        """Return what MLflow keeps of it."""
        return {"uri": self.uri, "split_id": self.split_id, "artifact": self.artifact}

    @classmethod
    def from_dict(cls, source_dict: dict[Any, Any]) -> "SplitSource":
        """Return the source that ``to_dict`` was kept of."""
        return cls(**source_dict)


class SplitDataset(Dataset):  # type: ignore[misc]
    """A recorded split as ``mlflow.log_input`` takes it; its digest is the first half of the split_id."""

    def _compute_digest(self) -> str:
        return str(self.source.load().split_id[:32])


def from_evenfold(uri: str, name: str | None = None, digest: str | None = None) -> SplitDataset:
    """Return a recorded split as a dataset: ``mlflow.data.from_evenfold("evenfold://flights/1.0")``.

    Raises SplitError where the MLflow store of the process records no such split.
    """
    place = URI.fullmatch(uri)
    return SplitDataset(SplitSource(uri), name or (f"{place['name']}@{place['version']}" if place else uri), digest)

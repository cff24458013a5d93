"""What travels between tasks instead of rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from evenfold.manifests import Manifest


@dataclass(frozen=True)
class SplitRef:
    """Less than 1 kB that name a manifest: where it lies, and what it must be."""

    uri: str
    name: str
    version: str
    split_id: str
    plan_id: str
    kind: str
    strategy: str
    algorithm_version: str
    n_rows: int
    n_splits: int

    @classmethod
    def of(cls, manifest: Manifest, uri: str) -> SplitRef:
        """Return the reference to a manifest that lies at ``uri``."""
        return cls(
            uri=uri,
            name=manifest.name,
            version=manifest.version,
            split_id=manifest.split_id,
            plan_id=manifest.plan_id,
            kind=manifest.kind,
            strategy=manifest.algorithm["name"],
            algorithm_version=str(manifest.algorithm["version"]),
            n_rows=manifest.n,
            n_splits=manifest.n_splits,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the reference as a JSON object."""
        return asdict(self)

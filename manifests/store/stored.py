"""A manifest in its folder: what its header says at once, its rows when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evenfold.manifests.manifest import Manifest
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.strict import Algorithm
from evenfold.manifests.tables.limits import require_rows
from evenfold.splitters import Splitter

from .header import Header, read_header
from .load import prove_stored, read_manifest

BYTES_A_ROW = 64  # of a manifest whose rows are joined to a table: its keys, codes and places, and no column
LOOKED_AT = 250  # of one that is measured or audited, as it was seen at 10 million rows (docs/scale.md)


@dataclass(frozen=True)
class StoredManifest:
    """A manifest in its folder: the header in memory, its rows where ``read`` is called."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @cached_property
    def header(self) -> Header:
        """What ``manifest.json`` says."""
        return read_header(self.folder)

    @property
    def files(self) -> list[Path]:
        """What the manifest consists of: its header, and the files that it lists."""
        return [self.folder / "manifest.json", *(self.folder / entry["path"] for entry in self.header["files"])]

    @property
    def split_id(self) -> str:
        """The identity of the membership."""
        return str(self.header["split_id"])

    @property
    def plan_id(self) -> str:
        """The identity of what was asked of which data."""
        return str(self.header["plan_id"])

    @property
    def fingerprint(self) -> str:
        """The identity of the data's used columns."""
        return str(self.header["fingerprint"])

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.header["n_rows"])

    @cached_property
    def spec(self) -> SplitSpec:
        """What was asked."""
        return read_spec(self.header["spec"], stored=True)

    @property
    def name(self) -> str:
        """What the split is called."""
        return str(self.header["name"])

    @property
    def version(self) -> str:
        """Major version and generation."""
        return str(self.header["version"])

    @property
    def kind(self) -> str:
        """What the splits are: labels, draws or pairs."""
        return str(self.header["kind"])

    @property
    def algorithm(self) -> Algorithm:
        """The strategy's name and version."""
        return self.header["algorithm"]

    @property
    def types(self) -> dict[str, str]:
        """The type of each used column."""
        return dict(self.header["types"])

    @property
    def splitter(self) -> Splitter:
        """The strategy as specified."""
        return self.spec.splitter()

    @property
    def parent_split_id(self) -> str | None:
        """What the manifest was grown from; None where it was split."""
        return self.header["parent_split_id"]

    @property
    def n_splits(self) -> int:
        """The number of (train, test) pairs."""
        return int(self.header["n_splits"])

    @property
    def generation(self) -> int:
        """How often the manifest was extended."""
        return len(self.header["generations"]) - 1

    def prove(self) -> StoredManifest:
        """Return the manifest where every file has the bytes that were written; else SplitError. No row is read."""
        prove_stored(self.folder)
        return self

    def read(self) -> Manifest:
        """Return the manifest in memory, proved."""
        return read_manifest(self.folder)


def require_memory(manifest: Manifest | StoredManifest, memory: str | int | None = None) -> None:
    """Raise NoRoomError where the rows of a manifest, joined, take more than ``memory`` (all that is free)."""
    require_rows(manifest.n, BYTES_A_ROW, f"{manifest.name} {manifest.version}", memory)


def in_memory(
    manifest: Manifest | StoredManifest, memory: str | int | None = None, bytes_a_row: int = BYTES_A_ROW
) -> Manifest:
    """Return a manifest with its rows, proved; SplitError for a damaged file, and as ``require_memory`` does.

    ``bytes_a_row``: what is then done with them takes so much, which must be free whatever ``memory`` says.
    """
    if memory is not None:
        require_memory(manifest, memory)
    require_rows(manifest.n, bytes_a_row, f"{manifest.name} {manifest.version}")
    return manifest.read() if isinstance(manifest, StoredManifest) else manifest

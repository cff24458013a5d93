"""A manifest in its folder: what its header says at once, its rows when they are asked for."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenfold.manifests.fields import GateLimits
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.tables.limits import require_rows

from .header import Header, folder_of, read_header
from .load import described, prove_stored, read_manifest

BYTES_A_ROW = 64  # of a manifest whose rows are joined to a table: its keys, codes and places, and no column
LOOKED_AT = 250  # of one that is measured or audited, as it was seen at 10 million rows (docs/scale.md)


def _of_rows(name: str) -> cached_property[Any]:
    of_rows = cached_property(attrgetter(f"rows.{name}"))
    of_rows.__doc__ = f"As ``Manifest.{name}``; the rows are read, once, when it is asked for."
    return of_rows


class StoredManifest(Manifest):
    """A manifest in its folder: the header in memory; its rows are read, and proved, when one of them is asked for."""

    folder: Path
    header: Header

    def __init__(self, folder: Any) -> None:
        folder = folder_of(folder)
        header = read_header(folder)
        of = {"folder": folder, "header": header, "n": header["n_rows"]}
        of |= {"split_id": header["split_id"], "n_splits": header["n_splits"], "kind": header["kind"]}
        self.__dict__.update(of | described(header, folder))

    if not TYPE_CHECKING:
        membership, keys, group_table, state, born, changes, waiting = map(
            _of_rows, ("membership", "keys", "group_table", "state", "born", "changes", "waiting")
        )

    @property
    def summary(self) -> str:
        """Name, version, rows, splits and identity, in one line; no row is read for it."""
        return f"StoredManifest {self.name} {self.version}: {self.n:,} rows, {self.kind}, id {self.split_id[:12]}"

    @cached_property
    def rows(self) -> Manifest:
        """The manifest in memory, proved."""
        return read_manifest(self.folder)

    @property
    def files(self) -> list[Path]:
        """What the manifest consists of: its header, and the files that it lists."""
        return [self.folder / "manifest.json", *(self.folder / entry["path"] for entry in self.header["files"])]

    def prove(self) -> StoredManifest:
        """Return the manifest where every file has the bytes that were written; else SplitError. No row is read."""
        prove_stored(self.folder)
        return self


def asked_again(manifest: Manifest, gates: GateLimits, ignore: Any) -> Manifest:
    """Return the manifest under these gates and reasons to ignore a check, in place of its own: they move no row."""
    return manifest.altered(spec=manifest.spec.model_copy(update={"gates": gates, "ignore": dict(ignore)}))


def require_memory(manifest: Manifest, memory: str | int | None = None) -> None:
    """Raise NoRoomError where the rows of a manifest, joined, take more than ``memory`` (all that is free)."""
    require_rows(manifest.n, BYTES_A_ROW, f"{manifest.name} {manifest.version}", memory)


def manifest_of(split: Any) -> Manifest:
    """Return the manifest that is asked for: itself, or of whatever names a split, with its rows still on disk."""
    return split if isinstance(split, Manifest) else StoredManifest(split)


def in_memory(split: Any, memory: str | int | None = None, bytes_a_row: int = BYTES_A_ROW) -> Manifest:
    """Return the manifest that is asked for with its rows, proved.

    Raises SplitError for a damaged file, and as ``require_memory`` does.
    ``bytes_a_row``: what is then done with them takes so much, which must be free whatever ``memory`` says.
    """
    manifest = manifest_of(split)
    if memory is not None:
        require_memory(manifest, memory)
    require_rows(manifest.n, bytes_a_row, f"{manifest.name} {manifest.version}")
    return manifest.rows if isinstance(manifest, StoredManifest) else manifest

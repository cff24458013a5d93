"""References to splits, by name or the first digits of the id: every command and flow asks here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evenfold.manifests import read_header
from evenfold.manifests.store.versions import folder_named, next_major, versions_below
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Home, locked

from evenfold import manifests

if TYPE_CHECKING:
    from .outcomes import SplitRef


class OfSplit(Protocol):
    """A result of a flow: its split stands in it."""

    @property
    def split(self) -> SplitRef:
        """The split."""


def manifest_folder(reference: Any) -> Path:
    """Return the folder of a split: by its folder or name, or as a manifest or what the task or a flow returned.

    One that is in memory alone is written below the home. ``flights`` is the newest version, ``flights@1.0`` (or
    ``flights/1.0``) that one; four digits or more of a split_id name it as well. Raises SplitError for what names none,
    with the nearest name, or several. A path that is no manifest is returned: whoever reads it says what is wrong.
    """
    if not isinstance(reference, (str, Path)):
        if isinstance(reference, manifests.Manifest):
            return _kept(reference)
        uri = getattr(getattr(reference, "split", reference), "uri", None)
        if not isinstance(uri, str):
            raise SplitError(
                f"a value of type {type(reference).__name__} is no split; pass what split returns, or its name, such "
                "as visits@1.0, or the folder of its manifest."
            )
        return Path(uri)
    path = Path(reference)
    if path.is_absolute() or (path / "manifest.json").exists():
        return path
    return folder_named(Home.here().splits, str(path)) or path


def _kept(manifest: manifests.Manifest) -> Path:
    """Return the folder of a manifest: where it was read, or below the home, as its name's next version if need be."""
    place, home = Path(manifest.uri or "nowhere"), Home.here()
    # By both: of the same folds another split may predict another column.
    same = {"split_id": manifest.split_id, "plan_id": manifest.plan_id}.items()
    if (place / "manifest.json").exists() and same <= read_header(place).items():
        return place
    from evenfold.tasks.store import bucket_of  # not before: commands that write nothing wait for no such import

    with locked(home.locks, f"name/{manifest.name}"):
        if bucket := bucket_of(home):
            bucket.fetch_splits(manifest.name)
        for folder, header in versions_below(home.splits, manifest.name):
            if same <= header.items():
                return folder
        whole = manifest if manifest.generation else manifest.altered(version=next_major(home.splits, manifest.name))
        return write(whole, home.splits)


def write(manifest: manifests.Manifest, root: Path, staged: Path | None = None) -> Path:
    """Write a version, ``staged`` or for good, and into the bucket; SplitError where another machine was first."""
    from evenfold.manifests.store.stored import STAGED, aside, settle
    from evenfold.tasks.store import bucket_of

    bucket, final = bucket_of(Home.here()), root / manifest.name / manifest.version
    if bucket is None or staged is not None:
        return manifests.write_manifest(manifest, root, staged)
    with aside(final.parent, STAGED, final) as folder:  # until it is in the bucket, so that who is killed tries again
        manifests.write_manifest(manifest, root, folder)
        if not bucket.offer_split(folder):
            raise SplitError(f"{manifest.name} {final.name} was made on another machine meanwhile; run it again.")
        settle(folder, final)
        return final

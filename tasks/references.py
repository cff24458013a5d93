"""References to splits, by name or the first digits of the id: every command and flow asks here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evenfold.manifests import Header, read_header
from evenfold.manifests.store.header import VERSION as VERSION
from evenfold.splitters.errors import SplitError, meant
from evenfold.tasks.runtime.home import Home, locked

from evenfold import manifests

if TYPE_CHECKING:
    from .outcomes import SplitRef

SHORT_ID = re.compile(r"[0-9a-f]{4,64}")
Listed = dict[str, str | int]  # what a list shows of a thing, by the name of the column


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
    home, words = Home.here(), str(path)
    name, _, version = words.replace("/", "@").partition("@")
    if versions := splits_of(home, name):
        if version and version not in versions:
            others = ", ".join(sorted(versions, key=version_in))
            raise SplitError(f"the split {name!r} has no version {version!r}; it has {others}.")
        return versions[version or max(versions, key=version_in)]
    below = versions_below(home) if SHORT_ID.fullmatch(words) else ()
    ids = {header["split_id"]: folder for folder, header in below if header["split_id"].startswith(words)}
    if len(ids) > 1:
        raise SplitError(f"{reference!r} begins the ids of {len(ids)} splits; write more of its digits.")
    names = [folder.name for folder in home.splits.glob("*") if folder.is_dir()]
    if not ids and (hint := meant(words, names, cutoff=0.6)):
        raise SplitError(f"there is no split {words!r}; {hint}")
    return next(iter(ids.values()), path)


def _kept(manifest: manifests.Manifest) -> Path:
    """Return the folder of a manifest: where it was read, or below the home, as its name's next version if need be."""
    place, home = Path(manifest.uri or "nowhere"), Home.here()
    if (place / "manifest.json").exists() and read_header(place)["split_id"] == manifest.split_id:
        return place
    from evenfold.tasks.store import bucket_of  # not before: commands that write nothing wait for no such import

    with locked(home.locks, f"name/{manifest.name}"):
        if bucket := bucket_of(home):
            bucket.fetch_splits(manifest.name)
        for folder, header in versions_below(home, manifest.name):
            if header["split_id"] == manifest.split_id:
                return folder
        whole = manifest if manifest.generation else manifest.altered(version=next_major(home, manifest.name))
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


def next_major(home: Home, name: str) -> str:
    """Return the version that the next decision of a name gets."""
    return f"{max((version_in(path.name)[0] for path in versions_in(home.splits / name)), default=0) + 1}.0"


def versions_in(folder: Path, pattern: str = "*.*") -> list[Path]:
    """Return the versions of a name; what somebody copied beside them, such as ``1.0.bak``, is none."""
    return [path for path in folder.glob(pattern) if VERSION.fullmatch(path.name)]


def splits_of(home: Home, name: str) -> dict[str, Path]:
    """Return the folder of every manifest of a name, by its version."""
    odd = not name or name in (".", "..") or "\\" in name
    versions = [] if odd else versions_in(home.splits / name)
    return {folder.name: folder for folder in versions if (folder / "manifest.json").exists()}


def recorded_splits(home: Home) -> list[Listed]:
    """Return name, id, strategy, rows, splits and time of every manifest below the home, the newest first."""
    return [
        {"split": f"{header['name']}@{header['version']}", "id": header["split_id"],
         "strategy": header["algorithm"]["name"], "rows": header["n_rows"], "splits": header["n_splits"],
         "when": in_local_time(_when(folder) / 1e9)}
        for folder, header in versions_below(home)
    ]  # fmt: skip


def versions_below(home: Home, name: str = "*", holding: str = "") -> Iterator[tuple[Path, Header]]:
    """Yield folder and header of every version of a name, or of all, the last written first; whoever reads proves."""
    folders = (each for each in versions_in(home.splits, f"{name}/*") if (each / "manifest.json").exists())
    for folder in sorted(folders, key=_when, reverse=True):
        with suppress(SplitError, OSError):  # a damaged neighbour is found by whoever reads it
            # To read all of a header takes ten times as long as to look for a text in it.
            if not holding or holding.encode() in (folder / "manifest.json").read_bytes():
                yield folder, read_header(folder)


def in_local_time(seconds: float) -> str:
    """Return a time since the epoch as lists show it."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def _when(folder: Path) -> int:
    return (folder / "manifest.json").stat().st_mtime_ns  # within a second too


def version_in(spec: str) -> tuple[int, ...]:
    """Return the version that NAME@VERSION ends with, or is, so that 1.10 comes after 1.9."""
    return tuple(int(part) for part in spec.rpartition("@")[2].split("."))

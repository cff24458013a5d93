"""A folder of manifests, <name>/<version>: which versions it holds, by name or the digits of an id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from evenfold.splitters.errors import SplitError, meant

from .header import VERSION, Header, read_header

SHORT_ID = re.compile(r"[0-9a-f]{4,64}")
Listed = dict[str, str | int]  # what a list shows of a thing, by the name of the column


def folder_named(root: Path, words: str) -> Path | None:
    """Return the folder of the manifest below ``root`` that is meant; None where none is, or no name is like it.

    By its name, of which the newest version is taken, name@version (or name/version), or four digits or more of its
    split_id. Raises SplitError for a version that a name has not, for an id of several, and with the nearest name.
    """
    name, _, version = words.replace("/", "@").partition("@")
    if versions := versions_of(root, name):
        if version and version not in versions:
            others = ", ".join(sorted(versions, key=version_in))
            raise SplitError(f"the split {name!r} has no version {version!r}; it has {others}.")
        return versions[version or max(versions, key=version_in)]
    below = versions_below(root) if SHORT_ID.fullmatch(words) else ()
    ids = {header["split_id"]: folder for folder, header in below if header["split_id"].startswith(words)}
    if len(ids) > 1:
        raise SplitError(f"{words!r} begins the ids of {len(ids)} splits; write more of its digits.")
    names = [folder.name for folder in root.glob("*") if folder.is_dir()]
    if not ids and (hint := meant(words, names, cutoff=0.6)):
        raise SplitError(f"there is no split {words!r}; {hint}")
    return next(iter(ids.values()), None)


def next_major(root: Path, name: str) -> str:
    """Return the version that the next decision of a name gets."""
    return f"{max((version_in(path.name)[0] for path in versions_in(root / name)), default=0) + 1}.0"


def versions_in(folder: Path, pattern: str = "*.*") -> list[Path]:
    """Return the versions of a name; what somebody copied beside them, such as ``1.0.bak``, is none."""
    return [path for path in folder.glob(pattern) if VERSION.fullmatch(path.name)]


def versions_of(root: Path, name: str) -> dict[str, Path]:
    """Return the folder of every manifest of a name, by its version."""
    odd = not name or name in (".", "..") or "\\" in name
    versions = [] if odd else versions_in(root / name)
    return {folder.name: folder for folder in versions if (folder / "manifest.json").exists()}


def recorded_splits(root: Path) -> list[Listed]:
    """Return name, id, strategy, rows, splits and time of every manifest below a folder, the newest first."""
    return [
        {"split": f"{header['name']}@{header['version']}", "id": header["split_id"],
         "strategy": header["algorithm"]["name"], "rows": header["n_rows"], "splits": header["n_splits"],
         "when": in_local_time(_when(folder) / 1e9)}
        for folder, header in versions_below(root)
    ]  # fmt: skip


def versions_below(root: Path, name: str = "*", holding: str = "") -> Iterator[tuple[Path, Header]]:
    """Yield folder and header of every version of a name, or of all, the last written first; whoever reads proves."""
    folders = (each for each in versions_in(root, f"{name}/*") if (each / "manifest.json").exists())
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

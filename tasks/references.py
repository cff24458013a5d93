"""What the name of a split means, or the first digits of its id: every command and flow asks here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from evenfold.manifests import read_header
from evenfold.splitters import SplitError
from evenfold.splitters.errors import meant
from evenfold.tasks.runtime.home import Home

SHORT_ID = re.compile(r"[0-9a-f]{4,64}")
VERSION = re.compile(r"\d+\.\d+")
Listed = dict[str, str | int]  # what a list shows of a thing, by the name of the column


def manifest_folder(given: Any) -> Path:
    """Return the folder of a manifest that is given as a folder, by a name of the home's splits, or as it was returned.

    What ``split`` returns, the task and the flow, names its folder.
    ``flights`` is the newest version, ``flights@1.0`` (or ``flights/1.0``) that one; at least four digits of a
    split_id name it as well. Raises SplitError for a name that none has, with the nearest, for digits that several
    have, and for what is no split. A path that is no manifest is returned as it is: whoever reads it says what is
    wrong.
    """
    if not isinstance(given, (str, Path)):
        return _returned_folder(given)
    path = Path(given)
    if path.is_absolute() or (path / "manifest.json").exists():
        return path
    home = Home.here()
    name, _, version = str(given).replace("/", "@").partition("@")
    versions = dict(splits_of(home, name))
    if versions and not version:
        return max(versions.items(), key=lambda item: _order(item[0]))[1]
    if version in versions:
        return versions[version]
    if versions:
        known = ", ".join(sorted(versions, key=_order))
        raise SplitError(f"the split {name!r} has no version {version!r}; it has {known}.")
    folders = _by_digits(home, str(given)) if SHORT_ID.fullmatch(str(given)) else []
    if len(folders) > 1:
        raise SplitError(f"{given!r} begins the ids of {len(folders)} splits; write more of its digits.")
    return folders[0] if folders else _unknown(home, path)


def _returned_folder(given: object) -> Path:
    place = getattr(getattr(given, "split", given), "uri", None)
    if not isinstance(place, str):
        raise SplitError(
            f"a value of type {type(given).__name__} is no split; pass what split returns, or its name, such as "
            "visits@1.0, or the folder of its manifest."
        )
    return Path(place)


def _unknown(home: Home, path: Path) -> Path:
    """Return the path as it is; raises SplitError where it looks like the name of a split, with the nearest."""
    names = [folder.name for folder in home.splits.glob("*") if folder.is_dir()]
    if hint := meant(str(path), names, cutoff=0.6):
        raise SplitError(f"there is no split {str(path)!r}; {hint}")
    return path


def splits_of(home: Home, name: str) -> Iterator[tuple[str, Path]]:
    """Yield the version and folder of every manifest of a name."""
    if not name or name in (".", "..") or "\\" in name:
        return
    for folder in (home.splits / name).glob("*"):
        if VERSION.fullmatch(folder.name) and (folder / "manifest.json").exists():
            yield folder.name, folder


def recorded_splits(home: Home) -> list[Listed]:
    """Return name, id, strategy, rows, splits and time of every manifest below the home, the newest first."""
    rows: list[Listed] = []
    written = {file: file.stat().st_mtime_ns for file in home.splits.glob("*/*/manifest.json")}
    for file in sorted(written, key=written.__getitem__, reverse=True):  # within a second too
        try:
            header = read_header(file.parent)
        except SplitError:
            continue  # a damaged neighbour is found by whoever reads it
        when = datetime.fromtimestamp(written[file] / 1e9).astimezone()
        rows.append({
            "split": f"{header['name']}@{header['version']}", "id": header["split_id"],
            "strategy": header["algorithm"]["name"], "rows": header["n_rows"], "splits": header["n_splits"],
            "when": when.isoformat(timespec="seconds"),
        })  # fmt: skip
    return rows


def _by_digits(home: Home, digits: str) -> list[Path]:
    folders = [path.parent for path in home.splits.glob("*/*/manifest.json")]
    by_id: dict[str, Path] = {}
    for folder in folders:
        try:
            split_id = str(read_header(folder)["split_id"])
        except (SplitError, KeyError):
            continue  # a damaged neighbour is found by whoever reads it
        if split_id.startswith(digits):
            by_id.setdefault(split_id, folder)
    return list(by_id.values())


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

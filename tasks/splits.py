"""The split step: decide once, keep the manifest, return what names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from evenfold.manifests import (
    Extension,
    Manifest,
    Plan,
    SplitSpec,
    canonical_table,
    column_names,
    data_files,
    extend,
    read_header,
    read_manifest,
    read_table,
    require_columns,
    require_complete,
    write_manifest,
)
from evenfold.splitters import SplitError
from evenfold.tasks.results.bucket import bucket_of
from evenfold.tasks.results.files import set_aside
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import locked


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


Merged = Literal["quarantine", "accept"]
MOST_TRIES = 20


def plan_of(spec: SplitSpec, data: str) -> Plan:
    """Return the resolved plan; the same file and specification are read once per process."""
    return _plan(spec.model_dump_json(), data, stamp(data))


@lru_cache(maxsize=2)
def _plan(spec: str, data: str, _stamp: tuple[Any, ...]) -> Plan:
    return Plan(json.loads(spec), data)


def stamp(data: str) -> tuple[Any, ...]:
    """Return what changes when a file, or one of a folder or glob, is written again, comes or goes."""
    try:
        files = [(path, path.stat()) for path in data_files(data)]
    except (SplitError, OSError):
        return (data,)
    return tuple((str(path), each.st_mtime_ns, each.st_size, each.st_ino) for path, each in files)


def check_columns(data: str, spec: SplitSpec) -> None:
    """Raise SplitError where a named column is absent, or the target or group column has holes, read or not."""
    require_columns([*spec.columns.roles(), *spec.types], column_names(data))
    names = [name for name in (spec.columns.target, spec.columns.group) if name]
    read = read_table(data, names or None, spec.types)
    if read.num_rows == 1:
        raise SplitError(f"{data} has 1 row; at least 2 are needed.")
    table = canonical_table(read, names, spec.types)
    for name in names:
        require_complete(table.column(name), name)


def split_data(spec: dict[str, Any], data: str, home: str) -> dict[str, Any]:
    """Decide the split of ``data``, write its manifest below the home and return its SplitRef as JSON.

    A plan that was decided before gives the folder that holds it, made anew where it is damaged; another plan of the
    same name gets the next major version. The decision itself is pure; only the folder is new.
    """
    place = Home(Path(home))
    plan = plan_of(SplitSpec.model_validate(spec), data)
    manifest = plan.decide()
    with locked(place.locks, f"name/{manifest.name}"):
        return reference(_placed(manifest, place))


def _placed(manifest: Manifest, home: Home) -> Path:
    """Return the version that holds this decision: the one there is, or a new one."""
    bucket = bucket_of(home)
    for _ in range(MOST_TRIES):
        if bucket is not None:
            bucket.fetch_splits(manifest.name)
        found = _written(manifest, home)
        if bucket is None or bucket.offer_split(found, manifest.split_id):
            return found
        shutil.rmtree(found)  # another machine was first with this version of another decision, which is fetched next
    raise SplitError(f"{MOST_TRIES} versions of {manifest.name} in a row were made on other machines; run it again.")


def _written(manifest: Manifest, home: Home) -> Path:
    versions = home.splits / manifest.name
    found = find_plan(versions, manifest.plan_id)
    if found is None:
        return write_manifest(_with_version(manifest, versions), home.splits)
    if not _intact(found):
        set_aside(found)
        return write_manifest(replace(manifest, version=found.name), home.splits)
    return found


def named(ref: dict[str, Any], name: str, home: str) -> dict[str, Any]:
    """Return the reference to the same decision under ``name``, whose folder gets the manifest if it lacks it.

    A name's folder is what grows: a decision that another name made first must not be looked for there alone.
    """
    if ref["name"] == name:
        return ref
    place = Home(Path(home))
    with locked(place.locks, f"name/{name}"):
        found = find_plan(place.splits / name, ref["plan_id"])
        if found is None:
            manifest = read_manifest(ref["uri"])
            mine = replace(manifest, spec=manifest.spec.model_copy(update={"name": name}), uri=None)
            found = write_manifest(_with_version(mine, place.splits / name), place.splits)
    return reference(found)


def extension_of(manifest: str, data: str, batch: bool, merged: Merged) -> Extension:
    """Return the extension; the same folder and file are read once per process."""
    return _extension(manifest, data, stamp(data), read_header(Path(manifest))["split_id"], batch, merged)


@lru_cache(maxsize=1)
def _extension(
    manifest: str, data: str, _stamp: tuple[Any, ...], _split_id: str, batch: bool, merged: Merged
) -> Extension:
    return extend(read_manifest(manifest), data, batch=batch, merged=merged)


def extend_split(manifest: str, data: str, batch: bool, merged: Merged) -> dict[str, Any]:
    """Extend the manifest in a folder, write the next version beside it, and return its SplitRef and what happened."""
    path = Path(manifest)
    with locked(Home.here().locks, f"name/{path.parent.name}"):
        grown = extension_of(manifest, data, batch, merged)
        found = path if grown.manifest.uri else write_manifest(grown.manifest, path.parent.parent)
        bucket = bucket_of(Home.here())
        if bucket is not None and not bucket.offer_split(found, grown.manifest.split_id):
            shutil.rmtree(found)
            raise SplitError(f"{path.parent.name} {found.name} was made on another machine meanwhile; run it again.")
    told = {name: getattr(grown, name) for name in ("added", "deleted", "returned", "quarantined", "moved")}
    notes = {"notes": list(grown.notes), "parent_split_id": grown.manifest.parent_split_id}
    return {"split": reference(found), **told, **notes}


def reference(folder: Path | str) -> dict[str, Any]:
    """Return the SplitRef of the manifest in a folder, as JSON."""
    return SplitRef.of(read_manifest(folder), str(Path(folder).absolute())).to_json()


def _intact(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except SplitError:
        return False
    return True


def still_there(ref: dict[str, Any]) -> bool:
    """Return whether the manifest that a cached reference names still lies there, undamaged."""
    try:
        return bool(read_manifest(ref["uri"]).split_id == ref["split_id"])
    except (ValueError, OSError):
        return False


def find_plan(folder: Path, plan_id: str) -> Path | None:
    """Return the version of a name that was decided by this very plan, if there is one."""
    return next((path for path, header in _headers(folder) if header.get("plan_id") == plan_id), None)


def newest(home: Home, spec: SplitSpec) -> Path | None:
    """Return the newest version of the name of ``spec``, if it was decided by the same rules."""
    folder, bucket = home.splits / spec.name, bucket_of(home)
    if bucket is not None:
        bucket.fetch_splits(spec.name)
    paths = [path for path, _ in _headers(folder)]
    if not paths:
        return None
    last = max(paths, key=lambda path: tuple(int(number) for number in path.name.split(".")))
    known = read_manifest(last)
    return last if known.spec.decision(known.types) == spec.decision(known.types) else None


def _headers(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("[0-9]*.[0-9]*/manifest.json")):
        try:
            yield path.parent, read_header(path.parent)
        except SplitError:
            continue  # a damaged neighbour is found by whoever reads it


def _with_version(manifest: Any, folder: Path) -> Any:
    majors = [int(path.name.partition(".")[0]) for path in folder.glob("[0-9]*.[0-9]*")]
    return replace(manifest, version=f"{max(majors, default=0) + 1}.0")

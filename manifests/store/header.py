"""The header of a manifest on disk, and the proof of its files' bytes: no table is read, and no library for one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from evenfold.splitters.deployed import require_readable
from evenfold.splitters.errors import SplitError

if TYPE_CHECKING:
    from evenfold.manifests.identity import Algorithm

SCHEMA = "evenfold-manifest/1"
ROWS, WAITING = "assignments-0000.parquet", "waiting.parquet"
DIGEST = re.compile(r"[0-9a-f]{64}")
VERSION = re.compile(r"\d{1,9}\.\d{1,9}")


class ListedFile(TypedDict):
    """A Parquet file that a header lists."""

    path: str
    sha256: str
    bytes: int
    rows: int
    blocks: list[str]


class Part(TypedDict):
    """A part that is no fold: its name, its code, and the share that it was to have, None where nothing says."""

    name: str
    code: int
    share: float | None


class Described(TypedDict):
    """What ``manifest.json`` holds but for its files; ``exchange.schemas`` says what each field may be."""

    schema: str
    name: str
    version: str
    kind: str
    spec: dict[str, Any]
    types: dict[str, str]
    fingerprint: str
    plan_id: str
    split_id: str
    parent_split_id: str | None
    algorithm: Algorithm
    n_rows: int
    n_splits: int
    counts: dict[str, int]
    parts: list[Part]
    state: dict[str, Any] | None
    generations: list[dict[str, int]]
    versions: dict[str, str]


class Header(Described):
    """What ``manifest.json`` holds."""

    files: list[ListedFile]


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


def _like(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


# What a reader takes for granted; the files are looked at with their bytes.
FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("name", "kind"), _of(str)),
    **dict.fromkeys(("spec", "types"), _of(dict)),
    "algorithm": lambda value: isinstance(value, dict) and {"name", "version"} <= set(value),
    **dict.fromkeys(("n_rows", "n_splits"), _of(int)),
    **dict.fromkeys(("fingerprint", "plan_id", "split_id"), _like(DIGEST)),
    "version": _like(VERSION),
    "parent_split_id": lambda value: value is None or _like(DIGEST)(value),
    "state": _of(dict, type(None)),
}
REMEDY = "restore it from its MLflow run."


def read_header(folder: str | Path) -> Header:
    """Return what ``manifest.json`` in ``folder`` says, unproved; SplitError where it says nothing that we read."""
    path = Path(folder) / "manifest.json"
    require_readable([path])
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise SplitError(
            f"{folder} holds no manifest.json; pass the folder of a manifest, or to a command or flow the name of a "
            "split, such as visits@1.0."
        ) from None
    except (ValueError, RecursionError, OSError) as error:
        raise SplitError(f"{path} is damaged ({str(error)[:100]}); {REMEDY}") from None
    schema = header.get("schema") if isinstance(header, dict) else None
    if not isinstance(header, dict) or schema != SCHEMA:
        raise SplitError(f"{folder} has schema {repr(schema)[:40]}; this version of evenfold reads {SCHEMA!r}.")
    wrong = [name for name, fits in FIELDS.items() if not fits(header.get(name))]
    if wrong:
        raise SplitError(f"{path} is damaged (its {', '.join(wrong[:5])}); {REMEDY}")
    return cast(Header, header)


def other_identity(held: Header, new: Header) -> str | None:
    """Return the identity by which two headers name different decisions; None where they name one.

    Other targets, and other rows that wait, may come to the same folds by another plan. What grew from one parent to
    the same folds, while the same rows wait, is one decision: the whole table and its new rows alone are two plans.
    """
    parent, split_id = held.get("parent_split_id"), held.get("split_id")
    if parent and (parent, split_id, _waiting(held)) == (new.get("parent_split_id"), new["split_id"], _waiting(new)):
        return None
    return next((of for of in ("split_id", "plan_id") if held.get(of) != new.get(of)), None)


def _waiting(header: Header) -> list[Any]:
    return [entry["blocks"] for entry in header["files"] if entry["path"] == WAITING]


def prove_files(header: Header, folder: Path) -> None:
    """Raise SplitError where a file that ``header`` lists is absent or has other bytes, or one is there unlisted."""
    files = _files(header, folder)
    require_readable(folder / entry["path"] for entry in files)  # a link among them leads anywhere
    for entry in files:
        _prove(folder / entry["path"], entry["sha256"])


def _files(header: Header, folder: Path) -> list[ListedFile]:
    files = header.get("files")
    if not isinstance(files, list) or not all(_is_entry(entry) for entry in files):
        raise SplitError(f"{folder / 'manifest.json'} is damaged (its list of files); {REMEDY}")
    unlisted = {ROWS, *(file.name for file in folder.glob("*.parquet"))} - {entry["path"] for entry in files}
    if unlisted:
        raise SplitError(f"{folder / 'manifest.json'} does not list {', '.join(sorted(unlisted))}; {REMEDY}")
    return files


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
        return False
    return isinstance(entry.get("path"), str) and bool(re.fullmatch(r"[a-z]+(-\d{4})?\.parquet", entry["path"]))


def _prove(path: Path, wanted: str) -> None:
    try:
        digest = sha256(path)
    except FileNotFoundError:
        raise SplitError(f"{path} is missing; {REMEDY}") from None
    except OSError as error:
        raise SplitError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
    if digest != wanted:
        raise SplitError(f"{path} is damaged: its SHA-256 is not the {wanted[:12]} of manifest.json; {REMEDY}")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

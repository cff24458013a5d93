"""The header of a manifest on disk, and the proof of its files' bytes: no table is read, and no library for one."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, cast

from evenfold.manifests.fields import WRITTEN, Algorithm
from evenfold.splitters.errors import SplitError, above, require_readable
from pydantic import Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

SCHEMA: Literal["evenfold-manifest/1"] = "evenfold-manifest/1"
ROWS, WAITING = "assignments-0000.parquet", "waiting.parquet"
VERSION = re.compile(r"\d{1,9}\.\d{1,9}")
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hexadecimal.")]
Count = Annotated[int, Field(ge=0, strict=True)]


@with_config(WRITTEN)
class ListedFile(TypedDict):
    """A Parquet file of the folder: its bytes are proved by ``sha256``, its rows by a digest per million."""

    path: Annotated[str, Field(pattern=r"^[a-z]+(-\d{4})?\.parquet$")]
    sha256: Digest
    bytes: Count
    rows: Count
    blocks: list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]]


@with_config(WRITTEN)
class Part(TypedDict):
    """A named part: the code of its rows, and the share of all rows that was asked for."""

    name: str
    code: int
    share: float | None


@with_config(WRITTEN)
class Remembered(TypedDict):
    """The start of the next extension: shares of the codes, strata, and rows by repeat, code and stratum."""

    shares: NotRequired[list[tuple[int, float]]]
    edges: NotRequired[list[float]]
    classes: NotRequired[list[Any]]
    counts: NotRequired[list[list[list[Count]]]]


@with_config(WRITTEN)
class Generation(TypedDict):
    """The number of rows that joined with a generation."""

    n: Count
    rows: Count


@with_config(WRITTEN)
class Header(TypedDict):
    """``manifest.json``: what was asked, what was decided, and each file with its SHA-256.

    It is the authority: a reader refuses another ``schema``, a file whose bytes differ, a Parquet file that is not
    listed, and a folder whose recomputed ``split_id`` differs.
    """

    schema: Literal["evenfold-manifest/1"]
    name: str
    version: Annotated[
        str, Field(pattern=f"^{VERSION.pattern}$", description="<major>.<minor>; the minor number is the generation.")
    ]
    kind: Literal["labels", "draws", "pairs"]
    spec: dict[str, Any]
    types: dict[str, str]
    fingerprint: Digest
    plan_id: Digest
    split_id: Digest
    parent_split_id: Digest | None
    algorithm: Algorithm
    n_rows: Count
    n_splits: Count
    counts: Annotated[
        dict[Annotated[str, Field(pattern=r"^-?\d+$")], Count], Field(description="Rows in use of each code.")
    ]
    parts: list[Part]
    state: Remembered | None
    generations: list[Generation]
    versions: Annotated[dict[str, str], Field(description="Of the libraries that wrote it; no part of the identity.")]
    files: list[ListedFile]


READER = TypeAdapter(Header)
REMEDY = "restore it from its MLflow run."


class NoManifestError(SplitError):
    """A folder holds no manifest, or one of another schema, of which nothing can be said."""


def folder_of(split: Any) -> Path:
    """Return the folder of a manifest that is asked for: by its folder, or by whatever names a split."""
    if isinstance(split, Path) or (isinstance(split, str) and os.path.exists(os.path.join(split, "manifest.json"))):
        return Path(split)
    return Path(above("find", split) or split)


def read_header(folder: str | Path) -> Header:
    """Return what ``manifest.json`` in ``folder`` says, unproved; SplitError where it says nothing that we read."""
    path = Path(folder) / "manifest.json"
    require_readable([path])
    try:
        text = path.read_text(encoding="utf-8")
        header = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        cure = "pass the folder of a manifest, or to a command or flow the name of a split, such as visits@1.0"
        raise NoManifestError(f"{folder} holds no manifest.json; {cure}.") from None
    except (ValueError, RecursionError, OSError) as error:
        raise SplitError(f"{path} is damaged ({str(error)[:100]}); {REMEDY}") from None
    if not isinstance(header, dict):
        raise SplitError(f"{path} is damaged (it holds no fields); {REMEDY}")
    if header.get("schema") != SCHEMA:
        schema = repr(header.get("schema"))[:40]
        raise NoManifestError(f"{folder} has schema {schema}; this version of evenfold reads {SCHEMA!r}.")
    try:
        READER.validate_json(text)
    except ValidationError as error:
        wrong = list(dict.fromkeys(str(each["loc"][0]) for each in error.errors() if each["loc"]))
        raise SplitError(f"{path} is damaged (its {', '.join(wrong[:5])}); {REMEDY}") from None
    return cast(Header, header)


def other_identity(held: Header, new: Header) -> str | None:
    """Return the identity by which two headers name different decisions; None where they name one.

    What grew from one parent to the same folds, while the same rows wait, is one, though it is two plans.
    """
    waits = [[file["blocks"] for file in header["files"] if file["path"] == WAITING] for header in (held, new)]
    same = all(held.get(name) == new.get(name) for name in ("parent_split_id", "split_id")) and waits[0] == waits[1]
    if held.get("parent_split_id") and same:
        return None
    return next((of for of in ("split_id", "plan_id") if held.get(of) != new.get(of)), None)


def prove_files(header: Header, folder: Path) -> None:
    """Raise SplitError where a file that ``header`` lists is absent or has other bytes, or one is there unlisted."""
    if wrong := unlisted(header, folder):
        raise SplitError(" ".join(wrong.values()))
    require_readable(folder / entry["path"] for entry in header["files"])  # a link among them leads anywhere
    for entry in header["files"]:
        prove_file(folder / entry["path"], entry)


def unlisted(header: Header, folder: Path) -> dict[str, str]:
    """Return what is said of each file in ``folder`` that would be read as a part of a manifest, and is not listed."""
    names = {ROWS, *(file.name for file in folder.glob("*.parquet"))} - {each["path"] for each in header["files"]}
    said = "is not listed in manifest.json; remove it, or restore the folder from its MLflow run."
    return {name: f"{folder / name} {said}" for name in sorted(names)}


def prove_file(file: Path, entry: ListedFile) -> None:
    """Raise SplitError where a file is absent, cannot be read, or has other bytes than the header says."""
    try:
        digest = sha256(file)
    except FileNotFoundError:
        raise SplitError(f"{file} is missing; {REMEDY}") from None
    except OSError as error:
        raise SplitError(f"{file} cannot be read ({error.strerror}); {REMEDY}") from None
    if digest != entry["sha256"]:
        raise SplitError(f"{file} is damaged: its SHA-256 is not the {entry['sha256'][:12]} of manifest.json; {REMEDY}")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

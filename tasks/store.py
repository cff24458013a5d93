"""Results by their content: computed once on a host, kept whole and signed, and checked before they are taken.

What machines share lies in a folder that all see, or in a bucket, of which the work here is done in a mirror.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar
from uuid import uuid4

from evenfold.estimates import EvaluationError
from evenfold.manifests import read_header
from evenfold.manifests.store.header import other_identity, sha256
from evenfold.manifests.store.stored import settle
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import FinalModel, FitResult, Outcome, SplitAudit, SplitRef
from evenfold.tasks.preimages import Marks, Preimage, differences
from evenfold.tasks.runtime.home import Home, locked, write_aside
from evenfold.tasks.runtime.signing import NEW_KEY, is_signed, sign

KINDS: dict[str, type[Outcome]] = {
    kind.__name__: kind for kind in (SplitRef, SplitAudit, FitResult, FinalModel, Preimage, Marks)
}


def written(key: str, value: Outcome, change: Callable[[bytes], bytes] = bytes) -> bytes:
    """Return a result as it is kept under ``key``, its JSON as ``change`` returns it."""
    text = change(value.model_dump_json().encode())
    claim = {"key": key, "kind": type(value).__name__, "sha256": hashlib.sha256(text).hexdigest()}
    return f"{claim['kind']} {claim['sha256']} {sign('result', claim)}\n".encode() + text


def read(key: str, content: bytes, change: Callable[[bytes], bytes] = bytes) -> Outcome | None:
    """Return the result that is kept as ``content`` under ``key``, made of its JSON as ``change`` returns it.

    None where it is none of ours, of another version or damaged, or names what is not there. That one is whole and not
    signed by this home or its team is said, once in a process.
    """
    head, _, text = content.partition(b"\n")
    kind, digest, signature, *_ = [*head.decode(errors="replace").split(" "), "", ""]
    if kind not in KINDS or hashlib.sha256(text).hexdigest() != digest:
        return None
    if not is_signed("result", {"key": key, "kind": kind, "sha256": digest}, [signature]):
        _warn_unsigned()
        return None
    try:
        value = KINDS[kind].model_validate_json(change(text))
    except (ValueError, LookupError, RecursionError):
        return None
    return value if value.intact() else None


@cache
def _warn_unsigned() -> None:
    logging.getLogger("evenfold").warning(
        "Kept results that neither this home nor its team has signed are computed again. What machines share needs "
        "one EVENFOLD_SIGNING_KEY, such as %s prints.",
        NEW_KEY,
    )


Naming = dict[str, Any]  # an object of a result that names a split by its ``uri``, or a file by ``path`` and ``sha256``


class Bucket:
    """A folder of a bucket, and the folder here that mirrors it; EvaluationError where it cannot be reached.

    Raises SplitError where the package that speaks its protocol is not installed, or it overwrites what is there.
    """

    def __init__(self, url: str, here: Path) -> None:
        self.url = url.rstrip("/")
        self.here = here
        protocol, _, self.place = self.url.partition("://")
        try:
            import fsspec

            self.store: Any = fsspec.filesystem(protocol, use_listings_cache=False)
        except (ImportError, ValueError):
            package = {"s3": "'evenfold[s3]'", "gs": "gcsfs", "abfs": "adlfs"}.get(protocol, "its fsspec package")
            raise SplitError(
                f"EVENFOLD_RESULTS is a bucket ({protocol}://) and what speaks it is not installed; "
                f"pip install {package}."
            ) from None
        self._require_create_only()

    def result(self, key: str) -> Outcome | None:
        """Return the result that ``key`` names, with its files fetched; None where it is not there, or not whole."""
        content = self._get(f"results/{key}.json")
        return None if content is None else read(key, content, lambda text: _changed(text, self._fetched))

    def keep(self, key: str, value: Outcome) -> None:
        """Keep a result and the files that it names under ``key``; the result itself last."""
        self._put(f"results/{key}.json", written(key, value, lambda text: _changed(text, self._sent)))

    def fetch_splits(self, name: str) -> None:
        """Fetch every version of a split that is not here."""
        with self._reached():
            listed = self.store.find(f"{self.place}/splits/{name}")
        for place in listed:
            try:
                self._fetch_split(name, Path(place).stem)
            except LookupError as error:
                raise EvaluationError(
                    f"{self.url} holds a split that cannot be read: {error}; delete it there."
                ) from None

    def offer_split(self, folder: Path) -> bool:
        """Put a version of a split; return whether the bucket holds this decision under that version now."""
        packed, name = io.BytesIO(), f"splits/{folder.parent.name}/{folder.name}.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in sorted(path for path in folder.iterdir() if path.is_file()):
                archive.write(file, file.name)
        if self._put(name, packed.getvalue(), "create"):
            return True
        held = json.loads(zipfile.ZipFile(io.BytesIO(self._get(name) or b"")).read("manifest.json"))
        return other_identity(held, read_header(folder)) is None

    def take_back(self, folder: Path) -> None:
        """Remove a version of a split; what other machines have fetched of it they keep."""
        with self._reached(), suppress(FileNotFoundError):
            self.store.rm_file(f"{self.place}/splits/{folder.parent.name}/{folder.name}.zip")

    def _require_create_only(self) -> None:
        """Raise SplitError where an object can be put twice; tried once for each mirror."""
        mark = self.here / ".creates-only"
        if mark.exists():
            return
        name = f"probes/{uuid4().hex}"
        if not self._put(name, b"once", "create") or self._put(name, b"twice", "create"):
            raise SplitError(
                f"{self.url} overwrites an object that is there already, so two machines could decide one version of a "
                "split differently; set EVENFOLD_RESULTS to a bucket that refuses, or a folder that all machines see."
            )
        write_aside(mark, lambda aside: aside.write_bytes(b""))

    def _fetch_split(self, name: str, version: str) -> None:
        folder = self.here / "splits" / name / version
        if folder.exists():
            return
        content = self._get(f"splits/{name}/{version}.zip")
        if content is None:
            raise LookupError(f"{name} {version} is not there")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as aside:
            try:
                zipfile.ZipFile(io.BytesIO(content)).extractall(Path(aside, version))
            except zipfile.BadZipFile:
                raise LookupError(f"{name} {version} is no ZIP file") from None
            settle(Path(aside, version), folder)

    def _fetched(self, naming: Naming) -> Naming:
        if "uri" in naming:
            folder = self._inside(naming["uri"], in_splits=True)
            self._fetch_split(folder.parent.name, folder.name)
            return naming | {"uri": str(folder)}
        path = self._inside(naming["path"], in_splits=False)
        if not path.exists() or sha256(path) != naming["sha256"]:
            content = self._get(f"files/{naming['sha256']}")
            if content is None or hashlib.sha256(content).hexdigest() != naming["sha256"]:
                raise LookupError(naming["path"])
            write_aside(path, lambda aside: aside.write_bytes(content))
        return naming | {"path": str(path)}

    def _inside(self, name: Any, in_splits: bool) -> Path:
        """Return the place of the mirror that a result names: ``splits/NAME/VERSION`` of a split, elsewhere of a file.

        Raises LookupError for any other: whoever may write to the bucket wrote it, and what it names is written to.
        """
        parts = Path(str(name)).parts
        inside = isinstance(name, str) and ".." not in parts and not Path(name).is_absolute()
        if not inside or (parts[:1] == ("splits",)) != in_splits or (in_splits and len(parts) != 3):
            raise LookupError(f"it names {str(name)[:200]!r}, which is not the place of a result")
        return Path(self.here, name)

    def _sent(self, naming: Naming) -> Naming:
        where = "uri" if "uri" in naming else "path"
        if where == "path":
            self._put(f"files/{naming['sha256']}", Path(naming["path"]).read_bytes())
        return naming | {where: Path(naming[where]).relative_to(self.here).as_posix()}

    def _get(self, name: str) -> bytes | None:
        with self._reached():
            try:
                return bytes(self.store.cat_file(f"{self.place}/{name}"))
            except FileNotFoundError:
                return None

    def _put(self, name: str, content: bytes, mode: Literal["overwrite", "create"] = "overwrite") -> bool:
        """Put an object; return whether it was put: where ``mode`` is "create" not in the place of another."""
        with self._reached():
            try:
                self.store.pipe_file(f"{self.place}/{name}", content, mode=mode)
            except FileExistsError:
                return False
        return True

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of botocore, aiohttp or the file system, by what went wrong
            raise EvaluationError(
                f"{self.url} cannot be used ({type(error).__name__}: {error}); correct EVENFOLD_RESULTS, "
                "the endpoint (AWS_ENDPOINT_URL) or the credentials."
            ) from error


def _changed(text: bytes, change: Callable[[Naming], Naming]) -> bytes:
    """Return a result as JSON with every name of a file or a split changed, wherever it stands."""

    def hook(naming: Naming) -> Naming:
        return change(naming) if "uri" in naming or {"path", "sha256"} <= set(naming) else naming

    return json.dumps(json.loads(text, object_hook=hook)).encode()


R = TypeVar("R")
MOST_COMPARED = 200  # earlier ones, the newest


def kept(key: str, make: Callable[[], R], again: bool = False) -> tuple[R, bool]:
    """Return what is kept under ``key``, or make and keep it, one on a host at a time; and whether it was kept.

    ``again``: make it anew. The value is kept whole or, where this process is killed, not at all.
    """
    home = Home.here()
    home.make()
    # Looked for under the lock: whoever waited for another's computation finds its result.
    with locked(home.locks, key):
        earlier: object = None if again else ready(key)
        if earlier is not None:
            return earlier, True  # type: ignore[return-value]
        value = make()
        if isinstance(value, (FitResult, FinalModel)) and not key.endswith(f"/{value.key}"):
            raise EvaluationError("the data changed while they were evaluated; run the evaluation again.")
        if isinstance(value, Outcome):
            if bucket := bucket_of(home):
                bucket.keep(key, value)
            keep(key, value)
        return value, False


def ready(key: str) -> Outcome | None:
    """Return what is kept under ``key``, here or in the shared bucket; None where there is none to trust."""
    home, value = Home.here(), None
    with suppress(OSError):
        value = read(key, (home.results / key).read_bytes())
    if value is None and (bucket := bucket_of(home)) and (value := bucket.result(key)):
        keep(key, value)
    return value


def keep(key: str, value: Outcome) -> None:
    """Keep a result here under its key."""
    write_aside(Home.here().results / key, lambda aside: aside.write_bytes(written(key, value)))


def remember(preimage: Preimage) -> None:
    """Keep what results were made of, so that a later miss can say what differs; by its marks also in how many rows."""
    results = Home.here().results
    if not (results / preimage.key).exists():
        keep(preimage.key, preimage)
    if preimage.marks and not (results / preimage.key_of_marks).exists():
        keep(preimage.key_of_marks, preimage.marks())


def asked(folder: str) -> list[Preimage]:
    """Return what was remembered in a folder of preimages, the newest first."""
    files = sorted((Home.here().results / folder).glob("*"), key=lambda file: file.stat().st_mtime, reverse=True)
    preimages = (read(f"{folder}/{file.name}", file.read_bytes()) for file in files[:MOST_COMPARED])
    return [each for each in preimages if isinstance(each, Preimage)]


def nearest(preimage: Preimage) -> tuple[Preimage | None, list[str]]:
    """Return the earlier one of the same kind and name from which the least differs, and what does, in words."""
    pairs = [(each, differences(each.parts, preimage.parts)) for each in asked(preimage.folder)]
    earlier, words = min(pairs, key=lambda pair: len(pair[1]), default=(None, ["no earlier run"]))
    marks = preimage.marks
    before = ready(earlier.key_of_marks) if earlier and marks else None
    if earlier and marks and isinstance(before, Marks):
        words = differences(earlier.parts, preimage.parts, lambda names: before.changed(marks(), names))
    return earlier, words


_bucket = lru_cache(maxsize=2)(Bucket)


def bucket_of(home: Home) -> Bucket | None:
    """Return the bucket that ``EVENFOLD_RESULTS`` names; None where results lie in a folder, whoever shares it."""
    return _bucket(home.bucket, home.shared) if home.bucket else None


SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def age_of(text: str) -> int:
    """Return the seconds in ``30s``, ``30m``, ``12h``, ``30d`` or ``4w``; raises SplitError for anything else."""
    age = re.fullmatch(r"(\d+)([smhdw])", text.strip())
    if not age:
        raise SplitError(f"{text!r} is not an age; write a number and s, m, h, d or w, such as 30d.")
    return int(age[1]) * SECONDS[age[2]]


def clean(home: Home, older_than: int, dry_run: bool = False) -> list[int]:
    """Remove cached results, scores, data and model files that nobody wrote or read for ``older_than`` seconds.

    No manifests. Returns the bytes of each file that was removed, or with ``dry_run`` would be.
    """
    storage = home.path / "prefect" / "storage"  # what Prefect keeps of the same results
    places = (home.results, home.scores, home.shared / "models", home.data, storage)
    left = (home.path.glob(".writing-*"), (home.shared / "snapshots").glob(".writing-*"))  # but what a kill left there
    sizes = []
    for path in [each for each in chain(*(place.rglob("*") for place in places), *left) if each.is_file()]:
        status = path.stat()
        # Some systems do not note when files are read; then the time of writing is all there is.
        idle, is_half_written = time.time() - max(status.st_mtime, status.st_atime), path.name.startswith(".writing-")
        if idle > (min(older_than, SECONDS["d"]) if is_half_written else older_than):
            sizes.append(status.st_size)
            if not dry_run:
                path.unlink(missing_ok=True)
    return sizes

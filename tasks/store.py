"""Results by their content: computed once on a host, kept whole and signed, and checked before they are taken.

What machines share lies in a folder that all see, or in a bucket, of which the work here is done in a mirror.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Literal, TypeVar

from evenfold.manifests import digest_json
from evenfold.manifests.exchange.changes import differences
from evenfold.manifests.store.bucket import Bucket
from evenfold.manifests.tables.sketch import Sketch
from evenfold.splitters.errors import EvaluationError
from evenfold.splitters.times import SECONDS
from evenfold.tasks.outcomes import FinalModel, FitResult, Outcome, SplitAudit, SplitRef
from evenfold.tasks.runtime.home import Home, keep_file, locked
from evenfold.tasks.runtime.signing import NEW_KEY, is_signed, sign
from pydantic import Field


class Marks(Sketch, Outcome):
    """The sketch of the columns that results were made of, as it is kept."""


class Preimage(Outcome):
    """The facts that results of one ``kind`` depend on for a split: ``parts``, with what each column holds, as JSON.

    ``seconds``: of such a fit of ``n_train`` rows and its scores. ``marks`` makes what counts changed rows later.
    """

    kind: Literal["split", "fits", "audit", "record"]
    name: str
    parts: dict[str, Any]
    seconds: float = 0.0
    n_train: int = 1
    marks: Callable[[], Marks] | None = Field(default=None, exclude=True, repr=False)

    @property
    def folder(self) -> str:
        """Return the folder of its kind and name; frames that nobody named are named by their content."""
        return f"asked/{self.kind}/{'frame' if re.fullmatch('table-[0-9a-f]{8}', self.name) else self.name}"

    @property
    def key(self) -> str:
        """Return its own path."""
        return f"{self.folder}/{digest_json(self.parts)[:32]}"

    @property
    def key_of_marks(self) -> str:
        """Return where the marks of its columns are kept."""
        return f"marks/{digest_json({name: self.parts[name] for name in ('rows', 'columns')})[:32]}"


KINDS: dict[str, type[Outcome]] = {
    kind.__name__: kind for kind in (SplitRef, SplitAudit, FitResult, FinalModel, Preimage, Marks)
}


def written(key: str, value: Outcome) -> bytes:
    """Return a result as it is kept under ``key``."""
    text = value.model_dump_json().encode()
    claim = {"key": key, "kind": type(value).__name__, "sha256": hashlib.sha256(text).hexdigest()}
    return f"{claim['kind']} {claim['sha256']} {sign('result', claim)}\n".encode() + text


def read(key: str, content: bytes) -> Outcome | None:
    """Return the result that is kept as ``content`` under ``key``; whether it is intact is for whoever takes it.

    None where it is none of ours, of another version or damaged. That one is whole and not signed by this home or its
    team is said, once in a process.
    """
    head, _, text = content.partition(b"\n")
    kind, digest, signature, *_ = [*head.decode(errors="replace").split(" "), "", ""]
    if kind not in KINDS or hashlib.sha256(text).hexdigest() != digest:
        return None
    if not is_signed("result", {"key": key, "kind": kind, "sha256": digest}, [signature]):
        _warn_unsigned()
        return None
    with suppress(ValueError, RecursionError):
        return KINDS[kind].model_validate_json(text)
    return None


@cache
def _warn_unsigned() -> None:
    logging.getLogger("evenfold").warning(
        "Kept results that neither this home nor its team has signed are computed again. What machines share needs "
        "one EVENFOLD_SIGNING_KEY, such as %s prints.",
        NEW_KEY,
    )


R = TypeVar("R")


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
                for file in value.files:
                    bucket.put(f"files/{file.sha256}", file.path.read_bytes())
                bucket.put(f"results/{key}.json", written(key, value))  # last, when all that it names is there
            keep(key, value)
        return value, False


def ready(key: str) -> Outcome | None:
    """Return what is kept under ``key``, here or in the shared bucket; None where there is none to trust."""
    home = Home.here()
    with suppress(OSError):
        value = read(key, (home.results / key).read_bytes())
        if value is not None and value.intact():
            return value
    bucket = bucket_of(home)
    value = fetched(bucket, key) if bucket else None
    if value is not None:
        keep(key, value)
    return value


def fetched(bucket: Bucket, key: str) -> Outcome | None:
    """Return the result of a key from a bucket, with its files here; None where it is not there, or not whole."""
    content = bucket.get(f"results/{key}.json")
    value = None if content is None else read(key, content)
    for file in value.files if value else ():
        held = None if file.intact() else bucket.get(f"files/{file.sha256}")
        if held is not None and hashlib.sha256(held).hexdigest() == file.sha256:
            keep_file(file.path, held)
    return value if value is not None and value.intact() else None


def keep(key: str, value: Outcome) -> None:
    """Keep a result here under its key."""
    keep_file(Home.here().results / key, written(key, value))


def remember(preimage: Preimage) -> None:
    """Keep what results were made of, so that a later miss can say what differs; by its marks also in how many rows."""
    results = Home.here().results
    if not (results / preimage.key).exists():
        keep(preimage.key, preimage)
    if preimage.marks and not (results / preimage.key_of_marks).exists():
        keep(preimage.key_of_marks, preimage.marks())


def preimages_in(folder: str) -> list[Preimage]:
    """Return what was remembered in a folder of preimages, the newest first, at most 200."""
    dated: list[tuple[float, str, bytes]] = []
    for file in (Home.here().results / folder).glob("[!.]*"):
        with suppress(FileNotFoundError):  # cleaned meanwhile
            dated.append((file.stat().st_mtime, file.name, file.read_bytes()))
    preimages = (read(f"{folder}/{name}", content) for _, name, content in sorted(dated, reverse=True)[:200])
    return [each for each in preimages if isinstance(each, Preimage)]


def nearest(preimage: Preimage) -> tuple[Preimage | None, list[str]]:
    """Return the earlier one of the same kind and name from which the least differs, and what does, in words."""
    pairs = [(each, differences(each.parts, preimage.parts)) for each in preimages_in(preimage.folder)]
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


def clean(home: Home, older_than: int, dry_run: bool = False) -> list[int]:
    """Remove cached results, scores, data and model files that nobody wrote or read for ``older_than`` seconds.

    No manifests. Returns the bytes of each file that was removed, or with ``dry_run`` would be.
    """
    storage = home.path / "prefect" / "storage"  # what Prefect keeps of the same results
    places = (home.results, home.scores, home.shared / "models", home.data, storage)
    left = (home.path.glob(".writing-*"), home.snapshots.glob(".writing-*"))  # but what a kill left there
    sizes = []
    for path in [each for each in chain(*(place.rglob("*") for place in places), *left) if each.is_file()]:
        try:
            status = path.stat()
        except FileNotFoundError:  # somebody else's by now
            continue
        # Some systems do not note when files are read; then the time of writing is all there is.
        idle, is_half_written = time.time() - max(status.st_mtime, status.st_atime), path.name.startswith(".writing-")
        if idle > (min(older_than, SECONDS["day"]) if is_half_written else older_than):
            sizes.append(status.st_size)
            if not dry_run:
                path.unlink(missing_ok=True)
    return sizes

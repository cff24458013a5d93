"""Results by their content: computed once on a host, kept whole, and checked before they are taken.

What projects and machines share lies behind one protocol, in a folder or a bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.runtime.files import write_aside
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import locked

from .bucket import Bucket
from .marks import Marks, key_of_marks
from .preimages import Preimage, differences
from .written import read, written

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
        if isinstance(value, Outcome):
            results_of(home).keep(key, value)
            keep(key, value)
        return value, False


def ready(key: str) -> Outcome | None:
    """Return what is kept under ``key``, here or in the shared bucket; None where there is none to trust."""
    home = Home.here()
    try:
        value = read(key, (home.results / key).read_bytes())
    except OSError:
        value = None
    if value is None:
        value = results_of(home).result(key)
        if value is not None:
            keep(key, value)
    return value


def keep(key: str, value: Outcome) -> None:
    """Keep a result here under its key."""
    write_aside(Home.here().results / key, lambda aside: aside.write_bytes(written(key, value)))


def remember(preimage: Preimage, marks: Callable[[], Marks] | None = None) -> None:
    """Keep what results were made of, so that a later miss can say what differs; by ``marks`` also in how many rows."""
    results = Home.here().results
    if not (results / preimage.key).exists():
        keep(preimage.key, preimage)
    if marks and not (results / (key := key_of_marks(preimage.parts))).exists():
        keep(key, marks())


def asked(folder: str) -> list[Preimage]:
    """Return what was remembered in a folder of preimages, the newest first."""
    files = sorted((Home.here().results / folder).glob("*"), key=lambda file: file.stat().st_mtime, reverse=True)
    preimages = (read(f"{folder}/{file.name}", file.read_bytes()) for file in files[:MOST_COMPARED])
    return [each for each in preimages if isinstance(each, Preimage)]


def nearest(preimage: Preimage, marks: Callable[[], Marks] | None = None) -> tuple[Preimage | None, list[str]]:
    """Return the earlier one of the same kind and name from which the least differs, and what does, in words.

    ``marks``: of the rows of now, by which the words say in how many of them a column has changed.
    """
    pairs = [(each, differences(each.parts, preimage.parts)) for each in asked(preimage.folder)]
    earlier, words = min(pairs, key=lambda pair: len(pair[1]), default=(None, ["no earlier run"]))
    before = ready(key_of_marks(earlier.parts)) if earlier and marks else None
    if earlier and marks and isinstance(before, Marks):
        words = differences(earlier.parts, preimage.parts, lambda names: before.changed(marks(), names))
    return earlier, words


class Folder:
    """A folder that everybody sees, where what is here is there; and what any other storage must be able to do.

    Work is always done in a folder here; a storage fetches and keeps copies.
    """

    def result(self, key: str) -> Outcome | None:
        """Return the result that ``key`` names, with its files fetched; None where it is not there, or not whole."""
        return None

    def keep(self, key: str, value: Outcome) -> None:
        """Keep a result and the files that it names under ``key``."""

    def fetch_splits(self, name: str) -> None:
        """Fetch every version of a split that is not here."""

    def offer_split(self, folder: Path) -> bool:
        """Keep a version of a split, once; return whether the storage holds this decision under that version now."""
        return True

    def take_back(self, folder: Path) -> None:
        """Keep a version of a split no longer."""


def results_of(home: Home) -> Folder | Bucket:
    """Return the storage that ``EVENFOLD_RESULTS`` names: a URL is a bucket, anything else a folder."""
    return _bucket(home.bucket, home.shared) if home.bucket else Folder()


@lru_cache(maxsize=2)
def _bucket(url: str, mirror: Path) -> Bucket:
    return Bucket(url, mirror)

"""Where results lie that projects and machines share: behind one protocol, a folder or a bucket."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Protocol

from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.runtime.home import Home

from .bucket import Bucket


class Results(Protocol):
    """What a storage must be able to do. Work is always done in a folder here; it fetches and keeps copies."""

    def result(self, key: str) -> Outcome | None:
        """Return the result that ``key`` names, with its files fetched; None where it is not there, or not whole."""

    def keep(self, key: str, value: Outcome) -> None:
        """Keep a result and the files that it names under ``key``."""

    def fetch_splits(self, name: str) -> None:
        """Fetch every version of a split that is not here."""

    def offer_split(self, folder: Path) -> bool:
        """Keep a version of a split, once; return whether the storage holds this decision under that version now."""

    def take_back(self, folder: Path) -> None:
        """Keep a version of a split no longer."""


class Folder:
    """A folder that everybody sees: what is here is there."""

    def result(self, key: str) -> Outcome | None:
        """Return None: what is not here is nowhere."""
        return None

    def keep(self, key: str, value: Outcome) -> None:
        """Do nothing: it is kept already."""

    def fetch_splits(self, name: str) -> None:
        """Do nothing: every version is here."""

    def offer_split(self, folder: Path) -> bool:
        """Return True: it is here."""
        return True

    def take_back(self, folder: Path) -> None:
        """Do nothing: it is kept here alone."""


def results_of(home: Home) -> Results:
    """Return the storage that ``EVENFOLD_RESULTS`` names: a URL is a bucket, anything else a folder."""
    return _bucket(home.bucket, home.shared) if home.bucket else Folder()


@lru_cache(maxsize=2)
def _bucket(url: str, mirror: Path) -> Results:
    return Bucket(url, mirror)

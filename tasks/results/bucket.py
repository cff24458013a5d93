"""A bucket that machines share: what one has computed the others fetch, with no folder in common.

Work is done in a folder here; the bucket is asked for what is missing here, and given what is made here. Every object
is put whole. Files lie under the digest of their content, so that two machines which compute one result do no harm;
a version of a split is one object, which can be put only once. Only S3 and what speaks its protocol: others do not
all refuse to put an object twice.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenfold.estimates import EvaluationError
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Home

from .files import sha256, write_aside


class Bucket:
    """A folder of a bucket, and the folder here that mirrors it; EvaluationError where it cannot be reached.

    Raises SplitError where s3fs is not installed.
    """

    def __init__(self, url: str, here: Path) -> None:
        self.url = url.rstrip("/")
        self.here = here
        self.place = self.url.partition("://")[2]
        self.store = _store()

    def result(self, key: str) -> Any:
        """Return the result that ``key`` names, with its files fetched; None where it is not there, or not whole."""
        text = self._get(f"results/{key}.json")
        try:
            return None if text is None else _changed(json.loads(text), self._fetched)
        except LookupError:
            return None

    def keep(self, key: str, value: Any) -> None:
        """Keep a result and the files that it names under ``key``; the result itself last."""
        self._put(f"results/{key}.json", json.dumps(_changed(value, self._sent)).encode())

    def fetch_splits(self, name: str) -> None:
        """Fetch every version of a split that is not here."""
        with self._reached():
            listed = self.store.find(f"{self.place}/splits/{name}")
        for each in listed:
            self._fetch_split(name, Path(each).stem)

    def offer_split(self, folder: Path, split_id: str) -> bool:
        """Put a version of a split; return whether the bucket holds this split under that version now."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as made:
            for file in sorted(path for path in folder.iterdir() if path.is_file()):
                made.write(file, file.name)
        name = f"{self.place}/splits/{folder.parent.name}/{folder.name}.zip"
        with self._reached():
            try:
                self.store.pipe_file(name, packed.getvalue(), mode="create", Metadata={"split-id": split_id})
            except FileExistsError:
                return bool(self.store.metadata(name, refresh=True).get("split-id") == split_id)
        return True

    def _fetch_split(self, name: str, version: str) -> None:
        folder = self.here / "splits" / name / version
        if folder.exists():
            return
        content = self._get(f"splits/{name}/{version}.zip")
        if content is None:
            raise LookupError(f"{name} {version}")
        aside = folder.parent / f".fetching-{uuid4().hex}"
        try:
            zipfile.ZipFile(io.BytesIO(content)).extractall(aside)
            aside.rename(folder)
        except FileExistsError:  # another process was first
            pass
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _fetched(self, named: dict[str, Any]) -> dict[str, Any]:
        if "uri" in named:
            self._fetch_split(*Path(named["uri"]).parts[-2:])
            return named | {"uri": str(self.here / named["uri"])}
        path = self.here / named["file"]
        if not path.exists() or sha256(path) != named["sha256"]:
            content = self._get(f"files/{named['sha256']}")
            if content is None:
                raise LookupError(named["file"])
            write_aside(path, lambda aside: aside.write_bytes(content))
        return named | {"file": str(path)}

    def _sent(self, named: dict[str, Any]) -> dict[str, Any]:
        where = "uri" if "uri" in named else "file"
        if where == "file":
            self._put(f"files/{named['sha256']}", Path(named["file"]).read_bytes())
        return named | {where: Path(named[where]).relative_to(self.here).as_posix()}

    def _get(self, name: str) -> bytes | None:
        with self._reached():
            try:
                return bytes(self.store.cat_file(f"{self.place}/{name}"))
            except FileNotFoundError:
                return None

    def _put(self, name: str, content: bytes) -> None:
        with self._reached():
            self.store.pipe_file(f"{self.place}/{name}", content)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of botocore, aiohttp or the file system, by what went wrong
            raise EvaluationError(
                f"{self.url} cannot be used ({type(error).__name__}: {error}); correct EVENFOLD_RESULTS, "
                "AWS_ENDPOINT_URL or the credentials."
            ) from error


def bucket_of(home: Home) -> Bucket | None:
    """Return the bucket that ``EVENFOLD_RESULTS`` names, if it names one."""
    return _bucket(home.bucket, home.shared) if home.bucket else None


@lru_cache(maxsize=2)
def _bucket(url: str, here: Path) -> Bucket:
    return Bucket(url, here)


def _store() -> Any:
    try:
        import fsspec

        return fsspec.filesystem("s3", use_listings_cache=False)
    except ImportError:
        raise SplitError(
            "EVENFOLD_RESULTS is a bucket and s3fs is not installed; pip install 'evenfold[s3]'."
        ) from None


def _changed(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a result with what names a file or a split changed, wherever it stands."""
    if not isinstance(value, dict):
        return value
    inside = {name: _changed(each, change) for name, each in value.items()}
    return change(inside) if "uri" in inside or {"file", "sha256"} <= set(inside) else inside

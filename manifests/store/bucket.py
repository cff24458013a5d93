"""A bucket that machines share: objects by name, and the versions of splits, of which a folder here is the mirror."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from evenfold.splitters.errors import EvaluationError, SplitError

from .header import other_identity, read_header
from .stored import settle


class Bucket:
    """A folder of a bucket, and the folder here that mirrors its splits; EvaluationError where it cannot be reached.

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
        mark, name = self.here / ".creates-only", f"probes/{uuid4().hex}"
        if not mark.exists():  # tried once for each mirror
            if not self.put(name, b"once", "create") or self.put(name, b"twice", "create"):
                raise SplitError(
                    f"{self.url} overwrites an object that is there already, so two machines could decide one version "
                    "of a split differently; set EVENFOLD_RESULTS to a bucket that refuses, or a folder that all "
                    "machines see."
                )
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()

    def fetch_splits(self, name: str) -> None:
        """Fetch every version of a split that is not here."""
        with self._reached():
            listed = self.store.find(f"{self.place}/splits/{name}")
        for version in (Path(place).stem for place in listed):
            folder = self.here / "splits" / name / version
            content = None if folder.exists() else self.get(f"splits/{name}/{version}.zip")
            if content is None:  # it is here, or was taken back meanwhile
                continue
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as aside:
                try:
                    zipfile.ZipFile(io.BytesIO(content)).extractall(Path(aside, version))
                except zipfile.BadZipFile:
                    what = f"a split that cannot be read: {name} {version} is no ZIP file"
                    raise EvaluationError(f"{self.url} holds {what}; delete it there.") from None
                settle(Path(aside, version), folder)

    def offer_split(self, folder: Path) -> bool:
        """Put a version of a split; return whether the bucket holds this decision under that version now."""
        packed, header = io.BytesIO(), read_header(folder)
        name = f"splits/{header['name']}/{header['version']}.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in ("manifest.json", *(each["path"] for each in header["files"])):
                archive.write(folder / file, file)
        if self.put(name, packed.getvalue(), "create"):
            return True
        held = json.loads(zipfile.ZipFile(io.BytesIO(self.get(name) or b"")).read("manifest.json"))
        return other_identity(held, header) is None

    def take_back(self, folder: Path) -> None:
        """Remove a version of a split; what other machines have fetched of it they keep."""
        with self._reached(), suppress(FileNotFoundError):
            self.store.rm_file(f"{self.place}/splits/{folder.parent.name}/{folder.name}.zip")

    def get(self, name: str) -> bytes | None:
        """Return an object; None where there is none."""
        with self._reached():
            try:
                return bytes(self.store.cat_file(f"{self.place}/{name}"))
            except FileNotFoundError:
                return None

    def put(self, name: str, content: bytes, mode: Literal["overwrite", "create"] = "overwrite") -> bool:
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

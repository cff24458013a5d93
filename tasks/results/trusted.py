"""Results that somebody else may have written: nothing in them is imported or called that is not a result of ours.

Prefect's own reading imports what a file names: the class of the result, the serializer that it says it was written
with and that serializer's functions, a pickle among them. Whoever may write to shared results would run code with
everybody who reads them. Here a result is looked at as plain JSON first.
"""

from __future__ import annotations

import json
from typing import Any

from evenfold.splitters import EvenfoldError
from evenfold.tasks import outcomes
from evenfold.tasks.outcomes import Outcome
from prefect.filesystems import LocalFileSystem
from prefect.serializers import JSONSerializer


class ForgedResultError(EvenfoldError, ValueError):
    """A result that is none of ours, whoever wrote it."""


def check_result(text: bytes) -> None:
    """Raise ForgedResultError unless ``text`` is JSON in which every class that is named is one of our outcomes."""
    try:
        json.loads(text, object_hook=_plain)
    except (ValueError, RecursionError) as error:
        raise ForgedResultError(f"this is not a result of evenfold's: {error}") from None


def _plain(read: dict[str, object]) -> dict[str, object]:
    room, _, name = str(read.get("__class__", "")).rpartition(".")
    kind = vars(outcomes).get(name) if room == outcomes.__name__ else None
    ours = isinstance(kind, type) and issubclass(kind, Outcome)
    if ("__class__" in read and not ours) or "__exc_type__" in read:
        raise ForgedResultError(f"it names {read.get('__class__', read.get('__exc_type__'))!r}")
    return read


def check_record(content: bytes) -> None:
    """Raise ForgedResultError unless a file of Prefect's holds a result of ours, as our tasks have it written."""
    try:
        record = json.loads(content)
        written_by, result = record["metadata"]["serializer"], record["result"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ForgedResultError("this is not the record of a result") from None
    if written_by != JSONSerializer().model_dump(mode="json") or not isinstance(result, str):
        raise ForgedResultError(f"it was written by {str(written_by)[:200]}")
    check_result(result.encode())


class ResultFolder(LocalFileSystem):
    """A folder of results whose files are looked at each time before Prefect makes objects of them."""

    _block_type_name = "evenfold results"
    _block_type_slug = "evenfold-results"

    async def aread_path(self, path: str) -> bytes:
        """Return a file's content; raises ForgedResultError where it is no result of ours."""
        return _checked(await super().aread_path(path))

    def read_path(self, path: str, **how: Any) -> bytes:  # type: ignore[override]
        """Return a file's content; raises ForgedResultError where it is no result of ours."""
        content: Any = super().read_path(path, **how | {"_sync": True})
        return _checked(content)


def _checked(content: bytes) -> bytes:
    check_record(content)
    return content

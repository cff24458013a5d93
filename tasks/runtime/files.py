"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.estimates import EvaluationError, ModelError
from evenfold.manifests import read_table
from evenfold.manifests.tables.addresses import from_everywhere
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import is_address

from .home import Home

# Frames, their files, and whether these were written for them.
_NAMED: ContextVar[list[tuple[Any, Path, bool]] | None] = ContextVar("evenfold_named", default=None)


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f".writing-{uuid4().hex}{path.suffix}"
    try:
        write(aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def parquet_bytes(table: pa.Table, **options: Any) -> memoryview:
    """Return the content of a Parquet file of ``table``, of which a name or digest is made without reading it again."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    return memoryview(sink.getvalue())


def rename_unless_there(aside: Path, folder: Path) -> None:
    """Put a complete folder in its place, where no other process was first with the same one."""
    try:
        aside.rename(folder)
    except OSError:  # "exists" or "not empty", by the system
        if not folder.exists():
            raise


@contextmanager
def room(home: Home) -> Iterator[None]:
    """Say in a sentence that a disk is full, whatever met it first: raises EvaluationError instead of its error."""
    try:
        yield
    except (EvaluationError, SplitError):  # not a gate or a model that failed for want of room: that is the news
        raise
    except Exception as error:
        cause: BaseException | None = error
        # Libraries wrap what the system said; `raise ... from None` leaves it as the context alone.
        while cause is not None and not (
            (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT))
            or any(words in str(cause) for words in _FULL)
        ):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise EvaluationError(
            f"no space is left, or the disk refuses to write, for {home.path}, {home.shared} or {home.tracking_uri}; "
            "make some (evenfold clean --older-than 30d) and run it again: what was finished is kept."
        ) from error


_FULL = ("disk is full", "No space left on device", "disk I/O error")  # as SQLite says it, in words only


def from_anywhere(data: str) -> str:
    """Return a path or address that means the same in a worker with another working directory; "" is none anywhere."""
    return from_everywhere(data) if is_address(data) else data and os.path.abspath(data)


def data_reference(data: Any, home: Home) -> str:
    """Return a path that names ``data``: a path as it is, a frame as a Parquet file below the home, by content.

    A file that is there already is not written again, nor does its time of writing move: what was kept of it counts.
    ``evenfold clean`` removes those that nobody read for long.
    """
    if isinstance(data, (str, Path)):
        return str(data)
    frames = _NAMED.get()
    for frame, path, _ in frames or ():
        if frame is data and path.parent == home.data and path.exists():
            return str(path)
    content = parquet_bytes(read_table(data).replace_schema_metadata(None))
    path = home.data / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    is_new = not os.path.exists(path)
    if is_new:
        home.make()
        write_aside(path, lambda aside: aside.write_bytes(content))
    if frames is not None:
        frames.append((data, path, is_new))
    return str(path)


@contextmanager
def naming_once() -> Iterator[None]:
    """Let a frame be named once inside the block, and by what is submitted there: each time costs as much as a file.

    Files that were written for the outermost block go where it ends in a refusal, whose sentence says "the table".
    """
    outer = _NAMED.get()
    token = _NAMED.set(frames := [] if outer is None else outer)
    try:
        yield
    except (SplitError, ModelError) as error:
        for _, path, _ in frames:
            error.args = (str(error).replace(str(path), "the table"),)
        for path in [path for _, path, is_new in frames if is_new] if outer is None else ():
            path.unlink(missing_ok=True)
            for folder in (path.parent, path.parent.parent):
                with suppress(OSError):  # there is more in it
                    folder.rmdir()
        raise
    finally:
        _NAMED.reset(token)

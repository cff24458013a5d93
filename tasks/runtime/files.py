"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.estimates import EvaluationError, ModelError
from evenfold.manifests import read_table
from evenfold.manifests.tables.read import from_everywhere
from evenfold.splitters import SplitError
from evenfold.splitters.untrusted import is_address

from .home import Home
from .progress import causes


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
        if not any(map(_is_full, causes(error))):
            raise
        raise EvaluationError(
            f"no space is left, or the disk refuses to write, for {home.path}, {home.shared} or {home.tracking_uri}; "
            "make some (evenfold clean --older-than 30d) and run it again: what was finished is kept."
        ) from error


def _is_full(error: BaseException) -> bool:
    by_number = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    # As SQLite says it, in words only.
    return by_number or re.search("disk is full|No space left on device|disk I/O error", str(error)) is not None


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
    content = parquet_bytes(read_table(data).replace_schema_metadata(None))
    path = home.data / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    if not path.exists():
        home.make()
        write_aside(path, lambda aside: aside.write_bytes(content))
    return str(path)


@contextmanager
def frames_are_tables() -> Iterator[None]:
    """Have what is refused inside the block say "the table" of a frame's file, which nobody has named."""
    try:
        yield
    except (SplitError, ModelError) as error:
        of_a_frame = rf"{re.escape(str(Home.here().data))}/[0-9a-f]{{32}}\.parquet"
        error.args = (re.sub(of_a_frame, "the table", str(error)),)
        raise

"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.estimates import EvaluationError
from evenfold.manifests import read_table
from evenfold.manifests.tables.addresses import from_everywhere, is_address
from evenfold.splitters import SplitError

from .home import Home
from .shared import Lock

# Of threads. Between processes moments are left: before the deletion, and where two write one new frame at once.
_NAMING = Lock()
TICK_SECONDS = 0.1  # the clocks of file systems tick far more often
Named = dict[int, tuple[Any, Path, int | None]]  # frames by id, their files, and when these were written here
_ONCE: ContextVar[Named | None] = ContextVar("evenfold_named_once", default=None)


def write_aside(path: Path, write: Callable[[Path], Any], put: Callable[[Path, Path], Any] = os.replace) -> None:
    """Let ``write`` fill a file beside ``path``, then ``put`` it in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f".writing-{uuid4().hex}{path.suffix}"
    try:
        write(aside)
        put(aside, path)
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
        if not is_full(error):
            raise
        raise EvaluationError(
            f"no space is left for {home.path}, {home.shared} or {home.tracking_uri}; make some (evenfold clean "
            "--older-than 30d) and run it again: what was finished is kept."
        ) from error


def is_full(error: BaseException | None) -> bool:
    """Return whether an error comes from a disk that is full; SQLite says so in words only."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "disk is full" in str(error) or "No space left on device" in str(error):
            return True
        # Libraries wrap what the system said; `raise ... from None` leaves it as the context alone.
        error = error.__cause__ or error.__context__
    return False


def set_aside(folder: Path) -> None:
    """Move a damaged folder out of the way, and keep what is in it."""
    place = folder.parent / f".damaged-{uuid4().hex[:8]}"
    place.mkdir()
    folder.rename(place / folder.name)


def from_anywhere(data: str) -> str:
    """Return a path or address that means the same in a worker with another working directory; "" is none anywhere."""
    return from_everywhere(data) if is_address(data) else data and os.path.abspath(data)


def data_reference(data: Any, home: Home) -> str:
    """Return a path that names ``data``: a path as it is, a frame as a Parquet file below the home, by content.

    A file that is there already is not written again, nor does its time of writing move: what was kept of it counts.
    """
    return str(data) if isinstance(data, (str, Path)) else _named(data, home)[0]


def _named(frame: Any, home: Home) -> tuple[str, int | None]:
    """Return the path of a frame's file, and if it was written here when its entry was changed.

    Threads wait for one another only while they look whether it is there, and put it there.
    """
    once = _ONCE.get()
    known = once.get(id(frame)) if once else None
    if known is not None and known[1].parent == home.data and known[1].exists():
        return str(known[1]), None
    content, written = parquet_bytes(read_table(frame).replace_schema_metadata(None)), list[int | None]()

    def put(aside: Path, path: Path) -> None:
        with _NAMING.held():  # else two that both find it new would each take it for their own
            try:
                _claim(path)
                aside.unlink()
            except FileNotFoundError:
                os.replace(aside, path)
                written.append(_changed(path))

    path = home.data / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    try:
        with _NAMING.held():
            _claim(path)  # somebody else's, who leaves it to us by this
    except FileNotFoundError:
        home.make()
        write_aside(path, lambda aside: aside.write_bytes(content), put)
    changed = next(iter(written), None)
    if once is not None:
        once[id(frame)] = frame, path, changed  # with the frame itself, so that its id is no other's
    return str(path), changed


@contextmanager
def naming_once() -> Iterator[Named]:
    """Let a frame be named once inside the block, and by what is submitted there: each time costs as much as a file.

    Where the outermost block fails, nothing is left of the files written in it, as after ``asking``. It yields these,
    to ``forget`` where what was begun in it fails without an error there.
    """
    once = _ONCE.get()
    named: Named = {}
    token = _ONCE.set(named if once is None else once)
    try:
        yield named
    except BaseException:
        forget(written_in(named))
        raise
    finally:
        _ONCE.reset(token)


def written_in(named: Named) -> list[tuple[Path, int | None]]:
    """Return the files in ``named``, without the frames, which nobody is to hold because of them."""
    return [(path, written) for _, path, written in list(named.values())]  # a task's thread may add to them


def forget(files: list[tuple[Path, int | None]]) -> None:
    """Remove the files of frames that were written for what has failed, where nobody else has named them since."""
    for path, written in files:
        _take_back(path, written)


@contextmanager
def asking(data: Any, home: Home) -> Iterator[str]:
    """Yield a path that names ``data``; where the block refuses them, nothing is left of a frame's file.

    Unless somebody else has named the same frame meanwhile: by its content the file is theirs too.
    """
    made = [folder for folder in (home.data, home.path, *home.path.parents) if not folder.exists()]
    path, written = (str(data), None) if isinstance(data, (str, Path)) else _named(data, home)
    try:
        yield path
    except BaseException:
        _take_back(Path(path), written)
        with suppress(OSError):  # others may have written there meanwhile
            for folder in made:
                folder.rmdir()
        raise


def _take_back(path: Path, written: int | None) -> None:
    """Remove a frame's file that was written here, where nobody else has named it since."""
    with _NAMING.held():
        if written is not None and _changed(path) == written:
            path.unlink(missing_ok=True)


def _claim(path: Path) -> None:
    """Move when the file's entry, not its content, was last changed; raises FileNotFoundError where there is none.

    That time moves when a file is touched or renamed, but not when it is read, as its maker does.
    """
    before, until = path.stat(), time.monotonic() + TICK_SECONDS
    while path.stat().st_ctime_ns == before.st_ctime_ns and time.monotonic() < until:
        try:
            os.utime(path, ns=(time.time_ns(), before.st_mtime_ns))
        except PermissionError:  # another user's, who alone may take it back
            return


def _changed(path: str | Path) -> int | None:
    with suppress(OSError):
        return os.stat(path).st_ctime_ns
    return None

"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
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

if sys.platform != "win32":  # where every file of a frame stays
    import fcntl

MOST_HELD = 200  # files of frames in one block, for a process may open a thousand
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
            f"no space is left, or the disk refuses to write, for {home.path}, {home.shared} or {home.tracking_uri}; "
            "make some (evenfold clean --older-than 30d) and run it again: what was finished is kept."
        ) from error


_FULL = ("disk is full", "No space left on device", "disk I/O error")


def is_full(error: BaseException | None) -> bool:
    """Return whether an error comes from a disk that is full or takes no more; SQLite says so in words only."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(error) for words in _FULL):
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
    if isinstance(data, (str, Path)):
        return str(data)
    once = _ONCE.get()
    known = next((use for use in once or () if use.frame is data), None)
    if known is not None and known.path.parent == home.data and known.path.exists():
        return str(known.path)
    content = parquet_bytes(read_table(data).replace_schema_metadata(None))
    use = _placed(home, f"{hashlib.sha256(content).hexdigest()[:32]}.parquet", content)
    if once is None or len(once) >= MOST_HELD:
        use.end(needed=True)
    if once is not None:
        use.frame = data  # itself, so that it is found again
        once.append(use)
    return str(use.path)


@dataclass
class _Use:
    """A file of a frame that nobody may need yet, held through its mark: who holds it last and needs it not removes it.

    Whoever dies holds nothing any more. What has no mark is needed, and stays.
    """

    path: Path
    hold: int | None = None  # the mark, open and locked together with whoever else uses the file; None: it stays
    frame: Any = None
    process: int = field(default_factory=os.getpid)

    def end(self, needed: bool = False, leave: bool = False) -> None:
        """Hold the file no longer: where nobody else does, it is removed, unless ``needed``, or left to who is next."""
        hold, self.hold = self.hold, None
        if sys.platform == "win32" or hold is None:
            return
        entered = self.process == os.getpid()  # not in a fork, which only leaves the block
        try:
            if needed:
                _unmark(self.path)
            elif entered and not leave:
                self._remove(hold)
        finally:
            if entered:
                fcntl.flock(hold, fcntl.LOCK_UN)
            os.close(hold)

    def _remove(self, hold: int) -> None:
        with suppress(OSError), _alone(self.path.parent):
            fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)  # where others hold it, it stays
            if os.fstat(hold).st_nlink:  # nothing needs it
                self.path.unlink(missing_ok=True)
                _mark(self.path).unlink()


def _mark(path: Path) -> Path:
    return path.with_suffix(".new")


def _unmark(path: Path) -> None:
    """Let the file of a frame stay."""
    with suppress(OSError):
        if _mark(path).exists():
            with _alone(path.parent):
                _mark(path).unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    """Let one at a time make and remove marks in a folder, which it yields open."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        try:
            yield opened
        finally:
            fcntl.flock(opened, fcntl.LOCK_UN)  # closed, it would stay locked by a process that was forked meanwhile
    finally:
        os.close(opened)


def _placed(home: Home, name: str, content: memoryview) -> _Use:
    """Return the file of a frame, written where it is not there; held until it is needed.

    The mark comes before the file and goes after it: without a mark, a file that is there is needed.
    """
    path = home.data / name
    use = _Use(path, _held(path, home))
    try:
        if not os.path.exists(path):
            home.make()
            write_aside(path, lambda aside: aside.write_bytes(content))
    except BaseException:
        use.end()
        raise
    return use


def _held(path: Path, home: Home) -> int | None:
    """Return the mark of a file, open and locked together with others; None where the file stays, or nothing locks."""
    if sys.platform == "win32":
        return None
    try:
        with _alone(path.parent) as folder:
            # In the folder that is locked: another one may be in its place by now.
            there, marked = (os.access(file.name, os.F_OK, dir_fd=folder) for file in (path, _mark(path)))
            if there and not marked:
                return None
            hold = os.open(_mark(path).name, os.O_RDONLY | os.O_CREAT, 0o666, dir_fd=folder)
            fcntl.flock(hold, fcntl.LOCK_SH)
            return hold
    except FileNotFoundError:  # not made yet, or gone with whoever made it and was refused
        home.make()
        with suppress(FileNotFoundError, FileExistsError):  # it went again
            path.parent.mkdir(exist_ok=True)
        return _held(path, home)
    except OSError:  # without the right to it, or on a file system without locks
        return None


class Named(list[_Use]):
    """The frames that are named inside a block, with their files."""

    def end(self, leave: bool = False) -> None:
        """Hold none of the files any longer."""
        while self:
            self.pop().end(leave=leave)


@contextmanager
def naming_once(leave: bool = False) -> Iterator[Named]:
    """Let a frame be named once inside the block, and by what is submitted there: each time costs as much as a file.

    When the outermost block ends, files that nothing has ``needed`` and nobody else uses are removed; ``leave``: only
    where it fails.
    """
    once, named, well = _ONCE.get(), Named(), False
    token = _ONCE.set(named if once is None else once)
    try:
        yield named
        well = True
    finally:
        _ONCE.reset(token)
        named.end(leave=leave and well)


def needed(*values: object) -> None:
    """Say that what has succeeded needs the files of these frames, or at these paths: they stay."""
    paths = {Path(value) for value in values if isinstance(value, (str, Path))}
    named = {use.path for use in list(_ONCE.get() or ()) if any(use.frame is value for value in values)}
    data = Home.here().data
    for path in named | {path for path in paths if path.parent == data}:  # which a flow has named for the task
        _unmark(path)


@contextmanager
def asking(data: Any, home: Home, accepted: bool = True) -> Iterator[str]:
    """Yield a path that names ``data``; where the block refuses them, nothing is left of a frame's file.

    Unless somebody else needs or uses the same frame: by its content the file is theirs too. ``accepted``: what does
    not refuse them needs them.
    """
    made = [folder for folder in (home.data, home.path, *home.path.parents) if not os.path.exists(folder)]
    try:
        with naming_once():
            path = data_reference(data, home)
            yield path
            if accepted:
                needed(data, path)
    except BaseException:
        with suppress(OSError):  # others may have written there meanwhile
            for folder in made:
                folder.rmdir()
        raise

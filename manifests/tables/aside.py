"""Files that appear whole or not at all: written aside, where no reader takes them for rows; and plain ones, read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    import pandas as pd


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in place at once; nothing is left of it where it fails."""
    # In the same folder: only within one file system is a rename at once.
    aside = path.with_name(f".writing-{uuid4().hex}{path.suffix}")
    try:
        write(aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def is_aside(name: str) -> bool:
    """Return whether what lies at ``name`` below a folder is no rows of it, as Spark and pyarrow have it: .a, or _a."""
    return any(part.startswith((".", "_")) for part in name.split("/"))


def parquet_bytes(table: Any, **options: Any) -> memoryview:
    """Return the content of a Parquet file of ``table``, of which a name or digest is made without reading it again."""
    import pyarrow as pa  # which whoever writes bytes does without
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd", **options)
    return memoryview(sink.getvalue())


def frame_of(files: Iterable[str | Path]) -> pd.DataFrame:
    """Return the tables in Parquet files as one, which is empty where there is none."""
    import pandas as pd
    from pyarrow import parquet

    frames: list[pd.DataFrame] = []
    for file in files:
        # pandas would make a data set of the file first, which takes as long as to read the predictions of a fold.
        with parquet.ParquetFile(file) as opened:
            frames.append(opened.read().to_pandas())
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def read_plain(path: Path, private: bool = False) -> bytes:
    """Return the bytes of a plain file, which no link names; OSError where others may touch one that is ``private``."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no plain file")
        if private and os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise OSError(0, f"others may read or write it, mode {status.st_mode & 0o777:o}; it must be 600")
        return file.read()


def read_exactly(path: Path, sha256: str) -> bytes | None:
    """Return the bytes of a plain file that has this digest; None for any other."""
    try:
        content = read_plain(path)
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None

"""Files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests import read_table

from ._home import Home


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".writing-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        write(Path(name))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def from_anywhere(data: str) -> str:
    """Return a path that means the same in a worker with another working directory; URLs stay as they are."""
    return data if "://" in data else os.path.abspath(data)


def data_reference(data: Any, home: Home) -> str:
    """Return a path that names ``data``: a path as it is, a frame as a Parquet file below the home, by content."""
    if isinstance(data, (str, Path)):
        return str(data)
    table = read_table(data).replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = memoryview(sink.getvalue())
    path = home.data / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    if not path.exists():
        write_aside(path, lambda aside: aside.write_bytes(content))
    return str(path)

"""The one place where files for others are written: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from evenfold.splitters import SplitError


def write_whole(path: str | Path, content: Any) -> Path:
    """Write an array (.npy), an Arrow table (.csv or .parquet) or text to ``path`` and return it.

    The file is written aside and renamed, so that a reader never sees half of it. Raises SplitError for a table with
    another suffix, and where the file cannot be written; nothing is left behind then.
    """
    file = Path(path)
    if isinstance(content, pa.Table) and file.suffix not in (".csv", ".parquet"):
        raise SplitError(f"{file.name} ends in {file.suffix or 'no suffix'!r}; write to .parquet or .csv.")
    aside = file.with_name(f".writing-{os.getpid()}-{file.name}")
    try:
        _write(aside, content)
        os.replace(aside, file)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error  # Arrow's own texts repeat the path
        raise SplitError(f"{file} cannot be written ({reason}); nothing was changed.") from None
    finally:
        aside.unlink(missing_ok=True)
    return file


def _write(file: Path, content: Any) -> None:
    if isinstance(content, str):
        file.write_text(content, encoding="utf-8")
    elif isinstance(content, np.ndarray):
        np.save(file, content, allow_pickle=False)
    elif file.suffix == ".csv":
        pa.csv.write_csv(content, file)
    else:
        pq.write_table(content.replace_schema_metadata(None), file, compression="zstd")

"""The one place where data are found and read: files by their ending, addresses, and frames."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import is_address, is_deployed, require_readable

from .addresses import files_here, is_aside, opened
from .csv_files import CsvFiles
from .frames import Frame, stream_of
from .source import ParquetFiles, Source

ENDINGS = {".parquet": "Parquet", ".pq": "Parquet"} | {
    f"{ending}{packed}": "CSV" for ending in (".csv", ".tsv", ".txt") for packed in ("", ".gz")
}
BLOCK_ROWS = 100_000
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def source_of(data: Any, types: Mapping[str, str] | None = None) -> Source:
    """Return what ``data`` are as a table that can be read whole or in batches; no row of files is read yet.

    ``data``: a Parquet or CSV file, folder or glob, also behind ``s3://`` and other addresses that fsspec knows; a
    DuckDB table as ``duckdb:///folder/file.db#table``; a DuckDB relation; a lazy frame of polars; a DataFrame of Dask
    or Spark; any frame. ``types`` says how a CSV's text is to be understood.
    Raises SplitError for a file that is absent, empty or of another kind, and for files of two kinds.
    """
    if isinstance(data, Source):
        return data
    if is_address(data):
        return opened(data)
    if not isinstance(data, (str, Path)):
        return stream_of(data) or Frame(data)
    files = data_files(data)
    if odd := [file for file in files if not _kind(file)]:
        raise _no_table(odd[0])
    kinds = sorted({str(_kind(file)) for file in files})
    if len(kinds) > 1:
        raise SplitError(f"{data} holds {len(files)} files, {' and '.join(kinds)}; name files of one kind.")
    if kinds == ["Parquet"]:
        return ParquetFiles(str(data), list(map(str, files)))
    return CsvFiles(str(data), files, types or {})


def read_table(source: Any, columns: Iterable[str] | None = None, types: Mapping[str, str] | None = None) -> pa.Table:
    """Return ``source`` as an Arrow table: a Parquet or CSV file, a folder or glob of them, an address, or any frame.

    Only ``columns`` are read where a file allows it; several files must have the same columns. ``types`` says how a
    CSV's text is to be understood. A pandas index is a column where it has a name.
    Raises SplitError for a file that is absent, empty or unreadable, and for absent columns.
    """
    return source_of(source, types).table(columns)


def column_names(source: Any) -> list[str]:
    """Return the names of the columns that ``read_table`` finds in ``source``."""
    return source_of(source).names


def data_files(source: str | Path) -> list[Path]:
    """Return the files that a path, folder or glob stands for, sorted; SplitError where there are none."""
    if not str(source):  # which would be the working folder
        raise SplitError("'' names no file; pass a Parquet or CSV file, a folder or a glob of them.")
    path = Path(source)
    require_readable([path])  # before anything is told of what lies there or beside it
    places = [path] if path.exists() or not glob.has_magic(str(source)) else sorted(map(Path, glob.glob(str(source))))
    files = [file for place in places for file in (_inside(place) if place.is_dir() else [place])]
    require_readable(files)
    if not files or not all(file.exists() for file in files):
        raise SplitError(f"there is no file {source}{'' if is_deployed() else _beside(path)}.")
    return files


def _inside(folder: Path) -> list[Path]:
    tables = filter(_kind, folder.rglob("*"))
    files = sorted(file for file in tables if not is_aside(file.relative_to(folder).as_posix()))
    if not files:
        raise SplitError(f"the folder {folder} holds no .parquet and no .csv file; pass one that does.")
    return files


def _beside(path: Path) -> str:
    if not path.parent.exists():
        return f", and no folder {path.parent}"
    names = sorted(file.name for file in path.parent.iterdir() if _kind(file))
    near = difflib.get_close_matches(path.name, names, n=3) or names[:5]
    return f"; beside it are {', '.join(near)}" if near else ""


def _kind(file: Path) -> str | None:
    """Return Parquet or CSV, by what a file's name ends in (below a .gz); None of any other."""
    return ENDINGS.get("".join(file.suffixes[-2:] if file.suffix.lower() == ".gz" else file.suffixes[-1:]).lower())


def _no_table(file: Path) -> SplitError:
    if file.suffix.lower() in SPREADSHEETS:
        return SplitError(
            f"{file} is a spreadsheet; save the sheet as 'CSV UTF-8', or pass pandas.read_excel({file.name!r})."
        )
    ending = f"ends in {file.suffix!r}" if file.suffix else "has no ending"
    return SplitError(f"{file} {ending}; pass .parquet or .csv files.")


TABLES = (".parquet", ".csv")


def require_place(path: str | Path, suffixes: Sequence[str] = (), read: Sequence[str | Path | None] = ()) -> None:
    """Raise SplitError for a file with another suffix, where some are named, or whose folder is none: before any work.

    ``write_whole`` says so as well, when it is done. ``read``: what the work reads, over which nothing is written.
    """
    file = Path(path)
    if suffixes:
        _require_suffix(file, suffixes)
    for source in read if file.is_file() else ():
        files = [] if source is None else files_here(str(source)) if is_address(source) else data_files(source)
        if any(each.exists() and file.samefile(each) for each in files):
            raise SplitError(f"{file} is read as well; write to another file.")
    if not file.parent.is_dir():
        raise SplitError(f"there is no folder {file.parent}; make it, or name a file elsewhere.")


def _require_suffix(file: Path, suffixes: Sequence[str]) -> None:
    if file.suffix not in suffixes:
        raise SplitError(f"{file.name} ends in {file.suffix or 'no suffix'!r}; write to {' or '.join(suffixes)}.")


def write_whole(path: str | Path, content: Any) -> Path:
    """Write an array (.npy), an Arrow table or a stream of them (.csv or .parquet), or text to ``path``; return it.

    The file is written aside and renamed, so that a reader never sees half of it. Raises SplitError for a table with
    another suffix, and where the file cannot be written; nothing is left behind then.
    """
    file = Path(path)
    if isinstance(content, (pa.Table, Iterator)):
        _require_suffix(file, TABLES)
    # In the same folder: only within one file system is a rename at once.
    aside = file.with_name(f".writing-{os.getpid()}-{file.name}")
    try:
        if isinstance(content, str):
            aside.write_text(content, encoding="utf-8")
        elif isinstance(content, np.ndarray):
            np.save(aside, content, allow_pickle=False)
        else:
            _write_tables(aside, content if isinstance(content, Iterator) else iter([content]))
        os.replace(aside, file)
    except (OSError, pa.ArrowException) as error:
        raise not_written(file, error) from None
    finally:
        aside.unlink(missing_ok=True)
    return file


def not_written(place: str | Path, error: Exception) -> SplitError:
    """Return the error of a file or folder of which nothing stands where it was to be."""
    # Arrow's own texts repeat the path.
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
    return SplitError(f"{place} cannot be written ({reason}); nothing was changed.")


def _write_tables(file: Path, parts: Iterator[pa.Table]) -> None:
    with ExitStack() as stack:
        writer: Any = None
        for part in parts:
            if writer is None:
                opened = pa.csv.CSVWriter if file.suffix == ".csv" else partial(pq.ParquetWriter, compression="zstd")
                writer = stack.enter_context(opened(file, part.schema.remove_metadata()))
            writer.write_table(part.replace_schema_metadata(None))

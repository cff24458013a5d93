"""The one place where data are found, read and written, and held to memory: files, addresses, and frames."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from evenfold.splitters import SplitError
from evenfold.splitters.errors import (
    LOCAL,
    is_address,
    is_deployed,
    reason_of,
    redacted,
    require_no_password,
    require_readable,
)

from .aside import is_aside, write_aside
from .canonical import amount
from .frames import STREAMS, Frame, of_relation, quoted
from .source import CsvFile, CsvFiles, ParquetFiles, Source

ENDINGS = {".parquet": "Parquet", ".pq": "Parquet"} | {
    f"{ending}{packed}": "CSV" for ending in (".csv", ".tsv", ".txt") for packed in ("", ".gz")
}


def source_of(data: Any, types: Mapping[str, str] | None = None) -> Source:
    """Return ``data`` as a table that can be read; SplitError for absent files, and those of another kind, or of two.

    ``data``: a Parquet or CSV file, folder or glob, also behind ``s3://`` and other addresses that fsspec knows; a
    DuckDB table as ``duckdb:///folder/file.db#table``; a DuckDB relation; a lazy frame of polars; a DataFrame of Dask
    or Spark; any frame. ``types`` says how a CSV's text is to be understood.
    """
    if isinstance(data, Source):
        return data
    if is_address(data):
        return opened(data)
    if not isinstance(data, (str, Path)):
        return next((of for method, of in STREAMS.items() if hasattr(type(data), method)), Frame)(data)
    files = data_files(data)
    kinds = {_kind(file): file for file in reversed(files)}  # of each kind the first
    if None in kinds:
        raise SplitError(f"{kinds[None]} is no .parquet and no .csv file; pass one, or save a sheet as 'CSV UTF-8'.")
    if len(kinds) > 1:
        raise SplitError(f"{data} holds {len(files)} files, CSV and Parquet; name files of one kind.")
    if "Parquet" in kinds:
        return ParquetFiles(str(data), list(map(str, files)))
    return CsvFiles(str(data), [CsvFile(file, types or {}) for file in files])


def read_table(source: Any, columns: Iterable[str] | None = None, types: Mapping[str, str] | None = None) -> pa.Table:
    """Return ``source``, whatever ``source_of`` takes, as an Arrow table, of ``columns`` alone where some are named.

    ``types`` says how a CSV's text is to be understood. SplitError where it is absent, empty, unreadable or lacks one.
    """
    return source_of(source, types).table(columns)


def data_files(source: str | Path) -> list[Path]:
    """Return the files that a path, folder or glob stands for, sorted; SplitError where there are none."""
    if not str(source):  # which would be the working folder
        raise SplitError("'' names no file; pass a Parquet or CSV file, a folder or a glob of them.")
    path = Path(source)
    require_readable([path])  # before anything is told of what lies there or beside it
    places = [path] if path.exists() or not glob.has_magic(str(source)) else sorted(map(Path, glob.glob(str(source))))
    files: list[Path] = []
    for place in places:
        within = [file for file in sorted(place.rglob("*")) if _kind(file)] if place.is_dir() else [place]
        inside = [file for file in within if file == place or not is_aside(file.relative_to(place).as_posix())]
        if not inside:
            raise SplitError(f"the folder {place} holds no .parquet and no .csv file; pass one that does.")
        files += inside
    require_readable(files)
    if not files or not all(map(Path.exists, files)):
        names = [] if is_deployed() else sorted(file.name for file in path.parent.glob("*") if _kind(file))
        near = difflib.get_close_matches(path.name, names, n=3) or names[:5]
        hint = f"; beside it are {', '.join(near)}" if near else ""
        raise SplitError(f"there is no file {source}{hint}.")
    return files


def _kind(file: Path) -> str | None:
    """Return Parquet or CSV, by what a file's name ends in (below a .gz); None of any other."""
    return ENDINGS.get("".join(file.suffixes[-2:] if file.suffix.lower() == ".gz" else file.suffixes[-1:]).lower())


DATABASE = "duckdb://"
# A table of the file alone: neither its name nor a view of it reads another file, or a variable of this process.
CLOSED = {"enable_external_access": False, "python_enable_replacements": False, "lock_configuration": True}
OF_NAME = """select table_schema, table_name from information_schema.tables where table_catalog = current_catalog()
    and (lower(table_name) = lower(?) or lower(table_schema || '.' || table_name) = lower(?)) order by table_schema"""


def opened(address: str) -> Source:
    """Return the table behind an address: a DuckDB file's, which reads no other file, or one of Parquet objects.

    SplitError where there is none, where a deployed run may not read it, and for an address with a secret.
    """
    if not address.startswith(DATABASE):
        files, names = _listed(address)
        return ParquetFiles(address, names, files)

    def read(columns: list[str], rows: int) -> Iterator[pa.Table]:
        with _relation(address) as source:
            yield from source.batches(columns, rows)

    def count() -> int:
        with _relation(address) as source:
            return int(source.n_rows or 0)

    with _relation(address) as source:
        schema = source.schema
    return Source(address, lambda: schema, read, count)


@contextmanager
def _relation(address: str) -> Iterator[Source]:
    """Yield a table of a DuckDB file, which is open only inside the block: others may write to it."""
    import duckdb

    path, table = _file_and_table(address)
    try:
        with duckdb.connect(path, read_only=True, config=CLOSED) as database:
            matches = database.execute(OF_NAME, [table, table]).fetchall()
            if not matches:
                raise SplitError(f"{address} is no table of that file; write duckdb:///folder/file.db#table.")
            yield of_relation(database.sql(f"select * from {'.'.join(map(quoted, matches[0]))}"))
    except duckdb.Error as error:
        raise SplitError(f"{address} cannot be read ({reason_of(error)}); pass a table of a database.") from None


STATE = attrgetter("st_mtime_ns", "st_size", "st_ino")


def stamp(data: str) -> tuple[object, ...]:
    """Return what changes when a file, or one of a folder, glob or address, is written again, comes or goes.

    It is the name of the data alone where nothing says that.
    """
    try:
        if not is_address(data):
            return tuple((str(path), *STATE(path.stat())) for path in data_files(data))
        if data.startswith(DATABASE):
            return data, *STATE(Path(_file_and_table(data)[0]).stat())
        files, names = _listed(data)
        return data, *(repr(sorted(files.info(name).items(), key=str)) for name in names)
    except (SplitError, OSError):
        return (data,)


def files_of(data: Any) -> list[Path]:
    """Return the files of this machine that data are read from: none of a frame, and none of objects elsewhere."""
    if not is_address(data):
        return data_files(data) if isinstance(data, (str, Path)) else []
    if data.startswith(DATABASE):
        return [Path(_file_and_table(data)[0])]
    last = data.rpartition("::")[2]  # of a chain, as simplecache::file:///rows.parquet is one
    return [Path(name) for name in _listed(last)[1]] if last.startswith(LOCAL) else []


def from_anywhere(data: str) -> str:
    """Return a path or address that means the same in a worker with another working directory; "" is none anywhere."""
    if not is_address(data):
        return data and os.path.abspath(data)
    if not data.startswith(DATABASE):
        return data
    path, table = _place_of(data)
    return f"{DATABASE}{os.path.abspath(path)}#{table}"


def _file_and_table(address: str) -> tuple[str, str]:
    path, table = _place_of(address)
    require_readable([path])
    if not table or not os.path.exists(path):
        raise SplitError(f"{address} names no table in a file; write duckdb:///folder/file.db#table.")
    return path, table


def _place_of(address: str) -> tuple[str, str]:
    path, _, table = address.removeprefix(DATABASE).partition("#")
    return path if os.path.isabs(path) and os.path.exists(path) else path.lstrip("/"), table


def _listed(address: str) -> tuple[Any, list[str]]:
    """Return the file system of an address and the names of the objects that it stands for, sorted, listed anew."""
    import fsspec

    require_no_password(address)
    require_readable([address])
    try:
        files, path = fsspec.core.url_to_fs(address)
        files.invalidate_cache()
        places = files.glob(path) if any(mark in path for mark in "*?[") else [path]
        below = {place: files.find(place) if files.isdir(place) else [place] for place in places}
        # Once each: a ** names folders and what is in them.
        names = sorted({name for place in places for name in below[place] if not is_aside(name.removeprefix(place))})
        endings = (".parquet", ".pq")
        names = [name for name in names if len(places) == 1 == len(names) or name.lower().endswith(endings)]
        missing = [name for name in names if not files.exists(name)]
    except Exception as error:  # of botocore, aiohttp or the file system, by what went wrong
        reason = redacted(reason_of(error))
        raise SplitError(f"{address} cannot be read ({reason}); pass Parquet files.") from None
    chain, mark, last = address.rpartition("::")
    if last.startswith(LOCAL):  # a link below a root leads anywhere
        require_readable(f"{chain}{mark}{LOCAL[0]}{name}" for name in names)
    if missing or not names:
        raise SplitError(f"{address} holds no Parquet file; pass one that does.")
    return files, names


TABLES = (".parquet", ".csv")


def require_place(path: str | Path, suffixes: Sequence[str] = (), read: Sequence[str | Path | None] = ()) -> None:
    """Raise SplitError for a file with another suffix, where some are named, or whose folder is none: before any work.

    ``read``: what the work reads, over which nothing is written.
    """
    file = Path(path)
    _require_suffix(file, suffixes)
    if file.is_file() and any(each.exists() and file.samefile(each) for data in read for each in files_of(data)):
        raise SplitError(f"{file} is read as well; write to another file.")
    if not file.parent.is_dir():
        raise SplitError(f"there is no folder {file.parent}; make it, or name a file elsewhere.")


def _require_suffix(file: Path, suffixes: Sequence[str]) -> None:
    if suffixes and file.suffix not in suffixes:
        raise SplitError(f"{file.name} ends in {file.suffix or 'no suffix'!r}; write to {' or '.join(suffixes)}.")


def write_whole(path: str | Path, content: Any) -> Path:
    """Write an array (.npy), an Arrow table or a stream of them (.csv or .parquet), or text to ``path``; return it.

    No reader sees half of it. SplitError for another suffix, and where it cannot be written; nothing is left then.
    """
    file = Path(path)
    if isinstance(content, (pa.Table, Iterator)):
        _require_suffix(file, TABLES)

    def fill(aside: Path) -> None:
        if isinstance(content, str):
            aside.write_text(content, encoding="utf-8")
        elif isinstance(content, np.ndarray):
            np.save(aside, content, allow_pickle=False)
        else:
            parts = content if isinstance(content, Iterator) else iter([content])
            first = next(parts).replace_schema_metadata(None)
            new_writer = pa.csv.CSVWriter if file.suffix == ".csv" else partial(pq.ParquetWriter, compression="zstd")
            with new_writer(aside, first.schema) as writer:
                for part in chain([first], parts):
                    writer.write_table(part.replace_schema_metadata(None))

    try:
        write_aside(file, fill)
    except (OSError, pa.ArrowException) as error:
        raise not_written(file, error) from None
    return file


def not_written(place: str | Path, error: Exception) -> SplitError:
    """Return the error of a file or folder of which nothing stands where it was to be."""
    # Arrow's own texts repeat the path.
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
    return SplitError(f"{place} cannot be written ({reason}); nothing was changed.")


# What deciding takes in memory, measured at 10 million rows, as a multiple of the columns that are read.
TIMES_THE_COLUMNS = 6
TIMES_THE_TABLE = 4  # as it is read, in key order, as a frame, and as an array


class NoRoomError(SplitError):
    """A table takes more memory than there is."""


def bytes_of_memory(memory: str | int | None, parts: int = 4) -> int:
    """Return ``memory`` ("2GB", "500 MB", bytes) as bytes; of what is free one of ``parts`` where it is None."""
    if memory is None:
        return free_memory() // parts
    size = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kMGT]?)i?B?\s*", str(memory), re.IGNORECASE)
    if not size:
        raise SplitError(f"memory={memory!r}; write a size such as '2GB'.")
    powers = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    return int(float(size[1]) * 1024 ** powers[size[2].lower()])


def free_memory() -> int:
    """Return how many bytes of memory this process may still take: of the machine, or of its control group."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = [int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024]
    except (OSError, StopIteration):
        free = [int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 2]
    places = ("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
    for limit, used in places:
        try:
            root = Path("/sys/fs/cgroup")
            free.append(int((root / limit).read_text()) - int((root / used).read_text()))
        except (OSError, ValueError):  # no such group, or no limit
            continue
    return max(min(free), 0)


def fits_in_memory(data: Any, columns: Collection[str] | None = None, memory: str | int | None = None) -> bool:
    """Return whether ``columns`` (all by default) can be worked on within ``memory``; False of unknown many rows."""
    source = source_of(data)
    if source.small and memory is None:  # it is read once, and not a second time for an estimate
        return True
    rows, each = source.about_rows, source.bytes_a_row(columns or source.names)
    return rows is not None and rows * each * TIMES_THE_COLUMNS <= bytes_of_memory(memory)


def require_rows(
    n: int, bytes_a_row: int, what: str, memory: str | int | None = None, of: str = "rows", instead: str = ""
) -> None:
    """Raise NoRoomError where what is held of ``n`` rows takes more than ``memory`` (all that is free where None).

    ``of``: of what else there are as many; ``instead``: what takes less, for the sentence.
    """
    limit = bytes_of_memory(memory, parts=1)
    if n * bytes_a_row > limit:
        size, allowed = (f"{size / 2**30:.3g} GB" for size in (n * bytes_a_row, limit))
        raise NoRoomError(
            f"{what} looks at {n:,} {of} at once, which takes about {size}, and {allowed} are "
            f"{'free' if memory is None else 'allowed'}; allow more memory{instead}."
        )


def require_room(data: Any, memory: str | int | None = None, columns: Collection[str] | None = None) -> None:
    """Raise NoRoomError where ``columns`` of ``data``, all by default, would take more than ``memory`` in a model.

    A table of which only a reader to the end would know the rows, such as a lazy frame, is not judged.
    """
    source = source_of(data)
    names = [name for name in source.names if columns is None or name in columns]
    if (rows := source.about_rows) is not None:
        each, what = source.bytes_a_row(names) * TIMES_THE_TABLE, f"a model of {amount(len(names), 'column')}"
        require_rows(rows, each, what, memory, instead=", or pass fewer rows, or features")

"""Tables behind addresses: Parquet objects in a store that fsspec knows, and tables of a DuckDB file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import LOCAL, reason_of, require_no_password, require_readable, without_secrets

from .frames import of_relation, quoted
from .source import ParquetFiles, Source, Stream

DATABASE = "duckdb://"
# A table of the file alone: neither its name nor a view of it reads another file, or a variable of this process.
CLOSED = {"enable_external_access": False, "python_enable_replacements": False, "lock_configuration": True}
OF_NAME = """select table_schema, table_name from information_schema.tables where table_catalog = current_catalog()
    and (lower(table_name) = lower(?) or lower(table_schema || '.' || table_name) = lower(?)) order by table_schema"""


def opened(address: str) -> Source:
    """Return the table behind an address, no row of it read.

    ``duckdb:///folder/file.db#table`` is a table or view of a DuckDB file, which reads no other file; any other
    address is a Parquet object, or a folder or glob of them. Raises SplitError where there is none, where a deployed
    run may not read it, and for an address with a password or another secret.
    """
    if address.startswith(DATABASE):
        return _of_database(address)
    files, names = _listed(address)
    return ParquetFiles(address, names, files)


def _of_database(address: str) -> Source:
    """Return a table of a DuckDB file, which is open only while something is read: others may write to it."""
    import duckdb

    path, table = _file_and_table(address)

    @contextmanager
    def relation() -> Iterator[Source]:
        try:
            with duckdb.connect(path, read_only=True, config=CLOSED) as database:
                matches = database.execute(OF_NAME, [table, table]).fetchall()
                if not matches:
                    raise SplitError(f"{address} is no table of that file; write duckdb:///folder/file.db#table.")
                yield of_relation(database.sql(f"select * from {'.'.join(map(quoted, matches[0]))}"))
        except duckdb.Error as error:
            raise SplitError(f"{address} cannot be read ({reason_of(error)}); pass a table of a database.") from None

    def read(columns: list[str], rows: int) -> Iterator[pa.Table]:
        with relation() as source:
            yield from source.batches(columns, rows)

    def count() -> int:
        with relation() as source:
            return int(source.n_rows or 0)

    with relation() as source:
        return Stream(address, source.schema, read, count)


def version_of(address: str) -> tuple[Any, ...]:
    """Return what changes when what lies behind an address is written again, comes or goes; SplitError where absent.

    Of objects, what their store tells of them (size, time, ETag); of a database, the same of its file.
    """
    if address.startswith(DATABASE):
        status = Path(_file_and_table(address)[0]).stat()
        return address, status.st_mtime_ns, status.st_size, status.st_ino
    files, names = _listed(address)
    return address, *(repr(sorted(files.info(name).items(), key=str)) for name in names)


def files_here(address: str) -> list[Path]:
    """Return the files of this machine that an address names, none of objects elsewhere; SplitError where absent."""
    if address.startswith(DATABASE):
        return [Path(_file_and_table(address)[0])]
    last = address.rpartition("::")[2]  # of a chain, as simplecache::file:///rows.parquet is one
    return [Path(name) for name in _listed(last)[1]] if last.startswith(LOCAL) else []


def from_everywhere(address: str) -> str:
    """Return an address that means the same in another working directory: a database's file by its whole path."""
    path, mark, table = address.removeprefix(DATABASE).partition("#")
    if not address.startswith(DATABASE) or not mark:
        return address
    return f"{DATABASE}{os.path.abspath(_file(path))}#{table}"


def _file_and_table(address: str) -> tuple[str, str]:
    path, _, table = address.removeprefix(DATABASE).partition("#")
    path = _file(path)
    require_readable([path])
    if not table or not os.path.exists(path):
        raise SplitError(f"{address} names no table in a file; write duckdb:///folder/file.db#table.")
    return path, table


def _file(path: str) -> str:
    return path if os.path.isabs(path) and os.path.exists(path) else path.lstrip("/")


def is_aside(name: str) -> bool:
    """Return whether what lies at ``name`` below a folder is none of its rows: it begins with a dot or a low line.

    As Spark and pyarrow have it: a notebook's copies, the log of a table, what is being written.
    """
    return any(part.startswith((".", "_")) for part in name.split("/"))


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
        reason = without_secrets(reason_of(error))
        raise SplitError(f"{address} cannot be read ({reason}); pass Parquet files.") from None
    chain, mark, last = address.rpartition("::")
    if last.startswith(LOCAL):  # a link below a root leads anywhere
        require_readable(f"{chain}{mark}{LOCAL[0]}{name}" for name in names)
    if missing or not names:
        raise SplitError(f"{address} holds no Parquet file; pass one that does.")
    return files, names

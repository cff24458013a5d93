"""Tables that are read batch by batch where they lie: behind addresses, in DuckDB, in lazy frames and on clusters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from evenfold.manifests.tables.canonical import INDEX, one_schema, require_columns
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import LOCAL, reason_of, require_no_password, require_readable, without_secrets

DATABASE = "duckdb://"
# A table of the file alone: neither its name nor a view of it reads another file, or a variable of this process.
CLOSED = {"enable_external_access": False, "python_enable_replacements": False, "lock_configuration": True}
OF_NAME = """select table_schema, table_name from information_schema.tables where table_catalog = current_catalog()
    and (lower(table_name) = lower(?) or lower(table_schema || '.' || table_name) = lower(?)) order by table_schema"""
AT_ONCE = 16  # objects of which a store is asked for the columns: it is waiting, no work
BATCH_ROWS = 1 << 17
NUMBER_BYTES, TEXT_BYTES = 8, 24  # of a value in memory; of texts, a short one and its place


@dataclass(frozen=True)
class Source:
    """A table that can be read more than once, a batch at a time, and a column without the others.

    ``batches(columns, rows)`` yields tables of at most about ``rows`` rows (131,072 by default), in the same order each
    time. ``n_rows`` is None where only a reader to the end would know; ``about_rows`` is then a guess, where one can be
    made. ``native`` is what an engine may read better than through batches.
    """

    schema: pa.Schema
    batches: Callable[..., Iterator[pa.Table]]
    n_rows: int | None
    native: Any
    about_rows: int | None = None

    def __post_init__(self) -> None:
        # What pandas calls an index that has no name is no column.
        columns = pa.schema([field for field in self.schema if not INDEX.fullmatch(field.name)])
        object.__setattr__(self, "schema", columns)

    def bytes_of(self, columns: list[str]) -> int | None:
        """Return about how many bytes ``columns`` take in memory; None where the number of rows is not known."""
        rows = self.about_rows if self.n_rows is None else self.n_rows
        if rows is None:
            return None
        types = [self.schema.field(name).type for name in columns]
        fixed = sum(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in types)
        return rows * int(fixed * NUMBER_BYTES + (len(types) - fixed) * TEXT_BYTES)


def opened(address: str) -> Source:
    """Return the table behind an address, no row of it read.

    ``duckdb:///folder/file.db#table`` is a table or view of a DuckDB file, which reads no other file; any other
    address is a Parquet object, or a folder or glob of them. Raises SplitError where there is none, where a deployed
    run may not read it, and for an address with a password or another secret.
    """
    if address.startswith(DATABASE):
        import duckdb

        path, table = _file_and_table(address)
        try:
            database = duckdb.connect(path, read_only=True, config=CLOSED)
            matches = database.execute(OF_NAME, [table, table]).fetchall()
            if not matches:
                raise SplitError(f"{address} is no table of that file; write duckdb:///folder/file.db#table.")
            return streamed(database.sql(f"select * from {'.'.join(map(quoted, matches[0]))}"))
        except duckdb.Error as error:
            raise _unreadable(address, error) from None
    files, names = _listed(address)
    with _readable(address):
        data = pyarrow.dataset.dataset(names, filesystem=files, format="parquet")
        parts = list(data.get_fragments())
        with ThreadPoolExecutor(AT_ONCE) as readers:
            schemas = list(readers.map(lambda part: part.physical_schema, parts))  # each reads its footer once
        objects = pyarrow.dataset.FileSystemDataset(parts, one_schema(names, schemas), data.format, data.filesystem)
    return of_parquet(objects, address, partial(_readable, address))


def of_parquet(
    data: pyarrow.dataset.Dataset, name: str, readable: Callable[[], AbstractContextManager[None]]
) -> Source:
    """Return Parquet files as a table; ``readable`` says what is wrong with what is read inside it."""

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        require_columns(columns, data.schema.names)
        with readable():
            read = data.to_batches(columns=columns, batch_size=rows, batch_readahead=2, fragment_readahead=1)
            yield from (pa.Table.from_batches([batch]) for batch in read if batch.num_rows)

    n_rows = sum(part.metadata.num_rows for part in data.get_fragments())  # `count_rows` starts threads for them
    return Source(data.schema, batches, n_rows, name)


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


def stream_of(data: Any) -> Source | None:
    """Return a DuckDB relation, a lazy frame of polars or a frame of Dask or Spark as a table; None of all else."""
    verb, source_of = _STREAMS.get(type(data).__module__.partition(".")[0].lstrip("_"), ("", None))
    return source_of(data) if source_of is not None and hasattr(data, verb) else None


def slices(table: pa.Table, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """Yield a table in parts of at most ``rows`` rows."""
    return (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def _from_lazy(frame: Any) -> Source:
    schema = frame.limit(0).collect().to_arrow().schema

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        require_columns(columns, schema.names)
        chosen = frame.select(columns)
        return (part.to_arrow() for part in chosen.collect_batches(chunk_size=rows, maintain_order=True))

    return Source(schema, batches, None, frame)


def _from_dask(frame: Any) -> Source:
    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        parts = (part.compute() for part in frame[columns].partitions)
        return (piece for part in parts for piece in slices(pa.Table.from_pandas(part, preserve_index=False), rows))

    return Source(schema, batches, None, frame)


def _from_spark(frame: Any) -> Source:
    schema = frame.limit(0).toArrow().schema

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        # All of the columns at once: asked for only to see whether an integer target is a number or classes.
        yield from slices(frame.select(*(f"`{name}`" for name in columns)).toArrow(), rows)

    return Source(schema, batches, None, frame)


def streamed(relation: Any) -> Source:
    """Return a DuckDB relation as a table that is read in batches."""
    ((rows,),) = relation.aggregate("count(*)").fetchall()

    def batches(columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        require_columns(columns, schema.names)
        chosen = relation.project(", ".join(quoted(name) for name in columns))
        return (pa.Table.from_batches([batch]) for batch in chosen.to_arrow_reader(rows))

    schema = relation.limit(0).to_arrow_table().schema
    return Source(schema, batches, int(rows), relation)


_STREAMS: dict[str, tuple[str, Callable[[Any], Source]]] = {
    "duckdb": ("to_arrow_reader", streamed),
    "polars": ("collect_batches", _from_lazy),
    "dask": ("map_partitions", _from_dask),
    "pyspark": ("mapInArrow", _from_spark),
}


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


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
        raise _unreadable(address, error) from None
    chain, mark, last = address.rpartition("::")
    if last.startswith(LOCAL):  # a link below a root leads anywhere
        require_readable(f"{chain}{mark}{LOCAL[0]}{name}" for name in names)
    if missing or not names:
        raise SplitError(f"{address} holds no Parquet file; pass one that does.")
    return files, names


@contextmanager
def _readable(address: str) -> Iterator[None]:
    try:
        yield
    except SplitError:
        raise
    except (ValueError, IndexError, OSError, pa.ArrowException) as error:
        raise _unreadable(address, error) from None


def _unreadable(address: str, error: BaseException) -> SplitError:
    reason = without_secrets(reason_of(error))  # aiohttp's names the parameters that fsspec was given
    return SplitError(f"{address} cannot be read ({reason}); pass Parquet files, or a table of a database.")

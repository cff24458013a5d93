"""The one noun for data: a table that can be read more than once, whole or a batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from evenfold.manifests.tables.canonical import INDEX, one_schema, require_columns
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import reason_of, without_secrets

AT_ONCE = 16  # objects of which a store is asked for the columns: it is waiting, no work
BATCH_ROWS = 1 << 17
NUMBER_BYTES, TEXT_BYTES = 8, 24  # of a value in memory; of texts, a short one and its place


class Source(ABC):
    """A table that can be read more than once: whole, a batch at a time, and a column without the others.

    ``native`` is what an engine may read better than through batches.
    """

    native: Any

    @abstractmethod
    def _schema(self) -> pa.Schema:
        """Return the types of the columns as they are stored."""

    @abstractmethod
    def batches(self, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield ``columns`` as tables of at most about ``rows`` rows, in the same order each time."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The types of the columns; what pandas calls an index that has no name is no column."""
        return pa.schema([field for field in self._schema() if not INDEX.fullmatch(field.name)])

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows; None where only a reader to the end would know."""
        return None

    @property
    def about_rows(self) -> int | None:
        """About how many rows there are; None where nobody can guess."""
        return self.n_rows

    def settled(self) -> Source:
        """Return the table in the types that all of its values show, and not the first of them alone."""
        return self

    def table(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return ``columns``, all by default; SplitError for absent ones, and for a table without rows."""
        names = self.names if columns is None else list(dict.fromkeys(columns))
        require_columns(names, self.names)
        table = self._read(names, by_name=columns is not None)
        if not table.num_rows:
            kind = type(getattr(self.native, "native", self.native)).__name__
            raise no_rows(str(self.native) if isinstance(self.native, (str, Path)) else f"the {kind}")
        return table

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        parts = list(self.batches(names))
        return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})

    def bytes_a_row(self, columns: Iterable[str]) -> int:
        """Return about how many bytes a row of ``columns`` takes in memory."""
        names = set(columns)  # of one that is absent, or there twice, whoever reads it says so
        types = [field.type for field in self.schema if field.name in names]
        fixed = sum(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in types)
        return int(fixed * NUMBER_BYTES + (len(types) - fixed) * TEXT_BYTES)


class Stream(Source):
    """A table that is read in batches where it lies, by ``read(columns, rows)``; ``count`` returns its rows."""

    def __init__(
        self,
        native: Any,
        schema: pa.Schema,
        read: Callable[[list[str], int], Iterable[pa.Table]],
        count: Callable[[], int] | None = None,
    ) -> None:
        self.native, self._types, self._batches, self._count = native, schema, read, count

    def _schema(self) -> pa.Schema:
        return self._types

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows, where it can be asked for."""
        return None if self._count is None else self._count()

    def batches(self, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield ``columns`` as the table's own reader does."""
        require_columns(columns, self.names)
        return iter(self._batches(columns, rows))


class ParquetFiles(Source):
    """Parquet files of this machine, or objects of a file system, as one table; SplitError where columns differ."""

    def __init__(self, native: str, names: Sequence[str], files: Any = None) -> None:
        self.native = native
        self.files, self._here = list(names), files is None
        with readable(native):
            data = pyarrow.dataset.dataset(self.files, schema=pa.schema([]), format="parquet", filesystem=files)
            parts = list(data.get_fragments())
            with ThreadPoolExecutor(AT_ONCE) as readers:
                schemas = list(readers.map(lambda part: part.physical_schema, parts))  # each reads its footer once
            schema = one_schema(names, schemas)
            self._data = pyarrow.dataset.FileSystemDataset(parts, schema, data.format, data.filesystem)

    def _schema(self) -> pa.Schema:
        return self._data.schema

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows, from the footers: ``count_rows`` starts threads for them."""
        return int(sum(part.metadata.num_rows for part in self._data.get_fragments()))

    def batches(self, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield ``columns`` of one file after the other."""
        require_columns(columns, self.names)
        with readable(self.native):
            read = self._data.to_batches(columns=columns, batch_size=rows, batch_readahead=2, fragment_readahead=1)
            yield from (pa.Table.from_batches([batch]) for batch in read if batch.num_rows)

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        if not self._here:  # threads that read through Python may outlive it
            return super()._read(names, by_name)
        with readable(self.native):
            return self._data.to_table(columns=names)


@contextmanager
def readable(place: str, kind: str = "Parquet") -> Iterator[None]:
    """Raise SplitError where what is read inside the block is damaged, of other types than one another, or absent."""
    try:
        yield
    except SplitError:
        raise
    except (pa.ArrowException, ValueError, IndexError, OSError) as error:
        reason = without_secrets(reason_of(error))  # aiohttp's names the parameters that fsspec was given
        raise SplitError(f"{place} cannot be read as {kind} ({reason}); correct or replace it.") from None


def slices(table: pa.Table, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """Yield a table in parts of at most ``rows`` rows."""
    return (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def no_rows(table: str) -> SplitError:
    """Return the error of a table without rows."""
    return SplitError(f"{table} has 0 rows; 1 is needed at least, and 2 to split.")

"""The one noun for data: a table that can be read more than once; and the files that are one, Parquet and CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
from evenfold.splitters.errors import SplitError, reason_of, redacted
from numpy.typing import NDArray

from .canonical import ARROW_TYPES, INDEX, one_schema, require_columns

AT_ONCE = 16  # objects of which a store is asked for the columns: it is waiting, no work
BATCH_ROWS = 1 << 17
NUMBER_BYTES, TEXT_BYTES = 8, 24  # of a value in memory; of texts, a short one and its place

Read = Callable[[list[str], int], Iterable[pa.Table]]


class Source:
    """A table that can be read more than once, in batches where it lies; ``native`` is what engines may read better.

    Whether it is ``small`` is known without a look into it: then nobody need ask how much memory it takes.
    """

    small = False

    def __init__(
        self, native: Any, types: Callable[[], pa.Schema], read: Read, count: Callable[[], int | None] = lambda: None
    ) -> None:
        self.native, self._types, self._batches, self._count = native, types, read, count

    @cached_property
    def schema(self) -> pa.Schema:
        """The types of the columns; what pandas calls an index that has no name is no column."""
        return pa.schema([field for field in self._types() if not INDEX.fullmatch(field.name)])

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows; None where only a reader to the end would know."""
        return self._count()

    def batches(self, columns: list[str], rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield ``columns`` as tables of at most about ``rows`` rows, in the same order each time."""
        require_columns(columns, self.names)
        return iter(self._batches(columns, rows))

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
            table_of = str(self.native) if isinstance(self.native, (str, Path)) else f"the {kind}"
            raise SplitError(f"{table_of} has 0 rows; 1 is needed at least, and 2 to split.")
        return table

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        parts = list(self.batches(names))
        return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})

    def blocks(self, names: list[str], rows: NDArray[np.int64]) -> Iterator[tuple[slice, pa.Table, NDArray[np.int64]]]:
        """Yield where each batch lies, the batch, and the places in it of those ascending ``rows`` that it holds."""
        start = 0
        for block in self.batches(names):
            here = slice(start, start := start + block.num_rows)
            inside = rows[np.searchsorted(rows, here.start) : np.searchsorted(rows, here.stop)]
            yield here, block, inside - here.start

    def bytes_a_row(self, columns: Iterable[str]) -> int:
        """Return about how many bytes a row of ``columns`` takes in memory."""
        names = set(columns)  # of one that is absent, or there twice, whoever reads it says so
        types = [field.type for field in self.schema if field.name in names]
        fixed = sum(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in types)
        return int(fixed * NUMBER_BYTES + (len(types) - fixed) * TEXT_BYTES)


class ParquetFiles(Source):
    """Parquet files of this machine, or objects of a file system, as one table; SplitError where columns differ."""

    def __init__(self, native: str, names: Sequence[str], files: Any = None) -> None:
        self.files, self._here = list(names), files is None
        with readable(native):
            # What Arrow buffers ahead it holds until a file ends: only objects elsewhere are worth so much memory.
            kind = pyarrow.dataset.ParquetFileFormat(pre_buffer=not self._here)
            data = pyarrow.dataset.dataset(self.files, schema=pa.schema([]), format=kind, filesystem=files)
            parts = list(data.get_fragments())
            with ThreadPoolExecutor(AT_ONCE) as readers:
                schemas = list(readers.map(lambda part: part.physical_schema, parts))  # each reads its footer once
            schema = one_schema(names, schemas)
            self._data = pyarrow.dataset.FileSystemDataset(parts, schema, data.format, data.filesystem)
        # Rows by the footers: count_rows starts threads for them.
        super().__init__(native, lambda: schema, self._each, lambda: sum(part.metadata.num_rows for part in parts))

    def _each(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
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
        reason = redacted(reason_of(error))  # aiohttp's names the parameters that fsspec was given
        raise SplitError(f"{place} cannot be read as {kind} ({reason}); correct or replace it.") from None


def slices(table: pa.Table, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """Yield a table in parts of at most ``rows`` rows."""
    return (table.slice(start, rows) for start in range(0, table.num_rows, rows))


# CSV files as people have them: separator, decimal mark and compression are seen from the file itself.
SEPARATORS = (",", ";", "\t", "|")
COMPRESSED = {".gz": "gzip"}
SAMPLE_BYTES, SAMPLE_LINES = 65_536, 50
SMALL_BYTES = 1 << 20  # of values that are a letter and a comma each: even these would be 12 MB of texts in memory
SAMPLES = 128  # of that many bytes, by which rows are counted, and how tightly a compressed file is packed
OPENED = r'(?:\A|(?<=[,;\t|\r\n]))"(?:[^"]|"")*'  # only where a value starts: an inch mark in one is no quote
QUOTED = re.compile(OPENED + '"')
CUT = re.compile(OPENED + r"\Z")  # the quotes in which a sample ends
DAY_FIRST = [pa.csv.ISO8601, "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"]


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, sniffed once. NA, NULL, nan and their like are missing, but in columns whose ``types`` say text."""

    path: Path
    types: Mapping[str, str]

    @cached_property
    def dialect(self) -> tuple[str, str, bool]:
        """The separator, the decimal mark, and whether days stand first, from the first 64 kB of the file.

        The separator stands equally often in the header and in every line, most often if several do; what is quoted
        does not count. A decimal comma is read where whole fields look like 180,65 and none like 180.65, but where the
        comma separates; days where whole fields look like 31.12.2024 and none with two points otherwise.
        """
        with self._unpacked() as stream:
            start = stream.read(SAMPLE_BYTES)
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self._not_utf8("it is UTF-16", "utf-16")
        text = start.decode("utf-8-sig", errors="replace")
        sampled = len(text) >= SAMPLE_BYTES // 4
        bare = QUOTED.sub("", text)
        lines = [line for line in (CUT.sub("", bare) if sampled else bare).splitlines()[:SAMPLE_LINES] if line]
        if sampled:
            lines = lines[:-1] or lines  # the sample may end within a line
        counts = {mark: [line.count(mark) for line in lines] for mark in SEPARATORS}
        even = [mark for mark, per_line in counts.items() if any(per_line[:1]) and len(set(per_line)) == 1]
        separator = max(even or SEPARATORS, key=(lines or [""])[0].count)  # the first of equals: a comma
        fields = [field.strip() for line in lines[1:] for field in line.split(separator)]
        commas = any(map(re.compile(r"-?\d+,\d+").fullmatch, fields))
        points = any(map(re.compile(r"-?\d+\.\d+").fullmatch, fields))
        dotted = [field for field in fields if re.match(r"\d+\.\d+\.\d", field)]
        day = re.compile(r"\d\d?\.\d\d?\.\d{4}( \d\d?:\d\d(:\d\d)?)?")
        days = bool(dotted) and all(map(day.fullmatch, dotted))
        return separator, "," if commas and not points and separator != "," else ".", days

    @cached_property
    def names(self) -> list[str]:
        """The column names in the first line."""
        parse, _ = self._options()
        with self._unpacked() as stream:
            return list(pa.csv.open_csv(stream, parse_options=parse).schema.names)

    def read(self, fields: Iterable[pa.Field] = ()) -> pa.Table:
        """Return the whole file; ``fields`` are of the type that they say. SplitError where it is not UTF-8."""
        parse, convert = self._options(fields)
        with self._unpacked() as stream:
            table = pa.csv.read_csv(stream, parse_options=parse, convert_options=convert)
            # A name that is not UTF-8 fails when it is looked at; such text becomes binary in silence.
            kinds = zip(table.column_names, table.schema.types, strict=True)
        if odd := [name for name, kind in kinds if pa.types.is_binary(kind)]:
            raise self._not_utf8(", ".join(odd[:3]))
        self._require_closed(table.column(table.num_columns - 1))
        return _texts_missing(table, self.types)

    def batches(self, columns: Sequence[str] = (), fields: Iterable[pa.Field] = ()) -> Iterator[pa.Table]:
        """Yield ``columns``, all where none are named, a megabyte at a time; first a table without rows.

        Types are declared, of ``fields``, or those of the first megabyte; a later value of another is an ArrowInvalid.
        """
        parse, convert = self._options(fields)
        # The last value shows whether quotes are closed. Of two columns that are called alike none can be chosen.
        last = self.names[-1] if self.names.count(self.names[-1]) == 1 else None
        if columns:
            convert.include_columns = list(dict.fromkeys([*columns, *([last] if last else [])]))
            if last and last not in columns:
                convert.column_types = {**convert.column_types, last: pa.binary()}
        with self._unpacked() as stream:
            reader = pa.csv.open_csv(stream, parse_options=parse, convert_options=convert)
            for table in chain([reader.schema.empty_table()], (pa.Table.from_batches([batch]) for batch in reader)):
                yield _texts_missing(table.select(list(columns)) if columns else table, self.types)
        if last:
            self._require_closed(table.column(last))

    def texts_of_long(self, read: pa.Table, most: int | None = None) -> list[pa.Field]:
        """Return as texts the columns that were read as floats because whole numbers in them are beyond 64 bits.

        A float has 16 digits, and accounts would be one. ``most``: how many batches to look at.
        """
        names = [
            name for name, column in zip(read.schema.names, read.columns, strict=True)
            if pa.types.is_floating(column.type) and name not in self.types and read.schema.names.count(name) == 1
            and pc.any(pc.greater_equal(pc.abs(column), 2.0**63)).as_py()
        ]  # fmt: skip
        if not names:
            return []
        fields = [pa.field(name, pa.string()) for name in names]
        texts = pa.concat_tables(islice(self.batches(names, fields), most))
        return [field for field in fields if pc.all(pc.match_substring_regex(texts[field.name], r"^[+-]?\d+$")).as_py()]

    def about_rows(self) -> float:
        """Return about how many rows there are, by the lines in the first 8 MB; off by a half where packing varies."""
        packed = COMPRESSED.get(self.path.suffix.lower())
        with pa.OSFile(str(self.path)) as raw, pa.CompressedInputStream(raw, packed) if packed else raw as stream:
            parts = islice(iter(partial(stream.read, SAMPLE_BYTES), b""), SAMPLES)
            lines = sum(part.count(b"\n") for part in parts)
            return float(self.path.stat().st_size * lines / max(raw.tell(), 1) - 1)

    @contextmanager
    def _unpacked(self) -> Iterator[pa.NativeFile]:
        """Yield what the file holds, unpacked; SplitError where what is read inside the block finds no rows alike."""
        try:
            with pa.input_stream(str(self.path), compression=COMPRESSED.get(self.path.suffix.lower())) as stream:
                yield stream
        except UnicodeDecodeError:
            raise self._not_utf8("its first line") from None
        except pa.ArrowInvalid as error:
            if "UTF8" in str(error):
                raise self._not_utf8(str(error).partition("column #")[2].partition(":")[0] or "its text") from None
            if not any(words in str(error) for words in ("straddling", "Empty CSV")):  # it cannot tell the rows
                raise
            what = f"{self.path} holds no rows, a row of over 1 MB, or a quote that is never closed"
            raise SplitError(f"{what}; correct it, or pass Parquet.") from None

    def _not_utf8(self, what: str, encoding: str = "windows-1252") -> SplitError:
        name = self.path.name
        return SplitError(
            f"{self.path} is not UTF-8 ({what}); in a spreadsheet save it as 'CSV UTF-8', or convert it: "
            f"iconv -f {encoding} -t utf-8 {name} > utf-8-{name}"
        )

    def _require_closed(self, last: pa.Array | pa.ChunkedArray) -> None:
        """Raise SplitError where the last value is in quotes that are never closed: rows may be within it."""
        value = last[-1].as_py() if len(last) else None
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if not isinstance(text, str) or not re.search(r"[\r\n]", text):
            return
        tail = b""
        with self._unpacked() as stream:
            while part := stream.read(SAMPLE_BYTES):
                if part.strip():  # empty lines without number may follow
                    tail = (tail + part)[-2 * SAMPLE_BYTES :]
        tail = tail.rstrip()
        if (len(tail) - len(tail.rstrip(b'"'))) % 2 == 0:  # two stand for one within the value
            raise SplitError(f"{self.path} holds a quote that is opened and not closed where the value ends; close it.")

    def _options(self, fields: Iterable[pa.Field] = ()) -> tuple[pa.csv.ParseOptions, pa.csv.ConvertOptions]:
        separator, decimal, days = self.dialect
        # Times are left to be recognised: a declared type takes only texts with a zone, or only texts without.
        declared = {name: ARROW_TYPES[kind] for name, kind in self.types.items() if kind != "timestamp"}
        seen = {field.name: field.type for field in fields}
        convert = pa.csv.ConvertOptions(column_types=seen | declared, decimal_point=decimal)
        convert.strings_can_be_null = "text" not in self.types.values()  # else see _texts_missing
        convert.timestamp_parsers = DAY_FIRST if days else []
        # Not by a line break within quotes, wherever a block of the file ends.
        return pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True), convert


def _texts_missing(rows: pa.Table, types: Mapping[str, str]) -> pa.Table:
    """Return rows whose text misses what stands for nothing; Arrow has one list of such words for all columns."""
    if "text" not in types.values():
        return rows
    columns = list(rows.columns)
    for i, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            words = [""] if types.get(field.name) == "text" else pa.csv.ConvertOptions().null_values
            missing = pc.is_in(columns[i], value_set=pa.array(words, field.type))
            columns[i] = pc.if_else(missing, pa.scalar(None, field.type), columns[i])
    return pa.Table.from_arrays(columns, schema=rows.schema)


class CsvFiles(Source):
    """CSV files of the same columns. In batches, types that the first two megabytes do not show must be declared."""

    def __init__(self, native: str, files: Sequence[CsvFile], *, settled: bool = False) -> None:
        super().__init__(native, self._shown, self._each)
        self._files, self._whole = files, settled
        plain = [file.path.stat().st_size for file in files if file.path.suffix.lower() not in COMPRESSED]
        self.small = len(plain) == len(files) and sum(plain) <= SMALL_BYTES

    @cached_property
    def names(self) -> list[str]:
        """The names in the first line of the first file."""
        with readable(self.native, "CSV"):
            return [name for name in self._files[0].names if not INDEX.fullmatch(name)]

    def _shown(self) -> pa.Schema:
        """Return the types that the first two megabytes of each file show, or all of it."""
        if not self._whole:
            with suppress(pa.ArrowException, UnicodeDecodeError):  # all of it shows more, or says what is wrong
                heads = self._tables(lambda file, texts: pa.concat_tables(islice(file.batches((), texts), 2)), 2)
                return one_schema([file.path for file in self._files], [head.schema for head in heads])
        self._whole = True
        return self.table().schema

    @property
    def about_rows(self) -> int:
        """About how many rows there are, by the length of each file's first lines."""
        return max(int(sum(file.about_rows() for file in self._files)), 0)

    def settled(self) -> Source:
        """Return the files in the types that all values show: each use reads them whole."""
        return CsvFiles(self.native, self._files, settled=True)

    def _each(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        schema = self.schema
        if self._whole:
            yield from slices(self.table(columns), rows)
            return
        try:
            read = (table for file in self._files for table in file.batches(columns, schema))
            yield from (piece for table in read for piece in slices(table, rows))
        except pa.ArrowException as error:
            raise SplitError(
                f"{self.native} cannot be read as CSV ({reason_of(error)}); declare the column's type where the split "
                "is decided, or pass Parquet, or what evenfold.manifests.read_table(FILE, types={COLUMN: 'text'}) "
                "returns."
            ) from None

    def _tables(self, read: Callable[[CsvFile, list[pa.Field]], pa.Table], most: int | None = None) -> list[pa.Table]:
        """Return what is read of each file; once more where long numbers turn out to be texts, see texts_of_long."""
        tables = [read(file, []) for file in self._files]
        pairs = zip(self._files, tables, strict=True)
        texts = [field for file, table in pairs for field in file.texts_of_long(table, most)]
        return [read(file, texts) for file in self._files] if texts else tables

    def _read(self, names: list[str], by_name: bool) -> pa.Table:
        with readable(self.native, "CSV"):
            tables = self._tables(CsvFile.read)
            one_schema([file.path for file in self._files], [table.schema for table in tables])
            return pa.concat_tables([table.select(names) for table in tables], promote_options="permissive")

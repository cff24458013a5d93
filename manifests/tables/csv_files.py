"""CSV files as people have them: separator, decimal mark and compression are seen from the file itself."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from evenfold.splitters.deployed import shown
from evenfold.splitters.errors import SplitError

from .canonical import ARROW_TYPES, amount

SEPARATORS = (",", ";", "\t", "|")
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SAMPLE_BYTES, SAMPLE_LINES = 65_536, 50
UNPACKED_BYTES = 8_000_000  # of a compressed file, to see how tightly it is packed
OPENED = r'(?:\A|(?<=[,;\t|\r\n]))"(?:[^"]|"")*'  # only where a value starts: an inch mark in one is no quote
QUOTED = re.compile(OPENED + '"')
CUT = re.compile(OPENED + r"\Z")  # the quotes in which a sample ends
QUOTE = '"'
RAGGED = re.compile(r"Expected (\d+) columns, got (\d+): ?(.*)", re.DOTALL)  # what Arrow says of a row
DAY = re.compile(r"\d\d?\.\d\d?\.\d{4}( \d\d?:\d\d(:\d\d)?)?")
DAY_FIRST = [pa.csv.ISO8601, "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"]
WHOLE = r"^[+-]?\d+$"
LINE_BREAK = re.compile(r"[\r\n]")
UTF16 = (b"\xff\xfe", b"\xfe\xff")
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


@dataclass(frozen=True)
class Dialect:
    """The dialect of a CSV file."""

    separator: str = ","
    decimal: str = "."
    day_first: bool = False


def dialect_of(file: Path) -> Dialect:
    """Return how a CSV file is written, from its first 64 kB; the same bytes always give the same answer.

    The separator is the one that stands equally often in the header and in every line after it, most often if
    several do; what stands in quotes does not count. A decimal comma is read where whole fields look like 180,65 and
    none like 180.65; where the comma separates there is none. Days are read as in 31.12.2024 where whole fields look
    so, and none with two points looks otherwise, as versions do.
    """
    with _lines_of(file) as stream:
        start = stream.read(SAMPLE_BYTES)
    if start.startswith(UTF16):
        raise _not_utf8(file, "it is UTF-16", "utf-16")
    text = start.decode("utf-8-sig", errors="replace")
    sampled = len(text) >= SAMPLE_BYTES // 4
    bare = QUOTED.sub("", text)
    lines = [line for line in (CUT.sub("", bare) if sampled else bare).splitlines()[:SAMPLE_LINES] if line]
    if sampled:
        lines = lines[:-1] or lines  # the sample may end within a line
    counts = {mark: [line.count(mark) for line in lines] for mark in SEPARATORS}
    even = [mark for mark, per_line in counts.items() if any(per_line[:1]) and len(set(per_line)) == 1]
    separator = max(even or SEPARATORS, key=lambda mark: sum(counts[mark][:1]))  # the first of equals: a comma
    fields = [field.strip() for line in lines[1:] for field in line.split(separator)]
    commas = any(map(re.compile(r"-?\d+,\d+").fullmatch, fields))
    points = any(map(re.compile(r"-?\d+\.\d+").fullmatch, fields))
    dotted = [field for field in fields if re.match(r"\d+\.\d+\.\d", field)]
    days = bool(dotted) and all(DAY.fullmatch(field) for field in dotted)
    return Dialect(separator, "," if commas and not points and separator != "," else ".", days)


@contextmanager
def _lines_of(file: Path) -> Iterator[pa.NativeFile]:
    """Yield what a file holds, unpacked; SplitError where what is read inside the block finds no rows alike in it."""
    if file.stat().st_size == 0:
        raise SplitError(f"{file} is empty (0 bytes); it needs a line of column names and rows.")
    try:
        with pa.input_stream(str(file), compression=COMPRESSED.get(file.suffix.lower())) as stream:
            yield stream
    except pa.ArrowInvalid as error:
        what = _no_table(str(error))
        if what is None:
            raise
        raise SplitError(f"{file} {what}") from None


def _no_table(error: str) -> str | None:
    """Return what to say of a file of which Arrow cannot tell the rows; None where it can."""
    if "straddling" in error:
        return "holds a row of over 1 MB, or a quote that is opened and never closed; close it, or pass Parquet."
    if "Empty CSV" in error:
        return "holds no rows, or a quote in its first line is never closed; it needs a line of column names and rows."
    if ragged := RAGGED.search(error):
        names, values, row = ragged.groups()
        of = amount(int(values), "value")
        return f"has a row of {of} ({shown(repr(row))}) under {names} column names; correct the row."
    return None


def _not_utf8(file: Path, what: str, encoding: str = "windows-1252") -> SplitError:
    return SplitError(
        f"{file} is not UTF-8 ({what}); in a spreadsheet save it as 'CSV UTF-8', or convert it: "
        f"iconv -f {encoding} -t utf-8 {file.name} > utf-8-{file.name}"
    )


def _require_closed(file: Path, last: pa.Array | pa.ChunkedArray, n_rows: int) -> None:
    """Raise SplitError where the last value of a file is in quotes that are never closed: rows may be within it."""
    value = last[-1].as_py() if len(last) else None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not LINE_BREAK.search(text):
        return
    tail = b""
    with _lines_of(file) as stream:
        while part := stream.read(SAMPLE_BYTES):
            if part.strip():  # empty lines without number may follow
                tail = (tail + part)[-2 * SAMPLE_BYTES :]
    tail = tail.rstrip()
    if (len(tail) - len(tail.rstrip(QUOTE.encode()))) % 2 == 0:  # two stand for one within the value
        raise SplitError(
            f"{file} holds a quote that is opened in its row {n_rows:,} and not closed where the value ends; close it."
        )


def csv_names(file: Path) -> list[str]:
    """Return the column names in a CSV file's first line."""
    options, _ = _options(file, {})
    with _lines_of(file) as stream:
        return list(pa.csv.open_csv(stream, parse_options=options).schema.names)


def texts_of_long(
    file: Path, types: Mapping[str, str], read: pa.Table | pa.RecordBatch, most: int | None = None
) -> list[pa.Field]:
    """Return as texts the columns that were read as floats because whole numbers in them are beyond 64 bits.

    A float has 16 digits: accounts that differ in a later one would be one. ``most``: how many batches are looked at.
    """
    names = [
        name for name, column in zip(read.schema.names, read.columns, strict=True)
        if pa.types.is_floating(column.type) and name not in types and read.schema.names.count(name) == 1
        and pc.any(pc.greater_equal(pc.abs(column), 2.0**63)).as_py()
    ]  # fmt: skip
    fields = [pa.field(name, pa.string()) for name in names]
    texts = pa.Table.from_batches(islice(csv_batches(file, {}, names, fields), most)) if names else pa.table({})
    return [field for field in fields if pc.all(pc.match_substring_regex(texts[field.name], WHOLE)).as_py()]


def read_csv(file: Path, types: Mapping[str, str], schema: Iterable[pa.Field] = ()) -> pa.Table:
    """Return a CSV file as a table; ``types`` says how text is to be understood, ``schema`` of what type columns are.

    An empty field is missing, and so are NA, NULL, nan and the like, but for columns that are declared text.
    Raises SplitError where it is not UTF-8.
    """
    parse, convert = _options(file, types, schema)
    try:
        with _lines_of(file) as stream:
            table = pa.csv.read_csv(stream, parse_options=parse, convert_options=convert)
            table = table if convert.strings_can_be_null else _texts_missing(table, types)
            # A name that is not UTF-8 fails when it is looked at; such text becomes binary in silence.
            fields = zip(table.column_names, table.schema.types, strict=True)
            odd = [name for name, kind in fields if pa.types.is_binary(kind)]
    except UnicodeDecodeError:
        odd = ["its first line"]
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        odd = [str(error).partition("column #")[2].partition(":")[0] or "its text"]
    if odd:
        raise _not_utf8(file, ", ".join(odd[:3]))
    _require_closed(file, table.column(table.num_columns - 1), table.num_rows)
    return table


def _options(
    file: Path, types: Mapping[str, str], schema: Iterable[pa.Field] = ()
) -> tuple[pa.csv.ParseOptions, pa.csv.ConvertOptions]:
    dialect = dialect_of(file)
    # Times are left to be recognised: a declared type takes only texts with a zone, or only texts without.
    seen = {field.name: field.type for field in schema}
    declared = seen | {name: ARROW_TYPES[kind] for name, kind in types.items() if kind != "timestamp"}
    convert = pa.csv.ConvertOptions(column_types=declared, decimal_point=dialect.decimal)
    convert.strings_can_be_null = "text" not in types.values()  # else see _texts_missing
    convert.timestamp_parsers = DAY_FIRST if dialect.day_first else []
    # Not by a line break within quotes, wherever a block of the file ends.
    return pa.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True), convert


def csv_batches(
    file: Path, types: Mapping[str, str], columns: Sequence[str] = (), schema: Iterable[pa.Field] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield ``columns`` of a CSV file, all where none are named, a megabyte at a time; first a batch without rows.

    A column's type is declared, or that of ``schema``, as of other files that are read with it, or what the first
    megabyte shows; a later value of another type is an ArrowInvalid.
    """
    parse, convert = _options(file, types, schema)
    names, reading = csv_names(file) if columns else [], pa.csv.ReadOptions()
    last = names[-1] if names else None  # it shows whether quotes are closed
    if last is not None and names.count(last) > 1 and last not in columns:
        last = max(names, key=len) + " "  # a name that no other column has
        with _lines_of(file) as stream:
            start = stream.read(SAMPLE_BYTES).removeprefix(codecs.BOM_UTF8)
        empty = start[: len(start) - len(start.lstrip(b"\r\n"))].splitlines()  # above the line of names
        reading = pa.csv.ReadOptions(column_names=[*names[:-1], last], skip_rows_after_names=1 + len(empty))
    if last is not None:
        convert.include_columns = list(dict.fromkeys([*columns, last]))
        if last not in columns:
            convert.column_types = {**convert.column_types, last: pa.binary()}
    n_rows, batch = 0, None
    with _lines_of(file) as stream:
        reader = pa.csv.open_csv(stream, read_options=reading, parse_options=parse, convert_options=convert)
        first = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in reader.schema], schema=reader.schema)
        yield first.select(list(columns)) if columns else first
        for batch in reader:
            n_rows += batch.num_rows
            chosen = batch.select(list(columns)) if columns else batch
            yield chosen if convert.strings_can_be_null else _texts_missing(chosen, types)
    if batch is not None:
        _require_closed(file, batch.column(batch.num_columns - 1 if last is None else last), n_rows)


def _texts_missing(rows: Rows, types: Mapping[str, str]) -> Rows:
    """Return rows whose text misses what stands for nothing, in columns that are declared text an empty field alone.

    Arrow has one list of such words for all columns.
    """
    columns = list(rows.columns)
    for i, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            words = [""] if types.get(field.name) == "text" else pa.csv.ConvertOptions().null_values
            missing = pc.is_in(columns[i], value_set=pa.array(words, field.type))
            columns[i] = pc.if_else(missing, pa.scalar(None, field.type), columns[i])
    return cast(Rows, type(rows).from_arrays(columns, schema=rows.schema))


def about_rows(files: Sequence[Path]) -> int:
    """Return about how many rows CSV files have, compressed or not, by the length of their first lines.

    Of a compressed file its first 8 MB are decompressed, and the rest is taken to be packed as tightly; exact where
    they are all. It may be off by a half where a file shrinks to a fiftieth.
    """
    rows = 0.0
    for file in files:
        packed = COMPRESSED.get(file.suffix.lower())
        with pa.OSFile(str(file)) as raw, pa.CompressedInputStream(raw, packed) if packed else raw as stream:
            most = UNPACKED_BYTES // SAMPLE_BYTES if packed else 1
            lines = sum(part.count(b"\n") for part in islice(iter(partial(stream.read, SAMPLE_BYTES), b""), most))
            rows += file.stat().st_size * lines / max(raw.tell(), 1) - 1
    return max(int(rows), 0)

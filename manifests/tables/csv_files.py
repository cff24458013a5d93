"""CSV files as people have them: separator, decimal mark and compression are seen from the file itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from evenfold.splitters.errors import SplitError

from .canonical import ARROW_TYPES

SEPARATORS = (",", ";", "\t", "|")
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SAMPLE_BYTES, SAMPLE_LINES = 65_536, 50
UNPACKED_BYTES = 8_000_000  # of a compressed file, to see how tightly it is packed
OPENED = r'(?:\A|(?<=[,;\t|\r\n]))"(?:[^"]|"")*'  # only where a value starts: an inch mark in one is no quote
QUOTED = re.compile(OPENED + '"')
CUT = re.compile(OPENED + r"\Z")  # the quotes in which a sample ends
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    separator: str = ","
    decimal: str = "."


def _compression(file: Path) -> str | None:
    return COMPRESSED.get(file.suffix.lower())


def _sample(file: Path) -> str:
    with pa.input_stream(str(file), compression=_compression(file)) as stream:
        return str(stream.read(SAMPLE_BYTES).decode("utf-8-sig", errors="replace"))


def dialect_of(file: Path) -> Dialect:
    """Return how a CSV file is written, from its first 64 kB; the same bytes always give the same answer.

    The separator is the one that stands equally often in the header and in every line after it, most often if
    several do; what stands in quotes does not count. A decimal comma is read where whole fields look like 180,65 and
    none like 180.65; where the comma separates there is none.
    """
    text = _sample(file)
    sampled = len(text) >= SAMPLE_BYTES // 4
    bare = QUOTED.sub("", text)
    lines = [line for line in (CUT.sub("", bare) if sampled else bare).splitlines()[:SAMPLE_LINES] if line]
    if sampled:
        lines = lines[:-1] or lines  # the sample may end within a line
    separator = _separator(lines)
    fields = [field.strip() for line in lines[1:] for field in line.split(separator)]
    commas = any(re.fullmatch(r"-?\d+,\d+", field) for field in fields)
    points = any(re.fullmatch(r"-?\d+\.\d+", field) for field in fields)
    return Dialect(separator, "," if commas and not points and separator != "," else ".")


def _separator(lines: list[str]) -> str:
    if not lines:
        return ","
    counts = {mark: [line.count(mark) for line in lines] for mark in SEPARATORS}
    even = [mark for mark, per_line in counts.items() if per_line[0] and len(set(per_line)) == 1]
    return max(even or SEPARATORS, key=lambda mark: counts[mark][0])  # the first of equals: a comma


def _parse(dialect: Dialect) -> pa.csv.ParseOptions:
    """Return how lines are told apart: not by a line break within quotes, wherever a block of the file ends."""
    return pa.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True)


@contextmanager
def _lines_of(file: Path) -> Iterator[pa.NativeFile]:
    """Yield what a file holds, unpacked; SplitError where what is read inside the block finds a line without end."""
    try:
        with pa.input_stream(str(file), compression=_compression(file)) as stream:
            yield stream
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error):
            raise
        raise SplitError(
            f"{file} holds a row of over 1 MB, or a quote that is opened and never closed; close it, or pass Parquet."
        ) from None


def csv_names(file: Path) -> list[str]:
    """Return the column names in a CSV file's first line."""
    options = _parse(dialect_of(file))
    with _lines_of(file) as stream:
        return list(pa.csv.open_csv(stream, parse_options=options).schema.names)


def quoted_names(file: Path) -> set[str]:
    """Return the columns of which every value in a CSV file's first 64 kB is in quotes, but for one that is missing."""
    names, mark = csv_names(file), re.escape(dialect_of(file).separator)
    field = rf'(?:"((?:[^"]|"")*)"|([^"{mark}\r\n][^{mark}\r\n]*)|)({mark}|\r?\n)'
    quoted, bare, column, first = set[int](), set[int](), 0, True
    for found in re.finditer(field, CUT.sub("", _sample(file))):
        if not first:
            bare |= {column} if found[2] is not None else set()
            quoted |= {column} if found[1] is not None else set()
        ends = found[3] in ("\n", "\r\n")
        column, first = (0, False) if ends else (column + 1, first)
    return {name for i, name in enumerate(names) if i in quoted - bare}


def texts_in_quotes(file: Path, names: Sequence[str]) -> pa.Table:
    """Return columns of a CSV file as text: ``""`` is a text of no letters, and only nothing at all is missing."""
    convert = pa.csv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with _lines_of(file) as stream:
        return pa.csv.read_csv(stream, parse_options=_parse(dialect_of(file)), convert_options=convert)


def read_csv(file: Path, types: Mapping[str, str]) -> pa.Table:
    """Return a CSV file as a table; ``types`` says how text is to be understood.

    An empty field is missing, and so are NA, NULL, nan and the like, but for columns that are declared text.
    Raises SplitError where it is not UTF-8.
    """
    if file.stat().st_size == 0:
        raise SplitError(f"{file} is empty (0 bytes); it needs a line of column names and rows.")
    parse, convert = _options(file, types)
    try:
        with _lines_of(file) as stream:
            table = _texts_missing(pa.csv.read_csv(stream, parse_options=parse, convert_options=convert), types)
            # A name that is not UTF-8 fails when it is looked at; such text becomes binary in silence.
            named = zip(table.column_names, table.schema.types, strict=True)
            odd = [name for name, kind in named if pa.types.is_binary(kind)]
    except UnicodeDecodeError:
        odd = ["its first line"]
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        odd = [str(error).partition("column #")[2].partition(":")[0] or "its text"]
    if odd:
        raise SplitError(
            f"{file} is not UTF-8 ({', '.join(odd[:3])}); in a spreadsheet save it as 'CSV UTF-8', or convert it: "
            f"iconv -f latin1 -t utf-8 {file.name} > utf-8-{file.name}"
        )
    return table


def _options(
    file: Path, types: Mapping[str, str], schema: Iterable[pa.Field] = ()
) -> tuple[pa.csv.ParseOptions, pa.csv.ConvertOptions]:
    dialect = dialect_of(file)
    # Times are left to be recognised: a declared type takes only texts with a zone, or only texts without.
    seen = {field.name: field.type for field in schema}
    declared = seen | {name: ARROW_TYPES[known] for name, known in types.items() if known != "timestamp"}
    convert = pa.csv.ConvertOptions(column_types=declared, decimal_point=dialect.decimal)  # text: see _texts_missing
    return _parse(dialect), convert


def csv_batches(
    file: Path, types: Mapping[str, str], columns: Sequence[str] = (), schema: Iterable[pa.Field] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield ``columns`` of a CSV file, all where none are named, a megabyte at a time; first a batch without rows.

    A column's type is declared, or that of ``schema``, as of other files that are read with it, or what the first
    megabyte shows; a later value of another type is an ArrowInvalid.
    """
    parse, convert = _options(file, types, schema)
    convert.include_columns = list(columns)
    with _lines_of(file) as stream:
        reader = pa.csv.open_csv(stream, parse_options=parse, convert_options=convert)
        yield pa.RecordBatch.from_arrays([pa.array([], field.type) for field in reader.schema], schema=reader.schema)
        yield from (_texts_missing(batch, types) for batch in reader)


def _texts_missing(rows: Rows, types: Mapping[str, str]) -> Rows:
    """Return rows whose text misses what stands for nothing: Arrow has one list of such words for all columns."""
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
        lines, read = _first_lines(file)
        rows += file.stat().st_size * lines / max(read, 1) - 1
    return max(int(rows), 0)


def _first_lines(file: Path) -> tuple[int, int]:
    """Return how many lines end in the first bytes of a file, and how many bytes of it these are."""
    compression = _compression(file)
    if compression is None:
        with file.open("rb") as plain:
            sample = plain.read(SAMPLE_BYTES)
        return sample.count(b"\n"), len(sample)
    lines = 0
    with pa.OSFile(str(file)) as raw, pa.CompressedInputStream(raw, compression) as stream:
        for _ in range(UNPACKED_BYTES // SAMPLE_BYTES):
            part = stream.read(SAMPLE_BYTES)
            lines += part.count(b"\n")
            if not part:
                return lines, file.stat().st_size
        return lines, raw.tell()

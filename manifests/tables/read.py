"""The one place where data are read: files by their ending, frames through narwhals."""

from __future__ import annotations

import difflib
import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import is_address, is_deployed, reason_of, require_readable
from narwhals.exceptions import NarwhalsError

from .addresses import Source, files_here, is_aside, of_parquet, opened, slices, stream_of
from .canonical import INDEX, listed, one_schema, require_columns
from .csv_files import csv_names, read_csv, texts_of_long

ENDINGS = {".parquet": "Parquet", ".pq": "Parquet"} | {
    f"{ending}{packed}": "CSV" for ending in (".csv", ".tsv", ".txt") for packed in ("", ".gz")
}
BLOCK_ROWS = 100_000
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
# What a column of a frame may hold and Arrow has no one type for, and what to say of it where it was named.
ODD = {
    OverflowError: "holds whole numbers beyond 64 bits; make them text, as with .astype(str)",
    UnicodeEncodeError: "holds text that is no Unicode, half of a pair of surrogates; correct it, as with "
    ".str.encode('utf-8', 'replace').str.decode('utf-8')",
}
SEVERAL_TYPES = b"evenfold.several_types"  # of a column that was read as text: the sentence that says why
UNLIKE_ARROW = (*ODD, pa.ArrowException, TypeError, NarwhalsError)


def read_table(source: Any, columns: Iterable[str] | None = None, types: Mapping[str, str] | None = None) -> pa.Table:
    """Return ``source`` as an Arrow table: a Parquet or CSV file, a folder or glob of them, an address, or any frame.

    Only ``columns`` are read where a file allows it; several files must have the same columns. ``types`` says how a
    CSV's text is to be understood. A pandas index is a column where it has a name.
    Raises SplitError for a file that is absent, empty or unreadable, and for absent columns.
    """
    wanted = None if columns is None else list(dict.fromkeys(columns))
    path = isinstance(source, (str, Path))
    if path and not is_address(source):
        table = _read_path(str(source), wanted, types or {})
    elif (apart := apart_of(source)) is not None:
        names = _selected(apart.schema.names, wanted)
        # So that an address without rows still has its columns.
        empty = pa.schema([apart.schema.field(name) for name in names]).empty_table()
        table = pa.concat_tables([empty, *apart.batches(names)], promote_options="permissive")
    else:
        table = _from_frame(source, wanted)
    if table.num_rows == 0:
        raise no_rows(str(source) if path else f"the {type(getattr(source, 'native', source)).__name__}")
    return table


def apart_of(source: Any) -> Source | None:
    """Return what is read by column and batch: all that ``source_of`` takes; None of CSV and of frames in memory."""
    if isinstance(source, Source):
        return source
    if is_address(source):
        return opened(source)
    if not isinstance(source, (str, Path)):
        return stream_of(source)
    if not is_parquet(source):
        return None
    with readable(source):
        return of_parquet(parquet_data(data_files(source)), str(source), partial(readable, source))


def no_rows(table: str) -> SplitError:
    """Return the error of a table without rows."""
    return SplitError(f"{table} has 0 rows; 1 is needed at least, and 2 to split.")


def column_names(source: Any) -> list[str]:
    """Return the names of the columns that ``read_table`` finds in ``source``."""
    if (apart := apart_of(source)) is not None:
        return list(apart.schema.names)
    if not isinstance(source, (str, Path)):
        return _names(_frame(source))
    file = data_files(source)[0]
    try:
        names = csv_names(file) if _kind(file) == "CSV" else []
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        names = []
    return [name for name in names or read_table(source).column_names if not INDEX.fullmatch(name)]  # or what is wrong


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


def _read_path(path: str, columns: list[str] | None, types: Mapping[str, str]) -> pa.Table:
    files = data_files(path)
    if odd := [file for file in files if not _kind(file)]:
        raise _no_table(odd[0])
    kinds = sorted({str(_kind(file)) for file in files})
    if len(kinds) > 1:
        raise SplitError(f"{path} holds {len(files)} files, {' and '.join(kinds)}; name files of one kind.")
    with readable(path, kinds[0]):
        if kinds == ["Parquet"]:
            data = parquet_data(files)
            return data.to_table(columns=_selected(data.schema.names, columns))
        tables = [read_csv(file, types) for file in files]
        long = [field for file, table in zip(files, tables, strict=True) for field in texts_of_long(file, types, table)]
        tables = [read_csv(file, types, long) for file in files] if long else tables
        names = _selected(one_schema(files, [table.schema for table in tables]).names, columns)
        return pa.concat_tables([table.select(names) for table in tables], promote_options="permissive")


@contextmanager
def readable(path: str | Path, kind: str = "Parquet") -> Iterator[None]:
    """Raise SplitError where what is read inside the block is damaged, of other types than one another, or absent."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SplitError(f"{path} cannot be read as {kind} ({reason_of(error)}); correct or replace it.") from None
    except OSError as error:
        raise SplitError(f"{path} cannot be read ({error.strerror or error}).") from None


def parquet_data(files: list[Path]) -> pa.dataset.Dataset:
    """Return Parquet files as one set of rows, nothing read but their schemas; SplitError where columns differ."""
    schema = one_schema(files, [pq.read_schema(file) for file in files])
    return pa.dataset.dataset([str(file) for file in files], format="parquet", schema=schema)


def _selected(names: Sequence[str], wanted: list[str] | None) -> list[str]:
    columns = [name for name in names if not INDEX.fullmatch(name)]
    require_columns(columns if wanted is None else wanted, columns)
    return columns if wanted is None else wanted


def _frame(frame: Any) -> pa.Table | nw.DataFrame[Any]:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pd.DataFrame):
        levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
        frame = frame.reset_index(level=levels).reset_index(drop=True) if levels else frame.reset_index(drop=True)
        frame = _known_to_arrow(frame)
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError:
        lazy = "its .collect(), " if hasattr(frame, "collect") else ""
        raise SplitError(
            f"{type(frame).__name__} is not a table; pass {lazy}a file, or a pandas, polars or pyarrow frame."
        ) from None
    except NarwhalsError as error:
        raise _unlike(frame, error) from None


def _unlike(frame: Any, error: Exception) -> SplitError:
    """Return what to say of a frame whose columns cannot be told apart."""
    names = [str(name) for name in getattr(frame, "columns", [])]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is None:
        return SplitError(f"the columns of the frame cannot be told apart ({' '.join(str(error).split())}).")
    return SplitError(f"{names.count(twice)} columns are called {twice!r}; give each a name of its own.")


def _names(frame: pa.Table | nw.DataFrame[Any]) -> list[str]:
    try:
        names = frame.column_names if isinstance(frame, pa.Table) else frame.columns
    except NarwhalsError as error:
        raise _unlike(frame, error) from None
    return [str(name) for name in names if not INDEX.fullmatch(str(name))]


def _from_frame(frame: Any, wanted: list[str] | None) -> pa.Table:
    native = _frame(frame)
    if isinstance(native, pa.Table):
        return native.select(_selected(native.column_names, wanted))
    names = _names(native)
    chosen = _selected(names, wanted)
    try:
        # By position: pandas may have names that are not text.
        return _in_arrow(native[:, [names.index(name) for name in chosen]])
    except UNLIKE_ARROW:
        alone = [_alone(native[:, [names.index(name)]], name, wanted is None) for name in chosen]
        return pa.table([values for _, values in alone], schema=pa.schema([field for field, _ in alone]))


def _in_arrow(columns: nw.DataFrame[Any]) -> pa.Table:
    """Return columns of a frame; ArrowTypeError where one mixes times with and without a zone, which Arrow takes."""
    table = columns.to_arrow()
    for column, values in zip(columns.iter_columns(), table.columns, strict=True):
        times = column.drop_nulls() if column.dtype == nw.Object and pa.types.is_timestamp(values.type) else ()
        if len({time.tzinfo is None for time in times}) > 1:
            raise pa.ArrowTypeError("times with and without a zone")
    return table


def _kind_of_value(value: Any) -> str:
    if not isinstance(value, datetime):
        return type(value).__name__
    return f"{datetime.__name__} {'with' if value.tzinfo else 'without'} a time zone"


def _alone(column: nw.DataFrame[Any], name: str, as_text: bool) -> tuple[pa.Field, pa.ChunkedArray]:
    """Return a column of a frame; as the text of its values where they have no one type and nobody named it."""
    try:
        values = _in_arrow(column).column(0)
        return pa.field(name, values.type), values
    except UNLIKE_ARROW as error:
        kinds = Counter(map(_kind_of_value, column[:, 0].drop_nulls())).most_common()
        types = listed(f"{n:,} {kind}" for kind, n in kinds)
        why = f"holds values of several types ({types}); give it one, by .astype(str) or pandas.to_datetime"
        if len(kinds) == 1:
            why = f"cannot be read ({reason_of(error)}); give it one plain type"
        why = next((text for kind, text in ODD.items() if isinstance(error, kind)), why)
        if not as_text:
            raise SplitError(f"column {name!r} {why}.") from None
    values = column[:, 0]
    texts = [
        None if empty else str(value).encode(errors="backslashreplace").decode()
        for value, empty in zip(values, values.is_null(), strict=True)
    ]
    metadata = {SEVERAL_TYPES: f"column {name!r} {why}."} if len(kinds) > 1 else None
    return pa.field(name, pa.large_string(), metadata=metadata), pa.chunked_array([pa.array(texts, pa.large_string())])


def _known_to_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with intervals of pandas' cut and qcut as ordered categories of text, and sparse columns dense."""
    plain = frame.copy(deep=False)
    for i, kind in enumerate(frame.dtypes):
        if isinstance(kind, pd.SparseDtype):
            plain.isetitem(i, np.asarray(frame.iloc[:, i]))
        of = kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind
        if isinstance(of, pd.IntervalDtype):
            column = frame.iloc[:, i].astype("category")
            texts = column.cat.categories.astype(str).tolist()
            plain.isetitem(i, column.cat.rename_categories(texts).array)
    return plain


def blocks_of(
    source: Any, columns: Iterable[str], rows: int = BLOCK_ROWS, types: Mapping[str, str] | None = None
) -> Iterator[pa.Table]:
    """Yield ``columns`` of a source, in row order, as tables of at most ``rows`` rows.

    Of Parquet files and addresses a few blocks are in memory at a time, of anything else the whole.
    """
    wanted, apart = list(dict.fromkeys(columns)), apart_of(source)
    return slices(read_table(source, wanted, types), rows) if apart is None else apart.batches(wanted, rows)


def schema_of(source: Any) -> pa.Schema:
    """Return the names and types of a source's columns; of Parquet files and addresses without reading a row."""
    apart = apart_of(source)
    return read_table(source).schema if apart is None else apart.schema


def is_parquet(path: str | Path) -> bool:
    """Return whether every file of a path, folder or glob is Parquet by its ending; False of an address."""
    return not is_address(path) and all(_kind(file) == "Parquet" for file in data_files(path))


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

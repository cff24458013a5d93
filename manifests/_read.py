"""The one place where data are read: files by their ending, frames through narwhals."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
from evenfold.splitters import SplitError

from ._columns import ARROW_TYPES, require_columns


def read_table(source: Any, columns: Iterable[str] | None = None, types: Mapping[str, str] | None = None) -> pa.Table:
    """Return ``source`` as an Arrow table: a Parquet or CSV file, a folder or glob of them, or any frame.

    Only ``columns`` are read where a file allows it. ``types`` says how a CSV's text is to be understood.
    Raises SplitError for a file that is absent, empty or unreadable, and for absent columns.
    """
    wanted = None if columns is None else list(dict.fromkeys(columns))
    if isinstance(source, (str, Path)):
        table = _read_path(str(source), wanted, types or {})
    else:
        table = _from_frame(source)
        if wanted is not None:
            require_columns(wanted, table.column_names)
            table = table.select(wanted)
    if table.num_rows == 0:
        raise SplitError(f"{_named(source)} has 0 rows; at least 2 are needed.")
    return table


def blocks_of(source: Any, columns: Iterable[str], rows: int = 100_000) -> Iterator[pa.Table]:
    """Yield ``columns`` of a source, in row order, as tables of at most ``rows`` rows.

    Of Parquet files a few blocks are in memory at a time, of anything else the whole.
    """
    wanted = list(dict.fromkeys(columns))
    if isinstance(source, (str, Path)) and is_parquet(str(source)):
        data = pa.dataset.dataset([str(file) for file in _files(str(source))], format="parquet")
        require_columns(wanted, data.schema.names)
        batches = data.to_batches(columns=wanted, batch_size=rows, batch_readahead=2, fragment_readahead=1)
        yield from (pa.Table.from_batches([batch]) for batch in batches)
        return
    table = read_table(source, wanted)
    yield from (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def schema_of(source: Any) -> pa.Schema:
    """Return the names and types of a source's columns; of Parquet files without reading a row."""
    if isinstance(source, (str, Path)) and is_parquet(str(source)):
        return pa.dataset.dataset([str(file) for file in _files(str(source))], format="parquet").schema
    return read_table(source).schema


def is_parquet(path: str) -> bool:
    """Return whether every file of a path, folder or glob is Parquet by its ending."""
    return all(file.suffix in (".parquet", ".pq") for file in _files(path))


def _named(source: Any) -> str:
    return f"{source}" if isinstance(source, (str, Path)) else f"the {type(source).__name__}"


def _read_path(path: str, columns: list[str] | None, types: Mapping[str, str]) -> pa.Table:
    files = _files(path)
    if all(file.suffix in (".csv", ".txt") for file in files):
        return pa.concat_tables(_read_csv(file, columns, types) for file in files)
    if all(file.suffix in (".parquet", ".pq") for file in files):
        return _read_parquet(files, columns)
    raise SplitError(f"{path} ends in {files[0].suffix or 'no suffix'!r}; pass .parquet or .csv files.")


def _files(path: str) -> list[Path]:
    found = sorted(Path(p) for p in glob.glob(path)) if glob.has_magic(path) else [Path(path)]
    files = [file for place in found for file in (_inside(place) if place.is_dir() else [place])]
    if not files or not all(file.exists() for file in files):
        near = [p.name for p in Path(path).parent.glob("*") if p.suffix in (".csv", ".parquet")][:5]
        hint = f"; beside it are {', '.join(near)}" if near else ""
        raise SplitError(f"there is no file {path}{hint}.")
    return files


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet")) or sorted(folder.rglob("*.csv"))


def _read_parquet(files: list[Path], columns: list[str] | None) -> pa.Table:
    try:
        data = pa.dataset.dataset([str(file) for file in files], format="parquet")
        if columns is not None:
            require_columns(columns, data.schema.names)
        return data.to_table(columns=columns)
    except pa.ArrowInvalid as error:
        raise SplitError(f"{files[0]} cannot be read as Parquet ({error}); write it again.") from None


def _read_csv(file: Path, columns: list[str] | None, types: Mapping[str, str]) -> pa.Table:
    if file.stat().st_size == 0:
        raise SplitError(f"{file} is empty (0 bytes); it needs a line of column names and rows.")
    declared = {name: ARROW_TYPES[known] for name, known in types.items()}
    options = pa.csv.ConvertOptions(column_types=declared, strings_can_be_null=True)
    try:
        table = pa.csv.read_csv(file, convert_options=options)
    except pa.ArrowInvalid as error:
        raise SplitError(f"{file} cannot be read as CSV ({error}); correct that line.") from None
    if columns is None:
        return table
    require_columns(columns, table.column_names)
    return table.select(columns)


def _from_frame(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    try:
        return nw.from_native(frame, eager_only=True).to_arrow()
    except TypeError:
        raise SplitError(
            f"a {type(frame).__name__} is no table; pass a file, or a pandas, polars or pyarrow frame."
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SplitError(f"a column of the frame mixes types ({error}); give it one type.") from None

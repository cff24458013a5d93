"""Folds in the forms that other tools read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from evenfold.manifests.manifest import DELETED, Manifest
from evenfold.manifests.membership import Draws, Labels, Pairs, fold_column
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.manifests.tables.keys import key_values
from evenfold.manifests.tables.read import read_table, write_whole
from evenfold.splitters import SplitError
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from .warehouse import Dialect, warehouse_sql

Format = Literal["sklearn", "h2o", "spark", "nnunet", "csv", "groups", "sql"]


class Exported(BaseModel):
    """A file that was written for another tool: how many rows it has, and how it is read there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    to: Format
    rows: int
    note: str


def export(
    manifest: Manifest,
    to: Format,
    path: str | Path,
    data: Any = None,
    *,
    repeat: int = 0,
    dialect: Dialect = "duckdb",
    table: str = "rows",
) -> Exported:
    """Write the folds of ``manifest`` to ``path`` in the form that a tool reads, and return what was written.

    - ``sklearn``: .npy of the ``test_fold`` that PredefinedSplit takes, one number a row, in the order of the rows of
      ``data``, which are needed: positions mean nothing on a frame in another order.
    - ``h2o``: .csv or .parquet with the key and a column ``fold`` (0..k-1), its ``fold_column``; with data all of
      their columns beside it.
    - ``spark``: .parquet with the key and a column ``fold`` (INT32, 0..k-1), its ``foldCol`` once joined by key; with
      data all of their columns beside it.
    - ``nnunet``: splits_final.json, a list of {"train": keys, "val": keys}, keys as text.
    - ``csv``: the key (or ``row``, the position) and every column of folds, with all their codes.
    - ``groups``: .parquet or .csv of the groups and their folds, and no rows: a split that may leave the building.
      ``import_groups`` gives each row its group's fold again.
    - ``sql``: .sql in a ``dialect``, which gives each row of ``table`` its fold where the rows lie: see
      ``warehouse_sql`` for what a rule or a table of groups can say.

    Deleted rows are left out everywhere. The first three hold the folds of one ``repeat`` and have no word for rows
    that are locked or excluded; where a form cannot say what the manifest does, a SplitError says so, and nothing is
    written. The file appears whole or not at all.
    """
    writers = WRITERS | {"sql": ((".sql",), lambda manifest, *_: _for_sql(manifest, dialect, table))}
    if to not in writers:
        raise SplitError(f"there is no export to {to!r}; choose {listed(get_args(Format), most=9)}.")
    file = Path(path)
    suffixes, make = writers[to]
    if file.suffix not in suffixes:
        raise SplitError(f"{file.name} cannot be an export to {to}; name it with {' or '.join(suffixes)}.")
    content, note = make(manifest, data, repeat)
    write_whole(file, content)
    return Exported(path=str(file), to=to, rows=_kept(manifest).size, note=note)


Content = Any  # an array, an Arrow table or text


def _for_sklearn(manifest: Manifest, data: Any, repeat: int) -> tuple[Content, str]:
    folds = _folds(manifest, repeat, "sklearn", least=-1).astype(np.int64)
    _require_data(data, "sklearn")
    note = "rows in the order of the data's rows; PredefinedSplit(numpy.load(...)) tests folds 0, 1, ... and never -1."
    return _in_order_of(manifest, data, folds), note


def _require_data(data: Any, to: str) -> None:
    """Raise SplitError where no data say in what order rows stand: their positions would be those of no frame."""
    if data is None:
        raise SplitError(
            f"{to} tells rows by their position, so the frame whose order they stand in is needed; give data, or "
            "export to csv, which names rows by their key."
        )


def _in_order_of(manifest: Manifest, data: Any, folds: NDArray[Any]) -> NDArray[Any]:
    table = read_table(data, types=manifest.spec.types)
    positions = manifest.positions(table)[_kept(manifest)]
    if table.num_rows != folds.size:  # every row is known, so what is left are deleted rows that are back
        raise SplitError(f"{table.num_rows - folds.size:,} rows of the data are deleted in the manifest; extend it.")
    in_order = np.empty_like(folds)
    in_order[positions] = folds
    return in_order


def _for_h2o(manifest: Manifest, data: Any, repeat: int) -> tuple[Content, str]:
    return _with_fold(manifest, data, repeat, "h2o"), "h2o takes fold_column='fold'."


def _for_spark(manifest: Manifest, data: Any, repeat: int) -> tuple[Content, str]:
    return _with_fold(manifest, data, repeat, "spark"), "CrossValidator takes foldCol='fold'."


def _with_fold(manifest: Manifest, data: Any, repeat: int, to: str) -> pa.Table:
    folds = pa.array(_folds(manifest, repeat, to, least=0), pa.int32())
    if data is None:
        return _keys(manifest).append_column("fold", folds)
    table = read_table(data, types=manifest.spec.types)
    if "fold" in table.column_names:
        raise SplitError("the data have a column 'fold' already; rename it, or export without the data.")
    return table.take(pa.array(manifest.positions(table)[_kept(manifest)])).append_column("fold", folds)


def _for_groups(manifest: Manifest, data: Any, repeat: int) -> tuple[Content, str]:
    if manifest.group_table is None:
        raise SplitError(f"{manifest.name} {manifest.version} keeps no groups whole, so its folds are those of rows.")
    names = [name for name in manifest.group_table.column_names if name == "group" or name.startswith("fold")]
    return manifest.group_table.select(names), f"{amount(manifest.group_table.num_rows, 'group')} and no rows."


def _for_nnunet(manifest: Manifest, data: Any, repeat: int) -> tuple[Content, str]:
    if isinstance(manifest.membership, Draws):
        raise SplitError(f"nnunet has no word for {amount(manifest.n_splits, 'draw')}; export folds, parts or pairs.")
    keys = np.arange(manifest.n) if manifest.keys is None else key_values(manifest.keys)
    names = keys.astype(str).astype(object)
    splits = [{"train": names[train].tolist(), "val": names[test].tolist()} for train, test in manifest.pairs()]
    note = "nnU-Net reads splits_final.json in its folder of preprocessed data."
    return json.dumps(splits, indent=1, ensure_ascii=False), f"{amount(len(splits), 'split')}; {note}"


def _for_csv(manifest: Manifest, data: Any, repeat: int) -> tuple[Content, str]:
    labels, table, kept = _labels(manifest, "csv"), _keys(manifest), _kept(manifest)
    for repeat in range(labels.n_repeats):
        table = table.append_column(fold_column(repeat), pa.array(labels.column(repeat)[kept]))
    return table, "0 and above: tested in that fold; -1 never tested, -2 locked, -3 excluded."


def _for_sql(manifest: Manifest, dialect: Dialect, table: str) -> tuple[Content, str]:
    return warehouse_sql(manifest, dialect, table), f"{dialect} SQL; its last statement selects the rows with folds."


def _folds(manifest: Manifest, repeat: int, to: str, least: int) -> NDArray[Any]:
    """Return the fold of every row that is kept; SplitError where a code is below ``least``."""
    labels = _labels(manifest, to)
    if not 0 <= repeat < labels.n_repeats:
        raise SplitError(f"there is no repeat {repeat}; choose 0 to {labels.n_repeats - 1}.")
    folds = labels.column(repeat)[_kept(manifest)]
    unfit = folds[folds < least]
    if unfit.size:
        which = listed(f"{labels.code_name(code)} ({code})" for code in np.unique(unfit)[::-1].tolist())
        raise SplitError(
            f"{to} has no word for {amount(unfit.size, 'row')} {which}; it would train on or test them. Export to csv, "
            "and pass on the rows with a fold of 0 or more."
        )
    return np.asarray(folds)


def _labels(manifest: Manifest, to: str) -> Labels:
    """Return the folds in use; SplitError where the manifest holds none."""
    if isinstance(manifest.in_use, Labels):
        return manifest.in_use
    remedy = "export to nnunet" if isinstance(manifest.in_use, Pairs) else "use a split into folds"
    title = f"{manifest.name} {manifest.version}"
    raise SplitError(f"{to} takes one fold a row, and {title} holds {manifest.kind}; {remedy}.")


def _kept(manifest: Manifest) -> NDArray[np.int64]:
    return np.flatnonzero(manifest.status != DELETED)


def _keys(manifest: Manifest) -> pa.Table:
    keys = manifest.keys if manifest.keys is not None else pa.table({"row": np.arange(manifest.n)})
    return keys.take(pa.array(_kept(manifest)))


WRITERS: dict[str, tuple[tuple[str, ...], Callable[[Manifest, Any, int], tuple[Content, str]]]] = {
    "sklearn": ((".npy",), _for_sklearn),
    "h2o": ((".csv", ".parquet"), _for_h2o),
    "spark": ((".parquet",), _for_spark),
    "nnunet": ((".json",), _for_nnunet),
    "csv": ((".csv",), _for_csv),
    "groups": ((".parquet", ".csv"), _for_groups),
}


def openml_view(manifest: Manifest, name: str = "openml_splits") -> str:
    """Return DuckDB SQL that makes a view with the columns ``type``, ``rowid``, ``repeat`` and ``fold``.

    One row for each side that a row of the data is on: type is TRAIN or TEST, rowid its key (several columns joined
    by '|'; the position where there is no key), repeat and fold count from 0, as in OpenML's files of splits. The
    view reads the Parquet files where they lie; rows that are deleted, quarantined, locked or excluded are in neither
    type. Raises SplitError for draws, which are made anew and not stored, and for a manifest that was not written.
    Source: OpenML's documentation of task splits (columns type, rowid, repeat, fold).
    """
    membership = manifest.membership
    if isinstance(membership, Draws):
        raise SplitError("draws are made anew from their seed, so no file holds them; use as_cv.")
    if manifest.uri is None:
        raise SplitError("the manifest lies nowhere yet; write it with write_manifest, and read it from there.")
    folder = Path(manifest.uri).absolute()
    tables = [_assigned(manifest, folder), *_in_use(manifest, folder)]
    sides = _label_sides(membership) if isinstance(membership, Labels) else _pair_sides(folder)
    return f"CREATE OR REPLACE VIEW {_name(name)} AS\nWITH " + ",\n".join(tables) + f"\n{sides};\n"


def _assigned(manifest: Manifest, folder: Path) -> str:
    files = [folder / f"assignments-{generation:04d}.parquet" for generation in range(manifest.generation + 1)]
    key = _key(manifest)
    rank = f"row_number() OVER (ORDER BY {', '.join(key)}) - 1" if key else "file_row_number"
    rowid = f"concat_ws('|', {', '.join(key)})" if len(key) > 1 else key[0] if key else "file_row_number"
    read = f"read_parquet([{', '.join(map(_text, files))}], file_row_number = true)"
    return f"assigned AS (SELECT *, {rank} AS _rank, {rowid} AS _rowid FROM {read})"


def _in_use(manifest: Manifest, folder: Path) -> list[str]:
    """Return the tables of the newest status of each row, and of the rows whose status is active."""
    generations = sorted({change.generation for change in manifest.changes})
    if not generations:
        return ["in_use AS (SELECT * FROM assigned)"]
    files = [
        f"SELECT *, {g} * 10000000000 + file_row_number AS _turn "
        f"FROM read_parquet({_text(folder / f'status-{g:04d}.parquet')}, file_row_number = true)"
        for g in generations
    ]
    key = ", ".join(_key(manifest))
    newest = f"SELECT {key}, arg_max(status, _turn) AS _status FROM ({' UNION ALL '.join(files)}) GROUP BY {key}"
    kept = f"SELECT * FROM assigned LEFT JOIN newest USING ({key}) WHERE coalesce(_status, 0) = 0"
    return [f"newest AS ({newest})", f"in_use AS ({kept})"]


def _label_sides(labels: Labels) -> str:
    columns = [f"SELECT _rowid, {r} AS repeat, {fold_column(r)} AS code" for r in range(labels.n_repeats)]
    placed = " UNION ALL ".join(f"{column} FROM in_use" for column in columns)
    codes = str(labels.tested)  # a list of parts, or Python's and DuckDB's range of folds
    folds = f"SELECT unnest(range(len({codes}))) AS fold, unnest({codes}) AS tested"
    return (
        "SELECT CASE WHEN code = tested THEN 'TEST' ELSE 'TRAIN' END AS type, _rowid AS rowid, repeat, fold\n"
        f"FROM ({placed}), ({folds})\nWHERE code = tested OR code {'=' if labels.parts else '>='} -1"
    )


def _pair_sides(folder: Path) -> str:
    return (
        "SELECT CASE WHEN role = 1 THEN 'TEST' ELSE 'TRAIN' END AS type, _rowid AS rowid, 0 AS repeat, split AS fold\n"
        f"FROM read_parquet({_text(folder / 'splits.parquet')}) JOIN in_use ON position = _rank"
    )


def _key(manifest: Manifest) -> list[str]:
    return [] if manifest.keys is None else [_name(name) for name in manifest.keys.column_names]


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def join_rows(manifest: Manifest, data: Any, fold: int, role: Literal["train", "test"], repeat: int = 0) -> pa.Table:
    """Return the rows of ``data`` (a file or a frame) that ``fold`` trains on or tests, in key order.

    ``fold`` counts from 0, as do draws and pairs; of parts there is a fold for each part that is tested (validation,
    or test beside train alone). A row that a bootstrap draws twice is there twice. Locked rows are in neither role.
    Raises SplitError for a fold, role or repeat that there is not, and where the data are not those of the manifest.
    """
    if role not in ("train", "test"):
        raise SplitError(f"there is no role {role!r}; choose 'train' or 'test'.")
    table = read_table(data, types=manifest.spec.types)
    return manifest.train_test(table, fold, repeat)[role == "test"]

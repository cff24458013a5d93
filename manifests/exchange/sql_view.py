"""The manifest's own Parquet files as a view in OpenML's columns, for DuckDB."""

from __future__ import annotations

from pathlib import Path

from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import Draws, Labels, fold_column
from evenfold.manifests.tables.addresses import quoted
from evenfold.splitters import SplitError

ROW = "file_row_number"  # DuckDB's own name of a row's place in its file


def openml_view(manifest: Manifest, name: str = "openml_splits") -> str:
    """Return DuckDB SQL that makes a view with the columns ``type``, ``rowid``, ``repeat`` and ``fold``.

    One row for each side that a row of the data is on: type is TRAIN or TEST, rowid its key (several columns joined
    by '|'; the position where there is no key), repeat and fold count from 0, as in OpenML's files of splits. The
    view reads the Parquet files where they lie; rows that are deleted, quarantined, locked or excluded are in neither
    type. Raises SplitError for draws, which are made anew and not stored, for a manifest that was not written, and for
    one that has grown whose key is called ``file_row_number``, as DuckDB calls what it reads.
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
    return f"CREATE OR REPLACE VIEW {quoted(name)} AS\nWITH " + ",\n".join(tables) + f"\n{sides};\n"


def _assigned(manifest: Manifest, folder: Path) -> str:
    files = [folder / f"assignments-{generation:04d}.parquet" for generation in range(manifest.generation + 1)]
    key, repeats = _key(manifest), manifest.membership.n_repeats if isinstance(manifest.membership, Labels) else 0
    rank = f"row_number() OVER (ORDER BY {', '.join(key)}) - 1" if key else ROW
    rowid = f"concat_ws('|', {', '.join(key)})" if len(key) > 1 else key[0] if key else ROW
    columns = [f"{rank} AS _rank", f"{rowid} AS _rowid", *_numbered(key), *map(fold_column, range(repeats))]
    read = f"read_parquet([{', '.join(map(_text, files))}]{'' if key else f', {ROW} = true'})"
    return f"assigned AS (SELECT {', '.join(columns)} FROM {read})"


def _numbered(key: list[str]) -> list[str]:
    """Return the key columns under names of the view's own, which those of the manifest may be called like."""
    return [f"{name} AS _key{i}" for i, name in enumerate(key)]


def _in_use(manifest: Manifest, folder: Path) -> list[str]:
    """Return the tables of the newest status of each row, and of the rows whose status is active."""
    generations = sorted({change.generation for change in manifest.changes})
    if not generations:
        return ["in_use AS (SELECT * FROM assigned)"]
    names = _key(manifest)
    if quoted(ROW) in map(str.lower, names):
        raise SplitError(
            f"the key column {ROW!r} cannot be read beside changes of rows, for DuckDB gives that name to a row's "
            "place in its file; export to openml, or use as_cv."
        )
    files = [
        f"SELECT {', '.join(_numbered(names))}, status AS _status, {g} * 10000000000 + {ROW} AS _turn "
        f"FROM read_parquet({_text(folder / f'status-{g:04d}.parquet')}, {ROW} = true)"
        for g in generations
    ]
    key = ", ".join(f"_key{i}" for i in range(len(names)))
    newest = f"SELECT {key}, arg_max(_status, _turn) AS _status FROM ({' UNION ALL '.join(files)}) GROUP BY {key}"
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
    return [] if manifest.keys is None else [quoted(name) for name in manifest.keys.column_names]


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
